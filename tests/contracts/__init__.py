"""Contracts of every strategy, policy and device: base classes of tests, and histories to run policies through."""

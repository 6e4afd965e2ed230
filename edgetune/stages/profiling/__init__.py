"""Measuring: workloads on devices become a profile table."""

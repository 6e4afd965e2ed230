"""Figures of searches: step by step, and the front between time and power."""

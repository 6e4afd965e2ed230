"""Figures of searches: step by step, the front between time and power, and the way through the modes."""

"""Figures of timelines: what ran and what was held, and how long requests took by policy."""

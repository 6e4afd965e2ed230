"""Figures of runs: latency by engine, and everything over time."""

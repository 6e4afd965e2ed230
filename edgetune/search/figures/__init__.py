"""Figures of searches: step by step, the front between time and power, and the way through the modes."""

from edgetune.search.figures.steps import trace_figure

__all__ = ["trace_figure"]

"""Figures of searches: step by step, the front between time and power, and the way through the modes."""

from edgetune.search.figures.front import front_figure
from edgetune.search.figures.steps import trace_figure
from edgetune.search.figures.trajectory import trajectory_figure

__all__ = ["front_figure", "trace_figure", "trajectory_figure"]

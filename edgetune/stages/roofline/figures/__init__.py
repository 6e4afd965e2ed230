"""Figures of rooflines: time and energy over intensity, and a page."""

from edgetune.stages.roofline.figures.page import write_rooflines
from edgetune.stages.roofline.figures.points import PlacedNetwork
from edgetune.stages.roofline.figures.roofs import roof_figure

__all__ = ["PlacedNetwork", "roof_figure", "write_rooflines"]

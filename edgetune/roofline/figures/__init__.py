"""Figures of rooflines: time and energy over intensity, intensity over batches, constants over clocks, a page."""

from edgetune.roofline.figures.batches import batch_figure
from edgetune.roofline.figures.clocks import clock_figure
from edgetune.roofline.figures.page import roofline_page
from edgetune.roofline.figures.points import PlacedNetwork
from edgetune.roofline.figures.roofs import roof_figure

__all__ = ["PlacedNetwork", "batch_figure", "clock_figure", "roof_figure", "roofline_page"]

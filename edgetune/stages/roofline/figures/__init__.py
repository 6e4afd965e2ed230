"""Figures of rooflines: time and energy over intensity, intensity over batches, constants over clocks, a page."""

from edgetune.stages.roofline.figures.batches import batch_figure
from edgetune.stages.roofline.figures.clocks import clock_figure
from edgetune.stages.roofline.figures.page import write_rooflines
from edgetune.stages.roofline.figures.points import PlacedNetwork
from edgetune.stages.roofline.figures.roofs import roof_figure

__all__ = ["PlacedNetwork", "batch_figure", "clock_figure", "roof_figure", "write_rooflines"]

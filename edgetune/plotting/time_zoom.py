"""Axes of time that a page can zoom into."""

from __future__ import annotations

from typing import Any


def zoom_time(axes: Any) -> None:
    """Let a page zoom into the horizontal axis of ``axes`` and of those that share it, a linear one of time."""
    for each in axes.get_shared_x_axes().get_siblings(axes):
        each.edgetune_zooms = True


def zooms(axes: Any) -> bool:
    """Return whether a page can zoom into the time of ``axes``."""
    return getattr(axes, "edgetune_zooms", False)

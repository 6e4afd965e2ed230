"""Where launch costs of GPUs are kept."""

from __future__ import annotations

from pathlib import Path

from edgetune.workflows.cache_folder import cache_folder


def costs_folder() -> Path:
    """Return the folder that ``calibrate`` writes to unless told otherwise, and ``run`` reads."""
    return cache_folder("launch_costs")

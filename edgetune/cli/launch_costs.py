"""Where launch costs of GPUs are kept."""

from __future__ import annotations

import os
from pathlib import Path


def costs_folder() -> Path:
    """Return the folder that ``calibrate`` writes to unless told otherwise, and ``run`` reads."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "edgetune" / "launch_costs"

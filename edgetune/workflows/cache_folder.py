"""Where the command keeps what it would have to make again."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder(kind: str) -> Path:
    """Return the folder for one kind of things (XDG Base Directory Specification, ``XDG_CACHE_HOME``)."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "edgetune" / kind


def compiled_folder() -> Path:
    """Return the folder of compiled kernels."""
    return cache_folder("compiled")


def prepared_folder() -> Path:
    """Return where networks are prepared that nobody named a folder for."""
    return cache_folder("prepared")

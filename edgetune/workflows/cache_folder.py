"""The cache folders of compiled kernels and prepared networks."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder(kind: str) -> Path:
    """Return the cache folder of one kind of files (XDG Base Directory Specification, ``XDG_CACHE_HOME``)."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "edgetune" / kind


def compiled_folder() -> Path:
    """Return the folder of compiled kernels."""
    return cache_folder("compiled")


def prepared_folder() -> Path:
    """Return the default folder of prepared networks."""
    return cache_folder("prepared")

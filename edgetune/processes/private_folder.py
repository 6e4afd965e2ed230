"""Folders of one user alone, in places where every user may make files."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path


def temporary_folder() -> Path:
    """Return this user's folder in the one for temporary files; ``make_private`` makes it."""
    try:
        return Path(tempfile.gettempdir()) / f"edgetune-{os.getuid()}"
    except OSError:
        return Path(os.devnull, "edgetune")  # nowhere: nothing can be made there


def make_private(folder: Path) -> bool:
    """Make a folder that only this user can enter; return whether it is one, and not what another user has put there.

    Raises:
        OSError: it cannot be made.
    """
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022

"""Files of the board's own system, outside sysfs: configurations and states, often links to one file of many."""

from __future__ import annotations

import errno
import os
from pathlib import Path, PurePosixPath

_MAX_LINKS = 40
"""Links followed before a loop is assumed. Source: MAXSYMLINKS, Linux include/linux/namei.h."""


def follow(root: Path, path: str) -> str:
    """Return where a file really is, following links as if ``root`` were ``/``.

    ``/etc/nvpmodel.conf`` is a link to the configuration of this very module; its name says which.

    Args:
        root: Where the file system starts.
        path: Relative to it.

    Raises:
        OSError: the file is missing, or its links form a loop.
    """
    for _ in range(_MAX_LINKS):
        os.lstat(root / path)
        if not (root / path).is_symlink():
            return path
        target = PurePosixPath("/", path).parent / os.readlink(root / path)
        path = os.path.normpath(target).lstrip("/")
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)


def read_bytes(root: Path, path: str) -> bytes:
    """Return a file as it is, its links followed below ``root``.

    Raises:
        OSError: it is missing or may not be read.
    """
    return (root / follow(root, path)).read_bytes()


def read_text(root: Path, path: str) -> str | None:
    """Return a file's text without the white space and NULs around it, or ``None`` when it cannot be read."""
    try:
        return read_bytes(root, path).decode(errors="replace").strip("\0 \t\r\n")
    except OSError:
        return None

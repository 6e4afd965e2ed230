"""Open files beneath a folder without following a link out of it, for privileged code in other users' folders.

``make_private`` makes a folder for one user in places where every user may create files; ``sync`` flushes one.
"""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from pathlib import Path, PurePosixPath


def open_beneath(root: Path, path: str, flags: int, mode: int = 0, *, links: bool = False) -> int:
    """Open ``path`` beneath the folder ``root`` and return the descriptor, which child programs do not inherit.

    Each folder of the path is opened relative to the one before, never through a link.

    Args:
        root: The folder; links on the way to it are followed.
        path: Relative to it.
        flags, mode: As of open(2).
        links: First resolve links that stay beneath ``root``, as in sysfs; otherwise a link is an error.

    Raises:
        OSError: the file cannot be opened: ``ELOOP`` at a link, ``EXDEV`` where the path leads out of the folder.
    """
    relative = os.path.relpath(os.path.realpath(root / path), os.path.realpath(root)) if links else path
    parts = PurePosixPath(relative).parts
    if not parts or ".." in parts or parts[0] == "/":
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
    folder = os.open(root, os.O_PATH | os.O_DIRECTORY)
    try:
        for part in parts[:-1]:
            deeper = os.open(part, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = deeper
        return os.open(parts[-1], flags | os.O_NOFOLLOW, mode, dir_fd=folder)
    finally:
        os.close(folder)


def temporary_folder() -> Path:
    """Return the path of this user's folder for temporary files; ``make_private`` makes it."""
    try:
        return Path(tempfile.gettempdir()) / f"edgetune-{os.getuid()}"
    except OSError:
        return Path(os.devnull, "edgetune")  # nothing can be created there


def make_private(folder: Path) -> bool:
    """Make a folder that only this user can enter; return false if something of another user exists there.

    Raises:
        OSError: the folder cannot be made.
    """
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022


def sync(path: Path) -> None:
    """Flush a file or a folder to the disk.

    Raises:
        OSError: it cannot be opened, or the disk fails.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

"""Open files beneath a folder without following a link out of it, for privileged code in other users' folders.

``openat2`` does so in one step (Linux 5.6). Elsewhere each folder of the path is opened relative to the one before,
never through a link.

``make_private`` makes a folder for one user in places where every user may create files; ``sync`` flushes one.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import tempfile
from pathlib import Path, PurePosixPath

_OPENAT2 = 437
"""System call number on all Linux architectures except Alpha."""
_NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 0x02, 0x04, 0x08  # <linux/openat2.h>
_ATTEMPTS = 8
"""The kernel returns EAGAIN when a folder is renamed during an attempt."""


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def open_beneath(root: Path, path: str, flags: int, mode: int = 0, *, links: bool = False) -> int:
    """Open ``path`` beneath the folder ``root`` and return the descriptor, which child programs do not inherit.

    Args:
        root: The folder; links on the way to it are followed.
        path: Relative to it.
        flags, mode: As of open(2).
        links: Follow links that stay beneath ``root``, as in sysfs; otherwise a link is an error.

    Raises:
        OSError: the file cannot be opened: ``ELOOP`` at a link, ``EXDEV`` where the path leads out of the folder.
    """
    anchor = os.open(root, os.O_PATH | os.O_DIRECTORY)
    try:
        try:
            return _openat2(anchor, path, flags, mode, links=links)
        except OSError as error:
            if error.errno not in (errno.ENOSYS, errno.EPERM):  # EPERM: a container that blocks the unknown call
                raise
        return _walked(anchor, _without_links(root, path) if links else path, flags, mode)
    finally:
        os.close(anchor)


def _openat2(anchor: int, path: str, flags: int, mode: int, *, links: bool) -> int:
    how = _OpenHow(
        flags | os.O_CLOEXEC,
        mode if flags & os.O_CREAT else 0,
        _BENEATH | _NO_MAGICLINKS | (0 if links else _NO_SYMLINKS),
    )
    library = ctypes.CDLL(None, use_errno=True)
    for attempt in range(_ATTEMPTS):
        descriptor: int = library.syscall(
            ctypes.c_long(_OPENAT2), anchor, os.fsencode(path), ctypes.byref(how), ctypes.c_size_t(ctypes.sizeof(how))
        )
        if descriptor >= 0:
            return descriptor
        code = ctypes.get_errno()
        if code != errno.EAGAIN or attempt == _ATTEMPTS - 1:
            break
    raise OSError(code, os.strerror(code), path)


def _without_links(root: Path, path: str) -> str:
    """Return the path with its links resolved, relative to the folder.

    Raises:
        OSError: the path leads out of the folder.
    """
    top, found = os.path.realpath(root), os.path.realpath(root / path)
    if found != top and not found.startswith(f"{top.rstrip('/')}/"):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
    return os.path.relpath(found, top)


def _walked(anchor: int, path: str, flags: int, mode: int) -> int:
    parts = PurePosixPath(path).parts
    if not parts or ".." in parts or parts[0] == "/":
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
    folder = os.dup(anchor)
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

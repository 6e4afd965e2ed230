"""All system calls that change an output file or its folder, so that a test can make any of them fail.

The functions do what their namesakes in ``os`` do. Other modules call them as ``file_operations.write(...)``, through
the module, so that a replaced function takes effect everywhere.
"""

import ctypes
import errno
import os
from pathlib import Path

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


def create(path: Path, flags: int, mode: int) -> int:
    """Open a file, and create it if ``flags`` say so."""
    return os.open(path, flags, mode)


def write(descriptor: int, data: memoryview) -> int:
    """Write some bytes and return how many."""
    return os.write(descriptor, data)


def sync(descriptor: int) -> None:
    """Flush a file or a folder to the disk."""
    os.fsync(descriptor)


def sync_path(path: Path) -> None:
    """Flush the file or folder at a path to the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        sync(descriptor)
    finally:
        os.close(descriptor)


def truncate(descriptor: int, size_bytes: int) -> None:
    """Truncate a file."""
    os.ftruncate(descriptor, size_bytes)


def change_mode(descriptor: int, mode: int) -> None:
    """Set the permissions of an open file."""
    os.fchmod(descriptor, mode)


def rename(source: Path, target: Path) -> None:
    """Rename a file, replacing a file of the new name."""
    os.rename(source, target)


def make_folder(path: Path, mode: int) -> None:
    """Make a folder."""
    os.mkdir(path, mode)


def put_folder(source: Path, target: Path) -> None:
    """Exchange the names of the folders ``source`` and ``target`` atomically; without a ``target``, rename ``source``.

    A file system that cannot exchange names needs two steps. A crash between them leaves the older folder beside the
    target, as the name of ``source`` with ``.old`` appended.
    """
    if not os.path.lexists(target):
        os.rename(source, target)
        return
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is not None:
        names = os.fsencode(source), os.fsencode(target)
        if renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE) == 0:
            return
        code = ctypes.get_errno()
        if code not in (errno.EINVAL, errno.ENOSYS):
            raise OSError(code, os.strerror(code), str(target))
    aside = source.with_name(f"{source.name}.old")
    os.rename(target, aside)
    try:
        os.rename(source, target)
    except BaseException:
        os.rename(aside, target)
        raise
    os.rename(aside, source)

"""The folder of an output file, held open so that later changes of its path cannot redirect a write."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from edgetune.artifacts import file_operations
from edgetune.processes.file_lock import try_lock

_MOST_LINKS = 40
_PREFIX, _SUFFIX = ".edgetune-", ".partial"
_LOCK_WITHIN_S = 2.0
_CREATE = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Place:
    """The resolved place of a path.

    Args:
        folder: Descriptor of the folder (``O_PATH``).
        name: Name of the file in it, which is not a link.
    """

    folder: int
    name: str


def locate(path: Path) -> Place:
    """Resolve a path to a folder and a name in it, one component at a time.

    Root follows only links of root, because the owner of a folder could otherwise make root write anywhere.

    Raises:
        OSError: a folder is missing, links form a cycle, or root meets a link of another user (``EPERM``).
    """
    place = _walk(path, folders=False)
    if not place.name:
        os.close(place.folder)
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    return place


def open_folder(path: Path) -> int:
    """Return the descriptor (``O_PATH``) of a folder; see ``locate``.

    Raises:
        OSError: it does not exist, ...
    """
    return _walk(path, folders=True).folder


def _walk(path: Path, *, folders: bool) -> Place:
    """Resolve a path; with ``folders`` the last component is a folder too, and the name is empty."""
    left, links = [part for part in reversed(str(Path.cwd() / path).split("/")) if part], 0
    folder = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        while left:
            part = left.pop()
            target = _link_target(part, folder)
            if target is not None:
                links += 1
                if links > _MOST_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
                left += [each for each in reversed(target.split("/")) if each]
                part = "/" if target.startswith("/") else "."
            elif not (left or folders):
                return Place(folder, part)
            inner = os.open(part, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            os.close(folder)
            folder = inner
    except BaseException:
        os.close(folder)
        raise
    return Place(folder, "")


def _link_target(name: str, folder: int) -> str | None:
    """Return the target of a link; ``None`` if the name is not a link or does not exist."""
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISLNK(found.st_mode):
        return None
    if os.geteuid() == 0 and found.st_uid != 0:
        raise PermissionError(errno.EPERM, f"{name} is a link of another user, which root does not follow", name)
    return os.readlink(name, dir_fd=folder)


def partial_name(prefix: str = _PREFIX, suffix: str = _SUFFIX) -> str:
    """Return a random name for a temporary file."""
    return f"{prefix}{secrets.token_hex(8)}{suffix}"


def make_partial(folder: int) -> tuple[str, int]:
    """Create a locked, empty file of a random name; return its name and descriptor.

    Raises:
        OSError: it cannot be created.
    """
    while True:
        name = partial_name()
        descriptor = file_operations.create(name, os.O_WRONLY | _CREATE, 0o666, folder=folder)
        if try_lock(descriptor) and identity_at(name, folder) == Identity.of(os.fstat(descriptor)):
            return name, descriptor
        os.close(descriptor)  # taken for a leftover in the moment before it was locked


def make_partial_folder(
    folder: int, prefix: str = _PREFIX, suffix: str = _SUFFIX, mode: int = 0o700
) -> tuple[str, int]:
    """Create a locked folder of a random name, by default private to the user; return its name and descriptor.

    Raises:
        OSError: it cannot be created.
    """
    while True:
        name = partial_name(prefix, suffix)
        try:
            file_operations.make_folder(name, mode, folder=folder)
        except OSError:
            with contextlib.suppress(OSError):  # a file system may make it and report an error all the same
                os.rmdir(name, dir_fd=folder)
            raise
        with contextlib.suppress(FileNotFoundError):
            descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            if try_lock(descriptor) and identity_at(name, folder) is not None:
                return name, descriptor
            os.close(descriptor)


def sweep_partials(folder: int, prefix: str = _PREFIX, suffix: str = _SUFFIX) -> None:
    """Remove the temporary files and folders of this user in ``folder`` that killed runs left.

    Files in use are locked and stay, as do all where there are no locks. Links are not followed; a file that cannot be
    removed stays.
    """
    with contextlib.suppress(OSError):
        names = os.listdir(f"/proc/self/fd/{folder}")
        for name in names:
            if name.startswith(prefix) and name.endswith(suffix):
                with contextlib.suppress(OSError):
                    _remove_left(name, folder)


def _remove_left(name: str, folder: int) -> None:
    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if found.st_uid != os.geteuid() or not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
        return
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(name, flags, dir_fd=folder)
    try:
        held = os.fstat(descriptor)
        if (held.st_dev, held.st_ino) != (found.st_dev, found.st_ino) or not try_lock(descriptor, unsupported=False):
            return
        if stat.S_ISDIR(held.st_mode):
            shutil.rmtree(f"/proc/self/fd/{folder}/{name}", ignore_errors=True)
        else:
            os.unlink(name, dir_fd=folder)
    finally:
        os.close(descriptor)


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity and state of a file, which change when it is replaced or written."""

    device: int
    inode: int
    size_bytes: int
    changed_ns: int

    @classmethod
    def of(cls, found: os.stat_result) -> Identity:
        """Return the identity in the result of ``stat``."""
        return cls(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def identity_at(name: str, folder: int) -> Identity | None:
    """Return the identity of the file or link of a name; ``None`` if none exists."""
    try:
        return Identity.of(os.stat(name, dir_fd=folder, follow_symlinks=False))
    except FileNotFoundError:
        return None


_private: set[tuple[int, int]] = set()
"""Device and inode of the folders that this process keeps locked and alone writes into."""


@contextlib.contextmanager
def private(descriptor: int) -> Iterator[None]:
    """Let this process write into a folder that it has locked, where ``taking_turns`` would wait for itself."""
    found = os.fstat(descriptor)
    _private.add((found.st_dev, found.st_ino))
    try:
        yield
    finally:
        _private.discard((found.st_dev, found.st_ino))


@contextlib.contextmanager
def taking_turns(folder: int) -> Iterator[None]:
    """Serialise renames in a folder between runs; a lock held for too long is ignored."""
    found, descriptor = os.fstat(folder), None
    if (found.st_dev, found.st_ino) in _private:
        yield
        return
    with contextlib.suppress(OSError):
        descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        until_s = time.monotonic() + _LOCK_WITHIN_S
        while descriptor is not None and not try_lock(descriptor) and time.monotonic() < until_s:
            time.sleep(0.01)
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def sync_folder(folder: int) -> None:
    """Flush new names to the disk, if the file system can.

    Raises:
        OSError: the disk fails.
    """
    try:
        descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    except OSError:  # a folder that this user may write into but not list
        return
    try:
        file_operations.sync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.EACCES):
            raise
    finally:
        os.close(descriptor)

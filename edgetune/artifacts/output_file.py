"""An output file, opened before long work begins and replaced atomically: at any moment the whole old or new file.

    open_output: folder opened, state of an existing file noted   ...work...   write: temporary -> disk -> name

The temporary file has a random name in the same folder and is made there with ``O_EXCL`` through the descriptor of the
folder. It takes the output's name only if it is still the written file and the name still refers to the same file as
when the command began. If another program has written that file meanwhile, the result goes to the next free name,
e.g. ``run-2.parquet``, so that no measurement is lost.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from edgetune.artifacts import file_operations
from edgetune.artifacts.output_folder import (
    Identity,
    Place,
    identity_at,
    locate,
    make_partial,
    make_partial_folder,
    sweep_partials,
    sync_folder,
    taking_turns,
)

_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EACCES)
"""Answers of file systems where a file has one name only."""


MARK = "user.edgetune"
"""The extended attribute that names the kind of a file."""


class ReplacedError(OSError):
    """The temporary file was replaced by another file."""


class OutputFile:
    """The place of an output, held open; see ``open_output``.

    Args:
        path: As the user wrote it.
        replaces: Whether to replace the file even if another program has written it since.

    Raises:
        OSError: the folder is missing, the path is a folder, ...
    """

    def __init__(self, path: Path, *, replaces: bool = False) -> None:
        self.path = path
        """Where the file is, or will be."""
        self.moved_from: Path | None = None
        """The path asked for, once the result went to another because that file had changed."""
        self.published = False
        """Whether the last write gave the new file its name, whatever failed then."""
        self._replaces = replaces
        self._special = _special(path)
        self._place = Place(-1, "") if self._special is not None else locate(path)
        self._seen = None if self._special is not None else identity_at(self._place.name, self._place.folder)
        if self._seen is not None and stat.S_ISDIR(self._mode()):
            self.close()
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))

    @property
    def special(self) -> bool:
        """Whether the output is a device or a pipe, which is written directly."""
        return self._special is not None

    @property
    def exists(self) -> bool:
        """Whether the file existed when the output was opened or last written."""
        return self._seen is not None

    def close(self) -> None:
        """Close the folder; repeated calls have no effect."""
        if self._place.folder >= 0:
            os.close(self._place.folder)
            self._place = Place(-1, "")

    def try_folder(self) -> None:
        """Check that a file can be created in the folder, and remove temporary files of killed runs.

        Raises:
            OSError: no file can be created.
        """
        if self.special:
            return
        sweep_partials(self._place.folder)
        name, descriptor = make_partial(self._place.folder)
        os.close(descriptor)
        os.unlink(name, dir_fd=self._place.folder)

    def read(self, start: int, count: int) -> bytes:
        """Return up to ``count`` bytes of the existing file from ``start``; a negative ``start`` counts from its end.

        Raises:
            OSError: the file cannot be read.
        """
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(self._place.name, flags, dir_fd=self._place.folder)
        try:
            size = os.fstat(descriptor).st_size
            return os.pread(descriptor, count, max(size + start, 0) if start < 0 else start)
        finally:
            os.close(descriptor)

    @property
    def mark(self) -> str | None:
        """The kind of the existing file in its extended attribute; ``None`` without one."""
        with contextlib.suppress(OSError):
            path = f"/proc/self/fd/{self._place.folder}/{self._place.name}"
            return os.getxattr(path, MARK, follow_symlinks=False).decode(errors="replace")
        return None

    def write(self, data: bytes) -> None:
        """Write the whole file and set ``path`` to its path.

        Raises:
            OSError: the file cannot be written; the old file is unchanged unless ``published`` is set.
        """
        self.published = False
        if self._special is not None:
            _write_special(self.path, self._special, data)
            self.published = True
            return
        name, descriptor = make_partial(self._place.folder)
        try:
            left = memoryview(data)
            while left:
                left = left[file_operations.write(descriptor, left) :]
            self._publish(name, self._place.folder, descriptor)
        finally:
            os.close(descriptor)
            self._remove(name)

    @contextlib.contextmanager
    def written_by_path(self, *, mark: str | None = None) -> Iterator[Path]:
        """Yield a path for a library that writes files itself; at the end of the context its file becomes the output.

        The path has the output's own name, in a private folder with a random name.

        Args:
            mark: The kind of file, stored in an extended attribute, for formats without a field for it.

        Raises:
            OSError: see ``write``.
        """
        self.published = False
        place = self._place
        name, folder = make_partial_folder(place.folder)
        try:
            yield Path(os.readlink(f"/proc/self/fd/{folder}")) / place.name
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = file_operations.create(place.name, flags, 0, folder=folder)
            try:
                if mark is not None:
                    with contextlib.suppress(OSError):  # not every file system keeps attributes
                        os.setxattr(descriptor, MARK, mark.encode())
                self._publish(place.name, folder, descriptor)
            finally:
                os.close(descriptor)
        finally:
            shutil.rmtree(f"/proc/self/fd/{place.folder}/{name}", ignore_errors=True)
            os.close(folder)

    def _publish(self, name: str, folder: int, descriptor: int) -> None:
        """Rename a complete temporary file to the output's name."""
        mode = self._mode()
        if stat.S_ISREG(mode):
            file_operations.change_mode(descriptor, stat.S_IMODE(mode) & 0o777)
        file_operations.sync(descriptor)
        with taking_turns(self._place.folder):
            found = identity_at(name, folder)
            if found is None or found != Identity.of(os.fstat(descriptor)):
                raise ReplacedError(errno.EBUSY, "its temporary file was replaced by another program")
            try:
                self._take_name(name, folder)
            finally:  # a file system may rename and report an error all the same
                now = identity_at(self._place.name, self._place.folder)
                self.published = now == Identity.of(os.fstat(descriptor))
        self._seen = Identity.of(os.fstat(descriptor))
        sync_folder(self._place.folder)

    def _take_name(self, name: str, folder: int) -> None:
        now, place = identity_at(self._place.name, self._place.folder), self._place
        if self._replaces or (now is not None and now == self._seen):
            file_operations.rename(name, place.name, source_folder=folder, folder=place.folder)
            return
        for free in _names(place.name):
            if _take_free(name, folder, Place(place.folder, free)):
                if free != place.name:
                    self.moved_from, self.path = self.path, self.path.with_name(free)
                    self._place = Place(place.folder, free)
                return

    def _mode(self) -> int:
        """Return the permissions of the existing file; 0 without one."""
        try:
            return os.stat(self._place.name, dir_fd=self._place.folder, follow_symlinks=False).st_mode
        except OSError:
            return 0

    def _remove(self, name: str) -> None:
        """Remove a temporary file that did not become the output, with one retry."""
        for _ in range(2):
            with contextlib.suppress(OSError):
                file_operations.unlink(name, folder=self._place.folder)


def _names(name: str) -> Iterator[str]:
    yield name
    stem, dot, ending = name.rpartition(".")
    number = 2
    while True:
        yield f"{stem}-{number}{dot}{ending}" if stem else f"{name}-{number}"
        number += 1


def _take_free(name: str, folder: int, to: Place) -> bool:
    """Give a file a name that no file has; return whether it was free."""
    try:
        file_operations.link(name, to.name, source_folder=folder, folder=to.folder)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if identity_at(to.name, to.folder) is not None:
            return False
        file_operations.rename(name, to.name, source_folder=folder, folder=to.folder)
    return True


def _special(path: Path) -> tuple[int, ...] | None:
    """Return the device or pipe at a path; ``None`` for a file, a folder or nothing.

    Raises:
        PermissionError: the user is root, and the path has a link of another user.
    """
    try:
        found = os.stat(path)
    except OSError:
        return None
    if stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode):
        return None
    if os.geteuid() == 0:
        _refuse_led(path)
    return _kind(found)


def _refuse_led(path: Path) -> None:
    """Refuse a path with a link of another user; links of the kernel (``/proc``, ``/dev``) belong to root."""
    while path.is_symlink():
        if os.lstat(path).st_uid != 0:
            raise PermissionError(errno.EPERM, f"{path.name} is a link of another user, which root does not follow")
        target = Path(os.readlink(path))
        path = target if target.is_absolute() else path.parent / target


def _kind(found: os.stat_result) -> tuple[int, ...]:
    """Return the identity of a device or pipe with its type, because inode numbers are reused."""
    return found.st_dev, found.st_ino, stat.S_IFMT(found.st_mode), found.st_rdev


def _write_special(path: Path, identity: tuple[int, ...], data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_NOCTTY | os.O_CLOEXEC)
    with open(descriptor, "wb") as file:
        if _kind(os.fstat(descriptor)) != identity:
            raise ReplacedError(errno.EBUSY, "it was replaced by another program")
        file.write(data)

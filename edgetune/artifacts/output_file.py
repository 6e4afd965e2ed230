"""An output file, checked before long work begins and replaced atomically: at any moment the whole old or new file.

    note: the state of an existing file   ...work...   write: private folder beside it -> disk -> name

The new file is made in a folder of a random name that only this user can enter, then renamed. If another program has
written the output since it was noted, the result goes to the next free name, e.g. ``run-2.parquet``, so that no
measurement is lost. A device or a pipe is written directly.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from edgetune.artifacts import file_operations
from edgetune.artifacts.scratch_folder import partial_folder, sweep

_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EACCES)
"""Answers of file systems where a file has one name only."""
_NO_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.EACCES)
"""Answers of file systems that cannot flush a folder."""
_PREFIX, _SUFFIX = ".edgetune-", ".partial"
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class OutputFile:
    """An output and its state when this object was made.

    Args:
        path: As the user wrote it. A link that exists now is followed, a later one is not.
        replaces: Whether to replace the file even if another program has written it since.

    Raises:
        OSError: the path is a folder, links form a cycle, ...
    """

    def __init__(self, path: Path, *, replaces: bool = False) -> None:
        self.path = path
        """Where the file is, or will be."""
        self.moved_from: Path | None = None
        """The path asked for, once the result went to another because that file had changed."""
        self.published = False
        """Whether the last write gave the new file its name, whatever failed then."""
        self._replaces = replaces
        try:
            found = os.stat(path)
        except FileNotFoundError:
            found = None
        if found is not None and stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        self.special = found is not None and not stat.S_ISREG(found.st_mode)
        """Whether the output is a device or a pipe."""
        self._file = Path(os.path.realpath(path))
        self._seen = None if found is None else _state(found)

    @property
    def exists(self) -> bool:
        """Whether the file existed when the output was noted or last written."""
        return self._seen is not None

    def try_folder(self) -> None:
        """Check that a file can be made in the folder, and remove what killed runs left there.

        Raises:
            OSError: none can be made.
        """
        if not self.special:
            sweep(self._file.parent, _PREFIX, _SUFFIX)
            with self._partial_folder():
                pass

    def read(self, start: int, count: int) -> bytes:
        """Return up to ``count`` bytes of the existing file from ``start``; a negative ``start`` counts from its end.

        Raises:
            OSError: the file cannot be read.
        """
        descriptor = os.open(self._file, _READ)
        try:
            size = os.fstat(descriptor).st_size
            return os.pread(descriptor, count, max(size + start, 0) if start < 0 else start)
        finally:
            os.close(descriptor)

    def write(self, data: bytes) -> None:
        """Write the whole file and set ``path`` to its path.

        Raises:
            OSError: the file cannot be written; the old file is unchanged unless ``published`` is set.
        """
        if self.special:
            self._write_special(data)
            return
        with self.written_by_path() as path:
            descriptor = file_operations.create(path, _NEW, 0o666)
            try:
                left = memoryview(data)
                while left:
                    left = left[file_operations.write(descriptor, left) :]
            finally:
                os.close(descriptor)

    @contextlib.contextmanager
    def written_by_path(self) -> Iterator[Path]:
        """Yield a path for a library that writes files itself; at the end of the context its file becomes the output.

        The path has the output's own name, in the private folder.

        Raises:
            OSError: see ``write``.
        """
        if self.special:
            raise OSError(errno.EINVAL, "such a file cannot be written to a device or a pipe")
        self.published = False
        with self._partial_folder() as folder:
            yield folder / self._file.name
            self._publish(folder / self._file.name)

    def _partial_folder(self) -> AbstractContextManager[Path]:
        return partial_folder(self._file.parent, _PREFIX, _SUFFIX)

    def _write_special(self, data: bytes) -> None:
        self.published = False
        descriptor = os.open(self.path, os.O_WRONLY | os.O_NOCTTY | os.O_CLOEXEC)
        with open(descriptor, "wb") as file:
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(errno.EBUSY, "it was replaced by another program")
            file.write(data)
        self.published = True

    def _publish(self, made: Path) -> None:
        """Give a complete file the output's name."""
        descriptor = file_operations.create(made, _READ, 0)
        try:
            with contextlib.suppress(FileNotFoundError):
                if stat.S_ISREG(mode := os.lstat(self._file).st_mode):
                    file_operations.change_mode(descriptor, stat.S_IMODE(mode) & 0o777)
            file_operations.sync(descriptor)
            state = _state(os.fstat(descriptor))
        finally:
            os.close(descriptor)
        try:
            self._take_name(made)
        finally:  # a file system may rename and report an error all the same
            self.published = _state_at(self._file) == state
        self._seen = state
        _sync_folder(self._file.parent)

    def _take_name(self, made: Path) -> None:
        now = _state_at(self._file)
        if self._replaces or (now is not None and now == self._seen):
            file_operations.rename(made, self._file)
            return
        for free in _names(self._file.name):
            if _take_free(made, self._file.with_name(free)):
                if free != self._file.name:
                    self.moved_from, self.path = self.path, self.path.with_name(free)
                    self._file = self._file.with_name(free)
                return


_noted: dict[str, OutputFile] = {}
"""The outputs of the current command, by their absolute paths."""


def _silent(_asked: Path, _written: Path) -> None:
    pass


on_moved: Callable[[Path, Path], None] = _silent
"""Called with the path asked for and the one written, where a result went elsewhere; a command sets it."""


def forget_noted() -> None:
    """Forget the outputs of an earlier command in this process."""
    _noted.clear()


def note(path: Path | str, *, replaces: bool = False) -> OutputFile:
    """Note the present state of an output; ``find`` returns it from now on. Errors as of ``OutputFile``."""
    _noted[os.path.abspath(path)] = output = OutputFile(Path(path), replaces=replaces)
    return output


def find(path: Path | str) -> OutputFile:
    """Return the noted output at a path, else one in its present state. Errors as of ``OutputFile``."""
    return _noted.get(os.path.abspath(path)) or OutputFile(Path(path))


def written_path(path: Path) -> Path:
    """Return the path at which the output requested at ``path`` is, or will be, written."""
    found = _noted.get(os.path.abspath(path))
    return path if found is None else found.path


def _state(found: os.stat_result) -> tuple[int, ...]:
    """Return what changes when a file is replaced or written."""
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _state_at(path: Path) -> tuple[int, ...] | None:
    """Return the state of the file or link at a path; ``None`` if none exists."""
    try:
        return _state(os.lstat(path))
    except FileNotFoundError:
        return None


def _names(name: str) -> Iterator[str]:
    yield name
    stem, dot, ending = name.rpartition(".")
    number = 2
    while True:
        yield f"{stem}-{number}{dot}{ending}" if stem else f"{name}-{number}"
        number += 1


def _take_free(made: Path, free: Path) -> bool:
    """Give a file a name that no file has; return whether it was free."""
    try:
        file_operations.link(made, free)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if os.path.lexists(free):
            return False
        file_operations.rename(made, free)
    return True


def _sync_folder(folder: Path) -> None:
    """Flush new names to the disk, if the file system can.

    Raises:
        OSError: the disk fails.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:  # a folder that this user may write into but not list
        return
    try:
        file_operations.sync(descriptor)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise
    finally:
        os.close(descriptor)

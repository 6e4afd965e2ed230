"""An output file, checked before long work begins and replaced atomically: at any moment the whole old or new file.

    note: the state of an existing file   ...work...   write: private folder beside it -> disk -> name

If another program has written the output since it was noted, the result goes to the next free name, e.g.
``run-2.parquet``, so that no measurement is lost. A device or a pipe is written directly.

Temporary folders; those of killed runs are removed by a later run of the same user.
"""

import contextlib
import errno
import itertools
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from edgetune.artifacts import file_operations
from edgetune.processes.file_lock import try_lock

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Create a folder for this context, and remove those of killed runs of this user.

    Raises:
        OSError: no folder can be created.
    """
    parent, prefix = Path(tempfile.gettempdir()), f"edgetune-{os.geteuid()}-"
    sweep(parent, prefix)
    with partial_folder(parent, prefix) as (made, _):
        yield made


@contextmanager
def partial_folder(parent: Path, prefix: str, suffix: str = "", *, mode: int = 0o700) -> Iterator[tuple[Path, Path]]:
    """Create a locked folder of a random name for this context; yield its path, and one that nobody can redirect.

    The owner of the parent folder may put a link in place of the first. The second leads into the folder itself, in
    this process alone; where the system has no such paths it is the first.

    Args:
        parent: The parent folder.
        prefix, suffix: Begin and end of its name.
        mode: Its permissions, less the umask.

    Raises:
        OSError: no folder can be created.
    """
    made, descriptor = _make(parent, prefix, suffix, mode)
    inside = Path(f"/proc/self/fd/{descriptor}")
    try:
        yield made, inside if inside.exists() else made
    finally:
        shutil.rmtree(made, ignore_errors=True)
        os.close(descriptor)


def _make(parent: Path, prefix: str, suffix: str, mode: int) -> tuple[Path, int]:
    while True:
        made = parent / f"{prefix}{secrets.token_hex(8)}{suffix}"
        try:
            file_operations.make_folder(made, mode)
        except OSError:
            with suppress(OSError):  # a file system may make it and report an error all the same
                made.rmdir()
            raise
        with suppress(FileNotFoundError):  # taken for a leftover in the moment before it was locked
            descriptor = os.open(made, _FOLDER)
            if try_lock(descriptor) and made.exists():
                return made, descriptor
            os.close(descriptor)


def sweep(parent: Path, prefix: str, suffix: str = "") -> None:
    """Remove the folders of such names that killed runs of this user left.

    Folders in use are locked and stay, as do all where there are no locks. Links are not followed.
    """
    with suppress(OSError):
        for left in parent.iterdir():
            if left.name.startswith(prefix) and left.name.endswith(suffix):
                with suppress(OSError):
                    _remove_left(left)


def _remove_left(left: Path) -> None:
    descriptor = os.open(left, _FOLDER)
    try:
        if os.fstat(descriptor).st_uid == os.geteuid() and try_lock(descriptor, unsupported=False):
            shutil.rmtree(left, ignore_errors=True)
    finally:
        os.close(descriptor)


_DISK_FAILS = (errno.EIO, errno.ENOSPC, errno.EDQUOT)
"""Errors of a flush; any other says that the folder cannot be flushed, or only not be listed by this user."""
_PREFIX, _SUFFIX = ".edgetune-", ".partial"
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL


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
        self.published = False
        """Whether the last write gave the new file its name, whatever failed then."""
        self._replaces = replaces
        mode = stat.S_IFREG
        with contextlib.suppress(FileNotFoundError):
            mode = os.stat(path).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        self.special = not stat.S_ISREG(mode)
        """Whether the output is a device or a pipe."""
        self._file = Path(os.path.realpath(path))
        self._seen = _state(self._file)

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
            with partial_folder(self._file.parent, _PREFIX, _SUFFIX):
                pass

    def read(self, start: int, count: int) -> bytes:
        """Return up to ``count`` bytes of the existing file from ``start``; a negative ``start`` counts from its end.

        Raises:
            OSError: the file cannot be read.
        """
        with open(self._file, "rb") as file:
            file.seek(start if start >= 0 else max(file.seek(0, os.SEEK_END) + start, 0))
            return file.read(count)

    def write(self, data: bytes) -> None:
        """Write the whole file and set ``path`` to its path.

        Raises:
            OSError: the file cannot be written; the old file is unchanged unless ``published`` is set.
        """
        if self.special:
            with open(os.open(self.path, os.O_WRONLY | os.O_NOCTTY), "wb") as file:
                file.write(data)
            self.published = True
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

        The path has the output's own name, in the private folder, and is for this process alone.

        Raises:
            OSError: see ``write``.
        """
        if self.special:
            raise OSError(errno.EINVAL, "such a file cannot be written to a device or a pipe")
        self.published = False
        with partial_folder(self._file.parent, _PREFIX, _SUFFIX) as (_, inside):
            yield inside / self._file.name
            self._publish(inside / self._file.name)

    def _publish(self, made: Path) -> None:
        """Give a complete file the output's name, or a free one where another program has written that."""
        descriptor = file_operations.create(made, os.O_RDONLY, 0)
        try:
            with contextlib.suppress(FileNotFoundError):
                if stat.S_ISREG(mode := os.lstat(self._file).st_mode):
                    file_operations.change_mode(descriptor, stat.S_IMODE(mode) & 0o777)
            file_operations.sync(descriptor)
        finally:
            os.close(descriptor)
        asked, state, now = self.path, _state(made), _state(self._file)
        if not self._replaces and now is not None and now != self._seen:
            self.path = self.path.with_name(_free(self._file))
            self._file = self._file.with_name(self.path.name)
        try:
            file_operations.rename(made, self._file)
        finally:  # a file system may rename and report an error all the same
            self.published = _state(self._file) == state
        self._seen = state
        if asked != self.path and on_moved is not None:
            on_moved(asked, self.path)
        try:
            file_operations.sync_path(self._file.parent)
        except OSError as error:
            if error.errno in _DISK_FAILS:
                raise


_noted: dict[str, OutputFile] = {}
"""The outputs of the current command, by their absolute paths."""
on_moved: Callable[[Path, Path], object] | None = None
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


def _state(path: Path) -> tuple[int, ...] | None:
    """Return what changes when the file or link at a path is replaced or written; ``None`` if none exists."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _free(path: Path) -> str:
    """Return the first free name with a number: ``run-2.parquet``, ``.run-2``, ..."""
    names = (f"{path.stem}-{number}{path.suffix}" for number in itertools.count(2))
    return next(name for name in names if not os.path.lexists(path.with_name(name)))

"""The journal of a sweep: finished points, kept one by one, so that a run killed at any moment loses none.

A journal is one SQLite file: what is measured (its identity), and the finished entries as JSON, in their order. An
entry is on the disk before the next point is measured. The journal is locked while a run is using it.
"""

from __future__ import annotations

import errno
import json
import os
import sqlite3
import stat
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar
from urllib.parse import quote

from edgetune.artifacts.yaml_document import plain
from edgetune.errors import InputError
from edgetune.processes.file_lock import holder_of, try_lock

if TYPE_CHECKING:
    from pydantic import TypeAdapter

FORMAT = 2
JOURNAL_SUFFIX = ".journal"
_OURS = b"etun"
"""The application id in the header of the file, see the SQLite file format."""
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FRESH = "start over with --fresh (what was measured so far is then lost)"


class Entry(Protocol):
    """A dataclass that pydantic reads: a point of a sweep, or a training run."""

    @property
    def failed(self) -> bool:
        """Whether it could not be measured."""


E = TypeVar("E", bound=Entry)


class Journal(Generic[E]):
    """An open, locked journal; a context manager. Use ``open_journal``.

    Args:
        database: The file's content.
        lock: Its descriptor, locked.
        path: Its path, for messages.
        entries: What is in it.
    """

    def __init__(self, database: sqlite3.Connection, lock: int, path: Path, entries: list[E]) -> None:
        self._database, self._lock, self._path = database, lock, path
        self.entries = entries

    def __enter__(self) -> Journal[E]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def append(self, entry: E) -> None:
        """Add what is finished.

        A signal may end the run at any moment of this: the entry is listed first, so that no journal is discarded as
        empty which the entry is written in.

        Raises:
            InputError: the disk is full or failing; what was written before stays.
        """
        self.entries.append(entry)
        try:
            self._database.execute("INSERT INTO entries (entry) VALUES (?)", (json.dumps(plain(entry)),))
        except sqlite3.Error as error:
            self.entries.pop()
            if "readonly" in str(error):  # SQLite looks whether the file still has its name
                message = f"the journal {self._path} was moved, replaced or made read-only while it was in use"
                raise InputError(message, "leave it where it is, and run the same command again") from None
            raise InputError(
                f"cannot write the journal {self._path}: {error}",
                "make room and run the same command again: the points finished before are kept",
            ) from None

    def close(self) -> None:
        """Close and unlock; harmless when repeated."""
        if self._lock >= 0:
            lock, self._lock = self._lock, -1
            try:
                self._database.close()
            finally:
                os.close(lock)  # after the database: closing any descriptor of a file ends POSIX locks on it


def open_journal(
    kind: type[E], path: Path, identity: Mapping[str, Any], *, synced: bool = True, fresh: bool = False
) -> Journal[E]:
    """Open the journal at ``path`` and lock it, or begin it.

    A journal of something else is replaced when it holds no measurement, so that a mended training file can be run
    again; otherwise it is an error.

    Args:
        kind: The dataclass of its entries.
        path: The file; its folder is made if need be.
        identity: What is measured, and how: plain data that must be equal for points to be taken over.
        synced: Whether each entry is flushed to the disk, so that it outlives the machine and not only the process.
        fresh: Discard what is there.

    Raises:
        InputError: the journal is in use by another run, damaged, of another request, or cannot be written.
    """
    lock = _open_locked(path)
    try:
        entries = _take_over(kind, lock, path, identity, fresh=fresh)
        if not entries:
            os.ftruncate(lock, 0)
            _rollback(path).unlink(missing_ok=True)
        database = _connect(path)
        try:
            database.execute(f"PRAGMA synchronous={'FULL' if synced else 'OFF'}")
            if not entries:
                _begin(database, identity)
        except BaseException:
            database.close()
            raise
        return Journal(database, lock, path, entries)
    except (OSError, sqlite3.Error) as error:
        os.close(lock)
        why = error.strerror if isinstance(error, OSError) else None
        raise InputError(f"cannot keep a journal at {path}: {why or error}", "check the disk") from None
    except BaseException:
        os.close(lock)
        raise


def journal_beside(output: Path) -> Path:
    """Return the path of the journal of a table: a hidden file beside it."""
    return output.parent / f".{output.name}{JOURNAL_SUFFIX}"


def peek(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]] | None:
    """Return identity and entries of the user's own journal, which another run may be writing; ``None`` without one."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            found = os.fstat(descriptor)
            own = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and _is_ours(descriptor)
            return stored(path) if own else None
        finally:
            os.close(descriptor)
    except (OSError, sqlite3.Error, ValueError):
        return None


def discard_journal(path: Path) -> None:
    """Remove the journal of a sweep whose profile has been written; harmless when there is none."""
    for each in (path, _rollback(path)):
        with suppress(OSError):
            each.unlink()


def _open_locked(path: Path) -> int:
    """Open and lock the file at ``path``, and make sure that it is still the one with that name.

    Raises:
        InputError: it cannot be opened, is no plain file of this user with one name, or is in use.
    """
    while True:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, _FLAGS, 0o644)
        except OSError as error:
            if error.errno == errno.ELOOP and path.is_symlink():
                raise _no_journal(path, "is a link, through which no journal is written") from None
            raise InputError(
                f"cannot keep a journal at {path}: {error.strerror or error}",
                "write to a folder you may write to, with -o",
            ) from None
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
            os.close(descriptor)
            raise _no_journal(path, "has several names" if stat.S_ISREG(found.st_mode) else "is no plain file")
        if found.st_size and found.st_uid != os.geteuid():
            os.close(descriptor)
            raise _no_journal(path, "belongs to another user")
        if not try_lock(descriptor):
            holder = holder_of(descriptor)
            os.close(descriptor)
            who = "" if holder is None else f": {holder.description}"
            raise InputError(
                f"another run is writing {path}{who}", "wait for it, stop it, or write to another file with -o"
            ) from None
        with suppress(OSError):
            if os.lstat(path).st_ino == found.st_ino:
                return descriptor
        os.close(descriptor)  # the run before has finished and removed it in between


def _no_journal(path: Path, reason: str) -> InputError:
    return InputError(f"{path} {reason}", "move it away, or write to another file with -o")


def _take_over(kind: type[E], lock: int, path: Path, identity: Mapping[str, Any], *, fresh: bool) -> list[E]:
    """Return the entries of a journal of the same identity; none of an empty file, or where they count no more.

    Raises:
        InputError: the file is something else, which is never changed, is damaged, or of another request.
    """
    if not os.fstat(lock).st_size:
        return []
    if not _is_ours(lock):
        raise _no_journal(path, "is not a journal of this version of edgetune")
    if fresh:
        return []
    try:
        found, values = stored(path, "rw")
        entries = [read_entry(kind, value) for value in values]
    except (sqlite3.Error, ValueError) as error:
        raise InputError(f"the journal {path} is damaged: {error}", _FRESH) from None
    wanted = about(identity)
    differing = sorted(key for key in {*found, *wanted} if found.get(key) != wanted.get(key))
    if not differing:
        return entries
    if all(entry.failed for entry in entries):
        return []
    raise InputError(
        f"{path} is the journal of another request: {', '.join(differing)} differ{'s' if len(differing) == 1 else ''}",
        f"finish that one with its own command, write elsewhere with -o, or {_FRESH}",
    )


def _is_ours(descriptor: int) -> bool:
    head = os.pread(descriptor, 100, 0)
    return head.startswith(b"SQLite format 3\0") and head[68:72] == _OURS


def _rollback(path: Path) -> Path:
    """Return the file with which SQLite undoes a change that a crash cut short."""
    return path.with_name(f"{path.name}-journal")


def _connect(path: Path, mode: str = "rw") -> sqlite3.Connection:
    """Open the database; ``flock`` on the file is its lock, also where the file system has no POSIX locks."""
    address = f"file:{quote(os.fsencode(path.absolute()))}?mode={mode}&nolock=1"
    return sqlite3.connect(address, uri=True, isolation_level=None)


def _begin(database: sqlite3.Connection, identity: Mapping[str, Any]) -> None:
    """Make an empty journal, all at once."""
    database.execute("BEGIN")
    database.execute(f"PRAGMA application_id={int.from_bytes(_OURS, 'big')}")
    database.execute("CREATE TABLE about (identity TEXT)")
    database.execute("CREATE TABLE entries (number INTEGER PRIMARY KEY, entry TEXT)")
    database.execute("INSERT INTO about VALUES (?)", (json.dumps(about(identity)),))
    database.execute("COMMIT")


def stored(path: Path, mode: str = "ro") -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the identity in a journal, and its entries as plain data.

    Raises:
        sqlite3.Error, ValueError: the file is damaged.
    """
    database = _connect(path, mode)
    try:
        identity: Any = [json.loads(text) for (text,) in database.execute("SELECT identity FROM about")]
        values: Any = [json.loads(text) for (text,) in database.execute("SELECT entry FROM entries ORDER BY number")]
    except (TypeError, RecursionError) as error:
        raise ValueError(str(error)) from None
    finally:
        database.close()
    if len(identity) != 1 or not all(isinstance(each, dict) for each in (*identity, *values)):
        raise ValueError("it has not what edgetune writes")
    return identity[0], values


def about(identity: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``identity`` as it is after a round trip through JSON, so that equal requests compare equal."""
    value: dict[str, Any] = json.loads(json.dumps({**identity, "journal": FORMAT}, default=str))
    return value


def read_entry(kind: type[E], value: Mapping[str, Any]) -> E:
    """Return the entry that plain data describe.

    Raises:
        ValueError: A field is missing or has another type.
    """
    found: E = _adapter(kind).validate_json(json.dumps(value), strict=True)
    return found


@cache
def _adapter(form: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(form)

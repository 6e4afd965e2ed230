"""The journal of a sweep: finished points, appended one by one, so that a run killed at any moment loses none.

A journal is a text file. Each line is the CRC-32 of the rest in eight hexadecimal digits, a space, and a JSON value.
The first line says what is measured; then follow, in the order they happened, one line per run (who, since when) and
one per finished point. A last line cut short by a crash is dropped; damage anywhere else is an error, because then
something other than a crash has touched the file. The journal is locked while a run is using it.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Generic

from edgetune.artifacts import file_operations
from edgetune.artifacts.header import utc_now
from edgetune.artifacts.profile import Point
from edgetune.errors import InputError
from edgetune.processes.file_lock import holder_of, try_lock
from edgetune.stages.profiling.journal_lines import (
    POINTS,
    E,
    Entries,
    JournalFormat,
    SweepJournalEntry,
    canonical,
    entries_of,
    parse_lines,
    to_line,
)

FORMAT = 1
_FLAGS = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FRESH = "start over with --fresh (what was measured so far is then lost)"


class Journal(Generic[E]):
    """An open, locked journal; a context manager. Use ``open_journal``.

    Args:
        descriptor: The file, open for reading and appending, locked.
        path: Its path, for messages.
        entries: What is in it.
        form: How an entry is written.
        sync_every_s: Seconds between syncs to the disk; 0 syncs every entry.
    """

    def __init__(
        self, descriptor: int, path: Path, entries: Entries[E], *, form: JournalFormat[E], sync_every_s: float
    ) -> None:
        self._descriptor = descriptor
        self._path = path
        self._form = form
        self._sync_every_s = sync_every_s
        self._synced_s = 0.0
        self.entries = entries.kept
        self.duplicates = entries.duplicates
        """How many lines said again what another says."""

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
            self._write(self._form.write(entry))
        except InputError:
            self.entries.pop()
            raise

    def note_run(self) -> None:
        """Record which process writes from here on, for the message of another that finds the journal locked."""
        self._write({"run": {"pid": os.getpid(), "started": utc_now()}})

    def _write(self, value: Mapping[str, Any]) -> None:
        whole = os.lseek(self._descriptor, 0, os.SEEK_END)
        line = memoryview(to_line(value))
        try:
            while line:
                line = line[file_operations.write(self._descriptor, line) :]
            now_s = time.monotonic()
            if now_s - self._synced_s >= self._sync_every_s:
                file_operations.sync(self._descriptor)
                self._synced_s = now_s
        except OSError as error:
            with suppress(OSError):
                file_operations.truncate(self._descriptor, whole)
            raise InputError(
                f"cannot write the journal {self._path}: {error.strerror or error}",
                "make room and run the same command again: the points finished before are kept",
            ) from None

    def close(self) -> None:
        """Sync, unlock and close; harmless when repeated."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            try:
                with suppress(OSError):
                    file_operations.sync(descriptor)
            finally:
                os.close(descriptor)


def open_journal(
    path: Path, identity: Mapping[str, Any], *, sync_every_s: float = 0.0, fresh: bool = False
) -> Journal[SweepJournalEntry]:
    """Open the journal of a sweep; see ``open_journal_of``."""
    return open_journal_of(POINTS, path, identity, sync_every_s=sync_every_s, fresh=fresh)


def open_journal_of(
    form: JournalFormat[E], path: Path, identity: Mapping[str, Any], *, sync_every_s: float = 0.0, fresh: bool = False
) -> Journal[E]:
    """Open the journal at ``path`` and lock it, or begin it.

    A journal of something else is replaced when it holds no measurement, so that a mended training file can be run
    again; otherwise it is an error.

    Args:
        form: How its entries are written.
        path: The file; its folder is made if need be.
        identity: What is measured, and how: plain data that must be equal for points to be taken over.
        sync_every_s: Seconds between syncs to the disk; 0 syncs every entry.
        fresh: Discard what is there.

    Raises:
        InputError: the journal is in use by another run, damaged, of another request, or cannot be written.
    """
    descriptor = _open_locked(path)
    try:
        lines = _lines(descriptor, path)
        entries = Entries([]) if fresh else _take_over(form, descriptor, path, identity, lines)
        if not entries.kept:
            file_operations.truncate(descriptor, 0)
        journal = Journal(descriptor, path, entries, form=form, sync_every_s=sync_every_s)
        if not entries.kept:
            journal._write({"journal": FORMAT, "identity": canonical(identity)})
        journal.note_run()
        return journal
    except OSError as error:
        os.close(descriptor)
        raise InputError(f"cannot keep a journal at {path}: {error.strerror or error}", "check the disk") from None
    except BaseException:
        os.close(descriptor)
        raise


def points_in_journal(path: Path, identity: Mapping[str, Any]) -> set[Point]:
    """Return the points that the user's own journal of this very request has measured; none without one."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return set()
    try:
        found = os.fstat(descriptor)
        own = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid()
        values = parse_lines(_content(descriptor))[0] if own else []
    finally:
        os.close(descriptor)
    if not values or values[0].get("identity") != canonical(identity):
        return set()
    return {entry.point for entry in _entries(POINTS, values, path).kept}


def discard_journal(path: Path) -> None:
    """Remove the journal of a sweep whose profile has been written; harmless when there is none."""
    with suppress(OSError):
        path.unlink()


def _open_locked(path: Path) -> int:
    """Open and lock the file at ``path``, and make sure that it is still the one with that name.

    Raises:
        InputError: it cannot be opened, is of another user, is no plain file with one name, or is in use.
    """
    while True:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor, made = _make_or_open(path)
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
        if not made and found.st_uid != os.geteuid():
            os.close(descriptor)
            raise _no_journal(path, "is another user's, whose measurements are not taken")
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


def _make_or_open(path: Path) -> tuple[int, bool]:
    """Return the descriptor of a file, and whether this call made it: some file systems make one for another user."""
    while True:
        with suppress(FileExistsError):
            return file_operations.create(path, _FLAGS | os.O_CREAT | os.O_EXCL, 0o644), True
        with suppress(FileNotFoundError):  # the run before has finished and removed it in between
            return file_operations.create(path, _FLAGS, 0o644), False


def _no_journal(path: Path, reason: str) -> InputError:
    return InputError(f"{path} {reason}", "move it away, or write to another file with -o")


_Lines = tuple[list[dict[str, Any]], int]
"""The valid lines of a journal, and how many bytes they take."""


def _lines(descriptor: int, path: Path) -> _Lines:
    """Return the valid lines of a journal and how many bytes they take; none of an empty or hardly begun file.

    Raises:
        InputError: it is something else, which is never cut.
    """
    content = _content(descriptor)
    values, valid_bytes = parse_lines(content)
    if (not values and content and not _is_torn_header(content)) or (values and "journal" not in values[0]):
        raise _no_journal(path, "is not a journal of edgetune")
    return values, valid_bytes


def _take_over(
    form: JournalFormat[E], descriptor: int, path: Path, identity: Mapping[str, Any], lines: _Lines
) -> Entries[E]:
    """Return the entries of a journal of the same identity, its torn last line cut off."""
    values, valid_bytes = lines
    if not values:
        return Entries([])
    if b"\n" in _content(descriptor)[valid_bytes:].rstrip(b"\n"):
        raise InputError(f"the journal {path} is damaged at line {len(values) + 1}", _FRESH)
    file_operations.truncate(descriptor, valid_bytes)
    entries = _entries(form, values, path)
    found = values[0].get("identity")
    found = found if isinstance(found, dict) else {}
    differing = sorted(k for k in {*found, *canonical(identity)} if found.get(k) != canonical(identity).get(k))
    if not differing and values[0].get("journal") == FORMAT:
        return entries
    if all(form.failed(entry) for entry in entries.kept):
        return Entries([])
    differing = differing or ["the journal's format"]
    raise InputError(
        f"{path} is the journal of another request: {', '.join(differing)} differ{'s' if len(differing) == 1 else ''}",
        f"finish that one with its own command, write elsewhere with -o, or {_FRESH}",
    )


def _entries(form: JournalFormat[E], values: list[dict[str, Any]], path: Path) -> Entries[E]:
    """Return the entries among the lines of a journal.

    Raises:
        InputError: a line has the key of one and says something else.
    """
    try:
        return entries_of(form, values)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise InputError(f"the journal {path} is damaged: a line is not what edgetune writes", _FRESH) from error


def _is_torn_header(content: bytes) -> bool:
    """Whether the file is the beginning of a first line that a crash cut short."""
    return b"\n" not in content and b'"journal"'.startswith(content[10:19])


def _content(descriptor: int) -> bytes:
    return os.pread(descriptor, os.fstat(descriptor).st_size, 0)

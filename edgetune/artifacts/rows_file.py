"""Writes the rows of a run to a file beside its output during the run, against a full disk or a kill at the end.

The file is a table in JSON, as ``json_table`` reads it, without its end; ``edgetune show`` converts it. Its header
marks it as unfinished, and such a file is read up to its last whole row.
"""

import contextlib
import json
import operator
import os
import time
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from edgetune.artifacts import file_operations
from edgetune.artifacts.header import DataWarning, Header
from edgetune.artifacts.output_file import written_path
from edgetune.artifacts.yaml_document import plain
from edgetune.processes.file_lock import try_lock

_ENDING = ".rows.json"
_FLUSH_EVERY_S = 1.0
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
UNFINISHED = DataWarning(
    "unfinished", "the run ended before its file was complete; the rows written until then are kept"
)


class RowsFile:
    """The rows of a run in progress. Keeping a row takes some microseconds; rows are written about once a second.

    A disk failure ends the keeping, not the run.

    Args:
        output: The output of the run; the file of rows is hidden beside it.
        header: The header of the run before it begins.
        row_type: The dataclass of its rows.

    Raises:
        OSError: the file cannot be created.
    """

    def __init__(self, output: Path, header: Header, row_type: type) -> None:
        self.path: Path
        """Where the rows are."""
        self.kept = 0
        """How many rows are in the file."""
        self._names = [field.name for field in fields(row_type)]
        self._pick = operator.attrgetter(*self._names)
        self._waiting: list[str] = []
        self._flushed_s = time.monotonic()
        self._descriptor, self.path = _make(output)
        conditions = {**header.conditions, "unfinished": True}
        told = plain(replace(header, conditions=conditions, warnings=(*header.warnings, UNFINISHED)))
        head = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in told.items()]
        try:
            self._write("{\n" + ",\n".join([*head, '"rows": [']))
        except OSError:
            self.discard()
            raise

    def keep(self, row: Any) -> None:
        """Note a row."""
        if self._descriptor < 0:
            return
        cells = {n: cell for n, cell in zip(self._names, self._pick(row), strict=True) if cell is not None}
        try:
            self._waiting.append(json.dumps(cells, allow_nan=False))
        except ValueError:  # a loss that is no number any more
            self._waiting.append(json.dumps(plain(cells)))
        if time.monotonic() - self._flushed_s >= _FLUSH_EVERY_S:
            self.flush()

    def flush(self) -> None:
        """Write the rows noted so far."""
        self._flushed_s = time.monotonic()
        if self._descriptor < 0 or not self._waiting:
            return
        rows, self._waiting = self._waiting, []
        with contextlib.suppress(OSError):
            self._write("".join(f"{',' if self.kept + place else ''}\n{row}" for place, row in enumerate(rows)))
            self.kept += len(rows)

    def finish(self) -> None:
        """Write the remaining rows and flush them to the disk; the file stays."""
        self.flush()
        if self._descriptor >= 0:
            with contextlib.suppress(OSError):
                file_operations.sync(self._descriptor)
        self.close()

    def discard(self) -> None:
        """Remove the file after the run is written."""
        with contextlib.suppress(OSError):
            self.path.unlink()
        self.close()

    def close(self) -> None:
        """Close the file; repeated calls have no effect."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _write(self, text: str) -> None:
        """Append a text; after a failure nothing more is written, so that there is no gap between rows.

        Raises:
            OSError: the disk is full or fails.
        """
        data = memoryview(text.encode())
        try:
            while data:
                data = data[file_operations.write(self._descriptor, data) :]
        except OSError:
            self.close()
            raise


def _make(output: Path) -> tuple[int, Path]:
    """Create and lock a file beside an output, with a name that no earlier rows have."""
    beside, number = written_path(output), 1
    while True:
        path = beside.with_name(f".{beside.name}{'' if number == 1 else f'-{number}'}{_ENDING}")
        with contextlib.suppress(FileExistsError):
            descriptor = file_operations.create(path, _CREATE, 0o666)
            try_lock(descriptor)
            return descriptor, path
        number += 1


def left_rows(output: Path) -> list[Path]:
    """Return the files of rows that killed runs left beside an output."""
    left = []
    with contextlib.suppress(OSError):
        for path in sorted(output.parent.iterdir()):
            if path.name.startswith(f".{output.name}") and path.name.endswith(_ENDING) and not _in_use(path):
                left.append(path)
    return left


def _in_use(path: Path) -> bool:
    """Return whether a run holds the lock on a file of rows; true where there are no locks."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return True
    try:
        return not try_lock(descriptor, shared=True, unsupported=False)
    finally:
        os.close(descriptor)


def completed(text: str) -> str:
    """Return the text of an unfinished table, by its header, with the end that a killed run did not write.

    Any other text is returned unchanged, so that an accidentally truncated file stays an error.
    """
    head, rows, body = text.partition('\n"rows": [')
    if '"unfinished": true' not in head or not rows or body.rstrip().endswith("]\n}"):
        return text
    lines = [line.removesuffix(",") for line in body.splitlines() if line.removesuffix(",").strip()]
    if lines and not _is_whole(lines[-1]):
        lines.pop()
    return f"{head}{rows}\n" + ",\n".join(lines) + "\n]\n}\n"


def _is_whole(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False

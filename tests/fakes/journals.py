"""Reads the journal of a sweep that another process may be writing, or was writing when it was killed."""

import shutil
import sqlite3
import tempfile
import time
from pathlib import Path

from edgetune.stages.profiling.journal import stored


def entries_in(journal: Path) -> list[dict]:
    """Return the plain data of the entries, from a copy, so that nothing of the journal changes."""
    for _ in range(200):
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / "copy"
            for ending in ("-journal", ""):
                part = journal.with_name(f"{journal.name}{ending}")
                try:
                    shutil.copy(part, f"{copy}{ending}")
                except FileNotFoundError:
                    continue
            if not copy.exists() or not copy.stat().st_size:
                return []
            try:
                return stored(copy, "rw")[1]
            except (sqlite3.Error, ValueError):  # copied in the middle of a write
                time.sleep(0.001)
    raise AssertionError(f"{journal} stays unreadable")


def keep_first(journal: Path, count: int) -> None:
    """Leave the first entries of a journal, as a kill after them would."""
    database = sqlite3.connect(journal)
    with database:
        database.execute("DELETE FROM entries WHERE number > ?", (count,))
    database.close()

"""Temporary folders that no kill leaves behind for long: the next run of the same user removes them."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from edgetune.artifacts.output_folder import make_partial_folder, open_folder, sweep_partials


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Make a folder for this context, and remove those that killed runs of this user left.

    A folder is locked as long as a run uses it, so that only abandoned ones are removed; never another user's.

    Raises:
        OSError: no folder can be made.
    """
    root = Path(tempfile.gettempdir())
    prefix = f"edgetune-{os.geteuid()}-"
    parent = open_folder(root)
    try:
        sweep_partials(parent, prefix=prefix, suffix="")
        name, descriptor = make_partial_folder(parent, prefix=prefix, suffix="")
    finally:
        os.close(parent)
    try:
        yield root / name
    finally:
        shutil.rmtree(root / name, ignore_errors=True)
        os.close(descriptor)

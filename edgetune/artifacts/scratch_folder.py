"""Temporary folders; those of killed runs are removed by the next run of the same user."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from edgetune.artifacts.output_folder import make_partial_folder, open_folder, private, sweep_partials


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Create a folder for this context, and remove those of killed runs of this user.

    A run locks its folder, so that only abandoned folders are removed, and never another user's.

    Raises:
        OSError: no folder can be created.
    """
    with partial_folder(Path(tempfile.gettempdir()), f"edgetune-{os.geteuid()}-") as made:
        yield made


@contextmanager
def partial_folder(parent: Path, prefix: str, suffix: str = "", *, mode: int = 0o700) -> Iterator[Path]:
    """Create a locked folder of a random name for this context, and remove abandoned ones of such names.

    Args:
        parent: The parent folder.
        prefix, suffix: Begin and end of its name.
        mode: Its permissions, less the umask.

    Raises:
        OSError: no folder can be created.
    """
    folder = open_folder(parent)
    try:
        sweep_partials(folder, prefix, suffix)
        name, descriptor = make_partial_folder(folder, prefix, suffix, mode)
    finally:
        os.close(folder)
    try:
        with private(descriptor):
            yield parent / name
    finally:
        shutil.rmtree(parent / name, ignore_errors=True)
        os.close(descriptor)

"""Temporary folders; those of killed runs are removed by a later run of the same user."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
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

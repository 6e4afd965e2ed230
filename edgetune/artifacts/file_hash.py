"""The SHA-256 of a file."""

from __future__ import annotations

import errno
import hashlib
from pathlib import Path

_CHUNK_BYTES = 1 << 20


def file_hash(path: Path) -> hashlib._Hash:
    """Return the SHA-256 of a file, read in parts; more can be added to it.

    Raises:
        OSError: The file cannot be read, or has no end.
    """
    digest = hashlib.sha256()
    if path.is_fifo() or path.is_char_device():
        raise OSError(errno.EINVAL, "a pipe or a device has no hash", str(path))
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest

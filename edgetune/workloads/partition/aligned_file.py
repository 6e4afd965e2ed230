"""Files of raw tensors, laid out so that a process can map them and hand the pages to a kernel as they are."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import IO, Any

ALIGNMENT_BYTES = 64
"""Each tensor begins on such a boundary: a cache line, and the width of the widest vector loads (AVX-512)."""


@dataclass(slots=True)
class AlignedFile:
    """A file being written, one tensor after another.

    Args:
        stream: Open for writing bytes, at its beginning; the system maps a file from a page boundary on.
    """

    stream: IO[bytes]
    size_bytes: int = 0
    _digest: Any = field(default_factory=hashlib.sha256)

    def append(self, data: Any) -> int:
        """Write the bytes of one tensor and return where they begin.

        Args:
            data: Bytes, or a contiguous array.
        """
        self._write(bytes(-self.size_bytes % ALIGNMENT_BYTES))
        offset_bytes = self.size_bytes
        self._write(memoryview(data).cast("B") if memoryview(data).nbytes else b"")
        return offset_bytes

    def _write(self, data: Any) -> None:
        self.stream.write(data)
        self._digest.update(data)
        self.size_bytes += len(data)

    @property
    def sha256(self) -> str:
        """Hash of all that has been written."""
        return str(self._digest.hexdigest())

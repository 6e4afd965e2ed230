"""How much of a file the system has cached: whether a load that is to come from storage really does.

Dropping a file from the page cache is a request, which a file system in memory, or another program that has the file
mapped, does not grant; what is timed then is no storage.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from pathlib import Path

import numpy as np

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)


def cached_share(path: Path) -> float | None:
    """Return which share of a file's pages the system has in memory, 0 to 1; ``None`` where it does not tell.

    Source: mincore(2): the lowest bit of the byte of a page says whether it is resident.

    Args:
        path: The file.

    Raises:
        OSError: it cannot be read.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size_bytes = os.fstat(descriptor).st_size
        if size_bytes == 0:
            return 0.0
        with mmap.mmap(descriptor, size_bytes, mmap.MAP_SHARED, mmap.PROT_READ) as mapping:
            pages = np.zeros(-(-size_bytes // mmap.PAGESIZE), np.uint8)
            whole = np.frombuffer(mapping, np.uint8)
            failed = _libc.mincore(whole.ctypes.data, size_bytes, pages.ctypes.data)
            del whole  # a view keeps the mapping from being closed
        return None if failed else float((pages & 1).mean())
    finally:
        os.close(descriptor)

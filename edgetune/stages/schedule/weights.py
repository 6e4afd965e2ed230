"""Weights in memory: a file mapped read-only, populated before it is used, and given back when it is not.

    storage --populate--> page cache, mapped here --views--> ONNX Runtime reads weights where they are: no copy
                              release: unmapped, and out of the page cache where its bytes count

Loading would otherwise hide inside execution, page fault by page fault. Dropping a file from the page cache is a
request that a file system in memory, or another program with the file mapped, does not grant; ``cached_share`` returns
what stays. Standard library and numpy only.
"""

import contextlib
import ctypes
import errno
import math
import mmap
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgetune.errors import InputError

Array = np.ndarray[Any, np.dtype[Any]]

_MADV_POPULATE_READ = 22
"""<linux/mman.h> since Linux 5.14: page tables are filled now, and storage that fails is an error number, not SIGBUS
(madvise(2)). Python's own ``mmap.madvise`` would hold the interpreter lock meanwhile; ``ctypes`` releases it."""
_READ_BLOCK_BYTES = 1 << 20
_HINT = "prepare the network again, and see that its storage is healthy and that nothing writes to the folder"

_libc = ctypes.CDLL(None, use_errno=True)
_libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
_libc.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)


class MappedWeights:
    """A weights file in memory, from when the object is made until ``release``.

    Args:
        path: The file.
        size_bytes: Its required length.
        changed_ns: Its modification time when its hash was checked; ``None`` for an unchecked file.

    Raises:
        InputError: the file is missing, shorter, longer or newer than it should be, or its storage fails.
    """

    def __init__(self, path: Path, size_bytes: int, changed_ns: int | None = None) -> None:
        self._path = path
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise InputError(f"cannot load weights from {path}: {error.strerror}", _HINT) from None
        try:
            self._check(size_bytes, changed_ns)
            self._map(size_bytes)
        except BaseException as error:
            self.release(drop_cache=True)
            if isinstance(error, OSError):
                raise InputError(f"cannot load weights from {path}: {error.strerror or error}", _HINT) from None
            raise

    def _check(self, size_bytes: int, changed_ns: int | None) -> None:
        found = os.fstat(self._descriptor)
        if found.st_size != size_bytes:
            raise InputError(f"{self._path} holds {found.st_size} bytes where {size_bytes} were prepared", _HINT)
        if changed_ns is not None and found.st_mtime_ns != changed_ns:
            raise InputError(f"{self._path} has changed since its hash was checked", _HINT)

    def _map(self, size_bytes: int) -> None:
        os.posix_fadvise(self._descriptor, 0, size_bytes, os.POSIX_FADV_WILLNEED)  # large reads: 3 x faster when cold
        self._mapping: mmap.mmap | None = mmap.mmap(self._descriptor, size_bytes, mmap.MAP_SHARED, mmap.PROT_READ)
        self._bytes = np.frombuffer(self._mapping, np.uint8)
        if self._advise(_MADV_POPULATE_READ) == 0:
            return
        number = ctypes.get_errno()
        if number == errno.EINVAL:  # a kernel before 5.14
            self._touch(size_bytes)
        elif number == errno.EFAULT:  # where an access would have raised SIGBUS
            raise OSError(errno.EIO, "its storage failed, or it was cut short meanwhile")
        else:
            raise OSError(number, os.strerror(number))

    def _touch(self, size_bytes: int) -> None:
        """Read every block, which fails where an access would raise SIGBUS, and then touch every page."""
        for offset in range(0, size_bytes, _READ_BLOCK_BYTES):
            os.pread(self._descriptor, _READ_BLOCK_BYTES, offset)
        int(self._bytes[:: mmap.PAGESIZE].max(initial=0))

    def _advise(self, advice: int) -> int:
        return int(_libc.madvise(self._bytes.ctypes.data, self._bytes.nbytes, advice))

    def tensor(self, offset: int, dtype: str, shape: Sequence[int]) -> Array:
        """Return a tensor as a view of the mapping; it must be dropped before ``release``.

        Args:
            offset: Of its first element, bytes from the beginning of the file.
            dtype: Numpy name of the element type.
            shape: Its dimensions.
        """
        size_bytes = np.dtype(dtype).itemsize * math.prod(shape)
        view: Array = self._bytes[offset : offset + size_bytes].view(dtype).reshape(tuple(shape))
        return view

    def release(self, *, drop_cache: bool) -> None:
        """Give the memory back; harmless when repeated.

        Args:
            drop_cache: Whether to drop the file from the page cache too. Its pages could be reclaimed at any time, but
                a control group counts them until they are.
        """
        if self._descriptor < 0:
            return
        mapping: mmap.mmap | None = getattr(self, "_mapping", None)
        if mapping is not None:
            self._advise(mmap.MADV_DONTNEED)  # gone now, even where a view is still held
            self._mapping = None
            del self._bytes
            with contextlib.suppress(BufferError):  # it is unmapped with the last view then
                mapping.close()
        if drop_cache:
            os.posix_fadvise(self._descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(self._descriptor)
        self._descriptor = -1


def drop_cached(path: Path) -> None:
    """Drop a file from the page cache, where that is possible: written to storage, and not mapped.

    A page counts for the control group that read it first; what others have cached already costs a group nothing, and
    takes no time to load.
    """
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def cached_share(path: Path) -> float | None:
    """Return which share of a file's pages the system has in memory, 0 to 1; ``None`` where it does not tell.

    Source: mincore(2): the lowest bit of the byte of a page says whether it is resident.

    Args:
        path: The file.

    Raises:
        OSError: the file cannot be read.
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

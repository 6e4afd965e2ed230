"""The special registers of PTX, of the threads that run at once (NVIDIA, "PTX ISA", chapter 10)."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

WARP_THREADS = 32
_MULTIPROCESSORS = 4

CLOCKS = frozenset({"clock", "clock_hi", "clock64", "globaltimer", "globaltimer_lo", "globaltimer_hi"})
"""They are read anew each time."""


def _lane(of: Any) -> Any:
    return of.thread % WARP_THREADS


def _bit(of: Any) -> Any:
    return np.uint32(1) << _lane(of).astype(np.uint32)


_ALONG: dict[str, Callable[[int, Any], Any]] = {
    "tid": lambda i, of: of.thread // math.prod(of.launch.block[:i]) % of.launch.block[i],
    "ntid": lambda i, of: of.launch.block[i],
    "ctaid": lambda i, of: of.number // np.prod(of.grid[:i], axis=0, dtype=np.int64) % of.grid[i],
    "nctaid": lambda i, of: of.grid[i],
}
SPECIAL: dict[str, Callable[[Any], Any]] = {
    **{f"{name}.{axis}": partial(compute, i) for name, compute in _ALONG.items() for i, axis in enumerate("xyz")},
    "laneid": _lane, "warpid": lambda of: of.thread // WARP_THREADS,
    "nwarpid": lambda of: -(-math.prod(of.launch.block) // WARP_THREADS),
    "lanemask_eq": _bit, "lanemask_lt": lambda of: _bit(of) - np.uint32(1), "lanemask_ge": lambda of: -_bit(of),
    "lanemask_le": lambda of: _bit(of) * np.uint32(2) - np.uint32(1),
    "lanemask_gt": lambda of: -(_bit(of) * np.uint32(2)),
    "smid": lambda of: of.number % _MULTIPROCESSORS, "nsmid": lambda _: _MULTIPROCESSORS, "gridid": lambda _: 0,
    "dynamic_smem_size": lambda of: of.launch.dynamic_shared_bytes,
    "total_smem_size": lambda of: of.memory.limit["shared"],
}  # fmt: skip
"""From blocks (see ``groups``) to a number for each of their threads, or one for all of them."""

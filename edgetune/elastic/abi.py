"""What an elastic kernel is called, and the one parameter it takes more than the original.

    original                     elastic
    vadd<<<(6,1,1), 256>>>(a)    vadd__grid<<<2, 256>>>(a, {grid (6,1,1), block (256,1,1), first 0, count 3})
                                 vadd__grid<<<2, 256>>>(a, {grid (6,1,1), block (256,1,1), first 3, count 3})

Every elastic kernel has its own parameters first, unchanged, and then ``edgetune_launch`` by value: the logical launch,
which is the one that the program asked for, and the part of its blocks to run. Logical blocks are numbered with x
fastest. The physical grid is one-dimensional and of any size: a physical block goes on to the next logical block when
it is done with one. The physical block has the shape of the logical block at grid level and one dimension at block
level, where a physical thread runs several logical threads: those whose number is its own modulo the physical block
size, so that lanes of a warp keep their places where that size is a multiple of 32.
"""

from __future__ import annotations

import struct
from typing import Literal

PARAMETER = "edgetune_launch"
STRUCT_NAME = "edgetune_launch_t"
STRUCT = f"""struct {STRUCT_NAME} {{
    unsigned int grid[3];   // of the logical launch
    unsigned int block[3];
    unsigned int first;     // logical block to begin with, x fastest
    unsigned int count;     // how many from there on
}};"""
"""As it stands in every elastic source."""

_PACKING = struct.Struct("<8I")
SIZE_BYTES, FIRST_OFFSET_BYTES, COUNT_OFFSET_BYTES = _PACKING.size, 24, 28
"""Of a packed launch, only the last two numbers change from shard to shard."""

MOST_BLOCKS = 2**32 - 1
"""Logical blocks that can be numbered."""

PER_THREAD = (1, 2, 4, 8)
"""How many logical threads a physical one may run."""

Level = Literal["grid", "block"]
Dim = tuple[int, int, int]


def packed(grid: Dim, block: Dim, first: int, count: int) -> bytes:
    """Return the parameter as the kernel reads it (little endian, as every CUDA platform)."""
    return _PACKING.pack(*grid, *block, first, count)


def grid_symbol(kernel: str) -> str:
    """Return the name of the form whose grid alone is elastic."""
    return f"{kernel}__grid"


def block_symbol(kernel: str, per_thread: int | None) -> str:
    """Return the name of the form whose block is elastic too.

    Args:
        kernel: Name of the original.
        per_thread: Logical threads in a physical one; ``None`` for the form that finds out by itself from the physical
            block size (kernels without barriers).
    """
    return f"{kernel}__block" if per_thread is None else f"{kernel}__block{per_thread}"

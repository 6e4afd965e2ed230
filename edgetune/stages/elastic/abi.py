"""The names of elastic kernels, and the one parameter that they take beyond those of the original.

    original                     elastic
    vadd<<<(6,1,1), 256>>>(a)    vadd__grid<<<2, 256>>>(a, {grid (6,1,1), block (256,1,1), first 0, count 3})
                                 vadd__grid<<<2, 256>>>(a, {grid (6,1,1), block (256,1,1), first 3, count 3})

Every elastic kernel takes its own parameters first, unchanged, then ``edgetune_launch`` by value: the logical launch,
which the program asked for, and the part of its blocks to run. Logical blocks are numbered with x fastest. The physical
grid is one-dimensional and of any size: a physical block that has finished a logical block goes on to the next. At grid
level the physical block has the shape of the logical block. At block level it has one dimension, and a physical thread
runs the logical threads whose number equals its own modulo the physical block size, so that lanes of a warp keep their
places where that size is a multiple of 32.
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
"""Its declaration in every elastic source."""

_PACKING = struct.Struct("<8I")
SIZE_BYTES, FIRST_OFFSET_BYTES, COUNT_OFFSET_BYTES = _PACKING.size, 24, 28
"""Of a packed launch, whose last two numbers alone change from shard to shard."""

MOST_BLOCKS = 2**32 - 1
"""Most logical blocks that can be numbered."""

PER_THREAD = (1, 2, 4, 8)
"""Numbers of logical threads that a physical one may run."""

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
        per_thread: Logical threads in a physical one; ``None`` for the form of a kernel without barriers, which takes
            any physical block size.
    """
    return f"{kernel}__block" if per_thread is None else f"{kernel}__block{per_thread}"

"""The names of elastic kernels, and the parameters that they take beyond those of the original.

    original                     elastic
    vadd<<<(6,1,1), 256>>>(a)    vadd__grid<<<2, 256>>>(a, {grid (6,1,1), block (256,1,1), first 0, count 3})
                                 vadd__grid<<<2, 256>>>(a, {grid (6,1,1), block (256,1,1), first 3, count 3})

Every elastic kernel takes its own parameters first, unchanged, then ``edgetune_launch`` by value, eight ``unsigned
int``: the logical launch, which the program asked for, and the part of its blocks to run. Logical blocks are numbered
with x fastest. The physical grid is one-dimensional and of any size: a physical block that has finished a logical block
goes on to the next. At grid level the physical block has the shape of the logical block. At block level it has one
dimension, and a physical thread runs the logical threads whose number equals its own modulo the physical block size, so
that lanes of a warp keep their places where that size is a multiple of 32. Forms stop where not every physical thread
has as many logical ones, or where lanes of a warp meet and that size is no multiple of 32.

A physical block computes the index of a logical block from its number, x = number % grid.x, y = number / grid.x ...,
with divisions in grids of two and three dimensions only (Zhao et al., Miriam, SenSys 2023, section on the
source-to-source transformer).

A persistent form is launched once with as many physical blocks as the GPU holds, which take logical blocks until none
is left (persistent threads: Gupta et al. 2012, A study of persistent threads style GPU programming). Its last parameter
is the address of three words of device memory, ``edgetune_control``:

    next     the logical block that is taken next; the host sets it to 0 before a call
    done     logical blocks that have been done; likewise
    quota    physical blocks whose rank is below it go on; anyone may change it at any time

    thread 0:  rank < quota ? atomicAdd(next, 1) : leave        for the whole block, before each logical block
               atomicAdd(done, 1)                               behind it

In its launch ``count`` bounds the counter, and ``first`` is the rank of the first physical block: a block has rank
first + blockIdx.x. A block leaves before it takes, so that no logical block is lost; preemption takes one logical block
and no host. Another launch with the same words goes on where the counter is, also beside one that still runs: with
``first`` at the old quota it brings back the blocks that have left. All is done once ``done`` is the count; the counter
goes beyond that by one at most for each physical block that was launched, and the sum must fit 32 bits. A launch that
comes late finds nothing left; one that comes so late that the words are those of the next request helps with that.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Literal

from edgetune.errors import InputError

PARAMETER = "edgetune_launch"
_PACKING = struct.Struct("<8I")
SIZE_BYTES, FIRST_OFFSET_BYTES, COUNT_OFFSET_BYTES = _PACKING.size, 24, 28
"""Of a packed launch, whose last two numbers alone change from shard to shard."""

MOST_BLOCKS = 2**32 - 1
"""Most logical blocks that can be numbered."""

PER_THREAD = (1, 2, 4, 8)
"""Numbers of logical threads that a physical one may run."""

Level = Literal["grid", "block", "persistent"]
Dim = tuple[int, int, int]

CONTROL = "edgetune_control"
"""The last parameter of a persistent form: the address of the words ``next``, ``done`` and ``quota``."""
CONTROL_BYTES, DONE_OFFSET_BYTES, QUOTA_OFFSET_BYTES = 12, 4, 8
NO_QUOTA = 2**32 - 1
"""The quota with which no block leaves early."""


def dim(sizes: Sequence[int]) -> Dim:
    """Return sizes along x, y and z, of which the last are 1 where they are left out.

    Raises:
        InputError: there are none or more than three, or one is not positive.
    """
    if not 1 <= len(sizes) <= 3 or min(sizes) < 1:
        raise InputError(f"{list(sizes)} is not one to three numbers above zero", "x first, e.g. 196 or 14,14")
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z


def packed(grid: Dim, block: Dim, first: int, count: int) -> bytes:
    """Return the parameter as the kernel reads it (little endian, as every CUDA platform)."""
    return _PACKING.pack(*grid, *block, first, count)


def grid_symbol(kernel: str) -> str:
    """Return the name of the form whose grid alone is elastic."""
    return f"{kernel}__grid"


def persistent_symbol(kernel: str) -> str:
    """Return the name of the form whose blocks take logical blocks from a counter."""
    return f"{kernel}__persistent"


def block_symbol(kernel: str, per_thread: int) -> str:
    """Return the name of the form whose block is elastic too: with so many logical threads in a physical one."""
    return f"{kernel}__block{per_thread}"

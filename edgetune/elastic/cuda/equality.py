"""Whether elastic forms give what the originals give, on the GPU: every number the same, bit for bit.

    originals                                       -> every buffer, remembered
    form for 4, pieces of a third, 16 blocks each   -> every buffer, compared
    ...

A network is run as a whole in every way, so that each kernel gets what those before it wrote; what a way does not have
for a kernel is launched as the form for one. Kernels that add atomically in floating point differ from themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgetune.elastic.abi import PER_THREAD
from edgetune.elastic.backend import Launch
from edgetune.elastic.cuda.context import Context
from edgetune.elastic.cuda.program import Program

SLICES = (1, 2, 7)
"""The whole, halves, and what does not divide powers of two."""


@dataclass(frozen=True, slots=True)
class LaunchVariant:
    """A way to launch all kernels of a network.

    Args:
        per_thread: Logical threads in a physical one, where a kernel has such a form; ``None`` are the originals.
        slices: Pieces that each grid is cut into.
        blocks: Physical blocks of each piece; ``None`` as many as logical ones.
    """

    per_thread: int | None
    slices: int = 1
    blocks: int | None = None


@dataclass(frozen=True, slots=True)
class BufferDifference:
    """A buffer that came out different.

    Args:
        way: How the network was launched.
        buffer: Its name.
        numbers: How many of its numbers differ.
        first: Place of the first of them.
    """

    way: LaunchVariant
    buffer: str
    numbers: int
    first: int


ORIGINAL = LaunchVariant(None)


def ways(program: Program, sm_count: int) -> Iterator[LaunchVariant]:
    """Yield the ways to try: every form there is, by slices and by physical blocks."""
    calls = range(len(program.network.calls))
    there = [each for each in PER_THREAD if any(each in program.per_thread(call) for call in calls)]
    for per_thread in there:
        for slices in SLICES:
            for blocks in (None, sm_count, 3):
                yield LaunchVariant(per_thread, slices, blocks)


def launches(program: Program, way: LaunchVariant) -> Iterator[Launch]:
    """Yield the launches of a request."""
    number = 0
    for place, call in enumerate(program.network.calls):
        there, whole = program.per_thread(place), call.logical.blocks
        per_thread = way.per_thread if way.per_thread in there else 1
        if way.per_thread is None or not there:
            yield Launch(number, "", 0, place, call, 0, whole)
            number += 1
            continue
        size = -(-whole // way.slices)
        for first in range(0, whole, size):
            count = min(size, whole - first)
            yield Launch(number, "", 0, place, call, first, count, per_thread or 1, way.blocks or count)
            number += 1


def run(
    context: Context, program: Program, way: LaunchVariant, stream: Any
) -> dict[str, np.ndarray[Any, np.dtype[Any]]]:
    """Run a request in one way; return what is in every buffer that kernels write."""
    written = [each.name for each in program.network.buffers if each.role in ("scratch", "output")]
    for name in written:
        program.clear(name)
    for launch in launches(program, way):
        program.launch(launch, stream)
    context.synchronise(stream)
    return {name: program.read(name) for name in written}


def differences(context: Context, program: Program, tried: Sequence[LaunchVariant]) -> list[BufferDifference]:
    """Return what differs from the originals.

    Args:
        context: Where.
        program: A network with contents, compiled without contraction (``CompileOptions(fmad=False)``).
        tried: Ways to launch it.
    """
    with context.scope():
        stream = context.stream()
        wanted = run(context, program, ORIGINAL, stream)
        found = []
        for way in (ORIGINAL, *tried):  # a network that differs from itself has a race, and is no yardstick
            for name, values in run(context, program, way, stream).items():
                differs = np.flatnonzero(_bits(values) != _bits(wanted[name]))
                if differs.size:
                    found.append(BufferDifference(way, name, differs.size, int(differs[0])))
    return found


def _bits(values: np.ndarray[Any, np.dtype[Any]]) -> np.ndarray[Any, np.dtype[Any]]:
    """Return the bits of numbers, among which a number that is none equals itself."""
    return np.ascontiguousarray(values).reshape(-1).view(f"u{values.dtype.itemsize}")

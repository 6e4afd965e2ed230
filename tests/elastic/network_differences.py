"""Networks on a GPU run as a whole in every way, so that each kernel gets the outputs of those before it.

Kernels that add atomically in floating point differ from themselves.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgetune.stages.elastic.cpu_equivalence import FormLaunch, original, ways
from edgetune.stages.elastic.cuda.context import Context
from edgetune.stages.elastic.cuda.gpu_equivalence import MATRIX, put
from edgetune.stages.elastic.cuda.program import Program
from edgetune.stages.elastic.kernel import PERSISTENT, CudaKernel, ElasticKernel, Variant, symbol_of

Way = Sequence[FormLaunch]
"""A way to run a network: one for each of its calls."""


@dataclass(frozen=True, slots=True)
class BufferDifference:
    """A buffer with another result.

    Args:
        way: How the network was launched.
        buffer: Its name.
        numbers: How many of its numbers differ.
        first: Place of the first of them.
    """

    way: Way
    buffer: str
    numbers: int
    first: int


def originals(program: Program) -> Way:
    """Return the way of the originals."""
    return [original(call, MATRIX.schedules[0]) for call in program.network.calls]


def network_ways(program: Program) -> list[Way]:
    """Return ways in which each form of each call is run: a call that has fewer than others begins again."""
    found = list[list[FormLaunch]]()
    for place, call in enumerate(program.network.calls):
        keys = [key for key in program.forms(place) if key is not None]
        variants = tuple(Variant(symbol_of(call.kernel, key), level_of(key), key or 1) for key in keys)
        elastic = ElasticKernel(CudaKernel(call.kernel, 1, ()), variants)
        found.append(list(ways(elastic, call.logical, MATRIX)) or [original(call, MATRIX.schedules[0])])
    return [[each[number % len(each)] for each in found] for number in range(max(map(len, found)))]


def level_of(key: int) -> Any:
    """Return the level of a form."""
    return "persistent" if key == PERSISTENT else "grid" if key == 1 else "block"


def run(context: Context, program: Program, way: Way, stream: Any) -> dict[str, np.ndarray[Any, np.dtype[Any]]]:
    """Run a request in one way; return every buffer that kernels write."""
    written = [each.name for each in program.network.buffers if each.role in ("scratch", "output")]
    for name in written:
        program.clear(name)
    with context.scope():
        for place, each in enumerate(way):
            put(context, program, place, each, stream)
        context.synchronise(stream)
    return {name: program.read(name) for name in written}


def differences(context: Context, program: Program, tried: Sequence[Way]) -> list[BufferDifference]:
    """Return the differences from the originals.

    Args:
        context: The GPU.
        program: A network with contents, compiled without contraction (``CompileOptions(fmad=False)``).
        tried: Ways to launch it.
    """
    with context.scope():
        stream, own = context.stream(), originals(program)
        wanted = run(context, program, own, stream)
        found = []
        for way in (own, *tried):  # a network that differs from itself has a race, and is no yardstick
            for name, values in run(context, program, way, stream).items():
                differs = np.flatnonzero(_bits(values) != _bits(wanted[name]))
                if differs.size:
                    found.append(BufferDifference(way, name, differs.size, int(differs[0])))
    return found


def _bits(values: np.ndarray[Any, np.dtype[Any]]) -> np.ndarray[Any, np.dtype[Any]]:
    """Return the bits of numbers, in which a value that is no number equals itself."""
    return np.ascontiguousarray(values).reshape(-1).view(f"u{values.dtype.itemsize}")

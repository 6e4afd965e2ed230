"""Networks on a GPU run as a whole in every way, so that each kernel gets the outputs of those before it.

Kernels that add atomically in floating point differ from themselves.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgetune.stages.elastic.cuda.context import Context
from edgetune.stages.elastic.cuda.gpu_equivalence import ORIGINAL, LaunchVariant, put
from edgetune.stages.elastic.cuda.program import Program


@dataclass(frozen=True, slots=True)
class BufferDifference:
    """A buffer with another result.

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


def run(
    context: Context, program: Program, way: LaunchVariant, stream: Any
) -> dict[str, np.ndarray[Any, np.dtype[Any]]]:
    """Run a request in one way; return every buffer that kernels write."""
    written = [each.name for each in program.network.buffers if each.role in ("scratch", "output")]
    for name in written:
        program.clear(name)
    put(context, program, way, stream, context.stream())
    context.synchronise(stream)
    return {name: program.read(name) for name in written}


def differences(context: Context, program: Program, tried: Sequence[LaunchVariant]) -> list[BufferDifference]:
    """Return the differences from the originals.

    Args:
        context: The GPU.
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
    """Return the bits of numbers, in which a value that is no number equals itself."""
    return np.ascontiguousarray(values).reshape(-1).view(f"u{values.dtype.itemsize}")

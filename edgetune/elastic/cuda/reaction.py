"""How soon a piece can follow another that had to end first: by the loop, on this GPU and host.

    GPU    [empty]                          [empty]
    host          sees that it is over, decides, launches
           |<------------ reaction ---------------->|

Pieces that are shorter leave the GPU waiting for the host.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import ClassVar

from edgetune.elastic.cuda.backend import CudaBackend
from edgetune.elastic.cuda.context import Context
from edgetune.elastic.cuda.program import Build, Program
from edgetune.elastic.forms import Form, Forms
from edgetune.elastic.gpu import Resources
from edgetune.elastic.loop import ElasticLoop
from edgetune.elastic.policies.policy import upcoming
from edgetune.elastic.view import Decision, LaunchPiece, View
from edgetune.elastic.work import Call, GpuTask, KernelSequence, Logical
from edgetune.stats import median
from edgetune.units import NS

_CALLS = 50
_DURATION_S = 0.1
_NEEDS = Resources(registers_per_thread=0)


class _OneByOne:
    """Launches a kernel when the one before it is over."""

    name: ClassVar[str] = "one by one"

    def decide(self, view: View) -> Sequence[Decision]:
        """Return the next kernel."""
        (state,) = view.tasks
        found = None if state.in_flight else upcoming(state)
        return () if found is None else (LaunchPiece(state.task.name, found[1]),)


def reaction_s(context: Context, image: bytes, kernel: str) -> float:
    """Return what passes from the end of a kernel until the end of an empty one that follows it, s: the median.

    Args:
        context: Where; nothing else is to run on the GPU meanwhile.
        image: Compiled for it.
        kernel: One of it that does nothing.
    """
    call = Call(kernel, Logical((1, 1, 1), (1, 1, 1)), elastic=False)
    network = KernelSequence("empty", (call,) * _CALLS)
    task = GpuTask("empty", network, arrivals="closed")
    with context.scope():
        program = Program(context, network, Build(image, {kernel: Forms(Form(kernel, _NEEDS), {})}))
        program.warm_up(context.stream())
        backend = CudaBackend(context, {task.name: program}, [task])
        loop = ElasticLoop(_OneByOne(), backend, [task], gpu=context.facts.gpu, duration_s=_DURATION_S)
        loop.run()
    return median([later.ended_ns - earlier.ended_ns for earlier, later in pairwise(loop.launches)]) / NS

"""Compares elastic forms of kernels with the originals on a GPU, bit for bit.

    trial --buffers filled--> original, three times        differs from itself: racy
          --buffers filled--> form for 2, in halves, on 16 blocks        compared
          --buffers filled--> persistent form, the quota changed as it runs, blocks brought back    compared
          ...

A GPU chooses the order of threads and blocks itself, so that a race may stay unseen that the orders of the interpreter
show. It adds the compiler's own code, real warps, and real memory. In a network, a kernel without a form for a way is
launched in the form for one.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from edgetune.artifacts.kernel_tasks import KernelBuffer
from edgetune.errors import DeviceError, EdgetuneError, InputError
from edgetune.stages.elastic.cpu_equivalence import Verdict, different
from edgetune.stages.elastic.cuda.building import Build
from edgetune.stages.elastic.cuda.context import Context
from edgetune.stages.elastic.cuda.program import Program
from edgetune.stages.elastic.gpu import KernelSequence
from edgetune.stages.elastic.kernel import NO_QUOTA, PER_THREAD, ElasticKernel, TransformResult
from edgetune.stages.elastic.sample_launches import SampleLaunch
from edgetune.stages.elastic.view import Launch
from edgetune.workloads.cuda_driver import KernelFailedError

SLICES = (1, 2, 7)
"""The whole, halves, and a number that does not divide powers of two."""


@dataclass(frozen=True, slots=True)
class LaunchVariant:
    """A way to launch all kernels of a network.

    Args:
        per_thread: Logical threads in a physical one, where a kernel has such a form; ``None`` for the originals.
        slices: Pieces that each grid is cut into.
        blocks: Physical blocks of each piece; ``None`` as many as logical ones.
        quotas: Launch persistent forms, where a kernel has one, and set these quotas as they run; ``None`` for other
            forms.
    """

    per_thread: int | None
    slices: int = 1
    blocks: int | None = None
    quotas: tuple[int, ...] | None = None


ORIGINAL = LaunchVariant(None)


def ways(program: Program, sm_count: int) -> Iterator[LaunchVariant]:
    """Yield the ways to try: every form there is, by slices and by physical blocks."""
    calls = range(len(program.network.calls))
    there = [each for each in PER_THREAD if any(each in program.per_thread(call) for call in calls)]
    for per_thread in there:
        for slices in SLICES:
            for blocks in (None, sm_count, 3):
                yield LaunchVariant(per_thread, slices, blocks)
    if any(program.has_persistent(call) for call in calls):
        for blocks in (None, sm_count, 3):
            for quotas in ((), (1,), (0, 2, 0)):
                yield LaunchVariant(1, blocks=blocks, quotas=quotas)


def put(context: Context, program: Program, way: LaunchVariant, stream: Any, beside: Any) -> None:
    """Put a request on a stream, and blocks that come back on another; a call whose quota changed is waited for."""
    for launch in launches(program, way):
        program.launch(launch, stream)
        if launch.persistent and program.control is not None and way.quotas:
            for quota in (*way.quotas, NO_QUOTA):
                program.control.set_quota(quota)
            program.bring_back(launch, 0, beside)
            context.synchronise(stream)


def launches(program: Program, way: LaunchVariant) -> list[Launch]:
    """Return the launches of a request, in order."""
    found: list[Launch] = []
    for place, call in enumerate(program.network.calls):
        there, whole = program.per_thread(place), Launch(0, "", 0, place, call, 0, call.logical.blocks)
        if way.per_thread is None or not there:
            found.append(whole)
        elif way.quotas is not None and program.has_persistent(place):
            found.append(replace(whole, blocks=way.blocks or whole.count, persistent=True))
        else:
            size, per_thread = -(-whole.count // way.slices), way.per_thread if way.per_thread in there else 1
            for first in range(0, whole.count, size):
                count = min(size, whole.count - first)
                piece = replace(whole, first=first, count=count, per_thread=per_thread, blocks=way.blocks or count)
                found.append(piece)
    return [replace(each, number=number) for number, each in enumerate(found)]


_ORIGINALS = 3
"""Runs of an original before it counts as one that does not differ from itself."""


def check(
    context: Context, built: Build, transformed: TransformResult, trials: Sequence[SampleLaunch]
) -> tuple[tuple[Verdict, ...], dict[str, EdgetuneError]]:
    """Run trials of kernels in all their forms on a GPU.

    After a kernel that fails or hangs CUDA runs no more in this process: the trials behind it are not run. Nor is a
    trial that is no launch which its kernel takes, that does not fit the GPU, or for which memory is short.

    Args:
        context: The GPU.
        built: The compiled source.
        transformed: The source with its forms.
        trials: Launches of the originals; those of kernels without forms are left out.

    Returns:
        The verdict of each trial that was run; and why one of a kernel's trials was not run, by the kernel's name.
    """
    elastic = {each.kernel.name: each for each in transformed.kernels if each.variants}
    found, untried, lost = list[Verdict](), dict[str, EdgetuneError](), None
    for trial in trials:
        name = trial.call.kernel
        if name not in elastic:
            continue
        if elastic[name].kernel.textures:
            why = "it takes a texture or surface, which a launch in a comment cannot make on a GPU"
            untried[name] = InputError(why, "check it on the CPU: leave --device out")
            continue
        if lost is not None:
            untried.setdefault(name, lost)
            continue
        buffers = [KernelBuffer(name, each.shape, each.dtype.str, "input") for name, each in trial.buffers.items()]
        network = KernelSequence(name, (trial.call,), "", buffers)
        try:
            with context.scope():
                verdict, alive = _verdict(context, Program(context, network, built), elastic[name], trial)
        except EdgetuneError as error:
            untried[name], alive = error, not isinstance(error, KernelFailedError)
        else:
            found.append(verdict)
        if not alive:
            message = f"{name} failed before it, after which CUDA runs nothing more in a process"
            lost = DeviceError(message, f"mend {name}, or move the other kernels to another file")
    return tuple(found), untried


def _verdict(context: Context, program: Program, elastic: ElasticKernel, trial: SampleLaunch) -> tuple[Verdict, bool]:
    """Return the verdict of a trial, and whether CUDA still runs kernels."""
    name, forms, sequences = elastic.kernel.name, len(elastic.variants), 0
    expected: Mapping[str, np.ndarray[Any, Any]] = {}
    for way in (*[ORIGINAL] * _ORIGINALS, *ways(program, program.sm_count)):
        sequences += way != ORIGINAL
        program.write(trial.buffers)
        try:
            with context.scope():
                stream = context.stream()
                put(context, program, way, stream, context.stream())
                context.synchronise(stream)
            got = {buffer: program.read(buffer) for buffer in trial.buffers}
        except KernelFailedError as error:
            if way == ORIGINAL:
                return Verdict(name, "fails", 0, forms, error.message), False
            return Verdict(name, "different", sequences, forms, f"{_how(way)}: {error.message}"), False
        expected = expected or got
        reason = different(expected, got, elastic.kernel)
        if reason and way == ORIGINAL:
            return Verdict(name, "racy", 0, forms, f"the original differs from itself: {reason}"), True
        if all(array.tobytes() == trial.buffers[buffer].tobytes() for buffer, array in expected.items()):
            why = "it changes none of the memory that the launch gives it: there is nothing to compare"
            return Verdict(name, "no output", 0, forms, why), True
        if reason:
            return Verdict(name, "different", sequences, forms, f"{_how(way)}: {reason}"), True
    return Verdict(name, "equal", sequences, forms), True


def _how(way: LaunchVariant) -> str:
    """Return a way in words."""
    blocks = "as many blocks as logical ones" if way.blocks is None else f"{way.blocks} blocks"
    if way.quotas is not None:
        return f"persistent, {blocks}, quotas {list(way.quotas)}"
    return f"{way.per_thread} logical threads in one, {way.slices} pieces, {blocks}"

"""Compares elastic forms of kernels with the originals on a GPU, bit for bit.

    trial --buffers filled--> original, three times        differs from itself: racy
          --buffers filled--> form, in shards of its logical blocks, on some physical blocks      compared
          --buffers filled--> persistent form, the quota changed as it runs, blocks brought back    compared
          ...

A GPU chooses the order of threads and blocks itself, so that a race may stay unseen that the orders of the interpreter
show. It adds the compiler's own code, real warps, and real memory.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from edgetune.artifacts.kernel_tasks import KernelBuffer
from edgetune.errors import DeviceError, EdgetuneError, InputError
from edgetune.stages.elastic.cpu_equivalence import FormLaunch, Matrix, Verdict, compared, original, ways
from edgetune.stages.elastic.cuda.building import Build
from edgetune.stages.elastic.cuda.context import Context
from edgetune.stages.elastic.cuda.program import Program
from edgetune.stages.elastic.gpu import KernelSequence
from edgetune.stages.elastic.kernel import NO_QUOTA, TransformResult, symbol_of
from edgetune.stages.elastic.sample_launches import Buffers, ExecutionOrder, SampleLaunch
from edgetune.stages.elastic.view import Launch
from edgetune.workloads.cuda_driver import KernelFailedError

MATRIX = Matrix((ExecutionOrder("any"),))
"""A GPU is told no order."""
_ORIGINALS = 3
"""Runs of an original before it counts as one that does not differ from itself."""


def put(context: Context, program: Program, place: int, way: FormLaunch, stream: Any) -> None:
    """Put a call on a stream, in this way; one whose quota changed is waited for.

    Args:
        context: The GPU.
        program: A network.
        place: Of the call in it.
        way: The way.
        stream: The stream.
    """
    call = program.network.calls[place]
    per_thread = call.logical.threads // math.prod(way.block)
    whole = Launch(0, "", 0, place, call, 0, call.logical.blocks, per_thread, way.blocks, persistent=way.persistent)
    if not way.shards:
        program.launch(replace(whole, blocks=None), stream)
    for first, count in () if way.persistent else way.shards:
        program.launch(replace(whole, first=first, count=count), stream)
    if way.persistent and program.control is not None:
        program.launch(whole, stream)
        for quota in (*(rank for rank, _ in way.shards[:-1]), NO_QUOTA):
            program.control.set_quota(quota)
        program.bring_back(whole, 0, context.stream())
        context.synchronise(stream)


def _run(
    context: Context, program: Program, buffers: Buffers, failures: list[str], tried: Sequence[FormLaunch]
) -> Iterator[tuple[str, Buffers]]:
    """Run a kernel on the GPU up to the first failure, which is noted; as ``Runner``."""
    for way in tried:
        program.write(buffers)
        try:
            with context.scope():
                put(context, program, 0, way, stream := context.stream())
                context.synchronise(stream)
            got = {name: program.read(name) for name in buffers}
        except KernelFailedError as error:
            failures.append(error.message)
            yield error.message, {}
            return
        yield "", got


def check(
    context: Context, built: Build, transformed: TransformResult, trials: Sequence[SampleLaunch]
) -> tuple[tuple[Verdict, ...], dict[str, EdgetuneError]]:
    """Run trials of kernels in all their forms that fit on a GPU.

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
    found, untried, failures, last = list[Verdict](), dict[str, EdgetuneError](), list[str](), ""
    for trial in trials:
        call, name = trial.call, trial.call.kernel
        if name not in elastic:
            continue
        try:
            if failures:
                message = f"{last} failed before it, after which CUDA runs nothing more in a process"
                raise DeviceError(message, f"mend {last}, or move the other kernels to another file")
            if elastic[name].kernel.textures:
                message = "it takes a texture or surface, which a launch in a comment cannot make on a GPU"
                raise InputError(message, "check it on the CPU: leave --device out")
            last, names = name, trial.buffers.items()
            buffers = [KernelBuffer(each, array.shape, array.dtype.str, "input") for each, array in names]
            with context.scope():
                program = Program(context, KernelSequence(name, (call,), "", buffers), built)
                there = {symbol_of(name, form) for form in program.forms(0)}
                forms = [way for way in ways(elastic[name], call.logical, MATRIX) if way.symbol in there]
                run = partial(_run, context, program, trial.buffers, failures)
                tried = [*[original(call, MATRIX.schedules[0])] * _ORIGINALS, *forms]
                found.append(compared(elastic[name], tried, run, trial.buffers))
        except EdgetuneError as error:
            untried.setdefault(name, error)
            if isinstance(error, KernelFailedError):
                failures.append(error.message)
    return tuple(found), untried

"""Makes tasks of a document of kernel tasks, and estimates how many launches they come to."""

from __future__ import annotations

import math
import struct
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from edgetune import limits
from edgetune.artifacts.files import read_source
from edgetune.artifacts.kernel_tasks import BufferEntry, CallEntry, KernelTasks, NetworkEntry
from edgetune.choices import closest
from edgetune.errors import InputError, blaming
from edgetune.serving.arrivals import parse_arrivals
from edgetune.stages.elastic.abi import dim
from edgetune.stages.elastic.gpu import Gpu, Resources
from edgetune.stages.elastic.mdtb.networks import network as mdtb_network
from edgetune.stages.elastic.model import ASSUMED, GpuTimingModel
from edgetune.stages.elastic.pieces import PieceShape, about_s
from edgetune.stages.elastic.work import Argument, Call, GpuTask, KernelBuffer, KernelSequence, Logical, Pointer, Scalar
from edgetune.units import format_duration, parse_bytes, parse_time_s

_FORMATS: Mapping[str, str] = {
    "int": "<i", "uint": "<I", "int64": "<q", "uint64": "<Q", "float": "<f", "double": "<d",
}  # fmt: skip
"""As ``struct`` packs them (little endian, as every CUDA platform)."""


MDTB = "mdtb:"
"""Before the name of a network of the benchmark."""


def tasks_of(document: KernelTasks, *, folder: Path = Path()) -> tuple[GpuTask, ...]:
    """Return the tasks of a document.

    Args:
        document: The document.
        folder: The folder of its source files.

    Raises:
        InputError: a network is unknown, its own or the benchmark's, or has no launches; a source cannot be read; a
            quantity cannot be parsed; an argument is unknown, or does not fit its type.
    """
    limits.check("networks", len(document.networks), "it")
    limits.check("jobs", len(document.tasks), "it")
    own: dict[str, KernelSequence] = {}
    for name, said in document.networks.items():
        with blaming(f"network {name}"):
            own[name] = _network(name, NetworkEntry(said) if isinstance(said, str) else said, folder)
    found = []
    for task in document.tasks:
        with blaming(f"task {task.name}"):
            network = own.get(task.network) or _of_benchmark(task.network, own)
            due_s = None if task.deadline is None else parse_time_s(task.deadline, what="deadline")
            found.append(GpuTask(task.name, network, task.priority, task.arrivals, due_s, task.sms))
    return tuple(found)


def _of_benchmark(word: str, own: Mapping[str, KernelSequence]) -> KernelSequence:
    if not word.startswith(MDTB):
        near = closest(word, own)
        hint = f"did you mean {near}?" if near else f"add it under networks, or write {MDTB}{word} for the benchmark's"
        raise InputError(f"it names an unknown network, {word!r}", hint)
    return mdtb_network(word.removeprefix(MDTB))


def _network(name: str, said: NetworkEntry, folder: Path) -> KernelSequence:
    if (said.mdtb is None) == (not said.calls):
        message = "it has both mdtb and calls" if said.calls else "it has neither mdtb nor calls"
        raise InputError(message, "write mdtb: alexnet, or calls: [{kernel: k, grid: [49], block: [64]}]")
    if (said.mdtb is None and said.sizes) or (said.mdtb is not None and (said.source or said.buffers)):
        message = "sizes are for networks of the benchmark, source and buffers for those of your own"
        raise InputError(message, "leave them out")
    if said.mdtb is not None:
        return mdtb_network(said.mdtb.removeprefix(MDTB), **said.sizes)
    limits.check("kernel_calls", len(said.calls), "it")
    source, calls = "" if said.source is None else _text(folder / said.source), []
    for number, call in enumerate(said.calls):
        with blaming(f"call {number}, kernel {call.kernel}"):
            calls.append(_call(call, said.buffers))
    entries = {key: each if isinstance(each, BufferEntry) else BufferEntry(each) for key, each in said.buffers.items()}
    buffers = tuple(KernelBuffer(key, each.shape, each.dtype, each.role) for key, each in entries.items())
    return KernelSequence(name, calls, source, buffers)


def _text(path: Path) -> str:
    try:
        return read_source(path).decode()
    except UnicodeDecodeError:
        raise InputError(f"{path} is not text in UTF-8", "name a CUDA C or PTX file") from None


def _call(said: CallEntry, buffers: Collection[str]) -> Call:
    with blaming("grid"):
        grid = dim(said.grid)
    with blaming("block"):
        block = dim(said.block)
    registers = ASSUMED.registers_per_thread if said.registers is None else said.registers
    return Call(
        said.kernel,
        Logical(grid, block, _bytes(said.shared, "shared")),
        tuple(_argument(each, buffers) for each in said.arguments),
        said.flop_per_block,
        _bytes(said.bytes_per_block, "bytes_per_block"),
        said.waits_per_block,
        said.efficiency,
        None if said.block_time is None else parse_time_s(said.block_time, what="block_time"),
        resources={1: Resources(registers, _bytes(said.static_shared, "static_shared"))},
    )


def _bytes(said: str | float | None, what: str) -> Any:
    return parse_bytes(said, what=what) if isinstance(said, str) else said or 0


def _argument(said: str | Mapping[str, float], buffers: Collection[str]) -> Argument:
    if isinstance(said, str):
        if said not in buffers:
            raise InputError(f"argument {said!r} is no buffer of the network", f"known: {', '.join(buffers) or 'none'}")
        return Pointer(said)
    if len(said) != 1 or next(iter(said)) not in _FORMATS:
        hint = f"write a buffer's name, or a value with its type, one of {', '.join(_FORMATS)}: {{int: 5}}"
        raise InputError(f"unknown argument {dict(said)}", hint)
    ((kind, value),) = said.items()
    try:
        exact = value == int(value) and abs(value) <= 2**53  # above, it was rounded when it was read
        number = int(value) if "int" in kind and exact else value
        return Scalar(struct.pack(_FORMATS[kind], number))
    except (struct.error, OverflowError, ValueError):
        raise InputError(f"{value:g} is no value of type {kind}", "e.g. {int: 5}, {float: 0.5}") from None


_LONGEST_KERNEL_S = 3600.0
"""Longer than any kernel runs; the clock still resolves a nanosecond in an hour."""
_MOST_TOLD = 1e15


def check_count(tasks: Sequence[GpuTask], policies: Sequence[str], gpu: Gpu | None, *, duration_s: float) -> None:
    """Check that the launches of a run can be kept.

    Args:
        tasks: Critical ones run once more than there are policies: alone.
        policies: Their names.
        gpu: The simulated GPU; ``None`` for a real one, on which closed loops, whose rate is unknown, do not count.
        duration_s: How long requests come, s.

    Raises:
        InputError: there are too many; the task with the most is named.
    """
    expected = {
        task.name: (len(policies) + task.critical) * about_launches(task, gpu, duration_s=duration_s) for task in tasks
    }
    if gpu is not None:
        _check_lengths(tasks, gpu)
    name = "launches" if gpu is None else "simulated_launches"
    if sum(expected.values()) <= limits.limit(name):
        return
    most = max(tasks, key=lambda task: expected[task.name])
    calls = len(most.network.calls)
    asks = f"{most.arrivals}, {calls} kernel{'' if calls == 1 else 's'}, {format_duration(duration_s)}"
    raise InputError(
        f"task {most.name}: its requests ({asks}) come to about {expected[most.name]:.1g} launches, and with those of "
        f"the other tasks to more than the limit {name} allows ({limits.limit(name):,})",
        "make it shorter with --duration, have fewer requests come, run one policy at a time, or raise the limit: "
        f"edgetune --raise-limit {name}={math.ceil(min(sum(expected.values()), _MOST_TOLD))} COMMAND ...",
    )


def _check_lengths(tasks: Sequence[GpuTask], gpu: Gpu) -> None:
    for task in tasks:
        for call in task.network.calls:
            if not _least_s(call, gpu) <= _LONGEST_KERNEL_S:
                message = f"task {task.name}: kernel {call.kernel} takes about {_least_s(call, gpu):.3g} s"
                raise InputError(message, "are flop_per_block, bytes_per_block or block_time those of one block?")


def about_launches(task: GpuTask, gpu: Gpu | None, *, duration_s: float) -> float:
    """Return about how many launches a task comes to in a run, where none is cut into pieces.

    Requests of a closed loop follow each other as soon as all kernels of the one before could end on an idle GPU.

    Args:
        task: The task.
        gpu: The simulated GPU; ``None`` counts no closed loop.
        duration_s: How long requests come, s.
    """
    calls, arrivals = task.network.calls, parse_arrivals(task.arrivals)
    if arrivals.kind == "closed":
        rounds = 0.0 if gpu is None else duration_s / sum(_least_s(call, gpu) for call in calls)
        return len(calls) * ((arrivals.clients or 1) + rounds)
    rate_per_s = arrivals.rate_per_s
    return len(calls) * (len(arrivals.times_s) if rate_per_s is None else rate_per_s * duration_s)


def _least_s(call: Call, gpu: Gpu) -> float:
    """Return the least time of a kernel, s: of launching it, or of running it and going on to the next."""
    blocks, usual = call.logical.blocks, GpuTimingModel()
    return max(usual.host_s, usual.gap_s + (about_s(gpu, call, PieceShape(blocks, 1, blocks)) or 0.0))

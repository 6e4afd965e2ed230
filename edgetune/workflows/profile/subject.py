"""Selects the points to measure: a network from a file, the zoo, an operator table or a recorded table.

A device that runs or simulates networks takes a file or a network of the zoo. A simulated device also takes an operator
table (``--ops``). A recorded device takes only the names in its table.

Finds the batch size that ``--batch-sizes max`` stands for.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from edgetune.artifacts.header import DataWarning
from edgetune.artifacts.profile import Point, ProfileRow, Task
from edgetune.choices import nearest
from edgetune.devices.device import Device, LiveSource, ModelSource, TableSource
from edgetune.devices.recorded import workloads_of
from edgetune.errors import InputError
from edgetune.processes.cgroup import memory_limits
from edgetune.processes.families import resident_bytes
from edgetune.stages.profiling.options import ProfileOptions
from edgetune.stages.profiling.profiler import Profiler
from edgetune.stages.profiling.queue import Largest, largest_batch, used_bytes
from edgetune.units import format_bytes
from edgetune.workflows.parse_options import (
    choose_batch_sizes,
    choose_modes,
    parse_batch_axes,
    parse_batch_sizes,
    parse_task,
)
from edgetune.workflows.profile.engines import check_engine
from edgetune.workflows.reporting import Reporter
from edgetune.workloads.command import takes_batch
from edgetune.workloads.endpoint_streams import check_start
from edgetune.workloads.resolve import recognised, resolve
from edgetune.workloads.workload import Workload


@dataclass(frozen=True, slots=True)
class WorkloadOptions:
    """The options that select the network on the command line; an absent option is ``None``."""

    model: str
    task: str | None
    batch_sizes: str | Sequence[int] | None
    modes: str | None
    ops: str | None = None
    batch_axis: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WorkloadSelection:
    """A network, its task and the points to measure.

    Args:
        workload: The network.
        task: ``infer`` or ``train``.
        points: The points to measure.
        notes: Notes on the choice of modes.
        batch: The batch of a network in a file, as a sentence.
        fed: The source of each input of a network that runs, one sentence each.
    """

    workload: Workload
    task: Task
    points: tuple[Point, ...]
    notes: tuple[DataWarning, ...]
    batch: str | None = None
    fed: tuple[str, ...] = ()


def check(words: WorkloadOptions) -> None:
    """Check the task and the batch sizes before a device is opened.

    Raises:
        InputError: see ``parse_task`` and ``parse_batch_sizes``; ``choose_subject`` refuses a missing task.
    """
    if words.task is not None:
        parse_task(words.task)
    parse_batch_sizes(words.batch_sizes or "1")
    parse_batch_axes(words.batch_axis)


def choose_subject(
    device: Device, words: WorkloadOptions, options: ProfileOptions, *, default_size: int | None
) -> WorkloadSelection:
    """Return the network and the points that ``words`` select on ``device``.

    Args:
        device: The device that measures.
        words: The options as written.
        options: The measuring options.
        default_size: Batch size if none is given, no table lists sizes and the network's batch axis is open;
            ``None`` to refuse.

    Raises:
        InputError: the network, task or a batch size is not available here, or ``--ops`` does not apply.
    """
    looked_up = words.ops is not None or isinstance(device.source, TableSource)
    if words.task is None and not looked_up and recognised(words.model) is None:
        resolve(words.model)  # a missing file is refused before a missing task
    task = parse_task(words.task, model=words.model)
    sizes: Sequence[int] = () if words.batch_sizes is None else parse_batch_sizes(words.batch_sizes)
    batch = None
    if words.batch_axis and (words.ops is not None or isinstance(device.source, TableSource)):
        raise InputError("--batch-axis: a table has no inputs with axes", "leave --batch-axis out")
    if words.ops is not None:
        workload, sizes = _given(device, words, task, sizes, options)
    elif isinstance(device.source, TableSource):
        workload, sizes = _recorded(device, device.source, words.model, task, sizes)
    else:
        workload = resolve(words.model, parse_batch_axes(words.batch_axis))
        check_command(device, workload, sizes, options)
        _check_server(device, workload, options)
        check_engine(device, workload, task, options)
        if workload.kind == "engine" and not sizes:
            from edgetune.stages.profiling.supervisor import inspect_engine

            assert isinstance(device.source, LiveSource)
            limits = inspect_engine(device.source, workload, options)
            sizes, batch = (limits.usual,), f"{workload.name}: takes {limits}, measured at {limits.usual}"
        else:
            if workload.kind == "command" and not takes_batch(workload.reference):
                default_size = 1
            sizes, batch = choose_batch_sizes(
                workload,
                sizes,
                dimensions=options.dimensions,
                inputs=options.inputs,
                default=() if default_size is None else (default_size,),
            )
        if not sizes:
            raise InputError("no batch sizes to choose from", "e.g. --batch-sizes 1,4,16")
        if task == "train" and workload.kind == "onnx" and isinstance(device.source, LiveSource):
            from edgetune.workloads.torch_check import check_torch

            check_torch(workload, min(sizes), options.dimensions, options.seed)
    chosen = choose_modes(device, words.modes)
    points = [Point(name, task, size, mode) for name in workload.names for size in sizes for mode in chosen.modes]
    if isinstance(device.source, TableSource) and words.modes in (None, "all"):
        there = {row.point for row in device.source.rows}
        points = [point for point in points if point in there]  # not every mode need be there for every batch size
    return WorkloadSelection(
        workload, task, tuple(points), chosen.notes, batch, _fed(device, workload, task, sizes, options)
    )


def check_command(device: Device, workload: Workload, sizes: Sequence[int], options: ProfileOptions) -> None:
    """Check the options that only a command has, and those that it lacks.

    Raises:
        InputError: the device runs no commands, the command takes no batch size, or the options are for a command.
    """
    marked = options.step_pattern is not None or options.steps
    if workload.kind != "command":
        if marked:
            raise InputError("--step-pattern and --steps are for a command", "edgetune profile --steps -- COMMAND")
        return
    if not isinstance(device.source, LiveSource):
        raise InputError(f"{device.name} is simulated or a table, and cannot run a command", "measure on a real device")
    if options.step_pattern is not None and options.steps:
        raise InputError("--step-pattern and --steps are two ways to tell steps apart", "give one of them")
    if set(sizes) - {1} and not takes_batch(workload.reference):
        raise InputError(
            "--batch-sizes: the command takes no batch size",
            "write {batch} where it takes one; for a Python script name its option with --batch-option",
        )


def _check_server(device: Device, workload: Workload, options: ProfileOptions) -> None:
    """Check the options that only a server has.

    Raises:
        InputError: the device sends no requests, the server cannot be started, or ``--start`` is for a server.
    """
    if workload.kind == "endpoint" and not isinstance(device.source, LiveSource):
        raise InputError(
            f"{device.name} is simulated and cannot send requests to a server",
            "measure on the board itself, or simulate an ONNX network: edgetune help your-network",
        )
    if options.start is None:
        return
    if workload.kind != "endpoint":
        raise InputError("--start is for a server", "leave it out, or give the address: http://127.0.0.1/v1")
    check_start(options.start)


def _fed(
    device: Device, workload: Workload, task: Task, sizes: Sequence[int], options: ProfileOptions
) -> tuple[str, ...]:
    """Return the source of each input of a network that runs, one sentence each.

    Raises:
        InputError: an input cannot be generated.
    """
    if not isinstance(device.source, LiveSource) or not workload.has_graph:
        return ()
    from edgetune.workloads.network_inputs import describe_inputs

    file = options.inputs if task == "infer" else None
    found = describe_inputs(workload, sizes[0], options.dimensions, file)
    return tuple(
        f"input {each['name']}: {each['dtype']} {'x'.join(map(str, each['shape'])) or 'scalar'}, {each['values']}"
        for each in found
    )


def _given(
    device: Device, words: WorkloadOptions, task: Task, sizes: Sequence[int], options: ProfileOptions
) -> tuple[Workload, Sequence[int]]:
    """Return the workload of ``--ops``, at the batch size of the table."""
    from edgetune.workloads.costs import operator_table
    from edgetune.workloads.resolve import with_ops

    if not isinstance(device.source, ModelSource):
        why = "looks up what was measured" if isinstance(device.source, TableSource) else "runs the network itself"
        raise InputError(f"--ops: {device.name} {why}", "leave --ops out, or simulate: --device twin:orin-agx")
    if options.dimensions:
        raise InputError("--dim: a table of operators has no open dimensions", "leave --dim out")
    workload = with_ops(words.model, words.ops or "-")
    assert workload.ops is not None
    sizes = sizes or (workload.ops.table.batch_size,)
    for size in sizes:
        operator_table(workload, task, size, precision=options.precision)
    return workload, sizes


def _recorded(
    device: Device, source: TableSource, reference: str, task: Task, sizes: Sequence[int]
) -> tuple[Workload, Sequence[int]]:
    """Return the network of a table by its name or by that of its file, and the batch sizes of the table."""
    offers = workloads_of(source.rows)
    names = list(dict.fromkeys(candidates.workload for candidates in offers))
    spellings = (reference, reference.removeprefix("zoo:"), Path(reference).stem)
    name = next((word for word in spellings if word in names), None)
    if name is None:
        raise InputError(f"{device.name} has no network {reference!r}", nearest(reference, names))
    tasks = {candidates.task: candidates.batch_sizes for candidates in offers if candidates.workload == name}
    listed = "; ".join(f"{kind} at batch sizes {', '.join(map(str, found))}" for kind, found in tasks.items())
    if task not in tasks:
        raise InputError(f"{device.name} has no {task} of {name}", f"it has {listed}")
    absent = [size for size in sizes if size not in tasks[task]]
    if absent:
        message = f"{device.name} has no {task} of {name} at batch size {', '.join(map(str, absent))}"
        raise InputError(message, f"it has {listed}; a table is never interpolated")
    sha256 = str(device.conditions.get("recorded", {}).get("sha256") or "")
    return Workload(reference, name, "name", None, sha256), sizes or tasks[task]


MAX = "max"
_SHARE = 0.9
"""Share of the available memory that may be used: the rest is for what others take meanwhile."""
_MINIBATCHES = 4
"""ONNX Runtime plans its memory in the first and takes it in the next ones."""


def without_max(batch_sizes: str | Sequence[int] | None) -> tuple[str | Sequence[int] | None, bool]:
    """Return the batch sizes without the word ``max``, and whether it was among them."""
    if not isinstance(batch_sizes, str):
        return batch_sizes, False
    words = [word.strip() for word in batch_sizes.split(",")]
    left = [word for word in words if word != MAX]
    return ",".join(left) or None, len(left) < len(words)


def with_largest(
    device: Device, words: WorkloadOptions, options: ProfileOptions, budget_bytes: int | None, reporter: Reporter
) -> WorkloadOptions:
    """Return the options with the largest batch size that fits besides the others, which runs the network.

    Args:
        device: The device that measures.
        words: The options without ``max``.
        options: The measuring options.
        budget_bytes: The most memory that it may use; ``None`` for most of what is available.
        reporter: Told of each attempt.

    Raises:
        InputError: the device runs nothing or has no memory to read, or nothing fits.
    """
    if device.memory is None or not isinstance(device.source, LiveSource):
        raise InputError(f"--batch-sizes {MAX}: {device.name} runs nothing in memory", "name sizes, e.g. 1,4,16")
    limit_bytes = min(filter(None, (budget_bytes, *_usable(device))), default=None)
    if limit_bytes is None:
        raise InputError(f"--batch-sizes {MAX}: the kernel does not tell its memory", "give it: --memory-budget 2GiB")
    found = _search(device, words, options.probing(_MINIBATCHES), limit_bytes, reporter)
    reporter.info(
        f"largest batch size: {found.batch_size}, {format_bytes(found.used_bytes)} of {format_bytes(limit_bytes)}"
        f" ({found.why})"
    )
    named = words.batch_sizes if isinstance(words.batch_sizes, str) else ""
    return replace(words, batch_sizes=",".join(filter(None, (named, str(found.batch_size)))))


def _search(
    device: Device, words: WorkloadOptions, options: ProfileOptions, limit_bytes: int, reporter: Reporter
) -> Largest:
    subject = choose_subject(device, replace(words, batch_sizes="1,2"), options, default_size=1)
    memory = device.memory
    shared = isinstance(device.source, LiveSource) and device.source.torch_device != "cpu"  # with a GPU, on a board

    def attempt(size: int) -> tuple[ProfileRow, int | None]:
        before = memory.available_bytes() if memory is not None and shared else None
        row = profiler.measure(Point(subject.workload.name, subject.task, size, subject.points[0].mode))
        return row, used_bytes(row, before)

    bar = reporter.bar("looking for the largest batch size", None)
    with bar, Profiler(device, subject.workload, subject.task, options, reporter.points) as profiler:
        return largest_batch(attempt, limit_bytes, reporter.info)


def _usable(device: Device) -> list[int]:
    available_bytes = None if device.memory is None else device.memory.available_bytes()
    own_bytes = resident_bytes()  # in the same control group as the network
    rooms = (available_bytes, *(max(limit - own_bytes, 1) for limit in memory_limits().values()))
    return [round(_SHARE * each) for each in rooms if each is not None]

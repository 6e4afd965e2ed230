"""Finds the batch size that ``--batch-sizes max`` stands for."""

from collections.abc import Sequence
from dataclasses import replace

from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.devices.device import Device, LiveSource
from edgetune.errors import InputError
from edgetune.processes.cgroup import memory_limits
from edgetune.processes.memory import resident_bytes
from edgetune.stages.profiling.largest_batch import Largest, largest_batch, used_bytes
from edgetune.stages.profiling.options import ProfileOptions
from edgetune.stages.profiling.profiler import open_profiler
from edgetune.units import format_bytes
from edgetune.workflows.profile.subject import WorkloadOptions, choose_subject
from edgetune.workflows.reporting import Reporter

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
    with bar, open_profiler(device, subject.workload, subject.task, options, reporter.points) as profiler:
        return largest_batch(attempt, limit_bytes, reporter.info)


def _usable(device: Device) -> list[int]:
    available_bytes = None if device.memory is None else device.memory.available_bytes()
    own_bytes = resident_bytes()  # in the same control group as the network
    rooms = (available_bytes, *(max(limit - own_bytes, 1) for limit in memory_limits().values()))
    return [round(_SHARE * each) for each in rooms if each is not None]

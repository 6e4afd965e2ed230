"""How many launches tasks will come to, before anything is run: more than can be kept are refused."""

from __future__ import annotations

import math
from collections.abc import Sequence

from edgetune import limits
from edgetune.elastic.gpu import Gpu
from edgetune.elastic.leftover_table import PieceShape
from edgetune.elastic.model import GpuTimingModel
from edgetune.elastic.piece_size import about_s
from edgetune.elastic.work import Call, GpuTask
from edgetune.errors import InputError
from edgetune.serving.arrivals import parse_arrivals
from edgetune.units import format_duration

_LONGEST_KERNEL_S = 3600.0
"""Longer than any kernel runs; events of an hour are still told apart to a nanosecond."""
_MOST_TOLD = 1e15


def check_count(tasks: Sequence[GpuTask], policies: Sequence[str], gpu: Gpu | None, *, duration_s: float) -> None:
    """Check that there are not more launches to come than can be kept.

    Args:
        tasks: Critical ones run once more than there are policies: alone.
        policies: Their names.
        gpu: Where it is simulated; else closed loops, whose rate nobody knows, do not count.
        duration_s: How long requests come, s.

    Raises:
        InputError: there are; the task with the most is named.
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

    Requests of a closed loop follow each other as soon as all kernels of the one before could be over, were nothing
    else on the GPU.

    Args:
        task: Which.
        gpu: Where; ``None`` counts no closed loop.
        duration_s: How long requests come, s.
    """
    calls, arrivals = task.network.calls, parse_arrivals(task.arrivals)
    if arrivals.kind == "closed":
        rounds = 0.0 if gpu is None else duration_s / sum(_least_s(call, gpu) for call in calls)
        return len(calls) * ((arrivals.clients or 1) + rounds)
    rate_per_s = arrivals.rate_per_s
    return len(calls) * (len(arrivals.times_s) if rate_per_s is None else rate_per_s * duration_s)


def _least_s(call: Call, gpu: Gpu) -> float:
    """Return what a kernel takes at the least, s: launching it, or running it and going on to the next."""
    blocks, usual = call.logical.blocks, GpuTimingModel()
    return max(usual.host_s, usual.gap_s + (about_s(gpu, call, PieceShape(blocks, 1, blocks)) or 0.0))

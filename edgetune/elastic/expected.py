"""How many launches tasks will come to, before anything is run: more than can be kept are refused."""

from __future__ import annotations

from collections.abc import Sequence

from edgetune.arrivals.words import parse_arrivals
from edgetune.elastic.choose import about_s
from edgetune.elastic.gpu import Gpu
from edgetune.elastic.kept import Shape
from edgetune.elastic.model import Model
from edgetune.elastic.work import Call, Task
from edgetune.errors import InputError
from edgetune.units import format_duration

MOST_LAUNCHES = 5_000_000
"""In all runs together. Every launch is a record: some 1.4 KB of memory, and 0.15 ms to simulate it, so that these are
7 GB and a quarter of an hour."""


def check_count(tasks: Sequence[Task], policies: Sequence[str], gpu: Gpu | None, *, duration_s: float) -> None:
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
    if sum(expected.values()) <= MOST_LAUNCHES:
        return
    most = max(tasks, key=lambda task: expected[task.name])
    calls = len(most.network.calls)
    asks = f"{most.arrivals}, {calls} kernel{'' if calls == 1 else 's'}, {format_duration(duration_s)}"
    raise InputError(
        f"task {most.name}: its requests ({asks}) come to about {expected[most.name]:.1g} launches, and with those of "
        f"the other tasks to more than the {MOST_LAUNCHES:,} that can be kept",
        "make it shorter with --duration, have fewer requests come, or run one policy at a time",
    )


def about_launches(task: Task, gpu: Gpu | None, *, duration_s: float) -> float:
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
    blocks, usual = call.logical.blocks, Model()
    return max(usual.host_s, usual.gap_s + (about_s(gpu, call, Shape(blocks, 1, blocks)) or 0.0))

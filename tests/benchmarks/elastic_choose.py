"""Print how long the elastic policy takes to decide, and what it allocates: python tests/benchmarks/elastic_choose.py.

Views are of an Orin AGX with two to eight tasks, half of them critical with a chain of twenty kernels each, in five
states: a critical request has come; nothing critical is there, and none or many small pieces are in flight; a critical
kernel runs; nothing more may be launched. Times are of single decisions, the view and the kept pieces being there; the
longest are those in which the system ran something else. Miriam gives 350 us for choosing (Zhao et al., SenSys 2023).
"""

import argparse
import random
import statistics
import time
import tracemalloc

from edgetune.stages.elastic.backend import Launch
from edgetune.stages.elastic.gpu import Resources, find_gpu
from edgetune.stages.elastic.policies.elastic import Elastic, tables_for
from edgetune.stages.elastic.view import TaskState, View
from edgetune.stages.elastic.work import Call, GpuTask, KernelSequence, Logical

GPU = find_gpu("orin-agx")
STATES = ("critical request", "alone", "small pieces", "beside", "full")
_REPEATS = 5
_CHAIN = 20
_SMALL = Call("small", Logical((16, 1, 1), (256, 1, 1)), (), 1e4, resources={1: Resources(32)})
_LONG = Call("long", Logical((16, 1, 1), (256, 1, 1)), (), 1e8, resources={1: Resources(32)})
_MANY = 31
"""One less than may be in flight."""
_GRIDS = (16, 49, 96, 196, 784)


def made_tasks(count: int, rng: random.Random) -> list[GpuTask]:
    """Return so many tasks, every second one critical."""
    forms = {1: Resources(32), 2: Resources(40), 4: Resources(48), 8: Resources(64)}
    tasks = []
    for number in range(count):
        calls = [
            Call(f"k{number}_{place}", Logical((rng.choice(_GRIDS), 1, 1), (256, 1, 1)), (), 1e6, resources=forms)
            for place in range(_CHAIN)
        ]
        tasks.append(GpuTask(f"task{number}", KernelSequence(f"net{number}", calls), priority=number % 2))
    return tasks


def made_view(tasks: list[GpuTask], state: str, rng: random.Random) -> View:
    """Return a view in this state: one critical task at most is at work, as leftovers would be none else."""
    standings, resident, number = [], [], 0
    busy = rng.choice([task for task in tasks if task.critical]) if state in ("beside", "full") else None
    for task in tasks:
        at = rng.randrange(_CHAIN - 1)
        flying = []
        if task is busy:
            for place in range(at, _CHAIN):
                call = task.network.calls[place]
                flying.append(Launch(number, task.name, 0, place, call, 0, call.logical.blocks))
                number += 1
            resident.append(flying[0])
        elif not task.critical:
            for _ in range(_MANY if state == "small pieces" and task is tasks[0] else state == "full"):
                flying.append(Launch(number, task.name, 0, at, _LONG if state == "full" else _SMALL, 0, 16, 1, 16))
                number += 1
        arrived = [1] if task.critical and state == "critical request" else []
        standing = TaskState(task, arrived, in_flight=flying, served_s=rng.random())
        if not task.critical:
            standing.request, standing.call, standing.left = 0, at, task.network.calls[at].logical.blocks
        standings.append(standing)
    return View(1000, GPU, standings, resident)


def timed(policy: Elastic, views: list[View]) -> list[float]:
    """Return the time of every decision, each view several times over, us."""
    times_us = []
    for _ in range(_REPEATS):
        for view in views:
            begun_ns = time.perf_counter_ns()
            policy.decide(view)
            times_us.append((time.perf_counter_ns() - begun_ns) / 1000)
    return times_us


def allocated(policy: Elastic, views: list[View]) -> tuple[int, int]:
    """Return what all decisions together leave behind and the most that one needs for itself, bytes."""
    tracemalloc.start()
    policy.decide(views[0])
    before, most = tracemalloc.get_traced_memory()[0], 0
    for view in views:
        tracemalloc.reset_peak()
        begun = tracemalloc.get_traced_memory()[0]
        policy.decide(view)
        most = max(most, tracemalloc.get_traced_memory()[1] - begun)
    left = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return left, most


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--views", type=int, default=2000)
    count, rng = parser.parse_args().views, random.Random(0)
    print("tasks  state             median us   p99 us   max us   left behind B   at most B")
    for tasks in (made_tasks(number, rng) for number in (2, 4, 8)):
        policy = Elastic(tables_for(tasks, GPU))
        for state in STATES:
            views = [made_view(tasks, state, rng) for _ in range(count)]
            assert bool(policy.decide(views[0])) is (state != "full")
            times_us = timed(policy, views)
            left, most = allocated(policy, views)
            p99_us = statistics.quantiles(times_us, n=100)[98]
            print(
                f"{len(tasks):>5}  {state:<16} {statistics.median(times_us):>10.1f} {p99_us:>8.1f} "
                f"{max(times_us):>8.1f} {left:>15} {most:>11}"
            )


if __name__ == "__main__":
    main()

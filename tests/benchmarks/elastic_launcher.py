"""How fast a host reacts: the native launcher beside the loop in Python, on one fake driver, in turns of one run.

    python tests/benchmarks/elastic_launcher.py
    python tests/benchmarks/elastic_launcher.py --replays 80        live runs of random tasks, replayed in Python
    python tests/benchmarks/elastic_launcher.py --turns 9 --duration 0.5 --block-us 100

The driver is the fake of ``tests/fakes/cuda_native.cpp``: its calls cost next to nothing, its kernels take the given
time on a thread of their own, and no GPU is involved. A reaction is the time from the end of a kernel, when the fake
makes it visible, to the next call of a launch, where that comes before the next end; beside it, the time from the
arrival of a critical request to its launch. Medians over turns of the median and of the 99th percentile, and the ratio
of both launchers. Two cores that nobody else uses are needed: on fewer the fake and the launcher wait for each other.

With ``--replays`` nothing is timed: what the native launcher did in live runs is replayed by the loop and the policy in
Python, which have to make the same launches (``tests/elastic/native_replay.py``).
"""

# ruff: noqa: E402  (what the tests use is found there)

import argparse
import os
import sys
from bisect import bisect_right
from dataclasses import replace
from pathlib import Path
from random import Random
from statistics import median

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "elastic")]

from native_replay import replay
from native_scene import kernels, native_machine, task

from edgetune.stages.elastic.loop import ElasticLoop
from edgetune.stages.elastic.native.loop import NativeLoop
from edgetune.stages.elastic.policies import make_policy
from edgetune.stats import percentile
from edgetune.units import format_si

LAUNCHERS = ("native", "python")


def reactions_s(log) -> list[float]:
    """Return the time from each end of a kernel to the next launch, s, where one came before the next end."""
    ends, launched = sorted(each.ended_ns for each in log), sorted(each.launched_ns for each in log)
    found = []
    for end_ns, until_ns in zip(ends, [*ends[1:], None], strict=True):
        at = bisect_right(launched, end_ns)
        if at < len(launched) and (until_ns is None or launched[at] < until_ns):
            found.append((launched[at] - end_ns) / 1e9)
    return found


def measured(launcher: str, *, duration_s: float, block_ns: int, seed: int) -> dict[str, list[float]]:
    """Return reactions to ends, with best-effort work alone, and to arrivals of critical requests beside it, s."""
    alone = (task("normal", block_ns=block_ns),)
    both = (task("critical", 1, block_ns=block_ns, arrivals="poisson:400/s"), *alone)
    made = kernels(block_ns)
    found = {}
    for what, tasks in (("end of a kernel", alone), ("critical arrival", both)):
        with native_machine(*tasks, made=made) as machine:
            backend = machine.native() if launcher == "native" else machine.python()
            machine.cuda.log()
            kind = NativeLoop if launcher == "native" else ElasticLoop
            policy = make_policy("elastic", tasks, machine.gpu)
            loop = kind(policy, backend, tasks, gpu=machine.gpu, duration_s=duration_s, seed=seed)
            loop.run()
            chains = [each for each in reversed(loop.launches) if each.launch.task == "critical"]
            launched = {each.launch.request: each.launched_ns for each in chains}
            critical = [each for each in loop.requests if each.task.critical and each.number in launched]
            arrivals = [(launched[each.number] - each.arrived_ns) / 1e9 for each in critical]
            found[what] = reactions_s(machine.cuda.log()) if what == "end of a kernel" else arrivals
    return found


def replayed(seed: int) -> int:
    """Run random tasks live by the native launcher, and replay that in Python; return how many decisions were alike.

    Raises:
        AssertionError: a launch, an end or a request differs.
    """
    rng = Random(seed)
    tasks = [task("c", 1, arrivals=rng.choice(("poisson:300/s", "uniform:400/s", "closed")))][: rng.randint(0, 4)]
    tasks += [task("d", 2, arrivals="poisson:200/s")][: rng.randint(0, 1)]
    arrivals = ("closed", "closed:2", "poisson:200/s", "poisson:2000/s")
    tasks += [task(f"n{place}", arrivals=rng.choice(arrivals)) for place in range(rng.randint(1, 4))]
    policy = rng.choice(("elastic", "elastic", "elastic", "multistream", "sequential"))
    with native_machine(*tasks, made=kernels(rng.choice((5000, 20_000, 60_000)), rng.choice((1, 4, 16)))) as machine:
        gpu = replace(
            machine.gpu, sm_count=rng.choice((1, 4, 8)), threads_per_sm=rng.choice((64, 128, 1024)),
            launch_s=rng.choice((1e-6, 1e-5, 1e-4)),
        )  # fmt: skip
        made = make_policy(policy, tasks, gpu)
        loop = NativeLoop(made, machine.native(), tasks, gpu=gpu, duration_s=0.15, seed=seed)
        loop.run()
    return replay(made, loop, tasks, gpu=gpu, duration_s=0.15, seed=seed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--duration", type=float, default=0.5, help="of a run, s")
    parser.add_argument("--block-us", type=int, default=100, help="time of a kernel, us")
    parser.add_argument("--replays", type=int, default=0, help="live runs to replay in Python instead")
    asked = parser.parse_args()
    if asked.replays:
        decisions = sum(replayed(seed) for seed in range(asked.replays))
        print(
            f"{asked.replays} live runs replayed in Python: all {decisions} decisions, launches and answers are alike"
        )
        return
    found = {(launcher, what): [] for launcher in LAUNCHERS for what in ("end of a kernel", "critical arrival")}
    for turn in range(asked.turns):
        for launcher in LAUNCHERS if turn % 2 == 0 else reversed(LAUNCHERS):
            runs = measured(launcher, duration_s=asked.duration, block_ns=1000 * asked.block_us, seed=turn)
            for what, times_s in runs.items():
                found[launcher, what].append((median(times_s), percentile(times_s, 99), len(times_s)))
    print(
        f"fake driver, {asked.turns} turns, kernels of {asked.block_us} us, load {os.getloadavg()[0]:.1f} on "
        f"{os.cpu_count()} cores"
    )
    for what in ("end of a kernel", "critical arrival"):
        figures = {}
        for launcher in LAUNCHERS:
            p50s, p99s, counts = zip(*found[launcher, what], strict=True)
            figures[launcher] = median(p50s), median(p99s)
            least, most = (format_si(each(p50s), "s") for each in (min, max))
            print(
                f"{what} to launch, {launcher}: median {format_si(median(p50s), 's')} ({least} to {most}), p99 "
                f"{format_si(median(p99s), 's')}, {sum(counts)} times"
            )
        ratios = [figures["python"][place] / figures["native"][place] for place in range(2)]
        print(f"{what} to launch: python / native: median x{ratios[0]:.1f}, p99 x{ratios[1]:.1f}")


if __name__ == "__main__":
    main()

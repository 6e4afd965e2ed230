"""Print what it costs to run a minibatch in a child process: python tests/benchmarks/interleave_round_trip.py.

The minibatch does nothing, so all of the time is the loop's: writing the command, waking the child, its reply, waking
the parent. Half of the minibatches follow at once, half after a pause in which both have gone to sleep. The last line
is how late a wait ends that ends by the clock.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from edgetune.devices.host import open_host
from edgetune.stages.interleave.backend import Minibatch
from edgetune.stages.interleave.live import LiveMinibatchBackend
from edgetune.stages.interleave.live_tenants import LiveTenant
from edgetune.stages.interleave.tenants import Training
from edgetune.workloads.resolve import resolve

_PAUSE_S = 0.0005


def main() -> None:
    """Print microseconds for a process per tenant and for a thread per tenant."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--minibatches", type=int, default=4000)
    count = parser.parse_args().minibatches
    print("engine    what                 median us   p99 us")
    engines = ("managed", "streams")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "nothing.py")
        path.write_text("def make(batch_size):\n    return lambda: None\n")
        tenant = LiveTenant(Training("nothing", 1, 0.001), resolve(str(path)))
        for engine in engines:
            stage = LiveMinibatchBackend(engine, open_host(), [tenant])
            try:
                measure(engine, stage, count)
            finally:
                stage.close()


def measure(engine: str, stage: LiveMinibatchBackend, count: int) -> None:
    """Run minibatches one by one and print where the time went."""
    there_ns, back_ns, whole_ns = [], [], []
    for number in range(count):
        if number % 2:
            time.sleep(_PAUSE_S)
        begun_ns = time.monotonic_ns()
        stage.start(Minibatch("nothing", "train", number))
        (done,) = stage.wait(None)
        ended_ns = time.monotonic_ns()
        there_ns.append(done.start_ns - begun_ns)
        back_ns.append(ended_ns - done.end_ns)
        whole_ns.append(ended_ns - begun_ns)
    for _ in range(count // 10):
        stage.wait(stage.now_ns() + 2_000_000)
    late_ns = [late_s * 1e9 for late_s in stage.late_s]
    for what, times_ns in (("round trip", whole_ns), ("there", there_ns), ("back", back_ns), ("late", late_ns)):
        show(engine, what, times_ns)


def show(engine: str, what: str, times_ns: Sequence[float]) -> None:
    """Print one line."""
    p99_us = statistics.quantiles(times_ns, n=100)[98] / 1000
    print(f"{engine:<9} {what:<20} {statistics.median(times_ns) / 1000:>9.1f} {p99_us:>8.1f}")


if __name__ == "__main__":
    main()

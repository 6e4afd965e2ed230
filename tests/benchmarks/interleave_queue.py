"""The interleaving simulator against queueing theory: waiting times of random requests served one by one.

    python tests/benchmarks/interleave_queue.py [--loads 0.1,0.3,0.5,0.7,0.8] [--requests 300000] [--seed 3]

Poisson arrivals, a fixed service time, batches of one, no training (M/D/1), through the loop, the managed policy and
the simulated stage. Printed are the mean wait beside that of Pollaczek and Khinchine with the error that so many
correlated waits have by themselves (batch means), and the 99th percentile beside Franx's formula.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Sequence

from edgetune.serving.arrivals import ArrivalSpec
from edgetune.serving.clock import EventClock
from edgetune.stages.interleave.loop import EngineTurn, InterleaveLoop
from edgetune.stages.interleave.policies.managed import Managed
from edgetune.stages.interleave.simulated import SimulatedDevice, SimulatedMinibatchBackend
from edgetune.stages.interleave.tenants import Inference
from edgetune.stats import percentile

NS = 1_000_000_000
SERVICE_S = 0.01
_BATCHES = 30
"""Batches whose means are taken as independent; Student's t for 29 degrees of freedom is 2.045."""
_STUDENT = 2.045


def mean_wait_s(load: float, service_s: float) -> float:
    """Return the mean wait in M/D/1, s: load x service / (2 (1 - load)) (Pollaczek 1930, Khinchine 1932)."""
    return load * service_s / (2 * (1 - load))


def share_waiting_at_most(wait_s: float, load: float, service_s: float) -> float:
    """Return P(wait <= x) in M/D/1 by a sum of terms above zero (Franx, Operations Research Letters 29, 2001).

    With k - 1 the whole services in x: e^(-y) times the sum over j < k of Q(k - 1 - j) y^j / j!, y = rate (k D - x),
    where Q(n) is the chance that at most n requests wait.
    """
    whole = math.floor(wait_s / service_s + 1e-12) + 1
    at_most = _cumulated_queue(load, whole)
    y = load * (whole - wait_s / service_s)
    return math.exp(-y) * math.fsum(at_most[whole - 1 - j] * y**j / math.factorial(j) for j in range(whole))


def _cumulated_queue(load: float, count: int) -> list[float]:
    """Return the chance that at most 0, 1, 2, ... requests wait, from the chain of how many a departure leaves."""
    arrive = [math.exp(-load) * load**n / math.factorial(n) for n in range(count + 2)]
    present = [1 - load]
    for n in range(count + 1):
        others = math.fsum(present[i] * arrive[n + 1 - i] for i in range(1, n + 1))
        present.append((present[n] - present[0] * arrive[n] - others) / arrive[0])
    total, found = present[0], []
    for chance in present[1:]:
        total += chance
        found.append(total)
    return found


def wait_percentile_s(percent: float, load: float, service_s: float) -> float:
    """Return the wait that a share of requests does not exceed, s, by bisection."""
    low, high = 0.0, service_s
    while share_waiting_at_most(high, load, service_s) < percent / 100:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if share_waiting_at_most(middle, load, service_s) < percent / 100 else (low, middle)
    return high


def simulated_waits_s(load: float, service_s: float, requests: int, seed: int) -> list[float]:
    """Return how long each request waited in the simulator, s."""
    rate = load / service_s
    end_ns, time_ns = round(requests / rate * NS), round(service_s * NS)
    tenants = [Inference("queue", 1, 1e6, rate, service_s)]
    stage = SimulatedMinibatchBackend(EventClock(), tenants, SimulatedDevice(lambda *_: time_ns))
    source = ArrivalSpec("poisson", (rate,), spacing="poisson").source(0, end_ns, seed)
    loop = InterleaveLoop(EngineTurn("simulated", end_ns), stage, Managed(guard_ns=0), tenants, {"queue": source})
    loop.run()
    return [
        row.started_s - row.arrived_s for row in loop.rows if row.started_s is not None and row.arrived_s is not None
    ]


def own_error(waits: Sequence[float]) -> float:
    """Return the half-width of the 95 % interval of a mean of correlated values, as a share of it."""
    size = len(waits) // _BATCHES
    means = [statistics.fmean(waits[place * size : (place + 1) * size]) for place in range(_BATCHES)]
    return _STUDENT * statistics.stdev(means) / math.sqrt(_BATCHES) / statistics.fmean(means)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loads", default="0.1,0.3,0.5,0.7,0.8")
    parser.add_argument("--requests", type=int, default=300_000)
    parser.add_argument("--seed", type=int, default=3)
    asked = parser.parse_args()
    print(f"service {SERVICE_S * 1e3:g} ms, {asked.requests} requests, seed {asked.seed}; waits in ms")
    print("load   mean   theory   off %  own error %      p99   theory   off %   requests/s of this machine")
    for load in map(float, asked.loads.split(",")):
        begun_s = time.perf_counter()
        waits = simulated_waits_s(load, SERVICE_S, asked.requests, asked.seed)
        speed = len(waits) / (time.perf_counter() - begun_s)
        mean, theory = statistics.fmean(waits), mean_wait_s(load, SERVICE_S)
        p99, p99_theory = percentile(waits, 99), wait_percentile_s(99, load, SERVICE_S)
        print(
            f"{load:4.2f} {mean * 1e3:6.3f} {theory * 1e3:8.3f} {100 * (mean / theory - 1):7.2f} "
            f"{100 * own_error(waits):12.2f} {p99 * 1e3:8.2f} {p99_theory * 1e3:8.2f} "
            f"{100 * (p99 / p99_theory - 1):7.2f} {speed:12.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()

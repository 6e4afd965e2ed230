"""Print how often the admission test is right: python tests/benchmarks/admission.py [--sets 1000] [--seed 0].

Random sets of one to three inferences and up to two trainings are tested and then run under ``managed`` on an event
clock, requests evenly spaced, in several phasings: all batches full at once, all full just after one of them began (the
worst case of the theory), and at random. A set violates when in any phasing a request is late or a job starves: none of
its steps begins between the middle and nine tenths of the run. No set takes between 95 and 102 % of the device: there
it takes too long to see whether a delay is made up for.
"""

from __future__ import annotations

import argparse
import math
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count, pairwise, takewhile

from edgetune.serving.clock import EventClock
from edgetune.serving.sources import ScheduledArrivals
from edgetune.stages.interleave.admission import admit
from edgetune.stages.interleave.loop import EngineTurn, InterleaveLoop
from edgetune.stages.interleave.policies.managed import Managed
from edgetune.stages.interleave.simulated import SimulatedDevice, SimulatedMinibatchBackend
from edgetune.stages.interleave.tenants import Inference, Tenant, Training

NS = 1_000_000_000
_RANDOM_PHASINGS = 2
_REQUESTS, _MOST_REQUESTS = 400, 8000
"""In a run: at least, and at most where it takes long to work off training steps."""
_ROUNDS = 20
"""A run is so many times as long as two batches of the slowest queue and what it takes to make up for a step of every
job, so that the windows kept for one of several jobs come round, which are less than twice that and one in four."""


def random_tenants(rng: random.Random) -> list[Tenant]:
    """Return tenants whose inferences take 5 to 95 % of the device, or too much; budgets are impossible to ample."""
    total = rng.uniform(0.05, 0.95) if rng.random() < 0.9 else rng.uniform(1.02, 1.3)
    cuts = [0.0, *sorted(rng.random() for _ in range(rng.randint(0, 2))), 1.0]
    tenants: list[Tenant] = []
    for number, (low, high) in enumerate(pairwise(cuts)):
        batch_size, gap_s = rng.choice((1, 2, 4, 8, 16)), _log_uniform(rng, 0.005, 0.1)
        minibatch_s = max((high - low) * total * batch_size * gap_s, 0.0005)
        fill_s = rng.choice((0, 1, 1)) * (batch_size - 1) * gap_s
        budget_s = fill_s + minibatch_s * _log_uniform(rng, 1, 16)
        tenants.append(Inference(f"infer{number}", batch_size, budget_s, 1 / gap_s, minibatch_s))
    for number in range(rng.randint(0, 2)):
        weight = rng.choice((1.0, 1.0, 2.0))
        tenants.append(Training(f"train{number}", 16, _log_uniform(rng, 0.005, 0.3), weight))
    return tenants


def violation(tenants: Sequence[Tenant], rng: random.Random) -> str | None:
    """Return ``late`` or ``starved`` where a simulated run shows it, ``None`` where none does."""
    inferences = [tenant for tenant in tenants if isinstance(tenant, Inference)]
    duration_ns = _duration_ns(tenants, inferences)
    found = (_run(tenants, inferences, offsets_ns, duration_ns) for offsets_ns in _phasings(inferences, rng))
    return next((bad for bad in found if bad is not None), None)


def confusion(sets: int, seed: int = 0) -> Counter[tuple[bool, str | None]]:
    """Return how many sets were admitted or not, by what the simulation showed."""
    table: Counter[tuple[bool, str | None]] = Counter()
    for number in range(seed, seed + sets):
        rng = random.Random(number)
        tenants = random_tenants(rng)
        table[admit(tenants).admitted, violation(tenants, rng)] += 1
    return table


def false_refusals(table: Counter[tuple[bool, str | None]]) -> float:
    """Return the share of the sets without a violation that were refused."""
    good = table[True, None] + table[False, None]
    return table[False, None] / good if good else 0.0


def _log_uniform(rng: random.Random, low: float, high: float) -> float:
    return math.exp(rng.uniform(math.log(low), math.log(high)))


def _duration_ns(tenants: Sequence[Tenant], inferences: Sequence[Inference]) -> int:
    """Return how long to simulate: long enough for a step of every job to be made up for several times."""
    rates = [tenant.rate_per_s or 0.0 for tenant in inferences]
    busy = sum(t.minibatch_s * rate / t.batch_size for t, rate in zip(inferences, rates, strict=True))
    steps_s = sum(tenant.minibatch_s for tenant in tenants if isinstance(tenant, Training))
    slowest_s = max(t.batch_size / rate for t, rate in zip(inferences, rates, strict=True))
    made_up_s = steps_s / (1 - busy) if busy < 1 else 0.0
    shortest_s = max(2 * _ROUNDS * slowest_s, _REQUESTS / sum(rates))
    return round(max(shortest_s, min(_ROUNDS * (2 * slowest_s + made_up_s), _MOST_REQUESTS / sum(rates))) * NS)


def _phasings(inferences: Sequence[Inference], rng: random.Random) -> Iterator[list[int]]:
    """Yield when the first request of each tenant comes, ns."""
    gaps_ns = [NS / (tenant.rate_per_s or 1.0) for tenant in inferences]
    fills_ns = [round((tenant.batch_size - 1) * gap_ns) for tenant, gap_ns in zip(inferences, gaps_ns, strict=True)]
    together_ns = [max(fills_ns) - fill_ns for fill_ns in fills_ns]
    yield together_ns
    for first in range(len(inferences) if len(inferences) > 1 else 0):
        yield [at_ns + (place != first) for place, at_ns in enumerate(together_ns)]
    for _ in range(_RANDOM_PHASINGS):
        yield [round(rng.uniform(0, t.batch_size * gap_ns)) for t, gap_ns in zip(inferences, gaps_ns, strict=True)]


def _run(
    tenants: Sequence[Tenant], inferences: Sequence[Inference], offsets_ns: Sequence[int], duration_ns: int
) -> str | None:
    times_ns = {tenant.name: round(tenant.minibatch_s * NS) for tenant in tenants}
    stage = SimulatedMinibatchBackend(
        EventClock(), tenants, SimulatedDevice(lambda name, _batch_size, _mode: times_ns[name])
    )
    sources = {t.name: _even(t, offset, duration_ns) for t, offset in zip(inferences, offsets_ns, strict=True)}
    loop = InterleaveLoop(EngineTurn("simulated", duration_ns), stage, Managed(), tenants, sources)
    loop.run()
    if any(row.event == "request" and not row.met for row in loop.rows):
        return "late"
    seen = {row.tenant for row in loop.rows if row.event == "train" and 0.5 < _part(row.started_s, duration_ns) < 0.9}
    return None if all(tenant.name in seen for tenant in tenants if isinstance(tenant, Training)) else "starved"


def _part(started_s: float | None, duration_ns: int) -> float:
    return (started_s or 0.0) * NS / duration_ns


def _even(tenant: Inference, offset_ns: int, duration_ns: int) -> ScheduledArrivals:
    gap_ns = NS / (tenant.rate_per_s or 1.0)
    return ScheduledArrivals(
        takewhile(lambda at_ns: at_ns < duration_ns, (offset_ns + round(i * gap_ns) for i in count()))
    )


def main() -> None:
    """Print the confusion table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--sets", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    table = confusion(asked.sets, asked.seed)
    print(f"{'':<10}{'no violation':>14}{'late':>8}{'starved':>9}")
    for admitted in (True, False):
        counts = [table[admitted, shown] for shown in (None, "late", "starved")]
        print(f"{'admitted' if admitted else 'refused':<10}{counts[0]:>14}{counts[1]:>8}{counts[2]:>9}")
    wrong = table[True, "late"] + table[True, "starved"]
    print(f"false admissions {wrong}; false refusals {false_refusals(table):.1%} of the sets without a violation")


if __name__ == "__main__":
    main()

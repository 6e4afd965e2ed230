"""Who had the device, and for how long: the time of a run split between its tenants and nobody.

    answers  ####      ####      ####
    trains       ######    ##########
    idle                             ..   native sharing overlaps, managed does not

"Had" means that a minibatch was started and not over; what the device did in between is not seen from outside.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from edgetune.artifacts.run import RunRow


@dataclass(frozen=True, slots=True)
class Busy:
    """One minibatch on the device.

    Args:
        tenant: Whose.
        answers: Whether it answered requests; else it trained.
        start_s, end_s: Since the turn began.
        batch_size: Samples that it had room for.
        samples: Samples that it had; ``None`` where unknown.
    """

    tenant: str
    answers: bool
    start_s: float
    end_s: float
    batch_size: int | None = None
    samples: int | None = None


@dataclass(frozen=True, slots=True)
class Occupancy:
    """The time of a run, s; ``answering_s + training_s - both_s + idle_s`` is all of it.

    Args:
        duration_s: All of it.
        answering_s, training_s: Covered by at least one minibatch of that sort.
        both_s: Covered by both sorts at once.
        idle_s: Covered by no minibatch.
        tenants_s: Time per tenant; what several share is divided evenly among them, so that it adds up to what is busy.
    """

    duration_s: float
    answering_s: float
    training_s: float
    both_s: float
    idle_s: float
    tenants_s: Mapping[str, float]


def minibatches(rows: Iterable[RunRow]) -> list[Busy]:
    """Return the minibatches of one turn, in the order of their starts; requests answered together are one."""
    found: dict[tuple[str, str, int | None, float], Busy] = {}
    for row in rows:
        if row.event in ("request", "train") and row.started_s is not None:
            tenant = row.tenant or ""
            key = tenant, row.event, row.minibatch, row.started_s
            answers = row.event == "request"
            found[key] = Busy(tenant, answers, row.started_s, row.finished_s, row.batch_size, row.samples)
    return sorted(found.values(), key=lambda busy: (busy.start_s, busy.end_s))


def occupancy(busy: Sequence[Busy], duration_s: float) -> Occupancy:
    """Return how ``duration_s`` was split; minibatches may overlap."""
    edges = sorted(
        [(each.start_s, 1, each) for each in busy] + [(each.end_s, -1, each) for each in busy],
        key=lambda edge: edge[:2],
    )
    running: dict[str, int] = {}
    kinds = {True: 0, False: 0}
    answering_s = training_s = both_s = before_s = 0.0
    tenants_s = dict.fromkeys((each.tenant for each in busy), 0.0)
    for at_s, step, each in edges:
        span_s, before_s = at_s - before_s, at_s
        answering_s += span_s if kinds[True] else 0.0
        training_s += span_s if kinds[False] else 0.0
        both_s += span_s if kinds[True] and kinds[False] else 0.0
        for tenant in running:
            tenants_s[tenant] += span_s / len(running)
        kinds[each.answers] += step
        running[each.tenant] = running.get(each.tenant, 0) + step
        if not running[each.tenant]:
            del running[each.tenant]
    idle_s = max(duration_s - (answering_s + training_s - both_s), 0.0)
    return Occupancy(duration_s, answering_s, training_s, both_s, idle_s, tenants_s)

"""Where each millisecond of a cycle goes: as data for figures, and in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from edgetune.interleave.cycle import Cycle, CycleGoals, broken
from edgetune.interleave.infeasible import describe_violation
from edgetune.units import format_si


@dataclass(frozen=True, slots=True)
class CyclePhase:
    """A part of a cycle that begins when a batch is full.

    Args:
        what: ``infer``, ``train`` or ``idle``.
        begin_s: Since the batch was full, s.
        duration_s: s.
    """

    what: Literal["infer", "train", "idle"]
    begin_s: float
    duration_s: float


def parts_of(cycle: Cycle) -> tuple[CyclePhase, ...]:
    """Return what the device does in a cycle, one part after another, each training minibatch one of them.

    Where the rate is unknown, or the device does not keep up, the cycle ends with its work.
    """
    found = [CyclePhase("infer", 0.0, cycle.infer.minibatch_s)]
    if cycle.train is not None:
        time_s = cycle.train.minibatch_s
        begins_s = (cycle.infer.minibatch_s + number * time_s for number in range(cycle.train_minibatches))
        found += [CyclePhase("train", begin_s, time_s) for begin_s in begins_s]
    if cycle.rate_per_s is not None and cycle.idle_s > 0:
        found.append(CyclePhase("idle", cycle.period_s - cycle.idle_s, cycle.idle_s))
    return tuple(found)


def explain(cycle: Cycle, goals: CycleGoals) -> tuple[str, ...]:
    """Return a cycle in words, a line for each thing worth knowing."""
    half, train = cycle.infer, cycle.train
    lines = []
    if cycle.rate_per_s is not None:
        batch = "1 request" if cycle.together == 1 else f"a batch of {cycle.together} requests"
        lines.append(f"every {_time(cycle.period_s)}, {batch} arrives, at {cycle.rate_per_s:g}/s:")
    answers = "1 request is" if cycle.together == 1 else f"{cycle.together} requests are"
    of = "" if cycle.requests is None else f", as a batch of {half.batch_size}"
    lines.append(_spent(cycle, half.minibatch_s, f"{answers} answered by {half.workload}{of}"))
    if train is not None and cycle.train_minibatches:
        samples = f"{train.batch_size} sample{'' if train.batch_size == 1 else 's'}"
        each = f"{cycle.train_minibatches} x {_time(train.minibatch_s)}, {samples} each"
        lines.append(_spent(cycle, cycle.training_s, f"{train.workload} trains: {each}"))
    elif train is not None and cycle.rate_per_s is not None:
        lines.append(f"  {train.workload} does not fit: a minibatch takes {_time(train.minibatch_s)}")
    if cycle.rate_per_s is not None and cycle.idle_s > 0:
        lines.append(_spent(cycle, cycle.idle_s, "nothing to do"))
    lines.append(_latency(cycle, goals))
    if train is not None and cycle.rate_per_s is not None:
        lines.append(f"training: {cycle.throughput_per_s:.4g} samples/s, device busy {cycle.utilisation:.0%}")
    elif train is not None:
        lines.append("training: whenever no request waits; how often nobody knows")
    if cycle.power_w is not None:
        of = "" if goals.power_budget_w is None else f" of {format_si(goals.power_budget_w, 'W')}"
        both = "" if train is None else ", the larger of the two"
        lines.append(f"power: {format_si(cycle.power_w, 'W')}{of}{both}")
    lines += [f"not feasible: {describe_violation(each)}" for each in broken(cycle, goals)]
    return tuple(lines)


def _latency(cycle: Cycle, goals: CycleGoals) -> str:
    budget = format_si(goals.latency_budget_s, "s")
    whole = f"slowest answer: {_time(cycle.latency_s)} of {budget}"
    if cycle.fill_s == 0:
        return whole
    return f"{whole}: {_time(cycle.fill_s)} until the batch is full, then {_time(cycle.infer.at_worst_s)}"


def _spent(cycle: Cycle, time_s: float, what: str) -> str:
    share = "" if cycle.rate_per_s is None else f"{time_s / cycle.period_s:6.1%}  "
    return f"  {_time(time_s):>8}  {share}{what}"


def _time(time_s: float) -> str:
    return format_si(time_s, "s")

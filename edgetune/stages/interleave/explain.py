"""Explains in words where each millisecond of a cycle goes, and why no cycle serves a problem."""

import math
from collections.abc import Sequence

from edgetune.errors import InfeasibleError
from edgetune.stages.interleave.cycle import Cycle, CycleGoals, CycleViolation, broken, cycle_of
from edgetune.units import format_si

_WORDS = {
    "rate": "answering a batch takes {value}, and the next batch is full after {limit}",
    "room": "a batch and one training minibatch take {value}, and the next batch is full after {limit}",
    "step": "a request behind a slow training step is answered after {value}; {limit} are allowed",
    "latency": "the slowest answer takes {value} of {limit}",
    "power": "the power is {value}, and the budget {limit}",
}
_DIGITS = 3


def explain_infeasible(cycles: Sequence[Cycle], goals: CycleGoals) -> InfeasibleError:
    """Return the error that names the constraints the nearest cycle breaks, and which rate or budget is feasible.

    Args:
        cycles: Everything measured, each of them infeasible; not empty.
        goals: The problem.
    """
    nearest = min(cycles, key=lambda cycle: max(each.value / each.limit for each in broken(cycle, goals)))
    why = "; ".join(describe_violation(each) for each in broken(nearest, goals))
    asked = "the requests" if goals.rate_per_s is None else f"{goals.rate_per_s:g} requests/s"
    within = format_si(goals.latency_budget_s, "s")
    kept = f", {goals.headroom:.0%} of it kept free" if goals.headroom else ""
    message = f"no plan answers {asked} within {within}{kept}: at batch {nearest.infer.batch_size} {why}"
    ways = [way for way in (_nearest_rate(cycles, goals), _least_budget(cycles, goals)) if way is not None]
    if not ways:
        ways = [_least_power(cycles)] if goals.power_budget_w is not None else ["a faster mode or smaller networks"]
    return InfeasibleError(message, f"feasible: {', or '.join(ways)}; or --best-effort for the least bad")


def describe_violation(each: CycleViolation) -> str:
    """Return one broken constraint in words, with its figures."""
    unit = "W" if each.constraint == "power" else "s"
    return _WORDS[each.constraint].format(value=format_si(each.value, unit), limit=format_si(each.limit, unit))


def feasible_rates(cycle: Cycle, goals: CycleGoals) -> tuple[float, float] | None:
    """Return the lowest and highest rate that a batch size serves within the budgets, requests per second.

    From (b - 1) / a + t <= L follows a >= (b - 1) / (L - t): slower requests take too long to make a batch. From
    t <= b / a, or t + t_train <= b / a, follows the highest. Headroom is kept.

    Returns:
        ``None`` where no rate is feasible.
    """
    if any(each.constraint in ("power", "step") for each in broken(cycle, goals)):
        return None
    kept, size, time_s = 1 - goals.headroom, cycle.infer.batch_size, cycle.infer.minibatch_s
    spare_s = goals.latency_budget_s * kept - cycle.infer.cautious_s
    if spare_s < 0 or (spare_s == 0 and size > 1):
        return None
    lowest = 0.0 if size == 1 else (size - 1) / spare_s
    with_training_s = 0.0 if cycle.train is None else time_s + cycle.train.minibatch_s
    highest = size / max(time_s / kept, with_training_s)
    return (lowest, highest) if lowest <= highest else None


def nearest_rate_per_s(cycles: Sequence[Cycle], goals: CycleGoals) -> tuple[float, Cycle] | None:
    """Return the feasible rate nearest to the one asked for, and its cycle; ``None`` where none is.

    It is rounded to three digits, to the feasible side.
    """
    asked, found = goals.rate_per_s or 0.0, []
    for cycle in cycles:
        rates = feasible_rates(cycle, goals)
        if rates is None:
            continue
        rate = rates[0] if asked < rates[0] else rates[1]
        rounded = _rounded(rate, up=asked < rates[0])
        rate = rounded if rates[0] <= rounded <= rates[1] else rate
        found.append((rate, cycle_of(cycle.infer, rate, cycle.train)))
    return min(found, key=lambda each: abs(each[0] - asked), default=None)


def _nearest_rate(cycles: Sequence[Cycle], goals: CycleGoals) -> str | None:
    found = None if goals.rate_per_s is None else nearest_rate_per_s(cycles, goals)
    if found is None:
        return None
    rate, cycle = found
    return f"{rate:g} requests/s (batch {cycle.infer.batch_size}, {format_si(cycle.latency_s, 's')})"


def _least_budget(cycles: Sequence[Cycle], goals: CycleGoals) -> str | None:
    """Return the least latency budget at which something is feasible, where nothing else is in the way."""
    needed: list[tuple[float, int]] = []
    for cycle in cycles:
        found = broken(cycle, goals)
        if {each.constraint for each in found} <= {"latency", "step"}:
            needed.append((max(each.value for each in found), cycle.infer.batch_size))
    if not needed:
        return None
    least_s, size = min(needed)
    budget_s = _rounded(least_s / (1 - goals.headroom), up=True)
    return f"a latency budget of {format_si(budget_s, 's')} (batch {size})"


def _least_power(cycles: Sequence[Cycle]) -> str:
    return f"a power budget of {format_si(_rounded(min(c.power_w or 0.0 for c in cycles), up=True), 'W')} at least"


def _rounded(value: float, *, up: bool) -> float:
    """Return a value above zero rounded to so many digits in one direction."""
    step = 10.0 ** (math.floor(math.log10(value)) - _DIGITS + 1)
    steps = value / step
    return (math.ceil(steps) if up else math.floor(steps)) * step


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
        lines.append(
            _spent(cycle, cycle.training_s, f"{train.workload} {'trains' if train.trains else 'infers'}: {each}")
        )
    elif train is not None and cycle.rate_per_s is not None:
        lines.append(f"  {train.workload} does not fit: a minibatch takes {_time(train.minibatch_s)}")
    if cycle.rate_per_s is not None and cycle.idle_s > 0:
        lines.append(_spent(cycle, cycle.idle_s, "nothing to do"))
    lines.append(_latency(cycle, goals))
    if train is not None and cycle.rate_per_s is not None:
        what = "training" if train.trains else f"without a deadline, {train.workload}"
        lines.append(f"{what}: {cycle.throughput_per_s:.4g} samples/s, device busy {cycle.utilisation:.0%}")
        if goals.continuous:
            most = cycle.continuous_per_s(goals.latency_budget_s)
            lines[-1] += f"; {most:.4g} samples/s where steps run on while batches fill"
    elif train is not None:
        lines.append("training: where no answer is late for it; how often is unknown")
    if cycle.power_w is not None:
        of = "" if goals.power_budget_w is None else f" of {format_si(goals.power_budget_w, 'W')}"
        both = "" if train is None else ", the larger of the two"
        lines.append(f"power: {format_si(cycle.power_w, 'W')}{of}{both}")
    lines += [f"not feasible: {describe_violation(each)}" for each in broken(cycle, goals)]
    return tuple(lines)


def _latency(cycle: Cycle, goals: CycleGoals) -> str:
    """Return the slowest answer in words; the equations do not count how long it waits for a training minibatch."""
    if cycle.infer.minibatch_s > cycle.period_s:
        return "slowest answer: later and later, for requests come faster than they are answered"
    apart = "" if cycle.train is None else ", training aside"
    whole = f"slowest answer{apart}: {_time(cycle.latency_s)} of {format_si(goals.latency_budget_s, 's')}"
    return whole if cycle.fill_s == 0 else f"{whole}, {_time(cycle.fill_s)} of it to fill a batch"


def _spent(cycle: Cycle, time_s: float, what: str) -> str:
    share = "" if cycle.rate_per_s is None else f"{time_s / cycle.period_s:6.1%}  "
    return f"  {_time(time_s):>8}  {share}{what}"


def _time(time_s: float) -> str:
    return format_si(time_s, "s")

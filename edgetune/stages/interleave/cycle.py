"""One cycle: a batch of requests is answered, and until the next is full there is time to train.

    |<------------- b / a: the time in which the next batch of b requests arrives ------------->|
    | answer b requests, t | train | train | ... k minibatches |              idle              |
                           |-- first of the next b arrives --- ... --- last arrives: answer ---->

The equations are Fulcrum's (2025): the slowest request of a batch waits for it to fill and is then answered,
(b - 1) / a + t, here with the 95th percentile of t; the device keeps up while t <= b / a; k is the largest whole number
with t + k t_train <= b / a, both means; the power is the larger of the two.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from edgetune.artifacts.mode import Mode
from edgetune.errors import InfeasibleError
from edgetune.serving.requests import steps_per_batch
from edgetune.units import format_si

HEADROOM = 0.1
"""Share of the latency budget, and of the time between batches, that a plan leaves free: the next minibatch may be
slower than those that were measured. In simulated plans with 3 % scatter, half of them with rare minibatches of twice
the time, requests were late in 5 of 187 plans without headroom, in 3 of 180 with 5 %, and in none of 172 with 10 %."""
_A_WHOLE = 1e-9
"""Rounding error allowed in a whole number of minibatches."""

Constraint = Literal["rate", "room", "step", "latency", "power"]


@dataclass(frozen=True, slots=True)
class WorkloadPoint:
    """One workload as measured at one batch size in one mode.

    Args:
        workload: Its name.
        batch_size: Samples per minibatch.
        minibatch_s: Mean duration of a minibatch, s, from which rates and shares of time follow.
        power_w: Mean power, W; ``None`` where it was not measured.
        mode: The power mode.
        late_s: Cautious duration of a minibatch, s, with which latency budgets are kept; ``None`` where it is the mean.
        trains: Whether it trains; otherwise it infers.
    """

    workload: str
    batch_size: int
    minibatch_s: float
    power_w: float | None = None
    mode: Mode = field(default_factory=Mode)
    late_s: float | None = None
    trains: bool = True

    @property
    def cautious_s(self) -> float:
        """Duration of a minibatch that latencies follow from, s."""
        return self.minibatch_s if self.late_s is None else self.late_s


@dataclass(frozen=True, slots=True)
class CycleGoals:
    """The problem that a cycle has to solve.

    Args:
        latency_budget_s: Every answer within this, s.
        rate_per_s: Requests per second, the highest of them where it changes; ``None`` where it is unknown (live,
            closed): then no request is counted on to wait for others, and no training is promised.
        power_budget_w: Mean power stays within it, W.
        headroom: Share of the latency budget and of the time between batches left free, 0 to 1.
        continuous: Whether training minibatches may run on while the next batch fills, so that none has to fit between
            two batches.
    """

    latency_budget_s: float
    rate_per_s: float | None
    power_budget_w: float | None = None
    headroom: float = HEADROOM
    continuous: bool = False


@dataclass(frozen=True, slots=True)
class CycleViolation:
    """A constraint that a cycle breaks: the value it has and the limit, in the same unit (s, or W of power)."""

    constraint: Constraint
    value: float
    limit: float


@dataclass(frozen=True, slots=True)
class Cycle:
    """The work between one full batch and the next.

    Args:
        infer: Answers requests.
        rate_per_s: Requests per second, see ``CycleGoals``.
        train: Trains in the time that is left; ``None`` without training.
        train_minibatches: Training minibatches per batch of requests.
        requests: Requests answered together, where so few come in time that a batch is not waited for until it is full;
            it takes no less for it. ``None`` where it is full.
    """

    infer: WorkloadPoint
    rate_per_s: float | None
    train: WorkloadPoint | None = None
    train_minibatches: int = 0
    requests: int | None = None

    @property
    def together(self) -> int:
        """Requests answered together."""
        return self.infer.batch_size if self.requests is None else self.requests

    @property
    def period_s(self) -> float:
        """Time in which a batch of requests arrives, s; infinite where the rate is unknown."""
        return math.inf if self.rate_per_s is None else self.together / self.rate_per_s

    @property
    def fill_s(self) -> float:
        """How long the first request of a batch waits for the last, s."""
        return 0.0 if self.rate_per_s is None else (self.together - 1) / self.rate_per_s

    @property
    def latency_s(self) -> float:
        """How long the slowest request takes from its arrival to its answer, in a slow minibatch, s."""
        return self.fill_s + self.infer.cautious_s

    @property
    def training_s(self) -> float:
        """Time spent training, s."""
        return 0.0 if self.train is None else self.train_minibatches * self.train.minibatch_s

    @property
    def idle_s(self) -> float:
        """Time left over, s; below zero where the device does not keep up."""
        return self.period_s - self.infer.minibatch_s - self.training_s

    @property
    def utilisation(self) -> float:
        """Share of the time that the device works; above one where it does not keep up."""
        return (self.infer.minibatch_s + self.training_s) / self.period_s

    @property
    def throughput_per_s(self) -> float:
        """Samples trained on per second."""
        return 0.0 if self.train is None else self.train_minibatches * self.train.batch_size / self.period_s

    def continuous_per_s(self, latency_budget_s: float) -> float:
        """Return the samples trained on per second where steps may run on while the next batch fills."""
        if self.train is None or self.rate_per_s is None:
            return 0.0
        spare_s = max(latency_budget_s - self.latency_s, 0.0)
        steps = steps_per_batch(self.period_s, self.infer.minibatch_s, self.train.minibatch_s, spare_s)
        return steps * self.train.batch_size / self.period_s

    @property
    def power_w(self) -> float | None:
        """The larger of the two powers, W; ``None`` where one was not measured."""
        powers = [half.power_w for half in (self.infer, self.train) if half is not None]
        known = [power for power in powers if power is not None]
        return max(known) if len(known) == len(powers) else None


def cycle_of(
    infer: WorkloadPoint, rate_per_s: float | None, train: WorkloadPoint | None = None, *, requests: int | None = None
) -> Cycle:
    """Return the cycle of two workloads with as much training as fits: the largest k with t + k t_train <= b / a."""
    alone = Cycle(infer, rate_per_s, train, requests=requests)
    if train is None or rate_per_s is None:
        return alone
    return replace(alone, train_minibatches=max(math.floor(alone.idle_s / train.minibatch_s + _A_WHOLE), 0))


def in_good_time(infer: WorkloadPoint, goals: CycleGoals) -> int:
    """Return how many requests can be answered together: the largest n with (n - 1) / a + t within the budget."""
    if goals.rate_per_s is None:
        return infer.batch_size
    spare_s = goals.latency_budget_s * (1 - goals.headroom) - infer.cautious_s
    return max(min(infer.batch_size, 1 + math.floor(spare_s * goals.rate_per_s + _A_WHOLE)), 1)


def cycles_of(infer: WorkloadPoint, train: WorkloadPoint | None, goals: CycleGoals) -> list[Cycle]:
    """Return the cycle of full batches, and where these would be late, that of those not waited for so long."""
    cycles = [cycle_of(infer, goals.rate_per_s, train)]
    together = in_good_time(infer, goals)
    if together < infer.batch_size:
        cycles.append(cycle_of(infer, goals.rate_per_s, train, requests=together))
    return cycles


def broken(cycle: Cycle, goals: CycleGoals) -> tuple[CycleViolation, ...]:
    """Return the constraints that a cycle breaks.

    ``rate``: answering a batch takes longer than the next needs to arrive. ``room``: it leaves no time for one
    training minibatch. ``step``: a request that came just after a training minibatch began would be late, so that a
    policy which answers in time never starts one. ``latency`` and ``power``: beyond their budgets. Power that was not
    measured breaks nothing.
    """
    kept, found = 1 - goals.headroom, []
    if cycle.infer.minibatch_s > cycle.period_s * kept:
        found.append(CycleViolation("rate", cycle.infer.minibatch_s, cycle.period_s * kept))
    elif (
        cycle.train is not None and cycle.train_minibatches == 0 and not (cycle.rate_per_s is None or goals.continuous)
    ):
        found.append(CycleViolation("room", cycle.infer.minibatch_s + cycle.train.minibatch_s, cycle.period_s))
    step_s = 0.0 if cycle.train is None else cycle.infer.cautious_s + cycle.train.cautious_s
    if step_s > goals.latency_budget_s * kept:
        found.append(CycleViolation("step", step_s, goals.latency_budget_s * kept))
    if cycle.latency_s > goals.latency_budget_s * kept:
        found.append(CycleViolation("latency", cycle.latency_s, goals.latency_budget_s * kept))
    power_w = cycle.power_w
    if goals.power_budget_w is not None and power_w is not None and power_w > goals.power_budget_w:
        found.append(CycleViolation("power", power_w, goals.power_budget_w))
    return tuple(found)


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
    if not ways and goals.power_budget_w is None:
        ways = ["a faster mode or smaller networks"]
    elif not ways:
        least_w = _rounded(min(each.power_w or 0.0 for each in cycles), up=True)
        ways = [f"a power budget of {format_si(least_w, 'W')} at least"]
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

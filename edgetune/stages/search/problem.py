"""The rules of a problem: its validation, the objective of a measured point, and whether the point keeps every budget.

A user asks "train as fast as possible on at most 30 W" or "answer 60 requests per second, each within 80 ms, on at most
20 W". This module validates that question and judges measured points by it.

Two workloads share a board by taking turns:

    |<------------- b / a: the time in which the next batch of b requests arrives ------------->|
    | infer b requests | background minibatch | background minibatch | ... k of them |   idle   |

The urgent workload always goes first; background minibatches fill the rest. ``throughput`` counts the k whole ones of
a cycle (Fulcrum, 2025); ``continuous-throughput`` those that run where one may go on while the next batch fills
(``serving.background_steps``). Interleaved time is the sum of the two, interleaved power the larger of the two
(Fulcrum's authors checked both on an Orin AGX).

Power readings scatter. Of ten points that read "within budget" with a deviation of 1.5 %, the best truly exceeds the
budget in 5 to 10 % of searches, because the search picks points that happened to read low. So the interval of the
reading must keep the budget as well: mean reading x (1 + z x noise / sqrt(readings)). Measuring again narrows it.
"""

import math
from dataclasses import dataclass

from edgetune.artifacts.problem import Objective, Problem, asked_budgets
from edgetune.artifacts.profile import ProfileRow, Task
from edgetune.artifacts.repeats import energy_per_minibatch_j, late_minibatch_s, mean_minibatch_s, tokens_per_j
from edgetune.errors import InputError
from edgetune.serving.requests import steps_per_batch
from edgetune.stats import is_positive

KINDS: tuple[str, ...] = ("train", "infer", "train+infer", "infer+infer", "accuracy")
PAIRS: tuple[str, ...] = ("train+infer", "infer+infer")
"""Kinds with two workloads."""
_OBJECTIVES: dict[str, tuple[Objective, ...]] = {
    "train": ("throughput", "energy", "energy-delay"),
    "infer": ("latency", "throughput", "energy", "energy-delay", "tokens-per-joule"),
    "train+infer": ("throughput", "continuous-throughput"),
    "infer+infer": ("throughput", "continuous-throughput"),
    "accuracy": ("time", "energy", "energy-delay"),
}
NEED_POWER: tuple[Objective, ...] = ("energy", "energy-delay", "tokens-per-joule")
"""Objectives that follow from energy."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A constraint that a measured point breaks.

    Args:
        constraint: ``power`` (W), ``latency`` (s, of the slowest request), ``rate`` (s per minibatch, keeping up),
            ``room`` (s of a background minibatch, against the time left between two urgent batches, or of both halves
            against the latency budget) or a name of ``COLUMN_BUDGETS``.
        value: The measured figure.
        limit: The limit less its margin; ``value`` exceeds it.
    """

    constraint: str
    value: float
    limit: float


@dataclass(frozen=True, slots=True)
class Judgement:
    """The judgement of a measured point by the rules of a problem.

    Args:
        objective: Larger is better: samples per s, minus s, minus J per sample, minus J s per sample; ``None``
            if unknown.
        feasible: Whether every constraint is met; ``None`` if unknown.
        violations: The constraints it breaks.
        unknown: Why the point cannot be judged completely, in words; ``None`` if it can.
        second: Tie-breaker between equal objectives, larger is better: minus the latency of two workloads, s.
        shares: Measured values of columns with a budget, as shares of the limit, by name.
    """

    objective: float | None
    feasible: bool | None
    violations: tuple[Violation, ...] = ()
    unknown: str | None = None
    second: float = 0.0
    shares: tuple[tuple[str, float], ...] = ()


def validate(problem: Problem) -> None:
    """Raise if a problem is invalid.

    Raises:
        InputError: a kind not yet built, an objective the kind does not have, a budget or rate that is not a finite
            number above zero, a margin outside 0 to 1, or two workloads without the arrival rate they need.
    """
    if problem.kind not in KINDS:
        raise InputError(f"there are no problems of kind {problem.kind!r}", f"known: {', '.join(KINDS)}")
    columns = [budget.field for budget in asked_budgets(problem)]
    for name in ("power_budget_w", "latency_budget_s", "arrival_rate_per_s", *columns):
        value = getattr(problem, name)
        if value is not None and not is_positive(value):
            raise InputError(f"{name} must be a finite number above zero, not {value}", "e.g. 30W, 80ms, 60/s")
    if not 0 <= problem.margin < 1:
        raise InputError(f"the margin must be at least 0 and below 100 %, not {problem.margin}", "e.g. 5%")
    if problem.objective is not None and problem.objective not in _OBJECTIVES[problem.kind]:
        allowed = ", ".join(_OBJECTIVES[problem.kind])
        raise InputError(
            f"a problem of kind {problem.kind} has no objective {problem.objective!r}", f"known: {allowed}"
        )
    _validate_requests(problem)
    if problem.kind in PAIRS and (budgets := asked_budgets(problem)):
        message = f"two workloads have no {budgets[0].option}, which is of one"
        raise InputError(message, "leave it out, or search for infer alone")
    if problem.kind not in PAIRS and (problem.background or problem.background_batch_size):
        raise InputError(f"a problem of kind {problem.kind} has no second workload", f"known: {', '.join(PAIRS)}")
    if problem.kind == "accuracy":
        epochs_by_batch(problem)


def _validate_requests(problem: Problem) -> None:
    """Refuse requests to a network that only trains, and two workloads without the rate that leaves room for both."""
    if problem.kind in ("train", "accuracy"):
        if problem.latency_budget_s or problem.arrival_rate_per_s:
            message = f"a problem of kind {problem.kind} has neither a latency budget nor an arrival rate"
            raise InputError(message, "leave them out, or search for infer or train+infer")
        return
    if problem.arrival_rate_per_s is None and problem.kind in PAIRS:
        raise InputError(
            "batches that run back to back leave no time for a second network, and no arrival rate was given",
            "--arrival-rate 60/s, or search for infer alone",
        )


def runs_back_to_back(problem: Problem) -> bool:
    """Return whether batches run back to back, because the problem states no arrival rate."""
    return problem.kind == "infer" and problem.arrival_rate_per_s is None


def epochs_by_batch(problem: Problem) -> dict[int, float]:
    """Return the epochs until the target accuracy by batch size.

    Raises:
        InputError: there are no epochs, or one is no finite number above zero.
    """
    epochs = dict(problem.epochs_to_target)
    if not epochs:
        raise InputError(
            "time to accuracy needs the epochs that each batch size takes, and none were given",
            "measure them with edgetune profile --convergence, then give --convergence FILE; or give --noise-scale",
        )
    for size, value in epochs.items():
        if not is_positive(value):
            raise InputError(f"the epochs at batch size {size} are {value}", "they must be above zero")
    return epochs


def objective_of(problem: Problem) -> Objective:
    """Return the problem's objective, by default that of its kind."""
    return problem.objective or _OBJECTIVES[problem.kind][0]


def background_task(kind: str) -> Task:
    """Return the task of the workload without a deadline in a problem with two."""
    return "train" if kind == "train+infer" else "infer"


def needs_power(problem: Problem) -> bool:
    """Return whether a point without a power figure cannot be judged."""
    budgets = (problem.power_budget_w, problem.power_peak_budget_w)
    return any(budget is not None for budget in budgets) or objective_of(problem) in NEED_POWER


def peak_latency_s(problem: Problem, batch_size: int, minibatch_s: float) -> float:
    """Return the latency of the slowest request of a batch, s.

    The first request waits until the batch is full, (b - 1) / a seconds at a requests per second; then the batch
    runs for t: (b - 1) / a + t (Fulcrum, 2025). Without an arrival rate batches run back to back: t.
    """
    rate = problem.arrival_rate_per_s
    return minibatch_s + ((batch_size - 1) / rate if rate else 0.0)


def figures_of(row: ProfileRow) -> tuple[float | None, float | None]:
    """Return the mean time, s, and power, W, of a row; ``None`` for a missing figure."""
    time_s = mean_minibatch_s(row)
    if row.status != "ok" or time_s is None or not is_positive(time_s):
        return None, None
    return float(time_s), float(row.power_w) if row.power_w is not None and is_positive(row.power_w) else None


def late_of(row: ProfileRow) -> float | None:
    """Return the time of a minibatch that latencies follow from, s; ``None`` where it is the mean time."""
    late_s = late_minibatch_s(row)
    return None if late_s == mean_minibatch_s(row) else late_s


def judge(problem: Problem, row: ProfileRow) -> Judgement:
    """Return the objective of a measured point of one workload and the constraints that it breaks.

    A row that is no measurement (failed, throttled, not a number) has neither objective nor feasibility. Without
    power, a power budget cannot be checked, so such a row is never feasible; it can still be infeasible by its time.
    """
    time_s, late_s = mean_minibatch_s(row), late_of(row)
    if row.status != "ok":
        return Judgement(None, None, unknown=row.reason or f"the measurement {row.status}")
    if time_s is None or not is_positive(time_s):
        return Judgement(None, None, unknown=f"minibatch_s is {row.minibatch_s}")
    power_w = figures_of(row)[1]
    columns, missing = _column_figures(problem, row)
    broken = (figure for figure in columns if figure.value > figure.limit)
    violations = (*half_violations(problem, urgent=Half(row.batch_size, time_s, power_w, late_s)), *broken)
    objective = _objective(problem, row, time_s, late_s or time_s)
    unknown = missing
    if objective_of(problem) == "tokens-per-joule" and row.output_tokens is None:
        unknown = "no tokens were counted"
    elif objective is None or (problem.power_budget_w is not None and power_w is None):
        given = "no power was measured" if row.power_w is None else f"power_w is {row.power_w}"
        unknown = row.reason or given
    feasible = False if violations else (None if unknown else True)
    shares = tuple((figure.constraint, figure.value / figure.limit) for figure in columns)
    return Judgement(objective, feasible, violations, unknown, shares=shares)


def _column_figures(problem: Problem, row: ProfileRow) -> tuple[list[Violation], str | None]:
    """Return the values of the columns that have a budget beside their limits, and why one is missing."""
    found, missing = [], None
    for budget in asked_budgets(problem):
        value, limit = budget.value(row), budget.limit(problem)
        if value is None or limit is None:
            missing = f"{budget.columns[0]} was not measured"
        else:
            found.append(Violation(budget.name, value, limit))
    return found, missing


def _objective(problem: Problem, row: ProfileRow, time_s: float, late_s: float) -> float | None:
    """Return the objective, larger is better; delay is time per sample in training, peak latency in inference."""
    objective, batch_size, energy_j = objective_of(problem), row.batch_size, energy_per_minibatch_j(row)
    if objective == "tokens-per-joule":
        return tokens_per_j(row)
    if objective == "throughput":
        return float(batch_size / time_s)
    if problem.kind == "accuracy":
        return _accuracy_objective(problem, batch_size, time_s, energy_j)
    latency_s = peak_latency_s(problem, batch_size, late_s)
    if objective == "latency":
        return -float(latency_s)
    if energy_j is None:
        return None
    delay_s = time_s / batch_size if problem.kind == "train" else latency_s
    return -float(energy_j / batch_size * (1.0 if objective == "energy" else delay_s))


def _accuracy_objective(problem: Problem, batch_size: int, time_s: float, energy_j: float | None) -> float | None:
    """Return minus the time (or energy) of the epochs that the batch size needs, per sample of the data set."""
    epochs, objective = dict(problem.epochs_to_target)[batch_size], objective_of(problem)
    total_s = time_s / batch_size * epochs
    if objective == "time":
        return -float(total_s)
    if energy_j is None:
        return None
    total_j = energy_j / batch_size * epochs
    return -float(total_j) if objective == "energy" else -float(total_j * total_s)


_A_WHOLE = 1e-9
"""Rounding error allowed in a whole number of minibatches."""


@dataclass(frozen=True, slots=True)
class Half:
    """One workload in some mode: samples per minibatch, mean s per minibatch and W (``None`` when not measured).

    ``late_s`` is the time of a minibatch that latencies follow from, s; ``None`` where it is the mean.
    """

    batch_size: int
    minibatch_s: float
    power_w: float | None
    late_s: float | None = None

    @property
    def latest_s(self) -> float:
        """The time of a minibatch that latencies follow from, s."""
        return self.minibatch_s if self.late_s is None else self.late_s


def background_minibatches(problem: Problem, urgent: Half, background_s: float) -> int:
    """Return how many background minibatches fit between two batches: the largest k with t + k t_bg <= b / a."""
    assert problem.arrival_rate_per_s is not None
    spare_s = urgent.batch_size / problem.arrival_rate_per_s - urgent.minibatch_s
    return max(math.floor(spare_s / background_s + _A_WHOLE), 0)


def is_continuous(problem: Problem) -> bool:
    """Return whether background minibatches may run on from one urgent batch to the next."""
    return objective_of(problem) == "continuous-throughput"


def behind_background_s(problem: Problem, urgent: Half, background_s: float) -> float:
    """Return the latency that a background minibatch costs at most where it begins just after an urgent batch, s.

    The next urgent batch runs behind it: t_bg + t. Its first request came up to t - 1 / a before, while the urgent
    batch ran (``interleave.admission``).
    """
    assert problem.arrival_rate_per_s is not None
    waited_s = max(urgent.latest_s - 1 / problem.arrival_rate_per_s, 0.0)
    return background_s + urgent.latest_s + waited_s


def half_violations(problem: Problem, *, urgent: Half | None = None, background: Half | None = None) -> list[Violation]:
    """Return the constraints that one workload breaks by itself."""
    kept, found = 1 - problem.margin, []
    half = urgent or background
    if half is not None and half.power_w is not None and problem.power_budget_w is not None:
        limit_w = problem.power_budget_w * kept
        found += [Violation("power", half.power_w, limit_w)] if half.power_w > limit_w else []
    if urgent is None:
        return found
    if problem.arrival_rate_per_s is not None:
        arrives_s = urgent.batch_size / problem.arrival_rate_per_s
        found += [Violation("rate", urgent.minibatch_s, arrives_s)] if urgent.minibatch_s > arrives_s else []
    latency_s = peak_latency_s(problem, urgent.batch_size, urgent.latest_s)
    if problem.latency_budget_s is not None and latency_s > problem.latency_budget_s * kept:
        found.append(Violation("latency", latency_s, problem.latency_budget_s * kept))
    return found


def judge_pair(problem: Problem, urgent: Half, background: Half) -> Judgement:
    """Return the judgement of a mode and batch size for two workloads: background samples per s, then latency."""
    assert problem.arrival_rate_per_s is not None
    broken = {v.constraint: v for v in half_violations(problem, urgent=urgent)}
    for violation in half_violations(problem, background=background):  # the larger of the two powers counts
        if violation.constraint not in broken or violation.value > broken[violation.constraint].value:
            broken[violation.constraint] = violation
    arrives_s = urgent.batch_size / problem.arrival_rate_per_s
    count: float = background_minibatches(problem, urgent, background.minibatch_s)
    if is_continuous(problem):
        spare_s = math.inf
        if problem.latency_budget_s is not None:
            kept_s = problem.latency_budget_s * (1 - problem.margin)
            spare_s = max(kept_s - peak_latency_s(problem, urgent.batch_size, urgent.latest_s), 0.0)
            behind_s = behind_background_s(problem, urgent, background.latest_s)
            if behind_s > kept_s:
                broken["room"] = Violation("room", behind_s, kept_s)
        count = steps_per_batch(arrives_s, urgent.minibatch_s, background.minibatch_s, spare_s)
    if count == 0 and not broken.keys() & {"rate", "room"}:
        broken["room"] = Violation("room", background.minibatch_s, max(arrives_s - urgent.minibatch_s, 1e-9))
    unknown = None
    if problem.power_budget_w is not None and (urgent.power_w is None or background.power_w is None):
        unknown = "no power was measured"
    throughput = count * background.batch_size / arrives_s
    latency_s = peak_latency_s(problem, urgent.batch_size, urgent.latest_s)
    feasible = False if broken else (None if unknown else True)
    return Judgement(throughput, feasible, tuple(broken.values()), unknown, -latency_s)


def pair_power_w(urgent: Half, background: Half) -> float | None:
    """Return the power of two workloads that take turns, W: the larger one; ``None`` where one was not measured."""
    if urgent.power_w is None or background.power_w is None:
        return None
    return max(urgent.power_w, background.power_w)


Z = 1.9
"""Number of standard deviations of the upper end of the interval: one-sided 97 %.

``roofline`` with ten points on 1,900 training problems of the twin (190 budgets, ten seeds), where readings of time
scatter by 3 % and of power by 1.5 % (answers over the budget / mean excess of the others): not confirmed 18 % / 0.9 %;
1.645: 1.3 % / 3.3 %; 1.8: 0.9 % / 3.6 %; 1.9: 0.5 % / 3.7 %; 2.0: 0.4 % / 3.9 %.
"""
EXPECTED_READINGS = 3
"""Number of readings with which a strategy may expect an answer to be confirmed."""


def is_confirmed(problem: Problem, power_w: float | None, readings: int, power_noise: float) -> bool:
    """Return whether the mean of ``readings`` readings, W, is within the power budget with its interval."""
    if problem.power_budget_w is None or not power_noise:
        return True
    if power_w is None:
        return False
    limit_w = problem.power_budget_w * (1 - problem.margin)
    return power_w * (1 + Z * power_noise / math.sqrt(readings)) <= limit_w


def could_be_confirmed(problem: Problem, power_w: float | None, readings: int, more: int, power_noise: float) -> bool:
    """Return whether ``more`` further readings with the same mean would confirm it."""
    return more > 0 and is_confirmed(problem, power_w, readings + more, power_noise)

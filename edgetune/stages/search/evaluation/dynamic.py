"""Changing request rates: known points answer a window where they suffice, and a search measures more where not.

    rate   |     .--.
           | .--'    '--.___.----      one rate per window of five minutes
           +--|----|----|----|---> time
             measure  reuse reuse ...

Every window is a problem of its own. A point is measured only where nothing known keeps the budgets, or, as long as it
costs little, where the rate is far from all rates searched before. After Fulcrum (2025), whose gradient search looks at
known points first when the rate changes.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from edgetune.artifacts.evaluation import EvaluationRun
from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.artifacts.repeats import mean_minibatch_s
from edgetune.artifacts.trace import Trace
from edgetune.errors import InputError
from edgetune.stages.search.answer import NoPowerError, NothingFeasibleError
from edgetune.stages.search.driver import Measure, SearchSettings, run_search
from edgetune.stages.search.evaluation.answering import Contender, StrategyAnswers, answer_once, chosen_point, noisy
from edgetune.stages.search.evaluation.cases import EvaluationCase, ProfiledWorkload, cases_of
from edgetune.stages.search.evaluation.problems import Array, ProblemSet, best_answers
from edgetune.stages.search.evaluation.runner import EvaluationConditions, judged_run

WINDOW_S = 300.0
DURATION_S = 7200.0
WINDOWS = 24
"""Two hours in windows of five minutes, as in the study."""
FAR = 1.1
"""A rate is far from another when one is more than this many times the other."""
REFINEMENT_POINTS = 2
"""Most points measured in a window that known points answer, or whose rate is like that of a failed search."""
VAIN_SEARCHES = 3
"""Failed searches after which similar rates count as infeasible."""
MEASURING_SHARE = 0.02
"""Largest share of all time spent on measuring where known points would suffice."""
MINIBATCHES, SETTLING_S = 40, 5.0
"""Time of a measurement that the table does not record: this many minibatches, and this settling time, s."""


@dataclass(frozen=True, slots=True)
class Window:
    """The result of one window.

    Args:
        rate_per_s: Requests per second.
        answer: The point to run at; ``None`` where none was found.
        points: Number of points measured in this window.
        measurement_s: Time of these measurements, s.
        strategy_s: Computation of the strategy, s.
    """

    rate_per_s: float
    answer: Point | None
    points: int
    measurement_s: float
    strategy_s: float


def window_rates(arrivals_s: Sequence[float], *, duration_s: float = DURATION_S) -> tuple[float, ...]:
    """Return the mean rate of each window, 1/s; requests that end early begin again, in whole windows.

    Raises:
        InputError: the requests do not fill one window.
    """
    last_s = min(arrivals_s[-1] - arrivals_s[0], duration_s) if arrivals_s else 0.0
    count = int(last_s / WINDOW_S + 1e-9)
    if count < 1:
        raise InputError(
            f"the requests span {last_s:.3g} s, less than one window of {WINDOW_S:g} s", "give more of them"
        )
    counts = [0] * count
    for time_s in arrivals_s:
        place = int((time_s - arrivals_s[0]) / WINDOW_S)
        if place < count:
            counts[place] += 1
    return repeated([number / WINDOW_S for number in counts], int(duration_s / WINDOW_S))


def repeated(rates: Sequence[float], windows: int) -> tuple[float, ...]:
    """Return ``count`` rates, repeating the given ones if there are fewer."""
    return tuple(rates[window % len(rates)] for window in range(windows))


def poisson_rates(mean_per_s: float, *, windows: int = WINDOWS, seed: int = 0) -> tuple[float, ...]:
    """Return a rate per window, drawn from a Poisson distribution with this mean."""
    return tuple(float(rate) for rate in np.random.default_rng(seed).poisson(mean_per_s, windows))


def bursty_rates(mean_per_s: float, *, windows: int = WINDOWS, seed: int = 0) -> tuple[float, ...]:
    """Return a rate per window that jumps: calm, with bursts of one to three windows at twice the calm rate.

    Made up after what the study says of its trace of Alibaba's cluster, which is not published with it: a peak of 1.27
    times the mean rate.
    """
    random, rates = np.random.default_rng(seed), list[float]()
    while len(rates) < windows:
        rates += [0.75] * int(random.integers(1, 5)) + [1.5] * int(random.integers(1, 4))
    return scaled([rate * float(np.exp(0.05 * random.standard_normal())) for rate in rates[:windows]], mean_per_s)


def scaled(rates: Sequence[float], mean_per_s: float) -> tuple[float, ...]:
    """Return the rates scaled by one factor to this mean, 1/s.

    Raises:
        InputError: all rates are zero.
    """
    mean = sum(rates) / len(rates)
    if mean == 0:
        raise InputError("no requests arrive at all", "give a trace with some")
    return tuple(rate * mean_per_s / mean for rate in rates)


def replay(
    rates: Sequence[float], problem: Problem, candidates: Iterable[Point], measure: Measure, settings: SearchSettings
) -> Iterator[Window]:
    """Answer one window after another; a window without requests needs no answer and gets none.

    Args:
        rates: Requests per s of each window.
        problem: The budgets, an ``infer`` problem; its own rate is not used.
        candidates: The points that may be chosen.
        measure: Measures a point.
        settings: The settings of a search where no known point suffices.
    """
    memory, offered = _Memory(measure), list(candidates)
    allowed_s = MEASURING_SHARE * WINDOW_S * len(rates)
    limit = settings.limit(problem, len(offered))
    for rate in rates:
        before, spent_s = len(memory.rows), memory.spent_s
        answer, strategy_s = None, 0.0
        if rate > 0:
            now = replace(problem, arrival_rate_per_s=rate)
            for points in memory.tries(rate, allowed_s, limit):
                known = replace(settings, max_points=points, known=tuple(memory.rows))
                trace: Trace | None
                try:
                    result = run_search(now, offered, memory.measure, known)
                except (NothingFeasibleError, NoPowerError) as error:
                    trace = error.trace
                else:
                    answer, trace = chosen_point(result.plan, offered[0]), result.trace
                strategy_s += sum(step.strategy_s or 0.0 for step in trace.rows) if trace is not None else 0.0
                memory.note(rate, solved=answer is not None, searched=points != 0)
        yield Window(rate, answer, len(memory.rows) - before, memory.spent_s - spent_s, strategy_s)


class _Memory:
    """The measured points, the time spent on them, and the rates searched."""

    def __init__(self, measure: Measure) -> None:
        self._measure = measure
        self.rows: list[ProfileRow] = []
        self.spent_s = 0.0
        self._searched: list[float] = []
        self._in_vain: list[float] = []
        self._solved = False

    def measure(self, point: Point) -> ProfileRow:
        """Measure a point and remember it; without a recorded time it takes that of minibatches and of settling."""
        row = self._measure(point)
        self.rows.append(row)
        assumed_s = MINIBATCHES * (mean_minibatch_s(row) or 0.0) + SETTLING_S
        self.spent_s += assumed_s if row.duration_s is None else row.duration_s
        return row

    def solved(self) -> bool:
        """Return whether this window has an answer."""
        return self._solved

    def note(self, rate: float, *, solved: bool, searched: bool) -> None:
        """Record whether known points, or a search, served this rate."""
        self._solved = solved
        if searched and solved:
            self._searched.append(rate)

    def tries(self, rate: float, allowed_s: float, limit: int) -> Iterator[int]:
        """Yield the number of points to allow, until the window is solved: 0 first, if any point is known.

        Where known points do not serve, one more is measured at a time until one does.
        """
        self._solved = False
        if not self.rows:
            yield limit
            if not self.solved():
                self._in_vain.append(rate)
            return
        yield 0
        if not self.solved():
            vain = _near(rate, self._in_vain)
            most = 0 if vain >= VAIN_SEARCHES else REFINEMENT_POINTS if vain else limit
            for _ in range(most):
                yield 1
                if self.solved():
                    return
            if most:
                self._in_vain.append(rate)
            return
        if _near(rate, self._searched):
            return
        left = int((allowed_s - self.spent_s) / (self.spent_s / len(self.rows)))
        if left > 0:
            yield min(left, REFINEMENT_POINTS)


def _near(rate: float, others: Sequence[float]) -> int:
    return sum(max(rate, other) <= FAR * min(rate, other) for other in others)


def window_cases(
    subjects: Sequence[ProfiledWorkload], rates: Sequence[float], power_w: float, latency_s: float
) -> list[EvaluationCase]:
    """Return a case for each inference workload, whose problems are the windows.

    Raises:
        InputError: as ``cases_of`` for inference.
    """
    rate = np.array(rates, dtype=float)
    budgets = np.full(len(rate), power_w), np.full(len(rate), latency_s)
    windows = ProblemSet(Problem("infer"), *budgets, np.maximum(rate, 1e-9))
    found = cases_of(subjects, "infer", grid="auto")
    return [replace(case, family="dynamic", problems=windows) for case in found]


def run_windows(
    cases: Iterable[EvaluationCase],
    rates: Sequence[float],
    contenders: Sequence[Contender],
    conditions: EvaluationConditions,
) -> Iterator[EvaluationRun]:
    """Yield a run for each contender, case and seed. A window without requests is no problem and has no row.

    A strategy that predicts has a second run, whose windows are answered from what it predicts after its measurements.
    """
    busy = np.flatnonzero(np.array(rates) > 0)
    for contender in contenders:
        for case in cases:
            best = best_answers(case.measured, case.problems)
            for seed in range(conditions.seeds):
                answers, measurement_s = _windows(case, contender, rates, seed=seed, noise=conditions.noise)
                chosen = answers.take(busy)
                who = (contender.strategy, contender.max_points, seed)
                yield judged_run(case, best, busy, chosen, who, measurement_s=measurement_s[busy])
                if not contender.predicts:
                    continue
                for predicted in answer_once(case, contender, busy, seed=seed, noise=conditions.noise)[1:]:
                    who = (f"{contender.strategy}-{predicted.variant}", contender.max_points, seed)
                    yield judged_run(case, best, busy, predicted, who)


def _windows(
    case: EvaluationCase, contender: Contender, rates: Sequence[float], *, seed: int, noise: float
) -> tuple[StrategyAnswers, Array]:
    """Return the answers to all windows, and the time spent measuring in each, s."""
    place = {point: row for row, point in enumerate(case.space.points)}
    first = case.problems.problem(0)
    problem = Problem("infer", first.power_budget_w, first.latency_budget_s)
    measure = noisy(case.rows, noise, f"{seed} dynamic {case.label}")
    settings = contender.settings(seed, noise, case.relatives)
    windows = list(replay(rates, problem, case.space.points, measure, settings))
    rows = np.array([-1 if window.answer is None else place[window.answer] for window in windows], dtype=np.intp)
    points = np.array([window.points for window in windows], dtype=np.intp)
    own_s = np.array([window.strategy_s for window in windows])
    unknown = np.full(len(windows), np.nan)  # known points answer most windows
    answers = StrategyAnswers("", rows, points, own_s, unknown, unknown)
    return answers, np.array([window.measurement_s for window in windows])

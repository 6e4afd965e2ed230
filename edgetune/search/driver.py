"""The loop between a strategy and measurements: ask for a point, measure it, judge it, tell, write it down.

The loop, not the strategy, keeps the promises that matter: no point is measured twice, the number of points is never
exceeded, and the answer is a point that was measured and kept every budget.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from edgetune.artifacts import plan as plans
from edgetune.artifacts import trace as traces
from edgetune.artifacts.header import Caution, Header
from edgetune.artifacts.mode import KNOBS
from edgetune.artifacts.plain import plain
from edgetune.artifacts.plan import Configuration, Figures, Plan, SearchSummary
from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.artifacts.trace import Trace, TraceRow
from edgetune.errors import EdgetuneError, InputError, NotRestoredError
from edgetune.search.infeasible import explain
from edgetune.search.ledger import Found, Ledger
from edgetune.search.problem import energy_per_minibatch_j, judge, offered_points, peak_latency_s, validate
from edgetune.search.space import Space, order
from edgetune.search.strategies import find_strategy
from edgetune.search.strategies.strategy import Strategy, Suggestion

Measure = Callable[[Point], ProfileRow]


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The answer and how it was reached."""

    plan: Plan
    trace: Trace


def run_search(
    problem: Problem,
    candidates: Iterable[Point],
    measure: Measure,
    *,
    strategy: str,
    max_points: int | None = None,
    seed: int = 0,
    known: Sequence[ProfileRow] = (),
    on_step: Callable[[TraceRow], None] | None = None,
    stop: Callable[[], bool] | None = None,
    inputs: Mapping[str, Any] | None = None,
    conditions: Mapping[str, Any] | None = None,
    warnings: tuple[Caution, ...] = (),
    clock_s: Callable[[], float] = time.perf_counter,
) -> SearchResult:
    """Search for the best point within the problem's budgets, measuring as few points as the strategy needs.

    Args:
        problem: What is to be as good as possible, within which budgets.
        candidates: The points that may be chosen; those of another task are left aside.
        measure: Measures one point. A row that is not ``ok`` and an ``EdgetuneError`` are failures: told to the
            strategy with their reason, and counted. An error that leaves the device not restored ends the search.
        strategy: Name of a strategy.
        max_points: Most points to measure; ``None`` takes the strategy's default. 0 answers from ``known`` alone.
        seed: Of the strategy's random choices.
        known: Rows measured earlier; those of offered points are told first and not counted. Of several rows of
            one point the last counts; rows that cannot be judged are left aside, so that the point may be measured.
        on_step: Called with every step as it is made.
        stop: Asked before each point; the search ends with what it has when it answers true.
        inputs, conditions, warnings: What the headers of plan and trace say.
        clock_s: Times the strategy's own computation and the measurements, s.

    Raises:
        InputError: a problem that is not well put, nothing to choose from, an unknown strategy, or no power figures
            (``NoPowerError``, with the trace).
        NothingFeasibleError: nothing measured is within the budgets; carries the trace.
    """
    validate(problem)
    space = Space.of(offered_points(problem, candidates))
    searcher = find_strategy(strategy)(space, problem, seed=seed)
    limit = _limit(max_points, searcher.default_max_points, len(space.points), bool(known))
    ledger = Ledger(problem, on_step)
    for row in _reusable(problem, space, known):
        searcher.tell(row.point, ledger.add(Suggestion(row.point, "known from earlier"), row, source="known"))
    known_points = len(ledger.steps)
    while len(ledger.steps) - known_points < limit and not (stop is not None and stop()):
        if not _step(searcher, measure, space, ledger, clock_s):
            break
    header = partial(Header.new, inputs=inputs, warnings=warnings)
    asked = {"problem": plain(problem), "strategy": strategy, "seed": seed}  # the plan has these in its body
    told = {**(conditions or {}), **asked}
    trace = Trace(header(traces.KIND, traces.VERSION, conditions=told), tuple(ledger.steps))
    if ledger.best is None:
        complete = len(ledger.steps) == len(space.points)
        raise explain(problem, list(ledger.outcomes.values()), complete=complete, trace=trace)
    summary = SearchSummary(strategy, len(ledger.steps) - known_points, seed, known_points)
    return SearchResult(
        _plan(header(plans.KIND, plans.VERSION, conditions=conditions), problem, ledger.best, summary), trace
    )


def _step(searcher: Strategy, measure: Measure, space: Space, ledger: Ledger, clock_s: Callable[[], float]) -> bool:
    """Ask, measure, write down, tell; return whether there was anything left to ask."""
    started_s = clock_s()
    suggestion = searcher.ask()
    strategy_s = clock_s() - started_s
    if suggestion is None:
        return False
    point = suggestion.point
    if point not in space.levels:
        raise RuntimeError(f"strategy {searcher.name} asked for a point that was not offered: {point}")
    if point in ledger.outcomes:
        raise RuntimeError(f"strategy {searcher.name} asked twice for {point}")
    started_s = clock_s()
    row = _measure(measure, point)
    measurement_s = row.duration_s if row.duration_s is not None else clock_s() - started_s
    searcher.tell(point, ledger.add(suggestion, row, strategy_s=strategy_s, measurement_s=measurement_s))
    return True


def _limit(max_points: int | None, default: int | None, offered: int, has_known: bool) -> int:
    wanted = default if max_points is None else max_points
    if wanted is not None and wanted < (0 if has_known else 1):
        raise InputError(f"the number of points must be at least 1, not {wanted}", "e.g. --max-points 10")
    return offered if wanted is None else min(wanted, offered)


def _reusable(problem: Problem, space: Space, known: Sequence[ProfileRow]) -> list[ProfileRow]:
    """Return the known rows of offered points that can be judged: the last of each point, in the order of points."""
    rows = {row.point: row for row in known if row.point in space.levels and judge(problem, row).feasible is not None}
    return [rows[point] for point in sorted(rows, key=order)]


def _measure(measure: Measure, point: Point) -> ProfileRow:
    try:
        return measure(point)
    except NotRestoredError:
        raise
    except EdgetuneError as error:
        failed = ProfileRow(point.workload, point.task, point.batch_size, None, status="failed", reason=error.message)
        mode = {name: getattr(point.mode, name) for name in KNOBS}
        return replace(failed, **mode)


def _plan(header: Header, problem: Problem, best: Found, search: SearchSummary) -> Plan:
    """Return the plan whose answer is the best measured point."""
    row, point = best.row, best.suggestion.point
    time_s = float(row.minibatch_s or 0.0)
    measured = Figures(
        minibatch_s=time_s,
        power_w=None if row.power_w is None else float(row.power_w),
        latency_s=peak_latency_s(problem, point.batch_size, time_s) if problem.kind == "infer" else None,
        throughput_per_s=point.batch_size / time_s,
        energy_j=energy_per_minibatch_j(row),
    )
    believed = Figures(best.suggestion.predicted_minibatch_s, best.suggestion.predicted_power_w)
    return Plan(
        header=header,
        problem=problem,
        configuration=Configuration(point.mode, batch_size=point.batch_size),
        measured=measured,
        search=search,
        predicted=None if believed == Figures() else believed,
    )

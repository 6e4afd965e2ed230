"""Confirms the answer of a search by keeping it running: ``edgetune search --soak 5m``."""

from __future__ import annotations

from dataclasses import replace

from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import ProfileRow
from edgetune.stages.profiling.soak import soak_sentence, soak_summary
from edgetune.stages.search.answer import NothingFeasibleError
from edgetune.stages.search.driver import SearchResult, SearchSettings, run_search
from edgetune.units import format_duration
from edgetune.workflows.reporting import Reporter
from edgetune.workflows.search.candidates import Candidates
from edgetune.workflows.search.strategy_choice import DEFAULT


def confirmed(result: SearchResult, problem: Problem, candidates: Candidates, reporter: Reporter) -> SearchResult:
    """Return the best answer by the figures of its soak.

    Where a soak breaks a budget, throttles or falls behind the next best point, that one is kept running next.

    Raises:
        NothingFeasibleError: no measured point keeps the budgets over a soak.
    """
    if candidates.soak is None or candidates.soak_s is None:
        return result
    judged = [each for each in result.history.judged_points() if each.confirmed and each.judgement.feasible]
    rows = {each.row.point: each.row for each in judged}
    best, plan, soaked = result.history.best, result.plan, dict[object, ProfileRow]()
    while best is not None and (point := best.row.point) not in soaked:
        reporter.info(f"soak: {point.mode}, batch {point.batch_size}, for {format_duration(candidates.soak_s)}")
        rows[point] = soaked[point] = candidates.soak(point)
        reporter.info(_told(rows[point]))
        settings = SearchSettings(DEFAULT, max_points=0, known=tuple(rows.values()))
        try:
            found = run_search(problem, candidates.points, candidates.measure, settings)
        except NothingFeasibleError as error:
            error.trace = result.trace
            raise
        best, plan = found.history.best, found.plan
    same = plan.configuration == result.plan.configuration
    header = result.plan.header
    header = replace(header, conditions={**header.conditions, "soak_s": candidates.soak_s})
    predicted = result.plan.predicted if same else None
    return replace(result, plan=replace(plan, header=header, search=result.plan.search, predicted=predicted))


def _told(row: ProfileRow) -> str:
    """Return what a soak showed, and why it counts as none."""
    soak = soak_summary(row)
    said = (None if soak is None else soak_sentence(soak), None if row.status == "ok" else row.reason)
    return "; ".join(filter(None, said))

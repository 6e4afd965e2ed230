"""An evaluation of strategies in a report: a row of figures per strategy."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from edgetune.plotting.page import SectionWriter
from edgetune.stages.search.evaluation.results import Merit, excess_named, merits, solvable_problems
from edgetune.units import format_duration, format_si

if TYPE_CHECKING:
    from edgetune.artifacts.evaluation import Evaluation, EvaluationRun


def evaluation_section(evaluation: Evaluation, out: SectionWriter, by: str = "workload") -> None:
    """Write the figures of each strategy; with ``by`` ``workload``, those of each workload too."""
    runs = evaluation.runs
    if not runs:
        out.note("nothing was replayed")
        return
    timed = not all(math.isnan(value) for run in runs for value in run.measurement_s[:1])
    columns = ["strategy", *(["workload"] if by == "workload" else []), "solved %>", "over>", "mean>", "95 % CI>"]
    columns += ["p90>", "p99>", "worst>", "points>", *([] if timed else ["to 3/1 %>"]), "own>"]
    columns += ["measuring>", "of all %>"] if timed else []
    excess = excess_named(runs[0].family)
    count = f"{solvable_problems(runs):,} solvable problems"
    out.note(f"{runs[0].family}, {count}: {excess}, of the solved; over: answers over budget")
    until = "" if timed else "; to 3/1 %: points until half the problems are that near the best"
    out.note(f"mean to worst in %; CI: of the mean{until}")
    out.table(columns, [_cells(names, merit, timed, evaluation.header.conditions) for names, merit in _rows(runs, by)])
    if flatters(evaluation):
        out.note(FLATTERS)


def answer(evaluation: Evaluation, by: str = "strategy") -> dict[str, Any]:
    """Return the figures for machines: shares and seconds; ``None`` for an unknown one."""
    results = []
    for names, merit in _rows(evaluation.runs, by):
        figures = {
            name: None if isinstance(value, float) and math.isnan(value) else value
            for name, value in dataclasses.asdict(merit).items()
        }
        del figures["name"]
        results.append(dict(zip(("strategy", "workload"), names, strict=False)) | figures)
    told = {"simulated": evaluation.header.simulated, **dict(evaluation.header.conditions), "results": results}
    if flatters(evaluation):
        told["warning"] = FLATTERS
    return told


FLATTERS = "on a twin roofline's figures flatter: its model of time is the twin's own; judge it on measured tables"


def flatters(evaluation: Evaluation) -> bool:
    """Return whether the tables are simulated by the model that the strategy ``roofline`` fits."""
    return evaluation.header.simulated and any(run.strategy == "roofline" for run in evaluation.runs)


def _rows(runs: Sequence[EvaluationRun], by: str) -> list[tuple[tuple[str, ...], Merit]]:
    whole: list[tuple[tuple[str, ...], Merit]] = [
        ((merit.name,), merit) for merit in merits(runs, lambda run: run.contender)
    ]
    if by == "strategy":
        return whole
    found: list[tuple[tuple[str, ...], Merit]] = []
    for (name,), merit in whole:
        of_it = [run for run in runs if run.contender == name]
        each = merits(of_it, lambda run: run.label)
        found += [((name, part.name), part) for part in each]
        found += [((name, "all"), merit)] if len(each) > 1 else []
    return found


def _cells(names: tuple[str, ...], merit: Merit, timed: bool, conditions: Mapping[str, Any]) -> list[object]:
    mean, low, high, *others = map(
        _per_cent, (merit.mean, merit.mean_low, merit.mean_high, merit.p90, merit.p99, merit.worst)
    )
    shares = [mean, "-" if low == "-" else f"{low}-{high}", *others]
    own = "-" if math.isnan(merit.strategy_s) else format_si(float(f"{merit.strategy_s:.2g}"), "s")
    points = "-" if math.isnan(merit.points) else f"{merit.points:.3g}"
    until = [_until(merit.points_to_3_percent, merit.points_to_1_percent)]
    cells = [*names, _solved(merit), merit.violations, *shares, points, *([] if timed else until), own]
    if timed:
        whole_s = float(conditions.get("window_s", math.nan)) * merit.problems
        spent = "-" if math.isnan(merit.measurement_s) else format_duration(merit.measurement_s)
        cells += [spent, _per_cent(merit.measurement_s / whole_s)]
    return cells


def _until(*counts: float) -> str:
    return "/".join("-" if math.isnan(count) else f"{count:g}" for count in counts)


def _solved(merit: Merit) -> str:
    if not merit.solvable:
        return "-"
    return "100" if merit.solved == merit.solvable else f"{merit.solved_percent:.2f}"


def _per_cent(share: float) -> str:
    """Return a share in per cent: two decimals, none from 100 on."""
    if math.isnan(share):
        return "-"
    return f"{100 * share:.2f}" if share < 1 else f"{100 * share:.0f}"

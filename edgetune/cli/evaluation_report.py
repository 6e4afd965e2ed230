"""What ``edgetune search evaluate`` prints: a row of figures per strategy, for people or for machines."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from edgetune.cli.screen import print_lines, table
from edgetune.units import format_duration, format_si

if TYPE_CHECKING:
    from edgetune.artifacts.evaluation import Evaluation, EvaluationRun
    from edgetune.search.evaluation.results import Merit


def show_evaluation(evaluation: Evaluation, by: str = "strategy") -> None:
    """Print the figures of each strategy, in per cent; with ``by`` ``workload``, those of each workload too."""
    from edgetune.search.evaluation.results import excess_named, solvable_problems

    runs = evaluation.runs
    if not runs:
        print_lines("nothing was replayed")
        return
    timed = not all(math.isnan(value) for run in runs for value in run.measurement_s[:1])
    columns = ["strategy", *(["workload"] if by == "workload" else []), "solved %>", "over>", "median %>", "mean %>"]
    columns += ["p90 %>", "p99 %>", "points>", "own>", *(["measuring>", "of all %>"] if timed else [])]
    excess = excess_named(runs[0].family)
    count = f"{solvable_problems(runs):,} solvable problems"
    print_lines(f"{runs[0].family}, {count}: {excess}, of the solved; over: answers over budget")
    table(columns, [_cells(names, merit, timed, evaluation.header.conditions) for names, merit in _rows(runs, by)])


def evaluation_answer(evaluation: Evaluation, by: str = "strategy") -> dict[str, Any]:
    """Return the same for machines: shares, seconds; ``None`` where there is no figure."""
    import dataclasses

    results = []
    for names, merit in _rows(evaluation.runs, by):
        figures = {
            name: None if isinstance(value, float) and math.isnan(value) else value
            for name, value in dataclasses.asdict(merit).items()
        }
        del figures["name"]
        results.append(dict(zip(("strategy", "workload"), names, strict=False)) | figures)
    return {"simulated": evaluation.header.simulated, **dict(evaluation.header.conditions), "results": results}


def _rows(runs: Sequence[EvaluationRun], by: str) -> list[tuple[tuple[str, ...], Merit]]:
    from edgetune.search.evaluation.results import merits

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
    shares = [_per_cent(value) for value in (merit.median, merit.mean, merit.p90, merit.p99)]
    own = "-" if math.isnan(merit.strategy_s) else format_si(float(f"{merit.strategy_s:.2g}"), "s")
    points = "-" if math.isnan(merit.points) else f"{merit.points:.3g}"
    cells = [*names, _solved(merit), merit.violations, *shares, points, own]
    if timed:
        whole_s = float(conditions.get("window_s", math.nan)) * merit.problems
        spent = "-" if math.isnan(merit.measurement_s) else format_duration(merit.measurement_s)
        cells += [spent, _per_cent(merit.measurement_s / whole_s)]
    return cells


def _solved(merit: Merit) -> str:
    if not merit.solvable:
        return "-"
    return "100" if merit.solved == merit.solvable else f"{merit.solved_percent:.2f}"


def _per_cent(share: float) -> str:
    """Return a share in per cent: two decimals, none from 100 on."""
    if math.isnan(share):
        return "-"
    return f"{100 * share:.2f}" if share < 1 else f"{100 * share:.0f}"

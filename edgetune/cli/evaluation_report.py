"""What ``edgetune search evaluate`` prints: a row of figures per strategy, for people or for machines."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from edgetune.units import format_duration, format_si

if TYPE_CHECKING:
    from edgetune.artifacts.evaluation import Evaluation, Run
    from edgetune.search.evaluation.merits import Merit

_PAIRS = ("train+infer", "infer+infer")


def show_evaluation(evaluation: Evaluation, by: str = "strategy") -> None:
    """Print the figures of each strategy, in per cent; with ``by`` ``workload``, those of each workload too."""
    from edgetune.cli.screen import table

    runs = evaluation.runs
    if not runs:
        print("nothing was replayed")
        return
    lost = "lost" if runs[0].family in _PAIRS else "excess"
    columns = ["strategy", *(["workload"] if by == "workload" else []), "solved>", "of>", "over budget>"]
    columns += [f"{lost} median>", "mean>", "p90>", "p99>", "points>", "own time>"]
    timed = not all(math.isnan(value) for run in runs for value in run.measurement_s[:1])
    table(
        [*columns, *(["measuring>", "of the time>"] if timed else [])],
        [_cells(names, merit, timed=timed, header=evaluation.header.conditions) for names, merit in _rows(runs, by)],
    )


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


def _rows(runs: Sequence[Run], by: str) -> list[tuple[tuple[str, ...], Merit]]:
    from edgetune.search.evaluation.merits import merits

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


def _cells(names: tuple[str, ...], merit: Merit, *, timed: bool, header: Any) -> list[object]:
    shares = [_per_cent(value) for value in (merit.median, merit.mean, merit.p90, merit.p99)]
    cells = [*names, merit.solved, merit.solvable, merit.violations, *shares, f"{merit.points:.4g}"]
    cells.append(format_si(float(f"{merit.strategy_s:.2g}"), "s") if not math.isnan(merit.strategy_s) else "-")
    if timed:
        whole_s = float(header.get("window_s", math.nan)) * merit.problems
        cells += [format_duration(merit.measurement_s), _per_cent(merit.measurement_s / whole_s)]
    return cells


def _per_cent(share: float) -> str:
    return "-" if math.isnan(share) else f"{100 * share:.2f} %"

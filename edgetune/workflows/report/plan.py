"""A plan in a report: the question, the answer, the best points with why each lost, and how to apply the plan.

The table of the best points of a search, and why each of them lost.

A search in a report: its steps, and its front.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from edgetune.artifacts.artifact import Artifact
from edgetune.artifacts.mode import SETTINGS, Mode
from edgetune.artifacts.plan import Configuration, Plan
from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import Profile, ProfileRow
from edgetune.artifacts.trace import Trace
from edgetune.errors import EdgetuneError
from edgetune.plotting.page import SectionWriter, Table
from edgetune.stages.search.answer import RankedPoint, rank_points
from edgetune.stages.search.driver import SearchResult, SearchSettings, run_search
from edgetune.stages.search.figures.front import front_figure, trace_figure
from edgetune.stages.search.problem import objective_of
from edgetune.units import format_bytes, format_si
from edgetune.workflows.report.comparison import column_name, settings_cells, write_common
from edgetune.workflows.report.sections import cell, rows_of, si_cell
from edgetune.workflows.search.problem_options import describe_gain, describe_plan
from edgetune.workflows.search.strategy_choice import EXHAUSTIVE

if TYPE_CHECKING:
    from collections.abc import Iterable


def ranked_table(top: Sequence[RankedPoint]) -> Table:
    """Return the table of the answer and the nearest points: settings that differ, figures, why each lost."""
    varied = [name for name in (*SETTINGS, "batch") if len({_setting(name, each) for each in top}) > 1]
    speeds: dict[str, Callable[[RankedPoint], object]] = {
        "samples/s>": lambda each: cell(each.measured.throughput_per_s, ".4g"),
        "latency>": lambda each: si_cell(each.measured.latency_s, "s"),
        "time>": lambda each: si_cell(each.measured.minibatch_s, "s"),
    }
    best = top[0].measured
    shown = ["samples/s>", "latency>"]  # of two workloads
    if best.minibatch_s is not None:
        shown = ["latency>" if best.latency_s is not None else "samples/s>" if "batch" in varied else "time>"]
    figures: dict[str, Callable[[RankedPoint], object]] = {
        **{f"{name}>": partial(_setting, name) for name in varied},
        **{name: speeds[name] for name in shown},
        "tokens/s>": lambda each: cell(each.measured.tokens_per_s, ".4g"),
        "tokens/J>": lambda each: cell(each.measured.tokens_per_j, ".4g"),
        "power>": lambda each: si_cell(each.measured.power_w, "W"),
        "memory>": lambda each: cell(each.measured.memory_peak_bytes, format_bytes),
        "why it lost": lambda each: each.lost or "the answer",
    }
    return rows_of(figures, top)


def _setting(name: str, point: RankedPoint) -> object:
    """Return a setting of the mode, or the batch size."""
    chosen = point.configuration
    value = chosen.batch_size or chosen.infer_batch_size if name == "batch" else getattr(chosen.mode, name)
    return f"{value:g}" if isinstance(value, float) else value


def trace_section(trace: Trace, out: SectionWriter) -> None:
    """Write the steps of a search, below the values that all of them share, and draw every figure."""
    write_steps(trace, out)
    if trace.rows:
        out.figure(partial(trace_figure, trace), "trace: steps")
        out.figure(partial(front_figure, trace), "trace: front")


def write_steps(trace: Trace, out: SectionWriter, title: str = "") -> None:
    """Write the steps; under a title they are folded."""
    rows = trace.rows
    if not rows:
        out.note("no rows")
        return
    varying = write_common(rows, out)
    verdict = {True: "", False: "over budget; ", None: "cannot tell; "}
    out.table(
        ("step>", *map(column_name, varying), "minibatch>", "power>", "objective>", "why"),
        [
            (
                row.step,
                *settings_cells(row, varying),
                si_cell(row.minibatch_s, "s"),
                si_cell(row.power_w, "W"),
                cell(row.objective, ".4g"),
                verdict[row.feasible] + (row.reason or ""),
            )
            for row in rows
        ],
        title=title,
        opened=not title,
        keys=range(len(rows)),
    )


_BEST = 20
_BOARD, _OTHERS = "jetson", ("nvidia:", "host")
"""Devices with modes; a plan of a twin or a table is for a board."""
_WORDS = {
    "throughput": "Most samples per second", "continuous-throughput": "Most samples per second without pauses",
    "latency": "Shortest latency", "energy": "Least energy",
    "energy-delay": "Least product of energy and time", "time": "Shortest time",
    "tokens-per-joule": "Most tokens per joule",
}  # fmt: skip


def plan_section(plan: Plan, out: SectionWriter, others: Sequence[Artifact] = (), file: str = "plan.yaml") -> None:
    """Write the question and the answer, then, if a table among ``others`` has the points, the best and their front."""
    points = None if plan.search.strategy != EXHAUSTIVE else f"all {plan.search.points_measured} points"
    out.answer(f"{question(plan.problem)}: {describe_plan(plan, points)}")
    if plan.search.expected_gain is not None:
        out.note(describe_gain(plan.search.expected_gain))
    if (found := _replayed(plan, others)) is not None:
        result, rows = found
        told = [other for other in others if isinstance(other, Trace) and _led_to(other, plan)]
        trace = told[0] if told else result.trace if plan.search.strategy == EXHAUSTIVE else _answer(result.trace, plan)
        steps = {(row.mode, row.batch_size): place for place, row in enumerate(step.row for step in trace.rows)}
        top = _named(rank_points(result.history, len(rows)), plan)
        chosen = [each.configuration for each in top]
        keys = [steps.get((each.mode, _size(each))) for each in chosen]
        if result.plan.configuration != plan.configuration:
            best = describe_plan(result.plan, "all of the table")
            out.note(f"Of all points of the table another one is best: {best}")
        out.table(*ranked_table(top), title=f"The best {len(top)} points, and why each lost", keys=keys)
        out.figure(partial(front_figure, trace, plan=plan, table_rows=rows), "time against power")
        if told or plan.search.strategy == EXHAUSTIVE:
            write_steps(trace, out, title=f"{len(trace.rows)} steps of the search")
    out.heading("Apply it")
    device = str(plan.header.conditions.get("device", ""))
    name = shlex.quote(file)
    out.command(f"edgetune device set {device if device.startswith((_BOARD, *_OTHERS)) else _BOARD} {name}")
    if not device.startswith(_OTHERS):
        out.command(f"edgetune device export {name} --format nvpmodel")


def question(problem: Problem) -> str:
    """Return the problem as the beginning of a sentence, e.g. ``Most samples per second within 30 W``."""
    within = [
        None if problem.power_budget_w is None else format_si(problem.power_budget_w, "W"),
        None if problem.power_peak_budget_w is None else f"{format_si(problem.power_peak_budget_w, 'W')} at the peak",
        None if problem.latency_budget_s is None else format_si(problem.latency_budget_s, "s"),
        None if problem.ttft_budget_s is None else f"{format_si(problem.ttft_budget_s, 's')} to the first token",
        None if problem.token_budget_s is None else f"{format_si(problem.token_budget_s, 's')} per token",
        None if problem.memory_budget_bytes is None else format_bytes(int(problem.memory_budget_bytes)),
    ]
    found = [each for each in within if each is not None]
    rate = "" if problem.arrival_rate_per_s is None else f" at {problem.arrival_rate_per_s:g} requests per second"
    return f"{_WORDS[objective_of(problem)]}{' within ' if found else ''}{', '.join(found)}{rate}"


def _replayed(plan: Plan, others: Iterable[Artifact]) -> tuple[SearchResult, Sequence[ProfileRow]] | None:
    """Return the search that looks at every point of a table which has the plan's own point, and the table's rows."""
    chosen = plan.configuration
    for other in others:
        if not isinstance(other, Profile) or not _is_of(other, plan):
            continue
        if not any((row.mode, row.batch_size) == (chosen.mode, _size(chosen)) for row in other.rows):
            continue
        rows = {row.point: row for row in other.rows}
        settings = SearchSettings(EXHAUSTIVE, inputs=plan.header.inputs, conditions=plan.header.conditions)
        try:
            return run_search(plan.problem, list(rows), rows.__getitem__, settings), other.rows
        except EdgetuneError:
            continue
    return None


def _answer(trace: Trace, plan: Plan) -> Trace:
    """Return the rows of the plan's own point, as of no step: those of the search itself are not at hand."""
    own = [row for row in trace.rows if (row.row.mode, row.batch_size) == _point(plan.configuration)]
    names = {row.workload for row in own}
    own += [row for row in trace.rows if row.workload not in names and row.row.mode == plan.configuration.mode]
    return replace(trace, rows=tuple(replace(row, step=0) for row in own))


def _named(ranked: Sequence[RankedPoint], plan: Plan) -> list[RankedPoint]:
    """Return the best points of a table, and the plan's own, which is the answer where another is better, too."""
    found = []
    for place, each in enumerate(ranked):
        if _point(each.configuration) == _point(plan.configuration):
            found.append(replace(each, lost=each.lost and f"the answer, {each.lost}"))
        elif place < _BEST:
            found.append(replace(each, lost=each.lost or "the best of the table"))
    return found


def _point(chosen: Configuration) -> tuple[Mode, int]:
    return chosen.mode, _size(chosen)


def _size(chosen: Configuration) -> int:
    """Return the batch size, of two workloads that of the one with a deadline."""
    return chosen.batch_size or chosen.infer_batch_size or 0


def _is_of(other: Profile | Trace, plan: Plan) -> bool:
    """Return whether a table is of the plan's network."""
    name = plan.header.inputs.get("workload", {}).get("name")
    return any(row.workload == name for row in other.rows)


def _led_to(trace: Trace, plan: Plan) -> bool:
    """Return whether a trace has the steps that led to a plan."""
    measured = sum(row.source == "measured" for row in trace.rows)
    return _is_of(trace, plan) and measured == plan.search.points_measured

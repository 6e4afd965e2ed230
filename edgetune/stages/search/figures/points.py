"""The points that figures of a search show: readings of one point together, two workloads as pairs, and the answer.

A marker is a pair: a mode and a batch size of the urgent workload in which both were measured. A half whose partner was
not measured is no marker, and is counted.

Shared parts of the figures of a search: scales and budgets, titles and markers.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from edgetune.artifacts.plan import Plan
from edgetune.artifacts.problem import Problem, asked_budgets
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.artifacts.trace import Trace, TraceRow
from edgetune.errors import InputError
from edgetune.plotting.gantt import name_rows
from edgetune.plotting.style import BLUE, GREY, PURPLE, VERMILLION, time_unit
from edgetune.stages.search.history import half_of, mean_of
from edgetune.stages.search.problem import PAIRS, Judgement, Violation, judge, judge_pair, objective_of, validate
from edgetune.stages.search.space import Background
from edgetune.units import format_si

PointStatus = Literal["within", "over", "late", "unknown", "failed"]
"""Within all budgets; over the power budget; over another one; cannot be judged; not measured."""


@dataclass(frozen=True, slots=True)
class SearchPoint:
    """One measured point, of two workloads one pair, as figures show it.

    Args:
        point: Mode and batch size, of the urgent workload where there are two.
        steps: The steps that measured it, ascending; of a pair those of both halves; empty for a row of a table.
        objective: Larger is better, as in the trace; ``None`` where unknown.
        power_w: Mean over its readings; of a pair the larger half's; ``None`` when not measured.
        status: Whether it keeps the budgets.
        known: Whether it was measured before the search.
        trades: Whether it breaks no constraint but that on power, so that it can be part of the front.
        second: Tie-breaker between equal objectives, larger is better.
    """

    point: Point
    steps: tuple[int, ...]
    objective: float | None
    power_w: float | None
    status: PointStatus
    known: bool = False
    trades: bool = True
    second: float = 0.0


def search_point_of(row: ProfileRow, judgement: Judgement, steps: tuple[int, ...]) -> SearchPoint:
    """Return the marker of a measured and judged point."""
    broken = {violation.constraint for violation in judgement.violations}
    status: PointStatus = "unknown"
    if row.minibatch_s is None or row.status != "ok":
        status = "failed"
    elif judgement.feasible is not None:
        late = bool(broken) and "power" not in broken
        status = "within" if judgement.feasible else "late" if late else "over"
    return SearchPoint(
        row.point, steps, judgement.objective, row.power_w, status, trades=broken <= {"power"}, second=judgement.second
    )


def reading_of(rows: Sequence[TraceRow]) -> ProfileRow:
    """Return the mean of the readings of one point, without those that failed."""
    fine = [row.row for row in rows if row.minibatch_s]
    return mean_of(fine) if fine else replace(rows[-1].row, status="failed")


def background_of(trace: Trace, problem: Problem) -> Background | None:
    """Return the workload without a deadline, of two; ``None`` where no step measured it."""
    task = "train" if problem.kind == "train+infer" else "infer"
    for row in trace.rows:
        named = problem.background in (None, row.workload)
        if row.task == task and named and problem.background_batch_size in (None, row.batch_size):
            return Background(row.workload, row.task, row.batch_size)
    return None


def partner_of(point: Point, background: Background | None) -> Point:
    """Return the background workload's half in the mode of an urgent one."""
    assert background is not None
    return Point(background.workload, background.task, background.batch_size, point.mode)


def pair_points(problem: Problem, background: Background | None, rows: Mapping[Point, ProfileRow]) -> list[SearchPoint]:
    """Return the pairs both of whose halves were measured, without steps."""
    if background is None:
        return []
    answering = [point for point in rows if point.task == "infer"]
    others = [p for p in answering if (p.workload, p.task) != (background.workload, background.task)]
    found = []
    for point in others or answering:  # a network may share the board with itself
        halves = [rows[half] for half in (point, partner_of(point, background)) if half in rows]
        if len(halves) < 2 or not all(half.minibatch_s for half in halves):
            continue
        judgement = judge_pair(problem, half_of(halves[0]), half_of(halves[1]))
        powers = [half.power_w for half in halves if half.power_w is not None]
        row = replace(halves[0], power_w=max(powers) if len(powers) == 2 else None)
        found.append(search_point_of(row, judgement, ()))
    return found


def lone_halves(trace: Trace, problem: Problem | None, spots: Sequence[SearchPoint]) -> int:
    """Return how many points of two workloads were measured without their partner; 0 for one workload."""
    if problem is None or problem.kind not in PAIRS:
        return 0
    paired, background = {point.point for point in spots}, background_of(trace, problem)
    modes = {point.mode for point in paired}
    points = {row.row.point for row in trace.rows}
    halves = {point for point in points if background == Background(point.workload, point.task, point.batch_size)}
    return sum(not (point in halves and point.mode in modes) for point in points - paired)


def problem_of(trace: Trace) -> Problem | None:
    """Return the problem of the trace; ``None`` where its header has none or an invalid one."""
    told = trace.header.conditions.get("problem")
    if not isinstance(told, Mapping):
        return None
    names = {field.name for field in fields(Problem)}
    try:
        epochs = tuple((int(size), float(number)) for size, number in told.get("epochs_to_target") or ())
        given = {name: value for name, value in told.items() if name in names and value is not None}
        problem = Problem(**{**given, "epochs_to_target": epochs})
        validate(problem)
    except (TypeError, ValueError, InputError):
        return None
    if problem.kind == "accuracy" and not {row.batch_size for row in trace.rows} <= set(dict(epochs)):
        return None
    return problem


def points_of(trace: Trace, problem: Problem | None) -> list[SearchPoint]:
    """Return the measured points in the order of their first steps."""
    readings: dict[Point, list[TraceRow]] = {}
    for row in trace.rows:
        readings.setdefault(row.row.point, []).append(row)
    if problem is not None and problem.kind in PAIRS:
        return _pairs(problem, trace, readings)
    return [_alone(problem, point, rows) for point, rows in readings.items()]


def table_points(rows: Iterable[ProfileRow], trace: Trace, problem: Problem | None) -> list[SearchPoint]:
    """Return the rows of a table that the search could choose from, judged by the rules of the search."""
    if problem is None or not trace.rows:
        return []
    asked = {(row.workload, row.task) for row in trace.rows}
    fine = [row for row in rows if (row.workload, row.task) in asked and row.status == "ok" and row.minibatch_s]
    if problem.kind in PAIRS:
        return pair_points(problem, background_of(trace, problem), {row.point: row for row in fine})
    if problem.kind == "accuracy":
        fine = [row for row in fine if row.batch_size in dict(problem.epochs_to_target)]
    return [search_point_of(row, judge(problem, row), ()) for row in {row.point: row for row in fine}.values()]


def answer_of(trace: Trace, plan: Plan | None, points: Sequence[SearchPoint]) -> SearchPoint | None:
    """Return the answer: the plan's, else the point with which the trace ends as the best; ``None`` without any."""
    if plan is not None:
        asked = plan.configuration
        size = asked.infer_batch_size or asked.batch_size
        same = (s for s in points if s.point.mode == asked.mode and s.point.batch_size == size)
        return next(same, None)
    best = trace.rows[-1].best if trace.rows else None
    if best is None:
        return None
    near = 1e-9 * abs(best)
    fitting = [
        s for s in points if s.status == "within" and s.objective is not None and abs(s.objective - best) <= near
    ]
    return min(fitting, key=lambda s: (-s.second, s.power_w or 0.0), default=None)


def bests(trace: Trace) -> set[int]:
    """Return the steps with which a search found something better than before."""
    before = (None, *(row.best for row in trace.rows))
    return {row.step for last, row in zip(before, trace.rows, strict=False) if row.best not in (last, None)}


def _alone(problem: Problem | None, point: Point, rows: Sequence[TraceRow]) -> SearchPoint:
    last = next((row for row in reversed(rows) if row.minibatch_s is not None), rows[-1])
    row, steps = reading_of(rows), tuple(row.step for row in rows)
    # the trace knows more than can be worked out again: measured energy, and the mean of all readings
    judgement = Judgement(last.objective, last.feasible)
    if problem is not None and row.minibatch_s is not None:
        violations = judge(problem, row).violations
        if last.feasible is False and not violations:  # over a budget on a column, which no trace has
            violations = tuple(Violation(budget.name, math.inf, 1.0) for budget in asked_budgets(problem))
        judgement = replace(judgement, violations=violations)
    known = all(row.source == "known" for row in rows)
    return replace(search_point_of(row, judgement, steps), point=point, known=known)


def _pairs(problem: Problem, trace: Trace, readings: Mapping[Point, Sequence[TraceRow]]) -> list[SearchPoint]:
    """Return the pairs both of whose halves were measured, in the order in which they were complete."""
    background = background_of(trace, problem)
    found = []
    for point in pair_points(problem, background, {point: reading_of(rows) for point, rows in readings.items()}):
        rows = [*readings[point.point], *readings[partner_of(point.point, background)]]
        steps = tuple(sorted({row.step for row in rows}))
        found.append(replace(point, steps=steps, known=all(row.source == "known" for row in rows)))
    return sorted(found, key=lambda point: point.steps[-1])


@dataclass(frozen=True, slots=True)
class Scale:
    """The display of objectives (larger is better) as familiar quantities in a suitable unit.

    Args:
        label: Label of the axis, with the unit.
        unit: The unit; may be empty.
        factor: Factor from the objective, or its inverse, to the shown value.
        inverse: Whether the inverse of the objective is shown: time per sample instead of samples per time.
        less_is_better: Whether smaller shown values are better.
    """

    label: str
    unit: str
    factor: float
    inverse: bool
    less_is_better: bool

    def shown(self, objective: float) -> float:
        """Return the value to show; infinite for a throughput of zero."""
        if self.inverse and objective <= 0:
            return math.inf
        return self.factor / objective if self.inverse else self.factor * objective

    def written(self, shown: float) -> str:
        """Return a shown value with its unit, for a text."""
        return format_si(shown, "s") if self.unit == "s" else f"{shown:.3g} {self.unit}".rstrip()


def scale_of(problem: Problem | None, objectives: Sequence[float]) -> Scale:
    """Return the scale for these objectives of a trace, which are larger-is-better numbers.

    Throughput of one workload becomes time per sample, so that the good corner of time against power is the lower
    left one; of two workloads it is the background's, and stays throughput, for it may be 0.
    """
    if problem is None:
        return Scale("objective (larger is better)", "", 1.0, inverse=False, less_is_better=False)
    objective, largest = objective_of(problem), max(map(abs, objectives), default=1.0)
    if problem.kind in PAIRS:
        return Scale("background throughput (samples/s)", "samples/s", 1.0, inverse=False, less_is_better=False)
    if objective == "throughput":
        factor, unit = time_unit(1 / min((value for value in objectives if value > 0), default=1.0))
        return Scale(f"time per sample ({unit})", unit, factor, inverse=True, less_is_better=True)
    target = "to the target accuracy, per sample of the data set" if problem.kind == "accuracy" else "per sample"
    if objective in ("energy", "energy-delay"):
        unit = "J" if objective == "energy" else "J s"
        return Scale(f"{objective} {target} ({unit})", unit, -1.0, inverse=False, less_is_better=True)
    if objective == "tokens-per-joule":
        return Scale("energy per output token (J)", "J", 1.0, inverse=True, less_is_better=True)
    factor, unit = time_unit(largest)
    what = "peak latency" if objective == "latency" else f"time {target}"
    return Scale(f"{what} ({unit})", unit, -factor, inverse=False, less_is_better=True)


def budgets_shown(problem: Problem | None, scale: Scale) -> tuple[list[float], list[float]]:
    """Return the budgets on the objective's axis and on that of power, as shown: none or one each.

    A latency budget is on the objective's axis only where latency is the objective.
    """
    if problem is None:
        return [], []
    by_latency = problem.latency_budget_s is not None and objective_of(problem) == "latency"
    across = [-scale.factor * (problem.latency_budget_s or 0.0)] if by_latency else []
    return across, [] if problem.power_budget_w is None else [problem.power_budget_w]


def draw_budgets(axes: Any, problem: Problem | None, scale: Scale) -> None:
    """Draw the power budget as a horizontal line, a shown latency budget as a vertical one, and both less margins."""
    across, up = budgets_shown(problem, scale)
    margin = 0.0 if problem is None else problem.margin
    for value in up:
        draw_budget(axes.axhline, value, margin, f"{value:g} W")
    for value in across:
        draw_budget(axes.axvline, value, margin, scale.written(value))


def draw_budget(line: Any, value: float, margin: float, written: str) -> None:
    """Draw a budget with ``axes.axhline`` or ``axes.axvline``, and the budget less its margin."""
    style = {"color": VERMILLION, "linewidth": 1.1, "zorder": 1.5}
    line(value, linestyle="--", label=f"budget {written}", **style)
    if margin:
        line(value * (1 - margin), linestyle=":", label=f"less {100 * margin:g} % margin", **style)


def title_of(trace: Trace, plan: Plan | None = None) -> tuple[str, str]:
    """Return the two lines over a figure: device and whether simulated; strategy, problem and number of points.

    Of a search whose steps are not at hand, the plan says how it was made.
    """
    facts, rows = trace.header.conditions, trace.rows
    measured, known = (sum(row.source == source for row in rows) for source in ("measured", "known"))
    how = f"{facts['strategy']}: " if "strategy" in facts else ""
    where = str(facts.get("device") or "")
    head = f"SIMULATED: {where}" if trace.header.simulated else where
    what = " and ".join(dict.fromkeys(f"{row.workload} {row.task}" for row in rows))
    also = f", {known} known" if known else ""
    if plan is not None and measured < plan.search.points_measured:
        how, measured = f"{plan.search.strategy}: ", plan.search.points_measured
        also = ", of which the answer alone is drawn"
    return head, f"{how}{what}, {measured} point{'s' * (measured != 1)} measured{also}"


def answer_lines(answer: SearchPoint) -> list[str]:
    """Return the legend of the answer: its steps, its mode and its batch size."""
    steps = f", step{'s' * (len(answer.steps) > 1)} {', '.join(map(str, answer.steps))}" if any(answer.steps) else ""
    mode = str(answer.point.mode).split(", ")
    return [f"answer{steps}:", *mode, f"batch {answer.point.batch_size}"]


STANDINGS: Mapping[PointStatus, tuple[str, str, str]] = {
    "within": ("within budget", BLUE, "o"),
    "over": ("over the power budget", VERMILLION, "s"),
    "late": ("misses latency, rate or room", PURPLE, "D"),
    "unknown": ("cannot be judged", GREY, "h"),
    "failed": ("failed", GREY, "X"),
}
"""Label, colour and marker by the status of a point; all markers have room for a number inside."""

_LEGEND_PT2 = 34.0
_DIAMOND = 0.7
"""Factor on a diamond's area that makes it look as large as the other markers."""


def draw_markers(
    axes: Any, points: Iterable[tuple[PointStatus, bool, tuple[float, float], int]], area_pt2: float
) -> None:
    """Draw points, each given by its status, whether it was known before, its place, and its row of the trace."""
    groups: dict[tuple[PointStatus, bool], list[tuple[tuple[float, float], int]]] = {}
    for status, known, place, row in points:
        groups.setdefault((status, known), []).append((place, row))
    for status, (label, colour, marker) in STANDINGS.items():
        for known in (False, True):
            if (status, known) not in groups:
                continue
            places, rows = zip(*groups[status, known], strict=True)
            face = {"facecolors": "none", "edgecolors": colour} if known else {"color": colour, "linewidths": 0}
            area = area_pt2 * (_DIAMOND if marker == "D" else 1.0)
            name_rows(axes.scatter(*zip(*places, strict=True), s=area, marker=marker, zorder=3, **face), rows)
            axes.scatter(
                [], [], s=_LEGEND_PT2, marker=marker, label=f"{label}, known before" if known else label, **face
            )

"""The front of a search: time against power of every point it measured, and what nothing else it measured beats."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from edgetune.artifacts.plan import Plan
from edgetune.artifacts.profile import ProfileRow
from edgetune.artifacts.trace import Trace
from edgetune.drawing import BLACK, GREY, legend_beside, pareto_front, set_title, spread_out, styled
from edgetune.errors import InputError
from edgetune.search.figures.numbers import write_numbers
from edgetune.search.figures.points import Spot, answer_of, bests, lone_halves, problem_of, spots_of, table_spots
from edgetune.search.figures.scale import Scale, draw_budgets, scale_of
from edgetune.search.figures.steps import trace_figure
from edgetune.search.figures.wording import STANDINGS, answer_lines, title_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MANY = 60
"""Measured points from which they are drawn small, and only those numbered that were the best so far."""
_AREA_PT2, _SMALL_PT2 = 34.0, 14.0


def front_figure(trace: Trace, *, plan: Plan | None = None, table_rows: Iterable[ProfileRow] = ()) -> Figure:
    """Return the figure of time per sample (or what else the problem optimises) against power.

    Points are numbered by their step, of two workloads by the step that completed the pair; those known from earlier
    are hollow. Without any power figure it is the figure of the steps, for there is nothing to trade time against.

    Args:
        trace: The search.
        plan: Its answer; ``None`` takes the best of the trace.
        table_rows: All that could be measured, where that is known: drawn faint, with the true front.

    Raises:
        InputError: the trace has no steps.
        DeviceError: matplotlib is missing.
    """
    if not trace.rows:
        raise InputError("the trace has no steps to draw", "was the search stopped before its first point?")
    problem = problem_of(trace)
    spots, table = spots_of(trace, problem), table_spots(table_rows, trace, problem)
    scale = scale_of(problem, [spot.objective for spot in (*spots, *table) if spot.objective is not None])
    shown, offered = _placed(spots, scale), _placed(table, scale)
    if not shown:
        return trace_figure(trace)
    with styled():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(8.0, 4.6), layout="constrained")
        axes = figure.subplots()
        _draw_table(axes, offered, scale)
        _draw_front(axes, shown, scale, color=BLACK, linewidth=1.2, label="Pareto front found", zorder=2.5)
        _draw_spots(axes, shown, scale, many=len(shown) > _MANY)
        limits = draw_budgets(axes, problem, scale)
        answer = answer_of(trace, plan, shown)
        if answer is not None:
            _draw_answer(axes, answer, scale)
        _note_the_rest(axes, spots, len(shown), lone_halves(trace, problem, spots), answer)
        _finish(axes, [*shown, *offered], scale, limits)
        set_title(axes, *title_of(trace))
        legend_beside(figure, [axes])
        _number(figure, axes, shown, trace, scale)
    return figure


def _placed(spots: Sequence[Spot], scale: Scale) -> list[Spot]:
    """Return the points that have a place in the figure."""
    measured = (spot for spot in spots if spot.power_w is not None and spot.objective is not None)
    return [spot for spot in measured if all(map(math.isfinite, _at(spot, scale)))]


def _at(spot: Spot, scale: Scale) -> tuple[float, float]:
    assert spot.objective is not None
    assert spot.power_w is not None
    return scale.shown(spot.objective), spot.power_w


def _draw_table(axes: Any, spots: Sequence[Spot], scale: Scale) -> None:
    if not spots:
        return
    axes.scatter(
        *zip(*(_at(spot, scale) for spot in spots), strict=True), s=5, color="#c4c4c4", linewidths=0,
        label=f"all {len(spots)} offered", zorder=1, rasterized=len(spots) > 3000,
    )  # fmt: skip
    _draw_front(axes, spots, scale, color=GREY, linewidth=1.0, linestyle=(0, (4, 1.5)), label="true front", zorder=2)


def _draw_front(axes: Any, spots: Sequence[Spot], scale: Scale, **style: Any) -> None:
    """Draw the points than which none is better in both, as steps: between two modes there is none."""
    sign = 1.0 if scale.less_is_better else -1.0
    placed = (_at(spot, scale) for spot in spots if spot.trades)
    front = [(sign * x, y) for x, y in pareto_front((sign * x, y) for x, y in placed)]
    if front:
        axes.plot(*zip(*front, strict=True), drawstyle="steps-post", **style)


def _draw_spots(axes: Any, spots: Sequence[Spot], scale: Scale, *, many: bool) -> None:
    for standing, (label, colour, marker) in STANDINGS.items():
        for known in (False, True):
            chosen = [_at(spot, scale) for spot in spots if spot.standing == standing and spot.known is known]
            if chosen:
                face = {"facecolors": "none", "edgecolors": colour} if known else {"color": colour, "linewidths": 0}
                axes.scatter(
                    *zip(*chosen, strict=True), s=_SMALL_PT2 if many else _AREA_PT2, marker=marker,
                    label=f"{label}, known before" if known else label, zorder=3, **face,
                )  # fmt: skip


def _draw_answer(axes: Any, answer: Spot, scale: Scale) -> None:
    axes.scatter(
        *_at(answer, scale), s=130, marker="o", facecolors="none", edgecolors=BLACK, linewidths=1.6, zorder=4,
        label="\n".join(answer_lines(answer)),
    )  # fmt: skip


def _note_the_rest(axes: Any, spots: Sequence[Spot], placed: int, lone: int, answer: Spot | None) -> None:
    """Say in the legend what has no place in the figure."""
    failed = [spot.steps[-1] for spot in spots if spot.standing == "failed"]
    rest = len(spots) - placed - len(failed)
    label, colour, marker = STANDINGS["failed"]
    if failed:
        steps = ", ".join(map(str, failed[:5])) + (" ..." if len(failed) > 5 else "")
        axes.scatter([], [], color=colour, marker=marker, s=_AREA_PT2, label=f"{label}: {steps}")
    notes = [f"{rest} without power: not shown"] if rest else []
    notes += [f"{lone} half-measured pair{'s' * (lone > 1)}: not shown"] if lone else []
    notes += ["no answer: nothing within budget"] if answer is None else []
    for note in notes:
        axes.plot([], [], linestyle="none", label=note)


def _finish(axes: Any, spots: Sequence[Spot], scale: Scale, limits: Sequence[float]) -> None:
    axes.set_xlabel(scale.label)
    axes.set_ylabel("mean power (W)")
    xs, ys = zip(*(_at(spot, scale) for spot in spots), strict=True)
    if not spread_out(axes.xaxis, [*xs, *limits]) and min(xs) == max(xs):
        axes.set_xlim(0.8 * min(xs), 1.2 * max(xs) or 1.0)
    if not spread_out(axes.yaxis, ys) and min(ys) == max(ys):
        low, high = axes.get_ylim()
        axes.set_ylim(min(low, 0.8 * ys[0]), max(high, 1.2 * ys[0]))


def _number(figure: Figure, axes: Any, spots: Sequence[Spot], trace: Trace, scale: Scale) -> None:
    """Write the steps beside the points: first those that were once the best; of many only those."""
    once_best = bests(trace)
    fresh = [spot for spot in spots if not spot.known]
    fresh.sort(key=lambda spot: (not once_best & set(spot.steps), spot.steps))
    if len(spots) > _MANY:
        fresh = [spot for spot in fresh if once_best & set(spot.steps)]
    numbers = [(*_at(spot, scale), str(spot.steps[-1])) for spot in fresh]
    radius_pt = (_SMALL_PT2 if len(spots) > _MANY else _AREA_PT2) ** 0.5 / 2 + 0.5
    write_numbers(figure, axes, numbers, [_at(spot, scale) for spot in spots], radius_pt=radius_pt)

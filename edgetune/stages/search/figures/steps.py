"""The figure of a search step by step: objectives, kept budgets, and the best so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edgetune.artifacts.trace import Trace, TraceRow
from edgetune.errors import InputError
from edgetune.plotting.captions import legend_beside, set_title
from edgetune.plotting.rows import name_rows
from edgetune.plotting.style import BLACK, BLUE, GREY, VERMILLION, Figure, new_figure, scale_axis, time_unit
from edgetune.stages.search.figures.marks import draw_budget, title_of
from edgetune.stages.search.problem import PAIRS
from edgetune.units import format_si

_MANY = 60
_LOST_PT = 7.0
"""Distance above its panel of the mark of a step without an objective, points."""
_STYLES: tuple[tuple[bool | None, str, str, str], ...] = (
    (True, "within budget", BLUE, "o"),
    (False, "over budget", VERMILLION, "s"),
    (None, "cannot be judged", GREY, "h"),
)


@dataclass(frozen=True, slots=True)
class _Scale:
    """The display of objectives (larger is better): negated where smaller is better."""

    label: str
    factor: float


def trace_figure(trace: Trace) -> Figure:
    """Return the figure of a trace: the objective of every step and the best so far, and power with its budget.

    Steps known from earlier are hollow; steps without an objective (failed, without power, or half of a pair) are marks
    above the panel, where no value of the axis can be read off. Budgets are drawn where the trace names its
    problem.

    Raises:
        InputError: the trace has no steps.
        DeviceError: matplotlib is missing.
    """
    if not trace.rows:
        raise InputError("the trace has no steps to draw", "was the search stopped before its first point?")
    rows, powered = trace.rows, [row for row in trace.rows if row.power_w is not None]
    count = 2 if powered else 1
    with new_figure((7.0, 1.6 + 2.2 * count)) as figure:
        from matplotlib.ticker import MaxNLocator

        panels = figure.subplots(count, 1, sharex=True, squeeze=False).flatten()
        _draw_objective(panels[0], trace)
        if powered:
            _draw_power(panels[1], powered, trace.header.conditions.get("problem", {}))
        panels[-1].set_xlabel("step")
        beside = max(0.4, 0.01 * len(rows))
        panels[-1].set_xlim(1 - beside, len(rows) + beside)
        panels[-1].xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        set_title(panels[0], *title_of(trace))
        if any(row.objective is None for row in trace.rows):
            panels[0].set_title(panels[0].get_title(loc="left"), loc="left", pad=_LOST_PT + 9.0)
        legend_beside(figure, panels)
    return figure


def _scale_of(trace: Trace) -> _Scale:
    """Return the scale of the problem's objective; unscaled where the trace names no problem."""
    problem = trace.header.conditions.get("problem")
    if problem is None:
        return _Scale("objective (larger is better)", 1.0)
    if problem.get("kind") in PAIRS:
        return _Scale("background throughput (samples/s)", 1.0)
    accuracy = problem.get("kind") == "accuracy"
    objective = problem.get("objective") or {"train": "throughput", "accuracy": "time"}.get(problem.get("kind"))
    if objective == "throughput":
        return _Scale("throughput (samples/s)", 1.0)
    if objective == "tokens-per-joule":
        return _Scale("output tokens per joule", 1.0)
    if objective in ("energy", "energy-delay"):
        unit = "J" if objective == "energy" else "J s"
        return _Scale(
            f"{objective} to the target accuracy ({unit})" if accuracy else f"{objective} per sample ({unit})", -1.0
        )
    factor, unit = time_unit(max((abs(row.objective) for row in trace.rows if row.objective is not None), default=1.0))
    what = "time to the target accuracy, per sample" if accuracy else "peak latency"
    return _Scale(f"{what} ({unit})", -factor)


def _draw_objective(axes: Any, trace: Trace) -> None:
    from matplotlib.transforms import ScaledTranslation

    scale, problem = _scale_of(trace), trace.header.conditions.get("problem", {})
    rows = [row for row in trace.rows if row.objective is not None]
    _markers(axes, rows, [scale.factor * (row.objective or 0.0) for row in rows], many=len(trace.rows) > _MANY)
    best = [(row.step, scale.factor * row.best) for row in trace.rows if row.best is not None]
    if best:
        steps, values = zip(*best, strict=True)
        axes.plot(steps, values, color=BLACK, linewidth=1.1, drawstyle="steps-post", label="best so far", zorder=2)
    of_two = problem.get("kind") in PAIRS
    above = ScaledTranslation(0.0, _LOST_PT / 72, axes.get_figure().dpi_scale_trans)
    for lost, colour, label in (
        (
            [row.step for row in trace.rows if row.objective is None and not (of_two and row.minibatch_s)],
            GREY,
            "not measured",
        ),
        (
            [row.step for row in trace.rows if row.objective is None and of_two and row.minibatch_s],
            BLUE,
            "half of a pair",
        ),
    ):
        if lost:
            axes.plot(
                lost, [1.0] * len(lost), transform=axes.get_xaxis_transform() + above, clip_on=False, color=colour,
                marker="+", linestyle="none", markersize=7, label=label,
            )  # fmt: skip
    if scale.label.startswith("peak latency") and problem.get("latency_budget_s"):
        budget_s = problem["latency_budget_s"]
        value, margin = -scale.factor * budget_s, problem.get("margin", 0.0)
        draw_budget(axes.axhline, value, margin, format_si(budget_s, "s"))
    lines = [float(line.get_ydata()[0]) for line in axes.lines if str(line.get_label()).startswith(("budget", "less"))]
    scale_axis(axes.yaxis, scale.label, [*(scale.factor * (row.objective or 0.0) for row in rows), *lines])
    if not rows:
        axes.set_yticks([])


def _draw_power(axes: Any, rows: Sequence[TraceRow], problem: Any) -> None:
    _markers(axes, rows, [row.power_w or 0.0 for row in rows], many=len(rows) > _MANY)
    if problem.get("power_budget_w"):
        budget_w = problem["power_budget_w"]
        draw_budget(axes.axhline, budget_w, problem.get("margin", 0.0), f"{budget_w:g} W")
    budgets = [problem["power_budget_w"]] if problem.get("power_budget_w") else []
    scale_axis(axes.yaxis, "mean power (W)", [*(row.power_w or 0.0 for row in rows), *budgets])


def _markers(axes: Any, rows: Sequence[TraceRow], values: Sequence[float], *, many: bool) -> None:
    """Draw steps by their status: measured ones filled, those known from earlier hollow."""
    size = 12 if many else 38
    for feasible, label, colour, marker in _STYLES:
        for source in ("measured", "known"):
            chosen = [
                ((row.step, value), row.step - 1)
                for row, value in zip(rows, values, strict=True)
                if row.feasible is feasible and row.source == source
            ]
            if chosen:
                face = {"color": colour} if source == "measured" else {"facecolors": "none", "edgecolors": colour}
                known = ", known before" if source == "known" else ""
                places, steps = zip(*chosen, strict=True)
                style = {"s": size, "marker": marker, "label": f"{label}{known}", "zorder": 3}
                name_rows(axes.scatter(*zip(*places, strict=True), **style, **face), steps)

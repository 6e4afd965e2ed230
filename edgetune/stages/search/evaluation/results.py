"""The results of an evaluation: figures per strategy, and a box plot of the excess of each."""

import math
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from edgetune.artifacts.evaluation import Evaluation, EvaluationRun
from edgetune.errors import InputError
from edgetune.plotting.front import draw_boxes
from edgetune.plotting.labels import legend_beside
from edgetune.plotting.style import GREY, Figure, new_figure, panels_of
from edgetune.stages.search.evaluation.problems import Array
from edgetune.stages.search.problem import PAIRS


@dataclass(frozen=True, slots=True)
class Merit:
    """Figures of some runs together; excess is a share, points and computation (s) are means per problem.

    Args:
        name: Name of the group, e.g. ``roofline:10``.
        problems, solvable, solved, violations: Counts; each problem counts once per seed.
        median, mean, p90, p99, worst: Statistics of the excess of solved problems; NaN if none was solved.
        mean_low, mean_high: Interval of the mean that holds in 95 % of the cases, by bootstrap over the problems; NaN
            if fewer than two were solved.
        points: Mean number of measured points per solvable problem; of strategies that measure once, in all.
        strategy_s: Computation of the strategy per solvable problem, s.
        measurement_s: Total time spent measuring, s; NaN where it was not computed.
        points_to_3_percent, points_to_1_percent: Points after which a measured one is within 3 % and 1 % of the best in
            half of the solvable problems; NaN if that is never so, or where it was not computed.
    """

    name: str
    problems: int
    solvable: int
    solved: int
    violations: int
    median: float
    mean: float
    mean_low: float
    mean_high: float
    p90: float
    p99: float
    worst: float
    points: float
    strategy_s: float
    measurement_s: float
    points_to_3_percent: float
    points_to_1_percent: float

    @property
    def solved_percent(self) -> float:
        """The solved share in per cent, rounded down to two decimals: 100 says that all are."""
        return math.floor(1e4 * self.solved / self.solvable) / 100 if self.solvable else math.nan


def excess_named(family: str) -> str:
    """Return the quantity that excess is measured in, for a family of problems."""
    if family in PAIRS:
        return "background throughput lost"
    return "latency over the best" if family in ("infer", "dynamic") else "time over the best"


def solvable_problems(runs: Sequence[EvaluationRun]) -> int:
    """Return how many different problems of these runs have a solution; unlike in ``Merit`` seeds do not count."""
    return len({(run.label, number) for run in runs for number in run.problem[run.solvable].tolist()})


def merits(runs: Sequence[EvaluationRun], key: Callable[[EvaluationRun], str]) -> list[Merit]:
    """Return the figures of runs that share a key, in the order in which the keys first appear."""
    groups: dict[str, list[EvaluationRun]] = {}
    for run in runs:
        groups.setdefault(key(run), []).append(run)
    return [_merit(name, group) for name, group in groups.items()]


def _merit(name: str, runs: Sequence[EvaluationRun]) -> Merit:
    def joined(column: str) -> Array:
        values: Array = np.concatenate([getattr(run, column) for run in runs])
        return values

    solvable, excess, spent_s = joined("solvable").astype(bool), joined("excess"), joined("measurement_s")
    low, high = _mean_interval([run.excess for run in runs], [(run.label, run.problem) for run in runs])
    excess = np.sort(excess[~np.isnan(excess)])
    return Merit(
        name,
        problems=len(solvable),
        solvable=int(solvable.sum()),
        solved=int(joined("solved").sum()),
        violations=int(joined("violated").sum()),
        median=_quantile(excess, 0.5),
        mean=float(excess.mean()) if len(excess) else np.nan,
        mean_low=low,
        mean_high=high,
        p90=_quantile(excess, 0.9),
        p99=_quantile(excess, 0.99),
        worst=_quantile(excess, 1.0),
        points=_mean(joined("points")[solvable]),
        strategy_s=_mean(joined("strategy_s")[solvable]),
        measurement_s=np.nan if np.isnan(spent_s).all() else float(np.nansum(spent_s)),
        points_to_3_percent=_usual_count(joined("points_to_3_percent")[solvable]),
        points_to_1_percent=_usual_count(joined("points_to_1_percent")[solvable]),
    )


_RESAMPLES, _DRAWS = 1000, 10_000_000
"""Resamples of a bootstrap, and the most problems drawn for all of them: fewer resamples of very many problems."""


def _mean_interval(
    excesses: Sequence[Array], problems: Sequence[tuple[str, npt.NDArray[np.intp]]]
) -> tuple[float, float]:
    """Return the 2.5 % and the 97.5 % quantile of the mean excess when the problems are drawn anew, with their seeds.

    Args:
        excesses: Excess per problem of each run; NaN is left out.
        problems: Label and numbers of the problems of each run.
    """
    labels = list(dict.fromkeys(label for label, _ in problems))
    keys = np.concatenate([numbers * len(labels) + labels.index(label) for label, numbers in problems])
    excess = np.concatenate(excesses)
    solved = ~np.isnan(excess)
    _, which = np.unique(keys[solved], return_inverse=True)
    sums, counts = np.bincount(which, excess[solved]), np.bincount(which)
    if len(sums) < 2:
        return np.nan, np.nan
    random, number = np.random.default_rng(0), len(sums)
    resamples = min(_RESAMPLES, max(_DRAWS // number, 100))
    drawn = (random.integers(number, size=number) for _ in range(resamples))
    low, high = np.quantile([sums[rows].sum() / counts[rows].sum() for rows in drawn], [0.025, 0.975])
    return float(low), float(high)


def _usual_count(counts: Array) -> float:
    """Return the median of counts of which NaN is more than any number; NaN if that is the median."""
    return _quantile(np.sort(counts), 0.5)  # NaN sorts last


def _quantile(ordered: Array, share: float) -> float:
    """Return the smallest value that at least this share of the values does not exceed."""
    return float(ordered[max(int(np.ceil(share * len(ordered))) - 1, 0)]) if len(ordered) else np.nan


def _mean(values: Array) -> float:
    return float(values.mean()) if len(values) else np.nan


_LINEAR_UP_TO = 1.0
"""Per cent up to which the axis is linear, so that it can show zero; above, it is logarithmic. Beyond 100 % the ticks
are powers of ten, so that labels do not overlap."""
_TICKS = (0, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000)


def evaluation_figure(evaluation: Evaluation) -> Figure:
    """Return the figure of an evaluation: a box per strategy, in a panel per workload where there are several.

    Raises:
        InputError: no problem was solved, so that there is nothing to draw.
        DeviceError: matplotlib is missing.
    """
    runs = evaluation.runs
    if not any(run.solved.any() for run in runs):
        raise InputError("no problem was solved: there is no excess to draw", "allow more points")
    names = list(dict.fromkeys(run.contender for run in runs))
    labels = list(dict.fromkeys(run.label for run in runs))
    groups = [("all workloads", list(runs))] if len(labels) > 1 else []
    groups += [(label, [run for run in runs if run.label == label]) for label in labels]
    columns = 1 if len(groups) == 1 else 2
    lines = -(-len(groups) // columns)
    size = (4.6 + 3.0 * (columns - 1) + 1.4, 1.2 + lines * (0.7 + 0.34 * len(names)))
    with new_figure(size) as figure:
        panels = panels_of(figure, lines, columns, sharex=True, sharey=True).flatten()
        for axes, (title, chosen) in zip(panels, groups, strict=False):
            _draw_panel(axes, chosen, names)
            axes.set_title(title, loc="left", fontsize=8.5)
        for axes in panels[len(groups) :]:
            axes.set_visible(False)
        _scale(panels, runs)
        lowest = [axes for place, axes in enumerate(panels) if place < len(groups) <= place + columns]
        for axes in lowest:
            axes.tick_params(labelbottom=True)
            axes.set_xlabel(f"{excess_named(runs[0].family)} (%)")
        where = str(evaluation.header.conditions.get("device") or "")
        head = f"SIMULATED: {where}" if evaluation.header.simulated else where
        figure.suptitle(_title(head, runs), x=0.01, ha="left", fontsize=9.5)
        legend_beside(figure, panels[: len(groups)])
    return figure


def _title(head: str, runs: tuple[EvaluationRun, ...]) -> str:
    line = f"{runs[0].family}: {solvable_problems(runs):,} solvable problems"
    return "\n".join(textwrap.fill(part, 70) for part in (head, line) if part)


def _draw_panel(axes: Any, runs: list[EvaluationRun], names: list[str]) -> None:
    """Draw a box per strategy, the first on top; a strategy that solved nothing has a word in its place."""
    found = {merit.name: merit for merit in merits(runs, lambda run: run.contender)}
    groups: dict[str, list[float]] = {name: [] for name in names}
    for run in runs:
        groups[run.contender] += (100 * _solved(run)).tolist()
    beside = [_beside(found[name]) if name in found else "" for name in names]
    draw_boxes(axes, {_row_label(name): of for name, of in groups.items()}, beside, none="none solved", extreme="worst")
    axes.text(
        1.01, len(names) - 0.5, "solved", transform=axes.get_yaxis_transform(), va="center", fontsize=7, color=GREY
    )


def _solved(run: EvaluationRun) -> Array:
    excess: Array = run.excess[~np.isnan(run.excess)]
    return excess


def _row_label(name: str) -> str:
    strategy, _, points = name.partition(":")
    return f"{strategy} ({points})" if points else strategy


def _beside(merit: Merit) -> str:
    over = f", {merit.violations:,} over" if merit.violations else ""
    if not merit.solvable:
        return f"none solvable{over}"
    return f"{merit.solved_percent:g} %{over}"


def _scale(panels: Any, runs: tuple[EvaluationRun, ...]) -> None:
    """Give all panels one axis that has room for zero and for the worst answer."""
    from matplotlib.ticker import FixedLocator, FormatStrFormatter, NullLocator

    largest = 1.1 * max([1.0, *(100 * float(_solved(run).max()) for run in runs if len(_solved(run)))])
    top = next((tick for tick in _TICKS if tick >= largest), 10.0 ** math.ceil(math.log10(largest)))
    for axes in panels:
        axes.set_xscale("symlog", linthresh=_LINEAR_UP_TO, linscale=0.6)
        ticks = _TICKS if top <= 100 else (0, *(10**power for power in range(math.ceil(math.log10(top)) + 1)))
        axes.xaxis.set_major_locator(FixedLocator([tick for tick in ticks if tick <= top]))
        axes.xaxis.set_major_formatter(FormatStrFormatter("%g"))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xlim(-0.04 * _LINEAR_UP_TO, top)

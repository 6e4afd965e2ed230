"""The points that a search may choose from: the varying knobs, their values, and the existing points."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from edgetune.artifacts.mode import KNOBS, Mode
from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import Point, Task
from edgetune.errors import InputError
from edgetune.stages.search.problem import PAIRS, background_task, epochs_by_batch

AXES: tuple[str, ...] = (*KNOBS, "batch_size")
"""Every numeric field that may vary between the points of one workload and task."""

Levels = tuple[int, ...]
"""Place of a point on each axis of its space, counted from 0 at the lowest value."""


_KEPT_ORDERS = 200
"""Number of orders by distance that a space keeps."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A knob (or the batch size) and the values it takes among the offered points, ascending.

    Args:
        name: The knob, or ``batch_size``, or ``power_mode`` for modes that only their names tell apart.
        values: Its values; for names 0, 1, 2, ..., which have no order.
        labels: The names; empty where the values are numbers.
    """

    name: str
    values: tuple[float, ...]
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Background:
    """The second of two workloads, the one without a deadline, at its one batch size."""

    workload: str
    task: Task
    batch_size: int


@dataclass(frozen=True, slots=True)
class Space:
    """The offered points of one workload and task; of two workloads, those of the urgent one.

    Their order is that of their knobs and batch sizes, whatever order they were offered in, so that the same
    points and the same seed give the same search.

    Args:
        points: The offered points, each once.
        axes: The varying knobs; a knob with one value is no axis.
        levels: The place of each point on the axes.
        background: The second workload, measured too in each of these modes; ``None`` when there is one workload.
        rows: Number of each place in the order of the points.
        partners: The background workload's point in the mode of each point; empty where there is one workload.
        halves: All points that may be measured: the points, and the partners.
    """

    points: tuple[Point, ...]
    axes: tuple[Axis, ...]
    levels: dict[Point, Levels] = field(repr=False)
    _by_levels: dict[Levels, Point] = field(repr=False)
    background: Background | None = None
    rows: dict[Levels, int] = field(init=False, repr=False, compare=False)
    partners: tuple[Point, ...] = field(init=False, repr=False, compare=False)
    halves: Collection[Point] = field(init=False, repr=False, compare=False)
    _near: dict[Levels, list[Levels]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        partners = () if self.background is None else tuple(map(self.partner, self.points))
        object.__setattr__(self, "rows", {levels: row for row, levels in enumerate(self.levels.values())})
        object.__setattr__(self, "partners", partners)
        object.__setattr__(self, "halves", {**self.levels, **dict.fromkeys(partners)} if partners else self.levels)

    @classmethod
    def of(cls, offered: Iterable[Point], background: Background | None = None) -> Space:
        """Return the space of the offered points; a point offered twice counts once.

        Raises:
            InputError: no points, or a knob that some points set and others leave as found.
        """
        points = tuple(sorted(set(offered), key=order))
        if not points:
            raise InputError("there is nothing to choose from: no points were offered", "offer at least one mode")
        axes = []
        for name in AXES:
            values = {value_of(point, name) for point in points}
            if None in values and len(values) > 1:
                raise InputError(f"some points set {name} and others leave it as found", "set it in all, or in none")
            if len(values) > 1:
                axes.append(Axis(name, tuple(sorted(value for value in values if value is not None))))
        named = axis_of_names(points)
        axes += [] if named is None else [named]
        index = [dict(zip(axis.labels or axis.values, range(len(axis.values)), strict=True)) for axis in axes]
        names = [axis.name for axis in axes]
        levels = {
            point: tuple(places[_place(point, name)] for places, name in zip(index, names, strict=True))
            for point in points
        }
        return cls(points, tuple(axes), levels, {place: point for point, place in levels.items()}, background)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the axes: what varies."""
        return tuple(axis.name for axis in self.axes)

    @property
    def named(self) -> Axis | None:
        """Return the axis of modes that only their names tell apart; ``None`` where numbers do."""
        return next((axis for axis in self.axes if axis.labels), None)

    def partner(self, point: Point) -> Point:
        """Return the background workload's point in the mode of this one."""
        assert self.background is not None
        return Point(self.background.workload, self.background.task, self.background.batch_size, point.mode)

    def at(self, levels: Levels) -> Point | None:
        """Return the offered point at this place, or ``None`` where the grid has a hole."""
        return self._by_levels.get(levels)

    def line(self, base: Levels, axis: int, *, above: bool) -> list[Levels]:
        """Return the offered places above (else below) a place on one axis, the others held, ascending."""
        reach = range(base[axis] + 1, len(self.axes[axis].values)) if above else range(base[axis])
        places = ((*base[:axis], level, *base[axis + 1 :]) for level in reach)
        return [place for place in places if place in self._by_levels]

    def nearest_first(self, target: Levels) -> list[Levels]:
        """Return all places, the nearest to a place first; kept, because searches that differ in budgets share it."""
        if target not in self._near:
            if len(self._near) >= _KEPT_ORDERS:
                self._near.clear()
            self._near[target] = sorted(self.rows, key=lambda levels: (self.distance(levels, target), levels))
        return self._near[target]

    def distance(self, a: Levels, b: Levels) -> float:
        """Return the distance of two places: the sum over axes of steps as a share of the axis length.

        Two different names have the distance 1.
        """
        spans = (1 if axis.labels else len(axis.values) - 1 for axis in self.axes)
        return sum(min(abs(i - j) / span, 1.0) for i, j, span in zip(a, b, spans, strict=True))


def axis_of_names(points: Iterable[Point]) -> Axis | None:
    """Return the axis of names if some points differ in their names only, else an empty result.

    Raises:
        InputError: some of those points have a name and others have none.
    """
    points = list(points)
    if all(point.mode.power_mode is None for point in points):
        return None
    found: dict[tuple[Any, ...], set[str | None]] = {}
    for point in points:
        found.setdefault((point.workload, point.task, *order(point)[: len(AXES)]), set()).add(point.mode.power_mode)
    if all(len(names) == 1 for names in found.values()):
        return None
    names = {name for group in found.values() for name in group}
    if None in names:
        raise InputError("some points name their power_mode and others do not", "name it in all, or in none")
    labels = tuple(sorted(name for name in names if name is not None))
    return Axis("power_mode", tuple(map(float, range(len(labels)))), labels)


def _place(point: Point, axis: str) -> float | str | None:
    """Return the value of a point on a varying axis: a number, or a name."""
    return point.mode.power_mode if axis == "power_mode" else value_of(point, axis)


def value_of(point: Point, axis: str) -> float | None:
    """Return the point's value on an axis; ``None`` for a knob that it leaves as found."""
    if axis == "batch_size":
        return point.batch_size
    value: float | None = getattr(point.mode, axis)
    return value


def without_network(point: Point) -> Point:
    """Return a point without its network, to compare the points of two networks."""
    return replace(point, workload="", task="train")


def order(point: Point) -> tuple[Any, ...]:
    """Return the sort key of points: knobs in their order, batch size, name; a knob left as found comes first."""
    numbers = (-1.0 if value is None else float(value) for value in (value_of(point, name) for name in AXES))
    return (*numbers, point.mode.power_mode or "")


_URGENT: dict[str, Task] = {"train": "train", "accuracy": "train"}
"""Task of the workload that a mode and a batch size are chosen for; ``infer`` for the other kinds."""


def offered_space(problem: Problem, points: Iterable[Point]) -> Space:
    """Return the space of a problem: the points of its task, of one workload, and the background workload of two.

    Raises:
        InputError: no points of that task, several workloads for one, no common mode of both workloads, or a batch size
            without epochs.
    """
    points, task = list(points), _URGENT.get(problem.kind, "infer")
    if problem.kind not in PAIRS:
        urgent = _of_one_workload([point for point in points if point.task == task], task)
        if problem.kind == "accuracy":
            _refuse_unknown_sizes(problem, urgent)
        return Space.of(urgent)
    background = _background(problem, points)
    second = (background.workload, background.task, background.batch_size)
    modes = {point.mode for point in points if (point.workload, point.task, point.batch_size) == second}
    others = [point for point in points if point.task == task]
    if problem.kind == "infer+infer":
        left = [point for point in others if point.workload != background.workload]
        others = left or others  # one network may be both: a second instance of itself
    urgent = [point for point in _of_one_workload(others, task) if point.mode in modes]
    if not urgent:
        _refuse_different_knobs(others[0], next(iter(modes)), background.workload)
        message = f"there is no mode with points of both {others[0].workload} and {background.workload}"
        raise InputError(message, "measure both in the same modes")
    return Space.of(urgent, background)


def _background(problem: Problem, points: Sequence[Point]) -> Background:
    """Return the workload without a deadline: the named one, else the only possible one."""
    task = background_task(problem.kind)
    found = [point for point in points if point.task == task]
    if not found:
        raise InputError(f"there are no {task} points to choose from", "give a table or modes with that task")
    names = sorted({point.workload for point in found})
    if problem.background is None and (len(names) > 1 or problem.kind == "infer+infer"):
        raise InputError(f"which of {', '.join(names)} is the background workload?", f"--background {names[0]}")
    name = problem.background or names[0]
    sizes = sorted({point.batch_size for point in found if point.workload == name})
    if not sizes:
        raise InputError(f"there are no {task} points of {name!r}", f"known: {', '.join(names)}")
    size = problem.background_batch_size
    if size is None and len(sizes) > 1:
        listed = ", ".join(map(str, sizes))
        raise InputError(f"{name} was offered at batch sizes {listed}", f"choose one: --background-batch {sizes[0]}")
    if size is not None and size not in sizes:
        listed = ", ".join(map(str, sizes))
        raise InputError(f"{name} was not offered at batch size {size}", f"there are {listed}")
    return Background(name, task, size or sizes[0])


def _refuse_different_knobs(point: Point, other: Mode, name: str) -> None:
    """Raise if one table sets a knob that the other leaves as found, because they then have no common mode."""
    odd = sorted(set(point.mode.settings()) ^ set(other.settings()))
    if odd:
        where = point.workload if odd[0] in point.mode.settings() else name
        message = f"the points of {point.workload} and {name} set different knobs: {', '.join(odd)} only in {where}'s"
        raise InputError(message, "measure both with the same knobs set")


def _of_one_workload(points: Sequence[Point], task: Task) -> Sequence[Point]:
    if not points:
        raise InputError(f"there are no {task} points to choose from", "give a table or modes with that task")
    workloads = sorted({point.workload for point in points})
    if len(workloads) > 1:
        raise InputError(f"the points are of several workloads: {', '.join(workloads)}", "choose one of them")
    return points


def _refuse_unknown_sizes(problem: Problem, points: Sequence[Point]) -> None:
    epochs = epochs_by_batch(problem)
    lacking = sorted({point.batch_size for point in points} - set(epochs))
    if lacking:
        listed = ", ".join(map(str, lacking))
        raise InputError(
            f"how many epochs batch size {listed} takes is not known; known: {', '.join(map(str, sorted(epochs)))}",
            f"measure it with edgetune profile --convergence --batch-sizes {listed.replace(' ', '')}",
        )

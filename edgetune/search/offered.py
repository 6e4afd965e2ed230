"""What a problem may choose from, out of all the points of a table or a device."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import Point, Task
from edgetune.errors import InputError
from edgetune.search.problem import PAIRS, background_task, epochs_by_batch
from edgetune.search.space import Background, Space

_URGENT: dict[str, Task] = {"train": "train", "accuracy": "train"}
"""Task of the workload that a mode and a batch size are chosen for; ``infer`` for the other kinds."""


def offered_space(problem: Problem, points: Iterable[Point]) -> Space:
    """Return the space of a problem: the points of its task, of one workload, and the background workload of two.

    Raises:
        InputError: none of that task, several workloads where one is wanted, no mode in which both workloads are
            offered, or a batch size without the epochs it takes.
    """
    points, task = list(points), _URGENT.get(problem.kind, "infer")
    if problem.kind not in PAIRS:
        urgent = _of_one_workload([point for point in points if point.task == task], task)
        if problem.kind == "accuracy":
            _refuse_unknown_sizes(problem, urgent)
        return Space.of(urgent)
    background = _background(problem, points)
    modes = {point.mode for point in points if _is(background, point)}
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
    """Return the workload without a deadline: the one named, else the only one there can be."""
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
    """Refuse two tables of which one sets a knob that the other leaves as found: no mode of one is a mode of both."""
    odd = sorted(set(point.mode.settings()) ^ set(other.settings()))
    if odd:
        where = point.workload if odd[0] in point.mode.settings() else name
        message = f"the points of {point.workload} and {name} set different knobs: {', '.join(odd)} only in {where}'s"
        raise InputError(message, "measure both with the same knobs set")


def _is(background: Background, point: Point) -> bool:
    return (point.workload, point.task, point.batch_size) == (
        background.workload,
        background.task,
        background.batch_size,
    )


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

"""From tables to cases: what is searched, and the problems to solve there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import Point, ProfileRow, Task
from edgetune.errors import InputError
from edgetune.search.evaluation.problems import (
    STUDY_NETWORKS,
    STUDY_PAIRS,
    Family,
    GridName,
    Measured,
    ProblemSet,
    Rows,
    fulcrum_problems,
    table_problems,
)
from edgetune.search.problem import PAIRS
from edgetune.search.space import Space, offered_space

_STUDY_DEVICE = "orin-agx"
_BACKGROUND_BATCH = 16
"""Samples per minibatch that the study trains with."""


@dataclass(frozen=True, slots=True)
class ProfiledWorkload:
    """One network doing one thing on one device, fully measured.

    Args:
        table: Name of the file it is from, or of several.
        device: Where it was measured; ``None`` when the table does not say.
        workload, task: What was measured.
        rows: Every point once.
    """

    table: str
    device: str | None
    workload: str
    task: Task
    rows: tuple[ProfileRow, ...]


@dataclass(frozen=True, slots=True, eq=False)
class EvaluationCase:
    """What is searched and the problems to solve there.

    Args:
        family: Of the problems.
        table: Where the rows are from.
        device: Where it was measured.
        workload: The one workload, or the urgent one of two; with its device where there are several.
        background: The other of two.
        grid: Which grid the problems are of.
        problems: All of them.
        space: What may be chosen.
        rows: What is measured there.
        measured: The same as arrays.
    """

    family: str
    table: str
    device: str | None
    workload: str
    background: str | None
    grid: GridName
    problems: ProblemSet
    space: Space
    rows: Mapping[Point, ProfileRow]
    measured: Measured

    @property
    def label(self) -> str:
        """The workload; of two, the background one first, as the study writes them."""
        return self.workload if self.background is None else f"{self.background}+{self.workload}"


def cases_of(
    subjects: Sequence[ProfiledWorkload],
    family: Family,
    *,
    grid: GridName | None = None,
    epochs: Mapping[str, tuple[tuple[int, float], ...]] | None = None,
) -> list[EvaluationCase]:
    """Return the cases of a family that can be made of these tables.

    Args:
        subjects: What was measured.
        family: Of the problems.
        grid: Which problems; ``None`` takes the study's for its networks and pairs on its board, else the table's own.
        epochs: For ``accuracy``, epochs until the target by batch size, by workload.

    Raises:
        InputError: no table for the family, no power figures, contradictory knobs, or no mode that both of two have.
    """
    found = _cases(subjects, family, grid, epochs or {})
    if len({case.device for case in found}) == 1:
        return found
    return [replace(case, workload=f"{case.workload} on {case.device or case.table}") for case in found]


def _cases(
    subjects: Sequence[ProfiledWorkload],
    family: Family,
    grid: GridName | None,
    epochs: Mapping[str, tuple[tuple[int, float], ...]],
) -> list[EvaluationCase]:
    if family in PAIRS:
        return list(_pairs(subjects, family, grid))
    task: Task = "infer" if family == "infer" else "train"
    chosen = [subject for subject in subjects if subject.task == task]
    if not chosen:
        raise InputError(f"no table has {task} rows, which {family} problems need", _what_there_is(subjects))
    return [_alone(subject, family, grid, epochs.get(subject.workload, ())) for subject in chosen]


def stratified(cases: Sequence[EvaluationCase], among: Sequence[Rows], count: int, *, seed: int) -> list[Rows]:
    """Return a sample of the problems of each case, as evenly over workloads and power budgets as there are problems.

    Args:
        cases: Whose problems to choose from.
        among: The numbers that may be chosen, by case.
        count: How many to choose in all.
        seed: Decides which.
    """
    random = np.random.default_rng(seed)
    queues = [_evenly_spread(case, random.permutation(numbers)) for case, numbers in zip(cases, among, strict=True)]
    turns = sorted((turn, place) for place, queue in enumerate(queues) for turn in range(len(queue)))[:count]
    lengths = [sum(place == case for _, place in turns) for case in range(len(cases))]
    return [np.sort(queue[:length]) for queue, length in zip(queues, lengths, strict=True)]


def _evenly_spread(case: EvaluationCase, mixed: Rows) -> Rows:
    """Return problem numbers in an order that takes one of every power budget before a second of any."""
    seen: dict[float, int] = {}
    turns = []
    for budget_w in case.problems.power_budget_w[mixed].tolist():
        seen[budget_w] = seen.get(budget_w, 0) + 1
        turns.append(seen[budget_w])
    return mixed[np.argsort(turns, kind="stable")]


def _alone(
    subject: ProfiledWorkload, family: Family, grid: GridName | None, epochs: tuple[tuple[int, float], ...]
) -> EvaluationCase:
    rows = {row.point: row for row in subject.rows}
    space = _offered(Problem(family, epochs_to_target=epochs), rows, subject.table)
    measured = Measured.of(space, rows)
    chosen: GridName = grid or ("fulcrum" if family != "accuracy" and _in_study(subject) else "auto")
    if chosen == "fulcrum":
        _require_power(measured, subject.table)
        problems = fulcrum_problems(family, subject.workload)
    else:
        problems = _named(family, measured, subject.table)
    if epochs:
        problems = ProblemSet(
            family, problems.power_budget_w, problems.latency_budget_s, problems.arrival_rate_per_s,
            epochs_to_target=epochs,
        )  # fmt: skip
    return EvaluationCase(
        family, subject.table, subject.device, subject.workload, None, chosen, problems, space, rows, measured
    )


def _pairs(subjects: Sequence[ProfiledWorkload], family: Family, grid: GridName | None) -> Iterator[EvaluationCase]:
    background_task: Task = "train" if family == "train+infer" else "infer"
    behind = [subject for subject in subjects if subject.task == background_task]
    urgent = [subject for subject in subjects if subject.task == "infer"]
    for found, task in ((behind, background_task), (urgent, "infer")):
        if not found:
            needs = f"no table has {task} rows, which {family} problems need beside the others"
            raise InputError(needs, _what_there_is(subjects))
    pairs = [(b, u) for b in behind for u in urgent if b.device == u.device]
    if family == "infer+infer":
        pairs = [(b, u) for b, u in pairs if b.workload != u.workload]
    studied = [(b, u) for b, u in pairs if _is_study_pair(family, b, u, any_board=grid == "fulcrum")]
    if not pairs or (grid == "fulcrum" and not studied):
        whose = "of two networks on one device" if not pairs else "of one of the study's pairs"
        listed = ", ".join("+".join(pair) for pair in STUDY_PAIRS[family])
        raise InputError(
            f"{family} problems need tables {whose}", _what_there_is(subjects) if not pairs else f"its pairs: {listed}"
        )
    use_study = grid == "fulcrum" or (grid is None and bool(studied))
    for one, other in studied if use_study else pairs:
        yield _together(one, other, family, "fulcrum" if use_study else "auto")


def _together(background: ProfiledWorkload, urgent: ProfiledWorkload, family: Family, grid: GridName) -> EvaluationCase:
    rows = {row.point: row for subject in (background, urgent) for row in subject.rows}
    sizes = sorted({row.batch_size for row in background.rows})
    size = _BACKGROUND_BATCH if _BACKGROUND_BATCH in sizes else sizes[len(sizes) // 2]
    whole = Problem(family, arrival_rate_per_s=1.0, background=background.workload, background_batch_size=size)
    table = " + ".join(dict.fromkeys((background.table, urgent.table)))
    space = _offered(whole, rows, table)
    measured = Measured.of(space, rows)
    if grid == "fulcrum":
        _require_power(measured, table)
        problems = fulcrum_problems(family, urgent.workload)
        if STUDY_NETWORKS.get(background.workload) == "bert":
            problems = fulcrum_problems(family, "bert")
    else:
        problems = _named(family, measured, table)
    problems = ProblemSet(
        family, problems.power_budget_w, problems.latency_budget_s, problems.arrival_rate_per_s, background.workload,
        size,
    )  # fmt: skip
    return EvaluationCase(
        family, table, urgent.device, urgent.workload, background.workload, grid, problems, space, rows, measured
    )


def _offered(problem: Problem, rows: Mapping[Point, ProfileRow], table: str) -> Space:
    """Return what may be chosen; contradictory knobs are told with the names of the tables."""
    try:
        return offered_space(problem, rows)
    except InputError as error:
        raise InputError(f"{table}: {error.message}", error.hint) from None


def _named(family: Family, measured: Measured, table: str) -> ProblemSet:
    """Return the problems of a table; what it lacks is told with its name."""
    _require_power(measured, table)
    return table_problems(family, measured)


def _require_power(measured: Measured, table: str) -> None:
    if np.isnan(measured.power_w).all() or (
        measured.background_w is not None and np.isnan(measured.background_w).all()
    ):
        raise InputError(
            f"{table} has no power figures, and every problem has a power budget", "give a table with power_w"
        )


def _in_study(subject: ProfiledWorkload) -> bool:
    return subject.workload in STUDY_NETWORKS and _STUDY_DEVICE in (subject.device or "")


def _is_study_pair(family: Family, background: ProfiledWorkload, urgent: ProfiledWorkload, *, any_board: bool) -> bool:
    if not any_board and not (_in_study(background) and _in_study(urgent)):
        return False
    names = (STUDY_NETWORKS.get(background.workload), STUDY_NETWORKS.get(urgent.workload))
    return names in STUDY_PAIRS[family]


def _what_there_is(subjects: Iterable[ProfiledWorkload]) -> str:
    listed = ", ".join(f"{subject.workload} {subject.task} ({subject.table})" for subject in subjects)
    return f"the tables have {listed}" if listed else "give tables"

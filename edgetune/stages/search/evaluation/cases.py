"""The cases of an evaluation: a space of measured points, and the problems to solve in it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import Point, ProfileRow, Task
from edgetune.errors import InputError
from edgetune.stages.search.evaluation.problems import (
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
from edgetune.stages.search.problem import PAIRS
from edgetune.stages.search.space import Space, offered_space

_STUDY_DEVICE = "orin-agx"
_BACKGROUND_BATCH = 16
"""Samples per minibatch that the study trains with."""


@dataclass(frozen=True, slots=True)
class ProfiledWorkload:
    """One network and task on one device, fully measured.

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
    """A space of measured points, and the problems to solve in it.

    Args:
        family: Family of the problems.
        table: Name of the table that the rows are from.
        device: The device that was measured.
        workload: The one workload, or the urgent one of two; with its device where there are several.
        background: The other workload of a pair.
        grid: Name of the grid of the problems.
        problems: All problems.
        space: The points to choose from.
        rows: The measured row of each point.
        measured: The rows as arrays.
        relatives: Rows of other networks on the same device, as prior knowledge.
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
    relatives: tuple[ProfileRow, ...] = ()

    @property
    def label(self) -> str:
        """The workload; of two, the background one first, as the study writes them."""
        return self.workload if self.background is None else f"{self.background}+{self.workload}"


def cases_of(
    subjects: Sequence[ProfiledWorkload], family: Family, *, grid: GridName | None = None
) -> list[EvaluationCase]:
    """Return the cases of a family that can be made of these tables.

    Args:
        subjects: The measured workloads.
        family: Of the problems.
        grid: Which problems; ``None`` takes the study's for its networks and pairs on its board, else the table's own.

    Raises:
        InputError: no table for the family, no power figures, contradictory knobs, or no common mode of a pair.
    """
    if family in PAIRS:
        found = list(_pairs(subjects, family, grid))
    else:
        found = [_alone(subject, family, grid) for subject in subjects if subject.task == family]
    if not found:
        raise InputError(f"no table has {family} rows, which {family} problems need", _what_there_is(subjects))
    if len({case.device for case in found}) == 1:
        return found
    return [replace(case, workload=f"{case.workload} on {case.device or case.table}") for case in found]


def stratified(cases: Sequence[EvaluationCase], among: Sequence[Rows], count: int, *, seed: int) -> list[Rows]:
    """Return a sample of the problems of each case, as evenly over workloads and power budgets as there are problems.

    Args:
        cases: The cases.
        among: Numbers of the eligible problems, by case.
        count: Size of the sample in all.
        seed: Seed of the sample.
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


def _alone(subject: ProfiledWorkload, family: Family, grid: GridName | None) -> EvaluationCase:
    rows = {row.point: row for row in subject.rows}
    chosen: GridName = grid or ("fulcrum" if _in_study(subject) else "auto")
    return _case(Problem(family), subject, rows, subject.table, grid=chosen, network=subject.workload)


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
    base = Problem(family, arrival_rate_per_s=1.0, background=background.workload, background_batch_size=size)
    table = " + ".join(dict.fromkeys((background.table, urgent.table)))
    name = STUDY_NETWORKS[background.task].get(background.workload)
    network = name if name == "bert" else STUDY_NETWORKS["infer"].get(urgent.workload, urgent.workload)
    return _case(base, urgent, rows, table, grid=grid, network=network)


def _case(
    base: Problem,
    subject: ProfiledWorkload,
    rows: Mapping[Point, ProfileRow],
    table: str,
    *,
    grid: GridName,
    network: str,
) -> EvaluationCase:
    """Return the case of one workload, or of two whose urgent one is ``subject``; ``network`` chooses the study's grid.

    Raises:
        InputError: contradictory knobs, or no power figures, with the names of the tables.
    """
    try:
        space = offered_space(base, rows)
    except InputError as error:
        raise InputError(f"{table}: {error.message}", error.hint) from None
    measured = Measured.of(space, rows)
    powers = (measured.power_w, measured.power_w if measured.background_w is None else measured.background_w)
    if any(np.isnan(each).all() for each in powers):
        message = f"{table} has no power figures, and every problem has a power budget"
        raise InputError(message, "give a table with power_w")
    study = grid == "fulcrum"
    problems = fulcrum_problems(base.kind, network) if study else table_problems(base.kind, measured)
    return EvaluationCase(
        base.kind, table, subject.device, subject.workload, base.background, grid, replace(problems, base=base),
        space, rows, measured,
    )  # fmt: skip


def _in_study(subject: ProfiledWorkload) -> bool:
    return subject.workload in STUDY_NETWORKS[subject.task] and _STUDY_DEVICE in (subject.device or "")


def _is_study_pair(family: Family, background: ProfiledWorkload, urgent: ProfiledWorkload, *, any_board: bool) -> bool:
    if not any_board and not (_in_study(background) and _in_study(urgent)):
        return False
    names = tuple(STUDY_NETWORKS[each.task].get(each.workload) for each in (background, urgent))
    return names in STUDY_PAIRS[family]


def _what_there_is(subjects: Iterable[ProfiledWorkload]) -> str:
    listed = ", ".join(f"{subject.workload} {subject.task} ({subject.table})" for subject in subjects)
    return f"the tables have {listed}" if listed else "give tables"

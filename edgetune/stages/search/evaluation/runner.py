"""The evaluation of every contender, case and seed in several processes; results do not depend on their number."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import as_completed
from dataclasses import dataclass, field
from itertools import product, zip_longest

import numpy as np

from edgetune.artifacts.evaluation import EvaluationRun
from edgetune.processes.worker_pool import worker_pool
from edgetune.stages.search.evaluation.answering import Contender, StrategyAnswers, answer_each, answer_once
from edgetune.stages.search.evaluation.cases import EvaluationCase
from edgetune.stages.search.evaluation.problems import Array, Best, ProblemSet, Rows, excess_of, judge_answers

_LEAST_CHUNK, _MOST_CHUNK, _CHUNKS = 10, 400, 50
"""Fewest and most problems handed to a process at a time, and how many parts of a case there should be."""


@dataclass(frozen=True, slots=True)
class EvaluationConditions:
    """The conditions under which contenders are judged.

    Args:
        seeds: Number of repetitions of every contender.
        noise: Relative standard deviation of a measured time; powers have half of it.
        jobs: Processes.
    """

    seeds: int = 1
    noise: float = 0.0
    jobs: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class EvaluationTask:
    """Work for one process: a contender, a case, a seed and the numbers of problems."""

    case: int
    contender: Contender
    seed: int
    noise: float
    numbers: Rows

    @property
    def searches(self) -> int:
        """The number of searches."""
        return 1 if self.contender.measures_once else len(self.numbers)

    def run(self, case: EvaluationCase) -> list[StrategyAnswers]:
        """Return the answers."""
        answer = answer_once if self.contender.measures_once else answer_each
        return answer(case, self.contender, self.numbers, seed=self.seed, noise=self.noise)


@dataclass(slots=True)
class EvaluationRunner:
    """An evaluation, and the answers so far.

    Args:
        cases: The cases.
        best: The best answers to all problems of each case.
        chosen: Numbers of the problems to replay, by case.
        contenders: The strategies.
        conditions: The conditions of the evaluation.
    """

    cases: Sequence[EvaluationCase]
    best: Sequence[Best]
    chosen: Sequence[Rows]
    contenders: Sequence[Contender]
    conditions: EvaluationConditions = EvaluationConditions()
    tasks: list[EvaluationTask] = field(default_factory=list)
    _done: dict[int, list[StrategyAnswers]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.tasks = list(self._tasks())

    @property
    def searches(self) -> int:
        """The number of all searches."""
        return sum(task.searches for task in self.tasks)

    def run(self, advance: Callable[[float, str], None] | None = None) -> None:
        """Run the tasks that are left; if interrupted, ``runs`` has what was done.

        Args:
            advance: Called with the number of searches of a task that has ended, and what was done.
        """
        left = [number for number in range(len(self.tasks)) if number not in self._done]
        for number, answers in self._answers(left):
            self._done[number] = answers
            if advance is not None:
                advance(self.tasks[number].searches, "replaying")

    def runs(self) -> list[EvaluationRun]:
        """Return the runs so far, by contender, case and seed."""
        found: dict[tuple[Contender, int, int, str], list[tuple[Rows, StrategyAnswers]]] = {}
        for number in sorted(self._done):
            task = self.tasks[number]
            for answers in self._done[number]:
                key = (task.contender, task.case, task.seed, answers.variant)
                found.setdefault(key, []).append((task.numbers, answers))
        places = {contender: place for place, contender in enumerate(self.contenders)}
        order = sorted(found, key=lambda key: (places[key[0]], *key[1:]))
        return [self._run(*key, found[key]) for key in order]

    def _tasks(self) -> Iterator[EvaluationTask]:
        """Yield the long searches that serve all problems, then those of single problems, cases in turn."""
        seeds, noise = range(self.conditions.seeds), self.conditions.noise
        once = [contender for contender in self.contenders if contender.measures_once]
        for contender in sorted(once, key=lambda contender: contender.strategy == "random"):
            for seed in seeds:
                for case, numbers in enumerate(self.chosen):
                    yield EvaluationTask(case, contender, seed, noise, numbers)
        parts = [
            _parts(case.problems, n[b.rows[n] >= 0])
            for case, n, b in zip(self.cases, self.chosen, self.best, strict=True)
        ]
        anew = [contender for contender in self.contenders if not contender.measures_once]
        for turn in zip_longest(*parts):
            for case, numbers in enumerate(turn):
                if numbers is not None:
                    yield from (EvaluationTask(case, *who, noise, numbers) for who in product(anew, seeds))

    def _answers(self, left: Sequence[int]) -> Iterator[tuple[int, list[StrategyAnswers]]]:
        """Yield the number of each task, and its answers."""
        jobs = min(self.conditions.jobs, len(left))
        if jobs <= 1:
            for number in left:
                yield number, self.tasks[number].run(self.cases[self.tasks[number].case])
            return
        with worker_pool(jobs, _begin, tuple(self.cases)) as pool:
            futures = {pool.submit(_run_task, self.tasks[number]): number for number in left}
            for future in as_completed(futures):
                yield futures.pop(future), future.result()

    def _run(
        self, contender: Contender, case: int, seed: int, variant: str, parts: list[tuple[Rows, StrategyAnswers]]
    ) -> EvaluationRun:
        """Judge the answers of one run; unsolvable problems that were not searched are rows too."""
        subject, best, chosen = self.cases[case], self.best[case], self.chosen[case]
        numbers = np.concatenate([numbers for numbers, _ in parts])
        unasked = np.setdiff1d(chosen[best.rows[chosen] < 0], numbers)
        found = [*(answers for _, answers in parts), StrategyAnswers.none(variant, len(unasked))]
        numbers = np.concatenate([numbers, unasked])
        order = np.argsort(numbers, kind="stable")
        name = "-".join(part for part in (contender.strategy, variant) if part)
        answers, who = StrategyAnswers.joined(found).take(order), (name, contender.max_points, seed)
        return judged_run(subject, best, numbers[order], answers, who)


def _parts(problems: ProblemSet, numbers: Rows) -> list[Rows]:
    """Return problems in parts; parts come in random order, so that what is done by a stop is a fair sample, and what
    is left takes as long as what is done."""
    alike = np.lexsort(
        (problems.latency_budget_s[numbers], problems.power_budget_w[numbers], problems.arrival_rate_per_s[numbers])
    )
    size = min(max(len(numbers) // _CHUNKS, _LEAST_CHUNK), _MOST_CHUNK)
    parts = [numbers[alike[first : first + size]] for first in range(0, len(numbers), size)]
    return [parts[i] for i in np.random.default_rng(0).permutation(len(parts))]


def judged_run(
    case: EvaluationCase,
    best: Best,
    numbers: Rows,
    answers: StrategyAnswers,
    who: tuple[str, int | None, int],
    *,
    measurement_s: Array | None = None,
) -> EvaluationRun:
    """Return the run of one contender: its answers to the problems ``numbers`` judged by the table's own figures.

    Args:
        case: The case.
        best: The best answers to all problems of the case.
        numbers: Numbers of the answered problems.
        answers: The answers.
        who: Name of the strategy, largest number of points, seed.
        measurement_s: Time spent measuring per problem, s, where it was computed.
    """
    problems, answered = case.problems.take(numbers), answers.rows >= 0
    judged = judge_answers(case.measured, problems, np.maximum(answers.rows, 0))
    solved = answered & judged.feasible
    excess = np.full(len(numbers), np.nan)
    excess[solved] = excess_of(problems, judged.objective[solved], best.objective[numbers][solved])
    return EvaluationRun(
        case.family, case.table, case.workload, case.background, *who, numbers, problems.power_budget_w,
        problems.latency_budget_s, problems.arrival_rate_per_s, best.rows[numbers] >= 0, solved,
        answered & ~judged.feasible, excess, answers.points, answers.strategy_s,
        np.full(len(numbers), np.nan) if measurement_s is None else measurement_s,
        answers.points_to_3_percent, answers.points_to_1_percent,
    )  # fmt: skip


_cases: tuple[EvaluationCase, ...] = ()
"""The cases, in a worker process."""


def _begin(cases: tuple[EvaluationCase, ...]) -> None:
    global _cases  # noqa: PLW0603  (a process pool has no other place for what all tasks share)
    _cases = cases


def _run_task(task: EvaluationTask) -> list[StrategyAnswers]:
    return task.run(_cases[task.case])

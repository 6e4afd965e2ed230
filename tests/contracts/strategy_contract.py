"""Contract tests of every search strategy, as a test class to subclass.

    class TestMine(StrategyContract):
        strategy = "mine"

    class TestMineInTwoWorkloads(TestMine):
        problem = PAIR

runs the tests on the strategy of that name, on small landscapes whose times and powers follow a formula, for training,
inference or both, as in the problem.
"""

import os
import random
import subprocess
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.errors import DeviceError, InfeasibleError, InputError
from edgetune.stages.search.driver import BothHalves, SearchResult, SearchSettings, run_search
from edgetune.stages.search.problem import PAIRS, Judgement, peak_latency_s
from edgetune.stages.search.space import offered_space
from edgetune.stages.search.strategies import STRATEGIES
from edgetune.stages.search.strategy import AskTell, PointResult, Suggestion

_CORES = (4, 8, 12)
_CPU_MHZ = (422.4, 1036.8, 1651.2, 2201.6)
_GPU_MHZ = (114.75, 420.75, 726.75, 1032.75, 1300.5)
_MEM_MHZ = (665.6, 2133.0, 3199.0)


INFER = Problem("infer", power_budget_w=26.0, latency_budget_s=0.3, arrival_rate_per_s=60.0)
PAIR = Problem("train+infer", power_budget_w=36.0, latency_budget_s=1.5, arrival_rate_per_s=20.0)
"""Problems with a solution in the landscapes of inference and of both workloads."""


def grid_points(kind: str = "train") -> list[Point]:
    """Return the points of a landscape for problems of a kind.

    For training 180 modes at batch size 16: three core counts, four CPU clocks, five GPU clocks, three memory clocks.
    For inference 60 of them at batch sizes 1, 4 and 16; for both workloads those, and training in their modes.
    """
    if kind in ("train", "accuracy"):
        modes = [Mode(*knobs) for knobs in product(_CORES, _CPU_MHZ, _GPU_MHZ, _MEM_MHZ)]
        return [Point("net", "train", 16, mode) for mode in modes]
    modes = [Mode(*knobs) for knobs in product(_CORES[::2], _CPU_MHZ[1:], _GPU_MHZ, _MEM_MHZ[1:])]
    infer = [Point("net", "infer", size, mode) for mode in modes for size in (1, 4, 16)]
    return infer + [Point("net", "train", 16, mode) for mode in modes if kind in PAIRS]


def measure_formula(point: Point) -> ProfileRow:
    """Return the measurement of a formula: time is a sum of c / knob, power a sum of c x knob.

    Knobs in units of their largest value x: training takes t = 0.05 / x_gpu + 0.03 / x_mem + 0.01 / x_cpu +
    0.004 / x_cores s per 16 samples at P = 10 + 20 x_gpu + 6 x_mem + 8 x_cpu + 2 x_cores W; inference takes
    t (0.1 + 0.9 b / 16) / 4 at 0.8 P + 0.1 b for a batch of b. Knobs left as found count as 1.
    """
    mode, share = point.mode, point.batch_size / 16
    cores, cpu = (mode.cpu_cores or 12) / 12, (mode.cpu_mhz or 2201.6) / 2201.6
    gpu, mem = (mode.gpu_mhz or 1300.5) / 1300.5, (mode.mem_mhz or 3199.0) / 3199.0
    time_s, power_w = (
        0.05 / gpu + 0.03 / mem + 0.01 / cpu + 0.004 / cores,
        10 + 20 * gpu + 6 * mem + 8 * cpu + 2 * cores,
    )
    if point.task == "infer":
        time_s, power_w = time_s * (0.1 + 0.9 * share) / 4, 0.8 * power_w + 0.1 * point.batch_size
    else:
        time_s *= share
    row = ProfileRow(point.workload, point.task, point.batch_size, time_s)
    return replace(row, power_w=power_w, **{name: getattr(mode, name) for name in mode.__slots__})


class StrategyContract:
    """The contract tests of a strategy. Subclass it in a test module and set ``strategy``."""

    strategy: str
    """The strategy's name in ``STRATEGIES``."""

    problem: Problem = Problem("train", power_budget_w=28.0)
    """A problem that the strategy solves and that has a solution in the landscape."""

    budgets_w: tuple[float, ...] = (20.0, 24.0, 31.0, 40.0, 60.0)
    """Power budgets of which each answer is checked."""

    def points(self) -> list[Point]:
        """Return the points of the landscape."""
        return grid_points(self.problem.kind)

    def few_points(self) -> list[Point]:
        """Return the points of four modes."""
        points = self.points()
        modes = list(dict.fromkeys(point.mode for point in points))[:4]
        return [point for point in points if point.mode in modes]

    def start(self, points: list[Point], seed: int = 0) -> AskTell:
        """Return a new instance of the strategy on these points, behind the driver's interface."""
        space, kind = offered_space(self.problem, points), STRATEGIES.find(self.strategy)
        strategy = kind(space, self.problem, seed=seed)
        if self.problem.kind in PAIRS and not kind.learns_halves:
            return BothHalves(strategy, space, self.problem)
        return strategy

    def search(self, points: list[Point], *, seed: int = 0, max_points: int | None = None) -> SearchResult:
        """Return the result of a search of the formula landscape."""
        return run_search(
            self.problem, points, measure_formula, SearchSettings(self.strategy, seed=seed, max_points=max_points)
        )

    def test_is_in_the_table_under_its_name(self) -> None:
        assert STRATEGIES[self.strategy].name == self.strategy

    def test_asks_only_for_offered_points_and_never_twice(self) -> None:
        points = self.points()
        asked = self._walk(self.start(points), steps=len(points) + 5)
        assert asked
        assert {suggestion.point for suggestion in asked} <= set(points)
        assert len({suggestion.point for suggestion in asked}) == len(asked)

    def test_never_asks_for_what_it_was_told_before(self) -> None:
        points = self.points()
        first = self._walk(self.start(points), steps=4)
        strategy = self.start(points)
        for suggestion in first:
            strategy.tell(suggestion.point, _outcome(self.problem, suggestion.point))
        again = self._walk(strategy, steps=len(points))
        assert not {s.point for s in first} & {s.point for s in again}

    def test_speaks_in_native_types_and_says_why(self) -> None:
        for suggestion in self._walk(self.start(self.points()), steps=10):
            assert type(suggestion) is Suggestion
            assert type(suggestion.point) is Point
            assert suggestion.reason
            for value in suggestion.point.mode.knobs().values():
                assert type(value) in (int, float)
            for belief in (suggestion.predicted_minibatch_s, suggestion.predicted_power_w):
                assert belief is None or (type(belief) is float and belief > 0)

    def test_leaves_the_global_random_generators_alone(self) -> None:
        state = random.getstate()
        self._walk(self.start(self.points(), seed=3), steps=10)
        assert random.getstate() == state

    def test_same_seed_same_search_whatever_the_order_offered(self) -> None:
        points = self.points()
        once, again = self.search(points, seed=7), self.search(points[::-1], seed=7)
        assert _steps(once) == _steps(again)

    def test_same_seed_same_search_in_another_process(self) -> None:
        max_points = 24 if self.problem.kind in PAIRS else 12
        code = (
            "from contracts import strategy_contract as c; from edgetune.artifacts.problem import Problem;"
            f"k = type('K', (c.StrategyContract,), dict(strategy={self.strategy!r}, problem={self.problem!r}));"
            f"print(repr(c._steps(k().search(k().points(), seed=7, max_points={max_points}))))"
        )
        paths = os.pathsep.join(path for path in (*sys.path, str(Path(__file__).parents[1])) if path)
        run = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True,
            env={**os.environ, "PYTHONHASHSEED": "77", "PYTHONPATH": paths},
        )  # fmt: skip
        assert run.stdout == repr(_steps(self.search(self.points(), seed=7, max_points=max_points))) + "\n"

    def test_modes_by_name_are_searched_or_refused(self) -> None:
        modes = list(dict.fromkeys(point.mode for point in self.few_points()))
        names = {mode: Mode(power_mode=f"mode {place}") for place, mode in enumerate(modes)}
        points = [replace(point, mode=names[point.mode]) for point in self.few_points()]
        if STRATEGIES.find(self.strategy).takes_names:
            asked = self._walk(self.start(points), steps=len(points) + 2)
            assert {suggestion.point for suggestion in asked} <= set(points)
            return
        refused = ""
        try:
            self.search(points)
        except InputError as error:
            refused = error.message
        assert "only names of modes" in refused

    def test_an_exhausted_space_ends_the_asking(self) -> None:
        points = self.few_points()
        strategy = self.start(points)
        assert len(self._walk(strategy, steps=2 * len(points) + 2)) <= len(points)
        assert strategy.ask() is None

    def test_a_space_told_in_full_leaves_nothing_to_ask(self) -> None:
        points = self.few_points()
        strategy = self.start(points)
        for point in points:
            strategy.tell(point, _outcome(self.problem, point))
        assert strategy.ask() is None

    def test_a_single_point_is_measured_and_is_the_answer(self) -> None:
        best = run_search(self.problem, self.points(), measure_formula, SearchSettings("exhaustive")).plan.configuration
        sizes = {best.batch_size or best.infer_batch_size, best.train_batch_size}
        points = [p for p in self.points() if p.mode == best.mode and p.batch_size in sizes]
        points = [p for p in points if p.task == "train" or p.batch_size in (best.batch_size, best.infer_batch_size)]
        result = self.search(points)
        assert result.plan.configuration.mode == best.mode
        assert result.plan.search.points_measured == len(points) == (2 if self.problem.kind in PAIRS else 1)

    def test_failed_measurements_are_told_with_their_reason_and_survived(self) -> None:
        points, asked, fates = self.points(), [], random.Random(3)

        def measure(point: Point) -> ProfileRow:
            asked.append(point)
            row, fate = measure_formula(point), len(asked) % 6
            if self.problem.kind in PAIRS and len(asked) > 1:  # in turn, one half of every pair might fail
                fate = fates.choice((1, 5, 0, 0, 0, 0, 0, 0))
            if fate in (1, 4):
                raise DeviceError("the sensor went away", "plug it in")
            return replace(row, minibatch_s=float("nan")) if fate == 5 else row

        result = run_search(self.problem, points, measure, SearchSettings(self.strategy, seed=1))
        failed = [row for row in result.trace.rows if row.minibatch_s is None]
        assert failed
        assert all(row.reason in ("the sensor went away", "minibatch_s is nan") for row in failed)
        assert all(row.objective is None and row.feasible is None for row in failed)
        assert len(set(asked)) == len(asked)

    def test_every_measurement_failing_ends_without_an_answer(self) -> None:
        def measure(point: Point) -> ProfileRow:
            return replace(measure_formula(point), minibatch_s=None, status="failed", reason="out of memory")

        message = ""
        try:
            run_search(self.problem, self.points(), measure, SearchSettings(self.strategy))
        except InfeasibleError as error:
            message = error.message
        assert "measurements succeeded; the last: out of memory" in message

    def test_never_measures_more_points_than_allowed(self) -> None:
        for max_points in (1, 2, 3, 5, 8, 13):
            try:
                measured = self.search(self.points(), max_points=max_points).plan.search.points_measured
            except InfeasibleError as error:
                measured = len(error.trace.rows)  # type: ignore[attr-defined]
            assert measured <= max_points

    def test_its_answer_keeps_the_budget_and_was_measured(self) -> None:
        for budget_w in self.budgets_w:
            problem = replace(self.problem, power_budget_w=budget_w)
            try:
                result = run_search(problem, self.points(), measure_formula, SearchSettings(self.strategy, seed=2))
            except InfeasibleError:
                continue
            figures = result.plan.measured
            assert figures.power_w is not None
            assert figures.power_w <= budget_w
            assert any(row.gpu_mhz == result.plan.configuration.mode.gpu_mhz for row in result.trace.rows)

    def test_copes_with_holes_in_the_grid_and_with_several_batch_sizes(self) -> None:
        points, asked = self.points(), "train" if self.problem.kind in ("train", "accuracy") else "infer"
        chosen = [point for point in points if point.task == asked][::7]
        points = [point for point in points if point.task != asked]
        points += [replace(point, batch_size=size) for point in chosen for size in (4, 16)]
        answer = self.search(points, seed=5).plan.configuration
        assert (answer.infer_batch_size or answer.batch_size) in (4, 16)

    def _walk(self, strategy: AskTell, steps: int) -> list[Suggestion]:
        """Return the suggestions of a strategy when every point is feasible."""
        asked = []
        for _ in range(steps):
            suggestion = strategy.ask()
            if suggestion is None:
                break
            asked.append(suggestion)
            strategy.tell(suggestion.point, _outcome(self.problem, suggestion.point))
        return asked


def _outcome(problem: Problem, point: Point) -> PointResult:
    """Return an outcome of the formula landscape: every point feasible; a half of two workloads is not judged alone."""
    row = measure_formula(point)
    assert row.minibatch_s is not None
    judgement = Judgement(point.batch_size / row.minibatch_s, True)
    if problem.kind == "infer":
        judgement = Judgement(-peak_latency_s(problem, point.batch_size, row.minibatch_s), True)
    elif problem.kind in PAIRS:
        judgement = Judgement(None, None)
    return PointResult(judgement, row.minibatch_s, row.power_w)


def _steps(result: SearchResult) -> list[tuple[object, ...]]:
    """Return the steps of a search without their times."""
    return [
        (row.step, row.batch_size, row.cpu_cores, row.cpu_mhz, row.gpu_mhz, row.mem_mhz, row.best, row.reason)
        for row in result.trace.rows
    ]

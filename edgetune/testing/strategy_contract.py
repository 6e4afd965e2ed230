"""What every search strategy promises, as a test class to subclass.

    class TestMine(StrategyContract):
        strategy = "mine"

runs the promises against the strategy of that name, on small landscapes whose times and powers follow a formula.
"""

# ruff: noqa: D102  (the name of a test is the promise it holds)

from __future__ import annotations

import os
import random
import subprocess
import sys
from dataclasses import replace
from itertools import product

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.errors import DeviceError, InfeasibleError
from edgetune.search.driver import SearchResult, run_search
from edgetune.search.problem import Judgement
from edgetune.search.space import Space
from edgetune.search.strategies import STRATEGIES, find_strategy
from edgetune.search.strategies.strategy import Outcome, Strategy, Suggestion

_CORES = (4, 8, 12)
_CPU_MHZ = (422.4, 1036.8, 1651.2, 2201.6)
_GPU_MHZ = (114.75, 420.75, 726.75, 1032.75, 1300.5)
_MEM_MHZ = (665.6, 2133.0, 3199.0)


def grid_points() -> list[Point]:
    """Return 180 training points: three core counts, four CPU clocks, five GPU clocks, three memory clocks."""
    return [
        Point("net", "train", 16, Mode(cores, cpu, gpu, mem))
        for cores, cpu, gpu, mem in product(_CORES, _CPU_MHZ, _GPU_MHZ, _MEM_MHZ)
    ]


def measure_formula(point: Point) -> ProfileRow:
    """Return what a board would measure whose time is a sum of c / knob and whose power is a sum of c x knob.

    Knobs in units of their largest value x: time = 0.05 / x_gpu + 0.03 / x_mem + 0.01 / x_cpu + 0.004 / x_cores s per
    16 samples, power = 10 + 20 x_gpu + 6 x_mem + 8 x_cpu + 2 x_cores W. Knobs left as found count as 1.
    """
    mode = point.mode
    cores, cpu = (mode.cpu_cores or 12) / 12, (mode.cpu_mhz or 2201.6) / 2201.6
    gpu, mem = (mode.gpu_mhz or 1300.5) / 1300.5, (mode.mem_mhz or 3199.0) / 3199.0
    time_s = (0.05 / gpu + 0.03 / mem + 0.01 / cpu + 0.004 / cores) * point.batch_size / 16
    row = ProfileRow(point.workload, point.task, point.batch_size, time_s)
    power_w = 10 + 20 * gpu + 6 * mem + 8 * cpu + 2 * cores
    return replace(row, power_w=power_w, **{name: getattr(mode, name) for name in mode.__slots__})


class StrategyContract:
    """The promises of a strategy. Subclass it in a test module and set ``strategy``."""

    strategy: str
    """The strategy's name in ``STRATEGIES``."""

    problem: Problem = Problem("train", power_budget_w=28.0)
    """A problem that the strategy solves and that the landscape has an answer to."""

    def start(self, points: list[Point], seed: int = 0) -> Strategy:
        """Return the strategy at its beginning, on these points."""
        return find_strategy(self.strategy)(Space.of(points), self.problem, seed=seed)

    def search(self, points: list[Point], *, seed: int = 0, max_points: int | None = None) -> SearchResult:
        """Return the result of a search of the formula landscape."""
        return run_search(
            self.problem, points, measure_formula, strategy=self.strategy, seed=seed, max_points=max_points
        )

    def test_is_in_the_table_under_its_name(self) -> None:
        assert STRATEGIES[self.strategy].name == self.strategy

    def test_asks_only_for_offered_points_and_never_twice(self) -> None:
        points = grid_points()
        asked = _walk(self.start(points), steps=len(points) + 5)
        assert asked
        assert {suggestion.point for suggestion in asked} <= set(points)
        assert len({suggestion.point for suggestion in asked}) == len(asked)

    def test_never_asks_for_what_it_was_told_before(self) -> None:
        points = grid_points()
        first = _walk(self.start(points), steps=4)
        strategy = self.start(points)
        for suggestion in first:
            strategy.tell(suggestion.point, _outcome(suggestion.point))
        again = _walk(strategy, steps=len(points))
        assert not {s.point for s in first} & {s.point for s in again}

    def test_speaks_in_native_types_and_says_why(self) -> None:
        for suggestion in _walk(self.start(grid_points()), steps=10):
            assert type(suggestion) is Suggestion
            assert type(suggestion.point) is Point
            assert suggestion.reason
            for value in suggestion.point.mode.knobs().values():
                assert type(value) in (int, float)
            for belief in (suggestion.predicted_minibatch_s, suggestion.predicted_power_w):
                assert belief is None or (type(belief) is float and belief > 0)

    def test_leaves_the_global_random_generators_alone(self) -> None:
        state = random.getstate()
        _walk(self.start(grid_points(), seed=3), steps=10)
        assert random.getstate() == state

    def test_same_seed_same_search_whatever_the_order_offered(self) -> None:
        points = grid_points()
        once, again = self.search(points, seed=7), self.search(points[::-1], seed=7)
        assert _steps(once) == _steps(again)

    def test_same_seed_same_search_in_another_process(self) -> None:
        code = (
            "from edgetune.testing import strategy_contract as c; from edgetune.artifacts.problem import Problem;"
            f"k = type('K', (c.StrategyContract,), dict(strategy={self.strategy!r}, problem={self.problem!r}));"
            "print(repr(c._steps(k().search(c.grid_points(), seed=7, max_points=12))))"
        )
        printed = []
        for hash_seed in ("1", "77"):
            environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
            run = subprocess.run(
                [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True
            )
            printed.append(run.stdout)
        assert printed[0] == printed[1] == repr(_steps(self.search(grid_points(), seed=7, max_points=12))) + "\n"

    def test_an_exhausted_space_ends_the_asking(self) -> None:
        points = grid_points()[:4]
        strategy = self.start(points)
        assert len(_walk(strategy, steps=10)) <= 4
        assert strategy.ask() is None

    def test_a_space_told_in_full_leaves_nothing_to_ask(self) -> None:
        points = grid_points()[:4]
        strategy = self.start(points)
        for point in points:
            strategy.tell(point, _outcome(point))
        assert strategy.ask() is None

    def test_a_single_point_is_measured_and_is_the_answer(self) -> None:
        point = min(grid_points(), key=lambda point: measure_formula(point).power_w or 0)
        result = self.search([point])
        assert result.plan.configuration.mode == point.mode
        assert result.plan.search.points_measured == 1

    def test_failed_measurements_are_told_with_their_reason_and_survived(self) -> None:
        points, asked = grid_points(), []

        def measure(point: Point) -> ProfileRow:
            asked.append(point)
            row = measure_formula(point)
            if len(asked) % 3 == 1:
                raise DeviceError("the sensor went away", "plug it in")
            if len(asked) % 3 == 2 and len(asked) % 2:
                return replace(row, minibatch_s=float("nan"))
            return row

        result = run_search(self.problem, points, measure, strategy=self.strategy, seed=1)
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
            run_search(self.problem, grid_points(), measure, strategy=self.strategy)
        except InfeasibleError as error:
            message = error.message
        assert "measurements succeeded; the last: out of memory" in message

    def test_never_measures_more_points_than_allowed(self) -> None:
        for max_points in (1, 2, 3, 5, 8, 13):
            try:
                measured = self.search(grid_points(), max_points=max_points).plan.search.points_measured
            except InfeasibleError as error:
                measured = len(error.trace.rows)  # type: ignore[attr-defined]
            assert measured <= max_points

    def test_its_answer_keeps_the_budget_and_was_measured(self) -> None:
        for budget_w in (20.0, 24.0, 31.0, 40.0, 60.0):
            problem = replace(self.problem, power_budget_w=budget_w)
            try:
                result = run_search(problem, grid_points(), measure_formula, strategy=self.strategy, seed=2)
            except InfeasibleError:
                continue
            figures = result.plan.measured
            assert figures.power_w is not None
            assert figures.power_w <= budget_w
            assert any(row.gpu_mhz == result.plan.configuration.mode.gpu_mhz for row in result.trace.rows)

    def test_copes_with_holes_in_the_grid_and_with_several_batch_sizes(self) -> None:
        points = [replace(point, batch_size=size) for point in grid_points()[::7] for size in (4, 16)]
        result = self.search(points, seed=5)
        assert result.plan.configuration.batch_size in (4, 16)


def _outcome(point: Point) -> Outcome:
    """Return an outcome of the formula landscape, every point feasible."""
    row = measure_formula(point)
    assert row.minibatch_s is not None
    return Outcome(Judgement(point.batch_size / row.minibatch_s, True), row.minibatch_s, row.power_w)


def _walk(strategy: Strategy, steps: int) -> list[Suggestion]:
    """Return what a strategy asks for when every point turns out well."""
    asked = []
    for _ in range(steps):
        suggestion = strategy.ask()
        if suggestion is None:
            break
        asked.append(suggestion)
        strategy.tell(suggestion.point, _outcome(suggestion.point))
    return asked


def _steps(result: SearchResult) -> list[tuple[object, ...]]:
    """Return what a search did, without what the clock said."""
    return [
        (row.step, row.batch_size, row.cpu_cores, row.cpu_mhz, row.gpu_mhz, row.mem_mhz, row.best, row.reason)
        for row in result.trace.rows
    ]

"""The loop: its promises about points and budgets, its trace, its plan, its errors, and power that wavers."""

import math
import random
from dataclasses import replace
from functools import partial
from itertools import count
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.strategy_contract import grid_points, measure_formula
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.errors import DeviceError, ExitCode, InfeasibleError, InputError, NotRestoredError
from edgetune.stages.search.answer import NoPowerError, NothingFeasibleError
from edgetune.stages.search.driver import LITTLE, SearchSettings, run_search
from edgetune.stages.search.problem import Z, is_confirmed
from edgetune.stages.search.strategies import STRATEGIES
from edgetune.stages.search.strategies.baselines import Exhaustive
from edgetune.stages.search.strategy import NO_HINTS, PointResult, Suggestion


def row_at(gpu_mhz: float, minibatch_s: float | None, power_w: float | None, **rest) -> ProfileRow:
    return ProfileRow("net", "train", 16, minibatch_s, gpu_mhz=gpu_mhz, power_w=power_w, **rest)


BUDGET_20 = Problem("train", power_budget_w=20.0)
TABLE = [row_at(1.0, 0.8, 12.3), row_at(2.0, 0.4, 15.0), row_at(3.0, 0.3, 20.0), row_at(4.0, 0.25, 30.0)]


def search(rows, problem: Problem | None = None, strategy: str = "exhaustive", **options):
    by_point = {row.point: row for row in rows}
    return run_search(problem or BUDGET_20, list(by_point), by_point.__getitem__, SearchSettings(strategy, **options))


# --- the answer


def test_the_plan_is_the_best_measured_point_within_budget():
    plan = search(TABLE, seed=4, inputs={"workload": {"name": "net"}}, conditions={"device": "test"}).plan
    assert plan.configuration.mode == Mode(gpu_mhz=3.0)
    assert plan.configuration.batch_size == 16
    assert plan.problem == Problem("train", power_budget_w=20.0)
    figures = plan.measured
    assert (figures.minibatch_s, figures.power_w, figures.latency_s) == (0.3, 20.0, None)
    assert figures.throughput_per_s == 16 / 0.3
    assert figures.energy_j == 0.3 * 20.0
    assert plan.predicted is None
    assert (plan.search.strategy, plan.search.points_measured, plan.search.seed) == ("exhaustive", 4, 4)
    assert (plan.header.kind, plan.header.version) == ("plan", 1)
    assert plan.header.inputs == {"workload": {"name": "net"}}
    assert plan.header.conditions == {"device": "test"}


@pytest.mark.parametrize(
    ("powers", "problem", "said"),
    [
        ((12.3, 15.0, 20.0, 30.0), {"power_budget_w": 20.0}, None),
        ((12.3, None, 20.0, None), {"power_budget_w": 20.0}, "2 of 4 points have no power"),
        ((12.3, None, 20.0, None), {}, None),
        ((12.3, None, 20.0, None), {"power_budget_w": 5.0}, "2 of 4 points have no power"),
    ],
)
def test_points_without_power_are_counted(powers, problem, said):
    rows = [replace(row, power_w=power_w) for row, power_w in zip(TABLE, powers, strict=True)]
    try:
        found = " / ".join(each.advice for each in search(rows, Problem("train", **problem)).plan.header.warnings)
    except NothingFeasibleError as error:
        found = error.message
    assert said in found if said else not found


def test_without_a_budget_the_fastest_wins_with_or_without_power():
    assert search(TABLE, Problem("train")).plan.measured.minibatch_s == 0.25
    blind = [replace(row, power_w=None) for row in TABLE]
    figures = search(blind, Problem("train")).plan.measured
    assert (figures.minibatch_s, figures.power_w, figures.energy_j) == (0.25, None, None)


def test_ties_go_to_the_lower_power_then_to_the_lower_knobs():
    rows = [row_at(1.0, 0.5, 19.0), row_at(2.0, 0.5, 18.0), row_at(3.0, 0.5, 18.0)]
    assert search(rows).plan.configuration.mode == Mode(gpu_mhz=2.0)
    assert search(rows[::-1]).plan.configuration.mode == Mode(gpu_mhz=2.0)


def test_the_least_energy_is_another_answer():
    assert search(TABLE, Problem("train", objective="energy")).plan.measured.minibatch_s == 0.4  # 6 J, tied: less power
    assert search(TABLE, Problem("train", objective="energy-delay")).plan.measured.minibatch_s == 0.3  # 1.8 J s


# --- the points


def test_no_point_is_measured_twice_and_the_budget_of_points_is_kept():
    asked: list[Point] = []

    def measure(point: Point) -> ProfileRow:
        asked.append(point)
        return measure_formula(point)

    offered = grid_points() + grid_points()
    run_search(Problem("train", power_budget_w=30.0), offered, measure, SearchSettings("random", max_points=25))
    assert len(asked) == len(set(asked)) == 25


@pytest.mark.parametrize("points", [0, -1])
def test_no_points_at_all_is_refused(points: int):
    with pytest.raises(InputError, match="at least 1"):
        search(TABLE, max_points=points)


class Stubborn:
    """Asks for the same point for ever."""

    name = "stubborn"
    learns_halves = False

    def __init__(self, space, problem, *, seed, hints):
        self.point = space.points[0]

    @classmethod
    def default_max_points(cls, problem):
        return None

    def ask(self):
        return Suggestion(self.point, "once more", predicted_minibatch_s=0.7, predicted_power_w=11.0)

    def tell(self, point, outcome):
        self.outcome = outcome


class Stranger(Stubborn):
    """Asks for what nobody offered."""

    def __init__(self, space, problem, *, seed, hints):
        self.point = Point("net", "train", 16, Mode(gpu_mhz=99.0))


@pytest.mark.parametrize(("strategy", "message"), [(Stubborn, "asked twice"), (Stranger, "not offered")])
def test_a_strategy_that_breaks_its_contract_is_stopped(monkeypatch, strategy, message):
    monkeypatch.setitem(STRATEGIES, "broken", strategy)
    with pytest.raises(RuntimeError, match=message):
        search(TABLE, strategy="broken")


@pytest.mark.parametrize("bad", [math.nan, math.inf, 0.0, -1.0])
def test_an_outcome_cannot_hold_a_figure_that_is_no_measurement(bad: float):
    for figures in ({"minibatch_s": bad}, {"minibatch_s": 1.0, "power_w": bad}):
        with pytest.raises(ValueError, match="finite number above zero"):
            PointResult(None, **figures)


# --- the expected gain of more measurements


class Forecasting(Exhaustive):
    """Measures every point, and expects less of the next ones each time: 4 %, 3 %, ..."""

    name = "forecasting"

    def __init__(self, space, problem, *, seed, hints=NO_HINTS):
        super().__init__(space, problem, seed=seed, hints=hints)
        self.told = 0

    def tell(self, point, result):
        self.told += 1
        super().tell(point, result)

    def expected_gain(self, count):
        assert count == 10
        return None if self.told == 0 else (5 - self.told) / 100


@pytest.fixture
def forecasting(monkeypatch):
    monkeypatch.setitem(STRATEGIES, "forecasting", Forecasting)
    return partial(search, TABLE, strategy="forecasting")


def test_the_plan_says_the_gain_to_expect_of_more_points(forecasting):
    assert forecasting(max_points=3).plan.search.expected_gain == 0.02
    assert forecasting().plan.search.expected_gain is None  # nothing is left to measure
    assert search(TABLE, strategy="random", max_points=3).plan.search.expected_gain is None


class InThrees(Exhaustive):
    """Measures every point, up to three at a time."""

    name = "in-threes"

    def ask_many(self, count):
        return [found for found in (self.ask() for _ in range(min(count, 3))) if found]


def test_points_asked_for_at_once_never_exceed_the_number_of_points(monkeypatch):
    monkeypatch.setitem(STRATEGIES, "in-threes", InThrees)
    assert [
        search(TABLE, strategy="in-threes", at_once=4, max_points=n).plan.search.points_measured for n in (1, 2, 4)
    ] == [1, 2, 4]
    whole = search(TABLE, strategy="in-threes", at_once=4)
    assert whole.plan.configuration == search(TABLE, strategy="exhaustive").plan.configuration
    assert search(TABLE, strategy="random", at_once=4, max_points=3).plan.search.points_measured == 3


@pytest.mark.parametrize(("gain", "points"), [(0.9 * LITTLE, 8), (1.1 * LITTLE, 10)])
def test_a_search_may_end_at_eight_of_ten_points(monkeypatch, gain, points):
    class Settled(Forecasting):
        @classmethod
        def default_max_points(cls, problem):
            return 10

        def expected_gain(self, count):
            return gain

    monkeypatch.setitem(STRATEGIES, "forecasting", Settled)
    rows = [row_at(float(i), 1.0 - 0.01 * i, 15.0) for i in range(1, 41)]
    ends = [
        search(rows, strategy="forecasting", **options).plan.search.points_measured
        for options in ({}, {"max_points": 10})
    ]
    assert ends == [points, 10]


# --- callbacks, clocks


def test_strategy_and_measurement_are_timed_apart():
    ticks = count()
    rows = search(TABLE, clock_s=lambda: float(next(ticks))).trace.rows
    assert [(row.strategy_s, row.measurement_s) for row in rows] == [(1.0, 1.0)] * 4
    told = search([replace(row, duration_s=33.0) for row in TABLE]).trace.rows
    assert {row.measurement_s for row in told} == {33.0}


# --- the trace


def test_failures_are_kept_counted_and_explained():
    def measure(point: Point) -> ProfileRow:
        if point.mode.gpu_mhz == 3.0:
            raise DeviceError("the sensor went away", "plug it in")
        return next(row for row in TABLE if row.point == point)

    result = run_search(BUDGET_20, [row.point for row in TABLE], measure, SearchSettings("exhaustive"))
    failed = result.trace.rows[2]
    assert (failed.minibatch_s, failed.objective, failed.feasible) == (None, None, None)
    assert failed.reason == "the sensor went away"
    assert result.plan.search.points_measured == 4
    assert result.plan.measured.minibatch_s == 0.4


def test_a_device_left_not_restored_ends_the_search():
    def measure(point: Point) -> ProfileRow:
        raise NotRestoredError("the GPU clock is still set", "edgetune device restore")

    with pytest.raises(NotRestoredError):
        run_search(Problem("train"), [TABLE[0].point], measure, SearchSettings("exhaustive"))


# --- known points


def test_known_points_are_told_first_and_not_counted():
    measured = []
    by_point = {row.point: row for row in TABLE}

    def measure(point: Point) -> ProfileRow:
        measured.append(point.mode.gpu_mhz)
        return by_point[point]

    result = run_search(BUDGET_20, list(by_point), measure, SearchSettings("exhaustive", known=TABLE[2:0:-1]))
    assert measured == [1.0, 4.0]
    steps = [(row.gpu_mhz, row.source) for row in result.trace.rows]
    assert steps == [(2.0, "known"), (3.0, "known"), (1.0, "measured"), (4.0, "measured")]
    assert (result.plan.search.points_measured, result.plan.search.known_points) == (2, 2)
    assert result.plan.measured.minibatch_s == 0.3


def test_the_last_known_row_of_a_point_counts_and_invalid_rows_are_measured_again():
    known = [
        replace(TABLE[2], minibatch_s=9.0),
        replace(TABLE[2], minibatch_s=0.2),  # newer
        replace(TABLE[0], power_w=None),  # cannot be judged
        replace(TABLE[1], status="throttled"),
        row_at(77.0, 0.1, 5.0),  # not offered
    ]
    result = search(TABLE, known=known)
    assert result.plan.search.known_points == 1
    assert result.plan.measured.minibatch_s == 0.2
    assert result.plan.search.points_measured == 3


# --- no answer


def infeasible(rows, problem: Problem, **options) -> InfeasibleError:
    with pytest.raises(InfeasibleError) as caught:
        search(rows, problem, **options)
    return caught.value


def test_an_infeasible_budget_names_the_nearest_that_is():
    error = infeasible(TABLE, Problem("train", power_budget_w=9.0))
    assert error.message == "no offered point draws at most 9 W; the nearest of all 4 draws 12.3 W"
    assert (error.hint, error.exit_code) == ("--power-budget 13W", ExitCode.INFEASIBLE)
    assert [row.feasible for row in error.trace.rows] == [False] * 4
    error = infeasible(TABLE, Problem("train", power_budget_w=9.0), max_points=2)
    assert error.hint == "--power-budget 13W, or more points"


def test_the_suggested_budget_would_be_met_margin_included():
    error = infeasible(TABLE, Problem("train", power_budget_w=9.0, margin=0.1))
    assert error.hint == "--power-budget 14W"  # 12.3 / 0.9 = 13.67
    assert search(TABLE, Problem("train", power_budget_w=14.0, margin=0.1)).plan.measured.power_w == 12.3


def test_an_inference_problem_names_every_constraint_the_nearest_point_breaks():
    rows = [ProfileRow("net", "infer", 1, 0.05, gpu_mhz=1.0, power_w=24.0)]
    problem = Problem("infer", power_budget_w=20.0, latency_budget_s=0.04, arrival_rate_per_s=30.0)
    error = infeasible(rows, problem)
    assert error.hint == "--power-budget 24W --arrival-rate 20/s --latency-budget 50ms"
    eased = Problem("infer", power_budget_w=24.0, latency_budget_s=0.05, arrival_rate_per_s=20.0)
    assert search(rows, eased).plan.measured.latency_s == 0.05


def test_no_more_is_denied_than_is_true():
    rows = [ProfileRow("net", "infer", 1, 0.05, gpu_mhz=1.0, power_w=10.0)]
    rows += [ProfileRow("net", "infer", 1, 0.01, gpu_mhz=2.0, power_w=21.0)]
    problem = Problem("infer", power_budget_w=20.0, latency_budget_s=0.04, arrival_rate_per_s=30.0)
    error = infeasible(rows, problem)
    assert error.message == (  # one of them does draw less, the other does answer in time
        "no offered point draws at most 20 W and answers within 40 ms and keeps up; the nearest of all 2 draws 21 W"
    )
    assert error.hint == "--power-budget 21W"


def test_a_table_without_power_cannot_answer_a_power_budget():
    blind = [replace(row, power_w=None) for row in TABLE]
    with pytest.raises(NoPowerError) as caught:
        search(blind)
    assert caught.value.exit_code == ExitCode.USAGE
    assert caught.value.message.startswith("a power budget cannot be checked, for no measured point has a power figure")
    assert len(caught.value.trace.rows) == 4
    with pytest.raises(NoPowerError, match="energy cannot be checked"):
        search(blind, Problem("train", objective="energy"))


# --- any table at all

_figures = st.tuples(
    st.floats(0.001, 10) | st.sampled_from([math.nan, None]), st.floats(1, 60) | st.sampled_from([math.nan, None])
)


@patch("edgetune.stages.search.strategies.power_train_network.EPOCHS", 5)  # whatever a network learns, this holds
@settings(deadline=None, max_examples=80)
@given(
    table=st.dictionaries(
        st.tuples(st.integers(1, 4), st.integers(1, 4), st.sampled_from([4, 16])), _figures, min_size=1
    ),
    budget_w=st.floats(5, 60),
    margin=st.floats(0, 0.3),
    strategy=st.sampled_from(sorted(STRATEGIES)),
    max_points=st.none() | st.integers(1, 20),
    seed=st.integers(0, 5),
)
def test_on_any_table_the_answer_is_measured_within_budget_and_no_better_than_the_truth(
    *, table, budget_w, margin, strategy, max_points, seed
):
    rows = [
        ProfileRow("net", "train", size, time_s, cpu_mhz=float(cpu), gpu_mhz=float(gpu), power_w=power_w)
        for (cpu, gpu, size), (time_s, power_w) in table.items()
    ]
    real = [row for row in rows if row.minibatch_s and row.power_w and math.isfinite(row.minibatch_s * row.power_w)]
    feasible = [row for row in real if row.power_w <= budget_w * (1 - margin)]
    problem = Problem("train", power_budget_w=budget_w, margin=margin)
    try:
        result = search(rows, problem, strategy, max_points=max_points, seed=seed)
    except (InfeasibleError, NoPowerError) as error:
        assert not (feasible and strategy == "exhaustive" and max_points is None)
        steps = error.trace.rows
    else:
        best = max(row.batch_size / row.minibatch_s for row in feasible)
        figures, steps = result.plan.measured, result.trace.rows
        assert figures.power_w <= budget_w * (1 - margin)
        assert figures.throughput_per_s <= best
        if strategy == "exhaustive" and max_points is None:
            assert figures.throughput_per_s == best
        bests = [row.best for row in steps if row.best is not None]
        assert bests == sorted(bests)
        assert bests[-1] == figures.throughput_per_s
    assert len(steps) <= (max_points or len(rows))
    assert len({(row.cpu_mhz, row.gpu_mhz, row.batch_size) for row in steps}) == len(steps)


def test_nothing_but_failures_says_why():
    failed = [replace(row, minibatch_s=None, status="failed", reason="out of memory") for row in TABLE]
    with pytest.raises(NothingFeasibleError, match="none of the 4 measurements succeeded; the last: out of memory"):
        search(failed)


# --- power that wavers


BUDGET_30 = Problem("train", power_budget_w=30.0)
NOISE = 0.015


def rows_of(*powers_w: float) -> list[ProfileRow]:
    return [row_at(100.0 * (i + 1), 1.0 / (i + 1), power_w) for i, power_w in enumerate(powers_w)]


def wavering(rows: list[ProfileRow], max_points: int, **options):
    return search(rows, BUDGET_30, power_noise=NOISE, max_points=max_points, **options)


def answered_mhz(result) -> float | None:
    return result.plan.configuration.mode.gpu_mhz


def test_an_interval_narrows_with_the_root_of_the_readings():
    just_sure_w = 30.0 / (1 + Z * NOISE / 2)  # of four readings
    assert is_confirmed(BUDGET_30, just_sure_w * 0.9999, 4, NOISE)
    assert not is_confirmed(BUDGET_30, just_sure_w * 0.9999, 3, NOISE)
    assert is_confirmed(BUDGET_30, 29.999, 1, 0.0)
    assert not is_confirmed(replace(BUDGET_30, margin=0.1), 28.0, 1, 0.0001)


def test_the_best_point_is_measured_again_until_its_power_is_sure():
    result = wavering(rows_of(20.0, 29.48), 9)  # 29.48 W needs three readings at 1.5 %
    assert [row.gpu_mhz for row in result.trace.rows] == [100.0, 200.0, 200.0, 200.0]
    assert (answered_mhz(result), result.plan.search.points_measured) == (200.0, 4)


def test_a_point_that_could_not_be_confirmed_gives_way_to_the_next():
    assert answered_mhz(wavering(rows_of(20.0, 28.0, 29.95), 12)) == 200.0  # the last would need a thousand readings
    with pytest.raises(InfeasibleError, match=r"29\.95"):
        wavering(rows_of(29.95), 5)


def test_readings_known_from_earlier_make_as_sure_as_new_ones():
    rows = rows_of(20.0, 29.5)
    result = wavering(rows, 0, known=[*rows, rows[1], rows[1]])  # its three readings are enough
    assert (answered_mhz(result), result.plan.search.points_measured) == (200.0, 0)
    found = wavering(rows_of(29.5, 29.0), 1, known=rows_of(29.5))  # the one point goes to what is known and not sure
    assert [row.source for row in found.trace.rows] == ["known", "measured"]


def read_in_turn(*powers_w: float | None):
    """Search two points whose readings are these, in turn; ``None`` fails."""
    table, readings = {row.point: row for row in rows_of(20.0, 29.5)}, iter(powers_w)

    def measure(point):
        power_w = next(readings)
        failed = {"minibatch_s": None, "status": "failed", "reason": "hot"}
        return replace(table[point], **({"power_w": power_w} if power_w else failed))

    return run_search(BUDGET_30, list(table), measure, SearchSettings("exhaustive", 6, power_noise=NOISE))


def test_a_reading_that_changes_the_mind_takes_the_answer_back():
    assert answered_mhz(read_in_turn(20.0, 29.5, 31.5, 31.5)) == 100.0  # within the budget at first, not in the mean


@pytest.mark.parametrize("strategy", ["random", "roofline"])
def test_with_wavering_readings_answers_still_keep_the_budget(strategy):
    points, over, solved = grid_points(), 0, 0
    for seed in range(30):
        drawn = random.Random(seed)

        def measure(point, drawn=drawn):
            row = measure_formula(point)
            return replace(row, power_w=row.power_w * (1 + drawn.gauss(0, NOISE)))

        problem = Problem("train", power_budget_w=20.0 + seed)
        try:
            plan = run_search(problem, points, measure, SearchSettings(strategy, 14, seed, NOISE)).plan
        except InfeasibleError:
            continue
        solved += 1
        true_w = next(measure_formula(p).power_w for p in points if p.mode == plan.configuration.mode)
        over += true_w > problem.power_budget_w
    assert solved >= 20
    assert over <= 1

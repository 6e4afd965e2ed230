"""The physics behind roofline, the hypotheses beside it weighed by evidence, and the worth of a measurement."""

import math
from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest
from scipy.special import ndtr

from contracts.strategy_contract import grid_points, measure_formula
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.stages.search.driver import SearchSettings, run_search
from edgetune.stages.search.model.beliefs import Belief, Beliefs
from edgetune.stages.search.model.board_laws import DATA, PARTS, SLOPES, PowerModel, TimeModel
from edgetune.stages.search.model.coordinates import ALL_AT_ONCE, MOST_PLACES, Coordinates, OpenPoints, relative_curves
from edgetune.stages.search.model.fit import NO_STEPS, Hypothesis, Kernel, Prior, Steps, closeness, fit
from edgetune.stages.search.model.gain import Worth, worth
from edgetune.stages.search.model.hypotheses import BLOCK, MOST_RELATED
from edgetune.stages.search.problem import judge
from edgetune.stages.search.space import Space
from edgetune.stages.search.strategies import roofline
from edgetune.stages.search.strategy import LEAST_POINTS, NO_HINTS, Hints, PointResult


def capped_points() -> list[Point]:
    return [Point("net", "train", b, Mode(power_limit_w=float(w))) for b in (8, 64) for w in (100, 150, 200, 250)]


def numeric_slopes(law, theta: np.ndarray) -> np.ndarray:
    steps = 1e-6 * np.eye(len(theta))
    return np.stack([(law((theta + step)[None])[0][0] - law((theta - step)[None])[0][0]) / 2e-6 for step in steps])


@pytest.mark.parametrize("points", [grid_points()[::13], capped_points()], ids=["clocks", "cap"])
def test_the_slopes_of_both_laws_are_those_of_the_laws(points):
    space = Space.of(points)
    coordinates = Coordinates.of(space)
    rows = np.arange(len(space.points))
    random = np.random.default_rng(0)
    time = TimeModel.of(coordinates)
    theta = time.prior.mean + 0.3 * random.normal(size=len(time.prior.mean))
    assert time.law(rows)(theta[None])[1][0] == pytest.approx(numeric_slopes(time.law(rows), theta), abs=1e-6)
    power = PowerModel.of(coordinates)
    caps = (
        np.log([point.mode.power_limit_w / 150 for point in space.points]) if "power_limit_w" in space.names else None
    )
    law = power.law(rows, time.busy(theta, rows), caps)
    coefficients = power.prior.mean + 0.3 * random.normal(size=len(power.prior.mean))
    assert law(coefficients[None])[1][0] == pytest.approx(numeric_slopes(law, coefficients), abs=1e-6)


def test_no_part_is_ever_busier_than_the_whole_and_a_lone_part_is_always_busy():
    coordinates = Coordinates.of(Space.of(grid_points()))
    model = TimeModel.of(coordinates)
    rows = np.arange(len(coordinates.levels))
    assert model.busy(model.prior.mean, rows).max() <= 1.0
    alone = model.prior.mean.copy()
    alone[2 : 2 + PARTS] = -30.0
    alone[2] = 0.0
    assert model.busy(alone, rows)[0] == pytest.approx(np.ones(len(rows)))


def test_correlation_is_one_at_home_and_positive_definite():
    places = np.random.default_rng(1).uniform(size=(30, 4))
    matrix = closeness(places, places)
    assert np.diag(matrix) == pytest.approx(np.ones(30))
    assert np.linalg.eigvalsh(matrix).min() > -1e-9
    assert closeness(np.zeros((2, 0)), np.zeros((3, 0))) == pytest.approx(np.ones((2, 3)))


def test_a_linear_law_is_learnt_as_by_least_squares():
    # With wide priors and no discrepancy in the data, the fit is the line itself.
    x = np.linspace(0, 1, 12)
    slopes = np.stack([np.ones(12), x])

    def law(theta):
        return theta @ slopes, np.tile(slopes, (len(theta), 1, 1))

    wide = Hypothesis(lambda rows: law, Prior(np.zeros(2), np.full(2, 50.0)))
    learnt = fit(wide, law, x[:, None], np.zeros((12, 1), dtype=bool), 2.0 - 3.0 * x)
    assert learnt.theta[0] == pytest.approx([2.0, -3.0], abs=0.02)
    (mean,), (sd,) = learnt.predict(law, x[:, None], np.zeros((12, 1), dtype=bool))
    assert mean == pytest.approx(2.0 - 3.0 * x, abs=0.01)
    assert sd.max() < 0.02


def test_a_step_is_what_a_further_coefficient_with_its_prior_would_be():
    x, unit = np.linspace(0, 1, 9), np.linspace(0, 1, 9)[:, None]
    y = 0.3 - 0.2 * x - 0.4 * (x >= 0.6) + 0.01 * np.sin(20 * x)
    above = np.stack([np.zeros(9), x >= 0.3, x >= 0.6], axis=1).astype(bool)
    steps = Steps(np.array([0.7, 0.1, 0.2]), 0.25)

    def law_of(*columns):
        basis = np.stack([np.ones(9), x, *columns]).astype(float)
        return lambda theta: (theta @ basis, np.tile(basis, (len(theta), 1, 1)))

    kernel, noises, there = Kernel(0.5, 0.8, (0.03,)), (0.01,), np.zeros((9, 1), dtype=bool)
    stepping = Hypothesis(lambda rows: law_of(), Prior(np.zeros(2), np.ones(2)), kernel, steps=steps)
    found = fit(stepping, law_of(), unit, above, y, noises=noises)
    for part, columns in enumerate(((), (above[:, 1],), (above[:, 2],))):
        prior = Prior(np.zeros(2 + len(columns)), np.array([1.0, 1.0, *[0.25] * len(columns)]))
        whole = fit(replace(stepping, prior=prior, steps=NO_STEPS), law_of(*columns), unit, there, y, noises=noises)
        for figures, others in zip(
            found.predict(law_of(), unit, above, (part,)), whole.predict(law_of(*columns), unit, there), strict=True
        ):
            assert figures == pytest.approx(others, abs=1e-6)
        log_chance = math.log(steps.chances[part])
        assert found.log_evidence[part] - log_chance == pytest.approx(whole.log_evidence[0], abs=1e-6)
    assert found.log_evidence.argmax() == 2


def test_places_of_steps_are_between_the_levels_of_each_knob():
    coordinates = Coordinates.of(Space.of(big_grid()))
    tops = coordinates.levels.max(axis=0)
    assert coordinates.above.shape[1] == 1 + sum(min(top, MOST_PLACES) for top in tops)
    assert not coordinates.above[:, 0].any()
    assert (coordinates.above[:, 1:].mean(axis=0) > 0).all()
    chances = coordinates.step_chances(0.1)
    assert chances.sum() == pytest.approx(1.0)
    assert chances[1:].sum() == pytest.approx(0.1 * len(tops))
    assert coordinates.step_chances(0.9)[0] > 0  # of many knobs


@pytest.mark.parametrize("count", [5, 8, 12])
def test_chances_of_keeping_a_budget_are_calibrated(count):
    # Boards drawn from the model's own kind of physics, with a smooth distortion the law cannot express.
    space = Space.of(grid_points())
    coordinates = Coordinates.of(space)
    rows = np.arange(len(space.points))
    thought, true = [], []
    for seed in range(24):
        random = np.random.default_rng(seed)
        waves, phases = random.normal(0, 1.5, (40, 4)), random.uniform(0, 2 * math.pi, 40)
        field = np.cos(coordinates.unit @ waves.T + phases) @ random.normal(size=40)
        field *= 0.06 / field.std()
        time_s = np.array([measure_formula(point).minibatch_s for point in space.points])
        power_w = np.array([measure_formula(point).power_w for point in space.points]) * np.exp(field)
        chosen = random.choice(rows, count, replace=False)
        beliefs = Beliefs(coordinates, None)
        beliefs.learn(chosen, time_s[chosen], power_w[chosen])
        belief = beliefs.about(rows)
        for budget_w in (20.0, 26.0, 32.0):
            thought.append(ndtr((math.log(budget_w) - belief.log_power) / np.hypot(belief.power_sd, 0.01)))
            true.append(power_w <= budget_w)
    chance, within = np.concatenate(thought), np.concatenate(true)
    for low, high, tolerance in ((0.9, 0.99, 0.04), (0.01, 0.1, 0.03), (0.3, 0.7, 0.08)):
        among = (chance > low) & (chance < high)
        assert among.sum() > 50
        assert within[among].mean() == pytest.approx(chance[among].mean(), abs=tolerance)


def test_a_power_limit_that_holds_is_what_is_drawn():
    space = Space.of(capped_points())
    caps = np.log([point.mode.power_limit_w for point in space.points])
    rows = np.arange(8)
    large = np.array([point.batch_size == 64 for point in space.points])
    power_w = np.where(large, np.exp(caps), 90.0)
    time_s = np.where(large, 1.0 * (200 / (np.exp(caps) - 50)) ** 0.5, 0.2)
    for chosen, tolerance in (([0, 1, 6, 7], 0.1), ([0, 1, 4, 5, 6, 7], 0.03)):
        beliefs = Beliefs(Coordinates.of(space), caps)
        beliefs.learn(rows[chosen], time_s[chosen], power_w[chosen])
        assert np.exp(beliefs.about(rows).log_power) == pytest.approx(power_w, rel=tolerance)


def test_a_mean_of_many_readings_is_believed_more_than_a_single_one():
    x = np.zeros((2, 1))

    def law(theta):
        return np.repeat(theta, 2, axis=1), np.ones((len(theta), 1, 2))

    wide, nowhere = Hypothesis(lambda rows: law, Prior(np.zeros(1), np.full(1, 50.0))), np.zeros((2, 1), dtype=bool)
    readings = np.array([1.0, 9.0])
    learnt = fit(wide, law, x, nowhere, np.array([0.0, 0.3]), readings=readings, noises=(0.05,))
    assert learnt.predict(law, x, nowhere)[0][0] == pytest.approx([0.27, 0.27], abs=1e-3)


def test_noise_that_is_not_told_is_found_in_the_measurements():
    space = Space.of(grid_points())
    random, rows = np.random.default_rng(0), np.arange(len(space.points))
    time_s, power_w = np.array([(row.minibatch_s, row.power_w) for row in map(measure_formula, space.points)]).T
    chosen = random.choice(rows, 30, replace=False)
    deviations = []
    for noise in (0.0, 0.03):
        beliefs = Beliefs(Coordinates.of(space), None)
        beliefs.learn(chosen, time_s[chosen] * np.exp(noise * random.normal(size=30)), power_w[chosen])
        belief = beliefs.about(rows)
        deviations.append(belief.time_sd.mean())
        assert np.abs(belief.log_time - np.log(time_s)).mean() < 0.01 + noise / 2
    assert deviations[1] > 2 * deviations[0]


def test_data_are_loaded_by_the_cores_beside_the_first_and_no_more_than_there_are_workers():
    space = Space.of([Point("net", "train", 16, Mode(cores, 1000.0, 500.0, None)) for cores in range(1, 13)])
    model = TimeModel.of(Coordinates.of(space))
    theta = model.prior.mean.copy()
    theta[2 : 2 + PARTS] = -20.0
    theta[2 + DATA] = 0.0
    time_s = np.exp(model.law(np.arange(12))(theta[None])[0][0])
    one, two, three, *_, eleven, twelve = time_s
    slope = -SLOPES[DATA, "cpu_cores"][0]
    assert one == pytest.approx(two)
    assert two / three == pytest.approx(2**slope, rel=0.02)
    assert two / twelve == pytest.approx(4**slope, rel=0.02)
    assert eleven == pytest.approx(twelve, rel=0.005)


def big_grid() -> list[Point]:
    cores, clocks = range(1, 9), range(100, 1100, 100)
    return [
        Point("net", "train", b, Mode(c, float(f), float(g), None))
        for b, c, f, g in product((1, 4, 16), cores, clocks, clocks)
    ]


@pytest.mark.parametrize("peak", [(0.2, 0.9, 0.4, 0.5), (1.0, 1.0, 1.0, 1.0), (0.0, 0.5, 0.0, 1.0)])
def test_coarse_to_fine_finds_the_top_of_a_smooth_hill(peak):
    coordinates = Coordinates.of(Space.of(big_grid()))
    candidates = OpenPoints(coordinates)
    scored = 0

    def score(rows: np.ndarray) -> np.ndarray:
        nonlocal scored
        scored += len(rows)
        return -((coordinates.unit[rows] - np.array(peak)) ** 2).sum(axis=1)

    assert len(coordinates.levels) > ALL_AT_ONCE
    row, value = candidates.best(score)
    assert value == pytest.approx(score(np.arange(len(coordinates.levels))).max())
    assert scored - len(coordinates.levels) < 1700
    candidates.close(row)
    assert candidates.best(score)[0] != row


def test_the_belief_of_a_point_is_independent_of_the_other_points_of_a_query():
    space = Space.of(big_grid())
    rows = np.arange(len(space.points))
    assert len(rows) > BLOCK
    beliefs = Beliefs(Coordinates.of(space), None)
    measured = [measure_formula(space.points[row]) for row in rows[::500]]
    beliefs.learn(rows[::500], np.array([m.minibatch_s for m in measured]), np.array([m.power_w for m in measured]))
    places = [0, BLOCK - 1, BLOCK, len(rows) - 1]
    whole, alone = beliefs.about(rows), [beliefs.about(rows[row : row + 1]) for row in places]
    for name in ("log_time", "time_sd", "log_power", "power_sd"):
        figures = getattr(whole, name)
        assert figures.shape == rows.shape
        assert [getattr(one, name)[0] for one in alone] == pytest.approx(figures[places])


def belief_of(log_time: float, log_power: float, sd: float = 0.1) -> Belief:
    return Belief(*(np.array([value]) for value in (log_time, sd, log_power, sd)))


def test_the_chance_of_keeping_the_power_budget_is_that_of_the_normal_distribution():
    found = worth(Problem("train", power_budget_w=20.0, margin=0.1), belief_of(0.0, math.log(18.0)), np.ones(1))
    assert found.chance[0] == pytest.approx(0.5)
    found = worth(
        Problem("train", power_budget_w=20.0), belief_of(0.0, math.log(20.0) - math.hypot(0.1, 0.01)), np.ones(1)
    )
    assert found.chance[0] == pytest.approx(0.8413, abs=1e-4)


def test_expected_gain_has_its_closed_form_at_the_best():
    # At the best so far, E[max(0, best - x)] of a normal is sd / sqrt(2 pi).
    found = Worth(np.ones(1), np.ones(1), np.zeros(1), np.full(1, 0.2)).score(0.0)
    assert found[0] == pytest.approx(math.expm1(0.2 / math.sqrt(2 * math.pi)))
    assert Worth(np.ones(1), np.ones(1), np.full(1, 5.0), np.full(1, 0.1)).score(0.0)[0] == pytest.approx(0.0, abs=1e-9)


def test_before_anything_is_feasible_the_likeliest_and_then_the_fastest_is_worth_most():
    chances = np.array([0.9, 0.9, 0.1])
    scores = Worth(chances, np.ones(3), np.array([0.0, 1.0, 0.0]), np.full(3, 0.1)).score(None)
    assert list(np.argsort(-scores)) == [0, 1, 2]


SPACE = Space.of(grid_points())
COORDINATES = Coordinates.of(SPACE)
ROWS = {point: measure_formula(point) for point in SPACE.points}
BUDGETS_W = tuple(float(budget_w) for budget_w in range(20, 47, 2))


def relative(rows: list[ProfileRow] | None = None, time_s: float = 2.0, power_w: float = 1.1) -> list[ProfileRow]:
    """Another network on the same board: so many times the time and power of some rows."""
    rows = list(ROWS.values()) if rows is None else rows
    return [
        replace(row, workload="other", minibatch_s=row.minibatch_s * time_s, power_w=row.power_w * power_w)
        for row in rows
    ]


def unlike() -> list[ProfileRow]:
    """A program bound by the CPU clock, which the other clocks neither make faster nor let draw more power."""
    shares = {point: point.mode.cpu_mhz / 2201.6 for point in ROWS}
    return [
        replace(row, workload="other", minibatch_s=0.1 / shares[point], power_w=12 + 10 * shares[point])
        for point, row in ROWS.items()
    ]


def mean_excess(rows: dict[Point, ProfileRow], hints: Hints, points: int, at_once: int = 1) -> float:
    """Return the mean excess over the budgets of a search by ``roofline``."""
    excess = []
    for budget_w in BUDGETS_W:
        settings = SearchSettings("roofline", max_points=points, at_once=at_once, hints=hints)
        plan = run_search(Problem("train", power_budget_w=budget_w), list(rows), rows.__getitem__, settings).plan
        assert plan.measured.power_w <= budget_w
        best = min(row.minibatch_s for row in rows.values() if row.power_w <= budget_w)
        excess.append(plan.measured.minibatch_s / best - 1)
    return float(np.mean(excess))


def test_a_relative_on_another_grid_is_interpolated():
    left_out = {row.gpu_mhz for row in ROWS.values()} - {726.75}
    found = relative_curves(SPACE.points, relative([row for row in ROWS.values() if row.gpu_mhz in left_out]))
    true = np.log([2 * ROWS[point].minibatch_s for point in SPACE.points])
    assert np.abs(found.log_times[0] - true).max() < 0.2
    assert np.abs(found.log_times[0] - true).mean() < 0.02


@pytest.mark.parametrize(
    "rows",
    [
        relative()[: LEAST_POINTS - 1],
        [replace(row, cpu_cores=4) for row in relative()],
        [replace(row, minibatch_s=None, status="failed") for row in relative()],
        [replace(row, minibatch_s=math.nan) for row in relative()],
    ],
    ids=["too few rows", "other knobs", "failed", "not a number"],
)
def test_what_says_nothing_has_no_curve(rows):
    assert relative_curves(SPACE.points, rows).log_times.size == 0


@pytest.mark.parametrize(("rows", "alike"), [(relative(), True), (unlike(), False)])
def test_evidence_decides_how_much_a_relative_counts(rows, alike):
    beliefs = Beliefs(COORDINATES, None, relatives=relative_curves(SPACE.points, rows))
    chosen = np.random.default_rng(0).choice(len(SPACE.points), 8, replace=False)
    times_s, powers_w = np.array([(row.minibatch_s, row.power_w) for row in map(ROWS.get, SPACE.points)]).T
    beliefs.learn(chosen, times_s[chosen], powers_w[chosen])
    for blend in (beliefs._time, beliefs._power):
        assert (blend.weights[-1] > 0.5 * blend.weights.sum()) == alike


def test_of_many_relatives_those_that_fit_the_measurements_are_used():
    rows = [replace(row, workload=f"unlike{i}") for i in range(20) for row in unlike()] + relative()
    beliefs = Beliefs(COORDINATES, None, relatives=relative_curves(SPACE.points, rows))
    times_s, powers_w = np.array([(row.minibatch_s, row.power_w) for row in map(ROWS.get, SPACE.points)]).T
    for count in (1, 8):
        chosen = np.random.default_rng(0).choice(len(SPACE.points), count, replace=False)
        beliefs.learn(chosen, times_s[chosen], powers_w[chosen])
    physics = (2, 3)
    for blend, others in zip((beliefs._time, beliefs._power), physics, strict=True):
        assert len(blend.hypotheses) == others + MOST_RELATED + 1
        assert blend.weights[-2] > 0.2 * blend.weights.sum()  # the one that is alike, given last
        assert blend.weights[-2] > 10 * blend.weights[-2 - MOST_RELATED + 1 : -2].max()


def test_three_measurements_suffice_where_the_relative_is_alike():
    assert mean_excess(ROWS, Hints(relatives=tuple(relative())), 3) < 0.04


@pytest.mark.parametrize("points", [6, pytest.param(10, marks=pytest.mark.slow)])
def test_an_unlike_relative_costs_little(points):
    without = mean_excess(ROWS, NO_HINTS, points)
    assert mean_excess(ROWS, Hints(relatives=tuple(unlike())), points) < without + 0.03


def non_monotone() -> dict[Point, ProfileRow]:
    """Rows of a board whose power decreases by a third from the lowest CPU clock to the highest."""
    clocks = sorted({point.mode.cpu_mhz for point in ROWS})
    return {
        point: replace(row, power_w=row.power_w * (1.0, 0.9, 0.78, 0.67)[clocks.index(point.mode.cpu_mhz)])
        for point, row in ROWS.items()
    }


def test_low_budgets_are_met_at_high_clocks_where_power_decreases_with_the_clock():
    assert mean_excess(non_monotone(), NO_HINTS, 11) < 0.03


AT_28_W = Problem("train", power_budget_w=28.0)


def tell(searcher, point: Point, problem: Problem = AT_28_W) -> Point:
    row = ROWS[point]
    searcher.tell(point, PointResult(judge(problem, row), row.minibatch_s, row.power_w))
    return point


@pytest.mark.parametrize("budget_w", BUDGETS_W)
def test_the_first_points_lie_far_from_one_another(budget_w):
    problem = Problem("train", power_budget_w=budget_w)
    searcher = roofline.RooflineSearch(SPACE, problem, seed=0)
    first = [tell(searcher, searcher.ask().point, problem) for _ in range(3)]
    places = [COORDINATES.unit[SPACE.rows[SPACE.levels[point]]] for point in first]
    assert min(np.linalg.norm(a - b) for a, b in combinations(places, 2)) > 0.4


def test_the_expected_gain_shrinks_to_nothing_as_the_search_goes_on():
    strategy, gains = roofline.RooflineSearch(SPACE, AT_28_W, seed=0), []
    assert strategy.expected_gain(10) is None
    while len(gains) < 12 and (suggestion := strategy.ask()) is not None:
        tell(strategy, suggestion.point)
        gains.append(strategy.expected_gain(10))
    known = [gain for gain in gains if gain is not None]
    assert known[0] > 0.02
    assert known[-1] < 0.003


@pytest.mark.slow
def test_four_points_at_a_time_cost_at_most_a_third_more_measurements():
    assert mean_excess(ROWS, NO_HINTS, 13, at_once=4) <= mean_excess(ROWS, NO_HINTS, 10) + 0.001
    assert mean_excess(non_monotone(), NO_HINTS, 13, at_once=4) < 0.03


def test_points_asked_for_at_once_differ_and_are_at_most_half_as_many_as_were_measured():
    strategy = roofline.RooflineSearch(SPACE, AT_28_W, seed=0)
    asked, sizes = [], []
    while len(asked) < 8:
        suggestions = strategy.ask_many(4)
        sizes.append(len(suggestions))
        asked += [tell(strategy, suggestion.point) for suggestion in suggestions]
    assert sizes == [1, 1, 1, 2, 3]
    assert len(set(asked)) == len(asked)

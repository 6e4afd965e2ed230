"""The gradient search, against sequences worked by hand and against the truth, and as the study prints it."""

from dataclasses import replace
from itertools import product

import pytest

from contracts.strategy_contract import INFER, grid_points, measure_formula
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.errors import InfeasibleError, InputError
from edgetune.stages.search.driver import SearchResult, SearchSettings, run_search
from edgetune.stages.search.space import Space
from edgetune.stages.search.strategies import STRATEGIES, als, baselines
from edgetune.stages.search.strategies.gmd import Gmd

SMALL = [
    Point("net", "train", 1, Mode(cpu_mhz=cpu, gpu_mhz=gpu, mem_mhz=mem))
    for cpu, gpu, mem in product((1.0, 2.0, 3.0, 4.0, 5.0), (1.0, 2.0, 3.0, 4.0, 5.0), (1.0, 2.0, 3.0))
]


def small_board(point: Point) -> ProfileRow:
    """t = 6/cpu + 24/gpu + 6/mem s, P = 10 + cpu + 3 gpu + 2 mem W."""
    cpu, gpu, mem = point.mode.cpu_mhz, point.mode.gpu_mhz, point.mode.mem_mhz
    time_s, power_w = 6 / cpu + 24 / gpu + 6 / mem, 10 + cpu + 3 * gpu + 2 * mem
    return ProfileRow("net", "train", 1, time_s, cpu_mhz=cpu, gpu_mhz=gpu, mem_mhz=mem, power_w=power_w)


def search(points, measure, budget_w: float | None, **options) -> SearchResult:
    return run_search(Problem("train", power_budget_w=budget_w), points, measure, SearchSettings("gmd", **options))


def modes(result: SearchResult) -> list[tuple[float, float, float]]:
    return [(row.cpu_mhz, row.gpu_mhz, row.mem_mhz) for row in result.trace.rows]


def test_under_the_budget_it_raises_the_knob_that_saves_most_time_per_watt():
    # middle: 26 W, 13 s. High ends: cpu 0.8 s / 2 W = 0.4, gpu 3.2/6 = 0.53, mem 1/2 = 0.5 s/W.
    result = search(SMALL, small_board, 30.0)
    assert modes(result) == [
        (3, 3, 2),  # the middle
        (5, 3, 2),  # cpu, high end: 28 W
        (3, 5, 2),  # gpu, high end: 32 W, over
        (3, 3, 3),  # mem, high end: 28 W
        (3, 4, 2),  # gpu first: what is left of it: 29 W, kept; gpu is exhausted
        (3, 4, 3),  # mem next: 31 W, over
        (4, 4, 2),  # cpu last, the lower middle of 4 and 5: 30 W, kept
        (5, 4, 2),  # 31 W, over
        (4, 3, 3),  # back-tracking: the middle again, mem first (28 W), no gpu above (31 W), so cpu: 29 W
        (5, 3, 3),  # 30 W
    ]
    assert result.plan.configuration.mode == Mode(cpu_mhz=4, gpu_mhz=4, mem_mhz=2)
    assert result.plan.measured.minibatch_s == 6 / 4 + 24 / 4 + 6 / 2


def test_over_the_budget_it_lowers_the_knob_that_costs_least_time_per_watt():
    # middle: 26 W, 13 s. Low ends: cpu 4 s / 2 W = 2, gpu 16/6 = 2.67, mem 3/2 = 1.5 s/W.
    result = search(SMALL, small_board, 22.0)
    assert modes(result) == [
        (3, 3, 2),  # the middle: over
        (1, 3, 2),  # cpu, low end: 24 W, over
        (3, 1, 2),  # gpu, low end: 20 W
        (3, 3, 1),  # mem, low end: 24 W, over. mem costs least and is within nowhere: it stays low
        (1, 3, 1),  # cpu next, the lower middle of 1 and 2: 22 W, kept
        (2, 3, 1),  # 23 W, over
        (1, 4, 1),  # within budget, so gpu is raised: 25 W, over
        (1, 2, 2),  # back-tracking: cpu first, at its low end, then gpu (1 is no faster than the probe): 21 W
        (1, 2, 3),  # mem raised: 23 W, over
        (3, 2, 1),  # the best point (1, 3, 1), gpu lowered half-way, cpu raised: 21 W, as fast and 1 W less
    ]
    assert result.plan.configuration.mode == Mode(cpu_mhz=3, gpu_mhz=2, mem_mhz=1)


def test_without_a_budget_the_top_is_the_answer_and_ends_the_search():
    result = search(SMALL, small_board, None, max_points=75)
    assert result.plan.configuration.mode == Mode(cpu_mhz=5, gpu_mhz=5, mem_mhz=3)
    assert len(result.trace.rows) == 1


@pytest.mark.parametrize("budget_w", [16.5, 18.0, 20.0, 23.0, 26.0, 29.0, 32.0, 36.0, 45.0])
def test_never_better_than_the_truth_never_over_budget_at_most_ten_points(budget_w: float):
    points = grid_points()
    problem = Problem("train", power_budget_w=budget_w)
    truth = run_search(problem, points, measure_formula, SearchSettings("exhaustive")).plan.measured
    try:
        plan = search(points, measure_formula, budget_w).plan
    except InfeasibleError:
        assert budget_w < 20  # ten points may miss the few lowest modes
        return
    assert plan.search.points_measured <= 10
    assert plan.measured.power_w <= budget_w
    assert plan.measured.minibatch_s >= truth.minibatch_s
    assert plan.measured.minibatch_s <= 1.35 * truth.minibatch_s


def test_with_points_to_spare_it_reaches_the_truth_and_stops_before_the_end():
    for budget_w in (20.0, 24.0, 30.0, 38.0):
        problem = Problem("train", power_budget_w=budget_w)
        truth = run_search(problem, grid_points(), measure_formula, SearchSettings("exhaustive")).plan.measured
        result = search(grid_points(), measure_formula, budget_w, max_points=180)
        assert result.plan.measured.minibatch_s == truth.minibatch_s
        assert len(result.trace.rows) < 180


def test_known_points_are_walked_over_without_measuring():
    first = search(SMALL, small_board, 30.0)
    known = [small_board(Point("net", "train", 1, Mode(cpu_mhz=c, gpu_mhz=g, mem_mhz=m))) for c, g, m in modes(first)]
    asked = []

    def measure(point: Point) -> ProfileRow:
        asked.append(point)
        return small_board(point)

    again = search(SMALL, measure, 30.0, known=known)
    assert again.plan.measured == first.plan.measured
    assert not {row.point for row in known} & set(asked)


def test_power_that_falls_as_memory_speeds_up_hides_nothing():
    def board(point: Point) -> ProfileRow:
        row = small_board(point)
        return replace(row, power_w=row.power_w - 6 * point.mode.mem_mhz)

    points, problem = SMALL, Problem("train", power_budget_w=12.0)
    truth = run_search(problem, points, board, SearchSettings("exhaustive")).plan.measured
    assert search(points, board, 12.0, max_points=75).plan.measured.minibatch_s == truth.minibatch_s


def test_a_middle_that_fails_gives_way_to_its_neighbour():
    def board(point: Point) -> ProfileRow:
        row = small_board(point)
        broken = (point.mode.cpu_mhz, point.mode.gpu_mhz, point.mode.mem_mhz) == (3, 3, 2)
        return replace(row, status="failed", minibatch_s=None, reason="crashed") if broken else row

    result = search(SMALL, board, 30.0)
    assert result.trace.rows[0].reason == "crashed"
    assert result.trace.rows[1].reason == "the middle of every knob"
    assert result.plan.measured.power_w <= 30


MODES = [Mode(cpu_mhz=cpu, gpu_mhz=gpu) for cpu, gpu in product((1.0, 2.0, 3.0), (1.0, 2.0, 3.0, 4.0, 5.0))]
SERVED = [Point("net", "infer", size, mode) for mode in MODES for size in (1, 4, 16)]
TRAINED = [Point("net", "train", 16, mode) for mode in MODES]


def board(point: Point) -> ProfileRow:
    """Inference (6/cpu + 12 b/gpu)/1000 s, 10 + cpu + 3 gpu + b/4 W; training 0.24/gpu s, 12 + 4 gpu W."""
    cpu, gpu, size = point.mode.cpu_mhz, point.mode.gpu_mhz, point.batch_size
    time_s, power_w = (6 / cpu + 12 * size / gpu) / 1000, 10 + cpu + 3 * gpu + size / 4
    if point.task == "train":
        time_s, power_w = 0.24 / gpu, 12 + 4 * gpu
    return ProfileRow("net", point.task, size, time_s, cpu_mhz=cpu, gpu_mhz=gpu, power_w=power_w)


def infer(budget_w: float | None, latency_s: float | None, rate_per_s: float, points=SERVED, **options) -> SearchResult:
    problem = Problem("infer", power_budget_w=budget_w, latency_budget_s=latency_s, arrival_rate_per_s=rate_per_s)
    return run_search(problem, points, options.pop("measure", board), SearchSettings("gmd", **options))


def pair(budget_w: float | None, latency_s: float, rate_per_s: float, **options) -> SearchResult:
    problem = Problem("train+infer", power_budget_w=budget_w, latency_budget_s=latency_s, arrival_rate_per_s=rate_per_s)
    return run_search(problem, SERVED + TRAINED, options.pop("measure", board), SearchSettings("gmd", **options))


def steps(result: SearchResult) -> list[tuple]:
    return [(row.task[0], row.batch_size, row.cpu_mhz, row.gpu_mhz) for row in result.trace.rows]


def test_inference_takes_the_smallest_batch_and_raises_what_saves_most_time_per_watt():
    # middle: 21.25 W. High ends: cpu 1 ms / 1 W = 1, gpu 1.6/6 = 0.27 ms/W.
    result = infer(25.0, 0.1, 60.0)
    assert steps(result)[:5] == [
        ("i", 1, 2, 3),  # the middle
        ("i", 1, 3, 3),  # cpu, high end: 22.25 W, so cpu is exhausted
        ("i", 1, 2, 5),  # gpu, high end: 27.25 W, over
        ("i", 1, 3, 4),  # from cpu 3, the middle of what is left of gpu: 25.25 W, over
        ("i", 1, 2, 4),  # back-tracking, gpu first: 24.25 W, as fast as the best and dearer
    ]
    assert result.plan.configuration.mode == Mode(cpu_mhz=3, gpu_mhz=3)
    assert result.plan.configuration.batch_size == 1


def test_where_single_samples_cannot_keep_up_it_tries_larger_batches_within_power_fastest_first():
    # 230/s: a sample each 4.35 ms; the middle takes 7 ms, and cpu and gpu by themselves save 1 and 1.6 ms: too little.
    result = infer(25.0, 0.2, 230.0)
    assert steps(result)[:6] == [
        ("i", 1, 2, 3),  # the middle
        ("i", 1, 3, 3),  # cpu, high end: 22.25 W
        ("i", 1, 2, 5),  # gpu, high end: over
        ("i", 4, 3, 3),  # the fastest within power at 4 samples: 18 ms, where 17.4 ms keep up
        ("i", 16, 3, 3),  # at 16 samples it draws 26 W, over
        ("i", 16, 2, 3),  # the next fastest: 67 ms keep up with 69.6 ms, at 25 W
    ]
    answer = result.plan.configuration  # the points left find 4 samples at 25 W: 6/2 + 48/4 = 15 ms
    assert (answer.mode, answer.batch_size) == (Mode(cpu_mhz=2, gpu_mhz=4), 4)


def test_a_batch_that_takes_the_whole_latency_budget_to_fill_is_never_asked_for():
    result = infer(30.0, 0.05, 60.0, max_points=45)
    assert {row.batch_size for row in result.trace.rows} == {1}  # 3/60 s = 50 ms


@pytest.mark.parametrize("rate", [20.0, 60.0, 110.0, 160.0, 190.0])
def test_with_points_to_spare_inference_reaches_the_truth(rate: float):
    problem = Problem("infer", power_budget_w=22.0, latency_budget_s=0.2, arrival_rate_per_s=rate)
    truth = run_search(problem, SERVED, board, SearchSettings("exhaustive")).plan
    result = infer(22.0, 0.2, rate, max_points=45)
    assert result.plan.configuration.batch_size == truth.configuration.batch_size
    assert result.plan.measured.minibatch_s == truth.measured.minibatch_s
    assert len(result.trace.rows) < 45


def test_a_new_arrival_rate_looks_first_at_what_was_measured_for_the_last_one():
    first = infer(25.0, 0.1, 60.0)
    known = [board(p) for p in SERVED if ("i", p.batch_size, p.mode.cpu_mhz, p.mode.gpu_mhz) in steps(first)]
    again = infer(25.0, 0.1, 70.0, known=known)
    assert again.plan.configuration == first.plan.configuration
    assert again.plan.search.points_measured == 0  # all that was worthwhile is known


def test_two_workloads_begin_at_the_largest_batch_that_the_top_serves_in_time():
    # 20/s within 0.5 s: 16 samples take 0.75 s to gather, 4 take 0.15 s. Training draws more at the middle.
    result = pair(26.0, 0.5, 20.0)
    assert steps(result) == [
        ("i", 4, 3, 5),  # the top serves 4 in time
        ("t", 16, 2, 3),  # the middle, both halves: 24 W and 22 W
        ("i", 4, 2, 3),
        ("t", 16, 3, 3),  # cpu, high end: training first
        ("i", 4, 3, 3),
        ("t", 16, 2, 5),  # gpu, high end: training alone is over, so no inference there
        ("t", 16, 2, 4),  # the middle of what is left of gpu: over
        ("t", 16, 1, 4),  # not above anything over the budget yet
    ]
    answer = result.plan.configuration
    assert (answer.mode, answer.infer_batch_size, answer.train_minibatches) == (Mode(cpu_mhz=3, gpu_mhz=3), 4, 2)


def test_slopes_are_those_of_the_workload_that_draws_more():
    result = pair(26.0, 1.0, 20.0)  # at 16 samples inference draws 25 W and training 24 W
    assert steps(result)[:6] == [
        ("i", 16, 3, 5),
        ("t", 16, 2, 3),
        ("i", 16, 2, 3),
        ("i", 16, 3, 3),  # from here on inference first
        ("t", 16, 3, 3),
        ("i", 16, 2, 5),  # over by itself: training is not measured there
    ]
    assert result.plan.configuration.train_minibatches == 9  # (0.8 s - 0.066 s) / 0.08 s


@pytest.mark.parametrize("budget_w", [20.0, 22.0, 24.0, 26.0, 29.0, 33.0, None])
@pytest.mark.parametrize(("latency_s", "rate"), [(1.0, 20.0), (0.3, 20.0), (0.2, 25.0), (5.0, 5.0)])
def test_with_points_to_spare_two_workloads_reach_the_truth(budget_w: float | None, latency_s: float, rate: float):
    problem = Problem("train+infer", power_budget_w=budget_w, latency_budget_s=latency_s, arrival_rate_per_s=rate)
    truth = run_search(problem, SERVED + TRAINED, board, SearchSettings("exhaustive"))
    result = pair(budget_w, latency_s, rate, max_points=60)
    best, found = truth.trace.rows[-1].best, result.trace.rows[-1].best
    assert found == best
    assert len(result.trace.rows) < len(truth.trace.rows)


def test_a_half_that_fails_rules_out_its_mode_alone():
    def broken(point: Point) -> ProfileRow:
        row = board(point)
        fails = point.task == "train" and (point.mode.cpu_mhz, point.mode.gpu_mhz) == (2.0, 3.0)
        return replace(row, status="failed", minibatch_s=None, reason="out of memory") if fails else row

    result = pair(26.0, 0.5, 20.0, measure=broken)
    assert steps(result)[1] == ("t", 16, 2, 3)
    assert ("i", 4, 2, 3) not in steps(result)
    assert result.plan.configuration.mode == Mode(cpu_mhz=3, gpu_mhz=3)


@pytest.mark.parametrize("problem", [replace(INFER, objective="energy"), replace(INFER, objective="throughput")])
def test_other_objectives_are_refused(problem: Problem):
    with pytest.raises(InputError, match=r"not (energy|throughput) of infer"):
        Gmd(Space.of(grid_points("infer")), problem, seed=0)


GPU, MEM = (300.0, 600.0, 900.0, 1200.0, 1500.0), (1000.0, 2000.0, 3000.0)


def row(workload, task, gpu, mem, size=1):
    """GPU saves much time for much power, memory much for little."""
    watts = {"train": 5.0, "infer": 4.0 if mem < 3000 else 12.0}[task]
    time_s = size**0.5 * (0.1 * 1500 / gpu + 0.2 * 3000 / mem)
    return ProfileRow(
        workload, task, size, time_s, gpu_mhz=gpu, mem_mhz=mem, power_w=watts + gpu / 50 + mem / 1000, status="ok"
    )


TRAIN = {each.point: each for each in (row("net", "train", gpu, mem) for gpu in GPU for mem in MEM)}


def asked(strategy, problem, table, **settings):
    found: list[Point] = []

    def measure(point):
        found.append(point)
        return table[point]

    run_search(problem, list(table), measure, SearchSettings(strategy, **settings))
    return found


@pytest.mark.parametrize(("strategy", "first"), [("gmd", "gpu_mhz"), ("gmd-study", "mem_mhz")])
def test_over_the_budget_the_study_takes_the_largest_ratio_of_time_to_power(strategy, first):
    """The middle (900, 2000) draws 25 W; the slopes are those to (300, 2000) and (900, 1000)."""
    found = asked(strategy, Problem("train", power_budget_w=21.0), TRAIN)
    assert [point.mode for point in found[:3]] == [
        Mode(gpu_mhz=900.0, mem_mhz=2000.0), Mode(gpu_mhz=300.0, mem_mhz=2000.0), Mode(gpu_mhz=900.0, mem_mhz=1000.0),
    ]  # fmt: skip
    moved = {knob for knob, value in found[3].mode.knobs().items() if value != found[0].mode.knobs()[knob]}
    assert first in moved


def test_of_a_pair_the_study_measures_both_halves_of_every_point():
    table = {each.point: each for gpu in GPU for mem in MEM for each in (
        row("net", "train", gpu, mem), row("eyes", "infer", gpu, mem, 1), row("eyes", "infer", gpu, mem, 4))
    }  # fmt: skip
    problem = Problem(
        "train+infer", power_budget_w=24.0, latency_budget_s=6.0, arrival_rate_per_s=0.5, background="net",
        background_batch_size=1,
    )  # fmt: skip
    found = asked("gmd-study", problem, table)
    trained = {point.mode for point in found if point.task == "train"}
    served = [point.mode for point in found if point.task == "infer"]
    assert set(served[1:]) <= trained  # the first one asks whether the batch can be served at the highest mode
    assert set(asked("gmd", problem, table)) != set(found)


def test_als_study_takes_its_front_from_unmeasured_points(monkeypatch):
    """The measured points of the front leave room for the points behind them."""
    fronts = []

    def noted(rows, cost, power_w):
        fronts.append(set(map(int, rows)))
        return als.front(rows, cost, power_w)

    monkeypatch.setattr(baselines, "front", noted)
    monkeypatch.setattr("edgetune.stages.search.strategies.power_train_network.EPOCHS", 5)
    space_points = list(TRAIN)
    taken = asked("als-study", Problem("train", power_budget_w=30.0), TRAIN, seed=1)
    before = set(taken[:10])
    assert fronts
    assert not {space_points[each] for each in fronts[0]} & before


@pytest.mark.parametrize(("strategy", "again"), [("random", 0), ("gmd", 1)])
def test_a_search_that_ignores_budgets_answers_another_budget_from_what_it_has(strategy, again, monkeypatch):
    """More is measured on request."""
    monkeypatch.setattr(STRATEGIES["random"], "default_max_points", classmethod(lambda cls, problem: 6))
    known = [TRAIN[point] for point in asked("random", Problem("train", power_budget_w=40.0), TRAIN, max_points=6)]
    other = Problem("train", power_budget_w=33.0)
    assert (len(asked(strategy, other, TRAIN, known=known)) > 0) == bool(again)
    assert len(asked(strategy, other, TRAIN, known=known, max_points=2)) == 2
    assert len(asked("random", other, TRAIN, known=known[:4])) == 2

"""The strategies that ask a network, the network of PowerTrain and Fulcrum, and strategies as a study prints them."""

import sys
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from contracts.strategy_contract import grid_points, measure_formula
from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.errors import InputError
from edgetune.stages.search.driver import SearchSettings, run_search
from edgetune.stages.search.evaluation.cases import ProfiledWorkload, cases_of
from edgetune.stages.search.problem import Judgement, judge
from edgetune.stages.search.space import Space, offered_space
from edgetune.stages.search.strategies import STRATEGIES, nn, power_train_network
from edgetune.stages.search.strategies import power_train_network as network
from edgetune.stages.search.strategies.als import Als, front
from edgetune.stages.search.strategies.nn import NetworkSearch, Nn
from edgetune.stages.search.strategy import PointResult

PROBLEM = Problem("train", power_budget_w=28.0)
REQUESTS = Problem("infer", power_budget_w=30.0, latency_budget_s=1.0, arrival_rate_per_s=20.0)
PAIR = Problem("train+infer", power_budget_w=40.0, latency_budget_s=2.0, arrival_rate_per_s=10.0)
CLOCKS = tuple(np.linspace(100, 1300, 60).tolist())
SIZES = (1, 4, 16)


def request_rows() -> list[ProfileRow]:
    return [
        ProfileRow("answers", "infer", b, (0.02 + 0.004 * b) * 1300 / c, gpu_mhz=c, power_w=8 + c / 60 + 0.2 * b)
        for c in CLOCKS
        for b in SIZES
    ]


def background_rows() -> list[ProfileRow]:
    return [ProfileRow("learns", "train", 16, 0.1 * 1300 / c, gpu_mhz=c, power_w=9 + c / 50) for c in CLOCKS]


@pytest.fixture
def all_knowing(monkeypatch: pytest.MonkeyPatch):
    """Let the network predict exactly what would be measured; returns what teaches it the table."""
    truth: dict[tuple[int, ...], np.ndarray] = {}

    def learn(*halves: Sequence[ProfileRow]) -> None:
        for rows in halves:
            truth[(len(rows),)] = np.array([[row.minibatch_s, row.power_w] for row in rows])

    monkeypatch.setattr(power_train_network, "predict", lambda inputs, *_, **__: truth[(len(inputs),)].copy())
    return learn


def walk(strategy: NetworkSearch, rows: Sequence[ProfileRow], problem: Problem, steps: int) -> list[Point]:
    table, asked = {row.point: row for row in rows}, []
    for _ in range(steps):
        suggestion = strategy.ask()
        if suggestion is None:
            break
        asked.append(suggestion.point)
        row = table[suggestion.point]
        judgement = judge(problem, row) if problem.kind in ("train", "infer") else Judgement(None, None)
        strategy.tell(row.point, PointResult(judgement, row.minibatch_s, row.power_w))
    return asked


def train_rows(space: Space) -> list[ProfileRow]:
    return [measure_formula(point) for point in space.points]


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), min_size=1, max_size=30))
def test_the_front_is_what_nothing_betters(figures: list[tuple[int, int]]):
    cost, power_w = np.array(figures, dtype=float).T
    found = front(np.arange(len(figures)), cost, power_w)
    kept = [figures[row] for row in found]
    by_hand = {f for f in figures if not any(g != f and g[0] <= f[0] and g[1] <= f[1] for g in figures)}
    assert set(kept) == by_hand
    assert len(kept) == len(by_hand)
    assert kept == sorted(kept)


def test_als_draws_ten_then_takes_the_five_of_the_front_farthest_in_power(all_knowing):
    space = Space.of(grid_points())
    rows = train_rows(space)
    all_knowing(rows)
    asked = walk(Als(space, PROBLEM, seed=4), rows, PROBLEM, 15)
    powers = np.array([row.power_w for row in rows])
    times = np.array([row.minibatch_s for row in rows])
    on_front = [i for i in range(180) if not ((times <= times[i]) & (powers <= powers[i])).sum() > 1]
    measured = [powers[space.points.index(point)] for point in asked[:10]]
    for point in asked[10:]:
        left = [i for i in on_front if space.points[i] not in asked[:10] and powers[i] not in measured[10:]]
        gaps = {i: min(abs(powers[i] - w) for w in measured) for i in left}
        chosen = space.points.index(point)
        assert gaps[chosen] == pytest.approx(max(gaps.values()))
        measured.append(powers[chosen])


def test_als_of_requests_takes_five_points_in_each_of_four_quadrants(all_knowing):
    rows = request_rows()
    space = offered_space(REQUESTS, [row.point for row in rows])
    table = {row.point: row for row in rows}
    all_knowing([table[point] for point in space.points])
    asked = walk(Als(space, REQUESTS, seed=0), rows, REQUESTS, 45)
    assert len(asked) == 45
    # The highest rate is one request after another at the shortest time measured; points of the first ten keep up
    # with a fifth of it, of the last ten with two fifths.
    shortest_s = min(table[point].minibatch_s or 9 for point in asked[:25])
    for number, share in ((25, 0.2), (35, 0.4)):
        rate = share / shortest_s
        latencies = []
        for point in asked[number : number + 10]:
            time_s = table[point].minibatch_s or 0
            assert time_s <= point.batch_size / rate
            latencies.append((point.batch_size - 1) / rate + time_s)
        assert max(latencies[:5]) < min(latencies[5:])  # five with low latency, then five with high


def test_als_of_two_workloads_counts_halves(all_knowing):
    urgent, background = request_rows(), background_rows()
    space = offered_space(PAIR, [row.point for row in urgent + background])
    table = {row.point: row for row in urgent + background}
    all_knowing([table[point] for point in space.points], background)
    asked = walk(Als(space, PAIR, seed=0), urgent + background, PAIR, 130)
    assert len(set(asked)) == len(asked)
    assert [point.task for point in asked[:50]] == ["infer", "train"] * 25
    # 20 halves each in four quadrants. A pair is asked for as its two halves, the urgent one first.
    for number, point in enumerate(asked[50:], start=50):
        if point.task == "train":
            partners = [other for other in asked[:number] if other.task == "infer" and other.mode == point.mode]
            assert partners
    complete = [p for p in asked[50:] if p.task == "infer" and space.partner(p) in asked]
    assert len(complete) >= 32


def test_als_of_time_to_accuracy_weighs_time_by_epochs(all_knowing):
    # Batch 8 takes ten times the epochs of batch 4, so that no point of it is on the front of time to accuracy.
    problem = Problem("accuracy", power_budget_w=28.0, epochs_to_target=((4, 1.0), (8, 10.0)))
    rows = [measure_formula(replace(point, batch_size=size)) for point in grid_points() for size in (4, 8)]
    space = offered_space(problem, [row.point for row in rows])
    table = {row.point: row for row in rows}
    all_knowing([table[point] for point in space.points])
    asked = walk(Als(space, problem, seed=0), rows, replace(problem, kind="train", epochs_to_target=()), 30)
    assert {point.batch_size for point in asked[10:]} == {4}


def test_nn_measures_what_it_predicts_best_within_the_budget(all_knowing, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(nn, "POINTS", 50)
    space = Space.of(grid_points())
    rows = train_rows(space)
    all_knowing(rows)
    asked = walk(Nn(space, PROBLEM, seed=0), rows, PROBLEM, 45)
    left = [row for row in rows if row.point not in asked[:40] and (row.power_w or 99) <= 28.0]
    best = sorted(left, key=lambda row: row.minibatch_s or 9)[:5]
    assert asked[40:] == [row.point for row in best]


def test_nn_predicts_every_point_as_the_publication_answers(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(power_train_network, "EPOCHS", 300)
    space = Space.of(grid_points())
    rows = train_rows(space)
    strategy = Nn(space, PROBLEM, seed=0)
    with pytest.raises(ValueError, match="nothing was measured"):
        strategy.predictions()
    walk(strategy, rows, PROBLEM, 100)
    minibatch_s, power_w = strategy.predictions().minibatch_s, strategy.predictions().power_w
    assert minibatch_s.shape == power_w.shape == (180,)
    assert np.median(np.abs(minibatch_s / [row.minibatch_s for row in rows] - 1)) < 0.06
    assert np.median(np.abs(power_w / [row.power_w for row in rows] - 1)) < 0.03
    assert strategy.predictions().background_s is None


def test_nn_learns_two_workloads_apart_and_picks_the_best_pair(all_knowing, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(nn, "POINTS", 40)
    urgent, background = request_rows(), background_rows()
    table = {row.point: row for row in urgent + background}
    space = offered_space(PAIR, list(table))
    all_knowing([table[point] for point in space.points], background)
    best = run_search(PAIR, list(table), table.__getitem__, SearchSettings("exhaustive")).plan
    found = run_search(PAIR, list(table), table.__getitem__, SearchSettings("nn", max_points=32)).plan
    assert found.measured.throughput_per_s == best.measured.throughput_per_s
    strategy = Nn(space, PAIR, seed=0)
    walk(strategy, urgent + background, PAIR, 30)
    minibatch_s = strategy.predictions().background_s
    assert minibatch_s.tolist() == [table[space.partner(point)].minibatch_s for point in space.points]


def test_a_network_that_shares_the_board_with_itself_is_asked_for_once_per_mode(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(power_train_network, "EPOCHS", 2)
    problem = Problem(
        "infer+infer", power_budget_w=40.0, arrival_rate_per_s=5.0, background="answers", background_batch_size=4
    )
    table = {row.point: row for row in request_rows()}
    for name in ("nn", "als"):
        trace = run_search(problem, list(table), table.__getitem__, SearchSettings(name, max_points=180)).trace
        assert len(trace.rows) == len({(row.gpu_mhz, row.batch_size) for row in trace.rows})


@pytest.mark.parametrize("kind", [Nn, Als])
def test_without_pytorch_it_says_what_to_install(kind: type[NetworkSearch], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(InputError, match=f"{kind.name} needs PyTorch") as caught:
        kind(Space.of(grid_points()), PROBLEM, seed=0)
    assert caught.value.hint == "pip install 'edgetune[torch]'"


PLANE = np.stack([axis.ravel() for axis in np.meshgrid(np.linspace(-1.5, 1.5, 8), np.linspace(-1.5, 1.5, 8))], axis=1)
TIMES_AND_POWERS = np.stack([0.5 - 0.1 * PLANE[:, 0] - 0.05 * PLANE[:, 1], 30 + 5 * PLANE[:, 0]], axis=1)


def test_under_prediction_weighs_four_times(monkeypatch: pytest.MonkeyPatch):
    # Half the figures 1, half 3, nothing to tell them apart: logarithms 0 and ln 3. 4 (ln 3 - p)^2 + p^2 is least at
    # p = 0.8 ln 3.
    monkeypatch.setattr(network, "EPOCHS", 200)
    monkeypatch.setattr(network, "VALIDATION_SHARE", 0.0)  # which would not hold back as many of either
    targets = np.tile([[1.0, 10.0], [3.0, 30.0]], (10, 1))
    found = network.predict(np.zeros((20, 1)), range(20), targets, seed=0)
    assert found[0] == pytest.approx([3**0.8, 10 * 3**0.8], rel=0.01)


def test_the_weights_kept_are_those_that_did_best_on_the_points_held_back(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(network, "LEARNING_RATE", 30.0)  # every step makes it far worse than the first weights are
    monkeypatch.setattr(network, "EPOCHS", 5)
    rows = list(range(64))
    found = network.predict(PLANE, rows, TIMES_AND_POWERS, seed=0)
    assert np.abs(found[:, 1] - 30).max() < 15


def test_time_is_learnt_as_if_there_were_no_power(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(network, "EPOCHS", 20)
    alone = TIMES_AND_POWERS.copy()
    alone[:, 1] = np.nan
    both = network.predict(PLANE, range(64), TIMES_AND_POWERS, seed=0)
    found = network.predict(PLANE, range(64), alone, seed=0)
    assert np.allclose(found[:, 0], both[:, 0], rtol=1e-5)
    assert np.isnan(found[:, 1]).all()


def test_predictions_are_brought_back_to_ten_times_what_was_measured(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(network, "EPOCHS", 200)
    inputs = np.linspace(-30, 30, 61)[:, None]
    rows = [28, 29, 30, 31, 32]
    measured = np.exp(np.stack([inputs[rows, 0], 3 - inputs[rows, 0]], axis=1))
    found = network.predict(inputs, rows, measured, seed=0)
    assert found.min(axis=0) == pytest.approx(0.1 * measured.min(axis=0))
    assert found.max(axis=0) == pytest.approx(10 * measured.max(axis=0))


def test_nothing_of_torch_is_left_changed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(network, "EPOCHS", 2)
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        state = torch.random.get_rng_state()
        with torch.no_grad():  # a caller's, which must neither hinder nor end
            network.predict(PLANE, range(9), TIMES_AND_POWERS[:9], seed=0)
            assert not torch.is_grad_enabled()
        assert torch.get_num_threads() == 2
        assert torch.equal(torch.random.get_rng_state(), state)
        with pytest.raises(IndexError):
            network.predict(PLANE, [99], TIMES_AND_POWERS[:1], seed=0)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)


def subject(workload: str, task: str, sizes=(16,)) -> ProfiledWorkload:
    rows = [
        ProfileRow(
            workload, task, size, 0.02 * size**0.7 * (0.3 * 1300 / gpu + 0.2 * 2200 / cpu + 0.1 * 3199 / mem),
            cpu_mhz=cpu, gpu_mhz=gpu, mem_mhz=mem, power_w=8 + gpu / 60 + cpu / 500 + mem / 900,
            device="twin:orin-agx",
        )
        for size in sizes for cpu in (422.0, 1344.0, 2200.0)
        for gpu in (115.0, 500.0, 900.0, 1300.0) for mem in (665.0, 2133.0, 3199.0)
    ]  # fmt: skip
    return ProfiledWorkload(f"{workload}-{task}.parquet", "twin:orin-agx", workload, task, tuple(rows))


def test_the_studys_random_modes_are_measured_with_every_batch_size():
    (case,) = cases_of([subject("resnet50", "infer", (1, 4, 16))], "infer")
    strategy = STRATEGIES["random-study"](case.space, case.problems.unbounded(), seed=3)
    asked = [strategy.ask().point for _ in range(6)]
    assert [point.batch_size for point in asked] == [1, 4, 16, 1, 4, 16]
    assert len({point.mode for point in asked}) == 2

"""The strategies that ask a network, mostly with one that knows everything: each choice can be told beforehand."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.strategy_contract import grid_points, measure_formula
from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.errors import InputError
from edgetune.stages.search.driver import SearchSettings, run_search
from edgetune.stages.search.problem import Judgement, judge
from edgetune.stages.search.space import Space, offered_space
from edgetune.stages.search.strategies import nn, power_train_network
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


def test_als_goes_on_to_the_next_front_and_in_the_end_measures_everything(all_knowing):
    space = Space.of(grid_points())
    rows = train_rows(space)
    all_knowing(rows)
    strategy = Als(space, PROBLEM, seed=0)
    asked = walk(strategy, rows, PROBLEM, 500)
    assert sorted(map(hash, asked)) == sorted(map(hash, space.points))
    assert strategy.ask() is None


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
    minibatch_s, power_w = strategy.predictions()
    assert minibatch_s.shape == power_w.shape == (180,)
    assert np.median(np.abs(minibatch_s / [row.minibatch_s for row in rows] - 1)) < 0.06
    assert np.median(np.abs(power_w / [row.power_w for row in rows] - 1)) < 0.03
    with pytest.raises(ValueError, match="no background workload"):
        strategy.background_predictions()


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
    minibatch_s, _ = strategy.background_predictions()
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


def test_default_points_are_those_of_the_study():
    kinds = ("train", "accuracy", "infer", "train+infer", "infer+infer")
    assert [Als.default_max_points(Problem(kind)) for kind in kinds] == [50, 50, 145, 290, 290]
    assert [Nn.default_max_points(Problem(kind)) for kind in kinds] == [250, 250, 250, 500, 500]


def test_als_without_power_figures_draws_at_random(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(power_train_network, "EPOCHS", 2)
    rows = [replace(measure_formula(point), power_w=None) for point in grid_points()]
    problem = Problem("train")
    asked = walk(Als(Space.of(grid_points()), problem, seed=0), rows, problem, 30)
    assert len(set(asked)) == 30

"""The network of PowerTrain and Fulcrum: what it minimises, what it keeps, and that it leaves nothing changed."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import Point
from edgetune.stages.search.strategies import power_train_network as network

PLANE = np.stack([axis.ravel() for axis in np.meshgrid(np.linspace(-1.5, 1.5, 8), np.linspace(-1.5, 1.5, 8))], axis=1)
TIMES_AND_POWERS = np.stack([0.5 - 0.1 * PLANE[:, 0] - 0.05 * PLANE[:, 1], 30 + 5 * PLANE[:, 0]], axis=1)


def test_features_have_mean_zero_and_deviation_one():
    points = [Point("net", "train", size, Mode(gpu_mhz=g, mem_mhz=100.0)) for g in (100.0, 300.0) for size in (1, 3)]
    found = network.features(points, ["gpu_mhz", "mem_mhz", "batch_size"])
    assert found.tolist() == [[-1, 0, -1], [-1, 0, 1], [1, 0, -1], [1, 0, 1]]
    assert network.features(points[:1], []).shape == (1, 0)


def test_the_network_learns_a_plane_from_half_of_its_points(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(network, "EPOCHS", 300)
    rows = list(range(0, 64, 2))
    found = network.predict(PLANE, rows, TIMES_AND_POWERS[rows], seed=0)
    assert found.shape == (64, 2)
    assert np.abs(found / TIMES_AND_POWERS - 1).mean() < 0.02


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


def test_the_same_seed_gives_the_same_predictions_and_another_seed_others(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(network, "EPOCHS", 5)
    once, again, other = (network.predict(PLANE, range(9), TIMES_AND_POWERS[:9], seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(once, again)
    assert not np.array_equal(once, other)


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

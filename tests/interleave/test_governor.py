"""The power governor: down after a sustained excess, at once after a cut, up only with room, and no swinging."""

import itertools

import pytest

from edgetune.artifacts.mode import Mode
from edgetune.stages.interleave.power import CALM, ROOM, SUSTAINED, Governor, MeasuredMode

LOW, MIDDLE, HIGH = (
    MeasuredMode(Mode(gpu_mhz=mhz), w, mhz) for mhz, w in ((300.0, 12.0), (700.0, 20.0), (1300.0, 30.0))
)
RUNGS = (HIGH, LOW, MIDDLE)


def test_a_spike_is_no_excess_and_a_sustained_one_is():
    governor = Governor(RUNGS, HIGH, 31.0)
    assert governor.read(35.0) is None
    assert governor.read(30.0) is None
    assert [governor.read(33.0) for _ in range(SUSTAINED - 1)] == [None] * (SUSTAINED - 1)
    move = governor.read(33.0)
    assert move is not None
    assert (move.rung, governor.present) == (MIDDLE, MIDDLE)
    assert "33 W exceeds 31 W" in move.reason


def test_the_power_of_the_present_mode_corrects_the_other_modes():
    governor = Governor(RUNGS, HIGH, 29.0)  # 1.6 times what was measured: the middle mode would draw 32 W
    for _ in range(SUSTAINED - 1):
        governor.read(48.0)
    move = governor.read(48.0)
    assert move is not None
    assert move.rung is LOW


def test_a_cut_is_answered_at_once_by_the_best_mode_that_fits():
    governor = Governor(RUNGS, HIGH, 31.0)
    move = governor.rebudget(21.0)
    assert move is not None
    assert move.rung is MIDDLE
    assert governor.rebudget(20.5) is None


def test_where_nothing_fits_the_frugalest_is_taken_and_then_kept():
    governor = Governor(RUNGS, HIGH, 31.0)
    move = governor.rebudget(5.0)
    assert move is not None
    assert (move.rung, "no measured mode" in move.reason) == (LOW, True)
    assert [governor.read(12.0) for _ in range(20)] == [None] * 20


def test_up_after_calm_readings_to_the_best_mode_with_room():
    governor = Governor(RUNGS, LOW, 29.0)
    moves = [governor.read(12.0) for _ in range(CALM)]
    assert moves[:-1] == [None] * (CALM - 1)
    assert moves[-1] is not None
    assert moves[-1].rung is MIDDLE


@pytest.mark.parametrize(("budget_w", "rises"), [(20.0 / (1 - ROOM) + 0.01, True), (20.0 / (1 - ROOM) - 0.01, False)])
def test_the_room_a_step_up_must_leave(budget_w, rises):
    governor = Governor((LOW, MIDDLE), LOW, budget_w)
    assert any(governor.read(12.0) for _ in range(5 * CALM)) is rises


def test_a_step_up_that_failed_is_tried_less_and_less_often():
    governor, ups = Governor((LOW, MIDDLE), LOW, 21.0), []
    for reading in range(3000):
        present_w = 12.0 if governor.present is LOW else 22.0  # the middle mode draws more than was measured
        move = governor.read(present_w)
        if move is not None and move.rung is MIDDLE:
            ups.append(reading)
    gaps = [after - before for before, after in itertools.pairwise(ups)]
    assert len(ups) >= 2
    assert all(after >= before for before, after in itertools.pairwise(gaps))
    assert len(ups) < 15


def test_a_mode_that_was_refused_is_not_tried_again():
    governor = Governor(RUNGS, HIGH, 31.0)
    move = governor.rebudget(21.0)
    assert move is not None
    governor.refused(move)
    assert governor.present is HIGH
    again = governor.rebudget(20.5)
    assert again is not None
    assert again.rung is LOW

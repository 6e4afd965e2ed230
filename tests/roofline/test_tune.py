"""Tuning within a slowdown: what is foreseen in closed form, what measurements change, and which answer is kept."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from unittest import mock

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from edgetune.artifacts.header import Header
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.ops import OpRow, OpsTable
from edgetune.artifacts.profile import ProfileRow
from edgetune.artifacts.roofline import Roof
from edgetune.errors import DeviceError, NotRestoredError
from edgetune.stages.roofline import slowdown_forecast
from edgetune.stages.roofline.placement import place
from edgetune.stages.roofline.slowdown_forecast import (
    DOUBT,
    MISSED,
    Explanation,
    Forecast,
    fastest_mode,
    forecast_modes,
    no_knob_above,
)
from edgetune.stages.roofline.tune import TriedMode, Tuned, tune

CPU, GPU, MEM = (500.0, 1000.0, 1500.0, 2000.0), (250.0, 500.0, 750.0, 1000.0), (1000.0, 2000.0)
TOP = Mode(8, 2000.0, 1000.0, 2000.0)
MODES = [Mode(8, cpu, gpu, mem) for cpu, gpu, mem in product(CPU, GPU, MEM)]
RIGHT_BY_CHANCE = Mode(8, 1500.0, 500.0, 1000.0)


def _roof(mode: Mode) -> Roof:
    """100 FLOP/s and 10 byte/s at the top, in proportion to their clocks; voltage falls with the GPU clock."""
    cpu, gpu, mem = (mode.cpu_mhz or 0) / 2000, (mode.gpu_mhz or 0) / 1000, (mode.mem_mhz or 0) / 2000
    return Roof(mode, "fp32", 100 * gpu, 10 * mem, 2 + 2 * cpu + 4 * gpu + 2 * mem, 0.05 + 0.05 * gpu**2, 0.5)


ROOFS = [_roof(mode) for mode in MODES]


def _row(name: str, flops: int, moved: int) -> OpRow:
    return OpRow(name, "Conv", "conv", "forward", "modelled", (), (), "float32", flops // 2, flops, 0, moved, 0, 0)


def _table(*rows: OpRow, **changed: object) -> OpsTable:
    table = OpsTable(Header("ops", 1, "", ""), "net", "infer", 4, "fp32", 0, False, tuple(rows))
    return replace(table, **changed)  # type: ignore[arg-type]


MIXED = _table(_row("conv", 300, 10), _row("copy", 0, 20))
"""At the top 3 s of compute and 2 s of memory."""


def _measured(mode: Mode, seconds: float, energy_j: float | None, **changed: object) -> ProfileRow:
    power_w = None if energy_j is None else energy_j / seconds
    row = ProfileRow("net", "infer", 4, seconds, power_w=power_w, energy_j=energy_j, **mode.knobs())  # type: ignore[arg-type]
    return replace(row, **changed)  # type: ignore[arg-type]


class Board:
    """A board whose accelerator and host, so long as at the top, work one after the other or side by side."""

    def __init__(self, compute_s: float, memory_s: float, host_s: float, overlap: float = 1.0) -> None:
        self.parts, self.overlap = (compute_s, memory_s, host_s), overlap
        self.visited: list[Mode] = []

    def measure(self, mode: Mode) -> ProfileRow:
        self.visited.append(mode)
        return self.row(mode)

    def row(self, mode: Mode) -> ProfileRow:
        compute_s, memory_s, host_s = self.parts
        roof, top = _roof(mode), _roof(TOP)
        device_s = compute_s * top.flops_per_s / roof.flops_per_s + memory_s * top.bytes_per_s / roof.bytes_per_s
        host_s *= (TOP.cpu_mhz or 0) / (mode.cpu_mhz or 1)
        seconds = (device_s**self.overlap + host_s**self.overlap) ** (1 / self.overlap)
        assert roof.flop_j is not None
        assert roof.static_w is not None
        return _measured(mode, seconds, 100 * compute_s * roof.flop_j + 5 * memory_s + roof.static_w * seconds)


def _tune(board: Board, allowed: float = 0.05, **options: object) -> Tuned:
    reference = board.measure(TOP)
    forecast = forecast_modes(MIXED, ROOFS, TOP, reference)
    return tune(forecast, board.measure, reference, allowed, **{"noise": 0.0, **options})  # type: ignore[arg-type]


def _best_possible(board: Board, allowed: float) -> float:
    top = board.row(TOP)
    within = [row for mode in MODES if (row := board.row(mode)).minibatch_s <= (1 + allowed) * top.minibatch_s]  # type: ignore[operator]
    return 1 - min(row.energy_j for row in within) / top.energy_j  # type: ignore[operator,type-var]


# What is foreseen


def _at_roofs(table: OpsTable, roofs: Sequence[Roof] = ROOFS) -> Forecast:
    """Return the forecast of a network whose layers are at their roofs, and that needs no host."""
    found = place(table, next(roof for roof in roofs if roof.mode == TOP))
    explained = (Explanation(1.0, "layers", 1.0, cores=False),)
    with mock.patch.object(slowdown_forecast, "possible_explanations", return_value=explained):
        return forecast_modes(table, roofs, TOP, _measured(TOP, found.layers_s, found.layers_j))


def test_layers_at_their_roofs_slow_with_them() -> None:
    """Half the GPU clock: 6 s of compute and 2 of memory, not 3 and 2; 300 FLOP at 0.0625 J, 30 bytes at 0.5 J."""
    forecast = _at_roofs(MIXED)
    assert (forecast.seconds, forecast.energy_j) == pytest.approx((5, 300 * 0.1 + 30 * 0.5 + 10 * 5))
    column = forecast.column(Mode(8, 2000.0, 500.0, 2000.0))
    assert forecast.expected(column) == pytest.approx((8 / 5, 300 * 0.0625 + 30 * 0.5 + 8 * 8))
    column = forecast.column(Mode(8, 500.0, 1000.0, 2000.0))  # nobody said that there is a host
    assert forecast.expected(column)[0] == pytest.approx(1)
    assert (forecast.shares.compute, forecast.shares.memory, forecast.shares.above) == pytest.approx((0.6, 0.4, 0))


def test_time_above_the_roofs_may_be_anything() -> None:
    row = _measured(TOP, 10.0, 150.0)
    slow_cpu = Mode(8, 1000.0, 1000.0, 2000.0)
    forecast = forecast_modes(MIXED, ROOFS, TOP, row)
    ratios = forecast.ratios[:, forecast.column(slow_cpu)]
    assert forecast.shares.above == pytest.approx(0.5)
    assert ratios.min() < 1.05
    assert ratios.max() > 1.7


@given(st.floats(0.1, 20), st.floats(0.1, 20), st.floats(0, 20), st.sampled_from([1.0, 2.0, 4.0]))
def test_no_explanation_has_lower_clocks_faster_and_all_agree_on_the_reference(
    compute_s: float, memory_s: float, host_s: float, overlap: float
) -> None:
    row = Board(compute_s, memory_s, host_s, overlap).row(TOP)
    forecast = forecast_modes(MIXED, ROOFS, TOP, row)
    top = forecast.column(TOP)
    assert forecast.ratios[:, top] == pytest.approx(1)
    assert (forecast.ratios >= 1 - 1e-9).all()
    assert forecast.weights.sum() == pytest.approx(1)
    if row.energy_j > 10 * row.minibatch_s:  # type: ignore[operator]
        assert forecast.energies_j[:, top] == pytest.approx(row.energy_j)


@given(
    st.floats(0.1, 20), st.floats(0.1, 20), st.floats(0, 20), st.sampled_from([1.0, 2.0, 4.0]), st.sampled_from(MODES)
)
@example(1.0, 18.25, 16.0, 2.0, RIGHT_BY_CHANCE)
def test_a_measured_mode_makes_explanations_miss_less_and_the_correction_nears_it_further(
    compute_s: float, memory_s: float, host_s: float, overlap: float, mode: Mode
) -> None:
    """Explanations that came nearer gain weight, so the mean of the squared errors (of logarithms) falls; then all
    slowdowns are multiplied so that the error of the mean falls to at most DOUBT / (slowdown + DOUBT) of it."""
    board = Board(compute_s, memory_s, host_s, overlap)
    forecast, column, ratio = _foreseen_and_seen(board, mode)
    learnt = forecast.learn(column, ratio, board.row(mode).energy_j)  # type: ignore[arg-type]
    squared = np.log(forecast.ratios[:, column] / ratio) ** 2
    assert learnt.weights @ squared <= forecast.weights @ squared + 1e-12
    reweighted = float(learnt.weights @ forecast.ratios[:, column])
    assert abs(learnt.expected(column)[0] - ratio) <= abs(reweighted - ratio) + 1e-12
    if 1 / MISSED <= (ratio - 1 + DOUBT) / (reweighted - 1 + DOUBT) <= MISSED:
        left = DOUBT / (reweighted - 1 + DOUBT) * abs(reweighted - ratio)
        assert abs(learnt.expected(column)[0] - ratio) == pytest.approx(left, abs=1e-12)


def _foreseen_and_seen(board: Board, mode: Mode) -> tuple[Forecast, int, float]:
    """Return a forecast from the reference, the column of a mode, and its time as a multiple of the reference's."""
    forecast = forecast_modes(MIXED, ROOFS, TOP, board.row(TOP))
    return forecast, forecast.column(mode), board.row(mode).minibatch_s / board.row(TOP).minibatch_s  # type: ignore[operator]


def test_a_measurement_tells_what_the_time_is_made_of() -> None:
    """A slower CPU cost nothing, so that the time above the roofs is the accelerator's; GPU clocks are dearer then."""
    board = Board(6.0, 4.0, 0.0)
    forecast = forecast_modes(MIXED, ROOFS, TOP, board.row(TOP))
    slow_gpu, slow_cpu = Mode(8, 2000.0, 500.0, 2000.0), Mode(8, 500.0, 1000.0, 2000.0)
    before = forecast.expected(forecast.column(slow_gpu))[0]
    seen = board.row(slow_cpu)
    known = forecast.learn(forecast.column(slow_cpu), 1.0, seen.energy_j)  # type: ignore[arg-type]
    assert known.expected(known.column(slow_gpu))[0] > before
    assert known.expected(known.column(Mode(8, 1000.0, 1000.0, 2000.0)))[0] == pytest.approx(1, abs=0.03)


def test_inferred_peaks_that_rise_with_lower_clocks_are_not_believed() -> None:
    odd = replace(_roof(MODES[0]), bytes_per_s=40.0, flops_per_s=400.0)
    forecast = _at_roofs(MIXED, [odd, _roof(TOP)])
    assert forecast.expected(0)[0] == pytest.approx(1)


# The reference


def test_the_reference_is_the_mode_of_all_highest_knobs_else_the_fastest() -> None:
    assert fastest_mode(MIXED, ROOFS) == TOP
    either = [Mode(8, 500.0, 1000.0, 2000.0), Mode(8, 2000.0, 250.0, 2000.0)]
    assert fastest_mode(MIXED, [_roof(mode) for mode in either]) == either[0]
    assert no_knob_above(MODES[0], TOP)
    assert not no_knob_above(TOP, MODES[0])
    assert not no_knob_above(Mode(gpu_mhz=250.0), TOP)  # the CPU clock of the one is not known


# Measuring


@settings(max_examples=60, deadline=None)
@given(
    st.floats(0.5, 20),
    st.floats(0.5, 20),
    st.floats(0, 20),
    st.sampled_from([1.0, 4.0]),
    st.sampled_from([0, 0.05, 0.3]),
)
def test_the_answer_was_measured_keeps_the_bound_and_never_costs_more(
    compute_s: float, memory_s: float, host_s: float, overlap: float, allowed: float
) -> None:
    board = Board(compute_s, memory_s, host_s, overlap)
    found = _tune(board, allowed)
    top = board.row(TOP)
    assert found.row.mode in board.visited
    assert found.row == board.row(found.row.mode)
    assert found.row.minibatch_s <= (1 + allowed) * top.minibatch_s  # type: ignore[operator]
    assert found.row.energy_j <= top.energy_j  # type: ignore[operator]
    assert found.measurements == len(board.visited) <= 6
    assert len(set(board.visited)) == len(board.visited)
    assert found.saving_share <= _best_possible(board, allowed) + 1e-9


@pytest.mark.parametrize(
    ("board", "allowed", "share"),
    [
        (Board(3.0, 2.0, 0.5), 0.4, 1.0),  # as the roofs have it
        (Board(0.5, 8.0, 0.5, 4.0), 0.05, 0.35),  # memory: that the CPU is free is not seen
        (Board(1.0, 1.0, 10.0, 4.0), 0.05, 1.0),  # the host, which hides the accelerator
        (Board(0.2, 0.2, 10.0, 1.0), 0.2, 0.8),
        (Board(12.0, 2.0, 1.0, 4.0), 0.4, 0.8),  # kernels far below the roof
    ],
)
def test_five_measurements_come_near_the_best_possible(board: Board, allowed: float, share: float) -> None:
    possible = _best_possible(board, allowed)
    assert possible > 0.05
    assert _tune(board, allowed).saving_share >= share * possible - 1e-9


def test_the_reference_stands_when_nothing_else_keeps_the_bound() -> None:
    """Every lower clock costs time, and no time was allowed."""
    found = _tune(Board(5.0, 3.0, 3.0), 0.0)
    assert found.best is None
    assert (found.row.mode, found.saving_share, found.slowdown_share) == (TOP, 0.0, 0.0)


def test_a_mode_measured_too_slow_corrects_the_forecast_and_rules_out_lower_modes() -> None:
    seen: list[TriedMode] = []
    board = Board(12.0, 2.0, 1.0, 4.0)
    found = _tune(board, 0.05, on_try=seen.append)
    assert list(found.tried) == seen
    slow = [index for index, one in enumerate(seen) if one.verdict == "too slow"]
    assert slow
    for index in slow:
        assert (seen[index].slowdown_share or 0) > 0.05
        assert not any(no_knob_above(one.candidate.mode, seen[index].candidate.mode) for one in seen[index + 1 :])


def test_failures_are_reported_and_passed_over() -> None:
    board = Board(0.5, 8.0, 0.5, 4.0)
    failing: list[Callable[[Mode], ProfileRow]] = [
        lambda mode: replace(board.row(mode), status="throttled", reason="too hot"),
        lambda mode: replace(board.row(mode), power_w=None, energy_j=None, reason="no readings"),
        _refuse,
    ]

    def measure(mode: Mode) -> ProfileRow:
        return failing.pop(0)(mode) if failing else board.measure(mode)

    top = board.row(TOP)
    found = tune(forecast_modes(MIXED, ROOFS, TOP, top), measure, top, 0.05, noise=0.0)
    assert [one.verdict for one in found.tried[:3]] == ["no measurement"] * 3
    assert [one.row.reason for one in found.tried[:3]] == ["too hot", "no readings", "it cannot be set"]
    assert found.tried[2].row.mode == found.tried[2].candidate.mode
    assert found.saving_share > 0
    assert found.row.mode in board.visited


def _refuse(mode: Mode) -> ProfileRow:
    raise DeviceError("it cannot be set", "see edgetune doctor")


def test_a_device_left_in_a_mode_ends_it() -> None:
    def measure(mode: Mode) -> ProfileRow:
        raise NotRestoredError("the mode could not be put back", "reboot")

    top = Board(0.5, 8.0, 0.5).row(TOP)
    with pytest.raises(NotRestoredError):
        tune(forecast_modes(MIXED, ROOFS, TOP, top), measure, top, 0.05)


# Noise


class Wavering(Board):
    """A board whose first reading of every mode but the reference is a quarter too low in energy."""

    def measure(self, mode: Mode) -> ProfileRow:
        first = mode not in self.visited
        row = super().measure(mode)
        assert row.energy_j is not None
        return replace(row, energy_j=row.energy_j * (1.0 if mode == TOP else 0.75 if first else 1.25))


def test_a_lucky_reading_is_measured_again() -> None:
    """What saves a few percent reads as a quarter more at first and as less at second: the mean is what is told."""
    board = Wavering(0.5, 8.0, 0.5, 4.0)
    found = _tune(board, 0.05, noise=0.02)
    assert found.measurements == len(board.visited)
    assert board.visited.count(TOP) == 2
    assert found.best is None or found.best.again
    again = [one for one in found.tried if one.again]
    assert again
    for one in again:
        assert board.visited.count(one.candidate.mode) == 2
        truth = 1 - board.row(one.candidate.mode).energy_j / board.row(TOP).energy_j  # type: ignore[operator]
        assert one.saving_share == pytest.approx(truth)


def test_the_reference_stands_against_a_saving_within_noise() -> None:
    board = Board(0.5, 8.0, 0.5, 4.0)
    exact = _tune(board, 0.05)
    assert exact.saving_share > 0
    noisy = _tune(board, 0.05, noise=exact.saving_share + 0.01)
    assert noisy.best is None
    assert noisy.tried


def test_the_error_of_a_model_is_kept_away_from_the_limit() -> None:
    """A model of a board may show slowdowns that are too small, and what it shows at the limit is beyond it there."""
    board = Board(3.0, 2.0, 0.5)
    free, kept = _tune(board, 0.4), _tune(board, 0.4, model_error=0.2)
    assert free.slowdown_share > 0.2 >= kept.slowdown_share > 0
    assert (kept.allowed_share, kept.model_error_share) == (0.4, 0.2)
    assert _tune(board, 0.05, model_error=0.1).slowdown_share == 0

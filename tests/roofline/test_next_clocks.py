"""What the next clocks change: measured figures where there are any, else ranges in closed form."""

from dataclasses import replace

import pytest

from edgetune.artifacts.header import Header
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.ops import OpRow, OpsTable
from edgetune.artifacts.profile import ProfileRow
from edgetune.artifacts.roofline import Roof
from edgetune.stages.roofline.next_clocks import ENERGY_REPEAT, TIME_REPEAT, changes, next_modes


def _row(name: str, flops: int, moved: int) -> OpRow:
    return OpRow(name, "Conv", "conv", "forward", "modelled", (), (), "float32", flops // 2, flops, 0, moved, 0, 0)


TABLE = OpsTable(Header("ops", 1, "", ""), "net", "infer", 1, "fp32", 0, False, (_row("a", 400, 20), _row("b", 0, 30)))
"""At GPU 100 and memory 100: 4 s of compute and 3 s of memory."""


def _roof(gpu: float, mem: float, precision: str = "fp32", cpu: float = 2000.0) -> Roof:
    return Roof(Mode(12, cpu, gpu, mem), precision, gpu, mem / 10, 4.0, 1.0, 3.0)


HERE = _roof(100, 100)
ROOFS = [_roof(gpu, mem) for gpu in (25, 50, 100, 200) for mem in (50, 100)]


def _measured(roof: Roof, seconds: float, energy_j: float | None = None, **changed: object) -> ProfileRow:
    row = ProfileRow("net", "infer", 1, seconds, energy_j=energy_j, **roof.mode.knobs())  # type: ignore[arg-type]
    return replace(row, **changed)  # type: ignore[arg-type]


def test_neighbours_differ_in_one_knob_by_one_value() -> None:
    modes = [roof.mode for roof in ROOFS] + [Mode(8, 2000.0, 90, 100), Mode(12, None, 90, 100)]
    found = next_modes(HERE.mode, modes)
    assert [(knob, getattr(mode, knob)) for knob, mode in found] == [("gpu_mhz", 50), ("gpu_mhz", 200), ("mem_mhz", 50)]
    assert next_modes(HERE.mode, [HERE.mode]) == []
    assert changes(TABLE, HERE, [HERE, _roof(80, 100, "fp16")], {}) == ()


def test_a_measured_mode_has_figures() -> None:
    """Half the memory clock: 20 s became 21 s, though the roofs have 7 s become 10 s."""
    there = _roof(100, 50)
    rows = {HERE.mode: _measured(HERE, 20.0, 800.0), there.mode: _measured(there, 21.0, 820.0)}
    found = changes(TABLE, HERE, ROOFS, rows, exact=True)[-1]
    assert (found.knob, found.value, found.mode) == ("mem_mhz", 50, there.mode)
    assert (found.time.low, found.time.value, found.time.high) == pytest.approx((0.05, 0.05, 0.05))
    assert found.energy is not None
    assert (found.energy.low, found.energy.value, found.energy.high) == pytest.approx((0.025, 0.025, 0.025))


def test_the_interval_has_both_medians_and_what_differs_between_visits() -> None:
    there = _roof(100, 50)
    here = _measured(HERE, 20.0, 800.0, minibatch_ci95_low_s=19.0, minibatch_ci95_high_s=21.0)
    then = _measured(there, 22.0, None, power_w=40.0, minibatch_ci95_low_s=21.0, minibatch_ci95_high_s=23.0)
    found = changes(TABLE, HERE, ROOFS, {HERE.mode: here, there.mode: then})[-1]
    half = 1.96 * 2**0.5
    assert found.time.low == pytest.approx(21 / 21 / (1 + half * TIME_REPEAT) - 1)
    assert found.time.high == pytest.approx(23 / 19 * (1 + half * TIME_REPEAT) - 1)
    assert found.energy is not None
    assert found.energy.high == pytest.approx(880 / 800 * (1 + half * ENERGY_REPEAT) - 1)


def test_changes_are_of_mean_times_which_are_longer_than_the_medians_by_unlike_shares() -> None:
    there = _roof(100, 50)
    here = _measured(HERE, 20.0, None, minibatch_mean_s=25.0, minibatch_ci95_low_s=19.0, minibatch_ci95_high_s=21.0)
    then = _measured(there, 22.0, None, minibatch_mean_s=22.0)
    found = changes(TABLE, HERE, ROOFS, {HERE.mode: here, there.mode: then}, exact=True)[-1]
    assert found.time.value == pytest.approx(22 / 25 - 1)
    assert (found.time.low, found.time.high) == pytest.approx((22 / (21 * 1.25) - 1, 22 / (19 * 1.25) - 1))


@pytest.mark.parametrize("there", [None, "failed", "unmeasured"])
def test_a_mode_that_was_not_measured_has_a_range(there: str | None) -> None:
    """All of the 20 s may follow the slower clock, or none of them. 20 s at 4 W at rest leave 720 J, which stay."""
    mode = _roof(50, 100).mode
    rows = {HERE.mode: _measured(HERE, 20.0, 800.0)}
    if there is not None:
        row = _measured(_roof(50, 100), 21.0, 800.0)
        rows[mode] = replace(row, status="failed") if there == "failed" else replace(row, minibatch_s=None)
    lower, higher, memory = changes(TABLE, HERE, ROOFS, rows)
    assert (lower.time.low, lower.time.high, lower.time.value) == pytest.approx((0.0, 1.0, None), abs=0.02)
    assert (higher.time.low, higher.time.high) == pytest.approx((-0.5, 0.0), abs=0.02)
    assert memory.time.high == pytest.approx(1.0)
    assert lower.energy is not None
    assert (lower.energy.low, lower.energy.high) == pytest.approx((0.0, 80 / 800), abs=0.02)


def test_the_range_holds_a_gpu_that_slows_as_its_clock_where_peaks_hardly_do() -> None:
    there = replace(_roof(50, 100), flops_per_s=95.0)
    (lower,) = changes(TABLE, HERE, [HERE, there], {HERE.mode: _measured(HERE, 20.0)})
    assert lower.time.high == pytest.approx(1.0)


def test_fewer_cores_do_not_slow_what_one_core_launches() -> None:
    fewer = replace(HERE, mode=Mode(4, 2000.0, 100, 100))
    (lower,) = changes(TABLE, HERE, [HERE, fewer], {HERE.mode: _measured(HERE, 20.0)})
    assert (lower.knob, lower.time.low, lower.time.high) == ("cpu_cores", 0.0, 0.0)

"""Balance points in closed form, with the published figures of an AGX Orin, and as properties of any roofline."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.roofline import Roof
from edgetune.stages.roofline.balance import EnergyBalance, balance, efficiency, statements

_MAXN = Mode(12, 2201.6, 1300.5, 3199.0)
_ORIN = Roof(_MAXN, "fp32", 14.7e12, 164.4e9, 17.9, 3.86e-12, 141.4e-12)
"""AGX Orin at MAXN as published (Pagoda, 2025)."""

_roofs = st.builds(
    lambda peak, intensity, static_w, flop_w, byte_w: Roof(
        _MAXN, "fp32", peak, peak / intensity, static_w, flop_w / peak, byte_w * intensity / peak
    ),
    st.floats(1e9, 1e15), st.floats(1, 1000), st.floats(0, 100), st.floats(0.01, 500), st.floats(0.01, 500),
)  # fmt: skip


def _energy(roof: Roof, *, static: bool = True) -> EnergyBalance:
    found = balance(roof).energy if static else balance(roof).dynamic
    assert found is not None
    return found


def test_published_balance_points_of_an_agx_orin() -> None:
    found = balance(_ORIN)
    assert (found.mode, found.precision) == (_MAXN, "fp32")
    assert found.time == pytest.approx(89.4, abs=0.05)
    assert _energy(_ORIN).flop_per_byte == pytest.approx(39.8, abs=0.05)
    assert _energy(_ORIN, static=False).flop_per_byte == pytest.approx(36.5, rel=0.005)  # 141.4/3.86 is 36.6
    assert _energy(_ORIN).peak_flops_per_j == pytest.approx(0.196e12, rel=0.005)
    assert _energy(_ORIN, static=False).peak_flops_per_j == pytest.approx(0.26e12, rel=0.005)


def test_left_of_the_balance_in_time() -> None:
    """Per FLOP 1 J and 1 J static at the peak, per byte 3 J and 5 J static: half of 1/2 at (3 + 5)/(1 + 2) of 5."""
    roof = Roof(_MAXN, "fp32", 5.0, 1.0, 5.0, 1.0, 3.0)
    assert balance(roof).time == 5
    assert _energy(roof).flop_per_byte == pytest.approx(8 / 3)
    assert _energy(roof, static=False).flop_per_byte == pytest.approx(3)


def test_right_of_the_balance_in_time() -> None:
    """A byte of 16 J: half of the peak at 16/(1 + 1) = 8, beyond the balance of 5."""
    roof = Roof(_MAXN, "fp32", 5.0, 1.0, 5.0, 1.0, 16.0)
    assert _energy(roof).flop_per_byte == pytest.approx(8)
    assert _energy(roof, static=False).flop_per_byte == pytest.approx(16)


def test_the_branches_meet_at_the_balance_in_time() -> None:
    roof = Roof(_MAXN, "fp32", 5.0, 1.0, 5.0, 1.0, 10.0)
    assert _energy(roof).flop_per_byte == pytest.approx(5)
    for nearly in (0.999999, 1.000001):
        assert _energy(replace(roof, byte_j=10.0 * nearly)).flop_per_byte == pytest.approx(5, rel=1e-5)


@settings(max_examples=300)
@given(roof=_roofs, static=st.booleans())
def test_at_its_balance_efficiency_is_half_of_its_peak(roof: Roof, static: bool) -> None:
    found = _energy(roof, static=static)
    assert found.flop_per_byte is not None
    assert found.peak_flops_per_j is not None
    assert efficiency(roof, found.flop_per_byte, static=static) == pytest.approx(found.peak_flops_per_j / 2)
    assert efficiency(roof, 1e15, static=static) == pytest.approx(found.peak_flops_per_j, rel=1e-3)


@settings(max_examples=200)
@given(roof=_roofs, intensity=st.floats(1e-3, 1e5))
def test_efficiency_is_two_hyperbolas(roof: Roof, intensity: float) -> None:
    assert roof.static_w is not None
    assert roof.flop_j is not None
    assert roof.byte_j is not None
    left = 1 / (roof.flop_j + (roof.byte_j + roof.static_w / roof.bytes_per_s) / intensity)
    right = 1 / (roof.flop_j + roof.static_w / roof.flops_per_s + roof.byte_j / intensity)
    wanted = left if intensity <= balance(roof).time else right
    assert efficiency(roof, intensity) == pytest.approx(wanted)
    assert efficiency(roof, intensity) == pytest.approx(min(left, right))


@given(roof=_roofs, low=st.floats(0, 1e4), more=st.floats(0, 1e4))
def test_efficiency_never_falls_with_intensity(roof: Roof, low: float, more: float) -> None:
    less, greater = efficiency(roof, low), efficiency(roof, low + more)
    assert less is not None
    assert greater is not None
    assert less <= greater * (1 + 1e-12)


def test_a_flop_that_costs_nothing_has_no_balance() -> None:
    roof = Roof(_MAXN, "fp32", 10.0, 2.0, 0.0, 0.0, 1.0)
    assert _energy(roof) == EnergyBalance(None, None)
    assert efficiency(roof, 3.0) == pytest.approx(3.0)
    assert efficiency(replace(roof, byte_j=0.0), 3.0) is None


_SLOW = Mode(12, 2201.6, 726.75, 3199.0)


def test_statements_over_modes() -> None:
    slow = Roof(_SLOW, "fp32", 9.5e12, 141.3e9, 15.0, 2.9e-12, 130e-12)  # peak 1/(2.9 + 1.58) = 0.223 TFLOP/J
    found = statements([_ORIN, slow, Roof(Mode(gpu_mhz=1.0), "fp32", 1.0, 1.0)], intensities=[20.0])
    assert found is not None
    assert (found.precision, found.modes, found.implied, found.implied_dynamic) == ("fp32", 2, 2, 2)
    assert (found.most_efficient, found.lowest_flop_j, found.flop_j) == (_SLOW, _SLOW, 2.9e-12)
    assert found.peak_flops_per_j == pytest.approx(1 / (2.9e-12 + 15.0 / 9.5e12))
    (race,) = found.races
    fast_j, slow_j = 20 * 3.86e-12 + 141.4e-12 + 17.9 / 164.4e9, 20 * 2.9e-12 + 130e-12 + 15.0 / 141.3e9
    assert (race.fastest, race.least_energy, race.wins) == (_MAXN, _SLOW, False)
    assert race.slowdown_share == pytest.approx(164.4 / 141.3 - 1)
    assert race.saving_share == pytest.approx(1 - slow_j / fast_j)


def test_time_need_not_imply_energy() -> None:
    """Without static power this byte costs 10 FLOP and takes as long as 5; with it, 16/8 against 5."""
    roof = Roof(_MAXN, "fp32", 5.0, 1.0, 35.0, 1.0, 10.0)
    found = statements([roof])
    assert found is not None
    assert (found.implied, found.implied_dynamic) == (1, 0)


def test_a_mode_as_fast_as_the_fastest_wins_the_race_too() -> None:
    fewer_cores = replace(_ORIN, mode=replace(_MAXN, cpu_cores=4), bytes_per_s=164.0e9, static_w=16.0)
    found = statements([_ORIN, fewer_cores], intensities=[0.0])
    assert found is not None
    assert (found.races[0].wins, found.races[0].least_energy) == (True, fewer_cores.mode)

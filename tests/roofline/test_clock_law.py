"""Laws of clocks: exact where the figures obey one, chosen by what they foretell, refused where nothing is known."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.roofline import Roof
from edgetune.errors import InputError
from edgetune.stages.roofline.clocks import best_scaling_law, correlations, infer_roofs

_GPU, _MEM = (300.0, 600.0, 900.0, 1300.0), (665.0, 2133.0, 3199.0)
_GRID = [Mode(gpu_mhz=gpu, mem_mhz=mem) for gpu in _GPU for mem in _MEM]
_BETWEEN = [Mode(gpu_mhz=gpu, mem_mhz=mem) for gpu in (450.0, 750.0, 1100.0) for mem in (1200.0, 2500.0)]


def _slowest(one: float, other: float, power: float) -> float:
    return float((one**-power + other**-power) ** (-1 / power))


def _roof(mode: Mode) -> Roof:
    """A board whose products and copies wait for two blocks, and whose voltage rises with the clock."""
    gpu, mem = (mode.gpu_mhz or 0) / 1300, (mode.mem_mhz or 0) / 3199
    flops_per_s = _slowest(14e12 * gpu, 20e12 * mem, 4)
    bytes_per_s = _slowest(300e9 * gpu, 200e9 * mem, 1)
    flop_j, byte_j = 3e-12 + 1e-12 * gpu**3 + 0.2e-12 / gpu, 50e-12 + 60e-12 / mem
    return Roof(mode, "fp32", flops_per_s, bytes_per_s, 9 + 3 * gpu**3 + 4 * mem, flop_j, byte_j)


def _figures(roofs: Sequence[Roof]) -> list[tuple[float | None, ...]]:
    return [(roof.flops_per_s, roof.bytes_per_s, roof.static_w, roof.flop_j, roof.byte_j) for roof in roofs]


def test_a_board_that_obeys_the_laws_is_known_everywhere() -> None:
    found = infer_roofs([_roof(mode) for mode in _GRID], _BETWEEN)
    assert np.array(_figures(found.roofs)) == pytest.approx(np.array(_figures([_roof(m) for m in _BETWEEN])), rel=1e-6)
    assert [(roof.mode, roof.measured) for roof in found.roofs] == [(mode, False) for mode in _BETWEEN]
    assert {name: law.name for name, law in found.scaling_laws.items()} == {
        "flops_per_s": "waits 4", "bytes_per_s": "waits 1", "static_w": "sums", "flop_j": "sums", "byte_j": "sums",
    }  # fmt: skip
    assert all(law.error_share < 1e-6 for law in found.scaling_laws.values())
    assert found.data_warnings == ()


def test_measured_modes_stay_as_measured() -> None:
    roofs = [_roof(mode) for mode in _GRID]
    odd = replace(roofs[0], flops_per_s=1.5 * roofs[0].flops_per_s)
    found = infer_roofs([odd, *roofs[1:]], [_BETWEEN[0], _GRID[0]])
    assert found.roofs[1] == odd
    assert not found.roofs[0].measured


def test_steps_that_no_simple_law_has_are_followed_by_a_spline() -> None:
    """Each memory clock has timings of its own."""
    efficiency = {665.0: 1.0, 2133.0: 0.75, 3199.0: 0.97}

    def roof(mode: Mode) -> Roof:
        scale = efficiency[mode.mem_mhz or 0]
        return replace(_roof(mode), bytes_per_s=_slowest(300e9 * (mode.gpu_mhz or 0) / 1300,
                                                         200e9 * scale * (mode.mem_mhz or 0) / 3199, 8))  # fmt: skip

    asked = [Mode(gpu_mhz=1000.0, mem_mhz=mem) for mem in _MEM]
    found = infer_roofs([roof(mode) for mode in _GRID], asked)
    assert found.scaling_laws["bytes_per_s"].name == "spline"
    wanted = [roof(mode).bytes_per_s for mode in asked]
    assert [one.bytes_per_s for one in found.roofs] == pytest.approx(wanted, rel=0.03)


def _beside_host(mode: Mode, cpu_mhz: float, cores: int, *, off: float = 0.0) -> Roof:
    """The board with a host whose cores and clock draw half a watt each at most, and bandwidth ``off`` by a share."""
    roof = _roof(mode)
    static_w = (roof.static_w or 0) + 0.5 * cores / 12 + 0.5 * cpu_mhz / 2200
    host = replace(mode, cpu_mhz=cpu_mhz, cpu_cores=cores)
    return replace(roof, mode=host, bytes_per_s=roof.bytes_per_s * (1 + off), static_w=static_w)


def test_peaks_and_constants_of_an_accelerator_do_not_follow_its_host() -> None:
    """Measured as for tuning: accelerator clocks with the host highest, and knobs of the host with all else highest, of
    which one copy came out 4 % slow. No other mode must hear of it, and no peak be carried along the CPU clock."""
    top = _GRID[-1]
    measured = [_beside_host(mode, 2200.0, 12) for mode in _GRID]
    measured += [_beside_host(top, 1300.0, 12, off=-0.04), _beside_host(top, 400.0, 12), _beside_host(top, 2200.0, 4)]
    accelerator = [(gpu_mhz, mem_mhz) for gpu_mhz in (300.0, 450.0, 1100.0) for mem_mhz in (665.0, 1200.0, 3199.0)]
    found = infer_roofs(measured, [Mode(4, 400.0, *clocks) for clocks in accelerator])
    assert {name: law.knobs for name, law in found.scaling_laws.items() if name != "static_w"} == dict.fromkeys(
        ("flops_per_s", "bytes_per_s", "flop_j", "byte_j"), ("gpu_mhz", "mem_mhz")
    )
    assert found.scaling_laws["static_w"].knobs == ("cpu_cores", "cpu_mhz", "gpu_mhz", "mem_mhz")
    alone = infer_roofs([_roof(mode) for mode in _GRID], [Mode(None, None, *mode) for mode in accelerator])
    for roof, wanted in zip(found.roofs, alone.roofs, strict=True):
        figures = (roof.flops_per_s, roof.bytes_per_s, roof.flop_j, roof.byte_j)
        assert figures == pytest.approx(
            (wanted.flops_per_s, wanted.bytes_per_s, wanted.flop_j, wanted.byte_j), rel=1e-9
        )
        assert roof.static_w == pytest.approx((wanted.static_w or 0) + 0.5 * 4 / 12 + 0.5 * 400 / 2200, rel=1e-6)


def test_a_host_without_gpu_follows_its_own_clock() -> None:
    def roof(cores: int, mhz: float) -> Roof:
        return Roof(Mode(cpu_cores=cores, cpu_mhz=mhz), "fp32", 8e6 * mhz * cores, _slowest(5e9 * cores, 20e9, 4))

    measured = [roof(cores, mhz) for cores in (1, 2, 4, 8) for mhz in (800.0, 1600.0, 2400.0)]
    (found,) = infer_roofs(measured, [Mode(cpu_cores=6, cpu_mhz=2000.0)]).roofs
    assert found.flops_per_s == pytest.approx(8e6 * 2000 * 6, rel=0.01)
    assert found.bytes_per_s == pytest.approx(_slowest(30e9, 20e9, 4), rel=0.01)
    assert (found.static_w, found.flop_j, found.byte_j) == (None, None, None)


@pytest.mark.parametrize(
    ("modes", "asked", "message"),
    [
        (_GRID[:1], _GRID[1:2], "1 measured mode cannot predict 1 others"),
        ([_GRID[0], _GRID[4], _GRID[11]], _BETWEEN, "3 measured modes are too few to predict 6 others"),
        (
            _GRID[::3],
            [Mode(gpu_mhz=600.0, mem_mhz=3199.0)],
            "mem_mhz was 665 in every measured mode, and 3199 is asked",
        ),
        (_GRID, [Mode(mem_mhz=665.0)], "gpu_mhz was 1300 or 300 or 600 or 900 in every measured mode, and not set"),
    ],
)
def test_modes_that_cannot_be_predicted_are_refused(modes: list[Mode], asked: list[Mode], message: str) -> None:
    with pytest.raises(InputError) as caught:
        infer_roofs([_roof(mode) for mode in modes], asked)
    assert message in caught.value.message


@settings(deadline=None, max_examples=40)
@given(power=st.sampled_from([1, 2, 4, 8]), waits=st.tuples(*[st.floats(0.2, 5)] * 3), scale=st.floats(1e6, 1e15))
def test_waits_are_found_again(power: int, waits: tuple[float, float, float], scale: float) -> None:
    clocks = np.array([[gpu, mem] for gpu in _GPU for mem in _MEM])
    relative = clocks / clocks.max(axis=0)

    def figure(at: np.ndarray) -> np.ndarray:
        terms = np.column_stack([np.full(len(at), waits[0]), waits[1] / at[:, 0], waits[2] / at[:, 1]])
        return np.asarray(scale * (terms**power).sum(axis=1) ** (-1 / power))

    law = best_scaling_law(clocks, figure(relative), ("gpu", "mem"), peak=True)
    assert law is not None
    between = np.array([[450.0, 1000.0], [1200.0, 3000.0]])
    assert law.at(between) == pytest.approx(figure(between / clocks.max(axis=0)), rel=1e-3)
    assert law.error_share < 1e-3


def test_the_error_is_that_of_what_was_left_out() -> None:
    """1/y = 0.2 + 0.2/f goes through both ends and says 1/0.6 in the middle."""
    clocks, values = np.array([[1.0], [2.0], [4.0]]), np.array([1.0, 1.66, 2.5])
    law = best_scaling_law(clocks, values, ("gpu",), peak=True)
    assert law is not None
    assert law.name == "waits 1"
    assert law.error_share == pytest.approx(1 / 0.6 / 1.66 - 1)


@pytest.mark.parametrize(
    ("peak", "pearson", "spearman"),
    [
        (lambda mhz: 2.0 * mhz, 1.0, 1.0),
        (lambda mhz: mhz**3, 0.9, 1.0),
        (lambda mhz: -mhz, -1.0, -1.0),
        (lambda mhz: 5.0, None, None),
    ],
)
def test_correlations(peak: Callable[[float], float], pearson: float | None, spearman: float | None) -> None:
    roofs = [Roof(Mode(cpu_mhz=2200.0, gpu_mhz=mhz), "fp32", peak(mhz), 1.0) for mhz in _GPU]
    flops, moved = correlations(roofs)
    assert (flops.knob, flops.peak, moved.peak, moved.pearson) == ("gpu_mhz", "flops_per_s", "bytes_per_s", None)
    assert flops.pearson == (None if pearson is None else pytest.approx(pearson, abs=0.05))
    assert flops.spearman == (None if spearman is None else pytest.approx(spearman))

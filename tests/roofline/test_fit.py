"""Kernels made from a known roofline give that roofline back; what they lack is named."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.roofline import KernelRun
from edgetune.stages.roofline.fit import fit_roofs

_MODE = Mode(gpu_mhz=1300.5, mem_mhz=3199.0)
_PEAK, _BANDWIDTH, _STATIC, _FLOP, _BYTE = 14.7e12, 164.4e9, 17.9, 3.86e-12, 141.4e-12


def _run(kernel: str, size: int, flops: float, moved: float, **changes: object) -> KernelRun:
    """A kernel that runs exactly on Pagoda's roofline at MAXN."""
    seconds = max(flops / _PEAK, moved / _BANDWIDTH)
    power_w = (_FLOP * flops + _BYTE * moved) / seconds + _STATIC
    return replace(KernelRun(kernel, size, "fp32", _MODE, flops, moved, seconds, power_w), **changes)  # type: ignore[arg-type]


def _matmul(size: int, **changes: object) -> KernelRun:
    return _run("matmul", size, 2.0 * size**3, 12.0 * size**2, **changes)


def _thin(inner: int, size: int = 8192) -> KernelRun:
    return _run("matmul", size, 2.0 * size**2 * inner, 8.0 * inner * size + 4.0 * size**2)


def _relu(size: int, **changes: object) -> KernelRun:
    return _run("relu", size, float(size**2), 8.0 * size**2, **changes)


_IDLE = KernelRun("idle", 0, "fp32", _MODE, 0.0, 0.0, 10.0, _STATIC)
_KERNELS = (_matmul(4096), _matmul(8192), _thin(64), _thin(128), _relu(8192), _relu(16384))


@pytest.mark.parametrize("idle", [(_IDLE,), ()], ids=["idle measured", "idle told from the kernels"])
def test_the_roofline_that_made_the_kernels_comes_back(idle: tuple[KernelRun, ...]) -> None:
    fit = fit_roofs([*idle, *_KERNELS])
    (roof,) = fit.roofs
    assert (roof.mode, roof.precision, roof.measured) == (_MODE, "fp32", True)
    assert roof.flops_per_s == pytest.approx(_PEAK)
    assert roof.bytes_per_s == pytest.approx(_BANDWIDTH)
    assert roof.static_w == pytest.approx(_STATIC)
    assert (roof.flop_j, roof.byte_j) == (pytest.approx(_FLOP), pytest.approx(_BYTE))
    assert roof.residual_share == pytest.approx(0, abs=1e-9)
    assert fit.data_warnings == ()


@settings(deadline=None, max_examples=60)
@given(
    peak=st.floats(1e9, 1e15),
    balance=st.floats(5, 600),
    static_w=st.floats(0.1, 100),
    flop_w=st.floats(0.1, 500),
    byte_w=st.floats(0.1, 500),
)
def test_any_roofline_comes_back(peak: float, balance: float, static_w: float, flop_w: float, byte_w: float) -> None:
    bandwidth, flop_j = peak / balance, flop_w / peak
    byte_j = byte_w / bandwidth

    def run(intensity: float, flops: float) -> KernelRun:
        moved = flops / intensity
        seconds = max(flops / peak, moved / bandwidth)
        power_w = static_w + (flop_j * flops + byte_j * moved) / seconds
        return KernelRun("kernel", 1, "fp16", _MODE, flops, moved, seconds, power_w)

    idle = KernelRun("idle", 0, "", _MODE, 0, 0, 1, static_w)
    (roof,) = fit_roofs([idle, *(run(intensity, peak) for intensity in (0.125, balance, 1000, 4000))]).roofs
    assert (roof.flops_per_s, roof.bytes_per_s) == (pytest.approx(peak), pytest.approx(bandwidth))
    assert (roof.flop_j, roof.byte_j) == (pytest.approx(flop_j, rel=1e-6), pytest.approx(byte_j, rel=1e-6))


def test_the_peak_is_the_median_of_the_best_size() -> None:
    times = [0.010, 0.010, 0.002]  # one run of three that cannot be true
    runs = [_matmul(2048, seconds=0.0015), *(_matmul(4096, seconds=time_s) for time_s in times), _relu(8192)]
    (roof,) = fit_roofs(runs).roofs
    assert roof.flops_per_s == pytest.approx(2 * 4096**3 / 0.010)


def test_a_copy_that_fits_a_cache_proves_nothing_of_memory() -> None:
    cached = _relu(1024, seconds=8.0 * 1024**2 / 2e12)
    (roof,) = fit_roofs([_IDLE, *_KERNELS, cached]).roofs
    assert roof.bytes_per_s == pytest.approx(_BANDWIDTH)
    assert roof.byte_j == pytest.approx(_BYTE)


def test_kernels_far_below_the_roof_are_not_taken_for_their_energy() -> None:
    waiting = _matmul(256, seconds=1e-3, power_w=60.0)
    (roof,) = fit_roofs([_IDLE, *_KERNELS, waiting]).roofs
    assert roof.flop_j == pytest.approx(_FLOP)
    assert roof.residual_share == pytest.approx(0, abs=1e-9)


def test_kernels_near_the_balance_do_not_tell_the_constants_though_one_product_ran() -> None:
    """In all modes but the first one size of a product runs. Thin products keep arithmetic and memory busy at once and
    draw less than the sum: the constants are those of the kernels that do not, and the residual tells."""
    thin = [replace(run, power_w=0.8 * (run.power_w or 0)) for run in (_thin(64), _thin(128))]
    (roof,) = fit_roofs([_IDLE, _matmul(8192), _relu(8192), _relu(16384), *thin]).roofs
    assert (roof.flop_j, roof.byte_j) == (pytest.approx(_FLOP), pytest.approx(_BYTE))
    assert roof.residual_share == pytest.approx(0.25 * (2 / 5) ** 0.5)


def test_a_mode_that_lacks_kernels_is_left_out_and_reported() -> None:
    low = replace(_matmul(4096), mode=Mode(gpu_mhz=300.0))
    fit = fit_roofs([_IDLE, *_KERNELS, low])
    assert [roof.mode for roof in fit.roofs] == [_MODE]
    (caution,) = fit.data_warnings
    assert (caution.code, caution.numbers) == ("roofs-left-out", {"roofs": 1.0})
    assert "GPU 300 MHz" in caution.advice


def test_a_constant_at_its_bound_is_zero_and_reported() -> None:
    runs = [replace(_IDLE, power_w=40.0), *_KERNELS[:4], _relu(8192, power_w=34.0), _relu(16384, power_w=35.0)]
    fit = fit_roofs(runs)
    assert fit.roofs[0].byte_j == 0.0
    assert fit.roofs[0].byte_j_error is None
    assert fit.roofs[0].flop_j is not None
    assert fit.roofs[0].flop_j > 0
    assert [(caution.code, caution.numbers) for caution in fit.data_warnings] == [("energy-at-bound", {"roofs": 1.0})]
    assert "energy per byte came out as zero" in fit.data_warnings[0].advice


def test_the_interval_holds_the_truth_19_times_in_20() -> None:
    random = np.random.default_rng(7)
    held = 0
    for _ in range(300):
        noisy = [replace(run, power_w=run.power_w * factor)  # type: ignore[operator]
                 for run, factor in zip(_KERNELS, random.normal(1, 0.02, len(_KERNELS)), strict=True)]  # fmt: skip
        (roof,) = fit_roofs([_IDLE, *noisy]).roofs
        assert roof.flop_j is not None
        assert roof.flop_j_error is not None
        held += abs(roof.flop_j - _FLOP) <= roof.flop_j_error
    assert 0.91 < held / 300 < 0.985  # four standard deviations of a count of 300 around 0.95

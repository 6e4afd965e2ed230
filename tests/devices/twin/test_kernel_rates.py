"""What a power mode makes of single kernels, against the equations of the twin at both ends of its clocks."""

import pytest

from edgetune.artifacts.mode import Mode
from edgetune.devices.twin.constants import load_board
from edgetune.devices.twin.kernel_rates import kernel_rates

TWIN = load_board("orin-agx")[0]
HIGHEST = Mode(cpu_cores=12, cpu_mhz=2201.6, gpu_mhz=1300.5, mem_mhz=3199)
SLOW = Mode(cpu_cores=4, cpu_mhz=729.6, gpu_mhz=318.75, mem_mhz=665.6)


def test_the_highest_mode_is_the_reference_and_slow_clocks_are_slower_and_draw_less():
    high, slow = kernel_rates(TWIN, [HIGHEST, SLOW])
    c = TWIN.values
    assert high.gpu_speed == pytest.approx(1.0)
    assert high.launch_slowdown == pytest.approx(1.0)
    assert high.active_w == pytest.approx(c.gpu_active_w)
    assert high.flop_j == pytest.approx(c.fp32_pj * 1e-12)
    assert slow.gpu_speed == pytest.approx(318.75 / 1300.5)
    assert slow.launch_slowdown > c.cpu_max_ghz / 0.7296
    assert slow.bandwidth_bytes_per_s < high.bandwidth_bytes_per_s / 3
    assert slow.rest_w < high.rest_w
    assert slow.flop_j < high.flop_j
    assert slow.byte_j == high.byte_j == pytest.approx(c.byte_pj * 1e-12)

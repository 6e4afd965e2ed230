"""The fake of NVML: it says that it is one, and has the signatures of the real library."""

from __future__ import annotations

import inspect

import pytest

from edgetune.devices.nvml import gpu, sensors
from edgetune.testing.fake_clock import FakeClock
from fakes import nvml
from fakes.nvml import FakeGpu, FakeNvml, FakeNvmlError

FUNCTIONS = [name for name in vars(FakeNvml) if name.startswith("nvml")]


def test_it_says_that_it_is_a_fake() -> None:
    assert (nvml.__doc__ or "").startswith("A fake")
    assert "Fake" in FakeGpu().name


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_takes_what_the_real_one_takes(name: str) -> None:
    pynvml = pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed: pip install 'edgetune[nvidia]'")
    required = [
        parameter.name
        for parameter in inspect.signature(getattr(pynvml, name)).parameters.values()
        if parameter.default is inspect.Parameter.empty
    ]
    assert list(inspect.signature(getattr(FakeNvml, name)).parameters)[1:] == required


def test_the_numbers_are_those_of_the_real_library() -> None:
    pynvml = pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed: pip install 'edgetune[nvidia]'")
    codes = ("NOT_SUPPORTED", "NO_PERMISSION", "DRIVER_NOT_LOADED", "LIBRARY_NOT_FOUND", "FUNCTION_NOT_FOUND")
    for name in (*codes, "GPU_IS_LOST", "RESET_REQUIRED", "ARGUMENT_VERSION_MISMATCH", "DEPRECATED"):
        assert getattr(gpu, name) == getattr(pynvml, f"NVML_ERROR_{name}")
    assert pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH == gpu.VERSION_MISMATCH
    for name in ("VOLTA", "TURING", "AMPERE"):
        assert getattr(gpu, name) == getattr(pynvml, f"NVML_DEVICE_ARCH_{name}")
    assert pynvml.NVML_FI_DEV_POWER_INSTANT == gpu.POWER_INSTANT
    assert pynvml.NVML_FI_DEV_MEMORY_TEMP == gpu.MEMORY_TEMPERATURE
    assert pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN == gpu.SW_THERMAL_SLOWDOWN_NS
    assert pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN == gpu.HW_THERMAL_SLOWDOWN_NS
    assert pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN == gpu.HW_POWER_BRAKE_NS
    assert (pynvml.NVML_CLOCK_GRAPHICS, pynvml.NVML_CLOCK_MEM) == (gpu.GRAPHICS_CLOCK, gpu.MEMORY_CLOCK)
    assert pynvml.nvmlClocksEventReasonHwSlowdown == sensors.HW_SLOWDOWN
    assert pynvml.nvmlClocksEventReasonSwThermalSlowdown == sensors.SW_THERMAL
    assert pynvml.nvmlClocksEventReasonHwThermalSlowdown == sensors.HW_THERMAL
    assert pynvml.nvmlClocksEventReasonHwPowerBrakeSlowdown == sensors.HW_POWER_BRAKE
    for kind, member in enumerate(gpu._VALUE_OF_TYPE):
        assert hasattr(pynvml.c_nvmlFieldValue_t().value, member), kind


def test_its_energy_is_the_integral_of_its_power_through_changes_of_mode() -> None:
    clock = FakeClock()
    fake = FakeGpu(refresh_ns=1)
    nvml = FakeNvml([fake], clock)
    nvml.nvmlInit()
    spent_j = 0.0
    for mhz, seconds in ((1800, 2.0), (900, 3.0), (300, 0.5)):
        nvml.nvmlDeviceSetGpuLockedClocks(fake, mhz, mhz)
        spent_j += fake.power_w * seconds
        clock.sleep_s(seconds)
    fake.load = 0
    fake.note_power(clock.now_ns())
    clock.sleep_s(1)
    assert nvml.nvmlDeviceGetTotalEnergyConsumption(fake) == pytest.approx((spent_j + fake.power_w) * 1e3, abs=2)
    assert nvml.nvmlDeviceGetPowerUsage(fake) == pytest.approx(fake.power_w * 1e3, abs=2)


def test_its_power_is_the_mean_of_a_second_and_its_counter_moves_in_steps() -> None:
    clock = FakeClock(10_000_000_000)
    fake = FakeGpu(energy_j=lambda time_s: 100 * max(0.0, time_s - 10))
    nvml = FakeNvml([fake], clock)
    nvml.nvmlInit()
    clock.sleep_s(0.25)  # a quarter of the second at 100 W, of which a fifth has been renewed
    assert nvml.nvmlDeviceGetPowerUsage(fake) == 20_000
    assert nvml.nvmlDeviceGetTotalEnergyConsumption(fake) == 20_000


def test_before_it_is_initialised_nothing_answers() -> None:
    with pytest.raises(FakeNvmlError):
        FakeNvml([FakeGpu()]).nvmlDeviceGetCount()

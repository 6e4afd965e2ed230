"""Temperature and throttling, on a fake of NVML."""

import pytest

from edgetune.devices.capabilities import Absent
from edgetune.devices.nvml.gpu import Gpu, GpuLostError, load_nvml
from edgetune.devices.nvml.sensors import (
    GpuTelemetry,
    GpuThermometer,
    GpuThrottling,
    open_thermometer,
    open_throttling,
)
from fakes.nvml import FakeGpu, FakeNvml, virtual_gpu

NEW, OLD = "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"


def gpu_of(fake: FakeGpu) -> Gpu:
    return Gpu(load_nvml(FakeNvml([fake])), 0)


def test_the_hotter_of_gpu_and_memory_counts() -> None:
    fake = FakeGpu(temperature_c=61, memory_c=74)
    thermometer = open_thermometer(gpu_of(fake))
    assert isinstance(thermometer, GpuThermometer)
    assert thermometer.read_c() == 74
    fake.temperature_c = 80
    assert thermometer.read_c() == 80


def test_a_memory_without_a_sensor_is_not_zero_degrees() -> None:
    fake = FakeGpu(temperature_c=-5)
    thermometer = open_thermometer(gpu_of(fake))
    assert isinstance(thermometer, GpuThermometer)
    assert thermometer.read_c() == -5
    fake.unsupported |= {"nvmlDeviceGetTemperature", "nvmlDeviceGetTemperatureV"}
    assert thermometer.read_c() is None


def test_a_lost_gpu_has_no_temperature_but_an_error() -> None:
    fake = FakeGpu()
    thermometer = open_thermometer(gpu_of(fake))
    assert isinstance(thermometer, GpuThermometer)
    fake.lost = True
    with pytest.raises(GpuLostError):
        thermometer.read_c()


@pytest.mark.parametrize("name", [NEW, OLD])
@pytest.mark.parametrize(
    ("reason", "throttles"),
    # nvml.h, nvmlClocksEventReasons
    [
        (0x0, False),
        (0x1, False),  # idle
        (0x2, False),  # applications clocks
        (0x4, False),  # software power cap
        (0x8, True),  # hardware slowdown
        (0x10, False),  # sync boost
        (0x20, True),  # software thermal slowdown
        (0x40, True),  # hardware thermal slowdown
        (0x80, True),  # power brake
        (0x100, False),  # display clocks
        (0x24, True),  # power cap and heat
    ],
)
def test_heat_and_power_brake_are_throttling_and_settings_are_not(name: str, reason: int, throttles: bool) -> None:
    fake = FakeGpu(missing={NEW, OLD} - {name})
    throttling = open_throttling(gpu_of(fake))
    assert isinstance(throttling, GpuThrottling)
    before = throttling.read()
    fake.reasons = reason
    assert (throttling.read() > before) is throttles


def test_throttling_that_came_and_went_is_in_the_counter_of_its_time() -> None:
    fake = FakeGpu(missing={NEW, OLD}, thermal_ns=7_000)
    throttling = open_throttling(gpu_of(fake))
    assert isinstance(throttling, GpuThrottling)
    assert throttling.read() == 0  # what was before is not ours
    fake.thermal_ns += 1
    assert throttling.read() == 1
    assert throttling.read() == 1


def test_throttling_seen_between_two_counts_is_kept() -> None:
    fake = FakeGpu(unsupported={"nvmlDeviceGetViolationStatus"})
    throttling = open_throttling(gpu_of(fake))
    assert isinstance(throttling, GpuThrottling)
    before = throttling.read()
    fake.reasons = 0x40
    throttling.note()
    fake.reasons = 0
    assert throttling.read() == before + 1


def test_a_gpu_that_tells_neither_has_none_with_a_reason() -> None:
    gpu = gpu_of(virtual_gpu())
    for sensor in (open_thermometer(gpu), open_throttling(gpu)):
        assert isinstance(sensor, Absent)
        assert "virtual GPUs" in sensor.reason


def test_telemetry_shows_what_answers_and_none_for_the_rest() -> None:
    shown = GpuTelemetry(gpu_of(FakeGpu())).read()
    assert shown["clocks_mhz"] == {"graphics": 1800, "memory": 7001}
    assert shown["power_w"]["limit"] == 230
    assert shown["temperature_c"] == {"gpu": 55, "memory": None}
    assert shown["memory_bytes"] == {"used": 1 << 30, "total": 8 << 30}
    assert shown["throttling_now"] == {"devices": "none"}
    silent = GpuTelemetry(gpu_of(virtual_gpu())).read()
    assert silent["power_w"] == {"board": None, "board now": None, "limit": None}

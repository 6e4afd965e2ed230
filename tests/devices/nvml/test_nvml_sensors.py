"""Energy and power of a GPU, on a fake of NVML: they test edgetune's arithmetic, not any hardware.

Temperature and throttling, on a fake of NVML.
"""

import math
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetune.devices.capabilities import Absent, PowerReading
from edgetune.devices.nvml.gpu import POWER_INSTANT, TURING, VOLTA, Gpu, GpuLostError, load_nvml
from edgetune.devices.nvml.sensors import (
    EnergyMeter,
    GaugeMeter,
    GpuTelemetry,
    GpuThermometer,
    NvmlPower,
    open_power,
    open_thermometer,
    open_throttling,
)
from edgetune.testing.fake_jetson import FakeClock
from fakes.nvml import FakeGpu, FakeNvml, virtual_gpu

ENERGY = "nvmlDeviceGetTotalEnergyConsumption"


def opened(fake: FakeGpu, clock: FakeClock | None = None) -> tuple[NvmlPower | Absent, Gpu, FakeClock]:
    clock = clock or FakeClock(5_000_000_000)
    gpu = Gpu(load_nvml(FakeNvml([fake], clock)), 0)
    return open_power(gpu, clock), gpu, clock


def polled(meter: EnergyMeter | GaugeMeter, clock: FakeClock, *, for_s: float, every_s: float) -> list[PowerReading]:
    found = []
    for _ in range(round(for_s / every_s)):
        clock.sleep_s(every_s)
        if (reading := meter.read()) is not None:
            found.append(reading)
    return found


@pytest.mark.parametrize(
    ("fake", "source"),
    [
        (FakeGpu(unsupported={ENERGY}), "nvml:power-instant"),
        (FakeGpu(unsupported={ENERGY, POWER_INSTANT}), "nvml:power"),
        (FakeGpu(unsupported={ENERGY}, missing={"nvmlDeviceGetFieldValues"}), "nvml:power"),
        (FakeGpu(architecture=VOLTA - 1, missing={"nvmlDeviceGetFieldValues"}, averaging_ns=0), "nvml:power"),
        (FakeGpu(energy_j=lambda _: 1.0), "nvml:power-instant"),  # a counter that never moves
    ],
)
def test_without_the_counter_power_is_read_and_named(fake: FakeGpu, source: str) -> None:
    sensor, _, _ = opened(fake)
    assert sensor.source == source


@settings(max_examples=60, deadline=None)
@given(
    refresh_ms=st.integers(10, 120),
    period_s=st.floats(0.05, 1.5),
    swing_w=st.floats(0, 90),
    phase_ms=st.integers(0, 150),
)
def test_readings_add_up_to_the_energy_that_was_used(
    refresh_ms: int, period_s: float, swing_w: float, phase_ms: int
) -> None:
    """Power swings as a sine; what the readings add up to is within 3 % of its exact integral."""

    def energy_j(time_s: float) -> float:
        turns = 2 * math.pi / period_s
        return 100 * time_s + swing_w / turns * (1 - math.cos(turns * time_s))

    fake = FakeGpu(energy_j=energy_j, refresh_ns=refresh_ms * 1_000_000)
    sensor, gpu, clock = opened(fake, FakeClock(5_000_000_000 + phase_ms * 1_000_000))
    meter = EnergyMeter(lambda: float(gpu.ask(ENERGY)), clock, sensor.refresh_s)
    readings = polled(meter, clock, for_s=4, every_s=sensor.refresh_s / 10)
    times_s = [readings[0].time_ns / 1e9 - sensor.refresh_s, *(reading.time_ns / 1e9 for reading in readings)]
    used_j = sum(r.power_w * (end - start) for r, (start, end) in zip(readings, pairwise(times_s), strict=True))
    assert used_j == pytest.approx(energy_j(times_s[-1]) - energy_j(times_s[0]), rel=0.03)
    assert len(readings) >= 4 / sensor.refresh_s / 2


def test_the_first_reading_does_not_hold_energy_from_before() -> None:
    """The meter starts a moment before a renewal: a whole interval's energy must not fall into that moment."""
    clock = FakeClock(1_095_000_000)
    fake = FakeGpu(energy_j=lambda time_s: 50 * time_s)
    gpu = Gpu(load_nvml(FakeNvml([fake], clock)), 0)
    readings = polled(EnergyMeter(lambda: float(gpu.ask(ENERGY)), clock, 0.1), clock, for_s=1, every_s=0.01)
    assert [reading.power_w for reading in readings] == pytest.approx([50] * len(readings), rel=0.01)
    assert len(readings) == 9


def test_a_counter_that_starts_again_gives_no_reading_across_the_gap() -> None:
    values = iter([1000.0, 2000.0, 12_000.0, 5.0, 10_005.0])
    clock = FakeClock()
    meter = EnergyMeter(lambda: next(values), clock, 0.1)
    powers = [reading.power_w for reading in polled(meter, clock, for_s=0.4, every_s=0.1)]
    assert powers == pytest.approx([100, 100])


def test_a_steady_gauge_is_not_repeated_at_every_poll() -> None:
    clock = FakeClock()
    readings = polled(GaugeMeter(lambda: 42_000.0, clock, 0.1), clock, for_s=3, every_s=0.01)
    assert {reading.power_w for reading in readings} == {42.0}
    assert len(readings) == 27  # every 0.11 s


def test_a_gauge_that_changes_is_read_at_its_changes() -> None:
    clock = FakeClock()
    meter = GaugeMeter(lambda: float(clock.now_ns() // 100_000_000), clock, 0.1)
    readings = polled(meter, clock, for_s=1, every_s=0.01)
    assert [round(reading.time_ns / 1e9, 3) for reading in readings] == [round(0.1 * n, 3) for n in range(1, 11)]


def test_a_gpu_lost_while_recording_ends_the_readings_and_says_so() -> None:
    fake = FakeGpu(architecture=TURING)
    sensor, _, _ = opened(fake)
    with sensor.record() as recording:
        fake.lost = True
    assert recording.readings == ()
    assert recording.failure is not None
    assert "the GPU is lost" in recording.failure


def test_every_reading_looks_for_throttling() -> None:
    clock, looks = FakeClock(5_000_000_000), []
    gpu = Gpu(load_nvml(FakeNvml([FakeGpu()], clock)), 0)
    sensor = open_power(gpu, clock, lambda: looks.append(clock.now_ns()))
    meter = sensor.meter()
    clock.sleep_s(0.15)
    meter.read()
    with sensor.record() as recording:
        clock.sleep_s(0.1)
        recording.poll()
        clock.sleep_s(0.1)
    assert len(recording.readings) == len(looks) == 1


NEW, OLD = "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"


def gpu_of(fake: FakeGpu) -> Gpu:
    return Gpu(load_nvml(FakeNvml([fake])), 0)


def test_a_memory_without_a_sensor_is_not_zero_degrees() -> None:
    fake = FakeGpu(temperature_c=-5)
    thermometer = open_thermometer(gpu_of(fake))
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
        (0x1, False),  # idle
        (0x4, False),  # software power cap
        (0x8, True),  # hardware slowdown
        (0x20, True),  # software thermal slowdown
        (0x40, True),  # hardware thermal slowdown
        (0x80, True),  # power brake
        (0x24, True),  # power cap and heat
    ],
)
def test_heat_and_power_brake_are_throttling_and_settings_are_not(name: str, reason: int, throttles: bool) -> None:
    fake = FakeGpu(missing={NEW, OLD} - {name})
    throttling = open_throttling(gpu_of(fake))
    before = throttling.read()
    fake.reasons = reason
    assert (throttling.read() > before) is throttles


def test_throttling_that_came_and_went_is_in_the_counter_of_its_time() -> None:
    fake = FakeGpu(missing={NEW, OLD}, thermal_ns=7_000)
    throttling = open_throttling(gpu_of(fake))
    assert throttling.read() == 0  # what was before is not ours
    fake.thermal_ns += 1
    assert throttling.read() == 1
    assert throttling.read() == 1


def test_throttling_seen_between_two_counts_is_kept() -> None:
    fake = FakeGpu(unsupported={"nvmlDeviceGetViolationStatus"})
    throttling = open_throttling(gpu_of(fake))
    before = throttling.read()
    fake.reasons = 0x40
    throttling.note()
    fake.reasons = 0
    assert throttling.read() == before + 1


def test_a_gpu_that_tells_neither_has_none_with_a_reason() -> None:
    gpu = gpu_of(virtual_gpu())
    for sensor in (open_thermometer(gpu), open_throttling(gpu)):
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

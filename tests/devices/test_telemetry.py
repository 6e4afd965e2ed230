"""What any device shows of itself: its own telemetry, else what its capabilities answer.

Load of each CPU and memory, from accounts written as the kernel writes them.
"""

from dataclasses import replace

import pytest

from edgetune.artifacts.mode import Mode
from edgetune.devices.capabilities import Absent, PowerReading
from edgetune.devices.device import Minibatches
from edgetune.devices.sysfs import Sysfs
from edgetune.devices.telemetry import (
    Machine,
    PolledRecording,
    SensorStoppedError,
    polled,
    present_mode,
    read_telemetry,
)
from edgetune.errors import DeviceError
from edgetune.testing.fake_jetson import FakeClock
from fakes.device import FakeModes, FakeSource, FakeThermometer, FakeThrottle, fake_device
from fakes.proc import FakeProc


class Reader(FakeModes):
    """Modes that read ``now``, or fail to."""

    now: Mode | DeviceError = Mode(gpu_mhz=600.0)

    def read(self):
        if isinstance(self.now, DeviceError):
            raise self.now
        return self.now


class Setter:
    """Modes that cannot be read."""

    space = FakeModes().space

    def apply(self, mode):
        return mode

    def restore(self):
        pass


@pytest.fixture
def device():
    return fake_device(FakeClock(), FakeSource(lambda ops: Minibatches([], [])))


def test_capabilities_are_shown_with_the_unit_in_the_name_of_the_group(device):
    able = replace(device, modes=Reader(), temperature=FakeThermometer([41.5, None]), throttle=FakeThrottle([2, 3]))
    assert read_telemetry(able) == {
        "mode": {"gpu_mhz": 600.0},
        "temperature_c": {"hottest": 41.5},
        "throttling_events": {"since boot": 2},
    }
    assert read_telemetry(able)["temperature_c"] == {"hottest": None}
    assert read_telemetry(able)["throttling_events"] == {"since boot": 3}


def test_a_knob_that_cannot_be_set_is_shown_where_it_can_be_read():
    modes = Reader()
    modes.now = Mode(cpu_cores=4, gpu_mhz=300.0)
    assert present_mode(modes) == {"gpu_mhz": 300.0, "cpu_cores": 4}


def test_modes_that_are_absent_cannot_be_read_or_fail_now_are_left_out():
    failing = Reader()
    failing.now = DeviceError("/sys/x cannot be read", "try later")
    assert present_mode(Absent("no knobs")) == present_mode(Setter()) == present_mode(failing) == {}


@pytest.fixture
def proc(tmp_path):
    return FakeProc(tmp_path, cpus=2, own=100)


def test_load_is_of_the_time_since_the_last_reading_and_absent_before(proc, tmp_path):
    machine = Machine(Sysfs(tmp_path))
    assert machine.counts
    assert machine.read() == {}
    proc.pass_s(2, own=0.25, others=0.5)
    assert machine.read()["load_percent"] == {"cpu": 75.0, "cpu0": 75.0, "cpu1": 75.0}
    proc.pass_s(0.05, own=1.0)
    assert machine.read()["load_percent"]["cpu"] == 75.0, "five ticks are too few"
    proc.pass_s(0.15, own=1.0)
    assert machine.read()["load_percent"]["cpu"] == 100.0


def test_a_cpu_that_is_switched_off_is_absent(proc, tmp_path):
    machine = Machine(Sysfs(tmp_path))
    proc.off(1)
    proc.pass_s(1)
    assert machine.read()["load_percent"] == {"cpu": 0.0, "cpu0": 0.0}


def test_memory_and_swap_are_what_is_used_and_swap_is_absent_without_any(tmp_path):
    FakeProc(tmp_path)
    lines = "MemTotal: 8192 kB\nMemAvailable: 2048 kB\n"
    (tmp_path / "proc/meminfo").write_text(lines + "SwapTotal: 100 kB\nSwapFree: 40 kB\n")
    found = Machine(Sysfs(tmp_path)).read()["machine_memory_bytes"]
    assert found == {"used": 6144 << 10, "total": 8192 << 10, "swap used": 60 << 10, "swap total": 100 << 10}
    (tmp_path / "proc/meminfo").write_text(lines + "SwapTotal: 0 kB\nSwapFree: 0 kB\n")
    assert set(Machine(Sysfs(tmp_path)).read()["machine_memory_bytes"]) == {"used", "total"}


def test_where_the_kernel_shows_nothing_there_is_nothing(tmp_path):
    machine = Machine(Sysfs(tmp_path))
    assert not machine.counts
    assert machine.read() == {}


def test_stale_and_missing_readings_are_not_kept():
    script = iter([PowerReading(10, 1.0), None, PowerReading(10, 9.0), PowerReading(20, 2.0)])
    recording = PolledRecording(lambda: next(script))
    for _ in range(4):
        recording.poll()
    assert recording.readings == (PowerReading(10, 1.0), PowerReading(20, 2.0))


def test_failing_sensor_is_noted_once_and_left_alone():
    calls = []

    def read():
        calls.append(1)
        raise OSError("gone")

    recording = PolledRecording(read)
    recording.poll()
    recording.poll()
    assert recording.failure == "gone"
    assert len(calls) == 1


def test_thread_reads_while_open():
    import threading

    seen = threading.Event()
    count = iter(range(1, 10**6))

    def read():
        reading = PowerReading(next(count), 1.0)
        if reading.time_ns >= 3:
            seen.set()
        return reading

    with polled(read, period_s=0.001) as recording:
        assert seen.wait(60)
    assert len(recording.readings) >= 3


def test_repeats_of_a_sensor_that_stopped_are_let_go():
    def read():
        if recording.readings and recording.readings[-1].time_ns == 30:
            raise SensorStoppedError("stuck", since_ns=10)
        return PowerReading(10 + 10 * len(recording.readings), 5.0)

    recording = PolledRecording(read)
    for _ in range(5):
        recording.poll()
    assert recording.failure == "stuck"
    assert recording.readings == (PowerReading(10, 5.0),)

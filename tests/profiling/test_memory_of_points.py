"""Memory of a point: the peak of its processes, what the machine had left, and whether it swapped meanwhile."""

import subprocess
import sys
from dataclasses import replace

import pytest

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import Point
from edgetune.devices.cpu import MachineMemory
from edgetune.devices.sysfs import Sysfs
from edgetune.stages.profiling import measure as watching
from edgetune.stages.profiling.measure import MemoryWatch, measure_point
from edgetune.stages.profiling.options import ProfileOptions
from edgetune.testing.fake_jetson import FakeClock
from fakes.device import FakeRunner, FakeSource, fake_device

POINT = Point("net", "infer", 1, Mode())
MIB = 1 << 20


class Kernel:
    """The kernel's accounts of memory in files, of which the tests set the figures."""

    def __init__(self, root):
        (root / "proc").mkdir()
        self.root = root
        self.set(available_kib=4 << 20, pages_in=100)

    def set(self, available_kib, pages_in):
        (self.root / "proc/meminfo").write_text(f"MemTotal: {8 << 20} kB\nMemAvailable: {available_kib} kB\n")
        (self.root / "proc/vmstat").write_text(f"pgpgin 5\npswpin {pages_in}\npswpout 1\n")


@pytest.fixture
def kernel(tmp_path):
    return Kernel(tmp_path)


class Processes(FakeRunner):
    """A runner whose work some processes do; each run calls ``on_run``."""

    pids: tuple[int, ...] = ()

    def processes(self):
        return self.pids

    def run(self, minibatches):
        self.on_run()
        return super().run(minibatches)


@pytest.fixture
def holder():
    source = "x = bytearray(120 << 20); print(flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", source], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        yield process.pid
        process.kill()


def measured(kernel, pids, on_run, **options):
    clock = FakeClock()
    runner = Processes(clock, lambda _: 10_000_000)
    runner.pids, runner.on_run = pids, on_run
    device = replace(fake_device(clock, FakeSource(lambda _: runner)), memory=MachineMemory(Sysfs(kernel.root)))
    return measure_point(device, lambda _: runner, POINT, ProfileOptions(minibatches=5, **options))


def test_point_has_the_peak_of_its_processes_and_what_the_machine_had_left(kernel, holder):
    row = measured(kernel, (holder,), lambda: kernel.set(available_kib=3 << 20, pages_in=100))[-1].row
    assert row.status == "ok"
    assert 120 * MIB < row.memory_peak_bytes < 150 * MIB
    assert row.memory_available_min_bytes == 3 << 30
    assert row.swap_in_bytes == 0


def test_point_that_waited_for_swap_is_marked_and_measured_again(kernel, holder, monkeypatch):
    faults = iter(range(1000))
    monkeypatch.setattr(watching, "major_faults", lambda _: next(faults))
    monkeypatch.setattr(watching, "swap_bytes", lambda _: 4096)
    pages = iter(range(200, 1000))
    attempts = measured(kernel, (holder,), lambda: kernel.set(1 << 20, next(pages)), retries=2)
    assert [attempt.row.status for attempt in attempts] == ["swapped"] * 3
    assert attempts[0].row.swap_in_bytes >= 100 * 4096
    assert "swap" in attempts[0].row.reason


def test_point_that_waited_for_pages_of_files_while_others_swapped_is_not_marked(kernel, holder, monkeypatch):
    faults = iter(range(1000))
    monkeypatch.setattr(watching, "major_faults", lambda _: next(faults))
    (attempt,) = measured(kernel, (holder,), lambda: kernel.set(1 << 20, 200))
    assert attempt.row.status == "ok"


def test_swapping_of_others_does_not_mark_a_point_that_waited_for_nothing(kernel, holder):
    (attempt,) = measured(kernel, (holder,), lambda: kernel.set(1 << 20, 200))
    assert attempt.row.status == "ok"
    assert attempt.row.swap_in_bytes == 100 * 4096


def test_process_that_ended_in_between_tells_its_own_peak(kernel, holder):
    clock = FakeClock()
    runner = Processes(clock, lambda _: 10_000_000)
    runner.pids = (holder,)
    device = replace(fake_device(clock, FakeSource(lambda _: runner)), memory=MachineMemory(Sysfs(kernel.root)))
    with MemoryWatch(device, runner) as watch:
        pass
    assert watch.columns(own_peak_bytes=1 << 30)["memory_peak_bytes"] == 1 << 30

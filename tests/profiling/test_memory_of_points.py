"""Memory of a point: the peak of its processes, what the machine had left, and whether it swapped meanwhile."""

import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.devices.cpu import MachineMemory
from edgetune.devices.sysfs import Sysfs
from edgetune.stages.profiling import measure as watching
from edgetune.stages.profiling.measure import MemoryWatch, measure_point
from edgetune.stages.profiling.options import ProfileOptions
from edgetune.stages.profiling.queue import MOST, largest_batch, used_bytes
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


class Machine:
    """A network that needs ``base + each * size`` bytes; it notes what was tried."""

    def __init__(self, base, each, crashes_at=MOST + 1, minibatch_s=0.001):
        self.base, self.each, self.crashes_at, self.minibatch_s = base, each, crashes_at, minibatch_s
        self.tried = []

    def needs(self, size):
        return self.base + self.each * size

    def __call__(self, size):
        self.tried.append(size)
        failed = size >= self.crashes_at
        row = ProfileRow.at(
            Point("net", "infer", size, Mode()), None if failed else self.minibatch_s * size,
            status="failed" if failed else "ok", reason="out of memory" if failed else None,
        )  # fmt: skip
        return row, None if failed else self.needs(size)


def found(machine, limit):
    said = []
    largest = largest_batch(machine, limit, said.append)
    assert len(said) == len(machine.tried)
    return largest


@given(st.integers(0, 2000), st.integers(1, 300), st.integers(1, 5000))
def test_what_is_found_fits_and_little_more_would(base, each, spare):
    machine = Machine(base * MIB, each * MIB)
    limit = machine.needs(1) + spare * MIB
    largest = found(machine, limit)
    assert largest.used_bytes == machine.needs(largest.batch_size) <= limit
    assert machine.needs(largest.batch_size + largest.batch_size // 32 + 1) > limit
    assert all(machine.needs(size) <= limit for size in machine.tried if size > 2)  # a line foresees it
    assert len(machine.tried) <= 14


def test_memory_that_jumps_is_closed_in_on():
    machine = Machine(100 * MIB, MIB)
    machine.needs = lambda size: (100 if size < 77 else 900) * MIB + size
    largest = found(machine, 500 * MIB)
    assert 74 <= largest.batch_size < 77
    assert "needs 900" in largest.why


def test_size_that_fails_bounds_those_that_fit():
    largest = found(Machine(100 * MIB, MIB, crashes_at=50), 4096 * MIB)
    assert 48 <= largest.batch_size < 50
    assert "out of memory" in largest.why


def test_memory_of_a_gpu_that_shares_the_machines_counts():
    row = SimpleNamespace(status="ok", memory_peak_bytes=300 * MIB, memory_available_min_bytes=1000 * MIB)
    assert used_bytes(row, None) == 300 * MIB
    assert used_bytes(row, 2000 * MIB) == 1000 * MIB
    assert used_bytes(row, 1100 * MIB) == 300 * MIB
    row.status = "swapped"
    assert used_bytes(row, None) is None

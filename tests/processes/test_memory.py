"""The kernel's counts of memory agree with those that a process ends with, and a kill for want of memory is told."""

import os
import signal
import subprocess
import sys

import pytest

from edgetune.processes import families
from edgetune.workloads.rounds import failed

HELD = "x = bytearray(120 << 20); print(flush=True); input(); x = None"
MIB = 1 << 20


@pytest.fixture
def holder():
    """A process that has held 120 MiB."""
    with subprocess.Popen([sys.executable, "-c", HELD], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        yield process
        process.kill()


PEAKS = f"""
import os, subprocess, sys
from edgetune.processes import families
with subprocess.Popen([sys.executable, "-c", {HELD!r}], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
    process.stdout.readline()
    living = families.peak_bytes(process.pid)
    process.stdin.close()
    _, _, usage = os.wait4(process.pid, 0)
    process.returncode = 0
print(living, usage.ru_maxrss << 10, families.ended_peak_bytes(usage))
"""


def test_peak_of_a_living_process_is_that_of_its_end():
    """Measured from a small process: a child inherits the peak of its parent, and that of a test is large."""
    ended = subprocess.run([sys.executable, "-c", PEAKS], capture_output=True, text=True, check=True)
    living, at_end, told = map(int, ended.stdout.split())
    assert living > 120 * MIB
    assert at_end == told == pytest.approx(living, rel=0.05)


def test_peak_that_a_child_may_have_inherited_is_unknown():
    held = bytearray(60 << 20)
    with subprocess.Popen(["true"]) as process:
        _, _, usage = os.wait4(process.pid, 0)
        process.returncode = 0
    assert families.ended_peak_bytes(usage) is None
    del held


def test_shared_pages_count_in_part(holder):
    assert 120 * MIB < families.shared_out_bytes(holder.pid) <= families.peak_bytes(holder.pid)


def test_reset_forgets_a_peak_that_is_over():
    held = bytearray(100 << 20)
    del held
    before = families.peak_bytes()
    assert families.reset_peaks()
    assert families.peak_bytes() < before - 50 * MIB
    assert families.peak_bytes() == pytest.approx(families.resident_bytes(), rel=0.1)


def test_processes_that_have_ended_have_no_figures():
    with subprocess.Popen(["true"]) as process:
        process.wait()
    assert families.peak_bytes(process.pid) is families.shared_out_bytes(process.pid) is None
    assert families.major_faults(process.pid) == 0
    assert families.stat_fields(process.pid) == []


def test_family_is_a_process_with_its_descendants():
    with subprocess.Popen(["sh", "-c", "sh -c 'sleep 60; true'; true"], start_new_session=True) as process:
        while len(found := families.family(process.pid)) < 3:
            pass
        assert found == [process.pid, *families.descendants(process.pid)]
        os.killpg(process.pid, signal.SIGKILL)
    assert families.family(process.pid) == [process.pid]


def test_kernel_that_does_not_list_children_has_families_too(tmp_path):
    for pid, parent, name in ((1, 0, "init"), (7, 1, "a) b (c"), (9, 7, "sh"), (12, 9, "sleep"), (8, 1, "other")):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / f"{pid}/stat").write_text(f"{pid} ({name}) S {parent} 0 0\n")
    assert families.family(7, tmp_path) == [7, 9, 12]
    assert families.descendants(12, tmp_path) == []


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    """The counts of a kernel that has killed once; call it with the number of kills."""
    monkeypatch.setattr(families, "_PROC", tmp_path / "proc")
    (tmp_path / "proc/self").mkdir(parents=True)

    def kill(count: int) -> None:
        (tmp_path / "proc/vmstat").write_text(f"pgfault 9\noom_kill {count}\n")

    kill(1)
    return kill


@pytest.mark.parametrize(("code", "kills", "told"), [(-9, 2, True), (-9, 1, False), (-15, 2, False)])
def test_kill_for_want_of_memory_is_told(kernel, code, kills, told):
    before = families.kills()
    kernel(kills)
    assert before == 1
    assert ("memory ran out" in failed(["./app"], code, b"", before).message) == told


def test_kernel_without_the_count_tells_nothing(kernel, tmp_path):
    (tmp_path / "proc/vmstat").unlink()
    assert families.kills() is None
    assert families.why_killed(None) is None


def test_limits_are_those_of_the_groups_around_this_process(kernel, tmp_path):
    (tmp_path / "proc/self/cgroup").write_text("0::/a/b\n")
    (tmp_path / "proc/self/mountinfo").write_text("31 24 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
    (tmp_path / "sys/fs/cgroup/a/b").mkdir(parents=True)
    for group, limit in (("a", 512 * MIB), ("a/b", "max")):
        (tmp_path / "sys/fs/cgroup" / group / "memory.max").write_text(f"{limit}\n")
    kernel(2)
    assert families.why_killed(1) == "memory ran out (its control group may use 512 MiB)"

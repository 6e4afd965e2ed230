"""What others use of the CPUs, by accounts written as the kernel writes them."""

import subprocess
import sys

import pytest

from edgetune.devices.cpu import CpuLoad, CpuTimes, others_share
from edgetune.devices.sysfs import Sysfs
from fakes.proc import FakeProc


class Machine:
    """A fake machine of two CPUs, and what reads its accounts."""

    def __init__(self, root):
        self.proc = FakeProc(root, cpus=2, own=100)
        self.load = CpuLoad(Sysfs(root), process=100)

    def share(self, *steps, cpus=(0, 1)):
        """Return the share of others over steps of ``pass_s``."""
        before = self.load.read()
        for step in steps:
            self.proc.pass_s(**step)
        return others_share(before, self.load.read(), cpus)


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def test_the_share_is_of_all_time_of_the_cpus(machine):
    assert machine.share({"seconds": 2, "others": 0.25}) == pytest.approx(0.25)
    assert machine.share({"seconds": 1, "others": 1.0}, {"seconds": 3}) == pytest.approx(0.25)
    assert machine.share({"seconds": 2, "others": 0.1, "steal": 0.2}) == pytest.approx(0.3)


def test_our_own_work_does_not_count_with_all_cpus_full(machine):
    assert machine.share({"seconds": 2, "own": 1.0}) == 0.0
    assert machine.share({"seconds": 2, "own": 0.6, "others": 0.4}) == pytest.approx(0.4)


def test_children_and_their_children_are_ours_and_stay_so_when_they_end(machine):
    machine.proc.start(200, parent=100)
    machine.proc.start(300, parent=200, name="a) b (c")
    before = machine.load.read()
    machine.proc.pass_s(1, own=1.0, by=300)
    machine.proc.pass_s(1, own=0.5, by=200)
    machine.proc.end(300)
    machine.proc.end(200)
    assert others_share(before, machine.load.read(), (0, 1)) == 0.0


def test_a_process_of_another_parent_is_not_ours(machine):
    machine.proc.start(200, parent=1)
    assert machine.share({"seconds": 1, "own": 0.5, "by": 200}) == pytest.approx(0.5)


def test_only_the_cpus_of_the_workload_count(machine):
    """Both CPUs half busy with others: of one of them it is half, too."""
    assert machine.share({"seconds": 2, "others": 0.5}, cpus=(0,)) == pytest.approx(0.5)


def test_a_cpu_that_went_off_is_left_out(machine):
    before = machine.load.read()
    machine.proc.pass_s(1, others=0.5)
    machine.proc.off(1)
    assert others_share(before, machine.load.read(), (0, 1)) == pytest.approx(0.5)


def test_too_short_a_time_tells_nothing(machine):
    assert machine.share({"seconds": 0.05, "others": 1.0}) is None
    assert machine.share({"seconds": 1.0, "others": 1.0}, cpus=()) is None


def test_a_kernel_without_accounts_tells_nothing(tmp_path):
    assert CpuLoad(Sysfs(tmp_path), process=1).read() is None
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/stat").write_text("")
    load = CpuLoad(Sysfs(tmp_path), process=1)
    assert others_share(load.read(), load.read(), (0, 1)) is None


class _Clock:
    """A clock that lets the fake machine work while one sleeps."""

    def __init__(self, proc, **work):
        self.proc, self.work = proc, work

    def now_ns(self):
        return 0

    def sleep_s(self, seconds):
        self.proc.pass_s(seconds, **self.work)


def test_a_sample_before_measuring_tells_share_and_queue(machine, monkeypatch):
    monkeypatch.setattr(CpuLoad, "cpus", lambda load, cores=None: [0, 1][:cores])
    machine.proc.runnable = 13
    machine.proc.pass_s(0)
    found = machine.load.sample(_Clock(machine.proc, others=0.9, own=0.1))
    assert (found.share, found.cpus, found.runnable) == (pytest.approx(0.9, abs=0.02), 2, 12)
    assert found.busy
    assert not machine.load.sample(_Clock(machine.proc, others=0.05)).busy


def test_of_this_machine_the_files_are_read_as_they_are():
    """The accounts of the running kernel, if it shows them: this process has used some of the time that was busy."""
    script = "from edgetune.devices.cpu import *; print(CpuLoad(Sysfs()).read())"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    if done.stdout == "None\n":
        pytest.skip("this kernel shows no accounts")
    found = eval(done.stdout, {"CpuTimes": CpuTimes})
    assert found.own > 0
    assert found.runnable >= 1
    assert found.busy.keys() == found.total.keys()
    assert all(0 <= found.busy[cpu] <= found.total[cpu] for cpu in found.total)

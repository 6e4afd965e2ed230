"""Which CPUs may be used: affinity, quotas of control groups, one thread of each core first.

What others use of the CPUs, by accounts written as the kernel writes them.
"""

import os

import pytest

from edgetune.devices.cpu import CpuLoad, cpu_model, others_share, usable_cpus
from edgetune.devices.sysfs import Sysfs
from edgetune.processes.cgroup import cpu_periods, cpu_quota
from edgetune.testing.fake_files import KernelFiles
from fakes.proc import FakeProc

MOUNTS = """\
30 24 0:26 / /sys/fs/cgroup ro - tmpfs tmpfs ro
31 30 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
36 30 0:31 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct"""
V1, V2 = "sys/fs/cgroup/cpu,cpuacct", "sys/fs/cgroup/unified"


@pytest.fixture
def sysfs(tmp_path):
    sysfs = KernelFiles(tmp_path)
    sysfs.put("proc/self/mountinfo", MOUNTS)
    return sysfs


@pytest.fixture
def four_cpus(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3})


def test_affinity_mask_is_respected(sysfs, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5})
    assert usable_cpus(sysfs) == [3, 5]


def test_second_threads_of_a_core_come_last(sysfs, four_cpus):
    for cpu, core in enumerate([0, 0, 1, 1]):
        sysfs.put(f"sys/devices/system/cpu/cpu{cpu}/topology/core_id", core)
        sysfs.put(f"sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id", 0)
    assert usable_cpus(sysfs) == [0, 2, 1, 3]


@pytest.mark.parametrize(("capacities", "mhz", "order"), [
    ((530, 530, 1024, 1024), (1800, 1800, 2256, 2304), [3, 2, 0, 1]),
    ((None,) * 4, (1800, 1800, 2400, 2400), [2, 3, 0, 1]),
    ((1024,) * 4, (2000,) * 4, [0, 1, 2, 3]),
])  # fmt: skip
def test_the_fastest_cores_come_first(sysfs, four_cpus, capacities, mhz, order):
    """As on an RK3588, whose ``core_id`` counts from 0 in each cluster."""
    for cpu in range(4):
        folder = f"sys/devices/system/cpu/cpu{cpu}"
        sysfs.put(f"{folder}/topology/core_id", cpu % 2)
        sysfs.put(f"{folder}/topology/thread_siblings_list", cpu)
        sysfs.put(f"{folder}/cpufreq/cpuinfo_max_freq", mhz[cpu] * 1000)
        if capacities[cpu] is not None:
            sysfs.put(f"{folder}/cpu_capacity", capacities[cpu])
    assert usable_cpus(sysfs) == order


@pytest.mark.parametrize(("limit", "cpus"), [("max 100000", 4), ("250000 100000", 2), ("50000 100000", 1)])
def test_quota_of_the_control_group(sysfs, four_cpus, limit, cpus):
    sysfs.put("proc/self/cgroup", "0::/app/job")
    sysfs.put(f"{V2}/app/job/cpu.stat", "nr_periods 0")
    sysfs.put(f"{V2}/app/cpu.max", limit)
    assert len(usable_cpus(sysfs)) == cpus


@pytest.mark.parametrize(("own", "files", "quota"), [
    ("0::/app/job", {f"{V2}/app/cpu.max": "300000 100000", f"{V2}/app/job/cpu.max": "150000 100000"}, 1.5),
    ("1:name=systemd:/\n2:cpu,cpuacct:/system.slice/job.service", {
        f"{V1}/cpu.cfs_quota_us": -1, f"{V1}/cpu.cfs_period_us": 100_000,
        f"{V1}/system.slice/job.service/cpu.cfs_quota_us": 110_000,
        f"{V1}/system.slice/job.service/cpu.cfs_period_us": 100_000}, 1.1),
    ("2:cpu,cpuacct:/a/b", {f"{V1}/a/cpu.cfs_quota_us": 50_000, f"{V1}/a/cpu.cfs_period_us": 100_000,
                            f"{V1}/a/b/cpu.cfs_quota_us": -1, f"{V1}/a/b/cpu.cfs_period_us": 100_000}, 0.5),
    ("2:cpu,cpuacct:/", {f"{V1}/cpu.cfs_quota_us": -1, f"{V1}/cpu.cfs_period_us": 100_000}, None),
    ("2:cpu,cpuacct:/gone", {f"{V1}/cpu.cfs_quota_us": 200_000, f"{V1}/cpu.cfs_period_us": 100_000}, 2.0),
])  # fmt: skip
def test_tightest_quota_of_the_own_group_and_those_around_it_counts(sysfs, own, files, quota):
    sysfs.put("proc/self/cgroup", own)
    for path, text in files.items():
        sysfs.put(path, text)
    assert cpu_quota(sysfs.root) == quota


def test_a_container_sees_its_own_group_as_the_top(sysfs):
    """Its mount lies over that of the machine, with the same mount point."""
    sysfs.put("proc/self/mountinfo", f"{MOUNTS}\n99 36 0:31 /half /{V1} rw - cgroup cgroup rw,cpu,cpuacct")
    sysfs.put("proc/self/cgroup", "2:cpu,cpuacct:/half")
    sysfs.put(f"{V1}/cpu.cfs_quota_us", 50_000)
    sysfs.put(f"{V1}/cpu.cfs_period_us", 100_000)
    sysfs.put(f"{V1}/cpu.stat", "nr_periods 40\nnr_throttled 10\nthrottled_time 9")
    assert cpu_quota(sysfs.root) == 0.5
    assert list(cpu_periods(sysfs.root).values()) == [(40, 10)]


def test_model_from_cpuinfo_or_device_tree(sysfs, tmp_path):
    assert cpu_model(sysfs) == "unknown"
    sysfs.put("proc/cpuinfo", "processor\t: 0\n")
    sysfs.put("proc/device-tree/model", "NVIDIA Jetson\0")
    assert cpu_model(sysfs) == "NVIDIA Jetson"
    sysfs.put("proc/cpuinfo", "processor\t: 0\nmodel name\t: Some CPU\n")
    assert cpu_model(sysfs) == "Some CPU"


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

"""Which CPUs may be used: affinity, quotas of control groups, one thread of each core first."""

import os

import pytest

from edgetune.devices.cpu import cpu_model, cpu_quota, usable_cpus
from edgetune.testing.fake_files import KernelFiles


@pytest.fixture
def sysfs(tmp_path):
    return KernelFiles(tmp_path)


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


@pytest.mark.parametrize(("limit", "cpus"), [("max 100000", 4), ("250000 100000", 2), ("50000 100000", 1)])
def test_quota_of_the_control_group(sysfs, four_cpus, limit, cpus):
    sysfs.put("proc/self/cgroup", "0::/app/job")
    sysfs.put("sys/fs/cgroup/app/cpu.max", limit)
    assert len(usable_cpus(sysfs)) == cpus


def test_tightest_quota_counts(sysfs):
    sysfs.put("proc/self/cgroup", "0::/app/job")
    sysfs.put("sys/fs/cgroup/app/cpu.max", "300000 100000")
    sysfs.put("sys/fs/cgroup/app/job/cpu.max", "150000 100000")
    assert cpu_quota(sysfs) == 1.5


def test_quota_of_version_1(sysfs):
    sysfs.put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", 200_000)
    sysfs.put("sys/fs/cgroup/cpu/cpu.cfs_period_us", 100_000)
    assert cpu_quota(sysfs) == 2.0


def test_no_limit_of_version_1(sysfs):
    sysfs.put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", -1)
    sysfs.put("sys/fs/cgroup/cpu/cpu.cfs_period_us", 100_000)
    assert cpu_quota(sysfs) is None


def test_model_from_cpuinfo_or_device_tree(sysfs, tmp_path):
    assert cpu_model(sysfs) == "unknown"
    sysfs.put("proc/cpuinfo", "processor\t: 0\n")
    sysfs.put("proc/device-tree/model", "NVIDIA Jetson\0")
    assert cpu_model(sysfs) == "NVIDIA Jetson"
    sysfs.put("proc/cpuinfo", "processor\t: 0\nmodel name\t: Some CPU\n")
    assert cpu_model(sysfs) == "Some CPU"

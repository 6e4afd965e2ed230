"""A busy machine while a point is measured: told at the point and in the profile; the workload itself never counts."""

import json
import os
import subprocess
import sys

import pytest

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import Point
from edgetune.devices.cpu import CpuLoad
from edgetune.devices.sysfs import Sysfs
from edgetune.processes.cgroup import Mount, mount_of
from edgetune.stages.profiling.measure import measure_point
from edgetune.stages.profiling.options import ProfileOptions
from edgetune.stages.profiling.sweep import _data_warnings
from edgetune.stages.profiling.sweep_journal import SweepJournalEntry
from edgetune.testing.fake_jetson import FakeClock
from fakes.device import FakeRunner, FakeSource, fake_device
from fakes.proc import FakeProc

MS = 1_000_000
POINT = Point("net", "infer", 1, Mode())


class BusyClock(FakeClock):
    """A clock of a machine that works as it goes: our workload and others."""

    def __init__(self, proc, own, others):
        super().__init__()
        self.proc, self.shares = proc, {"own": own, "others": others}

    def advance_ns(self, duration_ns):
        super().advance_ns(duration_ns)
        self.proc.pass_s(duration_ns / 1e9, **self.shares)


@pytest.fixture
def measured(tmp_path, monkeypatch):
    monkeypatch.setattr(CpuLoad, "cpus", lambda load, cores=None: [0, 1][:cores])

    def measure(own, others, minibatch_ms=50, before=0.0):
        proc = FakeProc(tmp_path)
        clock = BusyClock(proc, own, others)
        runner = FakeRunner(clock, lambda _: minibatch_ms * MS)

        def load_it(point):
            proc.pass_s(2.0, own=0.5, others=before)
            return runner

        device = fake_device(clock, FakeSource(lambda _: runner), load=CpuLoad(Sysfs(tmp_path), process=proc.own))
        return measure_point(device, load_it, POINT, ProfileOptions())[-1]

    return measure


def test_others_while_it_ran_are_reported_at_the_point(measured):
    row = measured(own=0.4, others=0.6).row
    assert row.others_cpu_share == pytest.approx(0.6, abs=0.02)
    assert row.status == "ok"
    assert "other processes used 60% of its CPUs while it was measured" in row.reason


def test_the_workloads_own_threads_are_not_others(measured):
    row = measured(own=1.0, others=0.0).row
    assert row.others_cpu_share == 0.0
    assert "other processes" not in row.reason


def test_the_profile_warns_with_numbers(measured):
    attempts = [measured(own=0.4, others=share) for share in (0.6, 0.05, 0.2)]
    entries = [SweepJournalEntry(POINT, (each.row,), 0.0, True, None, True) for each in attempts]
    (caution,) = (each for each in _data_warnings(entries, ProfileOptions()) if each.code == "points-busy")
    assert caution.numbers["points"] == 2
    assert caution.numbers["others_cpu_share_max"] == pytest.approx(0.6, abs=0.02)
    assert "measure again" in caution.advice


IN_GROUP = """
import json, os, subprocess, sys, time
with open(sys.argv[1] + "/cgroup.procs", "w") as file:
    file.write(str(os.getpid()))
words = [sys.executable, "-S", "-c", "sum(range(500000))"]
measure = [sys.executable, "-m", "edgetune", "measure", "--device", "host", "--json", "--runs", "80", "--", *words]
said = subprocess.run(measure, capture_output=True, text=True, check=True)
begun = time.monotonic()
for _ in range(80):
    subprocess.run(words, check=True)
print(json.dumps([(time.monotonic() - begun) / 80, said.stderr, *json.loads(said.stdout)["rows"]]))
"""


@pytest.fixture(params=[1, 2])
def quarter(request):
    """A real control group with the time of a quarter of a CPU, before that of others."""
    mount: Mount | None = mount_of("cpu", request.param)
    settings = {"cpu.shares": "262144", "cpu.cfs_quota_us": "25000"}
    if request.param == 2:
        settings = {"cpu.weight": "10000", "cpu.max": "25000 100000"}
    if mount is None or not os.access(mount.own / "cgroup.procs", os.W_OK) or os.geteuid() != 0:
        pytest.skip(f"no control group of version {request.param} for CPUs can be made here")
    group = mount.own / f"edgetune-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"{group} cannot be made: {error.strerror}")
    try:
        if not all((group / name).exists() for name in settings):
            pytest.skip(f"{group.parent} gives its groups no CPU controller")
        for name, value in settings.items():
            (group / name).write_text(value)
        yield group
    finally:
        group.rmdir()


@pytest.mark.slow
def test_a_command_under_a_quota_takes_what_an_independent_loop_takes(quarter):
    ended = subprocess.run(
        [sys.executable, "-c", IN_GROUP, str(quarter)], stdout=subprocess.PIPE, text=True, check=True
    )
    loop_s, said, row = json.loads(ended.stdout)
    assert "a CPU quota gives the time of 0.25 CPUs" in said
    assert row["minibatch_s"] == pytest.approx(loop_s, rel=0.1)
    assert row["cpu_throttled_share"] > 0.5
    assert "so that its time is the mean" in row["reason"]


def test_the_mean_counts_where_a_quota_stops_most_periods_and_takes_many_of_them(tmp_path, monkeypatch):
    """A group that runs for 50 ms of each period of 100 ms; minibatches of 8 ms."""
    monkeypatch.setattr(CpuLoad, "cpus", lambda load, cores=None: [0])
    proc = FakeProc(tmp_path)
    for path, text in {
        "proc/self/cgroup": "0::/job", "sys/fs/cgroup/job/cgroup.procs": "",
        "proc/self/mountinfo": "31 24 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw",
    }.items():  # fmt: skip
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)

    class QuotaClock(FakeClock):
        ran_ns = 0

        def run(self, _):
            """Return the time of a minibatch, stops included."""
            before, self.ran_ns = self.ran_ns, self.ran_ns + 8 * MS
            stops = self.ran_ns // (50 * MS) - before // (50 * MS)
            periods = self.ran_ns // (50 * MS)
            stat = f"nr_periods {periods}\nnr_throttled {periods}\nthrottled_usec 9\n"
            (tmp_path / "sys/fs/cgroup/job/cpu.stat").write_text(stat)
            return (8 + 50 * stops) * MS

    clock = QuotaClock()
    (tmp_path / "sys/fs/cgroup/job/cpu.stat").write_text("nr_periods 0\nnr_throttled 0\n")
    runner = FakeRunner(clock, clock.run)
    device = fake_device(clock, FakeSource(lambda _: runner), load=CpuLoad(Sysfs(tmp_path), process=proc.own))
    row = measure_point(device, lambda _: runner, POINT, ProfileOptions())[-1].row
    assert row.is_mean
    assert row.minibatch_s == pytest.approx(0.016, rel=0.05)
    assert row.minibatch_ci95_low_s < 0.016 < row.minibatch_ci95_high_s < 0.02
    assert sum(row.times_s) > 2.9
    entries = [SweepJournalEntry(POINT, (row,), 0.0, True, None, True)]
    numbers = {each.code: each.numbers for each in _data_warnings(entries, ProfileOptions())}
    assert numbers["points-cpu-throttled"] == {"points": 1, "cpu_throttled_share_max": 1.0}

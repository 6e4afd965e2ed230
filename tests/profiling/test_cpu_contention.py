"""A busy machine while a point is measured: told at the point and in the profile; the workload itself never counts."""

import pytest

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import Point
from edgetune.devices.cpu import CpuLoad
from edgetune.devices.sysfs import Sysfs
from edgetune.stages.profiling.journal_lines import SweepJournalEntry
from edgetune.stages.profiling.measure import measure_point
from edgetune.stages.profiling.options import ProfileOptions
from edgetune.stages.profiling.sweep import _data_warnings
from edgetune.testing.fake_clock import FakeClock
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


def test_a_machine_at_rest_is_not_busy(measured):
    row = measured(own=0.5, others=0.05).row
    assert row.others_cpu_share == pytest.approx(0.05, abs=0.02)
    assert "other processes" not in row.reason


def test_contention_while_loading_does_not_count(measured):
    assert measured(own=0.5, others=0.0, before=0.5).row.others_cpu_share == 0.0


def test_a_run_too_short_to_tell_counts_with_its_loading(measured):
    assert measured(own=0.5, others=0.0, before=0.5, minibatch_ms=1).row.others_cpu_share == pytest.approx(0.5, abs=0.1)


def test_where_nothing_runs_on_this_machine_nothing_is_known():
    clock = FakeClock()
    runner = FakeRunner(clock, lambda _: 50 * MS)
    device = fake_device(clock, FakeSource(lambda _: runner))
    assert measure_point(device, lambda _: runner, POINT, ProfileOptions())[-1].row.others_cpu_share is None


def test_the_profile_warns_with_numbers(measured):
    attempts = [measured(own=0.4, others=share) for share in (0.6, 0.05, 0.2)]
    entries = [SweepJournalEntry(POINT, (each.row,), 0.0, True, None, True) for each in attempts]
    (caution,) = (each for each in _data_warnings(entries, ProfileOptions()) if each.code == "points-busy")
    assert caution.numbers["points"] == 2
    assert caution.numbers["others_cpu_share_max"] == pytest.approx(0.6, abs=0.02)
    assert "measure again" in caution.advice

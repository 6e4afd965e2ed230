"""Sweeps: exactly the points asked for, in the order asked, whatever failed or was interrupted on the way."""

from dataclasses import replace

import pytest

from edgetune.artifacts.header import DataWarning
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.devices.host import open_host
from edgetune.devices.recorded import open_recorded
from edgetune.errors import DeviceError, InputError
from edgetune.processes.user_folders import temporary_folder
from edgetune.stages.profiling import profiler as profilers
from edgetune.stages.profiling.identity import default_journal_path, identify
from edgetune.stages.profiling.journal import Journal
from edgetune.stages.profiling.options import ProfileOptions
from edgetune.stages.profiling.profiler import open_profiler
from edgetune.stages.profiling.queue import GIVE_UP_AFTER, Visit, loading_order
from edgetune.stages.profiling.sweep import _why_no_power, finished_visits, sweep
from edgetune.stages.profiling.sweep_journal import SweepJournalEntry
from edgetune.testing.fake_clock import FakeClock
from edgetune.workloads.workload import Workload
from fakes.device import FakeModes, FakeRunner, FakeSource, fake_device

NET = Workload("net.onnx", "net", "onnx", None, "0" * 64)
MODES = [Mode(gpu_mhz=mhz) for mhz in (300.0, 600.0, 900.0)]
POINTS = [Point("net", "infer", size, mode) for mode in MODES for size in (4, 1)]


class Bench:
    """A scripted device on which chosen points fail or interrupt."""

    def __init__(self, monkeypatch):
        self.clock, self.modes, self.opened = FakeClock(), FakeModes(), []
        self.failing: dict[tuple[int, float], Exception] = {}
        self.interrupt_at: int | None = None
        self.device = fake_device(self.clock, FakeSource(self.open), modes=self.modes)
        monkeypatch.setattr(profilers.Profiler, "_table", lambda _, batch_size: batch_size)
        monkeypatch.setattr(profilers.Profiler, "data_warnings", lambda _, batch_size: self.cautions)
        self.cautions = ()

    def open(self, batch_size):
        mhz = self.modes.applied[-1].gpu_mhz
        if self.interrupt_at is not None and len(self.opened) == self.interrupt_at:
            raise KeyboardInterrupt
        self.opened.append((batch_size, mhz))
        return FakeRunner(self.clock, lambda _: batch_size * 10_000_000, fails_with=self.failing.get((batch_size, mhz)))


@pytest.fixture
def bench(monkeypatch):
    return Bench(monkeypatch)


@pytest.fixture
def journal(tmp_path):
    return tmp_path / "journal"


def run(bench, journal, points=POINTS, **more):
    return sweep(bench.device, NET, points, ProfileOptions(), journal, **more)


def test_rows_are_in_the_order_asked_and_points_run_by_batch_size(bench, journal):
    profile = run(bench, journal)
    assert [row.point for row in profile.rows] == POINTS
    assert [size for size, _ in bench.opened] == [4, 4, 4, 1, 1, 1]
    assert [row.minibatch_s for row in profile.rows] == [0.04, 0.01] * 3


def test_repeated_points_are_measured_once(bench, journal):
    assert len(run(bench, journal, [*POINTS, *POINTS]).rows) == len(POINTS)


def test_finished_points_are_not_measured_again(bench, journal):
    first = run(bench, journal)
    bench.opened.clear()
    second = run(bench, journal)
    assert bench.opened == []
    assert second.rows == first.rows
    assert second.header.conditions["points_resumed"] == len(POINTS)


def test_interrupted_sweep_resumes_where_it_was(bench, journal):
    bench.interrupt_at = 4
    with pytest.raises(KeyboardInterrupt):
        run(bench, journal)
    assert bench.modes.restored == 1
    bench.interrupt_at = None
    profile = run(bench, journal)
    assert [row.point for row in profile.rows] == POINTS
    assert sorted(bench.opened) == sorted((p.batch_size, p.mode.gpu_mhz) for p in POINTS)


def test_a_first_point_is_kept_when_a_signal_comes_while_it_reaches_the_disk(bench, journal, monkeypatch):
    append = Journal.append

    def interrupted(opened, entry):
        append(opened, entry)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "append", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(bench, journal)
    assert len(bench.opened) == 1
    run(bench, journal)
    assert sorted(bench.opened) == sorted((p.batch_size, p.mode.gpu_mhz) for p in POINTS)


def test_points_can_be_added_to_a_sweep(bench, journal):
    run(bench, journal, POINTS[:2])
    bench.opened.clear()
    run(bench, journal)
    assert len(bench.opened) == len(POINTS) - 2


def test_points_no_longer_asked_for_are_left_out(bench, journal):
    run(bench, journal)
    assert [row.point for row in run(bench, journal, POINTS[2:4]).rows] == POINTS[2:4]


def test_fresh_measures_all_again(bench, journal):
    run(bench, journal)
    bench.opened.clear()
    run(bench, journal, fresh=True)
    assert len(bench.opened) == len(POINTS)


def test_failure_costs_one_point_and_is_tried_once_more(bench, journal):
    bench.failing[(1, 600.0)] = InputError("out of memory", "smaller")
    for tries in (1, 2, 2):
        profile = run(bench, journal)
        rows = [row for row in profile.rows if row.point == Point("net", "infer", 1, MODES[1])]
        assert [row.status for row in rows] == ["failed"] * tries
        assert sum(row.status == "ok" for row in profile.rows) == len(POINTS) - 1
    assert profile.header.warnings[0].code == "points-failed"


def test_retried_point_that_succeeds_keeps_its_failure_before_it(bench, journal):
    bench.failing[(1, 600.0)] = InputError("out of memory", "smaller")
    run(bench, journal)
    bench.failing.clear()
    rows = [row for row in run(bench, journal).rows if row.point == Point("net", "infer", 1, MODES[1])]
    assert [row.status for row in rows] == ["failed", "ok"]


def test_workload_that_never_works_is_given_up(bench, journal):
    bench.failing = {(p.batch_size, p.mode.gpu_mhz): InputError("train.py:3: raised", "mend it") for p in POINTS}
    with pytest.raises(InputError, match=r"train\.py:3: raised"):
        run(bench, journal)
    assert len(bench.opened) == GIVE_UP_AFTER * 2, "three points of each batch size"


def test_batch_size_that_never_fits_does_not_hide_the_others(bench, journal):
    modes = [Mode(gpu_mhz=float(mhz)) for mhz in range(300, 1000, 100)]
    points = [Point("net", "infer", size, mode) for size in (4, 1) for mode in modes]
    bench.failing = {(4, mode.gpu_mhz): InputError("killed", "smaller") for mode in modes}
    profile = run(bench, journal, points)
    assert [row.status for row in profile.rows] == ["failed"] * 7 + ["ok"] * 7
    assert [size for size, _ in bench.opened] == [4] * 3 + [1] * 7 + [4] * 4


def test_one_batch_size_that_never_works_is_given_up_soon(bench, journal):
    modes = [Mode(gpu_mhz=float(mhz)) for mhz in range(300, 1000, 100)]
    bench.failing = {(4, mode.gpu_mhz): InputError("hangs", "mend it") for mode in modes}
    with pytest.raises(InputError, match="hangs"):
        run(bench, journal, [Point("net", "infer", 4, mode) for mode in modes])
    assert len(bench.opened) == GIVE_UP_AFTER


def test_mode_the_device_refuses_costs_its_points_only(bench, journal):
    def refuse(mode):
        if mode.gpu_mhz == 300:
            raise DeviceError("refused", "another")
        return mode

    bench.modes.answer = refuse
    assert [row.status for row in run(bench, journal).rows] == ["failed", "failed", "ok", "ok", "ok", "ok"]


def test_live_search_is_told_when_nothing_works(bench):
    bench.failing = {(p.batch_size, p.mode.gpu_mhz): InputError("no", "no") for p in POINTS}
    with open_profiler(bench.device, NET, "infer") as profiler:
        assert profiler.measure(POINTS[0]).status == "failed"
        assert profiler.measure(POINTS[1]).status == "failed"
        with pytest.raises(InputError):
            profiler.measure(POINTS[2])


def test_few_points_that_all_fail_end_with_what_failed(bench, journal):
    bench.failing = {(4, 300.0): InputError("train.py:3: raised", "mend it")}
    for _ in range(4):
        with pytest.raises(InputError, match=r"train\.py:3: raised"):
            run(bench, journal, POINTS[:1])
    assert len(bench.opened) == 4


def test_missing_library_ends_the_sweep_at_once(bench, journal):
    def missing(_):
        raise DeviceError("needs PyTorch", "pip install")

    bench.device.source._open_runner = missing
    with pytest.raises(DeviceError, match="PyTorch"):
        run(bench, journal)
    assert bench.modes.restored == 1


def test_journal_stays_until_discarded_and_goes_when_there_is_nothing_in_it(bench, journal):
    run(bench, journal, POINTS[:1])
    assert journal.exists()
    journal.unlink()
    bench.failing = {(p.batch_size, p.mode.gpu_mhz): InputError("no", "no") for p in POINTS}
    with pytest.raises(InputError):
        run(bench, journal)
    assert not journal.exists()


def test_late_failures_do_not_end_a_sweep_that_has_worked(bench, journal):
    bench.failing = {(1, mode.gpu_mhz): InputError("no", "no") for mode in MODES}
    profile = run(bench, journal)
    assert sum(row.status == "ok" for row in profile.rows) == 3


def test_progress_counts_and_estimates(bench, journal):
    told = []
    run(bench, journal, POINTS[:2])
    run(bench, journal, on_progress=told.append)
    assert {str(p.state) for p in told if p.state is not None} == {f"loading {point}" for point in POINTS[2:]}
    told = [p for p in told if p.state is None]
    assert [(p.done, p.total, p.resumed) for p in told] == [(2 + n, 6, 2) for n in range(5)]
    assert told[0].eta_s is None
    assert told[-1].eta_s == 0.0
    assert told[-1].row is not None


def test_warnings_of_the_cost_model_stay_when_every_point_is_resumed(bench, journal):
    bench.cautions = (DataWarning("unmodelled-operators", "no cost is known for Frob; totals leave them out"),)
    for _ in range(2):
        assert [caution.code for caution in run(bench, journal).header.warnings][-1:] == ["unmodelled-operators"]
    assert len(bench.opened) == len(POINTS)


def test_header_says_where_the_rows_come_from(bench, journal):
    header = run(bench, journal).header
    assert header.kind == "profile"
    assert header.simulated
    assert header.inputs["workload"]["sha256"] == NET.sha256
    assert header.conditions["options"]["target_ci"] == 0.02
    assert header.conditions["harness_overhead"] == {"median": 0.0, "max": 0.0}
    assert [caution.code for caution in header.warnings] == ["no-power"]
    assert header.warnings[0].advice.startswith("no power and no energy: ")
    assert header.warnings[0].advice.count("no power") == 1
    assert "column" not in header.warnings[0].advice  # a search prints it, and has no such column


def test_no_points(bench, journal):
    with pytest.raises(InputError, match="no points"):
        run(bench, journal, [])


def test_points_of_another_workload(bench, journal):
    with pytest.raises(InputError, match="not a point of"):
        run(bench, journal, [Point("other", "infer", 1, MODES[0])])


def test_device_is_restored_when_done(bench, journal):
    run(bench, journal)
    assert bench.modes.restored == 1


def test_loading_order_groups_batch_sizes_and_cores():
    points = [Point("n", "infer", b, Mode(cpu_cores=c, cpu_mhz=m)) for m in (1.0, 2.0) for c in (2, 1) for b in (8, 1)]
    order = [(p.batch_size, p.mode.cpu_cores) for p in loading_order(points)]
    assert order == [(8, 2)] * 2 + [(8, 1)] * 2 + [(1, 2)] * 2 + [(1, 1)] * 2


def test_failures_stand_only_beside_a_success(bench, journal):
    run(bench, journal)
    good = run(bench, journal).rows[0]
    failed = SweepJournalEntry(POINTS[1], (good.__class__("net", "infer", 1, None, status="failed"),))
    assert finished_visits([failed, failed, failed]) == set()
    assert finished_visits([SweepJournalEntry(POINTS[0], (good,)), failed]) == {Visit(POINTS[0])}
    assert finished_visits([SweepJournalEntry(POINTS[0], (good,)), failed, failed]) == {
        Visit(POINTS[0]),
        Visit(POINTS[1]),
    }


def test_recorded_table_is_looked_up(tmp_path):
    table = tmp_path / "table.csv"
    table.write_text("workload,task,batch_size,gpu_mhz,minibatch_s,power_w\nnet,infer,4,300,0.5,9\n")
    device = open_recorded(str(table))
    with open_profiler(device, NET, "infer") as profiler:
        assert profiler.measure(POINTS[0]).power_w == 9.0
        with pytest.raises(InputError):
            profiler.measure(POINTS[1])


def test_identity_ignores_patience_and_points(bench):
    same = identify(bench.device, NET, "infer", ProfileOptions())
    assert identify(bench.device, NET, "infer", ProfileOptions(point_timeout_s=5, retries=0)) == same
    assert identify(bench.device, NET, "infer", ProfileOptions(target_ci=0.1)) != same
    assert identify(bench.device, NET, "train", ProfileOptions()) != same


def test_identity_of_a_real_device_ignores_the_load_of_the_day():
    assert identify(open_host(), NET, "infer", ProfileOptions()) == identify(
        open_host(), NET, "infer", ProfileOptions()
    )


def test_identity_follows_the_contents_of_the_inputs(bench, tmp_path):
    inputs = tmp_path / "in.npz"
    inputs.write_bytes(b"one")
    options = ProfileOptions(inputs=str(inputs))
    before = identify(bench.device, NET, "infer", options)
    inputs.write_bytes(b"two")
    assert identify(bench.device, NET, "infer", options) != before
    inputs.unlink()
    with pytest.raises(InputError, match="cannot read"):
        identify(bench.device, NET, "infer", options)


def test_journal_is_hidden_beside_the_output_or_in_the_state_folder(tmp_path, monkeypatch):
    assert default_journal_path(tmp_path / "host.parquet", {}, POINTS) == tmp_path / ".host.parquet.journal"
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    one, other = (default_journal_path(None, {"a": 1}, points) for points in (POINTS, POINTS[1:]))
    assert one.parent == other.parent == tmp_path / "edgetune" / "journals"
    assert one != other
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_journal_path(None, {}, POINTS).is_relative_to(tmp_path / ".local" / "state")


def test_a_journal_without_a_home_is_in_the_temporary_folder(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file" / "below"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    path = default_journal_path(None, {}, POINTS)
    assert path.parent == temporary_folder()
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_temporary_folder_that_another_has_laid_out_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", "/dev/null/below")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "elsewhere").mkdir()
    temporary_folder().symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="no folder to keep the journal in"):
        default_journal_path(None, {}, POINTS)


def test_training_file_on_the_host_end_to_end(training, journal):
    source = (
        "def make(size):\n    if size == 2:\n        raise MemoryError('too big')\n    return lambda: sum(range(999))\n"
    )
    points = [Point("train", "train", size, Mode(cpu_cores=1)) for size in (1, 2, 4)]
    profile = sweep(open_host(), training(source), points, ProfileOptions(max_sampling_s=0.2), journal)
    assert [row.status for row in profile.rows] == ["ok", "failed", "ok"]
    assert "MemoryError: too big" in profile.rows[1].reason
    assert profile.rows[0].minibatch_s > 0
    assert profile.rows[0].power_w is not None or profile.rows[0].reason


def test_the_reason_for_no_power_leaves_out_that_the_machine_was_busy():
    row = ProfileRow("net", "infer", 1, 0.1, gpu_mhz=600.0, others_cpu_share=0.71)
    busy = "other processes used 71% of its CPUs while it was measured"
    reasons = (f"no power: no sensor; {busy}", busy, "no power: no sensor", None)
    assert [_why_no_power(replace(row, reason=reason)) for reason in reasons] == ["no sensor", "", "no sensor", ""]

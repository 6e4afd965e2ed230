"""Sweeps: exactly the points asked for, in the order asked, whatever failed or was interrupted on the way."""

import math

import pytest

from edgetune.artifacts.header import DataWarning
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import Point
from edgetune.errors import DeviceError, InputError
from edgetune.processes.user_folders import temporary_folder
from edgetune.stages.profiling import profiler as profilers
from edgetune.stages.profiling.journal import Journal
from edgetune.stages.profiling.options import ProfileOptions
from edgetune.stages.profiling.queue import Visit
from edgetune.stages.profiling.sweep import finished_visits, sweep
from edgetune.stages.profiling.sweep_journal import SweepJournalEntry, default_journal_path, identify
from edgetune.testing.fake_jetson import FakeClock
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


def test_failure_costs_one_point_and_is_tried_once_more(bench, journal):
    bench.failing[(1, 600.0)] = InputError("out of memory", "smaller")
    for tries in (1, 2, 2):
        profile = run(bench, journal)
        rows = [row for row in profile.rows if row.point == Point("net", "infer", 1, MODES[1])]
        assert [row.status for row in rows] == ["failed"] * tries
        assert sum(row.status == "ok" for row in profile.rows) == len(POINTS) - 1
    assert profile.header.warnings[0].code == "points-failed"


def test_batch_size_that_never_fits_does_not_hide_the_others(bench, journal):
    modes = [Mode(gpu_mhz=float(mhz)) for mhz in range(300, 1000, 100)]
    points = [Point("net", "infer", size, mode) for size in (4, 1) for mode in modes]
    bench.failing = {(4, mode.gpu_mhz): InputError("killed", "smaller") for mode in modes}
    profile = run(bench, journal, points)
    assert [row.status for row in profile.rows] == ["failed"] * 7 + ["ok"] * 7
    assert [size for size, _ in bench.opened] == [4] * 3 + [1] * 7 + [4] * 4


def test_missing_library_ends_the_sweep_at_once(bench, journal):
    def missing(_):
        raise DeviceError("needs PyTorch", "pip install")

    bench.device.source._open_runner = missing
    with pytest.raises(DeviceError, match="PyTorch"):
        run(bench, journal)
    assert bench.modes.restored == 1


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


def test_identity_ignores_patience_and_points(bench):
    same = identify(bench.device, NET, "infer", ProfileOptions())
    assert identify(bench.device, NET, "infer", ProfileOptions(point_timeout_s=5, retries=0)) == same
    assert identify(bench.device, NET, "infer", ProfileOptions(target_ci=0.1)) != same
    assert identify(bench.device, NET, "train", ProfileOptions()) != same


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


@pytest.mark.parametrize(
    "wrong",
    [
        {"target_ci": 0.0},
        {"target_ci": math.nan},
        {"target_ci": 1.0},
        {"minibatches": 0},
        {"max_minibatches": 3},
        {"max_sampling_s": -1.0},
        {"point_timeout_s": math.inf},
        {"point_timeout_s": math.nan},
        {"retries": -1},
        {"cool_to_c": math.nan},
        {"cool_timeout_s": 0.0},
        {"interleave_repeats": 0},
    ],
)
def test_senseless_options_are_refused(wrong):
    with pytest.raises(InputError):
        ProfileOptions(**wrong)

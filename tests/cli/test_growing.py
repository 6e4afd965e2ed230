"""A table that grows: a sweep by a batch size or mode, and several tables as one; what does not fit is refused."""

import errno
import json
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import assert_two_lines

from edgetune.artifacts import io
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.errors import InputError
from edgetune.stages.profiling import identity, profiler

SWEEP = ("profile", "zoo:squeezenet", "-t", "infer", "--device", "twin:orin-agx", "-q")


@pytest.fixture
def sweep(edgetune, tmp_path):
    """Profile on the twin into one file, in one mode unless said otherwise; gives what it ended with."""
    path = str(tmp_path / "sweep.parquet")

    def profile(*words, file=path):
        modes = () if "--modes" in words else ("--modes", "MAXN")
        return edgetune(*SWEEP, *modes, *words, "-o", file)

    profile.path = path
    return profile


def rows_of(path):
    return io.read_profile(str(path)).rows


def test_another_batch_size_is_added_and_nothing_is_measured_again(sweep):
    assert sweep("-b", "1,4").code == 0
    before = rows_of(sweep.path)
    ended = sweep("-b", "1,4,8")
    assert ended.code == 0, ended.err
    table = io.read_profile(sweep.path)
    assert table.rows[:2] == before  # to the microsecond of `started`: they are the same measurements
    assert [row.batch_size for row in table.rows] == [1, 4, 8]
    assert [part["rows"] for part in table.header.inputs["grown_from"]] == [2, 1]
    assert not list(Path(sweep.path).parent.glob(".*.journal"))


@pytest.mark.parametrize("grows", [False, True])
def test_a_stopped_sweep_says_what_is_kept_is_shown_and_counted_and_goes_on(edgetune, sweep, monkeypatch, grows):
    sizes = "1,4,8,16"
    assert not grows or sweep("-b", "1,4").code == 0
    attempts, made = profiler.Profiler.attempts, []

    def deleted_midway(self, point, *rest, **kept):
        if len(made) == 1:
            raise InputError("cannot read net.onnx: No such file or directory", "check the path")
        made.append(point)
        return attempts(self, point, *rest, **kept)

    with monkeypatch.context() as patch:
        patch.setattr(profiler.Profiler, "attempts", deleted_midway)
        ended = edgetune(*[word for word in SWEEP if word != "-q"], "--modes", "MAXN", "-b", sizes, "-o", sweep.path)
    assert ended.code == 2
    journal = Path(sweep.path).parent / ".sweep.parquet.journal"
    assert f"what was measured is kept, and the same command resumes; edgetune show {journal}" in ended.err
    told = json.loads(sweep("-b", sizes, "--dry-run", "--json").out)
    assert (told["points"], len(told["listed"])) == ((1, 1) if grows else (3, 3))
    shown = json.loads(edgetune("show", str(journal), "--json").out)
    assert [row["batch_size"] for row in shown["rows"]] == [point.batch_size for point in made]
    assert [each["code"] for each in shown["header"]["warnings"]] == ["sweep-stopped"]
    assert shown["header"]["conditions"]["simulated"] is True
    if not grows:
        assert "sweep-stopped" in edgetune("show", sweep.path).out
    assert sweep("-b", sizes).code == 0
    assert [row.batch_size for row in rows_of(sweep.path)] == [1, 4, 8, 16]
    assert not journal.exists()


@pytest.mark.parametrize(
    "words",
    [("--precision", "fp16"), ("-t", "train")],
)
def test_an_unsuitable_table_is_refused_with_the_first_difference(edgetune, sweep, words):
    assert sweep("-b", "1").code == 0
    before = Path(sweep.path).read_bytes()
    for dry in ((), ("--dry-run",)):
        ended = edgetune(*SWEEP, "--modes", "MAXN", "-b", "4", *words, "-o", sweep.path, *dry)
        assert_two_lines(ended, 2)
    assert Path(sweep.path).read_bytes() == before
    assert sweep("-b", "4", *(word for word in words if word != "train"), "--fresh").code in (0, 2)


def test_another_network_and_other_software_are_refused(edgetune, sweep):
    assert sweep("-b", "1").code == 0
    ended = edgetune(*(word.replace("squeezenet", "alexnet") for word in SWEEP), "-b", "1", "-o", sweep.path)
    assert_two_lines(ended, 2)
    table = io.read_profile(sweep.path)
    for change in (
        {"tool": "edgetune 0.0.9"},
        {"conditions": {**table.header.conditions, "constants_sha256": "other"}},
        {"inputs": {"workload": {**table.header.inputs["workload"], "sha256": "b" * 64}}},
        {"inputs": {**table.header.inputs, "request": {"sha256": "0"}}},
    ):
        header = replace(table.header, **change)
        if "tool" in change:
            header = replace(header, inputs={**header.inputs, "request": {"sha256": "of that version"}})
        io.write(replace(table, header=header), sweep.path)
        ended = sweep("-b", "1,4")
        assert_two_lines(ended, 2)


def test_a_full_disk_costs_neither_the_old_table_nor_the_new_points(sweep, monkeypatch):
    assert sweep("-b", "1,4").code == 0
    before = Path(sweep.path).read_bytes()

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("edgetune.artifacts.file_operations.rename", full)
    assert sweep("-b", "1,4,8").code == 2
    assert Path(sweep.path).read_bytes() == before
    assert Path(sweep.path).with_name(".sweep.parquet.journal").exists()
    monkeypatch.undo()
    assert sweep("-b", "1,4,8").code == 0
    table = io.read_profile(sweep.path)
    assert [row.batch_size for row in table.rows] == [1, 4, 8]
    assert table.header.conditions["points_resumed"] == 1  # from the journal: measured once


def test_a_point_left_as_found_is_not_taken_for_one_whose_read_back_is_alike():
    found, clocked = Point("net", "infer", 1, Mode()), Point("net", "infer", 1, Mode(gpu_mhz=900.0))
    row = ProfileRow("net", "infer", 1, 0.1, gpu_mhz=900.0)
    assert identity.partial_points([(found, row), (clocked, row)]) == [[1, {}]]
    assert identity.partial_points([(clocked, row)]) == []


def test_tables_of_one_device_become_one(edgetune, sweep, tmp_path):
    parts = [str(tmp_path / f"{size}.parquet") for size in (1, 4)]
    for size, part in zip((1, 4), parts, strict=True):
        assert sweep("-b", str(size), file=part).code == 0
    whole = str(tmp_path / "whole.parquet")
    ended = edgetune("merge", *parts, "-o", whole)
    assert ended.code == 0, ended.err
    table = io.read_profile(whole)
    assert table.rows == (*rows_of(parts[0]), *rows_of(parts[1]))
    assert table.header.simulated
    assert table.header.inputs["workload"]["name"] == "squeezenet"
    assert [origin["name"] for origin in table.header.inputs["tables"]] == parts
    assert edgetune("search", whole, "--power-budget", "40W", "-q").code == 0
    assert sweep("-b", "1,4,8", file=whole).code == 0  # a merged table grows too
    assert [row.batch_size for row in rows_of(whole)] == [1, 4, 8]


def test_a_table_merges_into_itself_and_repeats_stay(edgetune, sweep, tmp_path):
    first, second = sweep.path, str(tmp_path / "again.parquet")
    assert sweep("-b", "1").code == 0
    table = io.read_profile(first)
    later = replace(table.rows[0], started="2030-01-01T00:00:00Z")
    io.write(replace(table, rows=(later,)), second)
    assert edgetune("merge", first, second, "-o", first).code == 0
    assert len(rows_of(first)) == 2  # the newest counts, and none is lost
    assert edgetune("merge", first, second, "-o", first).code == 0
    assert len(rows_of(first)) == 2
    told = json.loads(edgetune("merge", first, second, "-o", str(tmp_path / "c.parquet"), "--json").out)
    assert told["rows"] == 2


@pytest.mark.parametrize("words", [("--precision", "fp16")])
def test_tables_that_do_not_fit_are_refused_with_the_first_difference(edgetune, sweep, tmp_path, words):
    other = str(tmp_path / "other.parquet")
    assert sweep("-b", "1").code == 0
    assert edgetune(*SWEEP, "--modes", "MAXN", "-b", "4", *words, "-o", other).code == 0
    ended = edgetune("merge", sweep.path, other, "-o", str(tmp_path / "whole.parquet"))
    assert_two_lines(ended, 2)
    assert not (tmp_path / "whole.parquet").exists()


def test_tables_of_others_merge_by_device_and_network(edgetune, tmp_path):
    header = "device,net,task,batch_size,mode,lat,power_w\n"
    for name, row in (
        ("a", "nano,net,infer,1,5W,20,4\n"),
        ("b", "nano,net,infer,1,MAXN,11,9\n"),
        ("c", "tx2,net,infer,1,MAXN,8,9\n"),
    ):
        (tmp_path / f"{name}.csv").write_text(header + row)
    a, b, c, whole = (str(tmp_path / name) for name in ("a.csv", "b.csv", "c.csv", "whole.parquet"))
    said = ("--column", "net=workload", "--column", "lat=minibatch_ms")
    ended = edgetune("merge", a, b, *said, "-o", whole)
    assert ended.code == 0, ended.err
    assert [(row.power_mode, row.minibatch_s) for row in rows_of(whole)] == [("5W", 0.02), ("MAXN", 0.011)]
    ended = edgetune("merge", a, c, *said, "-o", str(tmp_path / "ac.parquet"))
    assert_two_lines(ended, 2)

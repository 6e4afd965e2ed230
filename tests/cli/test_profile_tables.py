"""Tables that grow, are merged and compared, are devices, and give a simulation its operators."""

import errno
import json
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import assert_two_lines

from edgetune.artifacts import io
from edgetune.artifacts.io import read_profile
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.cli.main import run
from edgetune.errors import InputError
from edgetune.stages.profiling import profiler, sweep_journal

# A table that grows, and several as one

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
    assert sweep_journal.partial_points([(found, row), (clocked, row)]) == [[1, {}]]
    assert sweep_journal.partial_points([(clocked, row)]) == []


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


# A sweep on several boards

SHARDS_SWEEP = ("profile", "zoo:squeezenet", "-b", "1,2", "-m", "grid:8", "-d", "twin:orin-agx", "-q")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def shards(folder):
    for number in (1, 2):
        assert run([*SHARDS_SWEEP, "--shard", f"{number}/2", "--board", f"b{number}", "-o", f"s{number}.parquet"]) == 0
    return folder


def test_the_merged_shards_are_the_sweep_of_one_board(shards, capsys):
    assert run([*SHARDS_SWEEP, "-o", "one.parquet"]) == 0
    assert run(["merge", "s1.parquet", "s2.parquet", "-o", "all.parquet"]) == 0
    one, all_of = read_profile("one.parquet"), read_profile("all.parquet")
    figures = {row.point: (row.minibatch_s, row.power_w) for row in one.rows}
    assert {row.point: (row.minibatch_s, row.power_w) for row in all_of.rows} == figures
    assert {row.board for row in all_of.rows} == {"b1", "b2"}
    assert len(all_of.rows) == len(one.rows) + 2 * 3 + 3  # the anchors of two boards, each twice
    assert run([*SHARDS_SWEEP, "-o", "all.parquet"]) == 0  # the request of one board is answered


def test_a_shard_resumes_and_is_planned_with_both_visits_to_its_anchors(folder, capsys):
    run([*SHARDS_SWEEP, "--shard", "1/2", "--dry-run", "--json"])
    planned = json.loads(capsys.readouterr().out)
    run([*SHARDS_SWEEP, "--shard", "1/2", "-o", "s.parquet"])
    table = read_profile("s.parquet")
    assert planned["duration_s"] == pytest.approx(sum(row.duration_s for row in table.rows), rel=0.2)
    before = (folder / "s.parquet").read_bytes()
    assert run([*SHARDS_SWEEP, "--shard", "1/2", "-o", "s.parquet"]) == 0
    assert (folder / "s.parquet").read_bytes() == before
    assert all(row.board.endswith("twin:orin-agx") for row in table.rows)


@pytest.mark.parametrize("shard", ["0/2", "a/b"])
def test_what_is_no_shard_is_refused(folder, capsys, shard):
    assert run([*SHARDS_SWEEP, "--shard", shard]) == 2


# On a recorded device MODEL is a name in its table

TABLE = """workload,task,batch_size,gpu_mhz,minibatch_s,power_w
resnet18,train,16,300,0.20,12
resnet18,train,16,900,0.09,29
resnet18,train,32,900,0.17,30
resnet18,infer,1,300,0.01,10
tiny,train,4,300,0.01,9
"""


@pytest.fixture(autouse=True)
def own_state(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def device(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text(TABLE)
    return f"recorded:{path}"


@pytest.mark.parametrize("name", ["resnet18", "somewhere/resnet18.py"])
def test_any_spelling_of_the_name_will_do(edgetune, tmp_path, device, name):
    target = tmp_path / "p.parquet"
    ended = edgetune("profile", name, "--device", device, "--task", "train", "--batch-sizes", "16", "-o", str(target))
    assert ended.code == 0, ended.err
    profile = io.read_profile(str(target))
    assert [(row.workload, row.gpu_mhz, row.minibatch_s) for row in profile.rows] == [
        ("resnet18", 300, 0.2), ("resnet18", 900, 0.09),
    ]  # fmt: skip
    assert profile.header.inputs["workload"]["name"] == "resnet18"


BAD = {
    "no such task": ("tiny", "--task", "infer"),
    "no such batch size": ("resnet18", "--task", "train", "--batch-sizes", "8,16"),
}


@pytest.mark.parametrize("words", BAD.values(), ids=BAD)
@pytest.mark.parametrize("command", ["profile", "search"])
def test_missing_names_are_reported_with_the_names_of_the_table(edgetune, device, command, words):
    ended = edgetune(command, *words, "--device", device)
    assert_two_lines(ended, 2)


# A simulated device runs what a table of operators says

TWIN = ("--task", "train", "--device", "twin:orin-agx", "--modes", "gpu_mhz=318:1300:3")


@pytest.fixture
def ops(edgetune, tmp_path):
    path = str(tmp_path / "ops.parquet")
    assert edgetune("roofline", "ops", "zoo:squeezenet", "--task", "train", "--batch-size", "8", "-o", path).code == 0
    return path


def figures(path):
    return [(row.point, row.minibatch_s, row.power_w) for row in io.read_profile(str(path)).rows]


def test_the_table_gives_what_costing_the_network_gives(edgetune, tmp_path, ops):
    costed, given = tmp_path / "costed.parquet", tmp_path / "given.parquet"
    assert edgetune("profile", "zoo:squeezenet", *TWIN, "--batch-sizes", "8", "-o", str(costed)).code == 0
    ended = edgetune("profile", "zoo:squeezenet", *TWIN, "--ops", ops, "-o", str(given))  # at the table's batch size
    assert ended.code == 0, ended.err
    assert figures(given) == figures(costed)
    assert io.read_profile(str(given)).header.inputs["ops"]["name"] == ops
    assert "ops" not in io.read_profile(str(costed)).header.inputs


# Tables beside each other


@pytest.fixture
def tables(edgetune, tmp_path):
    """A table of two points on the twin, and a function that writes a changed copy of it."""
    before = tmp_path / "before.parquet"
    assert edgetune(*SWEEP, "--modes", "MAXN", "-b", "1,4", "-o", str(before)).code == 0
    table = io.read_profile(str(before))

    def changed(factor=1.0, *, conditions=None, rows=None, **columns):
        def times(row):
            scaled = tuple(factor * time_s for time_s in row.times_s)
            return replace(row, minibatch_s=factor * row.minibatch_s, times_s=scaled, **columns)

        header = replace(table.header, conditions={**table.header.conditions, **(conditions or {})})
        path = tmp_path / "after.parquet"
        io.write(replace(table, header=header, rows=tuple(map(times, table.rows)) if rows is None else rows), path)
        return str(path)

    changed.table = table
    return str(before), changed


@pytest.mark.parametrize("conditions", [{"device": "jetson"}, {"constants_sha256": "other"}])
def test_an_unfair_comparison_is_named_and_is_the_answer(edgetune, tables, conditions):
    before, changed = tables
    after = changed(2.0, conditions=conditions)
    ended = edgetune("compare", before, after)
    assert ended.code == 0
    assert "slower" not in ended.out
    found = json.loads(edgetune("compare", before, after, "--json").out)[0]
    assert found["overall"] == {}
    assert all(point["verdicts"] == {} for point in found["joined"]["points"])
    ended = edgetune("compare", before, after, "--fail-above", "3%")
    assert ended.code == 5


def test_the_check_of_continuous_integration(edgetune, tables):
    before, changed = tables
    assert edgetune("compare", before, before, "--fail-above", "0%").code == 0
    after = changed(1.05)
    assert edgetune("compare", before, after, "--fail-above", "6%").code == 0
    ended = edgetune("compare", before, after, "--fail-above", "3%")
    assert ended.code == 5
    assert ended.out.count("fails: slower: squeezenet infer batch") == 2
    assert "fails: slower: all points together" in ended.out
    assert edgetune("compare", after, before, "--fail-above", "3%").code == 0
    assert edgetune("compare", before, changed(0.9), before, "--fail-above", "3%").code == 0
    assert (
        len(
            json.loads(edgetune("compare", before, changed(1.05), "--fail-above", "3%", "--json").out)[0]["regressions"]
        )
        == 3
    )


def test_a_point_that_fails_or_is_missing_now_fails_the_check(edgetune, tables):
    before, changed = tables
    first, last = changed.table.rows
    failed = replace(last, status="failed", reason="out of memory", minibatch_s=None)
    ended = edgetune("compare", before, changed(rows=(first, failed)), "--fail-above", "3%")
    assert ended.code == 5
    ended = edgetune("compare", before, changed(rows=(first,)), "--fail-above", "3%")
    assert ended.code == 5
    assert f"fails: missing: {last.point}" in ended.out
    assert edgetune("compare", before, changed(rows=(first,)), "--fail-above", "3%", "--allow-missing").code == 0


def test_tables_of_others_are_compared(edgetune, tmp_path):
    for name, factor in (("a", 1.0), ("b", 2.0)):
        times = [factor * (1 + 0.01 * (number % 5)) for number in range(20)]
        result = {"command": f"./{name}", "times": times, "mean": factor, "median": factor, "exit_codes": [0] * 20}
        (tmp_path / f"{name}.json").write_text(json.dumps({"results": [result]}))
        (tmp_path / f"{name}.csv").write_text(f"net,task,batch_size,mode,lat\nnet,infer,1,5W,{20 * factor}\n")
    ended = edgetune("compare", str(tmp_path / "a.json"), str(tmp_path / "b.json"))
    assert ended.code == 0, ended.err
    assert "2.000" in ended.out
    assert "slower" in ended.out
    said = ("--column", "net=workload", "--column", "lat=minibatch_ms")
    ended = edgetune("compare", str(tmp_path / "a.csv"), str(tmp_path / "b.csv"), *said)
    assert ended.code == 0, ended.err
    assert "2.000  cannot tell" in ended.out

"""``edgetune compare``: conditions first, verdicts, exit codes, and tables of others."""

import json
from dataclasses import replace

import pytest
from command_line import assert_two_lines

from edgetune.artifacts import io

SWEEP = ("profile", "zoo:squeezenet", "-t", "infer", "--device", "twin:orin-agx", "--modes", "MAXN", "-q", "-b", "1,4")


@pytest.fixture
def tables(edgetune, tmp_path):
    """A table of two points on the twin, and a function that writes a changed copy of it."""
    before = tmp_path / "before.parquet"
    assert edgetune(*SWEEP, "-o", str(before)).code == 0
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


@pytest.mark.parametrize(("factor", "code"), [(0.1, 0), (1.5, 5), (10.0, 5)])
def test_a_check_on_a_busy_machine_fails_unless_it_is_surely_no_slower(edgetune, tables, factor, code):
    before, changed = tables
    after = changed(factor, others_cpu_share=0.5)
    ended = edgetune("compare", before, after, "--fail-above", "3%")
    assert ended.code == code, ended.out
    assert ("fails: cannot tell" in ended.out) == (factor == 1.5)
    assert ("fails: slower" in ended.out) == (factor == 10.0)


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


def test_the_figure_is_drawn(edgetune, tables, tmp_path):
    pytest.importorskip("matplotlib")
    before, changed = tables
    target = tmp_path / "ratios.svg"
    ended = edgetune("compare", before, changed(1.1), "--plot", str(target))
    assert ended.code == 0, ended.err
    assert b"<svg" in target.read_bytes()
    assert_two_lines(edgetune("compare", before, before, "--plot", before), 2)


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


def test_python_gives_the_same(tables):
    import edgetune

    before, changed = tables
    (found,) = edgetune.compare([before, edgetune.read(changed(1.2))], fail_above=0.03)
    assert [each.verdict() for each in found.joined.points] == ["slower", "slower"]
    assert len(found.regressions) == 3
    assert ": time 1.200 (1.200 to 1.200), slower; " in str([found])

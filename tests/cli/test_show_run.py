"""``edgetune show`` of a run: figures that one can act on, for people and for machines."""

import json
from dataclasses import replace

import pytest
from command_line import assert_two_lines

from edgetune.artifacts import io
from edgetune.artifacts.header import Header
from edgetune.artifacts.run import Run, RunRow

TENANTS = [{"name": "net", "task": "infer"}, {"name": "learner", "task": "train"}]


def rows(engine, answer_s, train_s, *, power=True):
    """Ten seconds: a request per second, due in 100 ms, and training in between; 10 W."""
    found = [
        RunRow(engine, "request", k + answer_s, "net", 0, float(k), float(k), k + 0.1, answer_s <= 0.1, k, 1, 1)
        for k in range(10)
    ]
    found += [
        RunRow(engine, "train", k + 0.5 + train_s, "learner", started_s=k + 0.5, minibatch=k, batch_size=16, samples=16,
               loss=2.0 - k / 10)
        for k in range(10)
    ]  # fmt: skip
    found += [RunRow(engine, "power", float(k), power_w=10.0) for k in range(11) if power]
    return found


def write(path, found, *, simulated=False, warnings=()):
    header = Header.new(
        "run", 1, inputs={"tenants": TENANTS}, conditions={"device": "host", "simulated": simulated}, warnings=warnings
    )
    io.write(Run(header, tuple(found)), path)
    return str(path)


@pytest.fixture
def two(tmp_path):
    return write(tmp_path / "two.parquet", rows("managed", 0.05, 0.25) + rows("native", 0.2, 0.25))


def test_machines_get_the_same_by_engine_and_by_turn(edgetune, two):
    ended = edgetune("show", two, "--json")
    figures = json.loads(ended.out)
    assert [each["engine"] for each in figures["engines"]] == ["managed", "native"]
    managed = figures["engines"][0]
    assert managed["answered"][0]["latency_p99_s"] == pytest.approx(0.05)
    assert managed["trained"][0]["samples_per_s"] == 16
    assert managed["device"]["duration_s"] == 10
    assert managed["device"]["idle_s"] == pytest.approx(10 - 10 * 0.05 - 10 * 0.25)
    assert [turn["turns"] for turn in figures["turns"]] == [[0], [0]]
    assert figures["header"]["kind"] == "run"


def test_without_power_there_is_a_reason_and_no_zero(edgetune, tmp_path):
    ended = edgetune("show", write(tmp_path / "r.parquet", rows("managed", 0.05, 0.25, power=False)))
    assert "no energy: no power was read" in ended.out
    assert " W" not in ended.out
    assert " J" not in ended.out


def test_a_row_that_cannot_be_is_two_lines(edgetune, tmp_path):
    bad = replace(rows("managed", 0.05, 0.25)[0], started_s=9.0)
    assert_two_lines(edgetune("show", write(tmp_path / "r.parquet", [bad])), 2)


@pytest.mark.parametrize("view", ["latency", "timeline:native"])
def test_each_view_is_drawn(edgetune, two, tmp_path, view):
    target = tmp_path / "figure.svg"
    ended = edgetune("show", two, "--plot", str(target), "--view", view)
    assert (ended.code, ended.out, ended.lines[0]) == (0, "", f"wrote {target}")
    assert all(line.startswith(f"{target}: ") for line in ended.lines[1:]), "what it leaves out"
    word, _, engine = view.partition(":")
    other = {"latency": None, "native": "managed"}.get(engine or word, "native")
    assert (f"not drawn: {other} (" in ended.err) == (other is not None)
    assert target.read_bytes().startswith(b"<?xml")


@pytest.mark.parametrize("view", ["latencies", "timeline:streams"])
def test_a_view_that_is_none_is_two_lines(edgetune, two, tmp_path, view):
    target = tmp_path / "figure.svg"
    assert_two_lines(edgetune("show", two, "--plot", str(target), "--view", view), 2)
    assert not target.exists()

"""``edgetune measure``: commands once, in the mode that is, compared with the fastest."""

import json
import os
import re
import signal
import subprocess
import sys

import pytest
from command_line import assert_two_lines
from test_profile_board import Board

from edgetune.artifacts import io

QUICK = ("measure", "--device", "host", "--runs", "10")


def test_one_command_after_two_dashes(edgetune):
    ended = edgetune("measure", "--device", "host", "--runs", "40", "--", "sleep", "0.02")
    assert ended.code == 0, ended.err
    name, median, spread, *_ = ended.out.splitlines()
    assert name == "sleep 0.02"
    assert re.match(r"  median  [\d.]+ ms, 95 % interval [\d.]+ ms to [\d.]+ ms$", median)
    assert spread.endswith(", 40 timed")


def test_several_are_compared_and_kept(edgetune, tmp_path):
    table = tmp_path / "m.parquet"
    ended = edgetune(
        "measure", "--device", "host", "--runs", "40", "sleep 0.01", "sleep 0.05", "sh -c 'exit 3'", "-o", str(table)
    )
    assert ended.code == 5
    assert re.search(
        r"^sleep 0.01 is [\d.]+ times as fast \([\d.]+ to [\d.]+\) as sleep 0.05$", ended.out, re.MULTILINE
    )
    assert ended.out.count("note: no power") <= 1
    assert [(row.workload, row.round, row.status) for row in io.read_profile(str(table)).rows] == [
        *(("sleep 0.01", turn, "ok") for turn in range(1, 6)), *(("sleep 0.05", turn, "ok") for turn in range(1, 6)),
        ("sh -c 'exit 3'", 1, "failed"),
    ]  # fmt: skip


def test_the_answer_for_machines(edgetune):
    words = "sh -c 'for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 0.02; echo took 3.5 ms; done'"
    ended = edgetune(*QUICK, "--json", "--step-pattern", "took (?P<value>[0-9.]+)", words)
    (row,) = json.loads(ended.out)["rows"]
    assert row["minibatch_s"] > 0.015  # a line may be read late
    assert (row["own_value"], row["own_unit"]) == (3.5, "ms")


def test_a_board_keeps_its_mode_and_gives_power(edgetune, tmp_path):
    board = Board(tmp_path)
    ended = edgetune("measure", "--device", "jetson", "--root", str(board.root), "--runs", "20", "--", "sleep", "0.05")
    assert ended.code == 0, ended.err
    assert ended.err.startswith("SIMULATED: ")
    assert board.kernel.writes == []
    assert board.as_found


@pytest.mark.parametrize("words", ["cat < in", "echo a;true"])
def test_an_operator_that_no_shell_reads_is_refused(edgetune, words):
    ended = edgetune(*QUICK, words)
    assert_two_lines(ended, 2)


@pytest.mark.parametrize(
    "words",
    [(), ("nosuchprogram",), ("--device", "twin:orin-agx", "true")],
)
def test_what_cannot_be_measured_is_refused(edgetune, words):
    ended = edgetune("measure", "--runs", "3", *words)
    assert_two_lines(ended, 2)


def test_ctrl_c_keeps_the_commands_that_had_been_measured(tmp_path):
    table, begun = tmp_path / "m.parquet", tmp_path / "begun"
    os.mkfifo(begun)
    words = [
        sys.executable,
        "-m",
        "edgetune",
        *QUICK,
        "-o",
        str(table),
        "sleep 0.01",
        f"sh -c 'echo > {begun}; sleep 60'",
    ]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        begun.read_text()
        running.send_signal(signal.SIGINT)
        out, said = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "sleep 0.01" in out
    assert f"stopped; 1 of 2 commands had been measured, and {table} has them" in said
    assert [row.workload for row in io.read_profile(str(table)).rows] == ["sleep 0.01"]

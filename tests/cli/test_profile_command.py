"""``edgetune profile -- COMMAND`` and ``edgetune measure``: whole runs, marked steps, scripts, and what goes wrong."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import psutil
import pytest
from command_line import assert_two_lines
from test_profile_board import Board

from edgetune.artifacts import io

QUICK = ("--device", "host", "--minibatches", "10")
STEPS = "i=0; while [ $i -lt 40 ]; do sleep 0.0{batch}; i=$((i+1)); echo step $i took 1.5 ms; done"
TRAIN = """
import argparse, json, sys, time
import torch

def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    size = parser.parse_args().batch_size
    data = torch.utils.data.TensorDataset(torch.randn(400, 4))
    loader = torch.utils.data.DataLoader(data, batch_size=size, num_workers=WORKERS, multiprocessing_context=START)
    net = torch.nn.Linear(4, 1)
    optimiser = torch.optim.SGD(net.parameters(), lr=0.1)
    for epoch in range(1000):
        for (x,) in loader:
            optimiser.zero_grad()
            net(x).sum().backward()
            time.sleep(0.01 if size == 8 else 0.03)
            optimiser.step()

if __name__ == "__main__":
    main()
"""


@pytest.fixture(autouse=True)
def nothing_left(tmp_path, monkeypatch):
    """No process that a test starts remains: all inherit a variable of the test."""
    mark = str(tmp_path)
    monkeypatch.setenv("TEST_OF", mark)
    yield
    mine = [each for each in psutil.process_iter() if each.pid != os.getpid() and _environment(each) == mark]
    _, left = psutil.wait_procs(mine, 3)
    assert not left


def _environment(process):
    try:
        return process.environ().get("TEST_OF")
    except psutil.Error:
        return None


def rows(path):
    return io.read_profile(str(path)).rows


def test_a_whole_run_is_a_minibatch(edgetune, tmp_path):
    table = tmp_path / "p.parquet"
    ended = edgetune("profile", *QUICK, "-o", str(table), "--", "sleep", "0.05")
    assert ended.code == 0, ended.err
    (row,) = rows(table)
    assert (row.workload, row.task, row.batch_size) == ("sleep", "infer", 1)
    assert min(row.times_s) > 0.05
    again = edgetune("profile", *QUICK, "-o", str(table), "--", "sleep", "0.05")
    assert "has these points already" in again.err
    other = edgetune("profile", *QUICK, "-o", str(table), "--", "sleep", "0.06")
    assert other.code == 2


def test_lines_mark_steps_and_state_the_programs_own_figure(edgetune, tmp_path):
    table = tmp_path / "p.parquet"
    pattern = r"^step \d+ took (?P<value>[0-9.]+)"
    ended = edgetune(
        "profile", *QUICK, "--batch-sizes", "2,4", "--step-pattern", pattern, "-o", str(table), "--", "sh", "-c", STEPS
    )
    assert ended.code == 0, ended.err
    small, large = rows(table)
    assert 0.015 < small.minibatch_s < large.minibatch_s  # a line may be read late
    assert (small.own_value, small.own_unit) == (1.5, "ms")
    assert re.search(r"its own\b", ended.err)
    assert re.search(r"^ +2 .* 1\.5 ms", ended.err, re.MULTILINE)


def test_a_run_that_ends_is_started_again_and_the_gap_is_no_step(edgetune, tmp_path):
    table = tmp_path / "p.parquet"
    words = ("sh", "-c", "sleep 0.5; for i in 1 2 3 4; do sleep 0.02; echo step; done")
    assert edgetune("profile", *QUICK, "--step-pattern", "step", "-o", str(table), "--", *words).code == 0
    (row,) = rows(table)
    assert max(row.times_s) < 0.5


@pytest.mark.parametrize(
    ("start", "workers"), [("fork", 2), pytest.param("spawn", 1, marks=pytest.mark.slow)]
)  # a spawned one loads torch too
def test_a_training_script_is_measured_as_it_is(edgetune, tmp_path, start, workers):
    pytest.importorskip("torch")
    script, table = tmp_path / "train_step.py", tmp_path / "p.parquet"
    script.write_text(TRAIN.replace("START", repr(start)).replace("WORKERS", str(workers)))
    ended = edgetune("profile", str(script), "--batch-sizes", "16", *QUICK, "-o", str(table))
    assert ended.code == 0, ended.err
    (row,) = rows(table)
    assert (row.workload, row.task) == ("train_step", "train")
    assert min(row.times_s) > 0.03  # without the option it is 8, at which a step takes 0.01


@pytest.mark.slow
def test_training_in_a_process_that_the_script_starts_is_followed(edgetune, tmp_path):
    pytest.importorskip("torch")
    script, table = tmp_path / "train_step.py", tmp_path / "p.parquet"
    script.write_text(
        "import torch.multiprocessing as mp\n\ndef train(rank):\n    import time, torch\n"
        "    model = torch.nn.Linear(16, 2)\n    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "    while True:\n        time.sleep(0.02)\n        model(torch.randn(8, 16)).mean().backward()\n"
        "        optimiser.step()\n\nif __name__ == '__main__':\n    mp.spawn(train, nprocs=1)\n"
    )
    ended = edgetune("profile", str(script), *QUICK, "-o", str(table))
    assert ended.code == 0, ended.err
    assert min(rows(table)[0].times_s) > 0.02


def test_step_does_nothing_elsewhere_and_hides_from_other_programs():
    code = "import edgetune, os; edgetune.step(); print(os.environ.get('EDGETUNE_STEP_FD'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "None\n"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), ("nosuchprogram",)),
        ((), ("sh", "-c", "echo boom >&2; exit 7")),
        ((), ("sh", "-c", "kill -SEGV $$")),
        ((), ("sh", "-c", "(setsid sleep 300 &) ; exit 0")),
        (("--step-pattern", "s"), ("sh", "-c", "(while sleep 0.05; do echo t; done) & echo s; echo s")),
        (("--point-timeout", "1s"), ("sleep", "300")),
        (("--step-pattern", "s"), ("sh", "-c", "for i in 1 2 3; do echo s; sleep 0.02; done; exit 3")),
        (("--step-pattern", "x*"), ("true",)),
        ((), ("echo", "{bach}")),
    ],
)
def test_a_command_that_cannot_be_measured_is_refused(edgetune, tmp_path, options, words):
    ended = edgetune("profile", *QUICK, *options, "-o", str(tmp_path / "p.parquet"), "--", *words)
    assert_two_lines(ended, 2)


def test_output_that_arrives_in_bunches_is_refused(edgetune, tmp_path):
    code = "import time\nwhile True:\n    time.sleep(0.2)\n    print('step\\n' * 20, end='', flush=True)\n"
    words = (sys.executable, "-c", code)
    ended = edgetune("profile", *QUICK, "--step-pattern", "step", "-o", str(tmp_path / "p"), "--force", "--", *words)
    assert_two_lines(ended, 2)


DAEMON = "import os, signal\nif os.fork():\n    os._exit(0)\nos.setsid()\nif not os.fork():\n    signal.pause()\n"


@pytest.mark.parametrize(
    "code",
    [
        "import os; os._exit(0)",
        "import edgetune; edgetune.step(); raise ValueError('boom')",
        DAEMON,
        "while True:\n  try: __import__('time').sleep(9)\n  except KeyboardInterrupt: pass",
    ],
)
def test_a_script_that_cannot_be_measured_is_refused(edgetune, tmp_path, code):
    script = tmp_path / "train_step.py"
    script.write_text(code)
    ended = edgetune("profile", str(script), *QUICK, "--point-timeout", "3s", "-o", str(tmp_path / "p.parquet"))
    assert_two_lines(ended, 2)


def test_points_before_a_failure_are_kept_and_only_the_failed_is_tried_again(edgetune, tmp_path):
    script, table, ran = tmp_path / "train_step.py", tmp_path / "p.parquet", tmp_path / "ran"
    script.write_text(
        f"import sys, time, edgetune\nopen({str(ran)!r}, 'a').write(sys.argv[2])\n"
        "while True:\n    time.sleep(0.005)\n    edgetune.step()\n    assert sys.argv[2] != '2', 'too large'\n"
    )
    command = ("profile", str(script), "--batch-option=--b", "--batch-sizes", "1,2", *QUICK, "-o", str(table))
    for runs in ("12", "122"):
        ended = edgetune(*command)
        assert ended.code == 5, ended.err
        assert {row.batch_size: row.status for row in rows(table)} == {1: "ok", 2: "failed"}
        assert "AssertionError: too large" in rows(table)[-1].reason
        assert ran.read_text(encoding="utf-8") == runs


def test_a_process_that_ends_a_moment_after_its_command_is_none_left(edgetune, tmp_path):
    words = ("sh", "-c", f"(setsid sleep 0.3 &) ; exit 0 # {'word ' * 99}")  # too long for the name of a file
    assert edgetune("profile", *QUICK, "-o", str(tmp_path / "p.parquet"), "--", *words).code == 0


def test_a_dry_run_runs_nothing(edgetune, tmp_path):
    mark = tmp_path / "ran"
    ended = edgetune("profile", *QUICK, "--dry-run", "-o", str(tmp_path / "p.parquet"), "--", "touch", str(mark))
    assert ended.code == 0, ended.err
    assert not mark.exists()


STUBBORN = ("sh", "-c", "trap '' INT TERM; (setsid sleep 321 &) ; while :; do sleep 322; done")
STUBBORN_SCRIPT = """
import signal, subprocess, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
workers = [subprocess.Popen(["sleep", "32"], start_new_session=apart) for apart in (True, False)]
while True:
    try:
        time.sleep(9)
    except KeyboardInterrupt:
        pass
"""


def descendants(process):
    return psutil.Process(process.pid).children(recursive=True)


ENDLESS = [
    ((), STUBBORN),
    (("--step-pattern", "never"), STUBBORN),
    (("--steps",), (sys.executable, "-c", STUBBORN_SCRIPT)),
]
"""Options and commands: whole runs, lines, and a script."""


@pytest.mark.parametrize(
    "number", [pytest.param(signal.SIGINT, marks=pytest.mark.slow), signal.SIGTERM, signal.SIGKILL]
)
def test_nothing_is_left_whatever_ends_edgetune(tmp_path, number):
    """Side by side: each takes seconds to end what does not end by itself."""
    running = []
    try:
        for place, (options, words) in enumerate(ENDLESS):
            command = ("profile", *QUICK, *options, "-o", str(tmp_path / f"{place}.parquet"), "--", *words)
            line = [sys.executable, "-m", "edgetune", *command]
            running.append(subprocess.Popen(line, stderr=subprocess.DEVNULL, start_new_session=True))
        for each in running:
            _wait(lambda each=each: sum(map(_sleeps, descendants(each))) >= 2)
        started = [child for each in running for child in descendants(each)]
        for each in running:
            os.kill(each.pid, number)
        for each in running:
            each.wait(timeout=60)
    finally:
        for each in running:
            each.kill()
            each.wait(timeout=60)
    _, left = psutil.wait_procs(started, 10)
    assert not left


def _sleeps(process):
    try:
        return process.name() == "sleep"
    except psutil.Error:  # it has ended
        return False


def _wait(what):
    give_up_s = time.monotonic() + 30
    while not what():
        assert time.monotonic() < give_up_s
        time.sleep(0.05)


def test_on_a_board_every_mode_gets_its_words_and_a_killed_sweep_resumes(edgetune, tmp_path):
    board = Board(tmp_path)
    record = tmp_path / "modes.txt"
    on = ("--device", "jetson", "--root", str(board.root), "--modes", "gpu_mhz=306:612:2", "--minibatches", "10")
    words = ("sh", "-c", f"echo {{gpu_mhz}} >> {record}; sleep 0.02")
    ended = edgetune("profile", *on, "-o", str(board.table), "--", *words)
    assert ended.code == 0, ended.err
    assert ended.lines[0].startswith("SIMULATED: ")  # a fake board
    found = rows(board.table)
    assert len(found) == 2
    assert sorted(set(map(float, record.read_text(encoding="utf-8").split()))) == sorted(row.gpu_mhz for row in found)
    assert board.restored()
    size = record.stat().st_size
    assert "has these points already" in edgetune("profile", *on, "-o", str(board.table), "--", *words).err
    assert record.stat().st_size == size


def test_search_measures_a_command_with_and_without_a_batch(edgetune, few_minibatches, tmp_path):
    plan = tmp_path / "plan.yaml"
    ended = edgetune("search", "--device", "host", "--json", "-o", str(plan), "--", "sleep", "0.02")
    assert ended.code == 0, ended.err
    answer = json.loads(ended.out)
    assert answer["configuration"]["batch_size"] == 1
    assert answer["measured"]["minibatch_s"] > 0.02
    many = ("search", "-d", "host", "-b", "1,9", "-o", str(plan), "--force", "--", "sleep", "0.0{batch}")
    assert edgetune(*many).code == 0


# Commands once, in the mode that is

MEASURE = ("measure", "--device", "host", "--runs", "10")


def test_one_command_after_two_dashes(edgetune):
    ended = edgetune("measure", "--device", "host", "--runs", "40", "--", "sleep", "0.02")
    assert ended.code == 0, ended.err
    name, columns, figures, *_ = ended.out.splitlines()
    assert name.startswith("sleep 0.02 ")
    assert columns.split()[:2] == ["minibatch", "ci95"]
    assert re.match(r" *[\d.]+ ms +\+-[\d.]+% .* 40\b", figures)


def test_several_are_measured_and_kept(edgetune, tmp_path):
    table = tmp_path / "m.parquet"
    ended = edgetune(
        "measure", "--device", "host", "--runs", "40", "sleep 0.01", "sleep 0.05", "sh -c 'exit 3'", "-o", str(table)
    )
    assert ended.code == 5
    assert ended.out.count("note: no power") <= 1
    assert [(row.workload, row.status) for row in io.read_profile(str(table)).rows] == [
        ("sleep 0.01", "ok"), ("sleep 0.05", "ok"), ("sh -c 'exit 3'", "failed")
    ]  # fmt: skip


def test_a_board_keeps_its_mode_and_gives_power(edgetune, tmp_path):
    board = Board(tmp_path)
    ended = edgetune("measure", "--device", "jetson", "--root", str(board.root), "--runs", "20", "--", "sleep", "0.05")
    assert ended.code == 0, ended.err
    assert ended.err.startswith("SIMULATED: ")
    assert board.kernel.writes == []
    assert board.as_found


@pytest.mark.parametrize("words", ["cat < in", "echo a;true"])
def test_an_operator_that_no_shell_reads_is_refused(edgetune, words):
    ended = edgetune(*MEASURE, words)
    assert_two_lines(ended, 2)


@pytest.mark.parametrize("words", [(), ("nosuchprogram",), ("--device", "twin:orin-agx", "true")])
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
        *MEASURE,
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

"""``edgetune device`` on a board that lies below a folder: listed, shown, set, used, put back, whoever is killed."""

import contextlib
import errno
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress

import psutil
import pytest
from command_line import Ended, assert_two_lines

from edgetune.devices.guardian.journal import Journals
from edgetune.testing.fake_board import make_board
from edgetune.testing.fake_jetson import open_fake
from edgetune.testing.fake_kernel import FakeKernel, Killed
from fakes.guardian_calls import apply_line, guard, request_line

PATIENCE_S = 60.0
SLOWEST = "cpu_cores=1,cpu_mhz=102,gpu_mhz=76.8"


class Board:
    """A fake board, its settings before anything was done, and the words that name it to the command."""

    def __init__(self, root, board="jetson-nano", **options):
        self.kernel = make_board(root, board, **options)
        self.root = root
        self.before = self.kernel.settings()
        self.named = ("jetson", "--root", str(root))

    @property
    def as_found(self):
        return self.kernel.settings() == self.before

    @property
    def journals(self):
        return sorted(path.name for path in (self.root / "var/lib/edgetune").glob("*.json"))

    def wait_until_as_found(self):
        give_up_s = time.monotonic() + PATIENCE_S
        while not self.as_found or self.journals:
            assert time.monotonic() < give_up_s, self.journals
            time.sleep(0.02)


@pytest.fixture
def board(tmp_path):
    """A Nano whose memory clock is out of reach: nothing then waits for it to settle."""
    return Board(tmp_path / "nano", debugfs="unmounted")


@pytest.fixture
def orin(tmp_path):
    return Board(tmp_path / "orin", "jetson-agx-orin-64gb", kernel="5.10")


@pytest.fixture
def running(board):
    """Run ``device set ... -- COMMAND`` as a process; returns it once the command has printed a word."""
    started = []

    def start(*command, new_group=False):
        process = subprocess.Popen(
            [sys.executable, "-m", "edgetune", "device", "set", *board.named, SLOWEST, "--", *command],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
            start_new_session=new_group,
        )  # fmt: skip
        started.append(process)
        assert process.stdout.readline() == "ready\n", process.communicate()
        started.extend(psutil.Process(process.pid).children())
        assert not board.as_found
        return process

    yield start
    for process in started:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    for process in started[:1]:
        process.communicate()


def script(*lines):
    return "sh", "-c", "\n".join(lines)


WAITING = script("echo ready", "exec sleep 60")


def kill_with_guardian(process):
    """Kill the command and its guardian at once, and what it ran."""
    family = psutil.Process(process.pid).children()
    assert any("fake_jetson" in " ".join(child.cmdline()) for child in family)
    for child in family:
        child.suspend()  # neither may hear of the other's end
    process.kill()
    for child in family:
        child.kill()
    process.communicate()


# What a board is and offers.


def test_a_board_below_a_folder_is_shown_as_the_fake_it_is(edgetune, orin):
    ended = edgetune("device", "show", *orin.named)
    assert ended.code == 0, ended.err
    lines = ended.out.splitlines()
    assert lines[0].startswith("jetson: NVIDIA Jetson AGX Orin Developer Kit (a fake kernel: ")
    assert lines[1].startswith("SIMULATED: ")
    counts = dict(re.findall(r"^(\w+_\w+) +(\d+)  ", ended.out, re.MULTILINE))
    assert counts == {"cpu_cores": "12", "cpu_mhz": "29", "gpu_mhz": "13", "mem_mhz": "4"}
    assert re.search(r"^MODE_30W +not now: needs a reboot: ", ended.out, re.MULTILINE)
    assert edgetune("device", "--root", str(orin.root)).out == ended.out
    assert edgetune("device", *orin.named).out == ended.out
    facts = json.loads(edgetune("device", "show", *orin.named, "--json").out)
    assert facts["simulated"] is True
    assert facts["conditions"]["made_up"]
    assert len(facts["modes"]["knobs"]["cpu_mhz"]) == 29
    assert orin.as_found


@pytest.mark.parametrize("words", ["show", "set MAXN -- true"])
def test_a_folder_that_is_missing_or_is_no_board_is_two_lines(edgetune, tmp_path, words):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    command, *rest = words.split()
    for name, code in (("none", 2), ("file", 2), ("empty", 4)):
        where = str(tmp_path / name)
        ended = edgetune("device", command, "jetson", "--root", where, *rest)
        assert_two_lines(ended, code)


# Setting, and putting back.


def test_a_mode_stays_until_it_is_put_back(edgetune, board):
    ended = edgetune("device", "set", *board.named, SLOWEST)
    assert (ended.code, ended.out) == (0, "set 1 core, CPU 102 MHz, GPU 76.8 MHz\n")
    assert "SIMULATED" in ended.err
    assert not board.as_found
    assert board.journals == ["jetson.kept.json"]
    ended = edgetune("device", "restore", *board.named)
    assert ended.code == 0
    assert re.fullmatch(r"a mode was left in place on [\d-]+ [\d:]+: jetson was put back as it was found\n", ended.out)
    assert board.as_found
    assert board.journals == []


def test_a_dry_run_sets_nothing(edgetune, board, tmp_path):
    command = ("--", "touch", str(tmp_path / "made"))
    ended = edgetune("device", "set", *board.named, SLOWEST, "--dry-run", *command)
    assert (ended.code, ended.out) == (0, "would set 1 core, CPU 102 MHz, GPU 76.8 MHz\n")
    told = json.loads(edgetune("device", "set", *board.named, SLOWEST, "--dry-run", "--json").out)
    assert told["would_set"]["cpu_mhz"] == 102.0
    assert not (tmp_path / "made").exists()
    assert board.kernel.writes == []


# A mode for one command.


@pytest.mark.parametrize("code", [0, 7])
def test_a_command_runs_in_the_mode_and_its_exit_code_is_this_ones(edgetune, board, code):
    limit = f"{board.root}/sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq"
    ended = edgetune("device", "set", *board.named, SLOWEST, "--", "sh", "-c", f"cat {limit}; exit {code}")
    assert (ended.code, ended.out.strip()) == (code, "102000")
    assert board.as_found
    assert board.journals == []


def test_options_of_the_command_are_its_own(edgetune, board):
    ended = edgetune("device", "set", *board.named, SLOWEST, "--quiet", "--", "echo", "--json", "--", "-n")
    assert (ended.code, ended.out) == (0, "--json -- -n\n")


def test_a_command_that_dies_of_a_signal_is_told_as_a_shell_does(edgetune, board):
    assert edgetune("device", "set", *board.named, SLOWEST, "--", *script("kill -KILL $$")).code == 128 + 9
    assert board.as_found


def test_a_command_that_cannot_be_started_is_two_lines_and_the_board_is_put_back(edgetune, board, tmp_path):
    (tmp_path / "text").touch()
    for command in ("no-such-command", str(tmp_path / "text")):
        ended = edgetune("device", "set", *board.named, SLOWEST, "--quiet", "--", command)
        lines = [line for line in ended.lines if "SIMULATED" not in line]
        assert_two_lines(Ended(ended.code, ended.out, "\n".join(lines)), 2)
        assert command in lines[0]
        assert board.as_found
        assert board.journals == []


def test_asked_to_end_it_ends_the_command_and_puts_the_board_back(board, running, tmp_path):
    end = f"echo asked > {tmp_path / 'end'}; exit 0"
    process = running(*script(f"trap '{end}' TERM", "echo ready", "while :; do sleep 0.05; done"))
    process.terminate()
    assert process.wait(PATIENCE_S) == 143
    assert board.as_found
    assert board.journals == []
    assert (tmp_path / "end").read_text(encoding="utf-8") == "asked\n"


STARTING = """
import os, signal, subprocess, sys
from edgetune.cli.main import main
from edgetune.devices.guardian import conversation
real = subprocess.Popen
class Popen(real):
    def __init__(self, command, *arguments, **named):
        super().__init__(command, *arguments, **named)
        if command[0] == "sleep":
            print(self.pid, flush=True)
            os.kill(os.getpid(), signal.SIGTERM)
            os.getpid()  # where Python hears it
subprocess.Popen = Popen
main(sys.argv[1:])
"""


def test_a_signal_while_the_command_is_started_ends_it_all_the_same(board):
    asked = ["device", "set", *board.named, SLOWEST, "--", "sleep", "60"]
    done = subprocess.run(
        [sys.executable, "-c", STARTING, *asked], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 143
    assert not psutil.pid_exists(int(done.stdout))
    assert board.as_found


def test_ctrl_c_is_for_the_command_to_answer(board, running):
    saving = "trap 'sleep 0.6; echo saved; exit 3' INT"
    process = running(*script(saving, "echo ready", "while :; do sleep 0.05; done"), new_group=True)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(PATIENCE_S) == 3
    assert process.stdout.read() == "saved\n"
    assert board.as_found
    assert board.journals == []


# Killed, and two at once.


def test_killed_it_is_put_back_by_its_guardian(board, running):
    process = running(*WAITING)
    process.kill()
    board.wait_until_as_found()


def test_killed_with_its_guardian_restore_puts_it_back(edgetune, board, running):
    kill_with_guardian(running(*WAITING))
    assert not board.as_found
    assert board.journals == ["jetson.run.json"]
    ended = edgetune("device", "restore", *board.named)
    assert ended.code == 0
    assert board.as_found
    assert edgetune("device", "restore", *board.named).out == "jetson: nothing to put back\n"


def test_a_second_edgetune_names_the_holder_of_the_board_and_the_time(edgetune, board, running):
    process = running(*WAITING)
    for command, *words in (("set", "cpu_cores=2"), ("set", "MAXN", "--", "true"), ("restore",)):
        ended = edgetune("device", command, *board.named, *words)
        assert_two_lines(ended, 4)
        told = r"the board is in use by another edgetune: process (\d+) \((.*)\), since \d\d:\d\d:\d\d"
        pid, line = re.search(told, ended.lines[0]).groups()
        assert int(pid) == process.pid
        assert "device set jetson" in line
    assert edgetune("device", "show", *board.named).code == 0
    (line,) = edgetune("device", "watch", *board.named, "--count", "1").out.splitlines()
    assert json.loads(line)["mode"]["cpu_cores"] == 1
    assert not board.as_found


# Exit code 6 is no dead end: each situation in which it comes about, and its hint followed to the letter

SLOW = apply_line(1, cpu_cores=2, gpu_mhz=76.8)
GPU = "sys/class/devfreq/57000000.gpu"
GONE = "sys/class/devfreq/57000000.gv99/max_freq"


class Left:
    """A fake Nano on which a run was killed, or a mode was kept."""

    def __init__(self, root, state):
        self.kernel = make_board(root, "jetson-nano", debugfs="unmounted")
        self.before = self.kernel.settings()
        self.named = ("jetson", "--root", str(root))
        self.journals = Journals("jetson", root)
        self.state = state
        if state == "kept":
            assert guard(open_fake(root), root, SLOW, request_line(2, "keep")).code == 0
        else:
            self.kernel.fail_at(4, "kill-after")
            with pytest.raises(Killed):
                guard(open_fake(root), root, SLOW)
        assert self.kernel.settings() != self.before

    @property
    def path(self):
        return self.journals.path(self.state)

    def rewrite(self, **fields):
        self.journals.write(self.journals.read(self.state), **fields)

    def add(self, **snapshot):
        self.rewrite(snapshot={**self.journals.read(self.state).snapshot, **snapshot})


def cut(left):
    left.path.write_bytes(left.path.read_bytes()[:200])


def empty(left):
    left.path.write_bytes(b"")


def of_another_version(left):
    left.rewrite(version=99)


def of_another_device(left):
    text = json.loads(left.path.read_text(encoding="utf-8"))
    left.rewrite()
    left.path.write_text(json.dumps({**text, "device": "host"}))


def names_a_file_that_went_away(left):
    left.add(**{GONE: "921600000"})


def holds_a_value_that_the_kernel_refuses(left):
    left.add(**{f"{GPU}/max_freq": "0"})


def refused_for_a_while(left):
    left.kernel.deny_writing(f"{GPU}/max_freq", errno.EBUSY)


def mode_unknown(left):
    (left.kernel.root / "var/lib/nvpmodel/status").unlink()


SITUATIONS = [
    cut,
    empty,
    of_another_version,
    of_another_device,
    names_a_file_that_went_away,
    holds_a_value_that_the_kernel_refuses,
    refused_for_a_while,
    mode_unknown,
]


def follow(hint, left, edgetune):
    """Do what a hint says, in its order, until a command of edgetune ends with 0; return the last such."""
    ended = None
    for step in re.split(r";|, then:?|, which|, or", hint):
        if "sudo nvpmodel -m NUMBER" in step:
            assert FakeKernel(left.kernel.root, user="root").nvpmodel("0") == 0
        if "restart the machine" in step:
            left.kernel.power_cut()
        if command := re.search(r"edgetune (device restore jetson(?: --forget)?)", step):
            ended = edgetune(*shlex.split(command[1]), *left.named[1:])
            if ended.code == 0:
                return ended
    return ended


@pytest.mark.parametrize(("situation", "state"), [*((situation, "run") for situation in SITUATIONS), (cut, "kept")])
def test_the_hint_of_every_board_that_is_not_restored_leads_to_one_that_is(edgetune, tmp_path, situation, state):
    left = Left(tmp_path / "root", state)
    situation(left)
    refused = edgetune("device", "restore", *left.named)
    assert refused.code == 6
    error, hint = refused.err.splitlines()
    assert error.startswith("error: ")
    shutil.rmtree(left.kernel.root / ".fake-kernel/denied", ignore_errors=True)
    ended = follow(hint.removeprefix("hint: "), left, edgetune)
    assert (ended.code, ended.err) == (0, "")
    assert not left.path.exists()
    if situation is holds_a_value_that_the_kernel_refuses:  # given up; the hint's last word is the restart
        left.kernel.power_cut()
    assert left.kernel.settings() == left.before


@pytest.fixture
def stopped(tmp_path):
    """A board in a mode that a process holds, which was stopped: it hears neither Ctrl-C nor SIGTERM."""
    kernel = make_board(tmp_path / "root", "jetson-nano", debugfs="unmounted")
    before = kernel.settings()
    words = ["device", "set", "jetson", "gpu_mhz=76.8", "--root", str(kernel.root), "--", "sleep", "60"]
    process = subprocess.Popen([sys.executable, "-m", "edgetune", *words], start_new_session=True)
    try:
        until_s = time.monotonic() + 60
        while kernel.settings() == before and time.monotonic() < until_s:
            time.sleep(0.05)
        assert kernel.settings() != before
        os.killpg(process.pid, signal.SIGSTOP)
        yield kernel, before, process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_of_a_stopped_holder_the_hint_says_how_it_ends_and_the_board_is_put_back(edgetune, stopped):
    kernel, before, process = stopped
    named = ("device", "restore", "jetson", "--root", str(kernel.root))
    refused = edgetune(*named)
    assert refused.code == 4
    assert refused.lines[-1].endswith(f"or end it: kill -9 {process.pid}")
    process.kill()
    process.wait()
    assert edgetune(*named).code == 0
    assert kernel.settings() == before

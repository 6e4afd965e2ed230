"""``edgetune profile`` and ``search`` on a fake board: a table, and the board as it was, whoever is killed when."""

import contextlib
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
import time

import psutil
import pytest
import yaml
from command_line import assert_two_lines

from edgetune.artifacts import io
from edgetune.artifacts.mode import Mode
from edgetune.testing.fake_board import make_board
from fakes.journals import entries_in

PATIENCE_S = 60.0
CLOCKS = (306.0, 408.0, 510.0)
SWEEP = ("--modes", "gpu_mhz=306:510", "--minibatches", "10")
NETWORK = "import time\ndef make(batch_size):\n    return lambda: time.sleep(0.002)\n"


class Board:
    """A fake Orin Nano, its settings before anything was done, a network beside it, and the words that profile it.

    Its memory clock is out of reach, so that nothing waits for it to settle, and its power is renewed every 0.1 s.
    """

    def __init__(self, folder, **options):
        self.root, self.journal = folder / "board", folder / ".p.parquet.journal"
        self.table = folder / "p.parquet"
        self.kernel = make_board(self.root, "jetson-orin-nano-8gb", kernel="5.15", debugfs="unmounted", **options)
        for path in self.kernel.glob("sys/class/hwmon/hwmon*/update_interval"):
            self.kernel.put(path, 100)
        self.kernel.forget_writes()
        self.before = self.kernel.settings()
        (folder / "net.py").write_text(NETWORK)
        self.on = (str(folder / "net.py"), "--task", "train", "--device", "jetson", "--root", str(self.root))
        self.profile = ("profile", *self.on, "-o", str(self.table))

    @property
    def as_found(self):
        return self.kernel.settings() == self.before

    @property
    def done(self):
        """Points in the journal of the sweep."""
        return [value["point"]["mode"]["gpu_mhz"] for value in entries_in(self.journal)]

    def wait_for(self, what):
        give_up_s = time.monotonic() + PATIENCE_S
        while not what():
            assert time.monotonic() < give_up_s
            time.sleep(0.02)

    def restored(self):
        return self.as_found and not list((self.root / "var/lib/edgetune").glob("*.json"))


@pytest.fixture
def board(tmp_path):
    return Board(tmp_path)


@pytest.fixture
def running(board):
    """Run a sweep of three points as a process; returns it while the second one is measured."""
    started = []

    def start():
        command = [sys.executable, "-m", "edgetune", *board.profile, *SWEEP]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        started.append(psutil.Process(process.pid))
        board.wait_for(lambda: len(board.done) == 1 or process.poll() is not None)
        assert process.poll() is None, process.communicate()
        assert not board.as_found
        started.extend(started[0].children(recursive=True))
        return process

    yield start
    for process in started:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def guardian_of(process):
    return next(child for child in psutil.Process(process.pid).children() if "fake_jetson" in " ".join(child.cmdline()))


def kill_with_guardian(process):
    guardian = guardian_of(process)
    guardian.suspend()  # it may not hear of the other's end
    process.kill()
    guardian.kill()
    process.communicate()
    return guardian


# One sweep.


def test_a_board_becomes_a_table_that_says_it_is_a_fake_and_the_board_is_put_back(edgetune, board):
    ended = edgetune(*board.profile, "--modes", "15w", "--minibatches", "10", "--batch-sizes", "1,2")
    assert ended.code == 0, ended.err
    assert ended.lines[0].startswith("SIMULATED: ")
    assert board.restored()
    profile = io.read_profile(str(board.table))
    assert [(row.batch_size, row.status, row.mode) for row in profile.rows] == [
        (size, "ok", Mode(cpu_cores=6, cpu_mhz=1510.4, gpu_mhz=624.75)) for size in (1, 2)
    ]
    assert all(row.power_source == "ina3221:VDD_IN" and row.power_w > 0 for row in profile.rows)
    assert profile.header.conditions["simulated"] is True
    shown = edgetune("show", str(board.table)).out
    for fact in ("module: p3767-0003", "jetpack: 6", "l4t: 36.4.3", "kernel: 5.15", "mode: 15W", "caps: {", "fan: {"):
        assert fact in shown


def test_as_found_is_a_request_that_is_known_again(edgetune, board):
    as_found = (*board.profile, "--modes", "as-found", "--minibatches", "10")
    assert edgetune(*as_found).code == 0
    assert board.kernel.writes == []
    assert "has these points already" in edgetune(*as_found).err
    ended = edgetune(*board.profile, "--modes", "gpu_mhz=306", "--minibatches", "11")
    assert_two_lines(ended, 2)
    assert edgetune(*board.profile, "--modes", "gpu_mhz=306", "--minibatches", "10").code == 0
    assert len(io.read_profile(str(board.table)).rows) == 2  # the other mode is added
    assert "has these points already" in edgetune(*as_found).err


# Ended early.


def test_killed_its_guardian_puts_the_board_back_and_the_sweep_resumes(edgetune, board, running):
    process = running()
    process.kill()
    process.communicate()
    board.wait_for(board.restored)
    kept = board.done
    ended = edgetune(*board.profile, *SWEEP)
    assert ended.code == 0, ended.err
    assert f"resuming: {len(kept)} of 3 points are done" in ended.err
    profile = io.read_profile(str(board.table))
    assert [(row.gpu_mhz, row.status) for row in profile.rows] == [(clock, "ok") for clock in CLOCKS]
    assert profile.header.conditions["points_resumed"] == len(kept)
    assert board.restored()
    assert not board.journal.exists()


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow)]
)
def test_asked_to_end_it_puts_the_board_back_first(board, running, number, code):
    process = running()
    process.send_signal(number)
    _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == code
    assert board.restored()
    assert "stopped; what was measured is kept, and the same command resumes" in said
    assert board.done
    assert not board.table.exists()


def test_the_next_run_restores_and_reports_settings_of_a_run_killed_with_its_guardian(edgetune, board, running):
    guardian = kill_with_guardian(running())
    assert not board.as_found
    ended = edgetune(*board.profile, *SWEEP)
    assert ended.code == 0, ended.err
    told = rf"note: an earlier run, process {guardian.pid} of [\d-]+ [\d:]+, was killed: jetson was put back as it was"
    assert len(re.findall(told, ended.err)) == 1
    assert board.restored()
    assert len(io.read_profile(str(board.table)).rows) == 3


def test_when_the_guardian_alone_is_killed_its_point_fails_and_the_sweep_goes_on(board, running):
    process = running()
    guardian_of(process).kill()
    _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode in (0, 5), said
    assert board.restored()
    rows = io.read_profile(str(board.table)).rows
    assert {row.gpu_mhz for row in rows if row.status == "ok"} >= {306.0, 510.0}
    assert all("guardian" in row.reason or "changed" in row.reason for row in rows if row.status != "ok")


def test_a_second_run_names_the_holder_of_the_board_and_the_time(edgetune, board, running, tmp_path):
    process = running()
    for words in (board.profile[:-1], ("search", *board.on, "--batch-sizes", "1", "-o")):
        ended = edgetune(*words, str(tmp_path / "second"), "--modes", "gpu_mhz=408")
        assert_two_lines(ended, 4)
        told = r"the board is in use by another edgetune: process (\d+) \(.*profile.*\), since \d\d:\d\d:\d\d"
        assert int(re.search(told, ended.lines[0]).group(1)) == process.pid
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert [row.status for row in io.read_profile(str(board.table)).rows] == ["ok"] * 3
    assert board.restored()


# A search that measures.


def test_a_live_search_within_a_power_budget_gives_a_plan_and_puts_the_board_back(edgetune, board):
    live = ("search", *board.on, "--batch-sizes", "1", *SWEEP[:2])
    ended = edgetune(*live, "--power-budget", "5W", "--max-points", "2")
    assert ended.code == 0, ended.err
    assert "SIMULATED" in ended.err
    plan = yaml.safe_load(ended.out)
    assert plan["configuration"]["mode"]["gpu_mhz"] in CLOCKS
    assert 0 < plan["measured"]["power_w"] <= 5
    assert plan["conditions"]["simulated"] is True
    assert plan["conditions"]["module"] == "p3767-0003"
    assert board.restored()
    ended = edgetune(*live, "--power-budget", "1W", "--max-points", "1")
    assert ended.code == 3
    assert board.restored()


# Real keys on a real terminal: whatever is typed, the board is as it was found

CTRL_C, CTRL_BACKSLASH, CTRL_Z = b"\x03", b"\x1c", b"\x1a"


class Terminal:
    """A shell with job control on a terminal of its own, which runs a sweep; a line typed continues a stopped one."""

    def __init__(self, board):
        self.board = board
        command = shlex.join([sys.executable, "-m", "edgetune", *board.profile, *SWEEP])
        self.ended = board.root.parent / "ended"
        go_on = "[ $code = 148 ] && { read line; fg; code=$?; }"
        script = f"set -m; {command}; code=$?; {go_on}; echo $code >{self.ended}"
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.execvp("bash", ["bash", "--norc", "--noprofile", "-c", script])
        self.wait_for(lambda: len(board.done) >= 1)
        self.guardian = next(
            child
            for child in psutil.Process(self.pid).children(recursive=True)
            if "fake_jetson" in " ".join(child.cmdline())
        )
        assert not board.as_found

    def drain(self):
        os.set_blocking(self.master, False)
        try:
            while os.read(self.master, 1 << 16):
                pass
        except OSError:  # nothing more now, or nobody there any more
            pass

    def wait_for(self, what):
        give_up_s = time.monotonic() + PATIENCE_S
        while not what():
            assert time.monotonic() < give_up_s
            self.drain()
            time.sleep(0.02)

    def type(self, key):
        os.write(self.master, key)

    def code(self):
        self.wait_for(lambda: self.ended.exists() and self.ended.read_text(encoding="utf-8").strip())
        return int(self.ended.read_text(encoding="utf-8"))


@pytest.fixture
def terminal(tmp_path):
    opened = Terminal(Board(tmp_path))
    yield opened
    for process in (psutil.Process(opened.pid), *psutil.Process(opened.pid).children(recursive=True)):
        process.kill()
    os.waitpid(opened.pid, 0)


@pytest.mark.parametrize(("key", "code"), [(CTRL_C, 130), pytest.param(CTRL_BACKSLASH, 131, marks=pytest.mark.slow)])
def test_a_key_that_ends_the_sweep_puts_the_board_back(terminal, key, code):
    assert os.getsid(terminal.guardian.pid) == terminal.guardian.pid
    assert terminal.guardian.terminal() is None
    terminal.type(key)
    assert terminal.code() == code
    assert terminal.board.restored()


def test_stopped_and_continued_it_goes_on_and_the_guardian_was_never_stopped(terminal):
    main = terminal.guardian.parent()
    terminal.type(CTRL_Z)
    terminal.wait_for(lambda: main.status() == psutil.STATUS_STOPPED)
    assert terminal.guardian.status() != psutil.STATUS_STOPPED
    terminal.type(b"\n")
    assert terminal.code() == 0
    assert terminal.board.restored()


def test_a_terminal_that_is_closed_puts_the_board_back(terminal):
    os.close(terminal.master)
    terminal.master = os.open(os.devnull, os.O_RDONLY)
    terminal.wait_for(terminal.board.restored)

"""Real keys on a real terminal during a sweep of a fake board: whatever is typed, the board is as it was found."""

import os
import pty
import shlex
import sys
import time

import psutil
import pytest
from test_profile_board import SWEEP, Board

PATIENCE_S = 60.0
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

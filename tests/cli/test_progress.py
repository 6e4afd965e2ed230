"""What is said while something long goes on."""

import io
import re
import sys

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import Point
from edgetune.cli import progress
from edgetune.cli.screen import Screen
from edgetune.stages.profiling.point_state import Loading, Sampling


class Terminal(io.StringIO):
    def isatty(self):
        return True


def on_terminal(monkeypatch):
    """Make standard error a terminal of 80 columns; not in a fixture, after which pytest captures it again."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys, "stderr", Terminal())
    return sys.stderr


def lines_of(terminal):
    return [line.strip() for line in re.split(r"\r|\n|\x1b\[[0-9;?]*[A-Za-z]", terminal.getvalue()) if line.strip()]


POINT = Point("net", "infer", 4, Mode(gpu_mhz=600))


def test_a_bar_shows_the_point_that_is_measured_below_it(monkeypatch):
    terminal = on_terminal(monkeypatch)
    screen = Screen()
    with screen.bar("measuring kernels", 3) as advance:
        advance(1, "measuring kernels")
        screen.points(Sampling(POINT, 20, 0.05, (0.04, 0.06), 12.0))
        progress._open[-1].refresh()
    lines = lines_of(terminal)
    assert "1/3" in " ".join(lines)
    assert any(line.startswith("50 ms (40 ms, 60 ms), 20 minibatches, at most 12 s left: net infer") for line in lines)
    screen.point(Loading(POINT))  # without a bar there is no place for it
    assert lines_of(terminal) == lines


def test_without_a_terminal_nothing_is_shown_and_nothing_is_reported(capsys):
    screen = Screen()
    assert screen.points is None
    with screen.bar("measuring", None) as advance, screen.timing("managed", 10.0):
        assert advance is None
    assert capsys.readouterr() == ("", "")


def test_quiet_is_quiet_on_a_terminal_too(monkeypatch):
    terminal = on_terminal(monkeypatch)
    screen = Screen(quiet=True)
    with screen.bar("measuring", 2) as advance, screen.timing("managed", 10.0):
        assert (advance, screen.points) == (None, None)
    assert terminal.getvalue() == ""

"""What is said while something long goes on."""

import io
import re
import sys

import pytest

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.cli import progress
from edgetune.cli.progress import SweepReporter, passed, time_left
from edgetune.cli.screen import Screen
from edgetune.stages.profiling.point_state import Cooling, Loading, Sampling
from edgetune.stages.profiling.sweep import SweepProgress
from edgetune.workflows.reporting import SimulationLabel


@pytest.mark.parametrize(
    ("eta_s", "since_s", "elapsed_s", "text"),
    [
        (None, 0.2, 7.4, "7 s so far"),
        (None, 0.2, 125.0, "2 m 05 s so far"),
        (12.3, 0.0, 1.0, "about 12 s left"),
        (12.3, 10.0, 11.0, "about 2 s left"),
        (12.3, 12.0, 13.0, "longer than expected"),
        (0.0, 3.0, 13.0, ""),
    ],
)
def test_a_forecast_counts_down_and_does_not_lie_when_it_was_wrong(eta_s, since_s, elapsed_s, text):
    assert time_left(eta_s, since_s, elapsed_s) == text


def test_a_wait_for_the_device_to_cool_is_said_once_to_the_curious(capsys):
    teller = SweepReporter(Screen(verbose=True), SimulationLabel(False, Screen()))
    teller.report(SweepProgress(0, 2, 0))
    for now_c in (61.2, 55.0):
        teller.report(SweepProgress(0, 2, 0, state=Cooling(now_c, 50.0)))
    teller.report(SweepProgress(1, 2, 0, 3.0, ProfileRow("net", "infer", 1, 0.1)))
    teller.report(SweepProgress(1, 2, 0, 3.0, state=Cooling(None, 50.0)))
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "cooling: 61 C, to 50 C"
    assert said[1].startswith("1 of 2: ")
    assert said[2] == "cooling: temperature unknown, to 50 C"
    assert len(said) == 3


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


@pytest.mark.parametrize(
    ("passed_s", "duration_s", "text"),
    [(7.4, 60.0, "7 s of 1 m 00 s"), (61.0, 60.0, "1 m 00 s have passed; ending"), (7.4, None, "7 s so far")],
)
def test_a_known_time_is_said_with_what_has_passed(passed_s, duration_s, text):
    assert passed(passed_s, duration_s) == text

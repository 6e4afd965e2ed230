"""What is said while something long goes on."""

import pytest

from edgetune.artifacts.profile import ProfileRow
from edgetune.cli.progress import SweepReporter, time_left
from edgetune.cli.screen import Screen
from edgetune.stages.profiling.point_state import Cooling
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

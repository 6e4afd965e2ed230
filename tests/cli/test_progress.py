"""What is said while something long goes on."""

import pytest

from edgetune.cli.progress import time_left


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

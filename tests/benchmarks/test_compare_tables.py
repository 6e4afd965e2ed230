"""A part of the benchmark: tables alike are seldom called different, and a shift of 3 % is found."""

from compare_tables import shares, usual


def test_the_verdict_is_calibrated_and_finds_three_percent():
    alike, found, _ = shares(200, 0.03, usual(7), seed=7)
    assert alike <= 0.05
    assert found >= 0.9

"""Changes of rate: silent at a steady one, quick at a step, and right about the new one."""

import numpy as np
import pytest

from edgetune.stages.interleave.rates import NS, RateTracker


def poisson_ns(rate_per_s, duration_s, seed, begin_s=0.0):
    rng = np.random.default_rng(seed)
    gaps = rng.exponential(1 / rate_per_s, int(rate_per_s * duration_s * 1.2) + 20)
    times = begin_s + np.cumsum(gaps)
    return [round(t * NS) for t in times[times < begin_s + duration_s]]


def alarms(tracker, arrivals_ns):
    found = []
    for at_ns in arrivals_ns:
        tracker.arrived(at_ns)
        rate = tracker.changed(at_ns)
        if rate is not None:
            found.append((at_ns / NS, rate))
    return found


@pytest.mark.parametrize("seed", range(4))
def test_a_steady_rate_raises_no_alarm_in_an_hour(seed):
    assert alarms(RateTracker(60.0, 0), poisson_ns(60.0, 3600.0, seed)) == []


@pytest.mark.parametrize(("new_per_s", "within_s"), [(120.0, 4.0), (30.0, 12.0), (80.0, 30.0)])
@pytest.mark.parametrize("seed", range(5))
def test_a_step_is_detected_soon_with_about_the_right_rate(new_per_s, within_s, seed):
    before, after = poisson_ns(60.0, 100.0, seed), poisson_ns(new_per_s, 60.0, seed + 50, begin_s=100.0)
    found = alarms(RateTracker(60.0, 0), before + after)
    (at_s, _), *_ = found
    assert 100.0 < at_s < 100.0 + within_s
    assert found[-1][1] == pytest.approx(new_per_s, rel=0.25)
    assert len(found) <= 3


def test_regular_requests_are_distinguished_without_a_false_alarm():
    arrivals = [round(k * NS / 60) for k in range(1, 6001)]
    after = [arrivals[-1] + round(k * NS / 90) for k in range(1, 901)]
    tracker = RateTracker(60.0, 0)
    assert alarms(tracker, arrivals) == []
    (at_s, rate), *rest = alarms(tracker, after)
    assert at_s < 103.0
    assert rate == pytest.approx(90.0, rel=0.05)
    assert rest == []


def test_silence_is_evidence_that_the_rate_fell():
    tracker = RateTracker(60.0, 0)
    assert alarms(tracker, [round(k * NS / 60) for k in range(1, 601)]) == []
    assert tracker.changed(round(10.3 * NS)) is None
    rate = tracker.changed(12 * NS)
    assert rate is not None
    assert rate <= 2.0
    assert tracker.rate_per_s == rate


def test_small_changes_are_left_to_the_head_room():
    found = alarms(RateTracker(60.0, 0), [round(k * NS / 63) for k in range(1, 20_000)])
    assert found == []

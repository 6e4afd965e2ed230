"""Power over a window against waveforms whose energy is known in closed form."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetune.artifacts.profile import ProfileRow
from edgetune.devices.capabilities import PowerReading
from edgetune.stages.profiling.energy import find_transient, power_figures, power_trace, token_energies
from edgetune.testing.fake_jetson import FakeClock
from fakes.device import FakePower

S = 1_000_000_000


def readings_of(energy_j, seconds, refresh_s=0.1):
    clock = FakeClock()
    with FakePower(clock, energy_j, refresh_s=refresh_s).record() as recording:
        clock.sleep_s(seconds)
    return recording.readings


def test_sine_over_whole_periods_is_its_mean():
    # P(t) = 10 + 5 sin(2 pi t), so E(t) = 10 t + 5 (1 - cos(2 pi t)) / (2 pi).
    def energy_j(t):
        return 10 * t + 5 * (1 - math.cos(2 * math.pi * t)) / (2 * math.pi)

    figures = power_figures(readings_of(energy_j, 3), start_ns=0, end_ns=3 * S, refresh_s=0.1)
    assert figures.power_w == pytest.approx(10.0)


def test_settling_is_left_out():
    # 2 W for the first second, 20 W afterwards.
    figures = power_figures(
        readings_of(lambda t: 2 * min(t, 1) + 20 * max(t - 1, 0), 3), start_ns=S, end_ns=3 * S, refresh_s=0.1
    )
    assert figures.power_w == pytest.approx(20.0)
    assert figures.samples == 20


def test_readings_that_straddle_the_window_do_not_count():
    # The step is at 1 s; the window starts in the middle of the interval from 1.0 to 1.1 s.
    figures = power_figures(
        readings_of(lambda t: 20 * max(t - 1, 0), 3), start_ns=int(1.05 * S), end_ns=int(2.95 * S), refresh_s=0.1
    )
    assert figures.samples == 18
    assert figures.power_w == pytest.approx(20.0)


def test_reading_after_a_gap_covers_its_own_interval_only():
    times_s = [0.1, 0.2, 0.3, 0.4, 2.0]
    readings = [PowerReading(round(t * S), p) for t, p in zip(times_s, [10.0] * 4 + [30.0], strict=True)]
    figures = power_figures(readings, start_ns=0, end_ns=2 * S, refresh_s=0.1)
    assert figures.power_w == pytest.approx((4 * 10 + 30) / 5)


def a_tenth_apart(power_w, origin_ns=0):
    return [PowerReading(origin_ns + (i + 1) * S // 10, p) for i, p in enumerate(power_w)]


def figures_of(power_w, origin_ns=0):
    end_ns = origin_ns + len(power_w) * S // 10
    return power_figures(a_tenth_apart(power_w, origin_ns), start_ns=origin_ns, end_ns=end_ns, refresh_s=0.1)


@given(st.lists(st.floats(0.1, 500), min_size=10, max_size=50), st.integers(0, 10**18))
def test_figures_are_those_of_the_readings_that_count_wherever_the_clock_started(power_w, origin_ns):
    figures = figures_of(power_w, origin_ns)
    counted = power_w[len(power_w) - figures.samples :]
    assert len(counted) >= len(power_w) // 2
    assert figures.power_w == pytest.approx(sum(counted) / len(counted))
    assert figures.peak_w == max(counted)
    assert figures.from_ns == origin_ns + (len(power_w) - len(counted)) * S // 10


def test_power_on_its_way_is_left_out():
    figures = figures_of([12.0, 17.0, 19.5, *[20.0] * 7])
    assert (figures.power_w, figures.peak_w, figures.samples) == (20.0, 20.0, 7)
    assert figures.settled
    assert figures.from_ns == 3 * S // 10


def test_readings_that_count_can_be_told_from_the_trace_alone():
    readings = a_tenth_apart([5.0, 12.0, 17.0, *[20.0, 20.4] * 5, 3.0])
    figures = power_figures(readings, start_ns=S // 10, end_ns=13 * S // 10, refresh_s=0.1)
    after = [sample for sample in power_trace(readings, 0) if sample.time_s > figures.from_ns / 1e9]
    counted = after[: figures.samples]
    assert figures.power_w == pytest.approx(sum(sample.power_w for sample in counted) / len(counted))
    assert [sample.power_w for sample in counted] == [20.0, 20.4] * 5


def test_power_falling_to_a_cap_is_a_transient_too():
    figures = figures_of([40.0, 33.0, 30.5, *[30.0, 30.1] * 5])
    assert figures.power_w == pytest.approx(30.05)
    assert figures.peak_w == 30.1


def test_noise_below_what_boards_repeat_to_is_no_transient():
    power_w = [20.3, 19.8, 20.1, 19.9, 20.0, 20.1, 19.8]
    assert find_transient(power_w).length == 0
    assert figures_of(power_w).samples == 7


def test_drift_too_slow_to_wait_for_is_no_transient():
    """Leakage of a chip that warms up: half a per cent over the window."""
    figures = figures_of([20 + 0.01 * i for i in range(11)])
    assert figures.settled
    assert figures.power_w == pytest.approx(20.05)


def test_power_that_still_climbs_has_not_settled_and_says_so():
    figures = figures_of([10.0 + i for i in range(12)])
    assert not figures.settled
    assert figures.power_w is not None
    assert "had not settled" in figures.reason


LENGTHS = ((64, 16), (64, 64), (256, 16), (256, 64))


def measured(prompt: int, output: int, *, streams: int = 2, error: float = 0.0) -> ProfileRow:
    """Return a row in which a token takes 0.01 J in a prompt and 0.2 J in an answer."""
    energy_j = streams * (0.01 * prompt + 0.2 * output) * (1 + error)
    return ProfileRow(
        f"m:p{prompt}:o{output}", "infer", streams, 0.5, cpu_cores=2, energy_j=energy_j,
        prompt_tokens=float(prompt), output_tokens=float(output), tokens_per_s=streams * output / 0.5,
    )  # fmt: skip


@pytest.mark.parametrize("lengths", [LENGTHS, LENGTHS[1:3], LENGTHS[:2]])
def test_both_energies_are_recovered(lengths: tuple[tuple[int, int], ...]) -> None:
    (found,) = token_energies([measured(*pair) for pair in lengths])
    assert (found.prompt_j, found.output_j) == (pytest.approx(0.01), pytest.approx(0.2))
    assert found.residual == pytest.approx(0.0, abs=1e-9)
    assert found.pairs == len(lengths)


def test_the_residual_tells_of_errors() -> None:
    rows = [measured(*pair, error=error) for pair, error in zip(LENGTHS, (0.1, -0.1, -0.1, 0.1), strict=True)]
    (found,) = token_energies(rows)
    assert 0.03 < found.residual < 0.1
    assert found.output_j == pytest.approx(0.2, rel=0.1)


@pytest.mark.parametrize(
    "rows",
    [
        [measured(64, 16)],
        [measured(64, 16), measured(128, 32)],
        [replace(measured(*pair), energy_j=None) for pair in LENGTHS],
        [replace(measured(*pair), prompt_tokens=None) for pair in LENGTHS],
        [measured(64, 16, error=3.0), measured(256, 16)],
    ],
)
def test_there_is_none_if_nothing_tells(rows: list[ProfileRow]) -> None:
    assert not token_energies(rows)

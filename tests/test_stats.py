"""The statistics of minibatch times against closed forms, tables of order statistics and simulated series."""

import math
import random
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetune.stats import StoppingRule, design_effect, find_warmup, median, median_interval, percentile, summarise

TIMES = st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=200)


def test_percentile_interpolates_between_order_statistics():
    values = [float(v) for v in range(1, 11)]
    assert percentile(values, 95) == pytest.approx(1 + 9 * 0.95)
    assert percentile(values, 0) == 1.0
    assert percentile(values, 100) == 10.0


@given(TIMES, st.floats(0, 100))
def test_percentile_stays_within_the_values(values, percent):
    assert min(values) <= percentile(values, percent) <= max(values)


# Ranks of the 95 % interval of the median as printed in tables of order statistics (e.g. Conover, Table A3).
@pytest.mark.parametrize(
    ("count", "low", "high"), [(6, 1, 6), (8, 1, 8), (9, 2, 8), (10, 2, 9), (20, 6, 15), (40, 14, 27)]
)
def test_interval_ranks_are_the_tabulated_ones(count, low, high):
    assert median_interval([float(v) for v in range(1, count + 1)]) == (low, high)


def test_interval_encloses_the_median_with_the_binomial_probability():
    count = 25
    low, high = median_interval([float(v) for v in range(1, count + 1)])
    inside = sum(math.comb(count, k) for k in range(int(low), int(high))) / 2**count
    one_wider = sum(math.comb(count, k) for k in range(int(low) + 1, int(high) - 1)) / 2**count
    assert inside >= 0.95 > one_wider


def test_exact_and_approximate_ranks_meet():
    exact = median_interval([float(v) for v in range(1, 1001)])
    approximate = median_interval([float(v) for v in range(1, 1002)])
    assert exact is not None
    assert approximate is not None
    assert abs(approximate[0] - exact[0]) <= 1.5


@given(TIMES, st.floats(1, 20))
def test_dependence_only_widens_the_interval(values, effect):
    narrow, wide = median_interval(values), median_interval(values, effect=effect)
    if wide is not None:
        assert narrow is not None
        assert wide[0] <= narrow[0] <= median(values) <= narrow[1] <= wide[1]


def test_design_effect_of_an_alternating_series_is_one():
    assert design_effect([1.0, 2.0] * 20) == 1.0


def test_design_effect_of_one_long_slow_spell():
    values = [1.0] * 20 + [2.0] * 20
    # Indicators are 20 zeros and 20 ones: r = (38 * 1/4 - 1/4) / (40 / 4).
    correlation = (38 * 0.25 - 0.25) / 10
    assert design_effect(values) == pytest.approx((1 + correlation) / (1 - correlation))


def test_first_iteration_spike_is_warmup():
    times = [9.0, *(1 + 0.01 * ((i * 7) % 5 - 2) for i in range(19))]
    found = find_warmup(times)
    assert (found.length, found.steady) == (1, True)


def test_falling_start_is_warmup():
    times = [1 + 4 * 0.4**i + 0.001 * ((i * 7) % 5 - 2) for i in range(40)]
    found = find_warmup(times)
    assert 4 <= found.length <= 10
    assert found.steady


def test_one_hiccup_later_on_is_not_warmup():
    times = [1 + 0.01 * ((i * 7) % 5 - 2) for i in range(30)]
    assert find_warmup([*times[:9], 6.0, *times[9:]]).length == find_warmup(times).length


def test_slow_drift_is_not_steady():
    assert not find_warmup([1 + 0.02 * i for i in range(40)]).steady


@given(TIMES)
def test_warmup_never_takes_more_than_half(values):
    assert 0 <= find_warmup(values).length <= len(values) // 2


@given(TIMES, st.floats(0.5, 4.0))
def test_warmup_does_not_depend_on_the_unit(values, scale):
    power_of_two = 2.0 ** round(scale)
    assert find_warmup(values) == find_warmup([v * power_of_two for v in values])


@given(TIMES)
def test_summary_is_ordered(values):
    summary = summarise(values)
    assert summary.median <= summary.p95
    if summary.low is not None and summary.high is not None:
        assert summary.low <= summary.median <= summary.high


def collect(rule: StoppingRule, series: Iterator[float]) -> list[float]:
    times: list[float] = []
    while more := rule.more(times):
        assert more > 0
        times += [next(series) for _ in range(more)]
    return times


def noisy(seed: int, sigma: float, first: float = 1.0) -> Iterator[float]:
    generator = random.Random(seed)
    yield first * math.exp(generator.gauss(0, sigma))
    while True:
        yield math.exp(generator.gauss(0, sigma))


def test_steady_times_take_the_minimum():
    assert len(collect(StoppingRule(minimum=10), iter([0.02] * 100))) == 10


def test_noise_is_sampled_until_the_target_holds():
    times = collect(StoppingRule(target=0.02), noisy(1, 0.1))
    steady = times[find_warmup(times).length :]
    assert summarise(steady).half_width <= 0.02


def test_sampling_is_bounded_whatever_the_data():
    assert len(collect(StoppingRule(maximum=120), (1 + 0.1 * i for i in range(10**6)))) == 120


@given(st.integers(1, 60), st.integers(0, 5), st.floats(0.0, 0.3))
def test_fixed_number_is_always_left_after_warmup(fixed, slow, sigma):
    generator = random.Random(fixed)
    series = iter([5.0] * slow + [math.exp(generator.gauss(0, sigma)) for _ in range(1000)])
    times = collect(StoppingRule(fixed=fixed), series)
    assert fixed <= len(times) <= 2 * fixed + 10


def coverage(series: Callable[[int], Iterator[float]], truth: float, runs: int) -> float:
    """Fraction of adaptive runs whose final interval contains the true median."""
    hits = 0
    for seed in range(runs):
        times = collect(StoppingRule(), series(seed))
        summary = summarise(times[find_warmup(times).length :])
        hits += summary.low is not None and summary.low <= truth <= (summary.high or 0)
    return hits / runs


@pytest.mark.parametrize("sigma", [0.005, 0.03])
def test_interval_still_covers_when_stopped_by_its_own_width(sigma):
    # 95 % nominal; stopping on the interval costs a little, which is what this holds.
    assert coverage(lambda seed: noisy(seed, sigma), 1.0, 400) >= 0.91


def test_interval_of_mildly_dependent_times():
    def series(seed: int) -> Iterator[float]:
        generator, state = random.Random(seed), 0.0
        while True:
            state = 0.3 * state + math.sqrt(1 - 0.09) * generator.gauss(0, 0.05)
            yield math.exp(state)

    assert coverage(series, 1.0, 300) >= 0.85

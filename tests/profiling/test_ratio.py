"""Ratios of measured figures: closed forms, and what autocorrelation, luck and many points do to an interval."""

import math
import random
from itertools import islice

import pytest

from edgetune.stages.profiling import ratio
from edgetune.stages.profiling.ratio import Estimate, Ratio
from edgetune.stats import StoppingRule, find_warmup, median_interval

STEADY = [1.0 + 0.001 * (number * 7 % 20) for number in range(20)]


def test_the_error_of_a_median_follows_from_its_order_statistics():
    found = ratio.estimate_of_times(STEADY)
    assert found.value == pytest.approx(1.0095)
    error = math.sqrt(found.variance / found.count)
    low, high = median_interval(STEADY)
    assert error == pytest.approx(math.log(high / low) / 2 / 2.0, rel=0.25)


def test_a_slow_spell_makes_the_estimate_less_certain():
    spell = sorted(STEADY)
    mixed = ratio.estimate_of_times(STEADY)
    slow = ratio.estimate_of_times(spell)
    assert slow.value == mixed.value
    assert slow.variance > 4 * mixed.variance
    assert slow.freedom < mixed.freedom


def test_the_same_estimate_twice_does_not_differ_and_far_ones_do():
    one = ratio.estimate_of_times(STEADY)
    same = ratio.ratio_of(one, one)
    assert (same.ratio, same.differs) == (1.0, 0)
    assert same.low == pytest.approx(1 / same.high)
    assert ratio.ratio_of(one, ratio.estimate_of_times([1.1 * each for each in STEADY])).differs == 1
    assert ratio.ratio_of(one, ratio.estimate_of_times([0.9 * each for each in STEADY])).differs == -1


def test_the_variance_of_a_lucky_sample_is_raised_but_only_so_far():
    noisy = Estimate(1.0, variance=0.01, count=1e6, freedom=1e6)
    lucky = Estimate(1.0, variance=0.005, count=100, freedom=99)
    quiet = Estimate(1.0, variance=1e-6, count=100, freedom=99)
    raised = ratio.ratio_of(noisy, lucky)
    assert math.log(raised.high) == pytest.approx(ratio.LOOKS * 1.984 * math.sqrt(0.01 / 100), rel=0.01)
    capped = ratio.ratio_of(noisy, quiet)
    assert math.log(capped.high) < 1.3 * ratio.LOOKS * 1.984 * math.sqrt(3e-6 / 100 + 1e-8)


def test_intervals_of_a_table_are_read_back():
    found = ratio.estimate_of_interval(1.0, 0.98, 1.02, 1000)
    assert math.sqrt(found.variance / found.count) == pytest.approx(0.02 / 1.96, rel=0.01)
    assert ratio.estimate_of_interval(1.0, 0.0, 1.02, 1000).variance is None
    assert ratio.estimate_of_interval(1.0, 0.98, 1.02, 3).variance is None


def test_the_mean_of_few_is_as_certain_as_they_are_and_that_of_many_as_their_scatter():
    few = ratio.mean_ratio([Ratio(1.1, 1.0, 1.21), Ratio(1 / 1.1, 1 / 1.21, 1.0)])
    assert few.ratio == pytest.approx(1.0)
    assert few.high == pytest.approx(1.1)
    assert ratio.mean_ratio([Ratio(1.1, 1.0, 1.21), Ratio(1.2)]).low is None
    many = ratio.mean_ratio([Ratio(1.02 if number % 2 else 1.04) for number in range(20)])
    assert many.low > 1.02
    assert many.high < 1.04
    assert ratio.mean_ratio([]) is None


def test_scatter_beyond_the_intervals_is_found_and_a_few_outliers_are_none():
    generator = random.Random(1)
    ratios = []
    for _ in range(1001):
        value = math.exp(generator.gauss(0.05, 0.02))
        ratios.append(Ratio(value, value / 1.001, value * 1.001))
    assert ratio.excess_scatter(ratios) == pytest.approx(0.02, rel=0.1)
    assert ratio.excess_scatter([*ratios[:-5], *([Ratio(3.0, 2.9, 3.1)] * 5)]) == pytest.approx(0.02, rel=0.1)
    explained = [Ratio(each.ratio, each.ratio / 1.2, each.ratio * 1.2) for each in ratios]
    assert ratio.excess_scatter(explained) == 0.0


def test_a_scatter_widens_an_interval():
    wide = ratio.widened(Ratio(1.0, 0.99, 1 / 0.99), 0.02)
    assert math.log(wide.high) == pytest.approx(math.hypot(math.log(1 / 0.99), 1.96 * 0.02), rel=1e-3)
    assert ratio.widened(Ratio(1.3), 0.02) == Ratio(1.3)


def test_certainty_is_shared_between_many_points():
    slower = Ratio(1.06, 1.035, 1.085)
    assert ratio.surely_above(slower, 1.03, 1)
    assert not ratio.surely_above(slower, 1.03, 100)
    assert not ratio.surely_above(slower, 1.04, 1)
    assert not ratio.surely_above(Ratio(2.0), 1.03, 1)


def minibatch_times(generator, noise, correlation):
    """Yield times around 1: skewed to the right, autocorrelated, some delayed, the first ones warm-up."""
    state, index = generator.gauss(0, 1), 0
    while True:
        state = correlation * state + math.sqrt(1 - correlation**2) * generator.gauss(0, 1)
        delayed = 1 + 0.5 * generator.random() if generator.random() < 0.01 else 1.0
        yield (1 + noise * (math.exp(0.8 * state) - 1) / 0.8) * delayed * (1 + 0.6 * math.exp(-index / 1.5))
        index += 1


def sampled(series):
    """Return the steady times that the profiler's rule takes of a series."""
    rule, taken = StoppingRule(), []
    while more := rule.more(taken):
        taken += islice(series, more)
    return taken[find_warmup(taken).length :]


def test_tables_alike_are_seldom_called_different_and_a_shift_of_three_percent_is_found():
    noise_of, generator = random.Random(7), random.Random(7)
    different = found = 0
    for _ in range(200):
        noise, correlation = 0.003 * 5 ** noise_of.random(), 0.4 * noise_of.random()  # as quiet boards and hosts have
        before, after = (sampled(minibatch_times(generator, noise, correlation)) for _ in range(2))
        first, same, slower = map(ratio.estimate_of_times, (before, after, [1.03 * each for each in after]))
        different += ratio.ratio_of(first, same).differs != 0
        found += ratio.ratio_of(first, slower).differs > 0
    assert different <= 0.05 * 200
    assert found >= 0.9 * 200

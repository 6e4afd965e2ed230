"""Tables beside each other: how points are joined, what is compared fairly, and what rounds and many points show."""

import math
import random
import statistics
from itertools import islice

import pytest

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import Point, PowerSample, ProfileRow
from edgetune.stages.profiling import ratio
from edgetune.stages.profiling.comparison import CANNOT_TELL, join
from edgetune.stages.profiling.ratio import LOOKS, Estimate, Ratio
from edgetune.stats import StoppingRule, find_warmup


def row(time_s, *, batch=1, workload="net", noise=0.01, seed=0, mode=None, **figures):
    """A measured row with raw times around ``time_s``."""
    generator = random.Random(f"{batch} {seed} {mode}")
    times_s = tuple(time_s * (1 + noise * generator.uniform(-1, 1)) for _ in range(41))
    point = Point(workload, "infer", batch, mode or Mode())
    return ProfileRow.at(point, sorted(times_s)[20], times_s=times_s, warmups=0, minibatches=41, **figures)


def power(watts):
    trace = tuple(PowerSample(0.1 * number, watts + 0.01 * (number % 3)) for number in range(1, 31))
    return {"power_w": watts, "power_trace": trace, "power_samples": 30, "power_from_s": 0.0}


def test_points_are_joined_and_judged():
    joined = join(
        [row(0.1), row(0.2, batch=4), row(0.3, batch=8)],
        [row(0.11, seed=1), row(0.2, batch=4, seed=1), row(0.27, batch=8, seed=1), row(0.5, batch=16)],
    )
    assert [each.verdict() for each in joined.points] == ["slower", CANNOT_TELL, "faster"]
    assert [each.ratios["time"].ratio for each in joined.points] == pytest.approx([1.1, 1.0, 0.9], abs=0.01)
    assert [point.batch_size for point in joined.only_after] == [16]
    assert joined.only_before == ()


def test_a_point_that_failed_is_said_and_not_compared():
    failed = ProfileRow.at(Point("net", "infer", 1, Mode()), None, status="failed", reason="out of memory")
    joined = join([row(0.1)], [failed])
    assert joined.points == ()
    assert joined.failed == ("net infer batch 1 [as found]: out of memory",)
    assert joined.only_before == ()


def test_power_and_energy_are_judged_from_the_readings():
    joined = join([row(0.1, **power(10.0))], [row(0.1, seed=1, **power(12.0))])
    (point,) = joined.points
    assert [point.verdict(figure) for figure in ("time", "power", "energy")] == [CANNOT_TELL, "more", "more"]
    assert point.ratios["energy"].ratio == pytest.approx(1.2, abs=0.01)
    assert "power" not in join([row(0.1, **power(10.0))], [row(0.1)]).points[0].ratios
    assert set(join([row(0.1, **power(10.0))], [row(0.1, **power(9.0))], any_power=False).points[0].ratios) == {"time"}


def test_without_raw_times_intervals_count_and_without_these_there_is_no_verdict():
    point = Point("net", "infer", 1, Mode())
    known = [ProfileRow.at(point, time_s, minibatch_ci95_low_s=0.99 * time_s, minibatch_ci95_high_s=1.01 * time_s,
                           minibatches=40) for time_s in (0.1, 0.12)]  # fmt: skip
    assert join(known[:1], known[1:]).points[0].verdict() == "slower"
    bare = [ProfileRow.at(point, time_s) for time_s in (0.1, 0.12)]
    (found,) = join(bare[:1], bare[1:]).points
    assert found.verdict() == CANNOT_TELL
    assert found.ratios["time"].ratio == pytest.approx(1.2)


def test_a_busy_machine_widens_the_interval_and_hides_no_factor():
    slower = join([row(0.1, noise=0.1)], [row(0.65, noise=0.1, others_cpu_share=0.5)]).points[0]
    assert slower.verdict() == "slower"
    assert slower.ratios["time"].low < 6.5 / 3
    assert slower.ratios["time"].high < 7.5
    before = [row(0.1, batch=batch, others_cpu_share=0.5) for batch in range(1, 13)]
    faster = join(before, [row(0.01, batch=batch) for batch in range(1, 13)])
    assert {each.verdict() for each in faster.points} == {"faster"}
    overall = faster.overall(disturbed=True)
    assert 0.01 / 0.1 / 0.5 < overall.high < 1
    assert overall.low > 0.09


def test_a_busy_machine_is_no_comparison_until_rounds_show_its_differences():
    busy = join([row(0.1, others_cpu_share=0.0)], [row(0.2, others_cpu_share=0.5)])
    assert busy.points[0].verdict() == CANNOT_TELL
    assert "50% after" in busy.points[0].disturbed
    assert busy.overall() is None
    assert busy.overall(disturbed=True).differs == 0
    times = [[0.1, 0.101, 0.099], [0.2, 0.201, 0.199]]
    tables = [[row(time_s, seed=number, round=number + 1, others_cpu_share=0.5) for number, time_s in enumerate(own)]
              for own in times]  # fmt: skip
    assert join(*tables).points[0].verdict() == "slower"


def rounds(*times_s, noise=0.001):
    return [row(time_s, noise=noise, seed=number, round=number + 1) for number, time_s in enumerate(times_s)]


def test_the_rounds_of_a_point_are_its_sample():
    before, after = (0.095, 0.1, 0.105, 0.11, 0.09), (0.099, 0.104, 0.109, 0.114, 0.094)
    assert join([row(0.1, noise=0.001)], [row(0.104, noise=0.001, seed=9)]).points[0].verdict() == "slower"
    joined = join(rounds(*before), rounds(*after))
    assert joined.rounds
    (point,) = joined.points
    assert point.verdict() == CANNOT_TELL
    assert point.ratios["time"].ratio == pytest.approx(1.04, abs=0.001)
    logs = [[math.log(time_s) for time_s in times_s] for times_s in (before, after)]
    error = math.sqrt(sum(statistics.variance(each) / 5 for each in logs))  # of the same scatter: 8 degrees of freedom
    assert math.log(point.ratios["time"].high / 1.04) == pytest.approx(LOOKS * 2.306 * error, rel=0.02)
    assert join(rounds(*before), rounds(*(2 * each for each in before))).points[0].verdict() == "slower"


def test_many_points_show_how_much_runs_differ_and_their_mean_what_is_common():
    generator = random.Random(3)
    modes = [Mode(gpu_mhz=100.0 + number) for number in range(100)]
    before = [row(0.1, noise=0.001, mode=mode) for mode in modes]
    after = [row(0.103 * generator.gauss(1, 0.02), noise=0.001, seed=1, mode=mode) for mode in modes]
    joined = join(before, after)
    assert joined.scatter["time"] == pytest.approx(0.02, rel=0.3)
    assert sum(each.verdict() != CANNOT_TELL for each in joined.points) < 50
    assert joined.overall().differs == 1
    few = join(before[:9], after[:9])
    assert few.scatter == {}


STEADY = [1.0 + 0.001 * (number * 7 % 20) for number in range(20)]


def test_a_slow_spell_makes_the_estimate_less_certain():
    spell = sorted(STEADY)
    mixed = ratio.estimate_of_times(STEADY)
    slow = ratio.estimate_of_times(spell)
    assert slow.value == mixed.value
    assert slow.variance > 4 * mixed.variance
    assert slow.freedom < mixed.freedom


def test_the_variance_of_a_lucky_sample_is_raised_but_only_so_far():
    noisy = Estimate(1.0, variance=0.01, count=1e6, freedom=1e6)
    lucky = Estimate(1.0, variance=0.005, count=100, freedom=99)
    quiet = Estimate(1.0, variance=1e-6, count=100, freedom=99)
    raised = ratio.ratio_of(noisy, lucky)
    assert math.log(raised.high) == pytest.approx(ratio.LOOKS * 1.984 * math.sqrt(0.01 / 100), rel=0.01)
    capped = ratio.ratio_of(noisy, quiet)
    assert math.log(capped.high) < 1.3 * ratio.LOOKS * 1.984 * math.sqrt(3e-6 / 100 + 1e-8)


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

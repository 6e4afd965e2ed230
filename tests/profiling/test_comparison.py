"""Tables beside each other: how points are joined, what is compared fairly, and what rounds and many points show."""

import math
import random
import statistics

import pytest

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import Point, PowerSample, ProfileRow
from edgetune.stages.profiling.comparison import CANNOT_TELL, join
from edgetune.stages.profiling.comparison_figure import comparison_figure
from edgetune.stages.profiling.ratio import LOOKS


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


def test_another_name_is_the_same_network_only_where_each_table_has_one():
    one, other = [row(0.1, workload="a")], [row(0.1, workload="b")]
    assert len(join(one, other).points) == 1
    assert join([*one, row(0.1, workload="c")], other).points == ()


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


def test_rounds_show_nothing_of_a_table_without():
    joined = join(rounds(0.095, 0.1, 0.105, 0.11, 0.09), [row(0.104, noise=0.001, seed=9)])
    assert not joined.rounds
    assert joined.points[0].verdict() == CANNOT_TELL


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


@pytest.mark.parametrize("count", [1, 61])
def test_the_figure_shows_every_point_and_says_what_it_leaves_out(count):
    pytest.importorskip("matplotlib")
    before = [row(0.1, mode=Mode(gpu_mhz=100.0 + number)) for number in range(count)]
    after = [row(0.12, seed=1, mode=Mode(gpu_mhz=100.0 + number)) for number in range(count)]
    joined = join([*before, row(0.3, batch=64)], after)
    figure = comparison_figure([joined], ["after beside before"], simulated=True)
    (axes,) = figure.axes
    assert sum(len(each.lines[0].get_xdata()) for each in axes.containers) == count
    assert axes.get_title(loc="left").startswith("SIMULATED")
    assert "1 points of the baseline" in figure.get_label()

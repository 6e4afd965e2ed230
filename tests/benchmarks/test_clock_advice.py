"""Every sentence of ``edgetune roofline`` about the next clocks is what the twin measures, or a range that holds it."""

from statistics import median

import pytest
from clock_advice import NOISY, sentences, table

NETWORKS = ("resnet50", "bert_base")


@pytest.fixture(scope="module")
def measured():
    return sentences(NETWORKS, (1, 16))


def test_figures_are_those_of_the_same_twin_within_3_points(measured):
    """Both networks at two batch sizes: 4 sentences from the highest mode, 7 from a middle one."""
    assert len(measured) == 2 * 2 * (4 + 7)
    assert {each.knob for each in measured} == {"cpu_cores", "cpu_mhz", "gpu_mhz", "mem_mhz"}
    for index in (0, 1):
        assert median(each.errors[index] for each in measured) <= 3, table(measured)
        assert max(each.errors[index] for each in measured) < 0.06, table(measured)  # the twin repeats exactly


def test_resnet50_at_a_lower_memory_clock(measured):
    """Least times would grow by 59.9 %, and 84 % of the time lies above them."""
    (found,) = (each for each in measured if each.value == 2133 and each.network == "resnet50" and each.batch_size == 1)
    assert found.told == ((pytest.approx(4.3, abs=0.2),), (pytest.approx(6.2, abs=0.2),))


def test_where_measurements_waver_an_interval_is_stated_that_holds_most_changes():
    noisy = sentences(("resnet50",), (1, 16), device=NOISY)
    assert all(len(part) == 3 for each in noisy for part in each.told)
    within = [held for each in noisy for held in each.covered]
    assert sum(within) >= 0.85 * len(within), table(noisy)  # 95 % intervals


def test_a_network_that_was_not_measured_has_ranges_alone():
    found = sentences(NETWORKS, (1, 16), "--no-measure")
    assert all(len(part) == 2 for each in found for part in each.told)
    assert all(all(each.covered) for each in found), table(found)
    time_widths = [max(each.told[0]) - min(each.told[0]) for each in found if each.knob == "mem_mhz"]
    assert min(time_widths) > 30  # not a figure in disguise

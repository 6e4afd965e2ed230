"""``search --soak``: the answer is kept running, and gives way to the next best where it does not hold."""

from dataclasses import replace

import pytest

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import ProfileRow
from edgetune.stages.search.answer import NothingFeasibleError
from edgetune.stages.search.driver import SearchSettings, run_search
from edgetune.workflows.reporting import Reporter
from edgetune.workflows.search.candidates import Candidates
from edgetune.workflows.search.strategy_choice import confirmed

PROBLEM = Problem("train", power_budget_w=20.0)
ROWS = [
    ProfileRow("net", "train", 16, minibatch_s, gpu_mhz=mhz, power_w=power_w)
    for mhz, minibatch_s, power_w in ((1.0, 0.8, 12.0), (2.0, 0.4, 15.0), (3.0, 0.3, 19.0), (4.0, 0.25, 30.0))
]


class Told(Reporter):
    __slots__ = ("lines",)

    def __init__(self):
        self.lines = []

    def info(self, text):
        self.lines.append(text)


def soaked(changes):
    """Search, then confirm; ``changes`` has what a soak finds by clock. Return the result, soaked clocks and notes."""
    by_point, clocks, told = {row.point: row for row in ROWS}, [], Told()

    def soak(point):
        clocks.append(point.mode.gpu_mhz)
        return replace(by_point[point], **changes.get(point.mode.gpu_mhz, {}))

    offered = Candidates(
        list(by_point), by_point.__getitem__, "train", "net", False, False, {}, {}, soak_s=300.0, soak=soak
    )  # fmt: skip
    settings = SearchSettings("exhaustive", seed=4, conditions={"device": "test"})
    result = run_search(PROBLEM, offered.points, offered.measure, settings)
    return confirmed(result, PROBLEM, offered, told), clocks, told.lines


def test_an_answer_that_holds_has_the_figures_of_its_soak():
    result, clocks, told = soaked({3.0: {"minibatch_s": 0.31, "power_w": 18.5}})
    assert clocks == [3.0]
    assert told[0] == "soak: GPU 3 MHz, batch 16, for 5 m 00 s"
    plan = result.plan
    assert (plan.configuration.mode, plan.measured.minibatch_s, plan.measured.power_w) == (Mode(gpu_mhz=3), 0.31, 18.5)
    assert (plan.search.strategy, plan.search.points_measured, plan.search.seed) == ("exhaustive", 4, 4)
    assert plan.header.conditions == {"device": "test", "soak_s": 300.0}


@pytest.mark.parametrize(
    "change",
    [
        {"power_w": 20.5},
        {"minibatch_s": 0.5},
        {"status": "throttled", "reason": "the device throttled while it was measured"},
        {"status": "failed", "minibatch_s": None, "reason": "killed"},
    ],
)
def test_an_answer_that_does_not_hold_gives_way_to_the_next_best(change):
    result, clocks, told = soaked({3.0: change})
    assert clocks == [3.0, 2.0]
    assert result.plan.configuration.mode == Mode(gpu_mhz=2)
    assert change.get("reason", "") in told[1]


def test_where_nothing_holds_that_is_the_error():
    with pytest.raises(NothingFeasibleError) as caught:
        soaked({mhz: {"power_w": 21.0} for mhz in (1.0, 2.0, 3.0)})
    assert len(caught.value.trace.rows) == len(ROWS)

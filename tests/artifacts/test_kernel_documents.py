"""Kernel timelines as Parquet: what is written is read, what cannot have happened is refused."""

from dataclasses import replace

import pytest

from edgetune.artifacts import io
from edgetune.artifacts.header import Header
from edgetune.artifacts.kernel_timeline import KernelTimeline, KernelTimelineRow
from edgetune.errors import InputError

ROW = KernelTimelineRow("launch", "elastic", 2.0, 0, "a", 0, 0, 0, "k", 0, 4, 1, True, 2, 64, started_s=1.0)


def timeline_bytes(*rows):
    return KernelTimeline(Header.new("kernel_timeline", 1), rows).to_bytes()


def test_a_timeline_is_read_as_it_was_written():
    stay = KernelTimelineRow("residency", "elastic", 2.0, task="a", launch=0, blocks=2, sm=1, started_s=1.0)
    found = io.from_bytes(timeline_bytes(ROW, stay), kind="kernel_timeline", name="t.parquet")
    assert found.rows == (ROW, stay)


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (replace(ROW, started_s=3.0), "finished_s is 2, before started_s"),
        (replace(ROW, count=0), "count is 0"),
        (replace(ROW, first=-1), "first is -1"),
        (replace(ROW, kernel=None), "a row of event launch has no kernel"),
        (replace(ROW, event="residency"), "a row of event residency has no sm"),
        (replace(ROW, event="request", deadline_s=1.5, arrived_s=0.5, met=True), "met is true"),
    ],
)
def test_what_cannot_have_happened_is_refused(row, why):
    with pytest.raises(InputError, match=why):
        io.from_bytes(timeline_bytes(row), kind="kernel_timeline", name="t.parquet")


def test_a_launch_that_failed_may_have_no_start():
    row = replace(ROW, started_s=None, status="failed", reason="out of resources")
    assert io.from_bytes(timeline_bytes(row), kind="kernel_timeline", name="t.parquet").rows == (row,)

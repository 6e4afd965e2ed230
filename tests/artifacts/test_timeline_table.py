"""A timeline reads back as it was written, and one that cannot have happened is refused in two lines."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetune.artifacts import io
from edgetune.artifacts.header import Header
from edgetune.artifacts.timeline import Timeline, TimelineRow
from edgetune.errors import InputError

_HEADER = Header("timeline", 1, "2026-01-02T03:04:05Z", "edgetune 0.1.0", conditions={"simulated": True})
_REQUEST = TimelineRow(
    "request", "masa", 0.3, 0, "net", "photos", 4, arrived_s=0.1, started_s=0.2, deadline_s=0.4, met=True
)
_LOAD = TimelineRow("load", "masa", 0.3, 0, "net", None, 4, "conv1", 0, 1, "net", None, 0.2, bytes=8, held_bytes=16)

_text = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12)
_count = st.integers(0, 2**40)
_maybe_count = st.none() | _count


@st.composite
def _rows(draw: st.DrawFn) -> TimelineRow:
    arrived_s, started_s, finished_s = sorted(draw(st.tuples(*[st.floats(0, 1e5)] * 3)))
    deadline_s = draw(st.none() | st.floats(0, 1e5))
    return TimelineRow(
        event=draw(st.sampled_from(["load", "execute", "unload", "request", "budget", "memory"])),
        policy=draw(_text), finished_s=finished_s, turn=draw(_count), network=draw(_text),
        job=draw(st.none() | _text), request=draw(_count), layer=draw(_text), layer_index=draw(_maybe_count),
        worker=draw(_count), copy=draw(st.none() | _text), arrived_s=arrived_s, started_s=started_s,
        deadline_s=deadline_s, met=None if deadline_s is None else finished_s <= deadline_s,
        bytes=draw(_maybe_count), held_bytes=draw(_maybe_count), budget_bytes=draw(_count),
        resident_bytes=draw(_maybe_count), swap_bytes=draw(_maybe_count), major_faults=draw(_maybe_count),
        limit_hits=draw(_maybe_count), status=draw(st.sampled_from(["ok", "failed", "abandoned"])),
        reason=draw(st.none() | _text),
    )  # fmt: skip


@given(st.lists(_rows(), max_size=5))
@settings(max_examples=50, deadline=None)
def test_what_is_written_reads_back(rows: list[TimelineRow]) -> None:
    timeline = Timeline(_HEADER, tuple(rows))
    assert io.from_bytes(timeline.to_bytes(), kind="timeline", name="it") == timeline


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (replace(_REQUEST, started_s=0.35), "finished_s is 0.3, before started_s, 0.35"),
        (replace(_REQUEST, arrived_s=0.25), "started_s is 0.2, before arrived_s, 0.25"),
        (replace(_REQUEST, finished_s=0.5), "met is true, but it finished 0.1 s after deadline_s"),
        (replace(_REQUEST, arrived_s=-1.0), "arrived_s is -1"),
        (replace(_REQUEST, finished_s=float("nan")), "finished_s is nan"),
        (replace(_REQUEST, request=None), "a row of event request has no request"),
        (replace(_LOAD, held_bytes=-1), "held_bytes is -1"),
        (replace(_LOAD, layer=None), "a row of event load has no layer"),
        (replace(_LOAD, worker=None), "a row of event load has no worker"),
        (replace(_LOAD, event="execute", request=None), "a row of event execute has no request"),
        (TimelineRow("budget", "masa", 0.1), "a row of event budget has no budget_bytes"),
    ],
)
def test_what_cannot_have_happened_is_named(row: TimelineRow, words: str) -> None:
    data = Timeline(_HEADER, (_LOAD, row)).to_bytes()
    with pytest.raises(InputError) as found:
        io.from_bytes(data, kind="timeline", name="it")
    assert found.value.message.startswith("it, row 2: ")
    assert words in found.value.message


def test_a_failed_task_need_not_have_begun() -> None:
    failed = replace(_LOAD, started_s=None, status="failed", reason="the disk is gone")
    timeline = Timeline(_HEADER, (failed,))
    assert io.from_bytes(timeline.to_bytes(), kind="timeline", name="it") == timeline

"""A run reads back as it was written, and one that cannot have happened is refused in two lines."""

from __future__ import annotations

import math
from dataclasses import fields, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetune.artifacts import io
from edgetune.artifacts.header import Header
from edgetune.artifacts.run import Run, RunRow
from edgetune.errors import InputError

_HEADER = Header("run", 1, "2026-01-02T03:04:05Z", "edgetune 0.1.0", conditions={"device": "host"})
_REQUEST = RunRow(
    "managed", "request", 0.06, "net", arrived_s=0.01, started_s=0.03, deadline_s=0.11, met=True, minibatch=0,
    batch_size=8, samples=5,
)  # fmt: skip

_text = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12)
_positive = st.floats(min_value=1e-3, max_value=1e6)
_count = st.integers(0, 2**40)


def _maybe(strategy: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.none() | strategy


@st.composite
def _rows(draw: st.DrawFn) -> RunRow:
    arrived_s, started_s, finished_s = sorted(draw(st.tuples(*[st.floats(0, 1e5)] * 3)))
    deadline_s = draw(_maybe(st.floats(0, 1e5)))
    return RunRow(
        engine=draw(st.sampled_from(["managed", "native", "streams", "simulated"])),
        event=draw(st.sampled_from(["request", "train", "plan", "mode", "power"])),
        finished_s=finished_s,
        tenant=draw(_maybe(_text)),
        turn=draw(_count),
        arrived_s=arrived_s,
        started_s=started_s,
        deadline_s=deadline_s,
        met=None if deadline_s is None else finished_s <= deadline_s,
        minibatch=draw(_maybe(_count)),
        batch_size=draw(_maybe(st.integers(1, 2**20))),
        samples=draw(_maybe(_count)),
        status=draw(st.sampled_from(["ok", "failed", "abandoned"])),
        reason=draw(_maybe(_text)),
        loss=draw(_maybe(st.floats(allow_nan=False))),
        power_w=draw(_positive),
        power_budget_w=draw(_maybe(_positive)),
        cpu_cores=draw(_maybe(st.integers(1, 256))),
        cpu_mhz=draw(_maybe(_positive)),
        gpu_mhz=draw(_maybe(_positive)),
        mem_mhz=draw(_maybe(_positive)),
        power_limit_w=draw(_maybe(_positive)),
    )


@settings(deadline=None, max_examples=60)
@given(st.lists(_rows(), max_size=6))
def test_a_run_reads_back_as_it_was_written(rows: list[RunRow]) -> None:
    run = Run(_HEADER, tuple(rows))
    assert _read(run) == run


def test_a_loss_that_is_no_number_stays_one() -> None:
    (row,) = _read(Run(_HEADER, (RunRow("native", "train", 2.0, "net", started_s=1.0, loss=math.nan),))).rows
    assert row.loss is not None
    assert math.isnan(row.loss)


def test_what_was_left_when_a_run_ended_needs_no_start() -> None:
    left = replace(_REQUEST, status="abandoned", met=False, started_s=None, finished_s=5.0)
    assert _read(Run(_HEADER, (left,))).rows == (left,)


def test_the_names_and_their_order_are_those_of_the_layout() -> None:
    """A golden file holds these names; a new version is due when one goes, or when an absent one is more than null."""
    assert [field.name for field in fields(RunRow)] == [
        "engine", "event", "finished_s", "tenant", "turn", "arrived_s", "started_s", "deadline_s", "met", "minibatch",
        "batch_size", "samples", "status", "reason", "loss", "power_w", "power_budget_w", "cpu_cores", "cpu_mhz",
        "gpu_mhz", "mem_mhz", "power_limit_w", "power_mode",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (replace(_REQUEST, finished_s=0.02), "finished_s is 0.02, before started_s, 0.03"),
        (replace(_REQUEST, arrived_s=0.04), "started_s is 0.03, before arrived_s, 0.04"),
        (replace(_REQUEST, started_s=None, status="failed", finished_s=0.005), "before arrived_s, 0.01"),
        (replace(_REQUEST, arrived_s=-0.5), "arrived_s is -0.5"),
        (replace(_REQUEST, finished_s=math.inf), "finished_s is inf"),
        (replace(_REQUEST, deadline_s=math.inf), "deadline_s is inf"),
        (replace(_REQUEST, deadline_s=0.05), "met is true, but it finished 0.01 s after deadline_s"),
        (replace(_REQUEST, batch_size=0), "batch_size is 0"),
        (replace(_REQUEST, samples=-1), "samples is -1"),
        (replace(_REQUEST, turn=-1), "turn is -1"),
        (replace(_REQUEST, arrived_s=None), "a row of event request has no arrived_s"),
        (replace(_REQUEST, started_s=None), "a row of event request has no started_s"),
        (RunRow("managed", "train", 0.2, "net", samples=16), "a row of event train has no started_s"),
        (RunRow("managed", "power", 0.2), "a row of event power has no power_w"),
        (RunRow("managed", "power", 0.2, power_w=-2.0), "power_w is -2"),
        (RunRow("managed", "power", 0.2, power_w=20.0, power_budget_w=0.0), "power_budget_w is 0"),
        (RunRow("managed", "mode", 0.2, gpu_mhz=-1.0), "gpu_mhz is -1"),
    ],
)
def test_what_cannot_have_happened_is_refused(bad: RunRow, words: str) -> None:
    with pytest.raises(InputError) as caught:
        _read(Run(_HEADER, (_REQUEST, bad)))
    assert caught.value.message.startswith("it, row 2: ")
    assert words in caught.value.message
    assert caught.value.hint


def test_a_run_is_no_trace_and_says_what_it_is() -> None:
    with pytest.raises(InputError, match="it is a run, not a trace"):
        io.from_bytes(Run(_HEADER, ()).to_bytes(), kind="trace", name="it")


def _read(run: Run) -> Run:
    return io.from_bytes(run.to_bytes(), kind="run", name="it")

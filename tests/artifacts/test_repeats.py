"""Several rows of one point: attempts give way, the newest stands, rounds are taken together."""

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetune.artifacts import repeats
from edgetune.artifacts.profile import PowerSample, ProfileRow
from edgetune.artifacts.repeats import one_per_point

ROW = ProfileRow(
    "net", "infer", 4, 0.1, gpu_mhz=600.0, power_w=20.0, power_peak_w=22.0, energy_j=2.0, minibatch_p95_s=0.11,
    minibatch_ci95_low_s=0.099, minibatch_ci95_high_s=0.101, minibatches=40, warmups=2, power_samples=7,
    temp_max_c=60.0, times_s=(0.1,), power_trace=(PowerSample(0.5, 20.0),), power_from_s=0.2, temp_start_c=45.0,
    duration_s=5.0,
)  # fmt: skip


def visit(number: int | None, time_s: float = 0.1, power_w: float | None = 20.0, **more: object) -> ProfileRow:
    return replace(ROW, minibatch_s=time_s, power_w=power_w, round=number, **more)  # type: ignore[arg-type]


def the_row(*rows: ProfileRow) -> ProfileRow:
    (row,) = one_per_point(rows).rows
    return row


def test_rounds_become_their_median() -> None:
    row = the_row(visit(1, 0.1, 20.0), visit(2, 0.3, 29.0), visit(3, 0.12, 21.0))
    assert (row.minibatch_s, row.power_w, row.round) == (0.12, 21.0, None)
    assert the_row(visit(1, 0.1), visit(2, 0.2)).minibatch_s == pytest.approx(0.15)


def test_interval_spans_all_rounds_and_counts_add_up() -> None:
    low = visit(1, minibatch_ci95_low_s=0.08, minibatch_ci95_high_s=0.1)
    row = the_row(low, visit(2, minibatch_ci95_low_s=0.1, minibatch_ci95_high_s=0.13, temp_max_c=70.0))
    assert (row.minibatch_ci95_low_s, row.minibatch_ci95_high_s) == (0.08, 0.13)
    assert (row.minibatches, row.warmups, row.power_samples, row.temp_max_c) == (80, 4, 14, 70.0)
    assert row.times_s is row.power_trace is row.power_from_s is None, "raw values stay with the rows they are of"


def test_round_that_is_no_measurement_is_left_out() -> None:
    row = the_row(visit(1, 0.1), visit(2, 9.0, status="throttled"), visit(3, 0.2))
    assert row.minibatch_s == pytest.approx(0.15)
    assert row.status == "ok"


def test_power_missing_in_one_round_is_taken_from_the_others() -> None:
    assert the_row(visit(1, power_w=None), visit(2, power_w=21.0)).power_w == 21.0
    assert the_row(visit(1, power_w=None), visit(2, power_w=None)).power_w is None


def test_a_later_plain_measurement_replaces_rounds_and_later_rounds_a_plain_one() -> None:
    assert the_row(visit(1, 0.1), visit(2, 0.2), visit(None, 0.5)).minibatch_s == 0.5
    assert the_row(visit(None, 0.5), visit(1, 0.1), visit(2, 0.2)).minibatch_s == pytest.approx(0.15)


def test_the_same_round_measured_again_stands_once() -> None:
    found = one_per_point([visit(1, 0.9), visit(1, 0.1), visit(2, 0.1)])
    assert found.rows[0].minibatch_s == 0.1
    assert (found.ignored, found.disagreeing) == (1, 1)


def test_attempts_before_a_measurement_are_no_duplicates() -> None:
    throttled = visit(None, 0.3, status="throttled")
    found = one_per_point([throttled, visit(None)])
    assert found.rows == (visit(None),)
    assert found.ignored == 0


@given(st.lists(st.floats(0.01, 10), min_size=1, max_size=9))
def test_merged_time_lies_among_the_rounds(times_s: list[float]) -> None:
    row = the_row(*(visit(number, time_s) for number, time_s in enumerate(times_s, start=1)))
    assert row.minibatch_s is not None
    assert min(times_s) <= row.minibatch_s <= max(times_s)


def test_every_column_is_either_summed_up_or_the_same_for_all_rounds() -> None:
    """A figure added to the profile must say what becomes of it over rounds."""
    summed = {name for names, _ in repeats._SUMMARIES for name in names} | set(repeats._RAW)
    same = {"workload", "task", "batch_size", "cpu_cores", "cpu_mhz", "gpu_mhz", "mem_mhz", "power_limit_w", "device"}
    same |= {
        "power_mode",
        "power_source",
        "throttled",
        "status",
        "reason",
        "started",
        "idle_gap_s",
        "idle_minibatch_s",
        "own_unit",
        "board",
        "tokens_counted",
    }
    assert summed | same == {field.name for field in fields(ProfileRow)}
    assert not summed & same

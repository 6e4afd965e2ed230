"""A run in figures, against what one works out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_builder import abandoned, power, request, run_of, study_run, trained

from edgetune.stages.interleave.device_use import Busy, minibatches, occupancy
from edgetune.stages.interleave.summary import summarise


def _busy(tenant: str, start_s: float, end_s: float, *, answers: bool = False) -> Busy:
    return Busy(tenant, answers, start_s, end_s)


def test_requests_answered_together_are_one_minibatch() -> None:
    rows = [request(0.0, 1.0, 2.0), request(0.5, 1.0, 2.0), request(0.9, 2.0, 3.0, number=1)]
    assert [(busy.start_s, busy.end_s, busy.answers) for busy in minibatches(rows)] == [(1, 2, True), (2, 3, True)]


def test_time_is_split_between_answers_training_both_and_nobody() -> None:
    #  0    1    2    3    4    5    6    7    8    9    10
    #       answers--------------
    #                 trains--------------    trains
    busy = [_busy("a", 1.0, 5.0, answers=True), _busy("b", 3.0, 7.0), _busy("b", 8.0, 9.0)]
    found = occupancy(busy, 10.0)
    assert (found.answering_s, found.training_s, found.both_s, found.idle_s) == (4.0, 5.0, 2.0, 3.0)
    assert found.tenants_s == {"a": 2.0 + 2.0 / 2, "b": 2.0 / 2 + 2.0 + 1.0}


def test_a_minibatch_lined_up_behind_its_like_counts_once() -> None:
    found = occupancy([_busy("a", 0.0, 4.0), _busy("a", 2.0, 6.0)], 6.0)
    assert (found.training_s, found.idle_s, found.tenants_s) == (6.0, 0.0, {"a": 6.0})


@settings(deadline=None, max_examples=80)
@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(0, 50), st.integers(0, 20), st.booleans()), max_size=12
    )
)  # fmt: skip
def test_the_parts_of_the_time_add_up(drawn: list[tuple[str, int, int, bool]]) -> None:
    busy = [_busy(tenant + "ia"[answers], a, a + b, answers=answers) for tenant, a, b, answers in drawn]
    found = occupancy(sorted(busy, key=lambda each: each.start_s), 70.0)
    covered_s = found.answering_s + found.training_s - found.both_s
    assert covered_s + found.idle_s == pytest.approx(70.0)
    assert sum(found.tenants_s.values()) == pytest.approx(covered_s)


def test_requests_and_their_latencies() -> None:
    """Latencies of 10, 20, ..., 100 ms; the last two are over a budget of 85 ms; one failed and one was left."""
    rows = [request(k, k, k + 0.01 * (k + 1), number=k, budget_s=0.085) for k in range(10)]
    failed = replace(
        request(20.0, 20.0, 20.01, number=10, budget_s=0.085), status="failed", reason="no image", met=False
    )
    (summary,) = summarise(run_of([*rows, failed, abandoned(21.0, 30.0, budget_s=0.085)]))
    (net,) = summary.answered
    assert (net.tenant, net.requests, net.answered, net.failed, net.abandoned) == ("net", 12, 10, 1, 1)
    assert (net.violations, net.violation_share) == (4, 4 / 12)
    assert net.latency_budget_s == 0.085
    assert net.latency_median_s == pytest.approx(0.055)
    assert net.latency_p95_s == pytest.approx(0.0955)
    assert net.latency_p99_s == pytest.approx(0.0991)
    assert net.latency_peak_s == pytest.approx(0.1)
    assert net.minibatches == 11


def test_training_is_counted_over_the_whole_time() -> None:
    steps = [trained(k, k + 0.5, number=k, loss=2.0 - 0.25 * k) for k in range(4)]
    broken = replace(trained(4.0, 8.0, number=4), status="failed", reason="out of memory", samples=0)
    (summary,) = summarise(run_of([*steps, broken]))
    (learner,) = summary.trained
    assert (learner.minibatches, learner.failed, learner.samples) == (4, 1, 64)
    assert learner.samples_per_s == 64 / 8
    assert (learner.first_loss, learner.last_loss, learner.diverged) == (2.0, 1.25, False)
    assert summary.device.idle_s == 2.0


def test_energy_is_divided_by_device_time() -> None:
    """10 W for 10 s; 2 s of answers and 6 s of training: 25 J and 75 J, over 5 requests and 96 samples."""
    rows = [request(0.0, 0.0, 2.0) for _ in range(5)]
    rows += [trained(2.0 + k, 3.0 + k, number=k) for k in range(6)]
    rows += [power(at_s, 10.0) for at_s in range(11)]
    (summary,) = summarise(run_of(rows))
    assert (summary.power.mean_w, summary.power.energy_j, summary.power.reason) == (10.0, 100.0, None)
    assert summary.answered[0].energy_per_request_j == pytest.approx(25 / 5)
    assert summary.trained[0].energy_per_sample_j == pytest.approx(75 / 96)


def test_power_over_a_budget_that_is_cut() -> None:
    readings = [power(0, 20, 30), power(1, 20, 30), power(2, 20, 15), power(3, 20, 15), power(4, 14, 15)]
    (summary,) = summarise(run_of(readings))
    use = summary.power
    assert (use.readings, use.peak_w, use.budget_w, use.over_s) == (5, 20, 15, 2.0)
    assert use.mean_w == pytest.approx((20 * 3 + 17) / 4)


def test_without_power_there_is_no_energy() -> None:
    rows = [request(0.0, 0.0, 2.0), trained(2.0, 3.0)]
    (silent,) = summarise(run_of(rows))
    assert (silent.power.energy_j, silent.power.reason) == (None, "no power was read")
    (few,) = summarise(run_of([*rows, power(1.0, 12.0), power(2.0, 13.0)]))
    assert (few.power.energy_j, few.power.mean_w, few.power.peak_w) == (None, None, 13.0)
    assert few.power.reason == "2 power readings, 5 needed"
    for summary in (silent, few):
        assert summary.answered[0].energy_per_request_j is None
        assert summary.trained[0].energy_per_sample_j is None
        assert summary.power.over_s is None


def test_turns_of_an_engine_are_taken_together() -> None:
    rows = [
        trained(0.0, 2.0, turn=0, engine="native", loss=3.0), trained(0.0, 1.0, turn=0),
        trained(0.0, 4.0, turn=1, engine="native", loss=1.0), trained(1.0, 3.0, turn=1, number=1),
    ]  # fmt: skip
    native, managed = summarise(run_of(rows))
    assert (native.engine, native.turns, native.device.duration_s) == ("native", (0, 1), 6.0)
    assert native.trained[0].samples_per_s == 32 / 6
    assert (native.trained[0].first_loss, native.trained[0].last_loss) == (3.0, 1.0)
    assert (managed.engine, managed.device.training_s, managed.device.idle_s) == ("managed", 3.0, 1.0)
    each = summarise(run_of(rows), by_turn=True)
    assert [(one.engine, one.turns, one.device.duration_s) for one in each] == [
        ("native", (0,), 2.0), ("managed", (0,), 1.0), ("native", (1,), 4.0), ("managed", (1,), 3.0),
    ]  # fmt: skip


def test_a_change_of_mode_in_a_file_of_an_earlier_version_is_a_plan_and_a_trial_is_none() -> None:
    changed = replace(power(8.0, 1.0), event="mode", power_w=None)
    (summary,) = summarise(run_of([request(0.0, 0.0, 2.0), changed, replace(changed, event="plan", started_s=5.0)]))
    assert summary.plan_steps == 1


def test_the_run_that_figures_are_tried_on_is_what_it_says() -> None:
    """Managed keeps its deadlines, native and streams do not, and the device is never idle."""
    managed, native, streams = summarise(study_run(20.0))
    assert managed.answered[0].violation_share < 0.01 < native.answered[0].violation_share
    assert streams.answered[0].violation_share > 0.01
    assert managed.device.both_s == 0 < native.device.both_s

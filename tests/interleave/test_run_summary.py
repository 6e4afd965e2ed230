"""A run in figures, against what one works out by hand."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated_run import device_of, evenly, of, simulated

from edgetune.artifacts.header import Header
from edgetune.artifacts.run import Run, RunRow
from edgetune.errors import InputError
from edgetune.plotting.figure_file import figure_bytes
from edgetune.stages.interleave.backend import Inference, Training
from edgetune.stages.interleave.figures.latency import latency_figure
from edgetune.stages.interleave.power import NS, Budgets, Busy, PowerWatcher, SimulatedReadings, minibatches, occupancy
from edgetune.stages.interleave.summary import summarise
from edgetune.workflows.figures import choose_view, views_of


def run_of(rows: list[RunRow]) -> Run:
    """A run of these rows."""
    header = Header("run", 1, "2026-01-02T03:04:05Z", "edgetune 0.1.0", conditions={"device": "host"})
    return Run(header, tuple(rows))


def request(
    arrived_s: float, started_s: float, finished_s: float, *, tenant: str = "net", number: int = 0,
    budget_s: float = 0.1, engine: str = "managed", turn: int = 0, batch_size: int = 1, samples: int = 1,
) -> RunRow:  # fmt: skip
    """A request that was answered."""
    return RunRow(
        engine, "request", finished_s, tenant, turn, arrived_s, started_s, arrived_s + budget_s,
        finished_s <= arrived_s + budget_s, number, batch_size, samples,
    )  # fmt: skip


def abandoned(arrived_s: float, ended_s: float, *, tenant: str = "net", budget_s: float = 0.1) -> RunRow:
    """A request that nobody answered."""
    row = request(arrived_s, ended_s, ended_s, tenant=tenant, budget_s=budget_s)
    return replace(row, started_s=None, minibatch=None, samples=None, met=False, status="abandoned", reason="it ended")


def trained(
    started_s: float, finished_s: float, *, tenant: str = "learner", number: int = 0, loss: float | None = None,
    engine: str = "managed", turn: int = 0, samples: int = 16,
) -> RunRow:  # fmt: skip
    """A training minibatch."""
    return RunRow(
        engine, "train", finished_s, tenant, turn, started_s=started_s, minibatch=number, batch_size=samples,
        samples=samples, loss=loss,
    )  # fmt: skip


def power(at_s: float, power_w: float, budget_w: float | None = None, *, engine: str = "managed") -> RunRow:
    """A reading of the power sensor."""
    return RunRow(engine, "power", at_s, power_w=power_w, power_budget_w=budget_w)


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


NAMES = ("a" * 60, "b $x_1$ $", "ü")


def _words(figure) -> str:
    texts = [text.get_text() for axes in figure.axes for text in (axes.title, axes._left_title, *axes.texts)]
    texts += [axis.get_label_text() for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)]
    texts += [label.get_text() for axes in figure.axes for label in axes.get_xticklabels()]
    texts += [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    texts += [figure.get_suptitle()]
    return "\n".join(texts)


def test_boxes_are_percentiles_and_the_budget_is_where_it_is() -> None:
    both = latency_figure(run_of([request(0.0, 0.0, 1.0), request(0.0, 0.0, 1.0, engine="native"), trained(1.0, 2.0)]))
    assert "net, due in 100 ms" in _words(both)
    assert {label.get_text() for label in both.axes[0].get_yticklabels()} == {"managed", "native"}
    figure = latency_figure(run_of([request(k, k, k + 0.001 * k, number=k, budget_s=0.08) for k in range(1, 102)]))
    axes = figure.axes[0]
    ends = sorted({round(float(value), 6) for line in axes.lines for value in line.get_xdata()})
    # shortest, 1st percentile, median, budget, 99th percentile and longest, ms
    assert {1.0, 2.0, 51.0, 80.0, 100.0, 101.0} <= set(ends)
    assert "21 of\n101 late" in _words(figure)
    assert len(figure.axes) == 1  # nothing trained: no second panel


@pytest.mark.parametrize(
    ("rows", "drawn"),
    [
        ([], ""),
        ([power(0.0, 5.0)], ""),
        ([trained(0.0, 1.0)], "timeline"),
        ([request(0.0, 0.0, 0.0)], "latency"),
        ([request(0.0, 0.0, 1e-7)], "latency timeline"),
        ([replace(request(0.0, 0.0, 1.0), deadline_s=None, met=None, tenant=None)], "latency timeline"),
        ([abandoned(0.0, 1.0)], "timeline"),
        ([request(0.0, 0.0, 1e5, budget_s=1e-6)], "latency timeline"),
        ([replace(trained(0, 1), status="failed", samples=0), request(0.5, 1.0, 1.5)], "latency timeline"),
        ([request(k, k, k + 1, tenant=name, number=k) for k in range(3) for name in NAMES], "latency timeline"),
        ([trained(k, k + 1, tenant=name, number=k) for k in range(3) for name in "ab"], "timeline"),
        ([RunRow("managed", "plan", 5.0)], ""),
    ],
)
def test_odd_runs_are_drawn_or_refused(rows, drawn) -> None:
    found = []
    for view in sorted(views_of("run")):
        try:
            figure_bytes(choose_view("run", view)(run_of(rows)), "svg")
        except InputError:
            continue
        found.append(view)
    assert " ".join(found) == drawn


def powered(steps):
    """Return the rows of a run at 10 requests a second."""
    tenants = [Inference("cam", 1, 0.2, 10.0, 0.01), Training("job", 16, 0.03)]
    stage = device_of(tenants, power_w=lambda name, *_: 4.0 if name is None else 30.0)
    watcher = PowerWatcher(SimulatedReadings(stage.power.mean_w, 0), 1.0, 0, Budgets(steps))
    return simulated(tenants, {"cam": evenly(10.0, 20)}, 20, stage=stage, watchers=[watcher])


def test_every_reading_is_written_down_beside_its_budget():
    readings = of(powered(((0.0, 35.0), (10.0, 34.0))), "power")
    assert [row.finished_s for row in readings] == [float(second) for second in range(1, 20)]
    assert all(5.0 < row.power_w < 30.001 for row in readings)
    assert [row.power_budget_w for row in readings] == [35.0] * 9 + [34.0] * 10
    assert Budgets(((0.0, 30.0), (60.0, 20.0))).at(-1e-9) == 30.0


def test_a_reading_from_before_the_run_is_left_out():
    readings = [[(-1, 7.0), (NS // 2, 8.0)], [(3 * NS // 2, 9.0)]]
    watcher = PowerWatcher(lambda _: readings.pop(0), 1.0, 0)
    loop = simulated([Inference("cam", 1, 0.2, 1.0, 0.01)], {"cam": evenly(1.0, 2.5)}, 2.5, watchers=[watcher])
    assert [(row.finished_s, row.power_w) for row in of(loop, "power")] == [(0.5, 8.0), (1.5, 9.0)]

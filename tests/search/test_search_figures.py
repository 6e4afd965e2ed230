"""The figures of a search: its front and its steps, the budgets, the answer, and points that cannot be shown."""

import re
from dataclasses import replace

import pytest

from edgetune.artifacts.header import Header
from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import ProfileRow
from edgetune.artifacts.trace import KIND, VERSION, Trace, TraceRow
from edgetune.errors import InfeasibleError, InputError
from edgetune.plotting.figure_file import figure_bytes
from edgetune.plotting.gantt import rows_of
from edgetune.stages.search.driver import SearchSettings, run_search
from edgetune.stages.search.figures.front import front_figure, trace_figure
from edgetune.workflows.figures import FIGURES

TRAIN = Problem("train", power_budget_w=30.0)
INFER = Problem("infer", power_budget_w=30.0, latency_budget_s=0.5, arrival_rate_per_s=40.0)
PAIR = Problem("train+infer", power_budget_w=30.0, latency_budget_s=1.2, arrival_rate_per_s=20.0)
CLOCKS = (200.0, 400.0, 600.0, 800.0)
TABLE = [
    ProfileRow("net", "train", 16, 16 * 4.0 / clock, gpu_mhz=clock, power_w=10 + clock / 32) for clock in CLOCKS
]  # 20, 10, 6.67 and 5 ms per sample at 16.25, 22.5, 28.75 and 35 W
ANSWERS = [
    ProfileRow("ask", "infer", batch, (0.01 + 0.008 * batch) * 800 / clock, gpu_mhz=clock, power_w=10 + clock / 40)
    for clock in CLOCKS for batch in (1, 4, 16)
]  # fmt: skip


def searched(problem=TRAIN, rows=TABLE, *, failing=(), conditions=None, **options):
    """Return trace and plan (``None`` of an infeasible problem) of a search in a table."""
    table = {row.point: row for row in rows}

    def measure(point):
        row = table[point]
        return replace(row, minibatch_s=None, status="failed", reason="no memory") if row in failing else row

    try:
        options = {"strategy": "exhaustive", "conditions": conditions} | options
        result = run_search(problem, list(table), measure, SearchSettings(**options))
    except InfeasibleError as error:
        return error.trace, None
    return result.trace, result.plan


def axes_of(trace, plan=None, rows=()):
    """Return the axes of a figure that was wholly drawn, so that a warning of any part is an error."""
    figure = front_figure(trace, plan=plan, table_rows=rows)
    figure.draw_without_rendering()
    return figure.axes[0]


def labels(axes):
    return axes.get_legend_handles_labels()[1]


def drawn(axes):
    """Return the places of all measured points: what is drawn above the table and below the answer's ring."""
    groups = [found for found in axes.collections if found.get_zorder() == 3 and len(found.get_offsets())]
    return sorted((round(x, 6), round(y, 6)) for group in groups for x, y in group.get_offsets().tolist())


def line(axes, label):
    found = next(found for found in axes.lines if found.get_label() == label)
    return [(pytest.approx(x), pytest.approx(y)) for x, y in zip(found.get_xdata(), found.get_ydata(), strict=True)]


def front(axes):
    found = next(found for found in axes.lines if found.get_label() == "Pareto front found")
    return list(zip(found.get_xdata(), found.get_ydata(), strict=True))


def numbers(axes):
    """Return the steps written beside points; those of the front have their mode behind."""
    words = [text.get_text().partition(":")[0] for text in axes.texts]
    return sorted(int(word) for word in words if word.isdigit())


def test_every_point_is_at_its_time_per_sample_and_its_power():
    axes = axes_of(*searched())
    assert drawn(axes) == [(5, 35), (6.666667, 28.75), (10, 22.5), (20, 16.25)]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("time per sample (ms, log)", "mean power (W, log)")
    assert sorted(text.get_text() for text in axes.texts) == [
        "1: GPU 200 b16", "2: GPU 400 b16", "3: GPU 600 b16", "4: GPU 800 b16"
    ]  # fmt: skip
    assert {"within budget", "over the power budget", "budget 30 W", "Pareto front found"} <= set(labels(axes))


def test_the_front_found_leaves_out_what_is_beaten():
    worse = replace(TABLE[1], gpu_mhz=500.0, power_w=29.0)  # as fast as at 400 MHz on more power
    axes = axes_of(*searched(rows=[*TABLE, worse]))
    assert line(axes, "Pareto front found") == [(5, 35), (20 / 3, 28.75), (10, 22.5), (20, 16.25)]
    assert len(drawn(axes)) == 5


def test_a_known_table_lies_behind_with_its_true_front():
    trace, plan = searched(strategy="random", max_points=2)
    axes = axes_of(trace, plan, [*TABLE, replace(TABLE[0], workload="other"), replace(TABLE[0], status="throttled")])
    assert "offered (4)" in labels(axes)
    described = next(rows for rows in rows_of(axes.figure).values() if isinstance(rows[0], str))
    assert (
        described[0] == f"offered\n{TABLE[0].point}\n{1e3 * TABLE[0].minibatch_s / 16:.4g} ms, {TABLE[0].power_w:.3g} W"
    )
    assert [x for x, _ in line(axes, "true front")] == [pytest.approx(x) for x in (5, 20 / 3, 10, 20)]
    assert len(drawn(axes)) == 2


def test_each_mark_names_its_row_of_the_trace():
    trace, plan = searched(failing=TABLE[1:2])
    figure = front_figure(trace, plan=plan)
    rows = rows_of(figure)
    groups = {found.get_gid(): found for found in figure.axes[0].collections if found.get_gid()}
    assert groups.keys() == rows.keys()
    for name, found in groups.items():
        for (x, y), place in zip(found.get_offsets().tolist(), rows[name], strict=True):
            row = trace.rows[place]
            assert (x, y) == (pytest.approx(1e3 * row.minibatch_s / row.batch_size), row.power_w)
    svg = figure_bytes(figure, "svg").decode()
    for name in groups:
        (group,) = re.findall(rf'<g id="{re.escape(name)}">(.*?)\n   ?</g>\n', svg, re.DOTALL)
        assert group.count("<use ") == len(rows[name])


def test_budgets_and_margins_are_lines_on_the_axis_they_limit():
    axes = axes_of(*searched(replace(TRAIN, margin=0.1)))
    assert [y for _, y in line(axes, "less 10 % margin")] == [27, 27]
    axes = axes_of(*searched(INFER, ANSWERS))
    assert axes.get_xlabel() == "peak latency (ms, log)"
    assert [x for x, _ in line(axes, "budget 500 ms")] == [500, 500]
    assert [y for _, y in line(axes, "budget 30 W")] == [30, 30]
    axes = axes_of(*searched(replace(INFER, objective="throughput"), ANSWERS))
    assert "budget 500 ms" not in labels(axes)


def test_a_point_that_misses_its_requests_is_told_from_one_that_draws_too_much_and_is_off_the_front():
    slow = ProfileRow("ask", "infer", 1, 0.03, gpu_mhz=100.0, power_w=5.0)  # 40 requests/s come every 25 ms
    axes = axes_of(*searched(INFER, [*ANSWERS, slow]))
    assert "misses latency, rate or room" in labels(axes)
    assert (30, 5) in drawn(axes)
    assert (30, 5) not in line(axes, "Pareto front found")


@pytest.mark.parametrize("objective", ["latency", "throughput"])
def test_both_fronts_are_of_points_that_keep_latency_and_rate(objective):
    problem = replace(INFER, objective=objective, latency_budget_s=0.15)
    axes = axes_of(*searched(problem, ANSWERS))
    # at 40/s batch 1 keeps up from 600 MHz on, 4 from 400 MHz on but answers within 150 ms from 600 MHz on, 16 never
    assert {round(y, 6) for _, y in front(axes)} <= {25.0, 30.0}  # those of 600 and 800 MHz
    if objective == "latency":
        assert front(axes) == [(pytest.approx(18), 30), (pytest.approx(24), 25)]
    assert len(drawn(axes)) == len(ANSWERS)  # those that miss them stay drawn
    part, _ = searched(problem, ANSWERS, strategy="random", max_points=4)
    assert line(axes_of(part, None, ANSWERS), "true front") == front(axes)  # of the same points: they can be compared


def test_an_infeasible_search_says_that_there_is_no_answer():
    trace, plan = searched(replace(TRAIN, power_budget_w=12.0))
    assert plan is None
    axes = axes_of(trace)
    assert "no answer: nothing within budget" in labels(axes)
    assert not [label for label in labels(axes) if label.startswith("answer")]


def test_points_without_power_are_counted_and_without_any_it_is_the_figure_of_steps():
    some = [replace(row, power_w=None) if row.gpu_mhz == 800.0 else row for row in TABLE]
    axes = axes_of(*searched(Problem("train"), some))
    assert "1 without power: not shown" in labels(axes)
    assert "answer, step 4:\nGPU 800 MHz\nbatch 16\nwithout power: not shown" in labels(axes)
    bare = [replace(row, power_w=None) for row in TABLE]
    assert axes_of(*searched(Problem("train"), bare)).get_ylabel() == "time per sample (ms)"


def test_offered_points_that_miss_latency_or_rate_are_distinguished():
    trace, plan = searched(replace(INFER, latency_budget_s=0.15), ANSWERS, strategy="random", max_points=4)
    axes = axes_of(trace, plan, ANSWERS)
    counts = {found.get_label(): len(found.get_offsets()) for found in axes.collections if found.get_zorder() <= 1}
    assert {label: count for label, count in counts.items() if count} == {
        "offered (12)": 4,
        "of these 8 miss\nlatency, rate or room": 8,
    }


def test_readings_of_one_point_are_one_marker_at_their_mean():
    steps = (
        TraceRow(1, "net", "train", 16, gpu_mhz=600.0, minibatch_s=0.16, power_w=28.0, objective=100.0, feasible=True),
        TraceRow(2, "net", "train", 16, gpu_mhz=600.0, minibatch_s=0.16, power_w=29.0, objective=100.0, feasible=True,
                 best=100.0),
    )  # fmt: skip
    told = {"kind": "train", "power_budget_w": 30.0}
    axes = axes_of(Trace(Header.new(KIND, VERSION, conditions={"problem": told}), steps))
    assert drawn(axes) == [(10, 28.5)]
    assert "answer, steps 1, 2:\nGPU 600 MHz\nbatch 16\n10 ms, 28.5 W" in labels(axes)


def test_a_marker_of_two_workloads_is_a_pair():
    trace, plan = searched(PAIR, [*ANSWERS, *TABLE])
    axes = axes_of(trace, plan, [*ANSWERS, *TABLE])
    assert axes.get_xlabel() == "background throughput (samples/s)"
    best = (plan.measured.throughput_per_s, plan.measured.power_w)
    assert best in [(pytest.approx(x), pytest.approx(y)) for x, y in drawn(axes)]
    assert max(x for x, y in drawn(axes) if y <= 30) == pytest.approx(best[0])
    assert all(place in [(pytest.approx(x), pytest.approx(y)) for x, y in drawn(axes)] for place in front(axes))
    part, _ = searched(PAIR, [*ANSWERS, *TABLE], strategy="random", max_points=4)
    assert f"offered ({len(ANSWERS)})" in labels(axes_of(part, None, [*ANSWERS, *TABLE]))
    (answer,) = (label for label in labels(axes) if label.startswith("answer"))
    assert f"batch {plan.configuration.infer_batch_size}" in answer


def test_halves_without_partner_are_counted_not_drawn():
    problem = replace(PAIR, power_budget_w=22.0, latency_budget_s=2.0)
    trace, _ = searched(problem, [*ANSWERS, *TABLE], strategy="random")
    halves = {(row.task, row.batch_size, row.gpu_mhz) for row in trace.rows}
    pairs = {half for half in halves if half[0] == "infer" and ("train", 16, half[2]) in halves}
    lone = len([half for half in halves if half[0] == "infer"]) - len(pairs)
    axes = axes_of(trace)
    assert len(drawn(axes)) == len(pairs)
    assert lone
    assert f"{lone} half-measured pair{'s' * (lone > 1)}: not shown" in labels(axes)


@pytest.mark.parametrize("told", [None, "nonsense", {"kind": "dance"}, {"kind": "train", "power_budget_w": "30"}])
def test_a_trace_that_does_not_say_its_problem_is_drawn_as_it_is(told):
    trace, _ = searched()
    facts = {} if told is None else {"problem": told}
    axes = axes_of(replace(trace, header=Header.new(KIND, VERSION, conditions=facts)), rows=TABLE)
    assert axes.get_xlabel() == "objective (larger is better, log)"
    assert len(drawn(axes)) == 4
    assert "over the power budget" in labels(axes)  # the trace says that it is over one


@pytest.mark.parametrize("view", ["front", "steps"])
def test_a_trace_without_steps_is_refused(view):
    with pytest.raises(InputError, match="no steps"):
        FIGURES[f"trace.{view}"](Trace(Header.new(KIND, VERSION), ()))


def test_every_offered_point_is_within_the_axes():
    slow = ProfileRow("net", "train", 16, 16 * 2.0, gpu_mhz=100.0, power_w=20.0)  # a hundred times as slow
    trace, plan = searched(strategy="random", max_points=2)
    axes = axes_of(trace, plan, [*TABLE, slow])
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    places = [place for found in axes.collections if found.get_zorder() == 1 for place in found.get_offsets().tolist()]
    assert len(places) == 5
    assert all(left < x < right and low < y < high for x, y in places)


def test_known_points_are_hollow_and_have_no_number():
    axes = axes_of(*searched(known=TABLE[:2]))
    assert "within budget, known before" in labels(axes)
    assert numbers(axes) == [3, 4]
    groups = {len(found.get_facecolor()) for found in axes.collections if found.get_label().endswith("known before")}
    assert groups == {0}


def test_a_fully_measured_table_is_not_drawn_in_the_background():
    axes = axes_of(*searched(), rows=TABLE)
    assert "true front" not in labels(axes)
    assert not [label for label in labels(axes) if label.startswith("offered")]


TOLD = {"kind": "train", "power_budget_w": 30.0, "latency_budget_s": None, "objective": None, "margin": 0.0}


def step(number, objective, power_w=None, *, feasible=True, best=None, source="measured"):
    return TraceRow(
        number, "net", "train", 16, gpu_mhz=300.0 + number, source=source, minibatch_s=0.1, power_w=power_w,
        objective=objective, feasible=feasible, best=best,
    )  # fmt: skip


def trace_of(*rows, **conditions):
    return Trace(Header.new(KIND, VERSION, conditions=conditions), rows)


FOUR = (
    step(1, 80.0, 25.0, best=80.0), step(2, 120.0, 33.0, feasible=False, best=80.0),
    step(3, None, feasible=None, best=80.0), step(4, 100.0, 29.0, best=100.0),
)  # fmt: skip


def drawn_line(axes, label):
    return next(found for found in axes.lines if found.get_label() == label)


def points(axes, label):
    named = next(found for found in axes.collections if found.get_label() == label)
    alike = (each for each in axes.collections if each.get_facecolor().tolist() == named.get_facecolor().tolist())
    return [tuple(pair) for each in alike for pair in each.get_offsets().tolist()]


def test_every_step_is_there_by_what_became_of_it():
    objective, power = trace_figure(trace_of(*FOUR, problem=TOLD)).axes
    assert points(objective, "within budget") == [(1, 12.5), (4, 10)]
    assert points(objective, "over the power budget") == [(2, pytest.approx(1000 / 120))]
    assert list(drawn_line(objective, "not measured").get_xdata()) == [3]
    assert list(drawn_line(objective, "best so far").get_ydata()) == [12.5, 12.5, 12.5, 10]
    assert points(power, "within budget") == [(1, 25), (4, 29)]
    assert (objective.get_ylabel(), power.get_ylabel()) == ("time per sample (ms)", "mean power (W)")
    assert power.get_xlabel() == "step"


def test_steps_without_an_objective_are_drawn_above_the_panel():
    rows = (step(1, None, 20.0, feasible=None), step(2, 3490.0, 20.0), step(3, 3500.0, 20.0), step(4, None))
    for kind in ("train+infer", "train"):
        figure = trace_figure(trace_of(*rows, problem={**TOLD, "kind": kind}))
        figure.draw_without_rendering()
        axes = figure.axes[0]
        (lost,) = (found for found in axes.lines if found.get_label() in ("half of a pair", "not measured"))
        tips = lost.get_transform().transform(lost.get_xydata())
        room = 0.5 * lost.get_markersize() * figure.dpi / 72
        assert [round(x) for x, _ in axes.transData.inverted().transform(tips)] == [1, 4]
        assert min(tips[:, 1]) - room > axes.get_window_extent().y1  # above the axis, not at a value of it
        assert max(tips[:, 1]) + room < axes._left_title.get_window_extent().y0

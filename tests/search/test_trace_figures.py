"""Figures of traces: the objective as people know it, what kept the budgets, and the budget itself."""

from edgetune.artifacts.header import Header
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.artifacts.trace import KIND, VERSION, Trace, TraceRow
from edgetune.stages.search.driver import SearchSettings, run_search
from edgetune.stages.search.figures.steps import trace_figure

PROBLEM = {"kind": "train", "power_budget_w": 30.0, "latency_budget_s": None, "objective": None, "margin": 0.0}


def step(number, objective, power_w=None, *, feasible=True, best=None, source="measured"):
    return TraceRow(
        number, "net", "train", 16, gpu_mhz=300.0, source=source, minibatch_s=0.1, power_w=power_w, objective=objective,
        feasible=feasible, best=best,
    )  # fmt: skip


def trace(*rows, **conditions):
    return Trace(Header.new(KIND, VERSION, conditions=conditions), rows)


FOUR = (
    step(1, 80.0, 25.0, best=80.0), step(2, 120.0, 33.0, feasible=False, best=80.0),
    step(3, None, feasible=None, best=80.0), step(4, 100.0, 29.0, best=100.0),
)  # fmt: skip


def labels(axes):
    return axes.get_legend_handles_labels()[1]


def line(axes, label):
    return next(found for found in axes.lines if found.get_label() == label)


def points(axes, label):
    found = next(found for found in axes.collections if found.get_label() == label)
    return [tuple(pair) for pair in found.get_offsets().tolist()]


def test_every_step_is_there_by_what_became_of_it():
    objective, power = trace_figure(trace(*FOUR, problem=PROBLEM)).axes
    assert points(objective, "within budget") == [(1, 80), (4, 100)]
    assert points(objective, "over budget") == [(2, 120)]
    assert list(line(objective, "not measured").get_xdata()) == [3]
    assert list(line(objective, "best so far").get_ydata()) == [80, 80, 80, 100]
    assert points(power, "within budget") == [(1, 25), (4, 29)]
    assert (objective.get_ylabel(), power.get_ylabel()) == ("throughput (samples/s)", "mean power (W)")
    assert power.get_xlabel() == "step"


def test_the_budget_and_what_the_margin_leaves_are_lines():
    _, power = trace_figure(trace(*FOUR, problem={**PROBLEM, "margin": 0.1})).axes
    assert list(line(power, "budget 30 W").get_ydata()) == [30, 30]
    assert list(line(power, "less 10 % margin").get_ydata()) == [27, 27]


def test_latency_is_shown_as_people_know_it():
    problem = {**PROBLEM, "kind": "infer", "latency_budget_s": 0.08}
    (axes,) = trace_figure(trace(step(1, -0.05), step(2, -0.1, feasible=False), problem=problem)).axes
    assert axes.get_ylabel() == "peak latency (ms)"
    assert points(axes, "within budget") == [(1, 50)]
    assert list(line(axes, "budget 80 ms").get_ydata()) == [80, 80]


def test_steps_without_an_objective_are_drawn_above_the_panel():
    rows = (step(1, None, 20.0, feasible=None), step(2, 3490.0, 20.0), step(3, 3500.0, 20.0), step(4, None))
    for kind in ("train+infer", "train"):
        figure = trace_figure(trace(*rows, problem={**PROBLEM, "kind": kind}))
        figure.draw_without_rendering()
        axes = figure.axes[0]
        (lost,) = (found for found in axes.lines if found.get_label() in ("half of a pair", "not measured"))
        tips = lost.get_transform().transform(lost.get_xydata())
        room = 0.5 * lost.get_markersize() * figure.dpi / 72
        assert [round(x) for x, _ in axes.transData.inverted().transform(tips)] == [1, 4]
        assert min(tips[:, 1]) - room > axes.get_window_extent().y1  # above the axis, not at a value of it
        assert max(tips[:, 1]) + room < axes._left_title.get_window_extent().y0


def test_a_trace_that_does_not_say_its_problem_is_drawn_as_it_is():
    objective, power = trace_figure(trace(*FOUR)).axes
    assert objective.get_ylabel() == "objective (larger is better)"
    assert labels(power) == ["within budget", "over budget"]


def test_a_search_tells_its_trace_what_was_asked():
    point = Point("net", "train", 16, Mode(gpu_mhz=300.0))
    row = ProfileRow("net", "train", 16, 0.1, gpu_mhz=300.0, power_w=20.0)
    result = run_search(Problem("train", power_budget_w=30.0), [point], lambda _: row, SearchSettings("gmd", seed=3))
    facts = result.trace.header.conditions
    assert (facts["strategy"], facts["seed"], facts["problem"]["power_budget_w"]) == ("gmd", 3, 30.0)
    _, power = trace_figure(result.trace).axes
    assert "budget 30 W" in labels(power)

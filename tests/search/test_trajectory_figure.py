"""The way of a search: every step in the cell of its setting, none on top of another, joined in order."""

from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetune.artifacts.header import Header
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.artifacts.trace import KIND, VERSION, Trace, TraceRow
from edgetune.errors import InfeasibleError
from edgetune.stages.search.driver import SearchSettings, run_search
from edgetune.stages.search.figures.trajectory import TrajectoryPoint, grid_of, positions, trajectory_figure

TRAIN = Problem("train", power_budget_w=30.0)
PAIR = Problem("train+infer", power_budget_w=30.0, latency_budget_s=1.2, arrival_rate_per_s=20.0)
GPU, MEM, CORES = (300.0, 600.0, 900.0), (665.6, 2133.0), (4, 12)


def row(gpu, mem=2133.0, cores=4, batch=16, task="train"):
    time_s, power_w = 0.06 * batch / 16 * 900 / gpu * (2133 / mem) ** 0.5, gpu / 40 + mem / 300 + cores / 4
    return ProfileRow("net", task, batch, time_s, cpu_cores=cores, gpu_mhz=gpu, mem_mhz=mem, power_w=power_w)


TABLE = [row(gpu, mem, cores) for gpu in GPU for mem in MEM for cores in CORES]


def searched(problem=TRAIN, rows=TABLE, *, failing=(), **options):
    table = {row.point: row for row in rows}

    def measure(point):
        found = table[point]
        return replace(found, minibatch_s=None, status="failed", reason="no memory") if found in failing else found

    try:
        result = run_search(problem, list(table), measure, SearchSettings(**{"strategy": "exhaustive"} | options))
    except InfeasibleError as error:
        return error.trace, None
    return result.trace, result.plan


def panels(trace, plan=None, offered=()):
    """Return the panels of a figure that was wholly drawn, so that a warning of any part is an error."""
    figure = trajectory_figure(trace, plan=plan, offered=offered)
    figure.draw_without_rendering()
    return [axes for axes in figure.axes if axes.axison]


def labels(axes):
    return axes.get_legend_handles_labels()[1]


def names(axes):
    return axes.get_xlabel(), axes.get_ylabel()


def cells(axes):
    """Return the cell of every marker, ascending: the places of the settings across and upwards."""
    groups = [found for found in axes.collections if found.get_zorder() == 3]
    return sorted((round(x), round(y)) for group in groups for x, y in group.get_offsets().tolist())


def numbers(axes):
    return sorted(int(text.get_text()) for text in axes.texts if text.get_text())


def arrows(axes):
    return [text for text in axes.texts if not text.get_text()]


def ticks(axis):
    return [tick.get_text() for tick in axis.get_ticklabels()]


def test_the_knob_with_the_most_settings_is_across_and_each_other_has_a_panel():
    cores, memory = panels(*searched())
    assert names(cores) == ("GPU clock (MHz)", "CPU cores")
    assert names(memory) == ("GPU clock (MHz)", "memory clock (MHz)")
    assert (ticks(memory.xaxis), ticks(memory.yaxis)) == (["300", "600", "900"], ["666", "2133"])


def test_every_step_is_in_the_cell_of_its_setting_with_its_number():
    for axes in panels(*searched()):
        assert cells(axes) == [(x, y) for x in range(3) for y in range(2) for _ in range(2)]
        assert numbers(axes) == list(range(1, 13))
        assert len(arrows(axes)) == 3  # between steps with a new best


def test_the_offered_points_make_the_grid():
    trace, plan = searched(strategy="random", max_points=1)
    axes, *_ = panels(trace, plan)
    assert names(axes) == ("GPU clock (MHz)", "step")
    offered = [found.point for found in TABLE] + [Point("other", "train", 16, Mode(cpu_mhz=1.0))]
    cores, memory = panels(trace, plan, offered)
    assert ticks(cores.xaxis) == ["300", "600", "900"]
    assert len(cells(memory)) == 1
    assert [names(axes) for axes in trajectory_figure(trace, offered=[row.point for row in TABLE]).axes[:2]] == [
        names(cores), names(memory)
    ]  # fmt: skip


def test_the_answer_is_ringed_in_every_panel():
    trace, plan = searched()
    step = next(found.step for found in trace.rows if found.best == trace.rows[-1].best)
    for axes in panels(trace, plan):
        (ring,) = (found for found in axes.collections if found.get_zorder() == 4)
        text = next(text for text in axes.texts if text.get_text() == str(step))
        assert ring.get_offsets().tolist()[0] == pytest.approx(list(text.get_position()))
        mode = str(plan.configuration.mode).replace(", ", "\n")
        assert f"answer, step {step}:\n{mode}\nbatch 16" in labels(axes)


def test_one_knob_alone_has_the_steps_upwards():
    (axes,) = panels(*searched(rows=[row(gpu) for gpu in GPU]))
    assert names(axes) == ("GPU clock (MHz)", "step")
    assert cells(axes) == [(0, 0), (1, 1), (2, 2)]


def test_a_single_point_has_its_clock():
    (axes,) = panels(*searched(rows=[row(300.0)]))
    assert names(axes) == ("GPU clock (MHz)", "step")
    assert cells(axes) == [(0, 0)]
    assert arrows(axes) == []


def test_batch_sizes_are_an_axis_too():
    (axes,) = panels(*searched(rows=[row(gpu, batch=batch) for gpu in GPU for batch in (1, 4)]))
    assert names(axes) == ("GPU clock (MHz)", "batch size (samples)")
    assert ticks(axes.yaxis) == ["1", "4"]


def test_only_the_best_so_far_of_many_points_are_numbered_and_joined():
    trace, plan = searched(rows=[row(100.0 + step) for step in range(250)])
    (axes,) = panels(trace, plan)
    assert len(cells(axes)) == 250
    once_best = [step.step for step in trace.rows if step.best and step.objective == step.best]
    assert len(once_best) > 24
    assert set(numbers(axes)) <= set(once_best[-24:])
    assert len(arrows(axes)) == 6
    assert {"numbers: steps with a new best", "arrows: the last 6 of 23\nnew bests"} <= set(labels(axes))


def test_known_points_are_hollow_and_not_on_the_way():
    axes, *_ = panels(*searched(known=TABLE[:3]))
    assert numbers(axes) == list(range(4, 13))
    assert "within budget, known before" in labels(axes)


def test_many_known_points_are_left_out_unless_there_are_no_others():
    rows = [row(100.0 + step) for step in range(60)]
    (axes,) = panels(*searched(rows=rows, known=rows[:50]))
    assert len(cells(axes)) == 10
    assert "50 known before: not shown" in labels(axes)
    (axes,) = panels(*searched(rows=rows, known=rows, max_points=0))
    assert len(cells(axes)) == 60


def test_failures_and_searches_without_answer_are_drawn():
    axes, *_ = panels(*searched(failing=TABLE[:2]))
    assert "failed" in labels(axes)
    assert numbers(axes) == list(range(1, 13))
    axes, *_ = panels(*searched(replace(TRAIN, power_budget_w=5.0)))
    assert "no answer: nothing within budget" in labels(axes)


def test_without_power_the_way_is_drawn_all_the_same():
    axes, *_ = panels(*searched(Problem("train"), [replace(found, power_w=None) for found in TABLE]))
    assert len(cells(axes)) == 12


def test_a_knob_as_found_in_some_modes_is_said_to_be():
    steps = (
        TraceRow(1, "net", "train", 16, gpu_mhz=300.0, mem_mhz=2133.0, minibatch_s=0.1),
        TraceRow(2, "net", "train", 16, gpu_mhz=600.0, minibatch_s=0.1),
    )
    (axes,) = panels(Trace(Header.new(KIND, VERSION), steps))
    assert ticks(axes.yaxis) == ["as found", "2133"]


def test_the_background_workload_has_a_row_beside_the_batch_sizes():
    rows = [row(gpu, batch=batch, task="infer") for gpu in GPU for batch in (1, 4, 16)] + [row(gpu) for gpu in GPU]
    trace, plan = searched(PAIR, rows)
    (axes,) = panels(trace, plan)
    assert ticks(axes.yaxis) == ["train batch 16", "infer batch 1", "infer batch 4", "infer batch 16"]
    assert axes.get_ylabel() == "workload and batch size (samples)"
    assert len([cell for cell in cells(axes) if cell[1] == 0]) == len([r for r in trace.rows if r.task == "train"])
    assert "cannot be judged" not in labels(axes)


def test_a_batch_size_across_says_whose_it_is():
    rows = [row(300.0, batch=batch, task="infer") for batch in (1, 4)]
    (axes,) = panels(*searched(PAIR, [*rows, row(300.0)]))
    assert names(axes) == ("workload and batch size (samples)", "step")
    assert ticks(axes.xaxis) == ["train\nbatch\n16", "infer\nbatch\n1", "infer\nbatch\n4"]
    tags = [replace(found, workload="tags") for found in rows]
    problem = replace(PAIR, kind="infer+infer", background="tags", background_batch_size=4)
    (axes,) = panels(*searched(problem, [*rows, *tags]))
    assert ticks(axes.xaxis) == ["second\nbatch\n4", "infer\nbatch\n1", "infer\nbatch\n4"]


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 4)), min_size=1, max_size=40),
    st.sampled_from([(225.0, 150.0), (100.0, 300.0)]),
)
def test_steps_of_one_cell_stand_side_by_side_within_it(places, paper_pt):
    visits = [
        TrajectoryPoint(Point("net", "train", 2**y, Mode(gpu_mhz=float(x))), step, "within", False, True)
        for step, (x, y) in enumerate(places, 1)
    ]
    grid = grid_of([visit.point for visit in visits], (), None, visits)
    for across, up in grid.panels:
        found, size_pt = positions(grid, across, up, visits, paper_pt)
        wide, high = paper_pt[0] / len(grid.values[across]), paper_pt[1] / len(grid.values[up])
        for visit in visits:
            x, y = found[visit.step]
            assert abs(x - grid.place(visit, across)) < 0.5
            assert abs(y - grid.place(visit, up)) < 0.5
        for (ax, ay), (bx, by) in combinations(found.values(), 2):
            assert max(abs(ax - bx) * wide, abs(ay - by) * high) >= min(size_pt, 2.6) * 0.9

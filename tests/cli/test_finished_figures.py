"""Figures at the end of a run: none changes its exit code, hides the longest request, or leaves out without saying."""

import builtins
import json
import sys
from pathlib import Path

import pytest
from command_line import assert_two_lines

from edgetune.plotting import figure_file
from edgetune.workflows.schedule import plan

TWIN = ("--device", "twin:orin-agx")
RUNS = {
    "interleave": (("interleave", "plan.yaml", *TWIN, "--duration", "2s"), "run.parquet"),
    "schedule run": (("schedule", "run", "jobs.yaml", "--simulate"), "timeline.parquet"),
    "kernels simulate": (("schedule", "kernels", "simulate", "tasks.yaml"), "kernels.parquet"),
    "search evaluate": (
        ("search", "evaluate", "table.csv", "--strategies", "random:3", "--jobs", "1"), "evaluation.parquet",
    ),
    "search": (("search", "table.csv", "--power-budget", "30W", "--trace", "trace.parquet"), "trace.parquet"),
    "roofline": (("roofline", "zoo:squeezenet", *TWIN, "-o", "roof.yaml"), "roof.yaml"),
}  # fmt: skip
"""Each with the file that it writes."""


@pytest.fixture(autouse=True)
def folder(inputs_folder):
    return inputs_folder


@pytest.mark.parametrize("name", RUNS)
def test_a_figure_that_fails_changes_no_exit_code(edgetune, monkeypatch, name):
    words, file = RUNS[name]
    plain = edgetune(*words)
    assert plain.code == 0, plain.err
    Path(file).unlink()

    def fail(*_):
        raise RuntimeError("no glyph")

    with monkeypatch.context() as patched:
        patched.setattr(figure_file, "figure_bytes", fail)
        ended = edgetune(*words, "--plot", "figure.svg")
    assert ended.code == 0
    assert len(ended.out.splitlines()) == len(plain.out.splitlines()), "the summary, or the plan"
    (warning,) = (line for line in ended.lines if line.startswith("warning: "))
    assert "figure.svg was not drawn: unexpected: RuntimeError: no glyph" in warning
    assert "error:" not in ended.err
    assert Path(file).exists()
    assert not Path("figure.svg").exists()
    if name != "roofline":
        assert f"edgetune show {file} --plot figure.svg" in warning
        assert edgetune(*warning.partition("; then: edgetune ")[2].split()).code == 0


@pytest.mark.parametrize("name", RUNS)
def test_without_matplotlib_nothing_is_run(edgetune, folder, monkeypatch, name):
    before, real = sorted(folder.iterdir()), builtins.__import__

    def refuse(module, *rest):
        if module.partition(".")[0] == "matplotlib":
            raise ImportError(module)
        return real(module, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    ended = edgetune(*RUNS[name][0], "--plot", "figure.svg")
    assert_two_lines(ended, 4)
    assert ended.lines[1] == "hint: pip install 'edgetune[plot]'"
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize("name", RUNS)
def test_a_figure_in_no_format_is_refused_before_anything_is_run(edgetune, folder, name):
    before = sorted(folder.iterdir())
    assert_two_lines(edgetune(*RUNS[name][0], "--plot", "figure.jpg"), 2)
    assert sorted(folder.iterdir()) == before


def test_kept_rows_of_a_failed_run_are_drawn_and_its_exit_code_stays(edgetune, folder, monkeypatch):
    """The optimum cannot be searched for without its package, which has gone since it was looked for; the other ran."""
    monkeypatch.setitem(sys.modules, "ortools.sat.python", None)
    words = ("schedule", "run", "jobs.yaml", "--simulate", "--policy", "reuse,optimum")
    before = sorted(folder.iterdir())
    assert_two_lines(edgetune(*words), 4)
    assert sorted(folder.iterdir()) == before
    monkeypatch.setattr(plan, "require_ortools", lambda: None)
    plain = edgetune(*words)
    assert (plain.code, "OR-Tools" in plain.err) == (4, True)
    drawn = edgetune(*words, "--plot", "figure.svg")
    assert (drawn.code, "OR-Tools" in drawn.err) == (4, True)
    assert Path("figure.svg").exists()


def test_the_longest_request_is_in_every_figure_of_a_run(edgetune, folder):
    """One request takes a hundred times as long as the others."""
    assert edgetune("interleave", "plan.yaml", *TWIN, "--duration", "2m", "-o", "run.json", "-q").code == 0
    document = json.loads(Path("run.json").read_text(encoding="utf-8"))
    requests = [row for row in document["rows"] if row["event"] == "request"]
    assert len(requests) > 3000, "so many that they are drawn as bands"
    for row in requests:
        row["deadline_s"] = row["met"] = None
    slow = requests[2000]
    slow["finished_s"] = slow["arrived_s"] + 100 * (slow["finished_s"] - slow["arrived_s"])
    took_s = slow["finished_s"] - slow["arrived_s"]
    Path("run.json").write_text(json.dumps(document), encoding="utf-8")
    from edgetune.artifacts.io import read
    from edgetune.artifacts.run import Run
    from edgetune.stages.interleave.figures.latency import latency_figure
    from edgetune.stages.interleave.figures.timeline import timeline_figure

    run = read(Run, "run.json")
    for figure in (latency_figure(run), timeline_figure(run)):
        assert any(shows(axes, took_s) for axes in figure.axes)


def shows(axes, seconds: float) -> bool:
    """Whether a marker of the axes, in whatever unit, is at a time, within the limits of the axis."""
    across = "latency" in axes.get_xlabel() or "response" in axes.get_xlabel()
    low, high = axes.get_xlim() if across else axes.get_ylim()
    label = axes.get_xlabel() if across else axes.get_ylabel()
    factor = next((factor for unit, factor in (("(ms", 1e3), ("(µs", 1e6)) if unit in label), 1.0)
    marked = [line for line in axes.lines if line.get_marker() not in ("None", "")]
    values = [float(value) for line in marked for value in (line.get_xdata() if across else line.get_ydata())]
    at = factor * seconds
    return low <= at <= high and any(abs(value - at) < 1e-6 * at for value in values)

"""What is left of a long run: rows on the disk as they come, and figures, of which none changes an exit code."""

import builtins
import errno
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from command_line import assert_two_lines, drawn

from edgetune.artifacts import file_operations, io
from edgetune.artifacts.header import Header
from edgetune.artifacts.rows_file import RowsFile, completed, left_rows
from edgetune.artifacts.run import Run, RunRow
from edgetune.plotting import figure_file

TWIN = ("--device", "twin:orin-agx")
INTERLEAVE = ("interleave", "plan.yaml", *TWIN, "--duration", "2s")
SCHEDULE = ("schedule", "run", "jobs.yaml", "--simulate")


@pytest.fixture(autouse=True)
def folder(inputs_folder):
    return inputs_folder


def hidden(folder):
    return sorted(path for path in folder.iterdir() if path.name.endswith(".rows.json"))


@pytest.mark.parametrize("words", [INTERLEAVE, SCHEDULE], ids=["interleave", "schedule run"])
def test_a_full_disk_at_the_end_keeps_the_rows_and_the_hint_makes_the_file_of_them(
    edgetune, folder, words, monkeypatch
):
    assert edgetune(*words, "-o", "whole.parquet").code == 0
    assert hidden(folder) == []
    whole = io.from_bytes(Path("whole.parquet").read_bytes(), kind=kind_of(words), name="whole")

    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(file_operations, "rename", full)
    ended = edgetune(*words, "-o", "run.parquet")
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    assert ended.code == 2
    assert "No space left" in ended.err
    (rows,) = hidden(folder)
    hint = ended.lines[-1]
    assert f"{len(whole.rows)} of {len(whole.rows)} rows are in {rows.name}" in hint
    command = hint.partition("then: edgetune ")[2].split()
    assert edgetune(*command).code == 0
    again = io.from_bytes(Path("run.parquet").read_bytes(), kind=kind_of(words), name="run")
    assert again.rows == whole.rows
    assert [each.code for each in again.header.warnings] == ["unfinished"]
    assert edgetune("show", "run.parquet").code == 0


def kind_of(words):
    return "run" if words is INTERLEAVE else "timeline"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
def test_a_disk_that_fills_up_at_the_end(edgetune, folder):
    disk = folder / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(disk)], check=False).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        rows = RowsFile(disk / "run.parquet", Header.new("run", 1), RunRow)
        for number in range(1000):
            rows.keep(RunRow("managed", "power", float(number), power_w=1.0))
        rows.flush()
        size = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
        (disk / "ballast").write_bytes(bytes(max(size - 4096, 0)))
        for number in range(1000):
            rows.keep(RunRow("managed", "power", 1000.0 + number, power_w=1.0))
        rows.finish()
        assert rows.kept == 1000
        found = io.read(Run, str(rows.path))
        assert [row.finished_s for row in found.rows] == [float(number) for number in range(len(found.rows))]
        assert len(found.rows) >= 1000
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def test_a_killed_run_leaves_the_rows_that_came_and_the_next_one_names_them(edgetune, folder):
    """The run is real: a file that trains in steps of some milliseconds."""
    (folder / "train.py").write_text("import time\ndef make(batch_size):\n    return lambda: time.sleep(0.005)\n")
    words = ("interleave", "--train", "train.py", "--device", "host", "--duration", "60s", "-o", "run.parquet")
    with subprocess.Popen(
        [sys.executable, "-m", "edgetune", *words], cwd=folder, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL
    ) as process:
        until_s = time.monotonic() + 60
        while time.monotonic() < until_s and process.poll() is None:
            if hidden(folder) and hidden(folder)[0].read_text(encoding="utf-8").count('"event": "train"') > 20:
                break
            time.sleep(0.05)
        assert left_rows(folder / "run.parquet") == [], "it is in use"
        process.send_signal(signal.SIGKILL)
    (rows,) = hidden(folder)
    assert not (folder / "run.parquet").exists()
    assert left_rows(folder / "run.parquet") == [folder / rows.name]
    assert edgetune("show", rows.name, "-o", "kept.parquet").code == 0
    kept = io.read(Run, "kept.parquet")
    assert len(kept.rows) > 20
    assert kept.header.inputs["tenants"][0]["name"] == "train"
    told = edgetune(*INTERLEAVE, "-o", "run.parquet")
    assert told.code == 0
    assert f"edgetune show {rows.name} -o FILE keeps them" in told.err
    assert hidden(folder) == [rows]


def test_a_file_of_rows_cut_at_any_byte_is_read_to_its_last_whole_row(folder):
    rows = RowsFile(folder / "run.parquet", Header.new("run", 1, conditions={"simulated": True}), RunRow)
    for number in range(4):
        rows.keep(RunRow("managed", "power", float(number), power_w=1.0, reason='"}\n{'))
        rows.flush()
    rows.finish()
    text = rows.path.read_text(encoding="utf-8")
    begin = text.index('"rows": [') + len('"rows": [')
    counts = []
    for size in range(begin, len(text) + 1):
        document = json.loads(completed(text[:size]))
        counts.append(len(document["rows"]))
        assert document["rows"] == json.loads(completed(text))["rows"][: counts[-1]]
    assert counts == sorted(counts)
    assert (counts[0], counts[-1]) == (0, 4)
    assert len(io.read(Run, str(rows.path)).rows) == 4


def test_the_rows_of_two_runs_lie_apart_and_links_are_not_followed(folder):
    victim = folder / "victim"
    (folder / ".run.parquet.rows.json").symlink_to(victim)
    first, second = (RowsFile(folder / "run.parquet", Header.new("run", 1), RunRow) for _ in range(2))
    assert (first.path.name, second.path.name) == (".run.parquet-2.rows.json", ".run.parquet-3.rows.json")
    assert not victim.exists()
    for each in (first, second):
        each.discard()
    assert [path.name for path in hidden(folder)] == [".run.parquet.rows.json"]


def test_a_disk_that_is_full_before_the_run_is_reported_before_it(edgetune, folder, monkeypatch):
    real = file_operations.write

    def full(descriptor, data):
        if bytes(data[:1]) == b"{":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(descriptor, data)

    monkeypatch.setattr(file_operations, "write", full)
    ended = edgetune(*INTERLEAVE, "-o", "run.parquet")
    assert ended.code == 2
    assert "rows cannot be kept beside run.parquet: No space left" in ended.lines[-2]
    assert hidden(folder) == []


def test_a_disk_that_is_full_in_the_middle_has_the_run_elsewhere(edgetune, folder, monkeypatch):
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(elsewhere))
    real = file_operations.write

    def full(descriptor, data):
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        if not path.is_relative_to(elsewhere) and bytes(data[:1]) != b"{":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(descriptor, data)

    monkeypatch.setattr(file_operations, "write", full)
    ended = edgetune(*INTERLEAVE, "-o", "run.parquet")
    assert ended.code == 2
    assert f"it is in {elsewhere / 'run.parquet'} instead" in ended.lines[-1]
    assert io.read(Run, str(elsewhere / "run.parquet")).rows
    assert hidden(folder) == []
    assert not (folder / "run.parquet").exists()


# Figures

RUNS = {
    "interleave": (("interleave", "plan.yaml", *TWIN, "--duration", "2s"), "run.parquet"),
    "schedule run": (("schedule", "run", "jobs.yaml", "--simulate"), "timeline.parquet"),
    "kernels simulate": (("schedule", "kernels", "simulate", "tasks.yaml"), "kernels.parquet"),
    "search": (("search", "table.csv", "--power-budget", "30W", "--trace", "trace.parquet"), "trace.parquet"),
    "roofline": (("roofline", "zoo:squeezenet", *TWIN, "-o", "roof.yaml"), "roof.yaml"),
}  # fmt: skip
"""Each with the file that it writes."""


@pytest.mark.parametrize("name", drawn(list(RUNS), 2))
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

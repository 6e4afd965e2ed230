"""A timeline of some kB whose figure would take gigabytes is refused in two lines."""

from dataclasses import replace
from pathlib import Path

import pytest
from command_line import assert_two_lines

from edgetune.artifacts import io
from edgetune.artifacts.io import read_any

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.mark.parametrize(("kind", "column"), [("kernel_timeline", "sm"), ("timeline", "worker")])
def test_a_lane_of_a_number_without_end_is_refused(edgetune, tmp_path, kind, column):
    artifact = read_any(str(next(GOLDEN.rglob(f"{kind}-v1.parquet"))))
    rows = [row if getattr(row, column) is None else replace(row, **{column: 2**62}) for row in artifact.rows]
    file = tmp_path / "bomb.parquet"
    io.write(replace(artifact, rows=tuple(rows)), file)
    ended = edgetune("show", str(file), "--plot", str(tmp_path / "x.svg"))
    assert_two_lines(ended, 2)
    assert "limit figure_lanes" in ended.err
    assert not (tmp_path / "x.svg").exists()


@pytest.mark.parametrize("view", ["latency", "timeline"])
def test_a_run_of_thousands_of_tenants_is_refused(edgetune, tmp_path, view):
    artifact = read_any(str(GOLDEN / "run-v1.parquet"))
    row = next(row for row in artifact.rows if row.event == "request" and row.status == "ok")
    rows = tuple(replace(row, tenant=f"t{number}", minibatch=number) for number in range(1500))
    file = tmp_path / "bomb.parquet"
    io.write(replace(artifact, rows=rows), file)
    ended = edgetune("show", str(file), "--plot", str(tmp_path / "x.svg"), "--view", view)
    assert_two_lines(ended, 2)
    assert "limit figure_panels" in ended.err


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # in a callback of gc
def test_a_drawing_ends_within_its_time(edgetune, tmp_path):
    artifact = read_any(str(GOLDEN / "run-v1.parquet"))
    row = next(row for row in artifact.rows if row.event == "request" and row.status == "ok")
    rows = tuple(replace(row, deadline_s=row.deadline_s + 0.001 * number) for number in range(10_000))
    file = tmp_path / "bomb.parquet"
    io.write(replace(artifact, rows=rows), file)
    command = ["show", str(file), "--plot", str(tmp_path / "x.svg"), "--view", "timeline"]
    ended = edgetune("--raise-limit", "figure_seconds=1", *command)
    assert_two_lines(ended, 2)
    assert "limit figure_seconds" in ended.err
    assert not (tmp_path / "x.svg").exists()

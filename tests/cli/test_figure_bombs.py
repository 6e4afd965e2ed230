"""A timeline of some kB whose figure would take gigabytes is refused in two lines."""

from dataclasses import replace
from pathlib import Path

import pytest
from command_line import assert_two_lines

from edgetune.artifacts import io
from edgetune.artifacts.any_file import read_any

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.mark.parametrize(
    ("kind", "column"),
    [("kernel_timeline", "sm"), ("timeline", "worker")],
)
def test_a_lane_of_a_number_without_end_is_refused(edgetune, tmp_path, kind, column):
    artifact = read_any(str(next(GOLDEN.rglob(f"{kind}-v1.parquet"))))
    rows = [row if getattr(row, column) is None else replace(row, **{column: 2**62}) for row in artifact.rows]
    file = tmp_path / "bomb.parquet"
    io.write(replace(artifact, rows=tuple(rows)), file)
    ended = edgetune("show", str(file), "--plot", str(tmp_path / "x.svg"))
    assert_two_lines(ended, 2)
    assert "limit figure_lanes" in ended.err
    assert not (tmp_path / "x.svg").exists()

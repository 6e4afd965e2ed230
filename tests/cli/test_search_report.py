"""What a search says of its steps and of what it found."""

import sys

import pytest

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.trace import TraceRow
from edgetune.workflows.search.notes import describe_step


@pytest.mark.parametrize(
    ("figures", "text"),
    [
        (
            {"minibatch_s": 0.25, "power_w": 12.0, "feasible": True, "reason": "drawn"},
            "step 3: 1 core, GPU 300 MHz, batch 8: 250 ms, 12 W, within budget (drawn)",
        ),
        ({"reason": "crashed"}, "step 3: 1 core, GPU 300 MHz, batch 8: failed, cannot tell (crashed)"),
    ],
)
def test_a_step_says_where_it_was(figures, text):
    mode = Mode(cpu_cores=1, gpu_mhz=300.0)
    assert describe_step(TraceRow(3, "net", "train", 8, **mode.knobs(), **figures)) == text


def test_a_search_on_screen_counts_known_points_and_shows_measured_ones(edgetune, tmp_path, monkeypatch):
    model = ("zoo:squeezenet", "--task", "infer", "--device", "twin:orin-agx", "--modes", "gpu_mhz=114:1301")
    table = str(tmp_path / "known.parquet")
    assert edgetune("profile", *model, "--batch-sizes", "4", "-o", table).code == 0
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    words = (
        "--strategy",
        "exhaustive",
        "--batch-sizes",
        "4,8",
        "--known",
        table,
        "--arrival-rate",
        "60/s",
        "--latency-budget",
        "1s",
    )
    ended = edgetune("search", *model, *words, "-o", str(tmp_path / "plan.yaml"))
    assert ended.code == 0, ended.err
    assert ended.err.count("step ") == 13
    assert "known from earlier" not in ended.err
    last = ended.err.splitlines()[-1]
    assert "answers within" in last
    assert last.endswith("; 13 points measured, 13 known")

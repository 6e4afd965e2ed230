"""``edgetune show FILE --plot FIGURE``: a figure or two lines."""

import pytest
from command_line import assert_two_lines

TABLE = """workload,task,batch_size,gpu_mhz,minibatch_s,power_w,device
net,train,16,300,0.20,12,twin:orin-agx
net,train,16,900,0.09,29,twin:orin-agx
"""


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text(TABLE)
    return str(path)


@pytest.mark.parametrize(("suffix", "start"), [("svg", b"<?xml"), ("png", b"\x89PNG")])
def test_a_profile_is_drawn(edgetune, table, tmp_path, suffix, start):
    target = tmp_path / f"figure.{suffix}"
    ended = edgetune("show", table, "--plot", str(target))
    assert (ended.code, ended.out, ended.err) == (0, "", f"wrote {target}\n")
    first = target.read_bytes()
    assert first.startswith(start)
    edgetune("show", table, "--plot", str(target))
    assert target.read_bytes() == first


def test_each_view_of_a_search_is_a_figure_of_its_own(edgetune, table, tmp_path):
    trace = tmp_path / "trace.parquet"
    edgetune("search", table, "--power-budget", "30W", "--trace", str(trace))
    drawn = {}
    for view in ("steps", "front"):
        target = tmp_path / f"{view}.svg"
        assert edgetune("show", str(trace), "--plot", str(target), "--view", view).code == 0
        drawn[view] = target.read_bytes()
    assert len(set(drawn.values())) == 2


def test_a_view_that_is_none_is_two_lines(edgetune, table, tmp_path):
    trace, target = tmp_path / "trace.parquet", str(tmp_path / "figure.svg")
    edgetune("search", table, "--power-budget", "30W", "--trace", str(trace))
    misspelt = edgetune("show", str(trace), "--plot", target, "--view", "fornt")
    assert_two_lines(misspelt, 2)
    assert_two_lines(edgetune("show", table, "--plot", target, "--view", "front"), 2)
    assert_two_lines(edgetune("show", str(trace), "--view", "front"), 2)


@pytest.mark.parametrize("target", ["figure.jpg", "/nowhere/figure.svg"])
def test_a_figure_that_cannot_be_written_is_two_lines(edgetune, table, target):
    assert_two_lines(edgetune("show", table, "--plot", target), 2)

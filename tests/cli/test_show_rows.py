"""Long tables are cut where nobody would read on, and say so."""

import pytest


@pytest.fixture
def table(tmp_path):
    lines = [f"net,train,16,{100 + row},{1 / (100 + row)},{5 + row / 100}" for row in range(30)]
    path = tmp_path / "table.csv"
    path.write_text("\n".join(["workload,task,batch_size,gpu_mhz,minibatch_s,power_w", *lines, ""]))
    return path


def test_as_many_rows_as_asked_for_and_how_many_are_left(edgetune, table):
    ended = edgetune("show", str(table), "--rows", "4")
    assert ended.code == 0, ended.err
    assert [line.split()[0] for line in ended.out.splitlines()[-5:-1]] == ["100", "101", "102", "103"]
    assert ended.out.splitlines()[-1] == "... and 26 more rows (--rows 0 prints all)"


@pytest.mark.parametrize("rows", ["0", "30"])
def test_all_rows(edgetune, table, rows):
    ended = edgetune("show", str(table), "--rows", rows)
    assert ended.out.splitlines()[-1].split()[0] == "129"

"""Long tables are cut where nobody would read on, and say so."""

import pytest
import yaml


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


@pytest.mark.parametrize("rows", ["0"])
def test_all_rows(edgetune, table, rows):
    ended = edgetune("show", str(table), "--rows", rows)
    assert ended.out.splitlines()[-1].split()[0] == "129"


def test_a_table_of_another_program_has_the_energy_of_its_plan(edgetune, tmp_path):
    path, plan = tmp_path / "mine.csv", tmp_path / "plan.yaml"
    path.write_text("model,task,batch_size,gpu_mhz,latency_ms,power_w\na,infer,1,300,5.1,10\na,infer,1,600,2.7,15\n")
    ended = edgetune("show", str(path))
    assert "51.0 mJ" in next(line for line in ended.out.splitlines() if line.split()[:1] == ["300"])
    found = edgetune("search", str(path), "--power-budget", "12W", "--latency-budget", "1s", "--arrival-rate", "5/s",
                     "-o", str(plan))  # fmt: skip
    assert found.code == 0, found.err
    measured = yaml.safe_load(plan.read_text(encoding="utf-8"))["measured"]
    assert (measured["minibatch_s"], measured["energy_j"]) == (0.0051, pytest.approx(0.051))

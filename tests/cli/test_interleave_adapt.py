"""``edgetune interleave --adapt`` while rates and power budgets change, on the twin."""

import pytest

from edgetune.artifacts import io
from edgetune.artifacts.mode import KNOBS, Mode
from edgetune.artifacts.run import Run

PAIR = ("interleave", "--device", "twin:orin-agx", "--infer", "zoo:mobilenet_v2", "--train", "zoo:resnet18", "-q")
MODES = "cpu_cores=4,cpu_mhz=1651.2,mem_mhz=3199,gpu_mhz=318.75:1300.5:4"


def mode_of(row):
    return Mode(**{knob: getattr(row, knob) for knob in KNOBS})


def rows_of(path, event):
    return [row for row in io.read(Run, str(path)).rows if row.event == event]


def test_a_budget_cut_in_the_middle_is_met_within_three_sensor_periods_and_held(edgetune, tmp_path):
    file = tmp_path / "run.parquet"
    ended = edgetune(
        *PAIR, "--arrivals", "uniform:30", "--latency-budget", "400ms", "--adapt", "--power-budget", "30W,20W@60s",
        "--modes", MODES, "--duration", "2m", "-o", str(file),
    )  # fmt: skip
    assert ended.code == 0, ended.err
    power = rows_of(file, "power")
    period_s = power[1].finished_s - power[0].finished_s
    after = [row for row in power if row.finished_s > 60.0 + 3 * period_s]
    assert len(after) > 50
    assert max(row.power_w for row in after) <= 20.0
    assert {row.power_budget_w for row in after} == {20.0}
    assert max(row.power_w for row in power if row.finished_s <= 60.0) > 20.0
    assert sum(not row.met for row in rows_of(file, "request")) <= 1


@pytest.fixture
def rates(tmp_path):
    file = tmp_path / "rates.csv"
    file.write_text("rate_per_s\n12\n36\n12\n")
    return file


def test_a_plan_with_tables_changes_among_their_points(edgetune, tmp_path, rates):
    plan, file = tmp_path / "plan.yaml", tmp_path / "run.parquet"
    slow, tables = "cpu_cores=4,cpu_mhz=1036.8,mem_mhz=3199,gpu_mhz=318.75", []
    for modes in (slow, MODES):
        for task, network, sizes in (("infer", "zoo:mobilenet_v2", "1,4"), ("train", "zoo:resnet18", "16")):
            tables.append(str(tmp_path / f"{len(tables)}.parquet"))
            measured = ("--device", "twin:orin-agx", "-b", sizes, "--modes", modes, "-q", "-o", tables[-1])
            ended = edgetune("profile", network, "-t", task, *measured)
            assert ended.code == 0, ended.err
    ended = edgetune(
        "search", *tables[:2], "--kind", "train+infer", "--power-budget", "30W", "--latency-budget", "600ms",
        "--arrival-rate", "12/s", "-q", "-o", str(plan),
    )  # fmt: skip
    assert ended.code == 0, ended.err
    ended = edgetune(
        "interleave", str(plan), *PAIR[1:], "--arrivals", f"trace:{rates}:60s", "--adapt",
        *(word for table in tables for word in ("--profile", table)), "--duration", "3m", "-o", str(file),
    )  # fmt: skip
    assert ended.code == 0, ended.err
    known = {(row.batch_size, row.mode) for table in tables for row in io.read_profile(table).rows}
    plans = rows_of(file, "plan")
    assert plans
    assert {(row.batch_size, mode_of(row)) for row in plans} <= known
    assert max(row.power_w for row in rows_of(file, "power")) <= 30.0

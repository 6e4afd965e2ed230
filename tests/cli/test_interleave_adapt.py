"""``edgetune interleave --adapt`` while rates and power budgets change, on the twin."""

from edgetune.artifacts import io
from edgetune.artifacts.run import Run

PAIR = ("interleave", "--device", "twin:orin-agx", "--infer", "zoo:mobilenet_v2", "--train", "zoo:resnet18", "-q")
MODES = "cpu_cores=4,cpu_mhz=1651.2,mem_mhz=3199,gpu_mhz=318.75:1300.5:4"


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

"""The answer of tuning as a plan: what it holds, that it survives a file, and that a twin is tuned end to end."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from benchmarks.twin import microbenchmark
from edgetune.artifacts import io
from edgetune.artifacts.header import DataWarning, Header
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.ops import OpRow, OpsTable
from edgetune.artifacts.plan import Configuration
from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import Point, ProfileRow, Task
from edgetune.artifacts.roofline import Roof
from edgetune.devices.device import open_device
from edgetune.devices.modes import parse_modes
from edgetune.devices.twin.constants import load_board
from edgetune.devices.twin.physics import Clocks
from edgetune.stages.profiling.options import ProfileOptions
from edgetune.stages.profiling.profiler import Profiler
from edgetune.stages.roofline.slowdown_forecast import fastest_mode, forecast_modes
from edgetune.stages.roofline.tune import Measure, tune, tuned_plan
from edgetune.workloads.costs import operator_table
from edgetune.workloads.resolve import resolve

TOP, LOW = Mode(8, 2000.0, 1000.0, 2000.0), Mode(8, 2000.0, 500.0, 2000.0)
ROOFS = [Roof(TOP, "fp32", 100.0, 10.0, 8.0, 0.1, 0.5), Roof(LOW, "fp32", 50.0, 10.0, 6.0, 0.05, 0.5)]
TABLE = OpsTable(
    Header("ops", 1, "", ""), "net", "infer", 4, "fp32", 0, False,
    (OpRow("copy", "Relu", "elementwise", "forward", "modelled", (), (), "float32", 0, 10, 10, 40, 0, 0),),
)  # fmt: skip


def _row(mode: Mode, seconds: float, power_w: float, task: Task = "infer") -> ProfileRow:
    row = ProfileRow("net", task, 4, seconds, power_w=power_w, energy_j=power_w * seconds)
    return replace(row, **mode.knobs())  # type: ignore[arg-type]


def _tuned(measure: Measure, task: Task = "infer"):  # type: ignore[no-untyped-def]
    reference = _row(TOP, 4.0, 14.0, task)
    table = replace(TABLE, task=task)
    return tune(forecast_modes(table, ROOFS, TOP, reference), measure, reference, 0.05, noise=0.0)


def test_the_plan_says_what_was_asked_found_and_measured() -> None:
    tuned = _tuned(lambda mode: _row(mode, 4.1, 12.0))
    assert tuned.best is not None
    plan = tuned_plan(
        tuned,
        inputs={"workload": {"name": "net", "sha256": "00"}},
        conditions={"device": "board"},
        warnings=(DataWarning("no-power", "none"),),
        seed=3,
    )
    assert plan.configuration == Configuration(LOW, batch_size=4)
    assert plan.problem == Problem("infer", objective="energy")
    measured = plan.measured
    assert (measured.minibatch_s, measured.power_w, measured.latency_s) == (4.1, 12.0, 4.1)
    assert (measured.throughput_per_s, measured.energy_j) == pytest.approx((4 / 4.1, 49.2))
    assert plan.predicted is not None
    assert plan.predicted.minibatch_s == tuned.best.candidate.seconds
    assert plan.predicted.energy_j == tuned.best.candidate.energy_j
    assert (plan.search.strategy, plan.search.points_measured, plan.search.seed) == ("roofline-tune", 2, 3)
    assert plan.header.conditions["device"] == "board"
    assert plan.header.conditions["tune"] == {
        "slowdown_share": 0.05,
        "model_error_share": 0.0,
        "reference": TOP.knobs(),
        "reference_minibatch_s": 4.0,
        "reference_energy_j": 56.0,
        "measured_slowdown_share": pytest.approx(0.025),
        "measured_saving_share": pytest.approx(1 - 49.2 / 56),
    }
    assert [warning.code for warning in plan.header.warnings] == ["no-power"]
    assert io.from_bytes(plan.to_bytes(), kind="plan", name="plan.yaml") == plan


def test_a_plan_of_the_reference_names_failed_modes() -> None:
    plan = tuned_plan(_tuned(lambda mode: replace(_row(mode, 4.1, 12.0), status="throttled", reason="too hot")))
    assert plan.configuration.mode == TOP
    assert plan.measured.energy_j == 56.0
    assert plan.predicted is None
    failed, nothing = plan.header.warnings
    assert (failed.code, failed.numbers) == ("tune-points-failed", {"points": 1.0})
    assert failed.advice.endswith(f"{LOW}: too hot")
    assert (nothing.code, nothing.numbers) == ("tune-saves-nothing", {"slowdown_share": 0.05})
    assert io.from_bytes(plan.to_bytes(), kind="plan", name="plan.yaml") == plan


# A twin, measured as any device is


def _twin_roofs() -> list[Roof]:
    space = load_board("orin-agx")[0].space
    modes = parse_modes("cpu_mhz=1000:2201.6:6,cpu_cores=2|8|12,gpu_mhz=300:1300.5,mem_mhz=665.6|2133|3199", space)
    found = microbenchmark(load_board("orin-agx")[0].values, Clocks.of(modes))
    return [
        Roof(
            mode,
            "tf32",
            flops_per_s=float(found.flops_per_s[row]),
            bytes_per_s=float(found.bytes_per_s[row]),
            static_w=float(found.static_w[row]),
            flop_j=float(found.flop_j[row]),
            byte_j=float(found.byte_j[row]),
        )
        for row, mode in enumerate(modes)
    ]


@contextmanager
def _twin(network: str, task: Task) -> Iterator[Profiler]:
    with Profiler(open_device("twin:orin-agx"), resolve(f"zoo:{network}"), task, ProfileOptions()) as profiler:
        yield profiler


@pytest.mark.parametrize("network", ["resnet50", "lstm"])
@pytest.mark.parametrize(("task", "batch_size"), [("infer", 1), ("train", 16)])
def test_five_percent_of_speed_save_energy_on_the_twin(network: str, task: Task, batch_size: int) -> None:
    roofs = _twin_roofs()
    table = operator_table(resolve(f"zoo:{network}"), task, batch_size, precision="fp32")
    reference = fastest_mode(table, roofs)
    assert reference == Mode(12, 2201.6, 1300.5, 3199.0)
    with _twin(network, task) as profiler:

        def measure(mode: Mode) -> ProfileRow:
            return profiler.measure(Point(table.workload, task, batch_size, mode))

        row = measure(reference)
        tuned = tune(forecast_modes(table, roofs, reference, row), measure, row, 0.05, noise=0.0)
        again = measure(tuned.row.mode)
    assert again.minibatch_s <= 1.05 * row.minibatch_s  # type: ignore[operator]
    assert again.energy_j < 0.995 * row.energy_j  # type: ignore[operator]
    assert tuned.measurements <= 6

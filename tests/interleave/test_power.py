"""Power in a run: every reading is a row, the budget has a course, and the governor's steps are told."""

from dataclasses import replace

import pytest

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.run import RunRow
from edgetune.errors import DeviceError
from edgetune.serving.arrivals import ArrivalSpec
from edgetune.serving.clock import EventClock
from edgetune.stages.interleave.loop import EngineTurn, InterleaveLoop
from edgetune.stages.interleave.policies.managed import Managed
from edgetune.stages.interleave.power import NS, Budgets, Governor, MeasuredMode, PowerWatcher, SimulatedReadings
from edgetune.stages.interleave.simulated import SimulatedDevice, SimulatedMinibatchBackend
from edgetune.stages.interleave.tenants import Inference, Training

LOW, HIGH = Mode(gpu_mhz=300.0), Mode(gpu_mhz=600.0)
POWER_W = {LOW: 10.0, HIGH: 30.0}
INFER_S, TRAIN_S = {LOW: 0.02, HIGH: 0.01}, {LOW: 0.06, HIGH: 0.03}


def governed(steps, *, refresh_s=1.0, accept=lambda mode: mode, alone=False, duration_s=20.0):
    """Return the rows of a run at 10 requests a second that begins in the higher mode."""
    tenants = [Inference("cam", 1, 0.2, 10.0, INFER_S[HIGH]), Training("job", 16, TRAIN_S[HIGH])]

    def duration_ns(name, size, mode):
        return round((INFER_S if name == "cam" else TRAIN_S)[mode] * NS)

    def drawn_w(name, size, mode):
        return 4.0 if name is None else POWER_W[mode]

    stage = SimulatedMinibatchBackend(
        EventClock(), tenants, SimulatedDevice(duration_ns, mode=HIGH, accept=accept, power_w=drawn_w)
    )
    rungs = [
        MeasuredMode(mode, POWER_W[mode], 16 / TRAIN_S[mode], {"cam": INFER_S[mode], "job": TRAIN_S[mode]})
        for mode in (LOW, HIGH)
    ]
    if alone:
        rungs = [rungs[1], replace(rungs[1], power_w=7.0, worth=-0.01, trains=False)]
    budgets = Budgets(steps)
    governor = Governor(rungs, next(rung for rung in rungs if rung.mode == HIGH), budgets.at(0.0))
    watcher = PowerWatcher(SimulatedReadings(stage.power.mean_w, 0), refresh_s, 0, budgets, governor)
    end_ns = round(duration_s * NS)
    source = ArrivalSpec("uniform", (10.0,)).source(0, end_ns)
    loop = InterleaveLoop(
        EngineTurn("simulated", end_ns), stage, Managed(guard_ns=0), tenants, {"cam": source}, watchers=[watcher]
    )
    loop.run()
    return loop.rows


def of(rows, event):
    return [row for row in rows if row.event == event]


def test_the_course_of_a_budget():
    budgets = Budgets(((0.0, 30.0), (60.0, 20.0), (120.0, 25.0)))
    assert [budgets.at(time_s) for time_s in (0.0, 59.9, 60.0, 119.0, 120.0, 1e6)] == [
        30.0,
        30.0,
        20.0,
        20.0,
        25.0,
        25.0,
    ]
    assert budgets.at(-1e-9) == 30.0


def test_every_reading_is_written_down_beside_its_budget():
    readings = of(governed(((0.0, 35.0), (10.0, 34.0))), "power")
    assert [row.finished_s for row in readings] == [float(second) for second in range(1, 20)]
    assert all(5.0 < row.power_w < 30.001 for row in readings)
    assert [row.power_budget_w for row in readings] == [35.0] * 9 + [34.0] * 10


def test_a_cut_is_carried_out_when_it_comes_and_held():
    rows = governed(((0.0, 35.0), (10.25, 15.0)))
    (step,) = of(rows, "mode")
    assert step.finished_s == pytest.approx(10.25, abs=0.05)  # the minibatch that runs is finished
    assert (step.gpu_mhz, step.power_budget_w, step.reason) == (300.0, 15.0, "the budget is 15 W now")
    assert all(row.power_w <= 15.0 for row in of(rows, "power") if row.finished_s >= 12.25)
    assert all(row.met for row in of(rows, "request"))
    assert max(row.finished_s - row.started_s for row in of(rows, "train") if row.started_s > 10.4) > 0.05


def test_a_budget_that_rises_again_is_used_after_a_while():
    rows = governed(((0.0, 35.0), (5.0, 15.0), (10.0, 35.0)), duration_s=40.0)
    assert [row.gpu_mhz for row in of(rows, "mode")] == [300.0, 600.0]
    assert of(rows, "mode")[-1].finished_s == pytest.approx(20.0, abs=1.1)


def test_a_mode_that_is_refused_is_reported_and_the_run_goes_on():
    def accept(mode):
        raise DeviceError("the kernel refused 300 MHz", "set it by hand")

    rows = governed(((0.0, 35.0), (5.0, 15.0)), accept=accept)
    assert of(rows, "mode")[0].reason == "refused: the kernel refused 300 MHz"
    assert of(rows, "mode")[0].status == "failed"
    assert of(rows, "request")[-1].finished_s > 19.8


def test_training_pauses_where_no_mode_fits_with_it():
    rows = governed(((0.0, 35.0), (10.0, 8.0)), alone=True)
    assert "training pauses" in of(rows, "mode")[0].reason
    assert max(row.started_s for row in of(rows, "train")) < 10.1
    assert all(row.power_w <= 8.0 for row in of(rows, "power") if row.finished_s >= 12.0)


def test_a_sensor_without_anything_new_writes_nothing():
    readings = SimulatedReadings(lambda from_ns, to_ns: (to_ns - from_ns) / NS, 0)
    assert readings(0) == ()
    assert readings(2 * NS) == ((2 * NS, 2.0),)
    assert readings(2 * NS) == ()


def test_a_reading_from_before_the_run_is_left_out():
    tenants = [Inference("cam", 1, 0.2, 1.0, 0.01)]
    stage = SimulatedMinibatchBackend(EventClock(), tenants, SimulatedDevice(lambda *_: NS // 100))
    readings = [[(-1, 7.0), (NS // 2, 8.0)], [(3 * NS // 2, 9.0)]]
    watcher = PowerWatcher(lambda _: readings.pop(0), 1.0, 0)
    sources = {"cam": ArrivalSpec("uniform", (1.0,)).source(0, 5 * NS // 2)}
    loop = InterleaveLoop(
        EngineTurn("simulated", 5 * NS // 2), stage, Managed(guard_ns=0), tenants, sources, watchers=[watcher]
    )
    loop.run()
    assert [(row.finished_s, row.power_w) for row in of(loop.rows, "power")] == [(0.5, 8.0), (1.5, 9.0)]


def test_rows_of_others_are_nothing_to_it():
    watcher = PowerWatcher(lambda now_ns: (), 1.0, 0)
    watcher.on_row(RunRow("simulated", "train", 1.0))
    watcher.on_arrival("cam", 5)
    assert watcher.due_ns() == NS

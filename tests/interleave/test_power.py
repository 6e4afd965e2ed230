"""Power in a run: every reading is a row beside the budget of the moment."""

from edgetune.serving.arrivals import ArrivalSpec
from edgetune.serving.clock import EventClock
from edgetune.stages.interleave.loop import EngineTurn, InterleaveLoop
from edgetune.stages.interleave.policies.managed import Managed
from edgetune.stages.interleave.power import NS, Budgets, PowerWatcher, SimulatedReadings
from edgetune.stages.interleave.simulated import SimulatedDevice, SimulatedMinibatchBackend
from edgetune.stages.interleave.tenants import Inference, Training


def powered(steps):
    """Return the rows of a run at 10 requests a second."""
    tenants = [Inference("cam", 1, 0.2, 10.0, 0.01), Training("job", 16, 0.03)]
    times_ns = {tenant.name: round(tenant.minibatch_s * NS) for tenant in tenants}
    device = SimulatedDevice(lambda name, *_: times_ns[name], power_w=lambda name, *_: 4.0 if name is None else 30.0)
    stage = SimulatedMinibatchBackend(EventClock(), tenants, device)
    watcher = PowerWatcher(SimulatedReadings(stage.power.mean_w, 0), 1.0, 0, Budgets(steps))
    source = ArrivalSpec("uniform", (10.0,)).source(0, 20 * NS)
    loop = InterleaveLoop(
        EngineTurn("simulated", 20 * NS), stage, Managed(guard_ns=0), tenants, {"cam": source}, watchers=[watcher]
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
    readings = of(powered(((0.0, 35.0), (10.0, 34.0))), "power")
    assert [row.finished_s for row in readings] == [float(second) for second in range(1, 20)]
    assert all(5.0 < row.power_w < 30.001 for row in readings)
    assert [row.power_budget_w for row in readings] == [35.0] * 9 + [34.0] * 10


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

"""Planning anew on a simulated device, from known points and without needless violations."""

from simulated_run import NS, device_of, of, simulated

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import ProfileRow
from edgetune.errors import DeviceError
from edgetune.serving.arrivals import ArrivalSpec
from edgetune.stages.interleave.backend import Inference, Training
from edgetune.stages.interleave.cycle import CycleGoals
from edgetune.stages.interleave.planner import CycleChooser, TenantNames
from edgetune.stages.interleave.power import Budgets, PowerWatcher, SimulatedReadings
from edgetune.stages.interleave.replan import Replanner

SLOW, FAST, FASTEST = (Mode(gpu_mhz=mhz) for mhz in (300.0, 600.0, 1200.0))
SPEED = {SLOW: 1.0, FAST: 2.0, FASTEST: 4.0}
POWER_W = {SLOW: 10.0, FAST: 15.0, FASTEST: 25.0}
NAMES = TenantNames("cam", "net", "job", "net", 16)
BUDGET_S = 0.4


def takes_s(task, size, mode):
    """A batch takes 16 ms and 4 ms a request at the slowest clock, a training step 80 ms."""
    return (0.08 if task == "train" else 0.016 + 0.004 * size) / SPEED[mode]


def row(task, size, mode):
    time_s = takes_s(task, size, mode)
    return ProfileRow("net", task, size, time_s, power_w=POWER_W[mode], **mode.knobs())


def rows(mode, sizes=(1, 4, 8, 16)):
    return [*(row("infer", size, mode) for size in sizes), row("train", 16, mode)]


class Followed:
    """A run whose rate changes, and the planner that followed it."""

    def __init__(self, rates_per_s, known, *, window_s=60.0, budgets=None, accept=lambda mode: mode):
        self.choices = CycleChooser(
            NAMES, known, CycleGoals(BUDGET_S, None, None if budgets is None else budgets[0][1])
        )
        present = self.choices.best(rates_per_s[0])
        infer, train = present.cycle.infer, present.cycle.train
        tenants = [Inference("cam", infer.batch_size, BUDGET_S, rates_per_s[0], infer.minibatch_s)]
        tenants += [Training("job", 16, train.minibatch_s)]

        def duration_ns(name, size, mode):
            return round(takes_s("train" if name == "job" else "infer", size, mode) * NS)

        def drawn_w(name, size, mode):
            return 5.0 if name is None else POWER_W.get(mode, 10.0)

        stage = device_of(tenants, duration_ns, mode=infer.mode, accept=accept, power_w=drawn_w)
        end_ns = round(window_s * len(rates_per_s) * NS)
        readings = SimulatedReadings(stage.power.mean_w, 0)
        power = PowerWatcher(readings, 1.0, 0, None if budgets is None else Budgets(budgets))
        source = ArrivalSpec("trace", tuple(rates_per_s), window_s, "uniform").source(0, end_ns, 1)
        watchers = [power, Replanner(NAMES, self.choices, present, rate_per_s=rates_per_s[0], begin_ns=0)]
        self.loop = simulated(tenants, {"cam": source}, end_ns / NS, stage=stage, watchers=watchers)

    def of(self, event):
        return of(self.loop, event)

    @property
    def plans(self):
        return self.of("plan")

    @property
    def late(self):
        return [row for row in self.of("request") if not row.met]


def test_a_rate_that_rose_is_served_from_known_points():
    run = Followed([40.0, 150.0], [*rows(SLOW), *rows(FAST)])
    assert [row.gpu_mhz for row in run.plans][-1] == 600.0
    assert all(60.0 < row.finished_s < 75.0 for row in run.plans)
    assert run.late == []


def test_a_rate_that_fell_is_answered_in_time_all_along():
    run = Followed([120.0, 15.0, 120.0], rows(FAST))
    assert run.late == []


def test_a_mode_that_is_refused_is_reported_and_the_run_goes_on():
    def accept(mode):
        if mode != SLOW:
            raise DeviceError("the kernel refused 600 MHz", "set it by hand")
        return mode

    known = [*rows(SLOW), row("infer", 16, FAST), row("train", 16, FAST)]
    run = Followed([40.0, 160.0], known, budgets=((0.0, 12.0), (30.0, 20.0)), accept=accept)
    refused = [plan for plan in run.plans if plan.status == "failed"]
    assert {plan.reason.partition("; ")[2] for plan in refused} == {"refused: the kernel refused 600 MHz"}
    assert {plan.gpu_mhz for plan in run.plans} == {300.0}
    assert run.of("request")[-1].finished_s > 119.0


def test_power_beyond_the_budget_is_learnt_and_left():
    frugal = [row("infer", 16, FAST), row("train", 16, FAST)]
    lies = [ProfileRow("net", "infer", 16, takes_s("infer", 16, FASTEST), power_w=12.0, **FASTEST.knobs())]
    lies += [ProfileRow("net", "train", 16, takes_s("train", 16, FASTEST), power_w=12.0, **FASTEST.knobs())]
    run = Followed([100.0], [*frugal, *lies], budgets=((0.0, 16.0),))
    assert [row.gpu_mhz for row in run.plans] == [600.0]
    assert run.plans[0].finished_s < 4.0
    assert run.late == []


def test_violations_come_only_while_no_configuration_exists():
    rates = [40.0, 120.0, 520.0, 30.0, 160.0, 60.0]
    run = Followed(rates, [*rows(SLOW), *rows(FAST)], window_s=20.0)
    possible = [run.choices.best(rate).grade != "least" for rate in rates]
    assert possible == [True, True, False, True, True, True]
    caught_up_s = min(row.arrived_s for row in run.of("request") if row.arrived_s > 60.0 and row.met)
    assert all(40.0 <= row.arrived_s < caught_up_s for row in run.late)
    assert run.late


def test_the_choice_with_most_training_is_kept_unless_another_is_clearly_better():
    choices = CycleChooser(NAMES, [*rows(SLOW), *rows(FAST)], CycleGoals(BUDGET_S, None))
    best = choices.best(40.0)
    assert (best.grade, best.cycle.infer.mode) == ("fits", FAST)
    nearly = [setting for setting in ((8, FAST, True), (16, FAST, True)) if setting != best.setting]
    assert choices.best(40.0, nearly[0]).setting in (best.setting, nearly[0])
    assert choices.best(40.0, (1, SLOW, True)).setting == best.setting


def test_training_pauses_where_only_answering_is_within_the_power_budget():
    known = [row("infer", 16, FAST), ProfileRow("net", "train", 16, 0.04, power_w=40.0, **FAST.knobs()), *rows(SLOW)]
    run = Followed([40.0, 160.0], known, budgets=((0.0, 20.0),))
    after = [row for row in run.of("train") if row.started_s > run.plans[-1].finished_s]
    assert (run.plans[-1].gpu_mhz, after) == (600.0, [])
    assert run.late == []


def test_a_budget_that_changes_is_followed():
    run = Followed([40.0, 40.0], [*rows(SLOW), *rows(FAST)], budgets=((0.0, 20.0), (60.0, 12.0)))
    assert [plan.gpu_mhz for plan in run.plans] == [300.0]
    assert 60.0 <= run.plans[0].finished_s < 63.0
    assert run.late == []

"""Planning anew on a simulated device: known points first, tries only where none fits, and no needless violations."""

import math
from collections import deque

import pytest

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.errors import DeviceError
from edgetune.serving.arrivals import ArrivalSpec
from edgetune.serving.clock import EventClock
from edgetune.stages.interleave.cycle import CycleGoals
from edgetune.stages.interleave.cycle_choice import CycleChoice, CycleChooser, TenantNames
from edgetune.stages.interleave.loop import EngineTurn, InterleaveLoop
from edgetune.stages.interleave.policies.managed import Managed
from edgetune.stages.interleave.power import Budgets, PowerWatcher, SimulatedReadings
from edgetune.stages.interleave.replan import SHARE, Replanner
from edgetune.stages.interleave.simulated import SimulatedDevice, SimulatedMinibatchBackend
from edgetune.stages.interleave.tenants import Inference, Training

NS = 1_000_000_000
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

    def __init__(
        self, rates_per_s, known, offers=(), *, window_s=60.0, power_budget_w=None, accept=lambda mode: mode,
        durations=None, training=True, spacing="uniform", begin=None,
    ):  # fmt: skip
        names = NAMES if training else TenantNames("cam", "net")
        self.choices = CycleChooser(names, known, CycleGoals(BUDGET_S, None, power_budget_w))
        present = self.choices.best(begin or rates_per_s[0])
        infer, train = present.cycle.infer, present.cycle.train
        tenants = [Inference("cam", infer.batch_size, BUDGET_S, rates_per_s[0], infer.minibatch_s)]
        tenants += [Training("job", 16, train.minibatch_s)] if training else []
        self.offers, self.asked = deque(offers), []

        def duration_ns(name, size, mode):
            return round((durations or takes_s)("train" if name == "job" else "infer", size, mode) * NS)

        def drawn_w(name, size, mode):
            return 5.0 if name is None else POWER_W.get(mode, 10.0)

        stage = SimulatedMinibatchBackend(
            EventClock(),
            tenants,
            SimulatedDevice(
                duration_ns, mode=infer.mode, accept=accept, power_w=drawn_w, apply_ns=10_000_000, prepare_ns=20_000_000
            ),
        )
        self.duration_s = window_s * len(rates_per_s)
        end_ns = round(self.duration_s * NS)
        self.replanner = Replanner(
            names, self.choices, self.suggest, present, rate_per_s=rates_per_s[0], begin_ns=0, end_ns=end_ns
        )
        budgets = None if power_budget_w is None else Budgets(((0.0, power_budget_w),))
        power = PowerWatcher(SimulatedReadings(stage.power.mean_w, 0), 1.0, 0, budgets)
        source = ArrivalSpec("trace", tuple(rates_per_s), window_s, spacing).source(0, end_ns, 1)
        watchers = [power, self.replanner]
        self.loop = InterleaveLoop(
            EngineTurn("simulated", end_ns), stage, Managed(guard_ns=0), tenants, {"cam": source}, watchers=watchers
        )
        self.loop.run()

    def suggest(self, rate_per_s):
        self.asked.append(rate_per_s)
        return self.offers.popleft() if self.offers else None

    def of(self, event):
        return [row for row in self.loop.rows if row.event == event]

    @property
    def plans(self):
        return [row for row in self.of("plan") if row.started_s is None]

    @property
    def tries(self):
        return [row for row in self.of("plan") if row.started_s is not None]

    @property
    def late(self):
        return [row for row in self.of("request") if not row.met]


def test_a_steady_rate_changes_nothing():
    run = Followed([40.0, 40.0], rows(SLOW))
    assert (run.of("plan"), run.late, run.asked) == ([], [], [])


def test_a_rate_that_rose_is_served_from_known_points_and_nothing_is_tried():
    run = Followed([40.0, 150.0], [*rows(SLOW), *rows(FAST)], begin=None)
    assert run.asked == []
    assert run.tries == []
    assert [row.gpu_mhz for row in run.plans][-1] == 600.0
    assert all(60.0 < row.finished_s < 75.0 for row in run.plans)
    assert run.late == []


def test_a_rate_that_fell_is_answered_in_time_all_along():
    run = Followed([120.0, 15.0, 120.0], rows(FAST))
    assert run.late == []
    assert run.asked == []


def test_where_nothing_known_fits_a_point_is_tried_on_the_requests_that_come():
    offered = Point("net", "infer", 16, FAST)
    run = Followed([40.0, 160.0], rows(SLOW), [offered], power_budget_w=20.0)
    (tried,) = run.tries
    assert (tried.batch_size, tried.gpu_mhz, tried.status) == (16, 600.0, "ok")
    assert tried.reason == "tried: a batch of 16 took 40 ms, training 40 ms, 15 W"
    assert "points tried: 1" in run.plans[-1].reason
    known = {row.point: row for row in run.choices.rows}
    assert known[offered].minibatch_s == pytest.approx(takes_s("infer", 16, FAST))
    assert known[Point("net", "train", 16, FAST)].minibatch_s == pytest.approx(takes_s("train", 16, FAST))
    assert all(row.arrived_s < tried.finished_s + 5.0 for row in run.late)


def test_time_spent_trying_is_counted_and_bounded():
    useless = [Point("net", "infer", 1, Mode(gpu_mhz=200.0 - step)) for step in range(60)]
    run = Followed([20.0, 70.0, 100.0, 140.0], rows(SLOW, (1,)), useless, window_s=10.0, durations=lambda *_: 0.02)
    spent_s = math.fsum(row.finished_s - row.started_s for row in run.tries)
    assert len(run.tries) >= 3
    assert spent_s == pytest.approx(run.replanner.exploring_s)
    assert spent_s <= SHARE * run.duration_s + 0.05  # the last minibatch and what changing the mode takes


def test_an_abandoned_rate_is_not_tried_again():
    offers = [Point("net", "infer", 2, SLOW)]
    run = Followed([40.0, 250.0, 40.0, 260.0], rows(SLOW), offers, window_s=20.0)
    assert len(run.asked) == 2  # once for the point, once to learn that there is no other; nothing at 260/s
    assert any("nothing measured serves it" in row.reason for row in run.plans)


def test_a_try_that_cannot_keep_up_is_over_after_three_minibatches():
    run = Followed([40.0, 160.0], rows(SLOW), [Point("net", "infer", 1, SLOW)])
    (tried,) = run.tries
    ran = [row for row in run.of("request") if row.started_s >= tried.started_s and row.finished_s <= tried.finished_s]
    assert len({row.minibatch for row in ran}) <= 4


def test_a_try_over_the_power_budget_ends_with_the_reading_that_says_so():
    offers = [Point("net", "infer", 16, FASTEST), Point("net", "infer", 16, FAST)]
    run = Followed([40.0, 160.0], rows(SLOW), offers, power_budget_w=20.0, window_s=130.0)
    first, second = run.tries
    assert first.finished_s - first.started_s < 2.2
    assert run.plans[-1].gpu_mhz == second.gpu_mhz == 600.0
    over = [row for row in run.of("power") if row.power_w > 20.0]
    assert all(first.started_s <= row.finished_s <= first.finished_s + 1.0 for row in over)


def test_a_mode_that_is_refused_is_reported_and_the_run_goes_on():
    def accept(mode):
        if mode != SLOW:
            raise DeviceError("the kernel refused 600 MHz", "set it by hand")
        return mode

    run = Followed([40.0, 160.0], rows(SLOW), [Point("net", "infer", 16, FAST)], accept=accept)
    (tried,) = run.tries
    assert (tried.status, tried.reason) == ("failed", "tried: refused: the kernel refused 600 MHz")
    assert run.plans[-1].gpu_mhz == 300.0
    assert run.of("request")[-1].finished_s > 119.0


def test_power_beyond_the_budget_is_learnt_and_left():
    frugal = [row("infer", 16, FAST), row("train", 16, FAST)]
    lies = [ProfileRow("net", "infer", 16, takes_s("infer", 16, FASTEST), power_w=12.0, **FASTEST.knobs())]
    lies += [ProfileRow("net", "train", 16, takes_s("train", 16, FASTEST), power_w=12.0, **FASTEST.knobs())]
    run = Followed([100.0], [*frugal, *lies], power_budget_w=16.0)
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


def test_without_training_or_power_the_quickest_is_chosen():
    choices = CycleChooser(TenantNames("cam", "net"), rows(SLOW), CycleGoals(BUDGET_S, None))
    assert choices.best(10.0).grade == "fits"
    assert choices.strongest(10.0).infer.batch_size == 16
    assert isinstance(choices.best(1e4), CycleChoice)
    assert choices.best(1e4).grade == "least"


def test_training_pauses_where_only_answering_is_within_the_power_budget():
    known = [row("infer", 16, FAST), ProfileRow("net", "train", 16, 0.04, power_w=40.0, **FAST.knobs()), *rows(SLOW)]
    run = Followed([40.0, 160.0], known, power_budget_w=20.0)
    after = [row for row in run.of("train") if row.started_s > run.plans[-1].finished_s]
    assert (run.plans[-1].gpu_mhz, after) == (600.0, [])
    assert run.late == []


def test_a_point_is_over_the_power_budget_where_one_lower_in_every_knob_is():
    known = [row("infer", 8, FAST), row("train", 16, FAST)]
    choices = CycleChooser(NAMES, known, CycleGoals(BUDGET_S, None, 14.0))
    assert choices.draws_too_much(Point("net", "infer", 8, FASTEST))
    assert choices.draws_too_much(Point("net", "train", 16, FASTEST))
    assert not choices.draws_too_much(Point("net", "infer", 8, SLOW))
    assert not choices.draws_too_much(Point("net", "infer", 4, FASTEST))
    choices.goals = CycleGoals(BUDGET_S, None, 15.0)
    assert not choices.draws_too_much(Point("net", "infer", 8, FASTEST))

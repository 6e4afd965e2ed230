"""The simulated stage: a device's arithmetic, closed-form queues, and faults on purpose."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from simulated_run import MS, NS, device_of, evenly, simulated

from edgetune.artifacts.mode import Mode
from edgetune.devices.device import Contention
from edgetune.errors import DeviceError, InputError
from edgetune.serving.arrivals import ArrivalSpec
from edgetune.stages.interleave.admission import NEVER_NS
from edgetune.stages.interleave.backend import Inference, Minibatch, Training
from edgetune.stages.interleave.simulated import Fault
from edgetune.workflows.interleave.turns import slowdown_of

CAMERA = Inference("camera", 4, 0.1, 60.0, 0.01)
NIGHT = Training("night", 16, 0.02)
LATE = Training("late", 16, 0.04)


def stage_of(*tenants, **options):
    return device_of(tenants or (CAMERA, NIGHT, LATE), **options)


def ends_ms(stage):
    """Everything that ends from now on: who, from when, until when."""
    found = []
    while over := stage.wait(None):
        found += [(done.minibatch.tenant, done.start_ns / MS, done.end_ns / MS) for done in over]
    return found


def infer(number=0, count=4):
    return Minibatch("camera", "infer", number, tuple(range(count)))


def test_a_minibatch_takes_its_time_and_nothing_else_lasts():
    stage = stage_of()
    assert list(stage.wait(None)) == []
    stage.start(infer())
    assert list(stage.wait(4 * MS)) == []
    assert stage.now_ns() == 4 * MS
    (done,) = stage.wait(None)
    assert (done.start_ns, done.end_ns, done.minibatch.requests) == (0, 10 * MS, (0, 1, 2, 3))
    assert (list(stage.wait(None)), stage.now_ns()) == ([], 10 * MS)
    assert (list(stage.wait(5 * MS)), stage.now_ns()) == ([], 10 * MS), "a time that has passed"


def test_two_at_once_share_the_device():
    # 10 ms and 20 ms of work from t = 0: both at half speed until 20 ms, the second alone for its last 10 ms
    stage = stage_of()
    stage.start(infer())
    stage.start(Minibatch("night", "train", 0))
    assert ends_ms(stage) == [("camera", 0, 20), ("night", 0, 30)]


def test_two_at_once_slow_each_other_down_as_the_pair_was_measured():
    # camera takes three times as long beside night, night 1.25 times: 10 ms of camera end at 30, when night has done
    # 30 / 1.25 = 24 of its 20 ms: it ended at 25, and camera, with 25 / 3 done by then, at 25 + 10 - 25 / 3.
    slowdown = {("camera", "night"): 3.0, ("night", "camera"): 1.25}
    stage = stage_of(CAMERA, NIGHT, slowdown=lambda tenant, other: slowdown[tenant, other])
    stage.start(Minibatch("night", "train", 0))
    stage.start(infer())
    (night, camera) = ends_ms(stage)
    assert night == ("night", 0.0, pytest.approx(25.0))
    assert camera == ("camera", 0.0, pytest.approx(25 + 10 - 25 / 3))


def test_three_at_once_share_the_device_and_one_that_comes_later_takes_its_part():
    # night and late (20, 40) alone until 10 ms: 5 ms done each; then three: camera's 10 ms take 30 ms, to 40 ms, when
    # night has 5 ms left (to 50 ms) and late 25 ms: 20 ms of them remain at 50 ms
    stage = stage_of()
    stage.start(Minibatch("night", "train", 0))
    stage.start(Minibatch("late", "train", 0))
    stage.wait(10 * MS)
    stage.start(infer())
    assert ends_ms(stage) == [("camera", 10, 40), ("night", 0, 50), ("late", 0, 70)]


def test_a_queued_minibatch_begins_when_the_one_before_has_ended():
    stage = stage_of(overhead_ns=lambda before, tenant, lined_up: (2 if lined_up else 1) * MS)
    stage.start(Minibatch("night", "train", 0))  # 1 to 21 ms
    stage.start(replace(infer(), begin_by_ns=NEVER_NS))  # 23 to 33 ms
    assert ends_ms(stage) == [("night", 1, 21), ("camera", 23, 33)]
    stage.start(replace(infer(1), begin_by_ns=NEVER_NS))
    assert ends_ms(stage) == [("camera", 34, 44)], "with nothing to wait for it begins now"


def test_a_queued_minibatch_begins_beside_the_running_one_when_it_must():
    # night alone until 5 ms; then both at half speed: camera's 10 ms until 25 ms, night's last 5 alone
    stage = stage_of()
    stage.start(Minibatch("night", "train", 0))
    stage.start(replace(infer(), begin_by_ns=5 * MS))
    assert ends_ms(stage) == [("camera", 5, 25), ("night", 0, 30)]
    assert ends_ms(stage) == []


def test_a_minibatch_queued_behind_a_lost_tenant_runs():
    stage = stage_of(fault=lambda m: Fault(failure="it crashed", lost=True) if m.task == "train" else None)
    stage.start(Minibatch("night", "train", 0))
    stage.start(replace(infer(), begin_by_ns=NEVER_NS))
    assert ends_ms(stage) == [("night", 0, 20), ("camera", 20, 30)]


def test_a_mode_that_is_refused_changes_nothing_and_one_read_back_otherwise_counts():
    def accept(mode):
        if mode.cpu_mhz == 1:
            raise DeviceError("no such clock", "take another")
        return Mode(cpu_mhz=1500.0)

    stage = stage_of(mode=Mode(cpu_mhz=1000.0), accept=accept)
    with pytest.raises(DeviceError):
        stage.apply(Mode(cpu_mhz=1.0))
    assert stage.mode == Mode(cpu_mhz=1000.0)
    assert stage.apply(Mode(cpu_mhz=1499.0)) == stage.mode == Mode(cpu_mhz=1500.0)


def test_another_batch_size_waits_for_the_tenant_and_loses_no_end():
    by_size = {4: 10 * MS, 8: 16 * MS}

    def duration_ns(tenant, size, mode):
        if size not in by_size:
            raise InputError(f"batch {size}", "another")
        return by_size[size]

    stage = stage_of(CAMERA, duration_ns=duration_ns)
    stage.start(infer())
    with pytest.raises(InputError):
        stage.prepare("camera", 3)
    assert [done.end_ns for done in stage.wait(None)] == [10 * MS]
    stage.start(infer(1))
    stage.prepare("camera", 8)
    assert stage.now_ns() == 20 * MS
    stage.start(infer(2))
    assert ends_ms(stage) == [("camera", 10, 20), ("camera", 20, 36)]


def test_energy_is_the_integral_of_power_and_two_at_once_draw_the_larger():
    watts = {None: 2.0, "camera": 10.0, "night": 30.0}
    stage = stage_of(CAMERA, NIGHT, power_w=lambda tenant, size, mode: watts[tenant])
    stage.wait(10 * MS)
    stage.start(infer())
    stage.wait(None)  # 10 to 20 ms
    stage.start(infer(1))
    stage.start(Minibatch("night", "train", 0))
    ends_ms(stage)  # 20 to 50 ms
    stage.wait(100 * MS)
    assert stage.power.energy_j(0, 100 * MS) == pytest.approx(2 * 0.06 + 10 * 0.01 + 30 * 0.03)
    assert stage.power.energy_j(15 * MS, 25 * MS) == pytest.approx(10 * 0.005 + 30 * 0.005)
    assert stage.power.mean_w(20 * MS, 50 * MS) == pytest.approx(30.0)
    assert stage.power.mean_w(30 * MS, 30 * MS) == 30.0
    assert stage_of().power is None


def test_faults_fail_a_minibatch_some_requests_or_the_tenant():
    faults = {
        ("camera", 0): Fault(failed=((1, "no image"),)),
        ("camera", 1): Fault(failure="out of memory"),
        ("night", 0): Fault(failure="no answer for 5 s", duration_ns=5 * NS, lost=True),
    }
    stage = stage_of(fault=lambda minibatch: faults.get((minibatch.tenant, minibatch.number)))
    stage.start(infer(0))
    assert [(d.failure, d.failed, d.lost) for d in stage.wait(None)] == [(None, ((1, "no image"),), False)]
    stage.start(infer(1))
    assert [(d.failure, d.lost, d.end_ns) for d in stage.wait(None)] == [("out of memory", False, 20 * MS)]
    stage.start(Minibatch("night", "train", 0))
    stage.start(Minibatch("night", "train", 1))
    hung, behind = stage.wait(None)
    assert (hung.failure, hung.lost, hung.end_ns - hung.start_ns) == ("no answer for 5 s", True, 5 * NS)
    assert (behind.failure, behind.lost, behind.end_ns) == ("its tenant had ended", True, hung.end_ns)


def test_contention_of_a_device_is_of_answers_beside_work_without_a_deadline_and_drawn_by_the_seed():
    tenants = [CAMERA, NIGHT, LATE]
    slowdown = slowdown_of(Contention((3.0,), (1.5,), "made up"), tenants, 0)
    assert (slowdown("camera", "night"), slowdown("night", "camera"), slowdown("night", "late")) == (3.0, 1.5, 2.0)
    assert slowdown_of(None, tenants, 0)("camera", "night") == 2.0
    one, other = (slowdown_of(Contention((2.0, 3.0), (1.0,), "made up"), tenants, 7) for _ in range(2))
    draws = [one("camera", "night") for _ in range(50)]
    assert set(draws) == {2.0, 3.0}
    assert draws == [other("camera", "night") for _ in range(50)]


# ---- with the loop and the policy


@pytest.mark.parametrize(("size", "rate", "time_ms"), [(1, 50, 10), (4, 50, 30), (16, 100, 60)])
def test_even_requests_wait_for_their_batch_and_its_answer(size, rate, time_ms):
    tenant = Inference("camera", size, 1.0, rate, time_ms / 1000)
    rows = simulated([tenant], {"camera": evenly(rate, 10)}, 10).rows
    whole = [row for row in rows if row.samples == size]
    assert len(whole) == (10 * rate - 1) // size * size
    for row in whole:
        position = (round(row.arrived_s * rate) - 1) % size
        assert row.finished_s - row.arrived_s == pytest.approx((size - 1 - position) / rate + time_ms / 1000, abs=1e-9)


def test_as_much_training_as_planned_runs_in_every_cycle():
    # 8 requests at 50/s: a cycle of 160 ms; 30 ms to answer leaves 130 ms: six steps of 20 ms
    tenants = (Inference("camera", 8, 0.175, 50.0, 0.03), Training("night", 16, 0.02))
    rows = simulated(tenants, {"camera": evenly(50.0, 10)}, 10).rows
    answered = sorted({(row.started_s, row.finished_s) for row in rows if row.event == "request" and row.samples == 8})
    steps = [row for row in rows if row.event == "train"]
    for (_, ended_s), (begins_s, _) in itertools.pairwise(answered):
        assert sum(ended_s <= step.started_s < begins_s for step in steps) == 6
    assert all(row.met for row in rows if row.event == "request")


def md1(rate, time_ms, count, seed):
    """Waiting times in the simulator, and their arrivals, s."""
    spec, tenant = ArrivalSpec("poisson", (rate,), spacing="poisson"), Inference("q", 1, 1e6, rate, time_ms / 1000)
    rows = simulated([tenant], {"q": spec.source(0, round(count / rate * NS), seed)}, count / rate).rows
    requests = [row for row in rows if row.event == "request"]
    waits = np.array([row.started_s - row.arrived_s for row in requests])
    return waits, np.array([row.arrived_s for row in requests])


def lindley(arrivals_s, time_s):
    """Waiting times of a queue with one server: w' = max(0, w + t - gap) (Lindley, 1952), without a loop over them."""
    walk = np.concatenate([[0.0], np.cumsum(time_s - np.diff(arrivals_s))])
    return walk - np.minimum.accumulate(walk)


def test_random_requests_wait_as_lindley_says_one_by_one():
    waits, arrivals = md1(rate=80, time_ms=10, count=5000, seed=1)
    assert waits.max() > 0.05
    np.testing.assert_allclose(waits, lindley(arrivals, 0.010), atol=1e-8)


def test_random_requests_wait_as_long_as_pollaczek_and_khinchine_say():
    # the same arrivals as the loop sees, and the recursion shown above to be what it does: so a million is affordable
    load, time_s, count = 0.7, 0.01, 1_000_000
    rate = load / time_s
    source = ArrivalSpec("poisson", (rate,), spacing="poisson").source(0, round(count / rate * NS), 3)
    waits = lindley(np.array(source.take(count * NS)) / NS, time_s)
    assert waits.mean() == pytest.approx(load * time_s / (2 * (1 - load)), rel=0.01)

"""The loop on a simulated device: what is written down, what is abandoned, and what watchers may do."""

import os
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest
from simulated_run import MS, NS, device_of, of, simulated

from edgetune.artifacts.mode import Mode
from edgetune.serving.requests import LineArrivals, ScheduledArrivals
from edgetune.stages.interleave.admission import NEVER_NS
from edgetune.stages.interleave.backend import Inference, Training
from edgetune.stages.interleave.loop import EngineTurn, InterleaveLoop, Watcher
from edgetune.stages.interleave.policies.managed import Managed
from edgetune.stages.interleave.simulated import Fault
from edgetune.stages.interleave.state import Serve, Train, Wait


def at_ms(*times_ms):
    return ScheduledArrivals(iter([round(ms * MS) for ms in times_ms]))


class FullBatchesFirst:
    """Serves full batches, trains otherwise: no deadline is looked at."""

    def decide(self, snapshot):
        if any(queue.since_ns is not None for queue in snapshot.queues):
            return Wait(None)
        if any(job.since_ns is not None for job in snapshot.jobs):
            return Wait(None)
        for queue in snapshot.queues:
            if len(queue.arrivals_ns) >= queue.batch_size or (queue.ended and queue.arrivals_ns):
                return Serve(queue.name, min(queue.batch_size, len(queue.arrivals_ns)))
        willing = [job.name for job in snapshot.jobs if not job.resting]
        return Train(willing[0]) if willing else Wait(None)


def run(
    arrivals_ms,
    *,
    batch=1,
    end_ms=1000,
    infer_ms=10,
    train_ms=30,
    training=True,
    fault=None,
    watchers=(),
    source=None,
    **turn,
):
    tenants = [Inference("cam", batch, 0.05, 10.0, infer_ms / 1e3)]
    tenants += [Training("job", 16, train_ms / 1e3)] if training else []
    faults = {} if fault is None else {"fault": fault}
    sources = {"cam": source or at_ms(*arrivals_ms)}
    return simulated(tenants, sources, end_ms / 1e3, FullBatchesFirst(), watchers=watchers, turn=turn, **faults)


def test_a_request_alone_is_served_when_the_step_before_it_ends():
    loop = run([35], end_ms=100)
    (request,) = of(loop, "request")
    assert (request.arrived_s, request.started_s, request.finished_s) == (0.035, 0.06, 0.07)
    assert (request.met, request.deadline_s, request.status) == (True, pytest.approx(0.085), "ok")
    assert [row.started_s for row in of(loop, "train")] == [0.0, 0.03, 0.07]
    assert [row.samples for row in of(loop, "train")] == [16, 16, 16]


def test_live_requests_that_wait_at_the_end_are_abandoned():
    read, write = os.pipe()
    os.write(write, b"line\n" * 8)
    loop = run([], end_ms=25, training=False, source=LineArrivals(read, end_ns=25 * MS))
    os.close(read)
    os.close(write)
    rows = of(loop, "request")
    assert Counter(row.status for row in rows) == {"ok": 3, "abandoned": 5}
    assert {row.finished_s for row in rows if row.status == "abandoned"} == {0.025}
    assert max(row.finished_s for row in rows) == 0.03


def test_a_stop_finishes_what_runs_and_abandons_what_waits():
    asked = iter([False] * 6 + [True] * 100)
    loop = run([5, 6], batch=5, stopped=lambda: next(asked))
    assert {row.status for row in of(loop, "request")} == {"abandoned"}
    assert all(row.met is False for row in of(loop, "request"))
    assert all(row.status == "ok" for row in of(loop, "train"))


def test_rows_are_kept_when_the_run_breaks_off():
    class Interrupts(FullBatchesFirst):
        def decide(self, snapshot):
            if snapshot.now_ns >= 40 * MS and snapshot.queues[0].since_ns is not None:
                raise KeyboardInterrupt
            return super().decide(snapshot)

    tenants = [Inference("cam", 2, 0.05, 10.0, 0.01)]
    sources = {"cam": at_ms(1, 2, 40, 41, 42)}
    loop = InterleaveLoop(EngineTurn("simulated", NS), device_of(tenants), Interrupts(), tenants, sources)
    with pytest.raises(KeyboardInterrupt):
        loop.run()
    assert [(row.status, row.arrived_s) for row in of(loop, "request")] == [
        ("ok", 0.001), ("ok", 0.002), ("abandoned", 0.04), ("abandoned", 0.041),
    ]  # fmt: skip


def test_a_failed_batch_fails_its_requests_and_a_failed_request_only_itself():
    def fault(minibatch):
        if minibatch.task == "train":
            return None
        return [Fault("it raised"), Fault(failed=((2, "a bad input"),))][minibatch.number]

    loop = run([1, 2, 30, 40], batch=2, fault=fault, training=False)
    rows = of(loop, "request")
    assert [row.status for row in rows] == ["failed", "failed", "failed", "ok"]
    assert [row.reason for row in rows] == ["it raised", "it raised", "a bad input", None]
    assert [row.met for row in rows] == [False, False, False, True]


def test_a_tenant_that_is_lost_is_not_started_again_and_the_others_go_on():
    loop = run([10, 500], fault=lambda m: Fault("it hung", lost=True) if m.task == "train" else None)
    assert len(of(loop, "train")) == 1
    assert [row.status for row in of(loop, "request")] == ["ok", "ok"]
    loop = run([10, 500], fault=lambda m: Fault("it crashed", lost=True) if m.task == "infer" else None)
    assert [row.reason for row in of(loop, "request")] == ["it crashed", "the tenant had failed"]


class Changing:
    """Changes batch size and mode once."""

    def __init__(self, at_ns):
        self.at_ns, self.seen = at_ns, []

    def due_ns(self):
        return self.at_ns

    def poll(self, now_ns, loop):
        self.at_ns = None
        loop.rebatch("cam", 3, 0.02)
        loop.apply(Mode(gpu_mhz=700.0))
        loop.record(replace(loop.row(now_ns), reason="changed"))

    def on_arrival(self, tenant, at_ns):
        assert tenant == "cam"

    def on_row(self, row):
        self.seen.append(row.event)


def test_a_watcher_changes_the_batch_size_between_minibatches_and_sees_every_row():
    watcher = Changing(at_ns=45 * MS)
    loop = run([10, 50, 51, 52], end_ms=200, watchers=[watcher])
    assert [(row.minibatch, row.samples) for row in of(loop, "request")] == [(0, 1), (1, 3), (1, 3), (1, 3)]
    assert loop.tenant("cam").batch_size == 3
    assert len(watcher.seen) == len(loop.rows)
    (changed,) = of(loop, "plan")
    assert changed.reason == "changed"


class LinesUp(FullBatchesFirst):
    """As that, and sends a step behind whatever runs."""

    def decide(self, snapshot):
        in_flight = sum(each.in_flight for each in (*snapshot.queues, *snapshot.jobs))
        if in_flight == 1 and snapshot.jobs and not snapshot.jobs[0].resting:
            return Train(snapshot.jobs[0].name, NEVER_NS)
        return super().decide(snapshot)


def test_time_is_lost_where_the_next_could_have_begun_whether_it_was_lined_up_or_not():
    tenants = [Inference("cam", 1, 0.05, 10.0, 0.01), Training("job", 16, 0.03)]
    lost_ms = {("cam", "job", True): 1, (None, "cam", False): 10, ("job", "job", True): 2}
    # The request waits for 10 ms on an idle device: 5 + 10 to 25; steps lined up: 26 to 56, 58 to 88 and 90 to 120.
    paused = [Paused(5 * MS)]
    lost = {"overhead_ns": lambda *kind: lost_ms[kind] * MS}
    loop = simulated(tenants, {"cam": at_ms(5)}, 0.06, LinesUp(), watchers=paused, **lost)
    assert [row.started_s for row in of(loop, "request")] == [0.015]
    assert [row.started_s for row in of(loop, "train")] == pytest.approx([0.026, 0.058, 0.090])
    assert loop.overhead.gaps_s == pytest.approx(0.005)
    assert loop.overhead.minibatches == 4


class Paused(Watcher):
    """Has no training until a time."""

    def __init__(self, until_ns):
        self.until_ns, self.next_ns = until_ns, 0

    def due_ns(self):
        return self.next_ns

    def poll(self, now_ns, loop):
        loop.pause_training(paused=now_ns < self.until_ns)
        self.next_ns = self.until_ns if now_ns < self.until_ns else None


def test_a_step_that_runs_when_time_is_up_is_still_seen_so_that_one_minibatch_at_most_is_lined_up_behind_it():
    queues = [Inference("full", 2, 0.2, 20.0, 0.01), Inference("partial", 8, 0.3, 20.0, 0.01)]
    sources = {"full": at_ms(45, 95), "partial": at_ms(50, 94)}
    loop = simulated([*queues, Training("job", 16, 0.04)], sources, 0.1, Managed())
    ran = sorted({(row.started_s, row.finished_s) for row in loop.rows})
    assert ran[-3] == pytest.approx((0.08, 0.12))  # the step
    assert all(after[0] >= before[1] for before, after in pairwise(ran))

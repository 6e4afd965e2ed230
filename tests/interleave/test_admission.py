"""Who may share a device: each part of the test with the numbers at which it turns over, worked out by hand."""

from dataclasses import replace

import pytest

from edgetune.stages.interleave.admission import admit
from edgetune.stages.interleave.backend import Inference, Training


def infer(name="a", *, batch=1, budget_ms=100.0, rate=10.0, takes_ms=10.0):
    return Inference(name, batch, budget_ms / 1e3, rate, takes_ms / 1e3)


def train(takes_ms, name="t"):
    return Training(name, 16, takes_ms / 1e3)


def refused(*tenants, guard_ns=0):
    admission = admit(tenants, guard_ns=guard_ns)
    assert not admission.admitted
    return admission


def admitted(*tenants, guard_ns=0):
    return admit(tenants, guard_ns=guard_ns).admitted


def test_a_minibatch_longer_than_its_budget_is_refused_at_every_rate():
    assert admitted(infer(budget_ms=10, takes_ms=10))
    admission = refused(infer(budget_ms=10, takes_ms=10.001))
    assert admission.tenant == "a"
    assert admission.reason == "a takes 10 ms, longer than its latency budget of 10 ms less 0 ms to be woken in"
    assert (admission.rates_per_s, admission.own_rate_per_s) == ({}, None)
    assert admission.hint == "no lower rates help: take a longer latency budget, other batch sizes or a faster mode"


def test_the_guard_is_taken_off_the_budget():
    assert admitted(infer(budget_ms=12, takes_ms=10), guard_ns=2_000_000)
    reason = refused(infer(budget_ms=12, takes_ms=10), guard_ns=2_000_001).reason
    assert reason == "a takes 10 ms, longer than its latency budget of 12 ms less 2 ms to be woken in"


def test_the_device_must_not_be_taken_entirely():
    queues = [infer("a", rate=40, takes_ms=10, budget_ms=900), infer("b", rate=10, takes_ms=59, budget_ms=900)]
    assert admitted(*queues)
    admission = refused(queues[0], replace(queues[1], minibatch_s=0.06))
    assert admission.tenant == "b"
    assert admission.reason == "requests take 100.0% of the device, and the sum must be below 100%: a 40.0%, b 60.0%"
    assert admission.rates_per_s["a"] == pytest.approx(4 * admission.rates_per_s["b"])
    assert 9.98 < admission.rates_per_s["b"] < 10
    assert 9.98 < admission.own_rate_per_s < 10


def test_the_nearest_rates_are_those_at_which_it_is_just_admitted():
    queue = infer(rate=250, takes_ms=10, budget_ms=900)  # 100 per second are the whole device
    admission = refused(queue)
    assert 99.9 < admission.own_rate_per_s < 100
    assert admission.rates_per_s == {"a": admission.own_rate_per_s}
    assert admission.hint == f"nearest feasible: a at {admission.own_rate_per_s:.4g}/s"
    assert admitted(replace(queue, rate_per_s=admission.own_rate_per_s))


def test_batches_spread_what_a_minibatch_takes():
    assert not admitted(infer(rate=100, takes_ms=20, budget_ms=900))
    assert admitted(infer(rate=100, takes_ms=20, budget_ms=900, batch=4))


def test_a_batch_that_cannot_fill_in_time_counts_as_the_smaller_one_as_which_it_is_served():
    # 35 ms of budget, 20 of them computing: in 15 ms two requests come, 10 ms apart; 20 of 20 ms is too much.
    admission = refused(infer(batch=4, rate=100, takes_ms=20, budget_ms=35))
    small = "in batches of 2, for no more come before one must be served"
    assert admission.reason == f"requests take 100.0% of the device, and the sum must be below 100%: a 100.0% {small}"
    assert admitted(infer(batch=4, rate=100, takes_ms=19, budget_ms=39.1))


def test_an_urgent_queue_stands_behind_the_longest_minibatch_that_is_due_later():
    lax = infer("lax", rate=1, takes_ms=40, budget_ms=500)
    assert admitted(infer("urgent", rate=10, takes_ms=10, budget_ms=50), lax)
    admission = refused(infer("urgent", rate=10, takes_ms=10, budget_ms=49), lax)
    assert admission.tenant == "urgent"
    assert admission.reason == "urgent would be late: minibatches of 50 ms can be due within 49 ms, behind one of lax"
    assert admission.own_rate_per_s is None  # however rarely it comes, it may come behind it


def test_queues_due_at_once_must_fit_one_after_another():
    assert admitted(infer("a", takes_ms=20, budget_ms=50), infer("b", takes_ms=30, budget_ms=50))
    admission = refused(infer("a", takes_ms=20, budget_ms=49), infer("b", takes_ms=30, budget_ms=49))
    assert admission.reason == "a would be late: minibatches of 50 ms can be due within 49 ms"


def test_the_remaining_budget_of_a_full_batch_counts():
    # Four requests 10 ms apart: 30 of 100 ms have gone when the batch is full; 70 are left for 15 behind 55.
    lax = infer("lax", rate=1, takes_ms=55, budget_ms=900)
    urgent = infer("urgent", batch=4, rate=100, takes_ms=15, budget_ms=100)
    assert admitted(urgent, lax)
    # With less, it is served in batches of three: 20 of 99.9 ms, which is 15 of every 30.
    assert admitted(replace(urgent, latency_budget_s=0.0999), lax)
    # With 71, in batches of one: 15 of every 10 ms is too much, so that it is four again, and late behind the other:
    # due 41 after it is full, the next 40 after that.
    admission = refused(replace(urgent, latency_budget_s=0.071), lax)
    assert admission.reason == "urgent would be late: minibatches of 85 ms can be due within 81 ms, behind one of lax"


def test_a_job_must_fit_beside_the_inference_into_an_empty_queues_budget():
    assert admitted(infer(takes_ms=10, budget_ms=100, rate=5), train(90))
    admission = refused(infer(takes_ms=10, budget_ms=100, rate=5), train(91))
    assert admission.tenant == "t"
    assert admission.reason == "t would never run: its minibatch takes 91 ms, and no gap holds more than 90 ms"
    assert (admission.rates_per_s, admission.own_rate_per_s) == ({}, None)


def test_a_queue_without_a_rate_counts_as_one_batch_and_keeps_no_rate():
    live = Inference("live", 4, 0.050, None, 0.030)
    assert admitted(live, train(20))
    admission = refused(live, train(21))
    assert (admission.tenant, admission.rates_per_s) == ("t", {})
    queues = [live, infer("b", rate=1000, takes_ms=10, budget_ms=500)]
    assert set(refused(*queues).rates_per_s) == {"b"}

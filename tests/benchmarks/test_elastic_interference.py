"""Which caps are chosen of measured pairs, and that pairs are measured where they should be; on a fake GPU."""

import pytest
from elastic_interference import KINDS, PLACES, cap, interference, kinds_of, largest
from test_elastic_gpu import built

from edgetune.stages.elastic.cuda.gpu_session import open_gpu_session
from edgetune.stages.elastic.mdtb.networks import network
from edgetune.stages.elastic.mdtb.workloads import TaskPair
from edgetune.stages.elastic.work import Call, GpuTask, KernelSequence, Logical
from edgetune.testing.fake_clock import FakeClock
from fakes.cuda_driver import FakeCuda
from fakes.cuda_gpu import FakeCudaGpu
from fakes.cuda_state import ticking

SIZES = {
    "alexnet": {"side": 63, "narrow": 16}, "resnet": {"side": 37, "narrow": 16},
    "squeezenet": {"side": 41, "narrow": 8}, "gru": {"units": 16, "inputs": 8, "steps": 2},
}  # fmt: skip
ONE = Logical((1, 1, 1), (32, 1, 1))


def of(name, arrivals="closed", **times_s):
    calls = tuple(Call(kernel, ONE, whole_s=took_s) for kernel, took_s in times_s.items())
    return GpuTask(name, KernelSequence(name, calls), arrivals=arrivals)


def slower(**factors):
    """Return pairs that are not slower, but for those by place: the critical one, and the normal one."""
    return [
        {"critical": critical, "normal": normal, "place": place, "critical_x": x, "normal_x": y, "overlap": 2.0}
        for critical in KINDS for normal in KINDS for place in PLACES
        for x, y in (factors.get(place, (1.0, 1.0)),)
    ]  # fmt: skip


def alone(half=1.0):
    """Return times alone: on a half so many times as long."""
    return {
        (where, kind): 1e-5 * (half if "half" in where else 1.0)
        for where in ("normal", "normal half")
        for kind in KINDS
    }


def test_a_network_is_a_mixture_of_kinds():
    task = of("net", convolution=3e-3, max_pool=0.5e-3, add_relu=0.5e-3, lstm_cell=1e-3)
    shares = {"convolution": 0.6, "fully_connected": 0.0, "gru_cell": 0.2, "add_relu": 0.2}
    assert kinds_of(task) == pytest.approx(shares)


def test_a_cap_gains_where_critical_work_is_faster_and_throughput_is_kept():
    pair = TaskPair("A", of("c", convolution=1e-3), of("n", convolution=1e-3))
    gains = cap(pair, slower(shared=(1.5, 2.0), capped=(1.2, 1.5)), alone(half=1.2))
    assert gains.critical_x == pytest.approx((1.5, 1.2))
    assert gains.throughput == pytest.approx((1 / 1.5 + 1 / 2.0, 1 / 1.2 + 1 / (1.5 * 1.2)))
    assert gains.gains
    assert not cap(pair, slower(shared=(1.5, 2.0), capped=(1.2, 1.5)), alone(half=2.5)).gains  # less throughput
    assert not cap(pair, slower(shared=(1.2, 2.0), capped=(1.2, 1.5)), alone(half=1.2)).gains  # no faster


def test_a_cap_costs_while_no_critical_request_runs():
    pair = TaskPair("B", of("c", "uniform:10/s", convolution=1e-3), of("n", convolution=1e-3))
    found = cap(pair, slower(shared=(1.5, 2.0), capped=(1.2, 1.5)), alone(half=1.2))
    assert found.busy == pytest.approx(0.01)
    assert found.throughput[1] == pytest.approx(0.01 * (1 / 1.2 + 1 / 1.8) + 0.99 / 1.2)
    assert not found.gains


def test_the_largest_call_has_only_its_buffers():
    made = largest("alexnet", "fully_connected", SIZES["alexnet"])
    (call,) = made.calls
    assert call.kernel == "fully_connected"
    assert len(made.buffers) < len(network("alexnet", **SIZES["alexnet"]).buffers)
    assert {each.name for each in made.buffers} == {each.buffer for each in call.arguments if hasattr(each, "buffer")}


def test_pairs_run_where_they_should_and_a_fake_without_contention_shows_none():
    clock, lines = FakeClock(), []
    cuda = FakeCuda([FakeCudaGpu(sm_count=20, green_least=8, green_step=8)], clock, other_ns=1000)
    with open_gpu_session(
        0, module=cuda, now_ns=ticking(clock), sleep_s=clock.sleep_s, builder=built, launch_s=lambda _: 1e-5
    ) as ready:
        cuda.launches.clear()
        pair = TaskPair("A", of("c", convolution=1e-3), of("n", fully_connected=1e-3))
        found = interference(ready, [pair], SIZES, lines.append, most=3)
    assert found["multiprocessors"] == [20, 8]
    assert len(found["pairs"]) == len(PLACES) * len(KINDS) ** 2
    for each in found["pairs"]:
        assert (each["critical_x"], each["normal_x"]) == pytest.approx((1, 1), rel=0.1), each
    timed = {(each.sm_count, each.priority) for each in cuda.launches if each.symbol in KINDS}
    assert timed == {(20, -5), (20, 0), (8, -5), (8, 0)}
    assert lines[-1].endswith("no cap")
    assert cuda.leaked() == []

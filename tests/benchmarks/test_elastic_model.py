"""What the model of a GPU is held against is read from what the GPU benchmark prints, in its old and its new words."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from elastic_cells import told
from elastic_model import HOST_S, Cell, Host, measured_ms, measured_policies

from edgetune.stages.elastic.bench import Ratio
from edgetune.stages.elastic.gpu import find_gpu

COMMITTED = Path(__file__).parents[2] / "examples/results/kernels-h100.txt"
NEW = """NVIDIA H100 80GB HBM3, 16 multiprocessors, CUDA 13.0
overhead   alexnet      original    1.508 ms, elastic +5.8 %
shards     a launch 4.7 us, over after 8.4 us, each shard more 4.4 us; from one to the next by the loop 47.0 us{native}
plan       A: 5 turns of 8 runs of 1.2 s; 300 s for 10 workloads on GPU sizes
policies   A: alexnet (closed) beside cifarnet; alone 1.500 ms, waking 0.250 ms, 99% of the time; 5 turns of 1.2 s
           {line}
bound      elastic: alexnet takes at most 1.64 ms = alone 1.02 ms + host 140 us
"""


def line(policy):
    ratio, energy = Ratio(1.1, 1.05, 1.15), {"power_w": 300.0, "request_j": 0.1}
    each = SimpleNamespace(policy=policy, p50_x=ratio, p99_x=ratio, throughput_x=ratio, normal_per_s=1234.5, missed=0.0)
    return told(each, energy, 16)


@pytest.mark.parametrize("policy", ["elastic", "elastic (native)"])
def test_a_line_of_a_policy_is_read(policy):
    text = NEW.format(line=line(policy), native=", by the native launcher 9.0 us")
    host, cells = measured_policies(text)[16, "A"]
    assert cells == {policy: Cell(pytest.approx(1.5 * 1.1), 1234.5)}
    assert host == Host(pytest.approx(4.7e-6), pytest.approx(47e-6), pytest.approx(9e-6))
    assert measured_ms(text) == {(16, "alexnet"): 1.508}


def test_each_launcher_has_its_host():
    gpu, host = find_gpu("h100"), Host(4.7e-6, 47e-6, 9e-6)
    assert host.model("elastic", gpu).host_s == HOST_S
    native = host.model("elastic (native)", gpu)
    assert native.host_s == 4.7e-6
    assert native.reaction_s == pytest.approx(max(0.0, 9e-6 - 4.7e-6 - gpu.launch_s))
    assert Host().model("elastic", gpu).reaction_s == 0


def test_the_first_run_on_a_gpu_is_still_read():
    found = measured_policies(COMMITTED.read_text())
    host, cells = found[132, "A"]
    assert host.next_s == pytest.approx(46.8e-6)
    assert host.native_s is None
    assert cells["elastic"] == Cell(pytest.approx(0.843 * 1.065), 1581.2)

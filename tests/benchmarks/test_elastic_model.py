"""What the model of a GPU is held against is read from what the GPU benchmark prints, in its old and its new words."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from elastic_gpu import told
from elastic_model import DECISION_S, LOOP_CALLS, Cell, Host, measured_ms, measured_policies

from edgetune.stages.elastic.bench import Ratio
from edgetune.stages.elastic.gpu import find_gpu

COMMITTED = Path(__file__).parents[2] / "examples/results/kernels-h100.txt"
NEW = """NVIDIA H100 80GB HBM3, 16 multiprocessors, CUDA 13.0
overhead   alexnet      original    1.508 ms, elastic +5.8 %
shards     a launch 4.7 us, over after 8.4 us, each shard more 4.4 us; from one to the next by the loop 47.0 us
plan       A: 5 turns of 8 runs of 1.2 s; 300 s for 10 workloads on GPU sizes
policies   A: alexnet (closed) beside cifarnet; alone 1.500 ms, waking 0.250 ms, 99% of the time; 5 turns of 1.2 s
           {line}
bound      elastic: alexnet takes at most 1.64 ms = alone 1.02 ms + host 140 us
"""


def line(policy):
    ratio = Ratio(1.1, 1.05, 1.15)
    each = SimpleNamespace(policy=policy, p50_x=ratio, p99_x=ratio, throughput_x=ratio, normal_per_s=1234.5, missed=0.0)
    return told(each)


def test_a_line_of_a_policy_is_read():
    text = NEW.format(line=line("elastic"))
    found = measured_policies(text)[16, "A"]
    (cell,) = found.cells.values()
    assert (list(found.cells), cell.latency_ms, cell.normal_per_s) == (["elastic"], pytest.approx(1.5 * 1.1), 1234.5)
    assert found.run_s == pytest.approx(6.0)
    assert found.host == Host(pytest.approx(4.7e-6), pytest.approx(47e-6))
    assert measured_ms(text) == {(16, "alexnet"): 1.508}


def test_a_launch_takes_the_loop_longer_than_the_driver():
    gpu, host = find_gpu("h100"), Host(4.7e-6, 47e-6)
    loop = host.model()
    assert (loop.host_s, loop.decision_s) == (pytest.approx(LOOP_CALLS * 4.7e-6), DECISION_S)
    assert host.seen(gpu).launch_s == 47e-6
    assert Host(4.7e-6).seen(gpu) is gpu


def test_the_first_run_on_a_gpu_is_still_read():
    found = measured_policies(COMMITTED.read_text())[132, "A"]
    assert found.host == Host(pytest.approx(4.5e-6), pytest.approx(46.8e-6))
    assert found.run_s == 1.0
    elastic = found.cells["elastic"]
    assert (elastic.latency_ms, elastic.normal_per_s) == (pytest.approx(0.843 * 1.065), 1581.2)


def test_a_median_of_few_requests_excuses_a_latency_alone():
    real = Cell(1.0, 100.0)
    assert Cell(1.1, 130.0, (0.8, 1.4)).near(real) == 1
    far = Cell(2.0, 100.0, (1.1, 3.0))
    assert (far.near(real), far.excused(real)) == (1, True)
    assert not Cell(2.0, 100.0, (1.2, 3.0)).excused(real)
    assert not Cell(1.1, 100.0, (0.8, 1.4)).excused(real), "it needs no excuse"

"""``edgetune schedule kernels simulate`` and ``bench`` on the model of a GPU."""

import itertools
import json
import signal

import pytest
from command_line import assert_two_lines

from edgetune.artifacts import io
from edgetune.artifacts.kernel_timeline import KernelTimeline
from edgetune.stages.elastic.cuda import gpu_session
from edgetune.stages.elastic.policies.multistream import MultiStream, Solo
from edgetune.testing.fake_clock import FakeClock
from fakes.cuda_driver import FakeCuda
from fakes.cuda_gpu import FakeCudaGpu

TASKS = """kind: kernel_tasks
version: 1
gpu: orin-nano
policy: multistream
duration: 20ms
tasks:
- {name: urgent, network: small, priority: 1, arrivals: 'uniform:500/s', deadline: 1ms}
- {name: normal, network: large}
networks:
  small:
    calls:
    - {kernel: a, grid: [6], block: [256], block_time: 60us}
    - {kernel: b, grid: [3], block: [128], block_time: 40us}
  large: {calls: [{kernel: c, grid: [49, 4], block: [256], flop_per_block: 2e6, bytes_per_block: 64KiB}]}
"""
SIMULATE = ("schedule", "kernels", "simulate", "tasks.yaml")


@pytest.fixture
def tasks(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tasks.yaml").write_text(TASKS)
    return tmp_path


def test_policies_are_compared_beside_the_critical_task_alone(edgetune, tasks):
    ended = edgetune(*SIMULATE, "--policy", "sequential,multistream,elastic", "-o", "k.parquet")
    assert ended.code == 0, ended.err
    assert "SIMULATED" in ended.err
    lines = ended.out.splitlines()
    assert lines[0].split()[:3] == ["policy", "task", "done"]
    assert [line.split()[:2] for line in lines[1:7]] == [
        [policy, task] for policy in ("sequential", "multistream", "elastic") for task in ("urgent", "normal")
    ]
    assert lines[0].index("note") <= 80  # what is in the way of it goes below
    assert "critical: urgent (priority 1); x solo: times what it takes alone" in lines
    assert "simulated (model): 8 multiprocessors of orin-nano" in ended.out
    timeline = io.read(KernelTimeline, "k.parquet")
    told = timeline.header.conditions
    assert (told["simulated"], told["device"], told["gpu"]["sm_count"], told["duration_s"]) == (
        True, "orin-nano", 8, 0.02,
    )  # fmt: skip
    assert "no caches" in told["model"]["note"]
    assert {row.policy for row in timeline.rows} == {"solo", "sequential", "multistream", "elastic"}
    assert {row.event for row in timeline.rows} == {"launch", "request", "residency"}
    assert {row.task for row in timeline.rows if row.policy == "solo"} == {"urgent"}
    assert any(row.elastic for row in timeline.rows if row.policy == "elastic")
    assert {row.sm for row in timeline.rows if row.event == "residency"} == set(range(8))


def test_assumptions_change_the_result_and_are_recorded(edgetune, tasks):
    latencies_s = []
    for words in (("launch=0,host=0,gap=0s",), ("launch=50us", "host=50us", "gap=50us", "bandwidth=100%,turn=1us")):
        options = [word for each in words for word in ("--assume", each)]
        assert edgetune(*SIMULATE, *options, "-o", "k.parquet").code == 0
        timeline = io.read(KernelTimeline, "k.parquet")
        alone = [row for row in timeline.rows if row.policy == "solo" and row.event == "request"]
        latencies_s.append(alone[0].finished_s - alone[0].arrived_s)
    assert latencies_s[0] == pytest.approx(100e-6)  # 60 us, and 40 us behind it
    assert latencies_s[1] == pytest.approx((50 + 50 + 60 + 50 + 40) * 1e-6)
    told = timeline.header.conditions
    numbers = [
        told["gpu"]["launch_s"],
        told["model"]["host_s"],
        told["model"]["turn_s"],
        told["model"]["bandwidth_sms"],
    ]
    assert numbers == pytest.approx([5e-5, 5e-5, 1e-6, 1.0])
    assert told["gpu"]["source"].endswith("launch_s: --assume")


def test_a_dry_run_describes_the_runs_and_runs_nothing(edgetune, tasks):
    ended = edgetune(*SIMULATE, "--dry-run")
    assert ended.code == 0
    assert not (tasks / "kernels.parquet").exists()


@pytest.mark.parametrize(
    ("edit", "options"),
    [
        (("", ""), ("--policy", "elastik")),
        (("", ""), ("--assume", "hosts=1us")),
        (("", ""), ("-o", "tasks.yaml")),
        (("", ""), ("--plot", "g.svg", "--view", "gantt:elastic")),
        (("", ""), ("--plot", "g.svg", "--view", "gantt@1s-2s")),
        (("block_time: 40us", "registers: 32"), ()),
        (("", ""), ("--duration", "100h")),
    ],
)
def test_invalid_simulations_are_refused_in_two_lines(edgetune, tasks, edit, options):
    (tasks / "tasks.yaml").write_text(TASKS.replace(*edit))
    ended = edgetune(*SIMULATE, *options)
    assert_two_lines(ended, 2)


@pytest.mark.parametrize("policy", ["solo", "multistream"])
def test_a_stopped_simulation_lists_finished_and_missing_runs(edgetune, tasks, monkeypatch, policy):
    decides, asked = (Solo if policy == "solo" else MultiStream), itertools.count()
    decide = decides.decide

    def stopped_in_the_middle(self, view):
        if next(asked) == 9:
            signal.raise_signal(signal.SIGTERM)
        return decide(self, view)

    monkeypatch.setattr(decides, "decide", stopped_in_the_middle)
    ended = edgetune(*SIMULATE, "--policy", "sequential,multistream,elastic", "-o", "k.parquet")
    assert ended.code == 143
    found = {row.policy for row in io.read(KernelTimeline, "k.parquet").rows}
    if policy == "solo":
        assert found == {"solo"}
    else:
        assert found == {"solo", "sequential", "multistream"}


def _with_source(tasks, source):
    text = TASKS.replace("large: {calls:", "large: {source: large.cu, calls:")
    (tasks / "tasks.yaml").write_text(text)
    (tasks / "large.cu").write_text(source)


def test_a_kernel_that_cannot_be_elastic_is_launched_whole_as_on_a_gpu(edgetune, tasks):
    waits = "if (blockIdx.x) while (((volatile float *)x)[blockIdx.x - 1] == 0) ;"
    for body, forms in (("", True), (waits, False)):
        _with_source(tasks, f"__global__ void c(float *x) {{ {body} x[blockIdx.x] = 1; }}\n")
        ended = edgetune(*SIMULATE, "--policy", "elastic", "-o", "k.parquet")
        assert ended.code == 0, ended.err
        assert ("of elastic forms" in ended.out) is forms
        assert ("task normal: c is launched whole, as it cannot be elastic: a loop may wait" in ended.err) is not forms


# The worst case of critical latency, and --admit-within


def network(kernel: str, block_time: str) -> str:
    call = f"{{kernel: {kernel}, grid: [8], block: [128], block_time: {block_time}}}"
    return f"\n    calls: [{call}, {call}]"


BOUND_TASKS = f"""kind: kernel_tasks
version: 1
gpu: orin-nano
duration: 50ms
tasks:
- {{name: urgent, network: small, priority: 1, arrivals: 'uniform:100/s'}}
- {{name: quick, network: quick}}
- {{name: slow, network: slow}}
networks:
  small:{network("a", "500us")}
  quick:{network("b", "20us")}
  slow:{network("c", "400us")}
"""
BOUND_SIMULATE = ("schedule", "kernels", "simulate", "tasks.yaml", "-o", "k.parquet")


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tasks.yaml").write_text(BOUND_TASKS)


def test_a_task_that_would_break_it_is_left_out_by_all_policies(edgetune):
    ended = edgetune(*BOUND_SIMULATE, "--policy", "sequential,elastic", "--admit-within", "10%")
    assert ended.code == 0, ended.err
    timeline = io.read(KernelTimeline, "k.parquet")
    assert {row.task for row in timeline.rows if row.event == "launch"} == {"urgent", "quick"}
    assert len(timeline.header.conditions["refused"]) == 1


# The benchmark

SHORT = ("schedule", "kernels", "bench", "A", "--turns", "1", "--duration", "5ms")


def test_json_says_that_it_is_simulated_and_goes_to_a_file_too(edgetune, tmp_path):
    file = tmp_path / "bench.json"
    words = ("--gpu", "orin-nano", "--policy", "sequential", "--duration", "30ms")
    ended = edgetune(*SHORT, *words, "--json", "--quiet", "-o", str(file))
    assert ended.code == 0, ended.err
    document = json.loads(ended.out)
    assert document["simulated"] is True
    assert document["device"] == "orin-nano"
    assert "no caches" in document["model"]["note"]
    (figures,) = document["workloads"]
    assert (figures["workload"], figures["turns"]) == ("A", 1)
    (policy,) = figures["policies"]
    assert policy["throughput_x"]["value"] == 1.0
    assert policy["p50_x"]["value"] > 1.0  # it waits for cifarnet
    assert {each["device"] for each in figures["published"]} == {"rtx-2060", "xavier"}
    assert json.loads(file.read_text(encoding="utf-8")) == document


def test_a_stopped_benchmark_keeps_finished_workloads(edgetune, tmp_path, monkeypatch):
    from edgetune.stages.elastic import bench as module

    real, asked = module.bench, []

    def bench(workload, *arguments, **options):
        asked.append(workload.name)
        if workload.name == "B":
            raise KeyboardInterrupt
        return real(workload, *arguments, **options)

    monkeypatch.setattr(module, "bench", bench)
    file = tmp_path / "bench.json"
    ended = edgetune(*SHORT, "B", "C", "--policy", "sequential", "-o", str(file))
    assert ended.code == 130, ended.err
    assert asked == ["A", "B"]
    assert [each["workload"] for each in json.loads(file.read_text(encoding="utf-8"))["workloads"]] == ["A"]


@pytest.mark.slow  # real kernels are compiled by the real compiler
def test_on_a_gpu_that_is_a_fake(edgetune, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    clock, opened = FakeClock(), gpu_session.open_gpu_session
    given = {"module": FakeCuda([FakeCudaGpu(sm_count=132)], clock), "now_ns": clock.now_ns, "sleep_s": clock.sleep_s}
    monkeypatch.setattr(gpu_session, "open_gpu_session", lambda index, **options: opened(index, **{**options, **given}))
    words = ("--device", "nvidia:0", "--sms", "16", "--policy", "sequential,elastic", "--duration", "20ms", "--json")
    ended = edgetune(*SHORT, *words)
    assert ended.code == 0, ended.err
    assert "SIMULATED" not in ended.err
    document = json.loads(ended.out)
    assert (document["simulated"], document["gpu"]["sm_count"]) == (False, 16)
    assert [policy["policy"] for policy in document["workloads"][0]["policies"]] == ["sequential", "elastic"]

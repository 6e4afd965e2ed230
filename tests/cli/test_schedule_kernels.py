"""``edgetune schedule kernels simulate``, ``bench``, ``run``: on models of GPUs and a fake of CUDA."""

import itertools
import json
import re
import signal
from contextlib import contextmanager
from functools import partial

import numpy as np
import pytest
from chain_inputs import GPU_TASKS
from command_line import assert_two_lines

from edgetune.artifacts import io
from edgetune.artifacts.kernel_timeline import KernelTimeline
from edgetune.errors import DeviceError
from edgetune.stages.elastic.cuda import gpu_session
from edgetune.stages.elastic.policies.simple import MultiStream
from edgetune.testing.fake_jetson import FakeClock
from edgetune.workflows.kernels import share
from fakes.cuda_driver import FakeCuda
from fakes.cuda_gpu import FakeCudaGpu, FakeCudaKernel
from fakes.cuda_handles import CUresult
from fakes.cuda_state import ticking

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
    for policy in ("multistream", "elastic"):
        assert f"worst case by {policy}: {told['bounds'][policy]['said']}" in lines
    assert set(told["bounds"]) == {"multistream", "elastic"}
    assert {row.policy for row in timeline.rows} == {"solo", "sequential", "multistream", "elastic"}
    assert {row.event for row in timeline.rows} == {"launch", "request", "residency"}
    assert {row.task for row in timeline.rows if row.policy == "solo"} == {"urgent"}
    assert any(row.elastic for row in timeline.rows if row.policy == "elastic")
    assert {row.sm for row in timeline.rows if row.event == "residency"} == set(range(8))


@pytest.mark.parametrize(
    ("edit", "options"),
    [
        (("", ""), ("--policy", "elastik")),
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
    decide, asked = MultiStream.decide, itertools.count()

    def stopped_in_the_middle(self, view):
        asks = next(asked) if policy == "solo" or len(view.tasks) > 1 else 0
        if asks == 9:
            signal.raise_signal(signal.SIGTERM)
        return decide(self, view)

    monkeypatch.setattr(MultiStream, "decide", stopped_in_the_middle)
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
    clock, opened = FakeClock(), gpu_session.open_gpu_session
    given = {
        "module": FakeCuda([FakeCudaGpu(sm_count=132)], clock, version=13000),
        "now_ns": clock.now_ns,
        "sleep_s": clock.sleep_s,
    }
    monkeypatch.setattr(gpu_session, "open_gpu_session", lambda index, **options: opened(index, **{**options, **given}))
    words = ("--device", "nvidia:0", "--sms", "16", "--policy", "sequential,elastic", "--duration", "20ms", "--json")
    ended = edgetune(*SHORT, *words)
    assert ended.code == 0, ended.err
    assert "SIMULATED" not in ended.err
    document = json.loads(ended.out)
    assert (document["simulated"], document["gpu"]["sm_count"]) == (False, 16)
    assert [policy["policy"] for policy in document["workloads"][0]["policies"]] == ["sequential", "elastic"]


# Run, on a fake of CUDA's driver and without any

SOURCE = """
__global__ void scale(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}
"""


RUN = ("schedule", "kernels", "run", "tasks.yaml")


@pytest.fixture
def tasks_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tasks.yaml").write_text(GPU_TASKS)
    (tmp_path / "scale.cu").write_text(SOURCE)
    return tmp_path


@pytest.fixture
def once_it_runs(monkeypatch):
    """Have something done when kernels are compiled and timed, and the first task is about to run."""
    real = share.run_all

    def put(act):
        def run_all(*arguments):
            act()
            return real(*arguments)

        monkeypatch.setattr(share, "run_all", run_all)

    return put


@pytest.fixture
def fake(monkeypatch):
    """Put a fake GPU into the machine; what runs on it is the real generator's and the real compiler's."""
    real = gpu_session.open_gpu_session

    def put(gpu: FakeCudaGpu | None = None, **more) -> FakeCuda:
        clock = FakeClock()
        cuda = FakeCuda([gpu or FakeCudaGpu()], clock, **{"other_ns": 4000, "version": 13000, **more})
        opened = partial(real, now_ns=ticking(clock), sleep_s=clock.sleep_s)
        monkeypatch.setattr(
            gpu_session, "open_gpu_session", lambda index, **options: opened(index, **{**options, "module": cuda})
        )
        return cuda

    return put


def test_the_figures_are_shown_before_the_gpu_is_closed(edgetune, tasks_run, fake, monkeypatch) -> None:
    fake()
    real = gpu_session.open_gpu_session

    @contextmanager
    def failing_at_closing(*arguments, **options):
        with real(*arguments, **options) as ready:
            yield ready
        raise DeviceError("the driver failed", "see nvidia-smi")

    monkeypatch.setattr(gpu_session, "open_gpu_session", failing_at_closing)
    ended = edgetune(*RUN, "-o", "kernels.parquet")
    assert ended.code == 4
    assert (tasks_run / "kernels.parquet").exists()


@pytest.mark.usefixtures("tasks_run")
def test_tasks_run_and_the_same_figures_are_told_as_of_a_simulation(edgetune, fake, monkeypatch):
    cuda = fake(FakeCudaGpu(sm_count=2, threads_per_sm=256))  # which holds 4 of 8 blocks at once
    loop, seen_s = share.ElasticLoop, set()
    monkeypatch.setattr(
        share, "ElasticLoop", lambda *of, gpu, **more: seen_s.add(gpu.launch_s) or loop(*of, gpu=gpu, **more)
    )
    ended = edgetune(*RUN, "--policy", "multistream,elastic", "-o", "k.parquet")
    assert ended.code == 0, ended.err
    assert "SIMULATED" not in ended.out + ended.err
    lines = ended.out.splitlines()
    assert [line.split()[:2] for line in lines[1:5]] == [
        [policy, task] for policy in ("multistream", "elastic") for task in ("urgent", "normal")
    ]
    timeline = io.read(KernelTimeline, "k.parquet")
    told = timeline.header.conditions
    assert (told["simulated"], told["device"], told["gpu"]["sm_count"]) == (False, "Fake CUDA GPU (not hardware)", 2)
    assert seen_s == {told["gpu"]["launch_s"]}, "policies are told what was measured, and nothing of a model's host"
    assert told["gpu"]["launch_s"] > 0
    assert told["policies"]["elastic"][0]["clocks_apart_s"] < 1e-5
    assert {row.policy for row in timeline.rows} == {"solo", "multistream", "elastic"}
    assert {row.event for row in timeline.rows} == {"launch", "request"}
    assert {row.status for row in timeline.rows if row.event == "launch"} == {"ok"}
    assert any(row.elastic for row in timeline.rows if row.policy == "elastic")
    assert len({each.symbol for each in cuda.launches}) > 2
    assert cuda.leaked() == []


def test_blocks_write_down_where_they_ran_and_are_drawn(edgetune, tasks_run, fake):
    def timer(memory, launch):
        memory.view(int.from_bytes(launch.arguments[0], "little"), np.uint64, 1)[0] = launch.start_ns

    def record(memory, launch):
        address, blocks = int.from_bytes(launch.arguments[-1], "little"), launch.grid[0]
        if address:
            rows = memory.view(address, np.uint64, 3 * blocks).reshape(-1, 3)
            rows[:] = [(block % 2, launch.start_ns, launch.end_ns) for block in range(blocks)]

    kernels = {
        "edgetune_timer": FakeCudaKernel((8,), 0, timer),
        "scale__grid": FakeCudaKernel((8, 8, 4, 32, 8), 50_000, record),
    }
    fake(FakeCudaGpu(sm_count=2, threads_per_sm=256), kernels=kernels)
    ended = edgetune(*RUN, "--blocks", "-o", "k.parquet", "--plot", "gantt.svg", "--view", "gantt:elastic@1ms-10ms")
    assert ended.code == 0, ended.err
    rows = [row for row in io.read(KernelTimeline, "k.parquet").rows if row.event == "residency"]
    assert {row.sm for row in rows} == {0, 1}
    assert {row.task for row in rows} == {"normal"}, "only elastic forms were scripted to record"
    launches = {row.launch: row for row in io.read(KernelTimeline, "k.parquet").rows if row.event == "launch"}
    for row in rows:
        assert abs(row.started_s - launches[row.launch].started_s) < 1e-4
    assert (tasks_run / "gantt.svg").read_text(encoding="utf-8").startswith("<?xml")


def test_a_dry_run_compiles_and_launches_nothing(edgetune, tasks_run, fake):
    cuda = fake()
    ended = edgetune(*RUN, "--dry-run")
    assert ended.code == 0, ended.err
    assert not any("scale" in each.symbol for each in cuda.launches)


@pytest.mark.usefixtures("tasks_run")
@pytest.mark.parametrize("way", ["fails", "hangs"])
def test_a_kernel_that_goes_wrong_in_the_middle_ends_the_run_and_what_ran_is_kept(
    edgetune, fake, once_it_runs, way, monkeypatch
):
    monkeypatch.setattr("edgetune.stages.elastic.cuda.backend._NAP_S", 0.01)
    launched, running = itertools.count(), []
    once_it_runs(lambda: running.append(True))

    def lasts_ns(grid, arguments):
        return None if way == "hangs" and running and next(launched) > 14 else 5000

    def work(memory, launch):
        if way == "fails" and running and next(launched) > 14:  # behind the 9 of the urgent task alone
            memory.view(0, "uint8", 1)

    kernels = {
        "scale": FakeCudaKernel((8, 8, 4), lasts_ns, work),
        "scale__grid": FakeCudaKernel((8, 8, 4, 32), lasts_ns, work),
    }
    cuda = fake(FakeCudaGpu(sm_count=2, threads_per_sm=256), kernels=kernels, other_ns=100_000)
    ended = edgetune(*RUN, "--policy", "elastic,multistream", "-o", "k.parquet", "--quiet")
    assert_two_lines(ended, 5)
    assert ("memory that is not its own" if way == "fails" else "nothing has happened for 30 s") in ended.err
    timeline = io.read(KernelTimeline, "k.parquet")
    assert {row.policy for row in timeline.rows} == {"solo", "elastic"}
    failed = [row for row in timeline.rows if row.event == "launch" and row.status == "failed"]
    assert failed
    assert {row.status for row in timeline.rows} >= {"ok", "failed"}
    assert ("cuMemFree" in cuda.calls) == (way == "fails")


def test_requests_that_failed_are_reported_at_the_end_and_the_table_is_there(edgetune, tasks_run, fake, once_it_runs):
    cuda = fake()
    launch, count = cuda.cuLaunchKernel, itertools.count()

    def refused_at_times(*arguments):
        return (CUresult.CUDA_ERROR_INVALID_VALUE,) if next(count) % 9 == 8 else launch(*arguments)

    once_it_runs(lambda: setattr(cuda, "cuLaunchKernel", refused_at_times))
    ended = edgetune(*RUN, "--policy", "sequential", "-o", "k.parquet")
    assert ended.code == 5
    assert [line.split()[:2] for line in ended.out.splitlines()[1:3]] == [
        ["sequential", "urgent"], ["sequential", "normal"],
    ]  # fmt: skip
    *_, error, hint = ended.err.splitlines()
    assert re.match(r"error: \d+ requests of urgent, normal failed \(by solo, sequential\), the first: .*scale", error)
    assert hint.startswith("hint: the timeline is written all the same")
    assert {row.status for row in io.read(KernelTimeline, "k.parquet").rows} >= {"ok", "failed"}

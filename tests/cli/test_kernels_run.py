"""``edgetune schedule kernels run`` and ``calibrate``, on a fake of CUDA's driver and without any."""

import itertools
import json
import re
from contextlib import contextmanager
from functools import partial

import numpy as np
import pytest
from command_line import assert_two_lines

from edgetune.artifacts import io
from edgetune.artifacts.kernel_timeline import KernelTimeline
from edgetune.errors import DeviceError
from edgetune.stages.elastic.cuda import gpu_session
from edgetune.stages.elastic.cuda.calibrate import read_costs
from edgetune.testing.fake_clock import FakeClock
from edgetune.workflows.kernels import share
from fakes.cuda_driver import FakeCuda
from fakes.cuda_gpu import FakeCudaGpu, FakeCudaKernel
from fakes.cuda_handles import CUresult
from fakes.cuda_state import ticking

SOURCE = """
__global__ void scale(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}
"""
NETWORK = """
    source: scale.cu
    buffers: {x: {shape: [1000], role: input}, y: {shape: [1000], role: output}}
    calls: [{kernel: scale, grid: [8], block: [128], arguments: [x, y, {int: 1000}]}]
"""
TASKS = f"""kind: kernel_tasks
version: 1
policy: elastic
duration: 20ms
tasks:
- {{name: urgent, network: small, priority: 1, arrivals: 'uniform:500/s', deadline: 1ms}}
- {{name: normal, network: large}}
networks:
  small:{NETWORK}
  large:{NETWORK}
"""


RUN = ("schedule", "kernels", "run", "tasks.yaml")
CALIBRATE = ("schedule", "kernels", "calibrate")


@pytest.fixture
def tasks(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "tasks.yaml").write_text(TASKS)
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


def test_the_figures_are_shown_before_the_gpu_is_closed(edgetune, tasks, fake, monkeypatch) -> None:
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
    assert (tasks / "kernels.parquet").exists()


def test_tasks_run_and_the_same_figures_are_told_as_of_a_simulation(edgetune, tasks, fake):
    cuda = fake(FakeCudaGpu(sm_count=2, threads_per_sm=256))  # which holds 4 of 8 blocks at once
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
    assert told["gpu"]["launch_s"] > 0, "measured at once, as nobody had calibrated it"
    assert told["policies"]["elastic"][0]["clocks_apart_s"] < 1e-5
    assert {row.policy for row in timeline.rows} == {"solo", "multistream", "elastic"}
    assert {row.event for row in timeline.rows} == {"launch", "request"}
    assert {row.status for row in timeline.rows if row.event == "launch"} == {"ok"}
    assert any(row.elastic for row in timeline.rows if row.policy == "elastic")
    assert len({each.symbol for each in cuda.launches}) > 2
    assert cuda.leaked() == []


def test_blocks_write_down_where_they_ran_and_are_drawn(edgetune, tasks, fake):
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
    assert (tasks / "gantt.svg").read_text(encoding="utf-8").startswith("<?xml")


def test_a_dry_run_compiles_and_launches_nothing(edgetune, tasks, fake):
    cuda = fake()
    ended = edgetune(*RUN, "--dry-run")
    assert ended.code == 0, ended.err
    assert not any("scale" in each.symbol for each in cuda.launches)


@pytest.mark.parametrize("way", ["fails", "hangs"])
def test_a_kernel_that_goes_wrong_in_the_middle_ends_the_run_and_what_ran_is_kept(
    edgetune, tasks, fake, once_it_runs, way
):
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


def test_requests_that_failed_are_reported_at_the_end_and_the_table_is_there(edgetune, tasks, fake, once_it_runs):
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


def test_calibration_is_kept_and_used(edgetune, tasks, fake):
    fake()
    ended = edgetune(*CALIBRATE, "--json")
    assert ended.code == 0, ended.err
    told = json.loads(ended.out)
    (path,) = (tasks / "cache" / "edgetune" / "launch_costs").iterdir()
    costs = read_costs(path)
    assert (costs.gpu, costs.reaction_s) == (told["gpu"], told["reaction_s"])
    assert told["parts"] == {"offered": True, "why_not": None}
    fake()
    assert edgetune(*RUN, "-o", "k.parquet").code == 0
    assert io.read(KernelTimeline, "k.parquet").header.conditions["gpu"]["launch_s"] == costs.reaction_s

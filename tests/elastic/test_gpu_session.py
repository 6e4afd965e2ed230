"""Networks made ready once, backends for run after run, and what kernels take, known in closed form on the fake."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from cuda_scene import BLOCK_US, BLOCKS, BUILD, TIMER_IMAGE, US, VALUES, Machine, launch, moments, network, task
from test_cuda_blocks import RECORDING

from edgetune.errors import InputError
from edgetune.stages.elastic.cuda.building import Build, build
from edgetune.stages.elastic.cuda.gpu_session import EMPTY_KERNEL, GpuSession, open_gpu_session, reaction_s
from edgetune.stages.elastic.gpu import GpuTask, KernelBuffer, KernelSequence, Resources
from edgetune.stages.elastic.kernel import symbol_of
from edgetune.stages.elastic.mdtb.networks import values
from fakes.cuda_driver import fake_image
from fakes.cuda_gpu import FakeCudaGpu, FakeCudaKernel
from fakes.cuda_state import ticking

LAUNCH_S = 12e-6


@contextmanager
def ready(machine: Machine, *, sm_count: int | None = None, **more) -> Iterator[tuple[GpuSession, list[str]]]:
    built: list[str] = []

    def builder(asked: KernelSequence, context, recorded: bool) -> Build:
        built.append(asked.name)
        return Build(BUILD.image, BUILD.forms, recorded)

    with open_gpu_session(
        0, sm_count=sm_count, module=machine.cuda, now_ns=ticking(machine.clock), sleep_s=machine.clock.sleep_s,
        builder=builder, timer_image=TIMER_IMAGE, launch_s=lambda _: LAUNCH_S, **more,
    ) as gpu:  # fmt: skip
        yield gpu, built


def test_a_network_is_built_once_and_every_task_has_its_own_buffers() -> None:
    machine = Machine()
    tasks = [task("a", 1), task("b")]
    with ready(machine) as (gpu, built):
        for _ in range(3):
            with gpu.open_backend(tasks) as backend:
                backend.launch(launch(0, "a"))
                moments(backend)
        assert built == ["pair"]
        memory = machine.cuda.works[0].memory
        assert memory.used_bytes == 2 * 3 * VALUES["x"].nbytes
    assert machine.cuda.leaked() == []


def test_streams_and_events_go_with_their_backend() -> None:
    machine = Machine()
    with ready(machine) as (gpu, _):
        gpu.prepare(tasks := [task("a")])
        before = machine.cuda.leaked()
        with gpu.open_backend(tasks) as backend:
            backend.launch(launch(0))
            moments(backend)
            assert len(machine.cuda.leaked()) > len(before)
        assert machine.cuda.leaked() == before


@pytest.mark.parametrize("elastic", [{}, {1: Resources(32, static_shared_bytes=200 << 10)}])
def test_a_kernel_whose_forms_were_refused_or_do_not_fit_is_told_to_have_none(elastic: dict[int, Resources]) -> None:
    refused = {**BUILD.forms, "add_one": {None: BUILD.forms["add_one"][None], **elastic}}
    with Machine().context() as context:
        ready_gpu = GpuSession(context, builder=lambda *_: replace(BUILD, forms=refused))
        (fitted,) = ready_gpu.fitted([task("a")])
    assert [call.elastic for call in fitted.network.calls] == [True, False]


def test_block_records_of_a_run() -> None:
    machine = Machine(kernels=RECORDING)
    with ready(machine, recorded=True) as (gpu, _):
        with gpu.open_backend([task("a")]) as backend:
            backend.launch(launch(3, count=4, blocks=4))
            moments(backend)
        assert [(each.launch, each.sm) for each in backend.residencies] == [(3, sm) for sm in (0, 2, 4, 6)]
        with gpu.open_backend([task("a")]) as another:
            pass
        assert not another.residencies


def test_contents_are_drawn_for_numbers_and_zero_for_places() -> None:
    mixed = KernelSequence(
        "mixed", (), "",
        (
            KernelBuffer("w", (8, 4), "float32", "weights"),
            KernelBuffer("at", (3,), "int32", "input"),
            KernelBuffer("out", (2,)),
        ),
    )  # fmt: skip
    drawn = values(mixed, 1)
    assert set(drawn) == {"w", "at"}
    assert np.ptp(drawn["w"]) > 0
    assert drawn["at"].dtype == np.int32
    assert not drawn["at"].any()
    assert np.array_equal(values(mixed, 1)["w"], drawn["w"])
    assert not np.array_equal(values(mixed, 2)["w"], drawn["w"])


REAL = """
__global__ void double_it(const int *x, int *y, int size) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size) y[i] = 2 * x[i];
}
extern "C" __global__ void add_one(const int *x, int *y, int size) {
    __shared__ int held[64];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    held[threadIdx.x] = i < size ? x[i] : 0;
    __syncthreads();
    if (i < size) y[i] = held[threadIdx.x] + 1;
}
"""


@pytest.mark.parametrize("recorded", [False, True])
def test_a_source_is_made_elastic_and_compiled_for_the_gpu_at_hand(recorded: bool) -> None:
    """The real forms and NVRTC; the fake loads what they made and finds every symbol in it."""
    machine = Machine(kernels={}, more={"version": 13000})
    pair = KernelSequence("pair", network().calls, REAL, network().buffers)
    with machine.context() as context:
        made = build(pair, context, recorded=recorded)
        assert made.image.endswith(b"\0")
        assert (b"edgetune_records" in made.image) == recorded
        assert set(made.forms["double_it"]) == {None, 1, 2, 4, 8}
        assert 1 in made.forms["add_one"]
        module = context.load(made.image)
        for kernel, forms in made.forms.items():
            for key in forms:
                context.function(module, symbol_of(kernel, key))


def test_a_compiler_newer_than_the_driver_is_named_with_its_remedy() -> None:
    pair = KernelSequence("pair", network().calls, REAL, network().buffers)
    with Machine(kernels={}, more={"version": 12060}).context() as context, pytest.raises(InputError) as error:
        build(pair, context)
    assert "and the driver, of CUDA 12.6, reads 8.5" in error.value.message
    assert "pip install 'edgetune[cuda12]'" in error.value.hint


STEP_S = 1e-7
"""Events are told in single precision."""


@pytest.mark.parametrize(("sm_count", "at_once"), [(16, BLOCKS), (4, 4), (1, 1)])
def test_kernels_are_timed_whole_and_with_a_block_for_each_multiprocessor(sm_count: int, at_once: int) -> None:
    """The fake runs one logical block after another, as if all physical ones were on one multiprocessor."""
    machine = Machine([FakeCudaGpu(sm_count=sm_count)])
    with ready(machine) as (gpu, _):
        (measured,) = gpu.measured([task("a")])
    for call in measured.network.calls:
        assert call.whole_s == pytest.approx(BLOCKS * BLOCK_US / 1e6, abs=STEP_S)
        assert call.block_s == pytest.approx(at_once * BLOCK_US / 1e6, abs=STEP_S)


def test_the_host_is_not_timed() -> None:
    """Launching takes twice what a kernel does; the delay before each hides it."""
    slow = {"call_ns": {"cuLaunchKernel": 2 * BLOCK_US * US}, "other_ns": 0}
    with ready(Machine(more=slow)) as (gpu, _):
        (measured,) = gpu.measured([task("a")])
    assert measured.network.calls[0].whole_s == pytest.approx(BLOCKS * BLOCK_US / 1e6, abs=STEP_S)


def test_every_block_runs_once_in_every_request_that_is_timed() -> None:
    """Else a kernel that counts would find more than it has room for."""
    machine = Machine([FakeCudaGpu(sm_count=4)])
    with ready(machine) as (gpu, _):
        gpu.measured([task("a")])
        assert set(gpu.programs["a"].read("z")) == {1}  # whole numbers are filled with zeros
        timed = [each for each in machine.cuda.launches if each.symbol.startswith(("double_it", "add_one"))]
    pieces = [each for each in timed if each.symbol.endswith("__grid")]
    parts = [(part[6], part[7]) for part in (np.frombuffer(each.arguments[3], np.uint32) for each in pieces)]
    parts = [part for part in parts if part[1]]  # without those of no blocks that warm up
    assert set(pairwise(parts)) == {((0, 4), (4, 2)), ((4, 2), (0, 4))}


def test_measured_durations_are_stored_and_not_recomputed() -> None:
    machine = Machine()
    with ready(machine) as (gpu, built):
        tasks = gpu.measured(gpu.fitted([task("a"), task("b")]))
        used_bytes = machine.cuda.works[0].memory.used_bytes
        with gpu.open_backend(tasks):
            pass
        assert (built, machine.cuda.works[0].memory.used_bytes) == (["pair"], used_bytes)
    assert machine.cuda.leaked() == []


def test_a_kernel_without_forms_is_one_block_as_a_whole() -> None:
    rigid = replace(network(), calls=tuple(replace(call, elastic=False) for call in network().calls))
    with ready(Machine()) as (gpu, _):
        (measured,) = gpu.measured([GpuTask("a", rigid)])
    assert all(call.block_s == call.whole_s for call in measured.network.calls)


def test_the_reaction_is_what_the_host_the_start_and_the_kernel_take() -> None:
    calls_ns = {"cuLaunchKernel": 7 * US, "cuEventRecord": 1 * US, "cuEventQuery": 2 * US}
    machine = Machine(
        [FakeCudaGpu(start_ns=30 * US)],
        kernels={EMPTY_KERNEL: FakeCudaKernel(duration_ns=3 * US)},
        more={"call_ns": calls_ns, "other_ns": 0},
    )
    with machine.context() as context:
        found_s = reaction_s(context, fake_image(EMPTY_KERNEL))
    assert 7 + 30 + 3 <= found_s * 1e6 <= 7 + 30 + 3 + 3 * 2 + 2 * 1 + 1  # questions, records, and reading the clock

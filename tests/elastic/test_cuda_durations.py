"""What kernels take, and how soon one follows another: known in closed form on the fake."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from cuda_scene import BLOCK_US, BLOCKS, US, Machine, network, task
from test_gpu_session import ready

from edgetune.stages.elastic.cuda.calibrate import EMPTY_KERNEL, reaction_s
from edgetune.stages.elastic.work import GpuTask
from fakes.cuda_driver import fake_image
from fakes.cuda_gpu import FakeCudaGpu, FakeCudaKernel

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
        assert set(gpu.program("a").read("z")) == {1}  # whole numbers are filled with zeros
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

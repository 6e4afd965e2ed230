"""Persistent forms: what they say, what they do on the CPU, and what the interpreter finds wrong with them."""

from dataclasses import replace

import numpy as np
import pytest
from ptx_corpus import made as made_of

from edgetune.stages.elastic import kernel as abi
from edgetune.stages.elastic.cpu_equivalence import Matrix, ways
from edgetune.stages.elastic.gpu import Logical, Pointer, Scalar
from edgetune.stages.elastic.kernel import TransformResult, Variant
from edgetune.stages.elastic.ptx.interpreter import PtxProgram
from edgetune.stages.elastic.sample_launches import CpuLaunch, CpuResult, ExecutionOrder

COUNT = """
__global__ void count(int *done) {
    __shared__ int own[8];
    own[threadIdx.x] = blockIdx.x;
    __syncthreads();
    atomicAdd(&done[own[7 - threadIdx.x]], 1);
}
"""
BLOCKS, THREADS = 40, 8
SEEDS = range(24)


def made() -> TransformResult:
    return made_of(COUNT, persistent=True)


@pytest.fixture(scope="module")
def built() -> PtxProgram:
    return PtxProgram(made().source, "count.ptx")


def launch(rank: int = 0, blocks: int = 5, *, changes: bool = False) -> CpuLaunch:
    logical = Scalar(abi.packed((BLOCKS, 1, 1), (THREADS, 1, 1), rank, BLOCKS))
    arguments = (Pointer("done"), logical, Pointer(abi.CONTROL))
    return CpuLaunch("count__persistent", (blocks, 1, 1), (THREADS, 1, 1), arguments, 0, rank, changes)


def run(built: PtxProgram, *launches: CpuLaunch, seed: int = 0, quota: int = abi.NO_QUOTA) -> CpuResult:
    memory = {"done": np.zeros(BLOCKS, np.int32), abi.CONTROL: np.array([0, 0, quota], np.uint32)}
    return next(built.run_all([(launches, ExecutionOrder("forward", seed))], memory))


def test_all_logical_blocks_are_done_once(built: PtxProgram) -> None:
    outcome = run(built, launch())
    assert outcome.message == ""
    np.testing.assert_array_equal(outcome.buffers["done"], THREADS)
    following, done, quota = outcome.buffers[abi.CONTROL]
    assert done == BLOCKS
    assert BLOCKS < following <= BLOCKS + 5
    assert quota == abi.NO_QUOTA


def test_blocks_above_the_quota_leave_before_they_take(built: PtxProgram) -> None:
    outcome = run(built, launch(rank=2), quota=2)
    np.testing.assert_array_equal(outcome.buffers["done"], 0)
    np.testing.assert_array_equal(outcome.buffers[abi.CONTROL], [0, 0, 2])


def test_a_quota_that_changes_stops_a_launch_halfway_and_loses_no_block(built: PtxProgram) -> None:
    taken = []
    for seed in SEEDS:
        outcome = run(built, launch(changes=True), seed=seed)
        assert outcome.message == ""
        following, done, _ = map(int, outcome.buffers[abi.CONTROL])
        assert done == min(following, BLOCKS)
        np.testing.assert_array_equal(outcome.buffers["done"], THREADS * (np.arange(BLOCKS) < following))
        taken.append(following)
    assert sum(0 < each < BLOCKS for each in taken) > len(SEEDS) / 3


@pytest.mark.parametrize("seed", SEEDS[:6])
def test_another_launch_goes_on_where_the_last_one_stopped(built: PtxProgram, seed: int) -> None:
    halves = (launch(changes=True), launch(rank=3, changes=True))
    outcome = run(built, *halves, launch(), seed=seed)
    np.testing.assert_array_equal(outcome.buffers["done"], THREADS)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "@%edgetune_is atom.global.add.u32 %edgetune_number, [%edgetune_control], 1;",
            "ld.global.u32 %edgetune_number, [%edgetune_control]; add.u32 %edgetune_left, %edgetune_number, 1; "
            "st.global.u32 [%edgetune_control], %edgetune_left;",
            "other than by an atomic operation",
        ),
        ("setp.lt.u32 %edgetune_is, %edgetune_at", "setp.le.u32 %edgetune_is, %edgetune_at", "that it saw is 2"),
    ],
)
def test_plain_counting_and_takes_above_the_quota_are_found(old: str, new: str, message: str) -> None:
    text = made().source
    assert text.count(old) == 1
    outcome = run(PtxProgram(text.replace(old, new), "count.ptx"), launch(blocks=5), quota=2)
    assert outcome.status == "crash"
    assert message in outcome.message


def test_ways_of_persistent_forms_end_with_a_launch_without_a_quota() -> None:
    kernel = replace(made().kernels[0], variants=(Variant("count__persistent", "persistent"),))
    found = list(ways(kernel, Logical((BLOCKS, 1, 1), (THREADS, 1, 1)), Matrix(cuts=4)))
    assert len(found) == 5 * 3 * 4
    assert {way.blocks for way in found} == {1, 3, BLOCKS + 2}
    for way in found:
        assert way.persistent
        assert way.shards[-1] == (0, BLOCKS)
    assert any(rank for way in found for rank, _ in way.shards)
    assert max(len(way.shards) for way in found) == 5

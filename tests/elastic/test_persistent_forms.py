"""Persistent forms: what they say, what they do on the CPU, and what the CPU shim finds wrong with them."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from kernel_corpus import source, trials

from edgetune.errors import InputError
from edgetune.stages.elastic import abi
from edgetune.stages.elastic.cpu_equivalence import FormLaunch, Matrix, check, ways
from edgetune.stages.elastic.forms import variants_by_count
from edgetune.stages.elastic.kernel import TransformResult, Variant
from edgetune.stages.elastic.shim.build import build
from edgetune.stages.elastic.shim.run import Built, ExecutionOrder, ShimLaunch, ShimResult, Taking
from edgetune.stages.elastic.source.explain import explained
from edgetune.stages.elastic.source.transform import transform
from edgetune.stages.elastic.work import Logical, Pointer, Scalar

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


def made(text: str = COUNT, **more: object) -> TransformResult:
    return transform(text, "count.cu", persistent=True, **more)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def built() -> Built:
    return build(made().compiled, "count.cu")


def launch(rank: int = 0, blocks: int = 5, *, changes: bool = False) -> ShimLaunch:
    logical = Scalar(abi.packed((BLOCKS, 1, 1), (THREADS, 1, 1), rank, BLOCKS))
    arguments, taking = (Pointer("done"), logical, Pointer("words")), Taking("words", rank, quota_changes=changes)
    return ShimLaunch("count__persistent", (blocks, 1, 1), (THREADS, 1, 1), arguments, taking=taking)


def run(built: Built, *launches: ShimLaunch, seed: int = 0, quota: int = abi.NO_QUOTA) -> ShimResult:
    memory = {"done": np.zeros(BLOCKS, np.int32), "words": np.array([0, 0, quota], np.uint32)}
    return built.run(launches, memory, ExecutionOrder("forward", seed))


def test_a_persistent_form_stands_behind_the_grid_form_of_every_kernel() -> None:
    done = made()
    assert Variant("count__persistent", "persistent") in done.kernels[0].variants
    assert abi.CONTROL_STRUCT in done.source
    parameters = "int * done, const edgetune_launch_t edgetune_launch, edgetune_control_t *edgetune_control"
    assert f"void count__persistent({parameters})" in done.source
    assert "  persistent: count__persistent" in list(explained(done))


def test_without_the_option_nothing_is_persistent() -> None:
    done = transform(COUNT, "count.cu")
    assert "persistent" not in done.source
    assert abi.CONTROL_NAME not in done.source


def test_the_form_of_one_logical_thread_is_the_grid_form() -> None:
    assert variants_by_count(made().kernels[0])[1].symbol == "count__grid"


def test_a_kernel_whose_threads_return_before_barriers_is_persistent_too() -> None:
    text = "__global__ void k(int *x) { if (threadIdx.x == 3) return; __syncthreads(); x[blockIdx.x] = 1; }"
    form = made(text).source.split("void k__persistent(", 1)[1]
    assert "edgetune_blocks_k<1>(" in form
    assert re.search(r"__syncthreads\(\);\n +if [^\n]*\n +__threadfence\(\);\n +atomicAdd\([^\n]*done, 1u\);", form)


def test_all_logical_blocks_are_done_once(built: Built) -> None:
    outcome = run(built, launch())
    assert outcome.message == ""
    np.testing.assert_array_equal(outcome.buffers["done"], THREADS)
    following, done, quota = outcome.buffers["words"]
    assert done == BLOCKS
    assert BLOCKS < following <= BLOCKS + 5
    assert quota == abi.NO_QUOTA


def test_blocks_above_the_quota_leave_before_they_take(built: Built) -> None:
    outcome = run(built, launch(rank=2), quota=2)
    np.testing.assert_array_equal(outcome.buffers["done"], 0)
    np.testing.assert_array_equal(outcome.buffers["words"], [0, 0, 2])


def test_a_quota_that_changes_stops_a_launch_halfway_and_loses_no_block(built: Built) -> None:
    taken = []
    for seed in SEEDS:
        outcome = run(built, launch(changes=True), seed=seed)
        assert outcome.message == ""
        following, done, _ = map(int, outcome.buffers["words"])
        assert done == min(following, BLOCKS)
        np.testing.assert_array_equal(outcome.buffers["done"], THREADS * (np.arange(BLOCKS) < following))
        taken.append(following)
    assert sum(0 < each < BLOCKS for each in taken) > len(SEEDS) / 3


@pytest.mark.parametrize("seed", SEEDS[:6])
def test_another_launch_goes_on_where_the_last_one_stopped(built: Built, seed: int) -> None:
    halves = (launch(changes=True), launch(rank=3, changes=True))
    outcome = run(built, *halves, launch(), seed=seed)
    np.testing.assert_array_equal(outcome.buffers["done"], THREADS)


def test_blocks_run_in_turns() -> None:
    form = made().compiled.replace(
        "atomicAdd(&done[own[7 - threadIdx.x]], 1)", "done[own[7 - threadIdx.x]] = blockIdx.x"
    )
    outcome = run(build(form, "count.cu"), launch())
    by = outcome.buffers["done"]
    assert len(set(by)) > 2
    assert np.count_nonzero(np.diff(by)) > 5


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("atomicAdd(&edgetune_control->next, 1u)", "edgetune_control->next++", "other than by an atomic operation"),
        ("edgetune_rank < ", "edgetune_rank <= ", "takes a logical block, and the quota is 2"),
    ],
)
def test_the_shim_finds_plain_counting_and_takes_above_the_quota(old: str, new: str, message: str) -> None:
    text = made().compiled
    assert text.count(old) == 1
    outcome = run(build(text.replace(old, new), "count.cu"), launch(blocks=5), quota=2)
    assert outcome.status == "crash"
    assert message in outcome.message


def test_control_words_have_to_be_a_buffer_of_the_run(built: Built) -> None:
    with pytest.raises(InputError, match="no buffer 'elsewhere'"):
        run(built, replace(launch(), taking=Taking("elsewhere")))


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


def test_a_way_says_how_to_run_it_again() -> None:
    way = FormLaunch("k", (8, 1, 1), 3, ((0, 9), (2, 9)), ExecutionOrder("forward", 7), persistent=True)
    assert str(way) == "k<<<3, 8x1x1>>> 2 times, from ranks [0, 2] on, forward order 7"


@pytest.mark.parametrize("name", ["reduce_dynamic", "warp_shared"])
def test_memory_of_blocks_that_run_in_turns_is_kept_apart(name: str) -> None:
    done = transform(source(name), f"{name}.cu", persistent=True)
    only = tuple(
        replace(each, variants=tuple(one for one in each.variants if one.level == "persistent"))
        for each in done.kernels
    )
    for verdict in check(replace(done, kernels=only), trials(name), matrix=Matrix(cuts=2)):
        assert verdict.reason == ""
        assert verdict.forms == 1

"""Cooperative groups of a block and of a warp are read as builtins; all others are refused."""

import pytest

from edgetune.stages.elastic.source.transform import transform

HEAD = "#include <cooperative_groups.h>\nnamespace cg = cooperative_groups;\n"
BLOCK = "cg::thread_block block = cg::this_thread_block();"
WARP = f"{BLOCK} cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);"


def told(body, head=HEAD):
    (kernel,) = transform(f"{head}__global__ void k(float *x, int n) {{ {body} }}\n", "k.cu").kernels
    return kernel, {each.code for each in kernel.refusals}


@pytest.mark.parametrize(
    "body",
    [
        f"{BLOCK} x[block.thread_rank()] = block.size();",
        f"{BLOCK} x[block.group_index().x] = block.thread_index().y; block.sync();",
        "const auto block = cg::this_thread_block(); cg::sync(block); x[threadIdx.x] = 1;",
        f"{WARP} float v = x[threadIdx.x]; v += warp.shfl_down(v, warp.size() / 2); x[threadIdx.x] = v;",
        f"{WARP} int v = warp.any(x[threadIdx.x] > 0); warp.sync(); x[threadIdx.x] = warp.shfl(v, warp.thread_rank());",
        "auto warp = cg::tiled_partition<32>(cg::this_thread_block()); x[threadIdx.x] = warp.meta_group_rank();",
        "cg::this_thread_block().sync(); x[threadIdx.x] = 1;",
    ],
)
def test_groups_of_a_block_and_a_warp_are_accepted(body):
    kernel, codes = told(body)
    assert "cooperative-groups" not in codes
    assert kernel.variants


def test_the_library_may_be_named_in_three_ways():
    body = "thread_block block = this_thread_block(); block.sync(); x[block.thread_rank()] = 1;"
    assert told(body, "#include <cooperative_groups.h>\nusing namespace cooperative_groups;\n")[0].variants
    body = "auto block = cooperative_groups::this_thread_block(); x[block.thread_rank()] = 1;"
    assert told(body, "#include <cooperative_groups.h>\n")[0].variants


@pytest.mark.parametrize(
    "body",
    [
        "cg::grid_group grid = cg::this_grid(); grid.sync();",
        f"{BLOCK} cg::thread_block_tile<16> tile = cg::tiled_partition<16>(block); tile.sync();",
        f"{BLOCK} auto tile = cg::tiled_partition<16>(block); tile.sync();",
        f"{BLOCK} auto active = cg::coalesced_threads(); x[active.thread_rank()] = 1;",
        f"{BLOCK} cg::thread_block *same = &block; same->sync();",
        f"{BLOCK} block.arrive(); x[0] = 1;",
        f"{WARP} x[0] = cg::reduce(warp, x[threadIdx.x], cg::plus<float>());",
    ],
)
def test_other_groups_are_refused(body):
    kernel, codes = told(body)
    assert not kernel.variants
    assert codes & {"cooperative-groups", "grid-sync"}


def test_a_group_that_is_passed_on_is_refused():
    helper = "__device__ float twice(cg::thread_block block, float v) { block.sync(); return 2 * v; }\n"
    kernel, codes = told(f"{BLOCK} x[threadIdx.x] = twice(block, x[threadIdx.x]);", HEAD + helper)
    assert not kernel.variants
    assert "cooperative-groups" in codes


def test_the_original_keeps_its_groups_and_the_lines_stay():
    body = f"    {BLOCK}\n    x[block\n      .thread_rank()] = 1;\n    goto end;\nend:;\n"
    text = f"{HEAD}__global__ void k(float *x) {{\n{body}}}\n"
    (kernel,) = transform(text, "k.cu").kernels
    assert [each.line for each in kernel.refusals if each.code == "goto"] == [7]
    found = transform(f"{HEAD}__global__ void k(float *x) {{ {BLOCK} x[block.thread_rank()] = 1; }}\n", "k.cu")
    assert f"{{ {BLOCK} x[block.thread_rank()] = 1; }}" in found.source
    assert "#include <cooperative_groups.h>" in found.device
    assert "namespace cg = cooperative_groups;" in found.device

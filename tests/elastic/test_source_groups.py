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


TILE = f"{BLOCK} auto tile = cg::tiled_partition<8>(block);"
ANY = "__device__ void any(cg::thread_group g) { g.sync(); }\n"
SHUFFLE = "template <class G> __device__ float low(G g, float v) { return g.shfl(v, 0); }\n"


@pytest.mark.parametrize(
    ("helper", "body"),
    [
        ("", f"{BLOCK} cg::thread_block_tile<16> tile = cg::tiled_partition<16>(block); tile.sync(); x[0] = 1;"),
        ("", f"{BLOCK} auto tile = cg::tiled_partition(block, 16); cg::sync(tile); x[tile.size()] = 1;"),
        ("", f"{WARP} auto four = cg::tiled_partition<4>(warp); x[four.meta_group_size()] = four.shfl_xor(1.0f, 2);"),
        ("const int FOUR = 4;\n", f"{BLOCK} auto tile = cg::tiled_partition<FOUR>(block); x[0] = tile.any(n);"),
        ("", f"{WARP} x[0] = cg::reduce(warp, x[threadIdx.x], cg::plus<float>());"),
        ("", f"{WARP} auto same = warp; same.sync(); x[0] = 1;"),
        ("__device__ void f(cg::thread_block b) { b.sync(); }\n", f"{BLOCK} f(block); x[0] = 1;"),
        ("__device__ void f(const cg::thread_block &b) { b.sync(); }\n", "f(cg::this_thread_block()); x[0] = 1;"),
        ("__device__ void f(cg::thread_block &b);\n__device__ void f(cg::thread_block &b) { cg::sync(b); }\n",
         f"{BLOCK} f(block); x[0] = 1;"),
        ("__device__ int f(cg::thread_block b) { return b.group_index().x; }\n", f"{BLOCK} x[f(block)] = 1;"),
        (ANY, f"{BLOCK} any(block); x[0] = 1;"),
        (ANY, f"{WARP} any(warp); any(block); x[0] = 1;"),
        (ANY + "__device__ void f(cg::thread_group g) { any(g); }\n", f"{WARP} f(warp); x[0] = 1;"),
        ("", f"{TILE} if (threadIdx.x < 16) tile.sync(); x[0] = 1;"),
        ("", f"{TILE} if (tile.meta_group_rank() == 2) x[0] = tile.shfl(1.0f, 2);"),
        (ANY, f"{TILE} if (threadIdx.x < 24) any(tile); x[0] = 1;"),
        (SHUFFLE, f"{WARP} x[0] = low(warp, 1) + low(cg::tiled_partition<8>(block), 2);"),
    ],
)  # fmt: skip
def test_groups_may_be_parts_of_a_warp_and_be_handed_on(helper, body):
    kernel, codes = told(body, HEAD + helper)
    assert kernel.variants, kernel.refusals
    assert ("group-argument" in codes) == any(
        each in body for each in ("f(", "any(b", "any(w", "any(t", "low(", "reduce")
    )


@pytest.mark.parametrize(
    ("helper", "body"),
    [
        ("", "cg::grid_group grid = cg::this_grid(); grid.sync();"),
        ("", f"{BLOCK} auto tile = cg::tiled_partition<64>(block); tile.sync();"),
        ("", f"{BLOCK} auto tile = cg::tiled_partition<SIZE>(block); tile.sync();"),
        ("const int SIZE = 4;\nnamespace a { const int SIZE = 64; }\n",
         f"{BLOCK} auto tile = cg::tiled_partition<SIZE>(block); tile.sync();"),
        ("", f"{BLOCK} auto tile = cg::tiled_partition(block, n); tile.sync();"),
        ("", f"{BLOCK} auto tile = cg::tiled_partition<4>(block); cg::tiled_partition<8>(tile).sync();"),
        ("", f"{BLOCK} auto active = cg::coalesced_threads(); x[active.thread_rank()] = 1;"),
        ("", f"{BLOCK} cg::thread_block *same = &block; same->sync();"),
        ("", f"{BLOCK} block.arrive(); x[0] = 1;"),
        ("", f"{BLOCK} x[0] = cg::reduce(block, x[threadIdx.x], cg::plus<float>());"),
        ("", f"{WARP} x[0] = cg::reduce(warp, x[threadIdx.x], [&](float a, float b) {{ return a + x[1]; }});"),
        ("", f"{WARP} x[0] = warp.match_any(n);"),
        ("", f"{BLOCK} {{ auto block = cg::tiled_partition<4>(cg::this_thread_block()); block.sync(); }}"),
        ("", f"{BLOCK} auto wait = [](auto block) {{ block.sync(); }}; wait(block);"),
        ("#define WAIT block.sync()\n", f"{BLOCK} WAIT; x[0] = 1;"),
        ("#define WAIT(g) g.sync()\n", f"{BLOCK} WAIT(block); x[0] = 1;"),
        ("__device__ void f(cg::thread_block b) { b.arrive(); }\n", f"{BLOCK} f(block); x[0] = 1;"),
        ("__device__ void f(cg::thread_block *b) { b->sync(); }\n", f"{BLOCK} f(&block); x[0] = 1;"),
        ("struct S { __device__ void f(cg::thread_block b) { b.sync(); } };\n", f"{BLOCK} S s; s.f(block); x[0] = 1;"),
        ("template <class G> __device__ void f(G g) { g.arrive(); }\n", f"{BLOCK} f(block); x[0] = 1;"),
        (ANY, "any(cg::coalesced_threads()); x[0] = 1;"),
        (ANY, "any(cg::this_grid()); x[0] = 1;"),
        ("template <class G> __device__ float f(G g) { return g.group_index().x; }\n",
         f"{WARP} x[0] = f(block); f(warp);"),
        ("__device__ int f(cg::thread_group g) { return g.size() + blockIdx.x; }\n",
         f"{WARP} x[0] = f(block) + f(warp);"),
        ("__device__ void f(cg::thread_block b) { b.sync(); }\n", f"{BLOCK} if (threadIdx.x < 9) f(block); x[0] = 1;"),
        (ANY, f"{BLOCK} auto tile = cg::tiled_partition<4>(block); if (threadIdx.x < 9) any(tile); x[0] = 1;"),
        ("", f"{BLOCK} auto tile = cg::tiled_partition<4>(block); if (threadIdx.x < 9) tile.sync(); x[0] = 1;"),
        ("", f"{TILE} if (threadIdx.x < 12) tile.sync(); x[0] = 1;"),
        ("", f"{WARP} if (threadIdx.x < 16) warp.sync(); x[0] = 1;"),
        (ANY, f"{TILE} if (threadIdx.x < 12) any(tile); x[0] = 1;"),
        (ANY, f"{WARP} if (threadIdx.x < 16) any(warp); x[0] = 1;"),
        ("", f"{WARP} if (threadIdx.x < 9) x[0] = cg::reduce(warp, 1.0f, cg::plus<float>());"),
    ],
)  # fmt: skip
def test_other_groups_are_refused(helper, body):
    kernel, codes = told(body, HEAD + helper)
    assert not kernel.variants
    assert codes & {"cooperative-groups", "grid-sync", "barrier-branch", "warp-branch", "helper-index", "unknown-name"}


def test_a_function_of_the_file_with_a_name_of_the_library_is_looked_through():
    own = "template <class G> __device__ void sync(G g) { if (threadIdx.x < 9) g.sync(); }\n"
    head = f"#include <cooperative_groups.h>\nusing namespace cooperative_groups;\n{own}"
    kernel, codes = told("thread_block block = this_thread_block(); sync(block); x[0] = 1;", head)
    assert not kernel.variants
    assert "barrier-branch" in codes


def test_a_group_of_a_header_is_read(tmp_path):
    (tmp_path / "sums.cuh").write_text(
        "#pragma once\nnamespace cg = cooperative_groups;\n"
        "__device__ float first(float *s, cg::thread_block &b) { cg::sync(b); return s[b.group_index().x]; }\n"
    )
    text = f'#include <cooperative_groups.h>\n#include "sums.cuh"\n__global__ void k(float *x) {{ {BLOCK} x[1] = '
    (kernel,) = transform(f"{text}first(x, block); }}\n", "k.cu", [tmp_path]).kernels
    assert kernel.variants, kernel.refusals


def test_the_cause_is_told_first_and_nothing_that_is_read():
    body = f"{WARP} warp.sync(); cg::thread_block_tile<32> other = warp;\n cg::grid_group grid = cg::this_grid();"
    kernel, codes = told(f"{body}\n cg::sync(grid); x[block.thread_rank()] = 1;")
    assert codes == {"grid-sync"}
    kernel, codes = told(f"{WARP}\n x[warp.thread_rank()] = warp.match_any(n); block.sync();")
    assert [(each.line, each.code) for each in kernel.refusals] == [(4, "cooperative-groups")]
    assert "x[warp.thread_rank()] = warp.match_any(n); uses" in kernel.refusals[0].reason


def test_the_original_keeps_its_groups_and_the_lines_stay():
    body = f"    {BLOCK}\n    x[block\n      .thread_rank()] = 1;\n    goto end;\nend:;\n"
    text = f"{HEAD}__global__ void k(float *x) {{\n{body}}}\n"
    (kernel,) = transform(text, "k.cu").kernels
    assert [each.line for each in kernel.refusals if each.code == "goto"] == [7]
    found = transform(f"{HEAD}__global__ void k(float *x) {{ {BLOCK} x[block.thread_rank()] = 1; }}\n", "k.cu")
    assert f"{{ {BLOCK} x[block.thread_rank()] = 1; }}" in found.source
    assert "#include <cooperative_groups.h>" in found.device
    assert "namespace cg = cooperative_groups;" in found.device


GRID = "auto grid = cg::this_grid();"


@pytest.mark.parametrize(
    "body",
    [
        "cg::grid_group grid = cg::this_grid(); for (int i = grid.thread_rank(); i < n; i += grid.size()) x[i] = 1;",
        f"{GRID} x[grid.thread_rank()] = grid.group_dim().x + grid.block_index().y + grid.num_blocks();",
        "x[cg::this_grid().block_rank()] = 1;",
    ],
)
def test_a_grid_that_waits_for_nothing_is_read(body):
    kernel, codes = told(body)
    assert {each.level for each in kernel.variants} == {"grid", "block"}
    assert not codes


@pytest.mark.parametrize(
    ("helper", "body"),
    [
        ("", f"{GRID} x[grid.thread_rank()] = 1; grid.sync();"),
        ("", f"{GRID} x[0] = 1; cg::sync(grid);"),
        ("", "cg::this_grid().sync(); x[0] = 1;"),
        ("", f"{GRID} if (grid.is_valid()) x[0] = 1;"),
        ("", f"{GRID} auto same = &grid; same->sync(); x[0] = 1;"),
        ("", f"{GRID} auto tile = cg::tiled_partition<32>(grid); x[tile.thread_rank()] = 1;"),
        ("", "cg::thread_group all = cg::this_grid(); all.sync(); x[0] = 1;"),
        ("__device__ void f(cg::grid_group g) { g.sync(); }\n", f"{GRID} f(grid); x[0] = 1;"),
        ("__device__ void f(cg::grid_group *g) { g->sync(); }\n", f"{GRID} f(&grid); x[0] = 1;"),
        ("template <class G> __device__ void f(G g) { g.sync(); }\n", "f(cg::this_grid()); x[0] = 1;"),
        ("struct S { cg::grid_group grid; };\n", "S s{cg::this_grid()}; s.grid.sync(); x[0] = 1;"),
        ("#define ALL grid\n", f"{GRID} ALL.sync(); x[0] = 1;"),
    ],
)
def test_a_grid_that_may_wait_is_refused(helper, body):
    kernel, codes = told(body, HEAD + helper)
    assert not kernel.variants
    assert "grid-sync" in codes


def test_reduce_of_the_library_is_not_a_function_of_the_host():
    source = f"{HEAD}__global__ void k(float *x) {{ {WARP} x[0] = cg::reduce(warp, x[0], cg::plus<float>()); }}\n"
    done = transform(source + "void reduce(float *x) { k<<<1, 32>>>(x); }\n", "k.cu")
    assert done.kernels[0].variants

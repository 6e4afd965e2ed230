"""Kernels without barriers: one form for every size of the physical block."""

from __future__ import annotations

import re

import pytest

from edgetune.stages.elastic.kernel import ElasticKernel
from edgetune.stages.elastic.source.transform import transform


def made(source: str) -> tuple[ElasticKernel, str]:
    """Return what becomes of the last kernel of a source, and all of the text made."""
    done = transform(source, "k.cu")
    return done.kernels[-1], re.sub(r"#line.*\n", "", done.source)


def test_one_form_whose_threads_go_through_logical_ones() -> None:
    elastic, text = made("__global__ void k(float *x, int n) { if (threadIdx.x >= n) return; x[threadIdx.x] = 1; }")
    assert [(each.symbol, each.level, each.per_thread) for each in elastic.variants] == [
        ("k__grid", "grid", 1),
        ("k__block", "block", None),
    ]
    assert "{ if (edgetune_threadIdx.x >= n) return; x[edgetune_threadIdx.x] = 1; }" in text
    loop = text.split("k__block(", 1)[1]
    assert (
        "for (unsigned int edgetune_t = threadIdx.x; edgetune_t < edgetune_threads; edgetune_t += blockDim.x)" in loop
    )
    assert "__syncthreads" not in loop
    assert "__trap" not in loop


def test_helpers_that_read_an_index_are_given_the_logical_one() -> None:
    _, text = made(
        "__device__ int at(int n) { return n + threadIdx.x * blockDim.y; }\n__global__ void k(int *x) { x[at(3)] = 1; }"
    )
    form = text.split("k__grid(", 1)[1]
    assert "n + edgetune_threadIdx.x * edgetune_blockDim.y" in form
    assert re.search(r"x\[edgetune_of_k__at\(edgetune_threadIdx, .*?, 3\)\] = 1;", form)


def test_shared_memory_is_kept_from_the_next_logical_block() -> None:
    _, text = made(
        "__global__ void k(int *x) { __shared__ int s[64]; s[threadIdx.x] = *x; x[threadIdx.x] = s[threadIdx.x]; }"
    )
    assert "__syncthreads();" in text.split("k__block(", 1)[1]


def test_launches_that_would_move_lanes_trap() -> None:
    _, text = made("__global__ void k(int *x) { x[threadIdx.x] = __shfl_xor_sync(~0u, x[threadIdx.x], 1); }")
    form = text.split("k__block(", 1)[1]
    assert "if (blockDim.x != edgetune_threads && (blockDim.x % 32 || edgetune_threads % 32)) __trap();" in form
    assert "__syncwarp();" in form


SHUFFLE = "x[threadIdx.x] = __shfl_xor_sync(~0u, x[threadIdx.x], 1);"


@pytest.mark.parametrize(
    ("body", "refused"),
    [
        (f"if (threadIdx.x >= n) return; {SHUFFLE}", True),
        (f"for (int i = 0; i < n; ++i) {{ {SHUFFLE} if (x[threadIdx.x] > i) return; }}", True),
        (f"if (blockIdx.x >= n) return; {SHUFFLE}", False),
        (f"if (threadIdx.y >= n) return; {SHUFFLE}", False),
        (f"int warp = threadIdx.x / 32; if (warp >= n) return; {SHUFFLE}", False),
        (f"int i = blockIdx.x * blockDim.x + threadIdx.x; if ((i >> 5) >= n) return; {SHUFFLE}", False),
        (f"int i = blockIdx.x * blockDim.x + threadIdx.x; if (i / 16 >= n) return; {SHUFFLE}", True),
        (f"int i = threadIdx.x; i += n; if (i / 32 >= n) return; {SHUFFLE}", True),
        (f"{SHUFFLE} if (threadIdx.x >= n) return; x[threadIdx.x + 32] = 0;", False),
    ],
)
def test_lanes_that_return_in_front_of_warp_primitives_are_refused_unless_whole_warps_do(
    body: str, refused: bool
) -> None:
    elastic, _ = made(f"__global__ void k(int *x, int n) {{ {body} }}")
    assert [each.code for each in elastic.refusals] == (["return-before-warp"] if refused else [])


def test_a_variable_that_is_given_an_index_in_parentheses_is_given_the_logical_one() -> None:
    _, text = made("__global__ void k(int *x) { dim3 size(blockDim), at(threadIdx); x[at.x] = size.x; }")
    assert "dim3 size(edgetune_blockDim), at(edgetune_threadIdx);" in text


def test_launches_in_whose_warps_some_threads_would_return_trap() -> None:
    _, text = made(f"__global__ void k(int *x, int n) {{ if (threadIdx.y > n) return; {SHUFFLE} }}")
    assert text.count("if (edgetune_blockDim.x % 32) __trap();") == 2

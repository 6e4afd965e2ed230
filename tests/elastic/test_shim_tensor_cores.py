"""Matrix products of warps on the CPU: numpy's results, and forms that are equal to their originals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from kernel_corpus import BRIEF

from edgetune.stages.elastic.cpu_equivalence import Verdict, check
from edgetune.stages.elastic.kernel import TransformResult
from edgetune.stages.elastic.sample_launches import sample_launches_in
from edgetune.stages.elastic.shim.build import build
from edgetune.stages.elastic.shim.run import ShimLaunch
from edgetune.stages.elastic.source.transform import transform
from edgetune.stages.elastic.work import Pointer

PRODUCT = """#include <mma.h>
using namespace nvcuda;
__global__ void k(const {memory} *a, const {memory} *b, {out} *c) {{
    wmma::fragment<wmma::matrix_a, {m}, {n}, {k}, {kind}, wmma::{a}_major> left;
    wmma::fragment<wmma::matrix_b, {m}, {n}, {k}, {kind}, wmma::{b}_major> right;
    wmma::fragment<wmma::accumulator, {m}, {n}, {k}, {out}> sum;
    wmma::load_matrix_sync(sum, c, {m}, wmma::mem_col_major);
    wmma::load_matrix_sync(left, a, {stride_a});
    wmma::load_matrix_sync(right, b, {stride_b});
    wmma::mma_sync(sum, left, right, sum);
    for (int i = 0; i < sum.num_elements; ++i) sum.x[i] = sum.x[i] + sum.x[i];
    wmma::store_matrix_sync(c, sum, {n}, wmma::mem_row_major);
}}
"""


@pytest.mark.parametrize(
    ("words", "numbers", "sums", "shape"),
    [
        (("half", "half", "float"), np.float16, np.float32, (16, 16, 16)),
        (("half", "half", "half"), np.float16, np.float16, (32, 8, 16)),
        (("signed char", "signed char", "int"), np.int8, np.int32, (8, 32, 16)),
        (("double", "double", "double"), np.float64, np.float64, (8, 8, 4)),
        (("wmma::precision::tf32", "float", "float"), np.float32, np.float32, (16, 16, 8)),
    ],
)
@pytest.mark.parametrize("majors", [("row", "col"), ("col", "row")])
def test_products_are_those_of_numpy(words, numbers, sums, shape, majors) -> None:
    (kind, memory, out), (m, n, k) = words, shape
    draw = np.random.default_rng(1)
    a, b, c = (draw.integers(-8, 8, size).astype(numbers) for size in ((m, k), (k, n), (m, n)))  # exact in all formats
    text = PRODUCT.format(
        kind=kind, memory=memory, out=out, m=m, n=n, k=k, a=majors[0], b=majors[1],
        stride_a=k if majors[0] == "row" else m, stride_b=n if majors[1] == "row" else k,
    )  # fmt: skip
    buffers = {
        "a": (a if majors[0] == "row" else a.T).flatten(),
        "b": (b if majors[1] == "row" else b.T).flatten(),
        "c": c.T.flatten().astype(sums),
    }
    outcome = build(text).run([ShimLaunch("k", (1, 1, 1), (32, 1, 1), tuple(map(Pointer, buffers)))], buffers)
    assert outcome.message == ""
    exact = 2 * (a.astype(np.int64) @ b.astype(np.int64) + c.astype(np.int64))
    np.testing.assert_array_equal(outcome.buffers["c"].reshape(m, n), exact)


GEMM = """#include <mma.h>
using namespace nvcuda;
// launch gemm grid=4 block=64 a=float16[512] b=float16[512] c=float32[2048]
__global__ void gemm(const half *a, const half *b, float *c) {
    __shared__ float tile[2][256];
    const int warp = threadIdx.x / 32;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> left;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> right;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 0.0f + blockIdx.x);
    for (int k = 0; k < 32; k += 16) {
        wmma::load_matrix_sync(left, a + k, 32);
        wmma::load_matrix_sync(right, b + k, 32);
        wmma::mma_sync(sum, left, right, sum);
    }
    wmma::store_matrix_sync(tile[warp], sum, 16, wmma::mem_row_major);
    __syncthreads();
    for (int i = threadIdx.x; i < 512; i += 64) c[blockIdx.x * 512 + i] = tile[1 - i / 256][i % 256];
}
"""


def verdict(made: TransformResult, text: str) -> Verdict:
    return check(made, sample_launches_in(text, "one.cu"), name="one.cu", matrix=BRIEF)[0]


def test_grid_forms_with_products_of_warps_are_equal() -> None:
    made = transform(GEMM, "one.cu")
    found = verdict(made, GEMM)
    assert (found.answer, found.reason, found.forms) == ("equal", "", 1)
    broken = made.device.replace("0.0f + edgetune", "1.0f + edgetune")
    assert broken != made.device
    assert verdict(replace(made, device=broken), GEMM).answer == "different"


def test_blocks_that_store_to_one_tile_are_racy() -> None:
    text = GEMM.replace("c[blockIdx.x * 512 + i]", "c[i]")
    assert verdict(transform(text, "one.cu"), text).answer == "racy"


def test_lanes_that_stay_away_from_a_product_fail() -> None:
    text = GEMM.replace("wmma::mma_sync(sum", "if (threadIdx.x % 32 < 16) wmma::mma_sync(sum")
    made = transform(text, "one.cu")
    assert not made.kernels[0].variants or verdict(made, text).answer == "fails"


def test_numbers_of_two_bytes_are_the_upper_halves_of_floats() -> None:
    text = """#include <cuda_bf16.h>
    __global__ void k(const float *in, __nv_bfloat16 *out, float *back) {
        const int i = blockIdx.x * 256 + threadIdx.x;
        out[i] = __float2bfloat16(in[i]);
        back[i] = out[i] * __nv_bfloat16(3.0f);
    }
    """
    upper = np.arange(65536, dtype=np.uint32) << 16
    words = np.concatenate([upper | low for low in (0, 0x7FFF, 0x8000, 0x8001)])
    given = words.astype(np.uint32).view(np.float32)
    given = np.where(np.isnan(given), np.float32(1), given)
    buffers = {"in": given, "out": np.zeros(given.size, np.uint16), "back": np.zeros(given.size, np.float32)}
    launch = ShimLaunch("k", (given.size // 256, 1, 1), (256, 1, 1), tuple(map(Pointer, buffers)))
    outcome = build(text).run([launch], buffers)

    def rounded(floats):
        bits = floats.astype(np.float32).view(np.uint32).astype(np.uint64)
        return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)

    np.testing.assert_array_equal(outcome.buffers["out"], rounded(given))
    halves = (rounded(given).astype(np.uint32) << 16).view(np.float32)
    with np.errstate(over="ignore"):
        product = (rounded(halves * np.float32(3)).astype(np.uint32) << 16).view(np.float32)
    np.testing.assert_array_equal(outcome.buffers["back"], product)

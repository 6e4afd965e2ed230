"""Clocks, random numbers and headers of CUDA on the CPU."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_corpus import BRIEF

from edgetune.stages.elastic.cpu_equivalence import Verdict, check
from edgetune.stages.elastic.sample_launches import sample_launches_in
from edgetune.stages.elastic.shim.build import build
from edgetune.stages.elastic.shim.run import ShimLaunch
from edgetune.stages.elastic.source.transform import transform
from edgetune.stages.elastic.work import Pointer


def verdict(text: str) -> Verdict:
    return check(transform(text, "one.cu"), sample_launches_in(text, "one.cu"), name="one.cu", matrix=BRIEF)[0]


def run(text: str, out: np.ndarray, threads: int = 1) -> np.ndarray:
    launch = ShimLaunch("k", (1, 1, 1), (threads, 1, 1), (Pointer("out"),))
    outcome = build(text).run([launch], {"out": out})
    assert outcome.message == ""
    return outcome.buffers["out"]


TIMED = """#include <time.h>
// launch timed grid=4 block=32 in=float32[128] out=float32[4] timer=int64[8]
__global__ void timed(const float *in, float *out, clock_t *timer) {
    __shared__ float held[32];
    if (threadIdx.x == 0) timer[blockIdx.x] = clock();
    held[threadIdx.x] = in[blockIdx.x * 32 + threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) out[blockIdx.x] = held[0] + held[31];
    __syncthreads();
    if (threadIdx.x == 0) timer[gridDim.x + blockIdx.x] = clock();
}
"""


def test_forms_of_a_kernel_that_times_itself_are_equal() -> None:
    found = verdict(TIMED)
    assert (found.answer, found.reason, found.forms) == ("equal", "", 4)


def test_a_loop_that_waits_for_a_clock_ends() -> None:
    text = "__global__ void k(long long *out) { long long start = clock64(); while (clock64() - start < 1000000000) ;"
    got = run(text + " out[threadIdx.x] = clock64() - start; }", np.zeros(8, np.int64), threads=8)
    assert (got > 1000000000).all()
    assert len(set(got)) == 1


def test_random_numbers_are_those_of_their_seed_and_sequence() -> None:
    text = """#include <curand_kernel.h>
    __global__ void k(float *out) {
        curandState state;
        curand_init(7, threadIdx.x, 0, &state);
        out[threadIdx.x] = curand_uniform(&state);
        out[64 + threadIdx.x] = curand_normal(&state);
        curandStatePhilox4_32_10_t philox;
        curand_init(7, 3, threadIdx.x, &philox);
        float4 four = curand_uniform4(&philox);
        out[128 + threadIdx.x] = four.x + (four.y == four.z) + (curand_poisson(&philox, 2.0) > 100);
    }"""
    got = run(text, np.zeros(192, np.float32), threads=64)
    uniform, normal, offset = got.reshape(3, 64)
    assert uniform.min() > 0
    assert uniform.max() <= 1
    assert len(set(uniform)) == len(set(offset)) == 64
    assert abs(normal).max() > 1
    assert abs(normal.mean()) < 0.5


def test_forms_of_a_kernel_that_draws_random_numbers_are_equal() -> None:
    text = """#include <curand_kernel.h>
// launch k grid=4 block=8 states=uint64[192] out=float32[32]
__global__ void k(curandState *states, float *out) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    curandState state = states[i];
    out[i] = curand_normal(&state);
    states[i] = state;
}
"""
    assert verdict(text).answer == "equal"


def test_forms_of_a_kernel_that_draws_quasi_random_numbers_are_equal() -> None:
    text = """#include <curand_kernel.h>
// launch k grid=4 block=8 out=float32[32]:zero directions=uint32[64] offset=uint32:3
__global__ void k(float *out, curandDirectionVectors32_t *directions, unsigned int offset) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    curandStateSobol32_t state;
    curandStateScrambledSobol32 scrambled;
    curand_init(directions[threadIdx.x % 2], offset + blockIdx.x, &state);
    curand_init(directions[1], i, offset, &scrambled);
    skipahead(threadIdx.x, &state);
    out[i] = curand_uniform(&state) + curand_normal(&scrambled);
}
"""
    assert verdict(text).answer == "equal"


def test_forms_of_a_kernel_with_memory_of_its_own_are_equal() -> None:
    text = """
// launch k grid=4 block=8 out=float32[32]:zero in=float32[32]
__global__ void k(float *out, const float *in) {
    float *own;
    const cudaError_t error = cudaMalloc(&own, 2 * sizeof(float));
    if (error == cudaSuccess && cudaGetLastError() != cudaErrorMemoryAllocation) {
        const int i = blockIdx.x * blockDim.x + threadIdx.x;
        own[0] = in[i];
        out[i] = own[0] * 2.0f;
        cudaFree(own);
    }
}
"""
    assert verdict(text).answer == "equal"


@pytest.mark.parametrize(
    ("operation", "wanted"),
    [
        ("cuCadd(a, b)", 4 - 2j), ("cuCsub(a, b)", -2 + 6j), ("cuCmul(a, b)", 11 + 2j), ("cuCdiv(a, b)", -0.2 + 0.4j),
        ("cuConj(a)", 1 - 2j), ("cuCfma(a, b, a)", 12 + 4j), ("make_cuDoubleComplex(cuCabs(b), cuCimag(b))", 5 - 4j),
        ("cuComplexFloatToDouble(cuCmulf(make_cuComplex(1, 2), make_cuFloatComplex(3, -4)))", 11 + 2j),
    ],
)  # fmt: skip
def test_complex_numbers(operation: str, wanted: complex) -> None:
    text = "#include <cufft.h>\n__global__ void k(cufftDoubleComplex *out) {\n"
    text += f"    cuDoubleComplex a = {{1, 2}}, b = {{3, -4}};\n    out[0] = {operation};\n}}\n"
    np.testing.assert_allclose(run(text, np.zeros(2)).view(complex)[0], wanted)


HEADERS = ("vector_types", "vector_functions", "builtin_types", "driver_types", "host_defines", "texture_types")


@pytest.mark.parametrize("header", HEADERS)
def test_headers_of_cuda_are_there(header: str) -> None:
    text = f"#include <{header}.h>\nstruct Plan {{ cudaStream_t stream; cudaEvent_t done; float4 *memory; }};\n"
    text += "cudaError_t start(Plan *plan);\n__global__ void k(int *out) { out[0] = sizeof(Plan); }"
    assert run(text, np.zeros(1, np.int32))[0] == 24


def test_atomics_of_the_system_and_of_a_block() -> None:
    text = "__global__ void k(int *out) { atomicCAS_system(&out[0], 0, 3); atomicCAS_block(&out[1], 0, 4); }"
    np.testing.assert_array_equal(run(text, np.zeros(2, np.int32)), [3, 4])


def test_groups_shuffle_what_has_16_bytes() -> None:
    text = """#include <cooperative_groups.h>
    namespace cg = cooperative_groups;
    // launch k grid=4 block=64 a=uint32[1024]
    __global__ void k(uint4 *a) {
        cg::thread_block_tile<16> tile = cg::tiled_partition<16>(cg::this_thread_block());
        const int i = blockIdx.x * blockDim.x + threadIdx.x;
        const uint4 mine = a[i], other = tile.shfl_xor(mine, 3);
        a[i] = make_uint4(mine.x + other.y, other.z, other.w, mine.x);
    }
    """
    found = verdict(text)
    assert (found.answer, found.reason) == ("equal", "")
    words = np.arange(64 * 4, dtype=np.uint32)
    launch = ShimLaunch("k", (1, 1, 1), (64, 1, 1), (Pointer("a"),))
    got = build(text).run([launch], {"a": words}).buffers["a"].reshape(64, 4)
    mine = np.arange(64 * 4).reshape(64, 4)
    other = mine[np.arange(64) ^ 3]
    np.testing.assert_array_equal(got.T, [mine[:, 0] + other[:, 1], other[:, 2], other[:, 3], mine[:, 0]])

"""Half precision on the CPU against NumPy's: every number, and every rounding near the limits."""

import numpy as np
import pytest

from edgetune.stages.elastic.shim.build import build
from edgetune.stages.elastic.shim.run import FORWARD, ShimLaunch
from edgetune.stages.elastic.work import Pointer

SOURCE = """#include <cuda_fp16.h>
__global__ void widen(float *out, const half *in) { out[threadIdx.x + 256 * blockIdx.x] = in[threadIdx.x + 256 * blockIdx.x]; }
__global__ void narrow(half *out, const float *in) { out[threadIdx.x + 256 * blockIdx.x] = __float2half(in[threadIdx.x + 256 * blockIdx.x]); }
__global__ void work(half *out, const half *a, const half *b) {
    int i = threadIdx.x + 256 * blockIdx.x, n = 256 * gridDim.x;
    out[i] = a[i] + b[i];
    out[n + i] = a[i] * b[i];
    out[2 * n + i] = __hsub(a[i], b[i]);
    out[3 * n + i] = __hdiv(a[i], b[i]);
    out[4 * n + i] = hsqrt(__habs(a[i]));
    out[5 * n + i] = __hmax(a[i], b[i]);
}
"""  # noqa: E501


@pytest.fixture(scope="module")
def built():
    return build(SOURCE, "half.cu")


def ran(built, kernel, blocks, **buffers):
    launch = ShimLaunch(kernel, (blocks, 1, 1), (256, 1, 1), tuple(map(Pointer, buffers)))
    result = built.run([launch], buffers, FORWARD, limit_s=10)
    assert result.message == ""
    return result.buffers[next(iter(buffers))]


def test_every_half_is_the_same_float(built):
    every = np.arange(65536, dtype=np.uint16).view(np.float16)
    np.testing.assert_array_equal(ran(built, "widen", 256, out=np.zeros(65536, np.float32), given=every), every)


def test_floats_are_rounded_to_the_nearest_half_ties_to_even(built):
    halves = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float64)
    between = np.concatenate([halves, (halves[:-1] + halves[1:]) / 2, [65519.996, 65520.0, 1e6, np.inf]])
    near = np.concatenate([np.nextafter(np.float32(between), np.float32(way)) for way in (-1e9, 1e9)])
    floats = np.concatenate([between.astype(np.float32), near, -between.astype(np.float32), [np.nan]]).astype(
        np.float32
    )
    floats = np.resize(floats, 256 * (len(floats) // 256 + 1))
    with np.errstate(over="ignore"):
        expected = floats.astype(np.float16)
    found = ran(built, "narrow", len(floats) // 256, out=np.zeros(len(floats), np.float16), given=floats)
    same = (found.view(np.uint16) == expected.view(np.uint16)) | (np.isnan(found) & np.isnan(expected))
    assert same.all(), floats[~same][:5]


def test_arithmetic_is_that_of_numpy(built):
    draw = np.random.default_rng(0)
    a, b = (draw.integers(0, 65536, 4096).astype(np.uint16).view(np.float16) for _ in range(2))
    found = ran(built, "work", 16, out=np.zeros(6 * 4096, np.float16), a=a, b=b).reshape(6, 4096)
    with np.errstate(all="ignore"):
        expected = [a + b, a * b, a - b, a / b, np.sqrt(np.abs(a)), np.fmax(a, b)]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)

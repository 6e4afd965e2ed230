"""Warp primitives under a branch are accepted where their mask was computed from votes, in functions too."""

import pytest
from kernel_corpus import BRIEF

from edgetune.stages.elastic.cpu_equivalence import check
from edgetune.stages.elastic.sample_launches import sample_launches_in
from edgetune.stages.elastic.source.transform import transform

HEAD = """
__device__ int sum(unsigned mask, int v) {
    for (int by = 16; by > 0; by /= 2) v += __shfl_down_sync(mask, v, by);
    return v;
}
__device__ int low(unsigned mask, int v) { if (threadIdx.x < 2) __syncwarp(mask); return v; }
__device__ int own(unsigned mask, int v) { mask = ~0u; return __shfl_down_sync(mask, v, 1); }
__device__ int two(unsigned mask, int v) { __syncwarp(); return __shfl_down_sync(mask, v, 1); }
__device__ int old(unsigned mask, int v) { v += __shfl_down(v, 1); return __shfl_down_sync(mask, v, 1); }
__device__ int nested(unsigned mask, int v) { return sum(~0u, v) + __shfl_down_sync(mask, v, 1); }
__device__ unsigned full() { return ~0u; }
__device__ unsigned every = ~0u;
"""
VOTE = "unsigned m = __ballot_sync(~0u, threadIdx.x < 2);"
FEW = "if (threadIdx.x < 2) x[0] ="
ACCEPTED = [
    f"{VOTE} {FEW} sum(m, n);",
    f"{VOTE} {FEW} __shfl_down_sync(m, n, 1);",
    f"{VOTE} x[1] = low(m, n);",
    f"{FEW} sum(__ballot_sync(__activemask(), n > 3), n);",
    f"unsigned m = ~0u; m = __ballot_sync(m, threadIdx.x < 2); {FEW} sum(m, n);",
    f"{VOTE} if (threadIdx.x >= 2) x[0] = sum(~m, n);",
    f"{VOTE} unsigned p = (m & 0xffu); {FEW} sum(p, n);",
    "x[0] = sum(~0u, n);",
]
REFUSED = [
    f"unsigned m = ~0u; {FEW} __shfl_down_sync(m, n, 1);",
    f"unsigned m; m = ~0u; {FEW} sum(m, n);",
    f"{FEW} __shfl_down_sync(n, n, 1);",
    f"{FEW} __shfl_down_sync(full(), n, 1);",
    f"{FEW} __shfl_down_sync(every, n, 1);",
    f"{FEW} __shfl_down_sync(x[3], n, 1);",
    f"{FEW} sum(~0u, n);",
    f"{VOTE} {FEW} sum(m | 0xff00u, n);",
    f"{VOTE} if (n > 9) m = ~0u; {FEW} sum(m, n);",
    f"unsigned m = ~0u; if (n > 9) m = __ballot_sync(m, threadIdx.x < 2); {FEW} sum(m, n);",
    f"{VOTE} m |= 4u; {FEW} sum(m, n);",
    f"{VOTE} unsigned *p = &m; *p = ~0u; {FEW} sum(m, n);",
    f"{VOTE} {{ unsigned m = ~0u; {FEW} sum(m, n); }}",
    f"unsigned m = ~0u; {FEW} sum(m, n); if (n > x[0]) m = __ballot_sync(m, n > 3);",
    "x[1] = low(~0u, n);",
    f"{VOTE} x[1] = low(m, n) + low(~0u, n);",
    *(f"{VOTE} {FEW} {name}(m, n);" for name in ("own", "two", "old", "nested")),
]


def made(body):
    (found,) = transform(f"{HEAD}__global__ void k(int *x, unsigned n) {{ {body} }}", "k.cu").kernels
    return found


@pytest.mark.parametrize("body", ACCEPTED)
def test_computed_masks_wait_for_those_that_voted(body):
    assert made(body).variants, made(body).refusals


@pytest.mark.parametrize("body", REFUSED)
def test_other_masks_may_name_lanes_that_do_not_come(body):
    assert not made(body).variants
    assert "warp-branch" in {each.code for each in made(body).refusals}


def test_rows_of_any_width_may_meet_in_front_of_a_barrier_that_all_come_to():
    text = """// launch k grid=3 block=8,8 x=int32[192] n=int32:3
__global__ void k(int *x, int n) {
    int t = threadIdx.y * blockDim.x + threadIdx.x, at = blockIdx.x * 64 + t, turns = n, seen = x[at];
    do { seen += __shfl_xor_sync(~0u, seen, 1); } while (--turns > 0);
    __syncthreads();
    if (seen & 1) turns = t;
    x[at] = seen + turns;
}
"""
    done = transform(text, "k.cu")
    (verdict,) = check(done, sample_launches_in(text, "k.cu"), name="k.cu", matrix=BRIEF)
    assert (verdict.answer, verdict.reason) == ("equal", "")

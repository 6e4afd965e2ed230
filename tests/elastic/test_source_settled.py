"""Branches and loops around barriers by a flag in shared memory: all threads read the same, or it is refused."""

import pytest

from edgetune.stages.elastic.source.transform import transform

HEAD = """
__device__ bool busy(int t, int n) { return t * 3 < n; }
__device__ void tell(int &flag, int value) { if (value > 3) flag = value; else flag = 1; }
__device__ void tell_all(int &flag, int value) { tell(flag, value); }
__device__ void raise(int &flag) { atomicExch(&flag, 1); }
__device__ void meet(float *s) { s[0] += 1; __syncthreads(); }
__device__ void tell_and_meet(int &flag, int value) { flag = value; __syncthreads(); flag = 2; __syncthreads(); }
__device__ int *kept;
__device__ void keep(int &flag) { kept = &flag; }
__device__ int &same(int &flag) { return flag; }
template <class... T> __device__ void tell_many(T &...flags) { int unused = (flags = ... = 1); }
struct Holder { int &flag; };
#define RAISE(what) what = 1
"""
SYNC = "__syncthreads();"
START = f"if (t == 0) done = 0; {SYNC}"
WORK = "s[t] += s[(t + 1) % 64];"
ACCEPTED = [
    f"{START} while (true) {{ if (busy(t, n)) done = 1; {SYNC} if (1 == done) break; {WORK} {SYNC} }}",
    f"{START} for (;;) {{ tell(done, n + t); {SYNC} if (done) break; {SYNC} if (t == 0) done = 0; {SYNC} }}",
    f"{START} for (;;) {{ tell_all(done, n + t); {SYNC} if (done) break; {WORK} {SYNC} }}",
    f"{START} do {{ n++; {SYNC} if (busy(t, n)) tell(done, t); {SYNC} {WORK} {SYNC} }} while (done < 9 && n < 99);",
    f"{START} if (busy(t, n)) raise(done); {SYNC} if (done) {{ {WORK} {SYNC} }}",
    f"if (t == 0) done = n > 9; {SYNC} if (done) {{ {WORK} meet(s); {WORK} }}",
    f"if (t == 0) done = n > 9; {SYNC} if (!done) {WORK} else {{ {WORK} {SYNC} {WORK} }}",
    f"if (t == 0) done = n > 9; {SYNC} int all = done; if (all > 2) {{ {WORK} {SYNC} {WORK} }}",
    f"{START} meet(s); if (done == 3) {{ {WORK} {SYNC} }}",
]
REFUSED = [
    f"{START} while (true) {{ if (busy(t, n)) done = 1; if (1 == done) break; {WORK} {SYNC} }}",
    f"{START} while (true) {{ {SYNC} if (1 == done) break; if (busy(t, n)) done = 1; {WORK} }}",
    f"{START} while (done < 3) {{ {WORK} {SYNC} if (t == 0) done += 1; }}",
    f"if (t == 0) done = n > 9; if (done) {{ {WORK} {SYNC} }}",
    f"{START} if (t < 9) {{ {SYNC} }} if (t == 0) done = 2; {SYNC} if (done) {{ {WORK} {SYNC} }}",
    f"{START} int seen = done; if (t == 3) seen = 1; if (seen) {{ {WORK} {SYNC} }}",
    f"{START} for (;;) {{ keep(done); *kept = t; {SYNC} if (done) break; {WORK} {SYNC} }}",
    f"{START} int *p = &done; {SYNC} if (t == 5) *p = 1; if (done) {{ {WORK} {SYNC} }}",
    f"{START} int &r = done; if (t == 5) r = 1; if (done) {{ {WORK} {SYNC} }}",
    f"{START} if (t == 5) (int &)done = 1; if (done) {{ {WORK} {SYNC} }}",
    f"{START} if (t == 5) *(&done) = 1; if (done) {{ {WORK} {SYNC} }}",
    f"{START} if (t == 5) same(done) = 1; if (done) {{ {WORK} {SYNC} }}",
    f"{START} int *p = &same(done); {SYNC} if (t == 5) *p = 1; if (done) {{ {WORK} {SYNC} }}",
    f"{START} if (t == 5) RAISE(done); if (done) {{ {WORK} {SYNC} }}",
    f"{START} if (t == 5) tell_many(done); if (done) {{ {WORK} {SYNC} }}",
    f"{START} Holder h{{done}}; {SYNC} if (t == 5) h.flag = 1; if (done) {{ {WORK} {SYNC} }}",
    f"{START} auto raise = [&] {{ if (t == 5) done = 1; }}; raise(); if (done) {{ {WORK} {SYNC} }}",
    f"{START} tell_and_meet(done, t); if (done) {{ {WORK} {SYNC} }}",
    f"{START} if (n > 3 && __syncthreads_or(t)) s[0] = 1; if (t == 0) done = 1; {SYNC} if (done) {{ {WORK} {SYNC} }}",
    f"{START} if (s[t] > 2 && done) {{ {WORK} {SYNC} }}",
    f"{START} if (done + t > 9) {{ {WORK} {SYNC} }}",
]


def made(body):
    head = "__shared__ float s[64]; __shared__ int done; int t = threadIdx.x; s[t] = x[blockIdx.x * 64 + t]; meet(s);"
    text = f"{HEAD}__global__ void k(float *x, int n) {{ {head} {body} x[blockIdx.x * 64 + t] = s[t]; }}"
    (found,) = transform(text, "k.cu").kernels
    return found


@pytest.mark.parametrize("body", ACCEPTED)
def test_a_flag_that_nobody_writes_between_two_barriers_is_the_same_for_all(body):
    assert made(body).variants, made(body).refusals


@pytest.mark.parametrize("body", REFUSED)
def test_other_flags_may_differ(body):
    assert not made(body).variants
    assert {each.code for each in made(body).refusals if each.level == "grid"} & {"barrier-branch", "spin-wait"}


LAST = f"if (t == 0) done = n > 3; {SYNC}"


@pytest.mark.parametrize(
    ("body", "accepted"),
    [
        (f"{LAST} if (done) s[t] = __shfl_down_sync(~0u, s[t], 1);", True),
        (f"{LAST} if (done) {{ {WORK} meet(s); s[t] = __shfl_down_sync(~0u, s[t], 1); }}", True),
        (f"{LAST} if (done && t < 9) s[t] = __shfl_down_sync(~0u, s[t], 1);", False),
        (f"{LAST} if (t == 5) done = 0; if (done) s[t] = __shfl_down_sync(~0u, s[t], 1);", False),
        (f"if (t < 9) {SYNC} {LAST} if (done) s[t] = __shfl_down_sync(~0u, s[t], 1);", False),
    ],
)
def test_warps_go_by_such_a_flag_together(body, accepted):
    assert bool(made(body).variants) is accepted
    assert ("warp-branch" in {each.code for each in made(body).refusals}) is not accepted

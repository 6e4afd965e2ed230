"""What is taken to be the same for all threads of a block: a condition around a barrier that is not makes them vote."""

from __future__ import annotations

import re

import pytest

from edgetune.stages.elastic.source.transform import transform

BEFORE = """
#define SIZE 16
#define TILES(n) (((n) + SIZE - 1) / SIZE)
#define BUMP ++u
#define GROW(v) (v) += 1
#define THERE (p->n)
#define SAME ((u))
enum Mode { FAST, SLOW };
struct Job { int n; const float *data; int parts[2]; };
constexpr int rounds = 3;
__constant__ int fixed;
__constant__ int table[4];
__device__ int counter;
__device__ int COUNTER;
__device__ int elsewhere;
#define ELSEWHERE elsewhere
__device__ void change(int &v) { v = threadIdx.y; }
__device__ int copy(int v) { return v; }
__device__ int clock_of() { return counter; }
"""


def votes(setup: str, condition: str) -> int:
    """Return how often the threads of a block vote on a loop with this condition."""
    source = f"""{BEFORE}
__global__ void k(float *x, int n, int m, Job job, Job *p) {{
    __shared__ float s[64];
    __shared__ int flag;
    {setup}
    for (int i = 0; {condition}; ++i) {{
        s[threadIdx.x] = x[i];
        __syncthreads();
        x[i] += s[63 - threadIdx.x];
    }}
}}
"""
    done = transform(source, "k.cu")
    (elastic,) = done.kernels
    assert elastic.refusals == ()
    assert len(elastic.variants) == 4
    body = done.source.split("edgetune_blocks_k(", 1)[1].split("\n}\n")[0]
    return len(re.findall(r"__syncthreads_or\(edgetune_any_", body))


@pytest.mark.parametrize(
    ("setup", "condition"),
    [
        ("", "i < n"),
        ("", "i < SIZE && i < FAST + rounds"),
        ("", "i < TILES(n)"),
        ("", "i < fixed"),
        ("", "i < job.n"),
        ("", "i < (int)gridDim.x * static_cast<int>(blockDim.y) - blockIdx.z"),
        ("", "i < min(n, max(m, 3))"),
        ("", "i < (n > 3 ? m : 2 * m)"),
        ("", "i < INT_MAX && !(n & 1)"),
        ("int u = n; u += 2; --u;", "i < u"),
        ("int u; if (n > 2) u = 3; else u = m;", "i < u"),
        ("int u = 0; while ((1 << u) < n) ++u;", "i < u"),
        ("int u = n / SIZE, v = u % rounds;", "i < u + v"),
        ("int u = n; if (blockIdx.x > n) return; u = m / n;", "i < u"),
        ("int u = n; { int v = u; u = v + 1; }", "i < u"),
        ("int u = n; x += copy(u);", "i < u"),
        ("const float *u = x + n, *v = u + blockIdx.x;", "u + i < v"),
        ("int u = n, *v = (int *)x; v[u] = 2; x[u] = u;", "i < u"),
        ("int u = n; x[SAME] = 0;", "i < u"),
        ("int u = n; if (x[threadIdx.x] > 0) return; u += 1;", "i < u"),
        ("int u = n; for (int v : {1, 2}) x[v] = u;", "i < u"),
        ("if (x[threadIdx.x] < 0) x[0] = 1; int u = n % 3;", "i < TILES(u)"),
        ("job.data += threadIdx.x; auto u = n + 1;", "i < u"),
        ("float *u = s + n, *v = u + 3;", "u + i < v"),
    ],
)
def test_the_same_for_all_threads(setup: str, condition: str) -> None:
    assert votes(setup, condition) == 0


@pytest.mark.parametrize(
    ("setup", "condition"),
    [
        ("", "i < x[0]"),
        ("flag = n;", "i < flag"),
        ("flag = n;", "i < *(&flag + m)"),
        ("", "i < *(s + m)"),
        ("", "i < s[m]"),
        ("int u = s[n];", "i < u"),
        ("", "i + threadIdx.x < n"),
        ("", "i < p->n"),
        ("", "i < THERE"),
        ("", "i < *(int *)x"),
        ("", "i < counter"),
        ("", "i < COUNTER"),
        ("{ int elsewhere = n; x[0] = elsewhere; }", "i < ELSEWHERE"),
        ("", "i < table[n]"),
        ("", "i < clock_of()"),
        ("", "i < __ldg(&counter)"),
        ("int u = n; if (threadIdx.x > 3) u = 2;", "i < u"),
        ("int u = n; if (x[0] > 3) { if (n > 2) { u = 2; } }", "i < u"),
        ("int u = 0; for (int j = 0; j < threadIdx.x; ++j) ++u;", "i < u"),
        ("int u = 0; for (int j = threadIdx.x; j < n; ++j) u = 5;", "i < u"),
        ("int u = 0; while (u < n) { ++u; if (x[u] > 1) break; }", "i < u"),
        ("int u = 0; for (int j = 0; j < n; ++j) { if (x[j] > 1) continue; ++u; }", "i < u"),
        ("int u = 0; switch (n) { case 1: u = 3; }", "i < u"),
        ("int u = n; BUMP;", "i < u"),
        ("int u = n; GROW(u);", "i < u"),
        ("int u = n; change(u);", "i < u"),
        ("int u = n; int &v = u; v = threadIdx.x;", "i < u"),
        ("int u = n; auto &v = u; v = threadIdx.x;", "i < u"),
        ("int u = n; int *v = &u; *v = threadIdx.x;", "i < u"),
        ("int u = n; (int &)u = threadIdx.x;", "i < u"),
        ("int u = n; reinterpret_cast<int &>(u) = threadIdx.x;", "i < u"),
        ("int u = n, v = threadIdx.x; std::swap(u, v);", "i < u"),
        ("int u = n, v = threadIdx.x; swap(u, v);", "i < u"),
        ("int u = n; auto f = [&]() { u += threadIdx.x; }; f();", "i < u"),
        ("int u = n; int v = (u = threadIdx.x);", "i < u + v"),
        ("int u = n; x[0] = (u += threadIdx.x);", "i < u"),
        ("int u = n, v = threadIdx.x; (n > 2 ? u : v) = 3 + v;", "i < u"),
        ("int u = n, v = u, w = v; u += threadIdx.x; v += u; w = v;", "i < w"),
        ("n -= threadIdx.x;", "i < n"),
        ("job.n += threadIdx.x;", "i < job.n"),
        ("job.parts[threadIdx.x & 1] = 2;", "i < job.n"),
        ("job = *p;", "i < job.n"),
        ("int u = 0; for (int v : {1, 2}) { u = v; }", "i < u"),
        ("if (x[threadIdx.x] > 0) return; int u = m / n;", "i < u"),
        ("if (x[threadIdx.x] > 0) return; int u = m % (n + 1);", "i < u"),
        ("int u[2] = {n, m};", "i < u[1]"),
        ('int u; asm("mov.u32 %0, 3;" : "=r"(u));', "i < u"),
        ("int u = 0; do { ++u; } while (u < x[u]);", "i < u"),
        ("uint3 u = threadIdx;", "i < u.x"),
        ("dim3 u(blockDim), v = threadIdx.x;", "i < v.x"),
        ("int u = n; int v = (u) - threadIdx.x;", "i < v"),
        ("int u = sizeof(x) + threadIdx.x;", "i < u"),
    ],
)
def test_not_seen_to_be_the_same_for_all_threads(setup: str, condition: str) -> None:
    assert votes(setup, condition) == 1


def test_a_variable_of_a_loop_that_votes_is_the_same_for_all_that_are_in_it() -> None:
    inner = "int u = n; if (m > 2) u += m; for (int j = 0; j < u; ++j) { s[0] = 1; __syncthreads(); }"
    assert votes(f"for (int i = 0; i < x[i]; ++i) {{ {inner} }}", "i < n") == 1


def test_loops_that_threads_return_from_need_no_vote_where_their_condition_is_the_same_for_all() -> None:
    assert votes("for (int i = 0; i < n; ++i) { if (x[threadIdx.x] > i) return; __syncthreads(); }", "i < n") == 0


@pytest.mark.parametrize(
    ("value", "count"), [("m / 4", 0), ("TILES(m)", 0), ("m % blockDim.x", 0), ("m / n", 1), ("m % (n + 1)", 1)]
)
def test_a_division_may_fail_for_threads_that_have_returned(value: str, count: int) -> None:
    assert votes(f"if (x[threadIdx.x] > 0) return; int u = {value};", "i < u") == count


@pytest.mark.parametrize(
    ("vote", "together"),
    [
        ("__syncthreads_or(x[threadIdx.x] > n)", True),
        ("__syncthreads_and(x[threadIdx.x] > n) == 0", True),
        ("__syncthreads_count(x[threadIdx.x] > n) > 3 && n < 9", True),
        ("__syncthreads_or(x[threadIdx.x] > n) && threadIdx.x > 3", False),
        ("__syncthreads_or(m = threadIdx.x) && m > 3", False),
        ("__syncthreads_or(copy(threadIdx.x))", False),
    ],
)
def test_all_threads_of_a_block_see_the_same_vote(vote, together):
    source = f"""{BEFORE}
__global__ void k(int *x, int n, int m) {{
    while (true) {{
        if ({vote}) break;
        __syncthreads();
        x[threadIdx.x] += 1;
    }}
}}
"""
    (elastic,) = transform(source, "k.cu").kernels
    assert ("barrier-branch" not in {each.code for each in elastic.refusals}) is together

"""Loops that wait for others are told from loops that get on by themselves."""

import pytest

from edgetune.stages.elastic.source.transform import transform

HEAD = "__device__ int flag;\n__device__ int seen(volatile int *p) { return *p; }\n"

GET_ON = {
    "counting": "for (int i = 0; i < n; ++i) x[i] = i;",
    "counting down": "while (n--) x[n] = n;",
    "a grid stride": "for (int i = blockIdx.x; i < n; i += gridDim.x) x[i] = i;",
    "up to what memory says": "for (int j = x[0]; j < x[1]; ++j) x[j] = 0;",
    "from what memory says": "for (int j = x[n]; j < x[n + 1]; j += 2) x[j] = 0;",
    "up to a member": "for (int j = 0; j < box.size; ++j) x[j] = 0;",
    "halving": "for (int s = blockDim.x / 2; s > 0; s >>= 1) { if (threadIdx.x < s) x[threadIdx.x] += x[s]; "
    "__syncthreads(); }",
    "searching": "int a = 0, b = n; while (a < b) { int m = (a + b) / 2; if (x[m] < 3) a = m + 1; else b = m; }",
    "until it is found": "int i = 0; while (true) { if (i >= n || x[i] == 3) break; ++i; }",
    "chasing": "int i = 0; while (x[i] != 0) i = x[i];",
    "returning": "for (int i = 0;; ++i) { if (x[i] == n) return; }",
    "trying again": "int old = x[0], was; do { was = old; old = atomicCAS(x, was, was + 1); } while (was != old);",
    "trying again with bits": "int old = x[0], was; do { was = old; "
    "old = atomicCAS(x, was, __float_as_int(1.0f + __int_as_float(was))); } while (was != old);",
    "once": "do { x[0] = atomicAdd(x, 1); } while (0);",
    "adding atomically": "for (int i = 0; i < n; ++i) atomicAdd(&x[i], 1);",
    "bounded": "for (int i = 0; i < n && x[0] == 0; ++i) { }",
    "converging": "bool go = true; while (go) { go = false; for (int i = 1; i < n; ++i) if (x[i] < x[i - 1]) "
    "{ int t = x[i]; x[i] = x[i - 1]; x[i - 1] = t; go = true; } }",
}

WAIT = {
    "nothing else": "while (x[0] == 0) { }",
    "empty": "while (x[0] == 0);",
    "an end that never comes": "for (;;) { x[0] = 1; }",
    "a lock": "while (atomicExch(x, 1) != 0) { }",
    "a lock by comparing": "while (atomicCAS(x, 0, 1) != 0);",
    "a lock by a variable": "int seen = 0, old; do { seen = 0; old = atomicCAS(x, seen, 1); } while (old != seen);",
    "a lock with a flag": "bool done = false; while (!done) { if (atomicExch(x, 1) == 0) { x[1] += 1; done = true; "
    "atomicExch(x, 0); } }",
    "volatile": "volatile int *v = x; while (*v == 0) { n++; }",
    "volatile by a cast": "int v; do { v = *(volatile int *)x; } while (v == 0);",
    "volatile in a function": "while (seen(x) == 0) { }",
    "a global variable": "while (flag == 0) { }",
    "a global variable, copied": "int v; do { v = flag; } while (v == 0);",
    "past the cache": "for (;;) { if (__ldcg(x) == n) break; }",
    "a clock": "long long t = clock64(); while (clock64() - t < n) { }",
    "memory, copied": "int v; do { __threadfence(); v = x[n]; } while (v != 1);",
    "looking back": "int i = n; while (i >= 0) { int s = atomicAdd(&x[i], 0); if (s == 0) continue; n += s; --i; }",
    "a wait with steps": "for (int i = n; i >= 0;) { int s; do { s = __ldcv(&x[i]); } while (s == 0); --i; }",
    "asleep": "if (n) __nanosleep(20);",
    "in a lambda": "auto wait = [=] { while (x[0] == 0) { } }; wait();",
}


def codes(body: str) -> set[str]:
    text = f"struct Box {{ int size; }};\n{HEAD}__global__ void k(int *x, int n, Box box) {{ {body} }}\n"
    return {each.code for each in transform(text, "k.cu").kernels[0].refusals if each.level == "grid"}


@pytest.mark.parametrize("body", GET_ON.values(), ids=GET_ON)
def test_a_loop_that_gets_on_is_accepted(body):
    assert codes(body) == set()


@pytest.mark.parametrize("body", WAIT.values(), ids=WAIT)
def test_a_loop_that_may_wait_is_refused(body):
    assert "spin-wait" in codes(body)


def test_a_loop_hidden_in_a_macro_or_a_function():
    macro = "#define LOCK(m) while (atomicCAS(m, 0, 1))\n__global__ void k(int *x) { LOCK(x); }"
    function = "__device__ void lock(int *m) { while (atomicCAS(m, 0, 1)); }\n__global__ void k(int *x) { lock(x); }"
    method = "struct L { int *m; __device__ void lock() { while (atomicCAS(m, 0, 1)); } };\n"
    method += "__global__ void k(L l) { l.lock(); }"
    recursion = "__device__ void wait(volatile int *m) { if (*m == 0) wait(m); }\n"
    recursion += "__global__ void k(int *x) { wait(x); }"
    for text in (macro, function, method, recursion):
        (kernel,) = transform(text, "k.cu").kernels
        assert "spin-wait" in {each.code for each in kernel.refusals}


RECURSION_WAITS = {
    "in turns": "__device__ int b(volatile int *m);\n"
    "__device__ int a(volatile int *m) { if (*m == 0) return b(m); return 1; }\n"
    "__device__ int b(volatile int *m) { if (*m == 0) return a(m); return 2; }\n",
    "on a plain read": "__device__ int a(int *m) { __threadfence(); if (*m == 0) return a(m); return 1; }\n",
    "in an expression": "__device__ int a(int *m) { return *m ? 1 : a(m); }\n",
    "counting how often": "__device__ int a(int *m, int n = 0) { if (*m == 0) return a(m, n + 1); return n; }\n",
    "of three": "__device__ int b(int *m); __device__ int c(int *m);\n"
    "__device__ int a(int *m) { return *m ? 1 : b(m); }\n__device__ int b(int *m) { return c(m); }\n"
    "__device__ int c(int *m) { return a(m); }\n",
}
RECURSION_GETS_ON = {
    "counting down": "__device__ int a(int *m, int n = 9) { return n ? m[n] + a(m, n - 1) : 0; }\n",
    "halves": "__device__ void a(int *m, int lo = 0, int hi = 8) { if (hi - lo > 1) { int mid = (lo + hi) / 2; "
    "a(m, lo, mid); a(m, mid, hi); } }\n",
    "in turns": "__device__ int b(int *m, int n);\n"
    "__device__ int a(int *m, int n = 9) { if (n == 0) return 1; return b(m, n - 1); }\n"
    "__device__ int b(int *m, int n) { if (n == 0) return 0; return a(m, n - 1); }\n",
    "along a list": "__device__ int a(int *m) { if (m[0] == 0) return 1; return a(m + 1); }\n",
}


@pytest.mark.parametrize("text", RECURSION_WAITS.values(), ids=RECURSION_WAITS)
def test_recursion_that_asks_the_same_again_is_refused(text):
    (kernel,) = transform(f"{text}__global__ void k(int *x) {{ a(x); }}", "k.cu").kernels
    assert "spin-wait" in {each.code for each in kernel.refusals}


@pytest.mark.parametrize("text", RECURSION_GETS_ON.values(), ids=RECURSION_GETS_ON)
def test_recursion_that_gets_on_is_accepted(text):
    (kernel,) = transform(f"{text}__global__ void k(int *x) {{ a(x); }}", "k.cu").kernels
    assert "spin-wait" not in {each.code for each in kernel.refusals}

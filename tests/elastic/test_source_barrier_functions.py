"""Barriers and warp primitives in functions: all threads get there, or the kernel is refused."""

import pytest

from edgetune.stages.elastic.source.transform import transform

HEAD = """
__device__ void all(float *s) { s[0] += 1; __syncthreads(); }
__device__ void through(float *s) { all(s); }
__device__ void some(float *s) { if (threadIdx.x < 32) { s[0] += 1; __syncthreads(); } }
__device__ void left(float *s) { if (threadIdx.x >= 32) return; s[0] += 1; __syncthreads(); }
__device__ void again(float *s) { some(s); __syncthreads(); }
__device__ void often(float *s, int n) { for (int i = 0; i < n; ++i) { s[0] += s[i]; __syncthreads(); } }
__device__ void given(float *s, int n) { if (n > 3) { s[0] += 1; __syncthreads(); } }
__device__ void other(float *s, int n) { given(s, n + 1); }
__device__ void missing(float *s, int n = threadIdx.x) { if (n > 3) { s[0] += 1; __syncthreads(); } }
template <int B> __device__ void known(float *s) { if (B > 8) { if (threadIdx.x < 8) s[0] += 1; __syncthreads(); } }
struct Meeting {
    float *s;
    __device__ void wait() { s[0] += 1; __syncthreads(); }
};
struct Functor {
    float *s;
    __device__ void operator()() { s[0] += 1; __syncthreads(); }
};
struct Hidden { int x; __device__ Hidden(int v) : x(v + threadIdx.x) {} };
struct Own { int x = threadIdx.x; };
struct As { int x; __device__ operator int() const { return threadIdx.x; } };
__device__ void hidden(float *s, Hidden h) { if (h.x > 3) { s[0] += 1; __syncthreads(); } }
template <int B, typename T> __device__ void typed(float *s, T n) {
    T last = n + B;
    for (T i = n, j = last; i <= last; i += B) { s[0] += s[i + j]; __syncthreads(); }
}
template <typename T> __device__ void made(float *s, int n) { T t = n; if (t.x > 3) { s[0] += 1; __syncthreads(); } }
template <typename T> __device__ void changed(float *s, int n) {
    T t = n, u = t;
    u += threadIdx.x;
    if (t > 3) { s[0] += 1; __syncthreads(); }
}
__device__ int met() { __syncthreads(); return 1; }
struct Listed { int x; __device__ Listed() : x(met()) {} };
struct Heir : Listed { using Listed::Listed; };
struct Valued { int x = met(); };
struct Ranged { int *p; __device__ int *begin() { met(); return p; } __device__ int *end() { return p; } };
struct Pair { int a, b; };
template <int i> __device__ int get(Pair p) { __syncthreads(); return p.a; }
__device__ int defaulted(float *s, int n = met()) { return n; }
template <class T> __device__ void unnamed(T) { T t = 5; if (t > 3) __syncthreads(); }
typedef unsigned int count;
using size = unsigned long;
__device__ float down(float v) { return v + __shfl_down_sync(~0u, v, 8); }
__device__ float down_too(float v) { return down(v); }
__device__ float low(float v) { if (threadIdx.x % 32 > 15) return v; return v + __shfl_down_sync(~0u, v, 8); }
__device__ float low_too(float v) { if (threadIdx.x % 32 > 15) return v; return down(v); }
"""
ACCEPTED = [
    "n > 3 ? all(s) : through(s);", "if (n > 3 && __syncthreads_or(x[threadIdx.x] > 0)) x[0] = 1;",
    "x[0] = n > 3 ? down(n) : 0;", "if (x[threadIdx.x] > 3 && n > 3) s[0] = 1; all(s);",
    "all(s);", "through(s);", "known<64>(s);", "often(s, n);", "given(s, n);", "other(s, n * 2);",
    "some(s); __syncthreads();", "again(s);", "if (threadIdx.x < 32) through(s); all(s);",
    "int some = x[0]; s[0] = some; all(s); if (threadIdx.x < 9) s[0] += some;",
    "Meeting m{s}; m.wait();", "if (n > 3) { Meeting m{s}; m.wait(); }", "x[0] = down_too(n);",
    "typed<8, size_t>(s, n); typed<4, uint>(s, 3);", "changed<int>(s, n);",
    "count m = n, l = m; size k = l; if (k > 3) { __syncthreads(); x[0] = s[0]; }",
    "all(s); if ((count)n > static_cast<size>(3)) { __syncthreads(); x[0] = s[0]; }",
    "int2 m = {n, n}; if (n > 3) { __syncthreads(); x[0] = m.x; }",
]  # fmt: skip
REFUSED = {
    "threadIdx.x > 3 ? all(s) : (void)0;": "barrier-branch",
    "int v = 0; do { threadIdx.x > 3 && ({ break; 1; }); v = 5; } while (0); if (v) all(s);": "barrier-branch",
    "x[threadIdx.x] > 3 && met();": "barrier-branch",
    "x[threadIdx.x] > 3 or met();": "barrier-branch",
    "if (x[threadIdx.x] > 3 && __syncthreads_or(n)) x[0] = 1;": "barrier-branch",
    "x[0] = threadIdx.x > 3 ? __syncthreads_or(n) : 0;": "barrier-branch",
    "x[0] = threadIdx.x > 3 ? down(n) : 0;": "warp-branch",
    "if (threadIdx.x > 3 && __any_sync(~0u, n)) x[0] = 1;": "warp-branch",
    "some(s);": "barrier-branch",
    "left(s);": "barrier-branch",
    "{ int left = n; s[1] = left; } left(s);": "barrier-branch",
    "all(s); left(s);": "barrier-branch",
    "if (threadIdx.x < 32) through(s);": "barrier-branch",
    "if (threadIdx.x < 32) return; through(s);": "return-before-barrier",
    "often(s, threadIdx.x);": "barrier-branch",
    "given(s, x[0]);": "barrier-branch",
    "other(s, threadIdx.x);": "barrier-branch",
    "given(s, n); other(s, threadIdx.x);": "barrier-branch",
    "typed<8, size_t>(s, threadIdx.x);": "barrier-branch",
    "typed<8, size_t>(s, n); typed<8>(s, Hidden(n));": "barrier-branch",
    "changed<int>(s, n); changed<int &>(s, n);": "barrier-branch",
    "made<Hidden>(s, n);": "barrier-branch",
    "hidden(s, n);": "barrier-branch",
    "Hidden h = n; if (h.x > 3) { __syncthreads(); x[0] = s[0]; }": "barrier-branch",
    "Own own = {}; if (own.x > 3) { __syncthreads(); x[0] = s[0]; }": "barrier-branch",
    "As as = {n}; if (as > 3) { __syncthreads(); x[0] = s[0]; }": "barrier-branch",
    "unnamed<int>(n); Hidden T(3); unnamed(T);": "barrier-branch",
    "all(s); if (((Hidden)n).x > 3) { __syncthreads(); x[0] = s[0]; }": "barrier-branch",
    "all(s); if (static_cast<Hidden>(n).x > 3) { __syncthreads(); x[0] = s[0]; }": "barrier-branch",
    "all(s); if (threadIdx.x < 3) { Listed l; s[0] = l.x; }": "barrier-branch",
    "all(s); if (threadIdx.x < 3) { Heir l; s[0] = l.x; }": "barrier-branch",
    "all(s); if (threadIdx.x < 3) { Valued l; s[0] = l.x; }": "barrier-branch",
    "all(s); if (threadIdx.x < 3) s[0] = defaulted(s);": "barrier-branch",
    "Ranged r{(int *)x}; if (threadIdx.x < 3) for (int v : r) s[0] += v;": "barrier-branch",
    "Pair p{n, n}; if (threadIdx.x < 3) { auto [a, b] = p; s[0] += a; }": "barrier-branch",
    "auto f = met; all(s); if (threadIdx.x < 3) f();": "barrier-branch",
    "auto f = [&] { met(); }; all(s); if (threadIdx.x < 3) f();": "barrier-branch",
    "auto f = down; if (threadIdx.x < 9) x[0] = f(n);": "warp-branch",
    "missing(s);": "helper-thread-index",
    "Meeting m{s}; if (threadIdx.x < 32) m.wait();": "barrier-branch",
    "Functor f{s}; f();": "barrier-branch",
    "if (threadIdx.x < 9) x[0] = down_too(n);": "warp-branch",
    "if (threadIdx.x < 9) return; x[0] = down_too(n);": "return-before-warp",
    "x[0] = low(n);": "warp-branch",
    "x[0] = low_too(n);": "warp-branch",
}


def kernel(body):
    text = f"{HEAD}__global__ void k(float *x, int n) {{ __shared__ float s[64]; {body} }}"
    (found,) = transform(text, "k.cu").kernels
    return found


@pytest.mark.parametrize(
    ("macro", "body", "safe"),
    [
        ("DOWN(v) down(v)", "x[0] = DOWN(n);", True),
        ("DOWN(v) down(v)", "if (threadIdx.x < 9) x[0] = DOWN(n);", False),
        ("DOWN down(3)", "if (threadIdx.x < 9) x[0] = DOWN;", False),
        ("DOWN(v) down(v)\n#define AGAIN(v) DOWN(v)", "if (threadIdx.x < 9) x[0] = AGAIN(0xf);", False),
    ],
)
def test_macros_that_name_a_function_with_a_primitive_count_as_its_calls(macro, body, safe):
    (found,) = transform(f"{HEAD}#define {macro}\n__global__ void k(float *x, int n) {{ {body} }}", "k.cu").kernels
    assert bool(found.variants) == safe, found.refusals


@pytest.mark.parametrize("body", ACCEPTED)
def test_functions_at_whose_barriers_all_threads_meet_are_accepted(body):
    assert kernel(body).variants, kernel(body).refusals


@pytest.mark.parametrize(("body", "code"), REFUSED.items())
def test_functions_at_whose_barriers_some_threads_may_meet_are_refused(body, code):
    found = kernel(body)
    assert not found.variants
    assert code in {each.code for each in found.refusals}


CATCH = "struct Catch { int *p; __device__ Catch(int &v) : p(&v) { v = threadIdx.x; } };\n"
CONVERTED = "struct As { int x; __host__ __device__ operator int() const { return threadIdx.x; } };\n"
COPIED = "struct As { int x; __host__ __device__ As(const As &o) : x(o.x + threadIdx.x) {} };\n"
ADDED = "enum E { A, B };\n__device__ int operator+(E a, E b) { return threadIdx.x; }\n"
HIDDEN = "struct Hidden { int x; __device__ Hidden(int v) : x(v + threadIdx.x) {} };\n"
LATE = f"{HIDDEN}struct Late : Hidden {{ using Hidden::Hidden; }};\n"
GIVEN = "{}__device__ void at(float *s, {} o) {{ if (o.{} > 3) {{ s[0] += 1; __syncthreads(); }} }}\n"
ANY = GIVEN.format("template <typename T> ", "T", "x")
TYPED = (
    "template <class T> __device__ void at(float *s, int n) { T t = n; if (t > 3) { s[0] += 1; __syncthreads(); } }\n"
)
CODE_UNSEEN = [
    (GIVEN.format("struct Own { int x = threadIdx.x; };\n", "Own", "x"), "int p", "at(s, {});"),
    (GIVEN.format(LATE, "Late", "x"), "int p", "at(s, p);"),
    (GIVEN.format(f"{HIDDEN}struct Of {{ Hidden h; }};\n", "Of", "h.x"), "int p", "at(s, {p});"),
    (GIVEN.format(f"{HIDDEN}typedef Hidden Too;\n", "Too", "x"), "int p", "at(s, p);"),
    (HIDDEN + ANY, "int p", "at<Hidden>(s, p);"),
    (CONVERTED, "As p", "if (p > 3)"),
    (f"{CONVERTED}struct Of {{ As a; }};\n", "Of p", "int v = p.a; if (v > 3)"),
    (f"{COPIED}struct Of {{ As a; }};\n", "Of p", "auto q = p; if (q.a.x > 3)"),
    (f"{CONVERTED}__constant__ As limit;\n", "int p", "if (limit > 3)"),
    ("namespace own { struct uint { int y, x = threadIdx.x; };\n__device__ void at(float *s, int n) {"
     " uint t = {n}; if (t.x > 3) { s[0] += 1; __syncthreads(); } } }\n", "int p", "own::at(s, p);"),
    (ADDED, "int p", "int v = A + B; if (v > 3)"),
    (f"{CATCH}__device__ void keep(Catch c) {{}}\n", "int p", "int v = p; keep(v); if (v > 3)"),
    (f"{CATCH}template <class T> __device__ void keep(T t) {{}}\n", "int p", "int v = p; keep<Catch>(v); if (v > 3)"),
    (f"{CATCH}typedef Catch Too;\n", "int p", "int v = p; Too t = v; if (v > 3)"),
    (f"{CATCH}struct Of {{ Catch c; }};\n", "int p", "int v = p; Of o = {v}; if (v > 3)"),
    (CATCH, "int p", "int v = p; Catch c(v); if (v > 3)"),
    (f"{CATCH}typedef Catch Too;\n", "int p", "int v = p; (Too)v; if (v > 3)"),
    (f"{CATCH}__device__ int operator+(Catch a, Catch b) {{ return 1; }}\n", "int p", "int v = p; v + v; if (v > 3)"),
]  # fmt: skip
CODE_UNSEEN += [
    ("", "int p", "int v = p; decltype(auto) r = (v); r = threadIdx.x; if (v > 3)"),
    (f"{HIDDEN}{TYPED}", "int p", "using uint = Hidden; at<uint>(s, p);"),
    (f"{CATCH.replace('int &v', 'const int &v')}__device__ void keep(Catch c) {{}}\n", "int p",
     "int v = p; keep(v); if (v > 3)"),
    ("__device__ void met() { __syncthreads(); }\n#define MEET met\n", "int p", "if (threadIdx.x < 3) { MEET(); }"
     " x[0] = p;"),
]  # fmt: skip
NO_CODE = [
    (f"typedef unsigned int count;\n{TYPED}", "int p", "at<count>(s, p); at<float>(s, 3);"),
    (GIVEN.format("struct Own { int x; };\n", "Own", "x"), "Own p", "at(s, p);"),
    ("struct Own { int x; };\n" + ANY, "Own p", "at(s, p);"),
    ("struct As { int x = 3; __device__ int get() const { return x; } };\n", "As p", "if (p.x > 3)"),
    ("struct Size { int x, y; };\nstruct Of { Size a; };\n", "Of p", "auto q = p; if (q.a.x > 3)"),
    ("enum E { A, B };\n__constant__ int limit;\n", "int p", "int v = A + B; if (v > limit)"),
    ("__device__ float3 operator+(float3 a, float3 b) { return a; }\n", "int p", "int v = p; if (v > 3)"),
    ("struct R { int n; __device__ R(const R &o) : n(o.n) {} };\n__device__ void keep(int v) {}\n", "int p",
     "int v = p; keep(v); if (v > 3)"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("head", "parameter", "body", "safe"),
    [*((*each, False) for each in CODE_UNSEEN), *((*each, True) for each in NO_CODE)],
)
def test_code_that_no_call_shows_may_part_threads(head, parameter, body, safe):
    body += "" if body.endswith(";") else " { s[0] += 1; __syncthreads(); }"
    text = f"""{HEAD.partition("struct")[0]}{head}__global__ void k(float *x, {parameter}) {{
        __shared__ float s[64]; all(s); {body} }}"""
    (found,) = transform(text, "k.cu").kernels
    assert bool(found.variants) == safe, found.refusals


@pytest.mark.parametrize(
    ("body", "multiple"),
    [
        ("x[0] = down(n);", None),
        ("if (threadIdx.x < 32) x[0] = down(n);", 32),
        ("if (threadIdx.y == 0) x[0] = __shfl_sync(~0u, n, 0);", 32),
        ("if ((threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) / 32 == 0) x[0] = down(n);", None),
        ("if (threadIdx.x < 32) s[0] = down(n); __syncthreads(); x[0] = down(s[0]);", None),
        ("unsigned m = __ballot_sync(~0u, threadIdx.y); if (threadIdx.y) __syncwarp(m);", None),
        ("x[0] = by_rows(n);", 32),
    ],
)
def test_launches_whose_rows_would_part_a_warp_are_stopped(body, multiple):
    rows = "__device__ float by_rows(float v) { if (threadIdx.y > 0) return v; return down(v); }\n"
    text = f"{HEAD}{rows}__global__ void k(float *x, int n) {{ __shared__ float s[64]; {body} }}"
    done = transform(text, "k.cu")
    assert done.kernels[0].variants, done.kernels[0].refusals
    checks = [line.strip() for line in done.source.splitlines() if "% 32 &&" in line]
    assert bool(checks) == (multiple is not None)

"""Loops that wait for others are told from loops that get on by themselves."""

from dataclasses import replace

import pytest
from kernel_corpus import BRIEF

from edgetune.stages.elastic.cpu_equivalence import check
from edgetune.stages.elastic.sample_launches import sample_launches_in
from edgetune.stages.elastic.source.transform import transform

HEAD = "__device__ int flag;\n__device__ int seen(volatile int *p) { return *p; }\n"
HEAD += "__device__ int got(int *p) { return *p; }\n#define FIRST x[0]\n"
HEAD += "struct Seen { int *p; __device__ operator int() const { return *p; } };\n"

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
    "a clock": "long long t = clock64(); while (clock64() - t < n) { }",
    "a clock, copied": "clock_t t = clock(), d = 0; while (d < n) { d = clock() - t; } x[0] = d;",
    "a flag, until a time": "long long end = clock64() + n, now; volatile int *v = x; "
    "do { now = clock64(); } while (now < end && *v == 0);",
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
    "memory, copied": "int v; do { __threadfence(); v = x[n]; } while (v != 1);",
    "looking back": "int i = n; while (i >= 0) { int s = atomicAdd(&x[i], 0); if (s == 0) continue; n += s; --i; }",
    "a wait with steps": "for (int i = n; i >= 0;) { int s; do { s = __ldcv(&x[i]); } while (s == 0); --i; }",
    "a flag, with a look at the clock": "long long t; volatile int *v = x; do { t = clock64(); } while (*v == 0);",
    "a time that a flag moves": "long long e = 9; volatile int *v = x; while (clock64() < e) { if (*v == 0) e += 9; }",
    "a plain function": "int v = 0; while (v == 0) { __threadfence(); v = got(x); }",
    "a reference": "int v = 0, &r = x[0]; while (v == 0) { __threadfence(); v = r; }",
    "a place that stays": "int v = 0; while (v == 0) { __threadfence(); int i = threadIdx.x; v = x[i]; }",
    "asleep": "if (n) __nanosleep(20);",
    "in a lambda": "auto wait = [=] { while (x[0] == 0) { } }; wait();",
}

SHARED = "__shared__ int s, t[64]; if (threadIdx.x == 0) s = 0; __syncthreads(); "
WITHIN_BLOCK = {
    "counting together": "while (s < n) { atomicAdd(&s, 1); }",
    "counting in an array": "while (t[0] < n) { atomicAdd(&t[0], 1); }",
    "a flag": "if (threadIdx.x == 0) { x[0] = 1; s = 1; } else { while (s == 0) { } }",
    "a lock": "while (atomicExch(&s, 1) != 0) { }",
    "volatile": "__shared__ volatile int v; if (threadIdx.x == 0) v = 1; while (v == 0) { }",
    "with work on the way": "unsigned int r = n; while (s < n) { r ^= r << 13; int i = r % 64; x[i] = x[i] + 1; "
    "atomicAdd(&s, 1); }",
}
BEYOND_BLOCK = {
    "told by a thread": "while (s == 0) { if (threadIdx.x == 0) s = *(volatile int *)x; __syncthreads(); }",
    "told by an atomic": "while (t[1] == 0) { if (threadIdx.x == 0) t[1] = atomicAdd(x, 0); __syncthreads(); }",
    "told by a plain read": "while (t[1] == 0) { if (threadIdx.x == 0) t[1] = x[0]; __syncthreads(); }",
    "told by a read at the same place": "while (t[1] == 0) { int i = threadIdx.x; t[1] = x[i]; __syncthreads(); }",
    "told by a round": "while (s == 0) { for (int i = 0; i < n; ++i) atomicAdd(&s, x[i]); }",
    "told by a function": "while (s == 0) { if (threadIdx.x == 0) t[1] = seen(x); atomicExch(&s, t[1]); }",
    "told by a plain function": "while (t[1] == 0) { t[1] = got(x); }",
    "told by a global variable": "while (t[1] == 0) { t[1] = flag; }",
    "told by a reference": "int &r = x[0]; while (t[1] == 0) { t[1] = r; }",
    "told by a macro": "while (s == 0) { atomicAdd(&s, FIRST); }",
    "told by a conversion": "Seen seen{x}; while (s == 0) { atomicAdd(&s, seen); }",
    "both": "while (s == 0 || x[0] == 0) { }",
    "a pointer in shared memory": "__shared__ int *p; p = x; while (*p == 0) { }",
    "a name that means two things": "{ int *s = x; while (s[0] == 0) { } }",
    "nothing shared": "while (x[0] == 0) { s = 1; }",
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


@pytest.mark.parametrize("body", WITHIN_BLOCK.values(), ids=WITHIN_BLOCK)
def test_a_loop_that_waits_within_its_block_leaves_the_grid_elastic(body):
    (kernel,) = transform(f"__global__ void k(int *x, int n) {{ {SHARED} {body} }}\n", "k.cu").kernels
    assert "shared-wait" in {each.code for each in kernel.refusals}
    assert {each.level for each in kernel.variants} == {"grid"}


@pytest.mark.parametrize("body", BEYOND_BLOCK.values(), ids=BEYOND_BLOCK)
def test_a_loop_that_waits_through_shared_memory_is_refused(body):
    assert "spin-wait" in codes(SHARED + body)


def test_a_loop_hidden_in_a_macro_or_a_function():
    macro = "#define LOCK(m) while (atomicCAS(m, 0, 1))\n__global__ void k(int *x) { LOCK(x); }"
    function = "__device__ void lock(int *m) { while (atomicCAS(m, 0, 1)); }\n__global__ void k(int *x) { lock(x); }"
    method = "struct L { int *m; __device__ void lock() { while (atomicCAS(m, 0, 1)); } };\n"
    method += "__global__ void k(L l) { l.lock(); }"
    recursion = "__device__ void wait(volatile int *m) { if (*m == 0) wait(m); }\n"
    recursion += "__global__ void k(int *x) { wait(x); }"
    for text in (macro, function, method, recursion):
        (kernel,) = transform(text, "k.cu").kernels
        assert {"spin-wait", "recursion"} & {each.code for each in kernel.refusals}


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
RECURSION_WAITS |= {
    "in parentheses": "__device__ int a(int *m) { return *m ? 1 : (a)(m); }\n",
    "by another name": "__device__ int a(int *m) { auto again = a; return *m ? 1 : again(m); }\n",
    "by a macro": "#define AGAIN(m) a(m)\n__device__ int a(int *m) { return *m ? 1 : AGAIN(m); }\n",
    "a method": "struct L { int *m; __device__ int wait() { return *m ? 1 : wait(); } };\n"
    "__device__ int a(int *m) { L l = {m}; return l.wait(); }\n",
    "a static method": "struct L { static __device__ int wait(int *m) { return *m ? 1 : L::wait(m); } };\n"
    "__device__ int a(int *m) { return L::wait(m); }\n",
    "a method outside of its class": "struct L { int *m; __device__ int wait(); };\n"
    "__device__ int L::wait() { return *m ? 1 : wait(); }\n__device__ int a(int *m) { L l = {m}; return l.wait(); }\n",
    "an operator": "struct S { int *p; };\n__device__ int operator+(S s, int n) { return *s.p ? 1 : s + n; }\n"
    "__device__ int a(int *m) { S s = {m}; return s + 1; }\n",
    "an operator of a reference": "struct S { int f; };\n"
    "__device__ int operator+(const S &s, int n) { return s.f ? 1 : s + n; }\n"
    "__device__ int a(int *m) { return *(S *)m + 1; }\n",
    "an operator of what is not known": "struct S { int *p; };\n__device__ auto same(S s) { return s; }\n"
    "__device__ int operator+(S s, int n) { return *s.p ? 1 : same(s) + n; }\n"
    "__device__ int a(int *m) { S s = {m}; return s + 1; }\n",
    "a lambda": "__device__ int a(int *m) { auto f = [](auto self, int *m) -> int { return *m ? 1 : self(self, m); };"
    " return f(f, m); }\n",
    "in more parentheses": "__device__ int a(int *m) { return *m ? 1 : a((m)); }\n",
    "with a default elsewhere": "__device__ int a(int *m, int n = 0);\n"
    "__device__ int a(int *m, int n) { return *m ? n : a(m); }\n",
    "with arguments in a macro": "#define BOTH m, n\n"
    "__device__ int a(int *m, int n = 0) { return *m ? n : a(BOTH); }\n",
    "of overloads in turns": "__device__ int a(int *m, int n);\n"
    "__device__ int a(int *m) { return *m ? 1 : a(m, 1); }\n__device__ int a(int *m, int n) { return a(m); }\n",
    "of a template to and fro": "template <int n> __device__ int f(int *m) { return *m ? 1 : f<(n + 1) % 2>(m); }\n"
    "__device__ int a(int *m) { return f<0>(m); }\n",
    "of a template up and down": "template <int n> __device__ int f(int *m) {"
    " return *m ? 1 : n ? f<n + 1>(m) : f<n - 1>(m); }\n"
    "__device__ int a(int *m) { return f<0>(m); }\n",
    "of a template that is started anew": "template <int n> __device__ int f(int *m) { return f<n - 1>(m); }\n"
    "template <> __device__ int f<0>(int *m);\ntemplate <> __device__ int f<0>(int *m) { return *m ? 1 : f<9>(m); }\n"
    "__device__ int a(int *m) { return f<9>(m); }\n",
    "of a template of a step": "template <int n> struct N { static const int v = n; };\n"
    "template <int n> __device__ int f(int *m) { return *m ? 1 : f<N<n - 1>::v % 2>(m); }\n"
    "__device__ int a(int *m) { return f<0>(m); }\n",
    "on shared memory": "__device__ int a(int n) { __shared__ int flag; return flag ? n : a(n); }\n"
    "__device__ int a(int *m) { return a(3); }\n",
    "on memory of the file": "__device__ int flag;\n__device__ int b(int n) { return flag ? n : b(n); }\n"
    "__device__ int a(int *m) { return b(3); }\n",
}
_P = "struct P { volatile int *x; "
RECURSION_WAITS |= {
    "of a conversion": _P + "__device__ operator float() const { return *x ? *x : float(*this); } };\n"
    "__device__ float a(int *m) { return P{m}; }\n",
    "of a conversion to a vector": _P + "__device__ __host__ operator float4() const {"
    " if (*x) return float4(); float4 f = *this; return f; } };\n"
    "__device__ float a(int *m) { float4 f = P{m}; return f.x; }\n",
    "of a conversion in a condition": _P + "__device__ explicit operator bool() const; };\n"
    "__device__ P::operator bool() const { if (*x) return 1; return *this ? 1 : 0; }\n"
    "__device__ int a(int *m) { P p{m}; return p ? 1 : 0; }\n",
    "of a conversion of what a function is given": "struct P { int *x; __device__ operator int(); };\n"
    "__device__ int a(int *m) { return P{m}; }\n__device__ P::operator int() { return *x ? 1 : a(x); }\n",
    "of conversions of two classes": "template <class T> struct A { T *p; "
    "__device__ operator float() const { return *p; } };\n"
    "struct Q { int *x; __device__ operator float() { if (*x) return 1; return A<Q>{this}; } };\n"
    "__device__ float a(int *m) { return Q{m}; }\n",
    "of a constructor by an argument": "struct P { int v; __device__ P(int *x); };\n"
    "__device__ int g(P p) { return p.v; }\n__device__ P::P(int *x) { v = *x ? 1 : g(x); }\n"
    "__device__ int a(int *m) { P p(m); return p.v; }\n",
    "of a constructor by a result": "struct P { int v; __device__ P(int *x) { v = *x ? 1 : make(x).v; }"
    " static __device__ P make(int *x) { return x; } };\n__device__ int a(int *m) { P p(m); return p.v; }\n",
    "of a destructor": _P + "__device__ ~P() { if (!*x) { P q{x}; } } };\n__device__ void a(int *m) { P p{m}; }\n",
    "of a conversion by a member of any type": _P + "template <class U> __device__ float more(U u);"
    " __device__ operator float() const { return more(*this); } };\n"
    "template <class U> __device__ float P::more(U u) { return *x ? 1 : u; }\n"
    "__device__ float a(int *m) { return P{m}; }\n",
    "of a comma": _P + "__device__ int operator,(int n) { return *x ? 1 : (*this, n); } };\n"
    "__device__ int a(int *m) { P p{m}; return (p, 1); }\n",
    "of a range": _P + "__device__ int *begin() { int s = *x; if (!s) for (int v : *this) s += v; return 0; }"
    " __device__ int *end() { return 0; } };\n__device__ void a(int *m) { P p{m}; for (int v : p) m[1] = v; }\n",
    "of a member's own value": _P + "int v = *x ? 1 : P{x}.v; };\n__device__ int a(int *m) { P p{m}; return p.v; }\n",
    "of a default argument": "__device__ int f(int *m, int n);\n__device__ int a(int *m) { return *m ? 1 : f(m); }\n"
    "__device__ int f(int *m, int n = a(m)) { return n; }\n",
}
_FLAG = "__device__ int flag;\n"
_CRTP = "template <class T> struct A { volatile int *x; T *p; "
RECURSION_WAITS |= {
    "of a word for an operator": _P + "__device__ bool operator!() { return *x ? 1 : not *this; } };\n"
    "__device__ int a(int *m) { P p{m}; return !p; }\n",
    "of an operator by a word": _P + "__device__ bool operator not() { return *x ? 1 : !*this; } };\n"
    "__device__ int a(int *m) { P p{m}; return !p; }\n",
    "of a comparison by its opposite": _P + "__device__ bool operator==(int o) const {"
    " return *x ? 1 : !(*this != o); } };\n__device__ int a(int *m) { P p{m}; return p == 1; }\n",
    "of a comparison from the other side": _P
    + "__device__ bool operator==(int o) const { return *x ? 1 : o == *this; }"
    " };\n__device__ int a(int *m) { P p{m}; return p == 1; }\n",
    "of all comparisons": _P + "__device__ int operator<=>(int o) const { return *x ? 1 : *this < o; } };\n"
    "__device__ int a(int *m) { P p{m}; return p < 1; }\n",
    "of an operator by its name": _P + "__device__ int operator[](int i) const { return *x ? 1 : this->operator[](i); }"
    " };\n__device__ int a(int *m) { P p{m}; return p[0]; }\n",
    "of a literal": _FLAG + '__device__ int operator""_w(unsigned long long n) { return flag ? n : 3_w; }\n'
    "__device__ int a(int *m) { return 3_w; }\n",
    "of an array of objects": "struct P { int *x; __device__ P(const P &o); };\nstruct W { P p; };\n"
    "__device__ P::P(const P &o) : x(o.x) { if (!*x) { W w[2] = {{o}, {o}}; } }\n"
    "__device__ void a(P *m) { P p(*m); }\n",
    "of a deletion": _P + "P *n; __device__ ~P() { if (!*x) drop(n); } static __device__ void drop(P *p) { delete p; }"
    " };\n__device__ void a(int *m) { P p{m, nullptr}; p.n = &p; }\n",
    "of an object behind a reference": _P + "P &p; __device__ int operator()() { return *x ? 1 : p(); } };\n"
    "__device__ int a(int *m) { return (*(P *)m)(); }\n",
    "of an object behind a reference, outside": "struct Q;\n" + _P + "Q &p; __device__ int operator()(); };\n"
    "struct Q : P {};\n__device__ int P::operator()() { return *x ? 1 : p(); }\n"
    "__device__ int a(int *m) { return (*(P *)m)(); }\n",
    "of a base that is given its heir": _CRTP + "__device__ operator float() const { return *x ? 1 : float(*p); } };\n"
    "struct Q : A<Q> {};\n__device__ float a(int *m) { Q q; q.x = m; q.p = &q; return q; }\n",
    "of an operator of a base that is given its heir": _CRTP + "__device__ bool operator!() const {"
    " return *x ? 1 : !*p; } };\nstruct Q : A<Q> {};\n"
    "__device__ float a(int *m) { Q q; q.x = m; q.p = &q; return !q; }\n",
    "of an operator of what holds what it is given": "template <class T> struct A { int *x; T *p; };\n"
    "template <class T> __device__ int operator+(const A<T> &l, const A<T> &r) { return *l.x ? 1 : *l.p + *r.p; }\n"
    "struct Q : A<Q> {};\n__device__ float a(int *m) { Q q; q.x = m; q.p = &q; return q + q; }\n",
    "of a conversion to a class of the file": "struct B { int v; };\n" + _P + "__device__ operator ::B() const {"
    " if (*x) return B{1}; B b = *this; return b; } };\n__device__ int a(int *m) { B b = P{m}; return b.v; }\n",
    "of a conversion with a comment": _P + "__device__ operator/* to */int() const { if (*x) return 1; return *this; }"
    " };\n__device__ int a(int *m) { return P{m}; }\n",
}
RECURSION_WAITS |= {
    "of an operator by a conversion": "struct V { int *x; __device__ V(float f);"
    " __device__ operator float() const; };\n"
    "__device__ float operator*(V v, float t) { return *v.x ? 1 : t * v; }\n"
    "__device__ float a(int *m) { return *(V *)m * 2.0f; }\n",
    "of an operator by a conversion of a base": "struct B { int *x; __device__ operator float() const; };\n"
    "struct V : B { __device__ V(float f); };\n__device__ float operator*(V v, float t) { return *v.x ? 1 : t * v; }\n"
    "__device__ float a(int *m) { return *(V *)m * 2.0f; }\n",
    "of a class with the name of a vector": "namespace own { struct float4 { volatile int *x; __device__ operator int()"
    " const { const float4 &f = at(); return *x ? 1 : f; } __device__ const float4 &at() const; };\n"
    "__device__ const float4 &float4::at() const { return *this; } }\n"
    "__device__ int a(int *m) { own::float4 f{m}; return f; }\n",
}
NO_RECURSION = {
    "conversions": "template <class T> struct Shared {"
    " __device__ operator T *() { extern __shared__ int m[]; return (T *)m; }"
    " __device__ operator const T *() const { extern __shared__ int m[]; return (T *)m; } };\n"
    "template <class T> struct Proxy { T *p; __device__ operator T() const { return *p; } };\n"
    "struct Half { unsigned short b; __device__ operator float() const { return b * 2.0f; } };\n"
    "struct Ref { int *p; __device__ operator int() const { return get(); } __device__ int get() const {"
    " return *p; } };\n"
    "__device__ void a(int *m) { int *s = Shared<int>(); Ref r = {m}; Half h = {3}; *s = r + h; m[1] = *s; }\n",
    "copies of an object": "struct V { float v[3]; __device__ V(float x) { for (int i = 0; i < 3; ++i) v[i] = x; }"
    " __device__ V(const V &o) { for (int i = 0; i < 3; ++i) v[i] = o.v[i]; }"
    " __device__ operator float() const { return v[0]; } };\n"
    "__device__ V operator+(const V &a, const V &b) { V c(0); for (int i = 0; i < 3; ++i) c.v[i] = a.v[i] + b.v[i];"
    " return c; }\n__device__ void a(int *m) { V v(m[0]); m[1] = v + v + V(3); }\n",
    "a range": "struct R { int *x; int n; __device__ int *begin() { return x; } __device__ int *end() { return x + n; }"
    " };\n__device__ void a(int *m) { R r{m, 3}; for (int &v : r) v += 1; }\n",
    "more arguments": "__device__ int a(int *m, int i, int n) { return m[i] + n; }\n"
    "__device__ int a(int *m) { return a(m, 1, 2); }\n",
    "CUDA's own": "__device__ float4 make_float4(float s) { return make_float4(s, s, s, s); }\n"
    "__device__ float4 fabs(float4 v) { return make_float4(fabs(v.x), fabs(v.y), fabs(v.z), v.w); }\n"
    "__device__ void a(int *m) { *m = fabs(make_float4(*m)).x; }\n",
    "another type": "__device__ float b(float v) { return v; }\n"
    "__device__ float4 b(float4 v) { return make_float4(b(v.x), b(v.y), b(v.z), b(v.w)); }\n"
    "__device__ void a(int *m) { *m = b(make_float4(*m, 0, 0, 0)).x; }\n",
    "another pointer": "__device__ int b(const int *p) { return *p; }\n"
    "__device__ int2 b(int2 *p) { return make_int2(b(&p->x), b(&p->y)); }\n"
    "__device__ void a(int *m) { *m = b((int2 *)m).x; }\n",
    "operators of numbers": "struct C { float re, im; };\n"
    "__device__ C operator+(const C &l, const C &r) { C s = {l.re + r.re, l.im + r.im}; return s; }\n"
    "__device__ void a(int *m) { C c = {1, 2}; *m = (c + c).re; }\n",
    "operators of a template": "template <class T> struct V {"
    " T v[2]; __device__ T &operator[](int i) { return v[i]; } };\n"
    "template <class T> __device__ V<T> operator+(const V<T> &l, const V<T> &r) {"
    " V<T> s; for (int i = 0; i < 2; ++i) s.v[i] = l.v[i] + r.v[i]; return s; }\n"
    "__device__ void a(int *m) { V<int> v; v[0] = *m; v[1] = 2; *m = (v + v)[1]; }\n",
    "operators of what a struct holds": "template <class T> struct V { T v[2]; };\n"
    "template <class T> __device__ V<T> operator+(const V<T> &l, const V<T> &r) {"
    " V<T> s; for (int i = 0; i < 2; ++i) s.v[i] = l.v[i] + r.v[i]; return s; }\n"
    "struct Box { V<int> low, high; };\n"
    "__device__ void a(int *m) { Box *b = (Box *)m; V<int> v = b->low + b->high; *m = v.v[1]; }\n",
    "comparisons by another": "struct P { int *x; __device__ bool operator==(P o) const { return *x == *o.x; }"
    " __device__ bool operator!=(P o) const { return !(*this == o); } };\n"
    "__device__ int a(int *m) { P p{m}, q{m + 1}; return p != q; }\n",
    "operators with operands in turn": "struct V { float e[3]; __device__ V(float x) { e[0] = e[1] = e[2] = x; } };\n"
    "__device__ V operator*(float t, const V &v) { V r(t); for (int i = 0; i < 3; ++i) r.e[i] *= v.e[i]; return r; }\n"
    "__device__ V operator*(const V &v, float t) { return t * v; }\n"
    "__device__ V operator/(const V &v, float t) { return (1 / t) * v; }\n"
    "__device__ void a(int *m) { V v(*m); m[1] = (v * 2.0f / 3.0f).e[1]; }\n",
    "a field with the name of a function": "struct K { int a; __device__ bool operator<(const K &o) const {"
    " return a < o.a; } };\n__device__ void a(int *m) { K p{m[0]}, q{m[1]}; m[2] = p < q; }\n",
    "functions of functions": "template <class F> struct Twice {"
    " F f; __device__ int operator()(int *m) { return f(m) + f(m); } };\n"
    "__device__ void a(int *m) { auto get = [](int *m) { return m[1]; }; Twice<decltype(get)> t{get}; m[0] = t(m); }\n",
    "a template counting down": "template <int n> __device__ int f(int *m) { return m[n] + f<n - 1>(m); }\n"
    "template <> __device__ int f<0>(int *m) { return 0; }\n__device__ int a(int *m) { return f<9>(m); }\n",
    "a class template counting up": "template <int n> struct S {"
    " static __device__ int f(int *m) { return m[n] + S<n + 1>::f(m); } };\n"
    "template <> struct S<9> { static __device__ int f(int *m) { return 0; } };\n"
    "__device__ int a(int *m) { return S<0>::f(m); }\n",
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
    assert {"spin-wait", "recursion"} & {each.code for each in kernel.refusals}


@pytest.mark.parametrize(
    "text",
    {**RECURSION_GETS_ON, **NO_RECURSION}.values(),
    ids=[*RECURSION_GETS_ON, *(f"no recursion: {each}" for each in NO_RECURSION)],
)
def test_recursion_that_gets_on_is_accepted(text):
    (kernel,) = transform(f"{text}__global__ void k(int *x) {{ a(x); }}", "k.cu").kernels
    assert kernel.variants


def test_what_waits_for_the_host_is_told_so():
    (kernel,) = transform("__global__ void k(volatile int *go) { while (*go == 0) { } }", "k.cu").kernels
    assert [each.reason for each in kernel.refusals] == [
        "a loop waits for what the host or another thread writes (*go == 0), which may be in a piece that runs later"
    ]


def test_lanes_of_a_logical_block_begin_in_step_where_they_count_on_it():
    text = "__global__ void k(float *x) {{ __shared__ {} float s[32]; s[0] = *x; __syncthreads(); x[1] = s[1]; }}"
    forms = [transform(text.format(word), "k.cu", persistent=True).source for word in ("volatile", "")]
    assert [each.count("__syncwarp") for each in forms] == [2, 0]


def test_forms_that_look_at_the_clock_do_what_the_original_does():
    text = """// launch later grid=4 block=8 x=int32[32] n=int32:50
__global__ void later(int *x, int n) {
    long long start = clock64(), gone = 0;
    while (gone < n) { gone = clock64() - start; }
    x[blockIdx.x * blockDim.x + threadIdx.x] += gone >= n;
}
"""
    done = transform(text, "k.cu")
    clock = "static inline long long ticks() { static long long now; return now += 3; }\n"
    ticking = replace(done, device=clock + done.device.replace("clock64", "ticks"))
    (verdict,) = check(ticking, sample_launches_in(text, "k.cu"), name="k.cu", matrix=BRIEF)
    assert (verdict.answer, verdict.reason) == ("equal", "")
    assert verdict.forms == 2

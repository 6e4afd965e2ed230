"""Loops whose wait does not stand in a plain condition of the loop, each beside a loop that gets on."""

import pytest

from edgetune.stages.elastic.source.transform import transform

READS = ("v[{}]", "atomicAdd((int *)&v[{}], 0)", "__ldcg((int *)&v[{}])")
"""Ways to read what another block may write; of the first ``v`` is volatile."""

WAITS = {
    "a macro for the word": ("#define SPIN while\n", "SPIN (READ(0) == 0);"),
    "a macro for the loop": ("#define SPIN(c) while (c)\n", "SPIN(READ(0) == 0);"),
    "a lambda that is called at once": ("", "int c = 0; while ([&] { return READ(0) == 0; }()) ++c; x[1] = c;"),
    "a step behind &&": ("", "int i = 0; while (i < n) { READ(i) && ++i; }"),
    "a step behind ?": ("", "int i = 0; while (i < n) { READ(i) ? ++i : 0; }"),
    "a step that an inner loop leaves out": (
        "",
        "int i = 0; while (i < n) { do { if (!READ(i)) break; ++i; } while (0); }",
    ),
    "a step of a lambda": ("", "int i = 0; auto back = [&] { i -= !READ(i - 1); }; while (i < n) { ++i; back(); }"),
    "a step that a lambda leaves out": (
        "",
        "int i = 0; auto back = [&] { if (READ(i - 1)) return; --i; }; while (i < n) { ++i; back(); }",
    ),
    "a step by reference": ("", "int i = 0, &j = i; while (i < n) { ++i; if (!READ(i - 1)) --j; }"),
    "a step by address": ("", "int i = 0, *j = &i; while (i < n) { ++i; if (!READ(i - 1)) *j = 0; }"),
    "a step by an address of later": ("", "int i = 0, *j; j = &i; while (i < n) { ++i; if (!READ(i - 1)) *j = 0; }"),
    "a step by an array's other name": ("", "int i[1] = {0}, *j = i; while (i[0] < n) { ++i[0]; j[0] -= !READ(0); }"),
    "a step by the reference of a lambda": (
        "",
        "int i = 0; auto back = [&r = i](int s) { r -= !s; }; while (i < n) { ++i; int s = READ(0); back(s); }",
    ),
    "a value by address": ("", "int i = 0, s, *p = &s; while (i < n) { *p = READ(i); i += s; }"),
    "a function with a reference": (
        "__device__ void get(PTR v, int i, int &s) { s = READ(i); }\n",
        "int i = 0, s = 0; while (i < n) { get(v, i, s); i += s; }",
    ),
    "a function with an address": (
        "__device__ void get(PTR v, int i, int *s) { *s = READ(i); }\n",
        "int i = 0, s = 0; while (i < n) { get(v, i, &s); i += s; }",
    ),
    "a function that steps": (
        "__device__ void step(PTR v, int &i) { if (READ(i)) ++i; }\n",
        "int i = 0; while (i < n) { step(v, i); }",
    ),
    "a static method that steps": (
        "struct S { static __device__ void step(PTR v, int &i) { if (READ(i)) ++i; } };\n",
        "int i = 0; while (i < n) { S::step(v, i); }",
    ),
    "a method that steps": (
        "struct S { __device__ void back(PTR v, int &i) { if (!READ(i)) --i; } };\n",
        "S s; int i = 0; while (i < n) { ++i; s.back(v, i); }",
    ),
    "a macro for a function that steps": (
        "__device__ void back(PTR v, int &i) { if (!READ(i)) --i; }\n#define BACK(v, i) back(v, i)\n",
        "int i = 0; while (i < n) { ++i; BACK(v, i); }",
    ),
    "a reference to a pointer to constants": (
        "__device__ void back(PTR v, const int *&p) { if (!READ(0)) --p; }\n",
        "const int *p = x; while (p < x + n) { ++p; back(v, p); }",
    ),
    "a reference by the name of its type": (
        "typedef int &number;\n__device__ void back(PTR v, number i) { if (!READ(i)) --i; }\n",
        "int i = 0; while (i < n) { ++i; back(v, i); }",
    ),
    "assembly that steps": (
        "",
        'int i = 0; while (i < n) { ++i; int s = READ(i); asm("sub.s32 %0, %0, %1;" : "+r"(i) : "r"(s)); }',
    ),
    "a copy of memory": ("", "int s; do { memcpy(&s, (void *)v, 4); } while (s == 0);"),
}
PLAIN_WAITS = {
    "assembly that reads": 'int i = 0, s; while (i < n) { asm volatile("ld.global.u32 %0, [%1];" : "=r"(s) : "l"(x));'
    " i += s; }",
    "a pointer of a type left out": "volatile int *v = x; auto p = v; for (int i = 0; i < n; ++i) i -= !p[i];",
    "a reference of such a type": "volatile int *v = x; auto &p = v[1]; for (int i = 0; i < n; ++i) i -= !p;",
    "a semaphore": "int e, o = x[0]; do { e = max(o, 1); o = atomicCAS(x, e, e - 1); } while (o != e);",
    "a semaphore, by a condition": "int e, o = x[0]; do { e = o; if (e <= 0) e = 1; o = atomicCAS(x, e, e - 1); }"
    " while (o != e);",
    "a lock that looks tried again": "int e, o = 0; do { e = o & 0; o = atomicCAS(x, e, 1); } while (o != e);",
    "a comma": "int i = 0; while (++i, x[0] == 0);",
    "either": "for (int i = 0; i < n || x[0] == 0; i++);",
    "both in a break": "int i = 0; while (true) { ++i; if (x[0] && i > 3) break; }",
    "one around the other": "int i = 0; while (true) { ++i; if (x[0]) { if (i > n) break; } }",
    "a ring with a fence": "int i = 0; while (x[i] == 0) { i = (i + 1) % n; __threadfence(); }",
    "a count with a fence": "int c; do { c = 0; __threadfence(); for (int i = 0; i < n; ++i) c += x[i]; } "
    "while (c < n);",
    "a step with a fence": "for (int i = 0; i < n;) { __threadfence(); if (x[i]) ++i; }",
}
GET_ON = {
    "a retry of a value by another name": (
        "",
        "int o = x[0], e, c; do { e = o; c = (int)e; o = atomicCAS(x, c, max(c, n)); } while (o != c);",
    ),
    "assembly that reads what nobody writes": (
        "",
        'int i = 0, s; while (i < n) { asm("ld.global.nc.u32 %0, [%1];" : "=r"(s) : "l"(x + i)); i += 1; }',
    ),
    "a value of a type that is left out": (
        "",
        "volatile int *v = x; auto m = v[0]; for (int i = 0; i < m; ++i) x[i] = 1;",
    ),
    "a template that is given a pointer": (
        "template <class T> __device__ int sum(T *p, int n) { int s = 0; while (n--) s += p[n]; return s; }\n",
        "volatile int *v = x; x[0] = sum(v, n);",
    ),
    "a macro for a loop that counts": (
        "#define UP(i) while (i < n)\n",
        "int i = 0; UP(i) { x[i] = atomicAdd(x, 1); ++i; }",
    ),
    "a macro that runs once": (
        "#define ADD(p) do { atomicAdd(p, 1); } while (0)\n",
        "for (int i = 0; i < n; ++i) ADD(x);",
    ),
    "a lambda that atomics are in": (
        "",
        "auto add = [&](int i) { atomicAdd(x + i, 1); }; for (int i = 0; i < n; ++i) add(i);",
    ),
    "a function that is given a number": (
        "__device__ void push(int *x, int i) { x[atomicAdd(x, 1)] = i; }\n",
        "for (int i = 0; i < n; ++i) push(x, i);",
    ),
    "a function with a constant reference": (
        "__device__ void push(int *x, const int &i) { x[atomicAdd(x, 1)] = i; }\n",
        "for (int i = 0; i < n; ++i) push(x, i);",
    ),
    "a value behind &&": ("", "int c = 0; for (int i = 0; i < n; ++i) { x[i] && ++c; } x[0] = c;"),
    "a fence between writes": ("", "for (int i = 0; i < n; ++i) { x[i] = i; __threadfence(); atomicAdd(x, 1); }"),
    "another variable by reference": (
        "__device__ void get(int *x, int i, int &s) { s = atomicAdd(x + i, 0); }\n",
        "int s = 0; for (int i = 0; i < n; ++i) { get(x, i, s); x[i] = s; }",
    ),
    "an object that is called with elements": (
        "struct F { float a; __device__ void operator()(int &v) const { v *= a; } };\n",
        "F f{2}; for (int i = 0; i < n; ++i) f(x[i]);",
    ),
    "a row": ("", "for (int j = x[n]; j < n && j < x[n + 1]; ++j) x[j] = 0;"),
    "found, in a row": ("", "int j = 0; while (true) { if (j >= n || x[j]) break; ++j; }"),
}


KEEPER = "struct S { int &i; __device__ S(int &a, int *x) : i(a) { if (*x) ++i; } };\n"
CALLED = "struct S { int &i; __device__ void operator()(int *x) { if (*x) ++i; } };\n"
GIVEN = "template <class T> __device__ void step(int *x, T i) { if (*x) ++i; }\n"
CAUGHT = {
    "a constructor": (KEEPER, "S s(i, x);"),
    "a constructor with braces": (KEEPER, "S s{i, x};"),
    "a constructor without a name": (KEEPER, "S(i, x);"),
    "an object of a type left out": (KEEPER, "auto s = S(i, x);"),
    "an operator ()": (CALLED, "S s{i}; s(x);"),
    "an operator () at once": (CALLED, "S{i}(x);"),
    "an argument of a template": (GIVEN, "step<int &>(x, i);"),
    "a type in such an argument": (GIVEN, "step<decltype((i))>(x, i);"),
    "a macro in such an argument": (f"#define R int &\n{GIVEN}", "step<R>(x, i);"),
    "another name in such an argument": (f"using R = int &;\n{GIVEN}", "step<R>(x, i);"),
    "a function": ("__device__ void step(int &i, int *x) { if (*x) ++i; }\n", "step(i, x);"),
    "a function that reads a variable of the file": (
        "__device__ int flag;\n__device__ void step(int &i) { if (flag) ++i; }\n",
        "step(i);",
    ),
    "a function that reads by a macro": (
        "#define FIRST(p) *p\n__device__ void step(int &i, int *x) { if (FIRST(x)) ++i; }\n",
        "step(i, x);",
    ),
    "a function that calls what it is given": (
        "template <class F> __device__ void step(int &i, F f) { if (f()) ++i; }\n",
        "step(i, [=] { return x[0]; });",
    ),
    "a function that is given an address": ("__device__ void step(int *i, int *x) { if (*x) ++*i; }\n", "step(&i, x);"),
    "a method": ("struct S { __device__ void step(int &i, int *x) { if (*x) ++i; } };\n", "S s; s.step(i, x);"),
    "a constructor that is given an address": (
        "struct S { __device__ S(int *i, int *x) { if (*x) ++*i; } };\n",
        "S s(&i, x);",
    ),
    "a parameter of a lambda": ("", "auto f = [](int &i, int *x) { if (*x) ++i; }; f(i, x);"),
}


@pytest.mark.parametrize(("head", "step"), CAUGHT.values(), ids=CAUGHT)
def test_a_counter_that_code_may_keep_a_reference_to_ends_no_loop(head, step):
    assert codes(head, f"for (int i = 0; i < n; ++i) {{ --i; {step} }}") == {"spin-wait"}
    assert codes(head, f"int i = 0; while (i < n) {{ {step} }}") == {"spin-wait"}


def test_a_counter_that_an_object_was_given_before_ends_no_loop():
    assert codes(CALLED, "int i = 0; S s{i}; for (; i < n; ++i) { --i; s(x); }") == {"spin-wait"}
    assert codes(CALLED, "int j = 0; S s{j}; for (int i = 0; i < n; ++i) s(x);") == set()


FENCES = ("__device__ void fence() { __threadfence(); }\n", "#define fence() __threadfence()\n")


@pytest.mark.parametrize("head", FENCES)
def test_a_fence_may_stand_in_a_function_or_a_macro(head):
    assert codes(head, "int i = 0; while (x[i] == 0) { i = (i + 1) % n; fence(); }") == {"spin-wait"}
    assert codes(head, "for (int i = 0; i < n; ++i) { x[i] = i; fence(); }") == set()


def codes(head: str, body: str) -> set[str]:
    (kernel,) = transform(f"{head}__global__ void k(int *x, int n) {{ {body} }}\n", "k.cu").kernels
    return {each.code for each in kernel.refusals if each.level == "grid"}


def written(text: str, read: str) -> str:
    """Return a text in which ``READ(i)`` and ``PTR`` are written out."""
    while "READ(" in text:
        before, _, behind = text.partition("READ(")
        index, _, behind = behind.partition(")")
        text = before + read.format(index) + behind
    return text.replace("PTR", "volatile int *" if read == READS[0] else "int *")


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize(("head", "body"), WAITS.values(), ids=WAITS)
def test_a_wait_that_the_condition_does_not_show_is_refused(head, body, read):
    assert "spin-wait" in codes(written(head, read), written(f"PTR v = x; {body}", read))


def test_a_template_that_is_given_a_volatile_pointer_may_wait():
    head = "template <class T> __device__ void wait(T *p, int n) { for (int i = 0; i < n; ++i) i -= !p[i]; }\n"
    assert codes(head, "volatile int *v = x; wait(v, n);") == {"spin-wait"}


@pytest.mark.parametrize("body", PLAIN_WAITS.values(), ids=PLAIN_WAITS)
def test_a_wait_by_plain_reads_is_refused(body):
    assert "spin-wait" in codes("", body)


@pytest.mark.parametrize(("head", "body"), GET_ON.values(), ids=GET_ON)
def test_a_loop_beside_it_that_gets_on_is_accepted(head, body):
    assert codes(head, body) == set()

"""Ways to change a variable, and to wait, that do not look it: threads must not share what is their own."""

from __future__ import annotations

import shutil

import pytest
from kernel_corpus import BRIEF

from edgetune.stages.elastic.cpu_equivalence import check
from edgetune.stages.elastic.sample_launches import sample_launches_in
from edgetune.stages.elastic.source.transform import transform

WRITES = {
    "a reference by the name of its type": (
        "typedef int &number; __device__ void set(number x, int v) { x = v; }",
        "int n = 0; set(n, threadIdx.x);",
    ),
    "an operator of the file": (
        "struct Put { int v; }; __device__ void operator>>(Put p, int &x) { x = p.v; }",
        "int n = 0; Put put = {(int)threadIdx.x}; put >> n;",
    ),
    "a constructor": (
        "struct Set { int z; __device__ Set(int &x, int v) : z(v) { x = v; } };",
        "int n = 0; Set done(n, threadIdx.x);",
    ),
    "a field that is a reference": ("struct Ref { int &x; };", "int n = 0; Ref r{n}; r.x = threadIdx.x;"),
    "a template argument that is a reference": (
        "template <class T> __device__ void set(T x, int v) { x = v; }",
        "int n = 0; set<int &>(n, threadIdx.x);",
    ),
    "a lambda that is called at once": ("", "int n = 0; [](int &x, int v) { x = v; }(n, threadIdx.x);"),
    "a function in parentheses": (
        "__device__ void set(int &x, int v) { x = v; }",
        "int n = 0; (set)(n, threadIdx.x);",
    ),
    "a reference of a lambda": ("", "int n = 0; auto set = [&r = n](int v) { r = v; }; set(threadIdx.x);"),
    "a field given by reference": (
        "struct Pair { int a, b; }; __device__ void set(int &x, int v) { x = v; }",
        "Pair p = {0, 1}; set(p.a, threadIdx.x); int n = p.a; n += p.b;",
    ),
}
OBJECTS = {
    "an object that is called": (
        "struct Next { int s; __device__ int operator()() { s = s * 5 + 1; return s; } };",
        "Next a{1};",
        "a()",
    ),
    "an operator of elements": (
        "struct Two { int v[2]; __device__ int &operator[](int i) { return v[i]; } };",
        "Two a = {}; a[0] = threadIdx.x;",
        "a[0]",
    ),
    "an operator of fields": (
        "struct Own { int n; __device__ Own *operator->() { return this; } };",
        "Own a = {0}; a->n = threadIdx.x;",
        "a->n",
    ),
    "a field of an object that a function sets": (
        "struct Pair { int a, b; }; __device__ void set(int &x, int v) { x = v; }",
        "Pair p = {0, 1}; set(p.a, threadIdx.x);",
        "p.a",
    ),
}


def kernel(before: str, setup: str, value: str) -> str:
    """Return a kernel that makes a value, hands it to another thread, and uses it again."""
    return f"""{before}
__global__ void k(int *y) {{
    __shared__ int s[64];
    {setup}
    s[threadIdx.x] = {value};
    __syncthreads();
    y[blockIdx.x * 64 + threadIdx.x] = {value} + s[63 - threadIdx.x] * 100;
}}
// launch k grid=3 block=64 y=int32[192]
"""


OBJECTS |= {
    "an address that a function keeps": (
        "__device__ void put(int **to, int *what) { *to = what; }",
        "__shared__ int *kept[64]; int own = threadIdx.x; put(&kept[threadIdx.x], &own);",
        "*kept[threadIdx.x]",
    ),
    "an address as a number": (
        "",
        "int own = threadIdx.x; unsigned long long at = (unsigned long long)&own;",
        "*(int *)at",
    ),
}
KERNELS = {name: kernel(*given, "n") for name, given in WRITES.items()}
KERNELS |= {name: kernel(*given) for name, given in OBJECTS.items()}


@pytest.mark.parametrize("name", KERNELS)
def test_threads_keep_their_own_value_across_a_barrier(name):
    done = transform(KERNELS[name], "k.cu")
    assert [each.refusals for each in done.kernels] == [()]
    assert "edgetune_many_" in done.source


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
@pytest.mark.parametrize("name", OBJECTS)
def test_their_values_are_those_of_the_original(name):
    text = KERNELS[name]
    (verdict,) = check(transform(text, "k.cu"), sample_launches_in(text, "k.cu"), matrix=BRIEF)
    assert verdict.answer == "equal", verdict.reason


ARRAYS = ("typedef int pair[2];", "using pair = int[2];")


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("named", ARRAYS)
def test_an_array_by_the_name_of_its_type_is_not_one_for_all(named, inside):
    setup = "pair a = {0}; a[0] = threadIdx.x;"
    text = kernel("", f"{named} {setup}", "a[0]") if inside else kernel(named, setup, "a[0]")
    (made,) = transform(text, "k.cu").kernels
    assert [each.code for each in made.refusals] == ["type-across"]
    assert [each.level for each in made.variants] == ["grid"]


@pytest.mark.parametrize(
    ("setup", "levels"),
    [
        ("union { int a; unsigned b; }; a = 0; b = threadIdx.x;", ["grid"]),
        ("{ union { int c; unsigned b; }; b = threadIdx.x; s[0] = c; } int a = 0;", ["grid", *["block"] * 3]),
        ("union U { int a; unsigned b; }; U u; u.b = threadIdx.x; int a = u.a;", ["grid", *["block"] * 3]),
    ],
)
def test_fields_of_a_union_without_a_name_are_not_one_for_all(setup, levels):
    (made,) = transform(kernel("", setup, "a"), "k.cu").kernels
    assert [each.level for each in made.variants] == levels


@pytest.mark.parametrize(
    ("setup", "wait"),
    [
        ("", "(__syncthreads)();"),
        ("", "::__syncthreads();"),
        ("struct S { __device__ static void all() { __syncthreads(); } };", "S::all();"),
    ],
)
def test_a_barrier_that_is_not_called_plainly_is_not_taken_apart(setup, wait):
    text = f"__global__ void k(int *y) {{ {setup} y[threadIdx.x] = 1; {wait} y[63 - threadIdx.x] += 1; }}"
    (made,) = transform(text, "k.cu").kernels
    assert "barrier-place" in [each.code for each in made.refusals]
    assert [each.level for each in made.variants] == ["grid"]

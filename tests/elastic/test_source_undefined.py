"""Functions that are declared and defined nowhere are refused where a kernel may call them."""

import pytest

from edgetune.stages.elastic.source.transform import transform

ERROR = "extern __device__ void error(void); error(); return 0;"
PRIMARY = f"template <class T> struct S {{ __device__ T *f() {{ {ERROR} }} }};\n"
OF_INT = "template <> struct S<int> { __device__ int *f() { extern __shared__ int s[]; return s; } };\n"
USE = "__global__ void k(int *x) {\n    S<int> s;\n    x[blockIdx.x] = s.f()[0];\n}\n"

REFUSED = {
    "in a kernel": "__global__ void k(int *x) { extern __device__ void g(int *); g(x); }\n",
    "in a function": "__device__ void f() { extern __device__ void g(); g(); }\n__global__ void k(int *x) { f(); }\n",
    "at the file's level": "__device__ void g(int *);\n__global__ void k(int *x) { g(x); }\n",
    "another type": PRIMARY + OF_INT + USE.replace("S<int> s;", "S<int> s; S<char> t; t.f();"),
    "another type by its name": PRIMARY
    + OF_INT
    + "typedef S<char> C;\n"
    + USE.replace("S<int> s;", "S<int> s; C().f();"),
    "a type that is a parameter": PRIMARY
    + OF_INT
    + "template <class T> __device__ T *of(T) { S<T> s; return s.f(); }\n"
    "__global__ void k(int *x) { S<int> s; x[blockIdx.x] = s.f()[0] + *of('a'); }\n",
    "a template as an argument": PRIMARY
    + OF_INT
    + "template <template <class> class A> __device__ void g() { A<char>().f(); }\n"
    + USE.replace("S<int> s;", "S<int> s; g<S>();"),
    "in a macro": "#define ANY S<char>\n" + PRIMARY + OF_INT + USE.replace("S<int> s;", "S<int> s; ANY().f();"),
    "under a condition": f"{PRIMARY}#ifdef INTS\n{OF_INT}#endif\n{USE}",
    "of another namespace": f"namespace a {{ {PRIMARY} }}\n{PRIMARY}{OF_INT}"
    + USE.replace("S<int> s;", "S<int> s; a::S<int>().f();"),
    "no specialisation": PRIMARY + USE,
    "a specialisation in part": PRIMARY + PRIMARY.replace("struct S", "struct S<T *>") + USE,
    "a function": f"template <class T> __device__ T *f() {{ {ERROR} }}\n"
    "template <> __device__ int *f<int>() { extern __shared__ int s[]; return s; }\n"
    "__global__ void k(int *x) { x[0] = *f<int>() + *f<char>(); }\n",
}
ACCEPTED = {
    "a class": PRIMARY + OF_INT + USE,
    "with spaces": PRIMARY + OF_INT + USE.replace("S<int>", "S< int >"),
    "by another name": PRIMARY + OF_INT + "typedef S<int> I;\n" + USE.replace("S<int>", "I"),
    "in a header's guard": f"#ifndef GUARD\n#define GUARD\n{PRIMARY}{OF_INT}#endif\n{USE}",
    "a function": f"template <class T> __device__ T *f() {{ {ERROR} }}\n"
    "template <> __device__ int *f<int>() { extern __shared__ int s[]; return s; }\n"
    "__global__ void k(int *x) { x[0] = *f<int>(); }\n",
    "defined below": "__device__ int g(int);\n__global__ void k(int *x) { x[0] = g(1); }\n"
    "__device__ int g(int n) { return n; }\n",
}


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_what_may_be_called_and_is_not_defined_is_refused(text):
    (kernel,) = transform(text, "k.cu").kernels
    assert "undefined-function" in {each.code for each in kernel.refusals}


@pytest.mark.parametrize("text", ACCEPTED.values(), ids=ACCEPTED)
def test_a_template_that_is_not_made_is_not_asked(text):
    (kernel,) = transform(text, "k.cu").kernels
    assert kernel.variants, kernel.refusals


def test_the_line_is_that_of_the_call_and_no_missing_header_is_blamed():
    text = '#include "other.h"\n__device__ int g(int);\n__global__ void k(int *x) {\n    x[0] = g(1);\n}\n'
    (kernel,) = transform(text, "k.cu").kernels
    assert [(each.code, each.line) for each in kernel.refusals] == [("undefined-function", 4)]
    assert "other.h" not in kernel.refusals[0].reason


@pytest.mark.parametrize(
    ("before", "call", "defined"),
    [
        ("struct A { __device__ int get(); };\nstruct B { __device__ int get() { return 1; } };",
         "A x; B y; *a = x.get() + y.get();", False),
        ("struct A { __device__ int get(); };\n__device__ int get() { return 1; }", "A x; *a = x.get();", False),
        ("struct A { __device__ int get(); };\n__device__ int A::get() { return 1; }", "A x; *a = x.get();", True),
        ("struct A { __device__ int get(); __device__ int get(int n) { return n; } };", "A x; *a = x.get();", False),
        ("__device__ int get();\nstruct A { __device__ int get() { return 1; } };", "A x; *a = get();", False),
        ("__device__ int get(int n);\n__device__ float get(float n) { return n; }", "*a = get(1);", False),
        ("__device__ int get(int);\n__device__ int get(const int n) { return n; }", "*a = get(1);", True),
        ("__device__ int get(void);\n__device__ int get() { return 2; }", "*a = get();", True),
        ("namespace n { __device__ int get(int *); }\n__device__ int n::get(int *p) { return *p; }",
         "*a = n::get(a);", True),
        ("template <class T> __device__ int get(T n) { return 1; }\ntemplate <> __device__ int get<int>(int n);",
         "*a = get(1);", False),
        ("template <class T> struct A { __device__ T get(T n); };\n"
         "template <class U> __device__ U A<U>::get(U n) { return n; }", "A<int> x; *a = x.get(2);", True),
        ("template <class T> struct A { __device__ T get(T n); };\n"
         "template <class U> __device__ U A<U>::get(U n) { return n; }\ntemplate <> __device__ int A<int>::get(int n);",
         "A<int> x; *a = x.get(2);", False),
    ],
)  # fmt: skip
def test_another_function_of_the_name_is_no_definition(before, call, defined):
    (kernel,) = transform(f"{before}\n__global__ void k(int *a) {{ {call} }}\n", "k.cu").kernels
    codes = [each.code for each in kernel.refusals if each.level == "grid"]
    assert codes == ([] if defined else ["undefined-function"])
    assert bool(kernel.variants) == defined

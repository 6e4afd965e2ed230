"""What is read from a source: kernels, their parameters, and what they use."""

import sys
from pathlib import Path

import pytest

from edgetune.errors import DeviceError, InputError
from edgetune.stages.elastic.kernel import Parameter
from edgetune.stages.elastic.source.parse import parse
from edgetune.stages.elastic.source.syntax import _parser
from edgetune.stages.elastic.source.transform import transform


def kernel_of(text: str):
    (kernel,) = parse(text, "k.cu").kernels
    return kernel.kernel


def test_parameters_as_declared():
    kernel = kernel_of(
        """
        struct Shape { int rows, columns; };
        __global__ void k(const float *__restrict__ x, float y[], Shape shape, /* how many */ unsigned int n = 3) {}
        """
    )
    assert kernel.parameters == (
        Parameter("const float * __restrict__", "x", ("float32",), pointer=True),
        Parameter("float [ ]", "y", ("float32",), pointer=True),
        Parameter("Shape", "shape", ("int32", "int32")),
        Parameter("unsigned int", "n", ("uint32",)),
    )


@pytest.mark.parametrize("head", ["k()", "k(void)", "__launch_bounds__(128, 4) k()", "__launch_bounds__(32 * 4) k()"])
def test_no_parameters(head):
    kernel = kernel_of(f"\n__global__ void {head} {{ }}")
    assert (kernel.name, kernel.line, kernel.parameters) == ("k", 2, ())


def test_uses_are_counted_through_functions_and_macros():
    kernel = kernel_of(
        """
        #define WAIT __syncthreads()
        extern __shared__ float room[];
        __device__ float turned(float *s) { __syncthreads(); return __shfl_sync(~0u, s[threadIdx.x], 0); }
        __device__ void unused() { __syncthreads(); }
        __global__ void k(float *x) { room[threadIdx.x] = 0; WAIT; x[0] = turned(room); }
        """
    )
    assert kernel.barriers == 2
    assert kernel.warp
    assert (kernel.static_shared, kernel.dynamic_shared) == (False, True)


def test_both_kinds_of_shared_memory():
    kernel = kernel_of("__global__ void k() { __shared__ int a[2]; extern __shared__ int b[]; a[0] = b[0]; }")
    assert (kernel.static_shared, kernel.dynamic_shared) == (True, True)


@pytest.mark.parametrize(
    ("parameters", "body", "floats"),
    [
        ("float *x", "atomicAdd(x, 1.0f);", True),
        ("double *x", "atomicAdd(&x[threadIdx.x], 1.0);", True),
        ("int *x", "atomicAdd(x + 1, 1);", False),
        ("unsigned long long *x", "atomicAdd(&x[0], 1ULL);", False),
        ("int *x", "__shared__ unsigned int bins[4]; atomicAdd(&bins[x[0]], 1);", False),
        ("int *x", "__shared__ float bins[4]; atomicAdd(&bins[x[0]], 1);", True),
        ("int *x", "atomicMax(x, 1);", False),
        ("int *x", "atomicCAS(x, __float_as_int(__int_as_float(x[0])), 1);", True),
        ("void *x", "atomicAdd((float *)x, 1);", True),
    ],
)
def test_floating_point_atomics(parameters, body, floats):
    assert kernel_of(f"__global__ void k({parameters}) {{ {body} }}").float_atomics is floats


def test_kernels_in_the_order_of_the_file():
    unit = parse("__global__ void b() {}\nnamespace n { __global__ void a() {} }\n", "k.cu")
    assert [(each.kernel.name, each.kernel.line) for each in unit.kernels] == [("b", 1), ("a", 2)]


def test_headers_beside_the_file_are_read(tmp_path: Path):
    (tmp_path / "inner").mkdir()
    (tmp_path / "one.h").write_text('#include "inner/two.h"\n#define ONE TWO\n')
    text = '#include "three.h"\n#include "../one.h"\n__device__ int two() { return 2; }'
    (tmp_path / "inner" / "two.h").write_text(text)
    unit = parse('#include <cuda_runtime.h>\n#include "one.h"\n__global__ void k() {}', "k.cu", [tmp_path])
    assert set(unit.macros) == {"ONE"}
    assert set(unit.functions) == {"k", "two"}
    assert unit.missing == {"three.h": ("inner/two.h", 1)}
    assert [each.kernel.name for each in unit.kernels] == ["k"]


def test_both_sides_of_a_condition_are_there():
    unit = parse("#if A\n#define X 1\n#else\n#define X threadIdx.x\n#endif\n__global__ void k() {}", "k.cu")
    assert [each.body for each in unit.macros["X"]] == ["1", "threadIdx.x"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "has no kernel"),
        ("int main() { return 0; }", "has no kernel"),
        ("// __global__ void k() {}\n", "has no kernel"),
        ("\x00\x01\x02 not a source", "has no kernel"),
    ],
)
def test_a_file_without_kernels(text, says):
    with pytest.raises(InputError, match=says):
        parse(text, "k.cu")


@pytest.mark.parametrize("header", ["x" * 5000, "a\x00b", ".", ""])
def test_headers_with_odd_names_are_missing(header, tmp_path):
    unit = parse(f'#include "{header}"\n__global__ void k() {{}}', "k.cu", [tmp_path])
    assert [each.kernel.name for each in unit.kernels] == ["k"]


def test_messages_are_printable():
    text = b"__global__ void k(float *x) { x[caf\xe9] = 1; }".decode("utf-8", "surrogateescape")
    for each in transform(text, "k.cu").kernels[0].refusals:
        assert each.reason.encode()


def test_without_tree_sitter_it_is_said_what_to_install(monkeypatch):
    _parser.cache_clear()
    monkeypatch.setitem(sys.modules, "tree_sitter_cuda", None)
    with pytest.raises(DeviceError) as caught:
        parse("__global__ void k() {}", "k.cu")
    assert "edgetune[cuda]" in caught.value.hint


def test_text_that_is_no_unicode():
    text = b"__global__ void k() { } // caf\xe9".decode("utf-8", "surrogateescape")
    assert parse(text, "k.cu").text == b"__global__ void k() { } // caf\xe9"


CONSTRUCTOR = (
    "#define DC __device__\nstruct R { int *m; DC R(int *x) : m(x) { BODY } DC int get() { return *m; } };\n"
    "__global__ void k(int *d) { R r(d); d[threadIdx.x] = r.get(); }\n"
)


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        (CONSTRUCTOR, set()),
        (CONSTRUCTOR.replace("BODY", "while (*m == 0) { }"), {"spin-wait"}),
        (CONSTRUCTOR.replace("BODY", "extern __device__ void g(); g();"), {"undefined-function"}),
        ("#ifndef DC\n" + CONSTRUCTOR.replace("struct", "#endif\nstruct", 1), {"unparsable"}),
    ],
    ids=["plain", "waits", "calls what is not defined", "a macro under a condition"],
)
def test_a_constructor_behind_a_macro_for_its_specifiers_is_read(text, codes):
    (kernel,) = transform(text.replace("BODY", ""), "k.cu").kernels
    assert {each.code for each in kernel.refusals} == codes


def test_a_type_of_a_template_that_is_made_in_an_expression_is_read_and_written_as_it_was():
    text = """template <typename T> struct P { struct S { T v; __device__ S(T x) : v(x) {} }; };
template <typename T> __device__ typename P<T>::S made(T b) { return typename P<T>::S(b + blockIdx.x); }
__global__ void k(int *d, int n) { d[threadIdx.x] = made(n).v; }
"""
    done = transform(text, "k.cu")
    assert done.kernels[0].variants, done.kernels[0].refusals
    assert "tname" not in done.source
    assert done.source.count("typename P<T>::S(b") == 3

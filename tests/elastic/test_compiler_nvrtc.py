"""CUDA C compiled by NVRTC: PTX for every architecture, what it needs there, and errors in the user's own words."""

import sys
from types import SimpleNamespace

import pytest
from kernel_corpus import ARCHES

from edgetune.errors import DeviceError, InputError
from edgetune.stages.elastic import front
from edgetune.stages.elastic.compiler import STAND_INS, CompileOptions, ptx_of
from edgetune.stages.elastic.front import resources_in
from edgetune.stages.elastic.gpu import Resources
from edgetune.stages.elastic.ptx.parse import parse

TILE = """
extern "C" __global__ void tile(float *out, int n)
{
    __shared__ float part[1024];
    part[threadIdx.x] = out[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = part[(threadIdx.x + n) % 1024];
}
__global__ void mangled(float *out) { out[threadIdx.x] += 1.0f; }
extern "C" __global__ void stacked(float *out, int n)
{
    float own[64];
    for (int i = 0; i < 64; i++) own[i] = out[i * n];
    for (int i = 0; i < 64; i++) out[i] = own[(i * n) & 63];
}
"""
FMA = 'extern "C" __global__ void f(float *a, float b, float c) { a[threadIdx.x] = a[threadIdx.x] * b + c; }'


def kernels(text: str, arch: str = "sm_87", **options) -> list[str]:
    made, _ = ptx_of(text, arch, name="k.cu", options=CompileOptions(**options))
    return [each.name for each in parse(made, "k.ptx").entries]


@pytest.mark.parametrize("arch", ARCHES)
def test_each_architecture_gets_ptx_that_names_lines(arch: str) -> None:
    text, _ = ptx_of(TILE, arch, name="tile.cu")
    assert f".target {arch}" in text
    module = parse(text, "tile.ptx")
    assert [each.name for each in module.entries] == ["tile", "_Z7mangledPf", "stacked"]
    places = {each.source for each in module.entries[0].instructions if each.source}
    assert {file.rpartition("/")[2] for file, _ in places} == {"tile.cu"}
    assert {line for _, line in places} >= {5, 6, 7}
    assert ".entry mangled(" in front.compiled(TILE, "tile.cu", arch)


def test_contraction_is_a_choice() -> None:
    fused, apart = (ptx_of(FMA, "sm_87", name="f.cu", options=CompileOptions(fmad=fmad))[0] for fmad in (True, False))
    assert ("fma.rn.f32" in fused, "fma.rn.f32" in apart) == (True, False)


def test_headers_are_found(tmp_path) -> None:
    (tmp_path / "size.h").write_text("#define SIZE 16\n")
    body = "__shared__ int b[SIZE]; b[*a] = 1; *a = b[0];"
    text = f'#include "size.h"\nextern "C" __global__ void k(int *a) {{ {body} }}'
    options = CompileOptions(include=(str(tmp_path),))
    assert f"[{16 * 4}]" in ptx_of(text, "sm_87", name="k.cu", options=options)[0]
    with pytest.raises(InputError, match=r'k\.cu, line 1: .* open source file "size\.h"') as error:
        ptx_of(text, "sm_87", name="k.cu")
    assert "--include" in error.value.hint


LIMITS = """
static_assert(sizeof(int8_t) == 1 && sizeof(int16_t) == 2 && sizeof(int32_t) == 4 && sizeof(int64_t) == 8, "");
static_assert(INT8_MIN == -(1 << 7) && UINT16_MAX == 65535 && INT32_MIN == -(1ll << 31) && UINT64_MAX == ~0ull, "");
static_assert(INT_MAX == 2147483647 && INT_MIN < 0 && INT_MIN == -INT_MAX - 1 && UINT_MAX == ~0u, "");
static_assert(LLONG_MIN == -LLONG_MAX - 1 && ULONG_MAX == ~0ul && sizeof(uintptr_t) == sizeof(void *), "");
static_assert(1.0f + FLT_EPSILON > 1.0f && 1.0f + FLT_EPSILON / 2 == 1.0f && 1.0 + DBL_EPSILON / 2 == 1.0, "");
extern "C" __global__ void k(float *a)
{
    a[0] = FLT_MAX * 2 == INFINITY ? std::sqrt(a[1]) : CUDART_PI_F;
    a[1] = M_PI;
    assert(a[2] != NAN);
    printf("%d", (int32_t)a[3]);
}
"""


def test_headers_of_c_and_of_cuda_are_there_without_a_toolkit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgetune.stages.elastic.compiler.toolkit_folder", lambda: None)
    included = "".join(f"#include <{name}>\n" for name in STAND_INS)
    assert kernels(included + LIMITS) == ["k"]


def test_an_error_is_at_the_users_own_line() -> None:
    text = 'extern "C" __global__ void k(int *a)\n{\n    *a = missing;\n}\n'
    with pytest.raises(InputError, match=r'^k\.cu, line 3: identifier "missing" is undefined$') as error:
        ptx_of(text, "sm_87", name="k.cu")
    assert error.value.hint.startswith("by NVRTC ")
    made = f'__device__ int generated;\n#line 41 "user.cu"\n{text}    also wrong;\n'
    with pytest.raises(InputError, match=r"^user\.cu, line 43: ") as error:
        ptx_of(made, "sm_87", name="made.cu")
    assert "the first of " in error.value.hint


def test_an_architecture_nvrtc_does_not_know() -> None:
    with pytest.raises(InputError, match="does not compile for sm_72") as error:
        ptx_of(FMA, "sm_72", name="f.cu")
    assert "sm_75" in error.value.hint
    assert "edgetune[cuda12]" in error.value.hint


SCOPES = """
struct Size { int n; };
namespace outer { namespace inner { __global__ void deep(float *a, Size s) { a[s.n] = 1.0f; } } }
namespace { __global__ void hidden(float *a) { *a = 1.0f; } }
static __global__ void own(float *a, Size s) { a[s.n] = 2.0f; }
__global__ void twice(float *a) { *a = 1.0f; }
__global__ void twice(int *a) { *a = 1; }
template <int N> __global__ void made(float *a) { *a = N; }
template __global__ void made<3>(float *);
"""


def test_kernels_have_their_names_whatever_scope_they_are_in() -> None:
    names = [each.name for each in parse(front.compiled(SCOPES, "scopes.cu", "sm_87"), "scopes.ptx").entries]
    assert {"deep", "hidden", "own", "made"} <= set(names)
    assert {"_Z5twicePf", "_Z5twicePi"} <= set(names), "two are called twice"


def test_the_library_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def version():
        raise RuntimeError("Failed to dlopen libnvrtc")

    monkeypatch.setitem(sys.modules, "cuda.bindings", SimpleNamespace(nvrtc=SimpleNamespace(nvrtcVersion=version)))
    with pytest.raises(DeviceError, match="needs NVRTC") as error:
        ptx_of(FMA, "sm_87", name="f.cu")
    assert error.value.hint == "pip install 'edgetune[cuda]'"


def test_the_report_is_read_where_functions_are_called() -> None:
    log = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_Z3addPf' for 'sm_90'
ptxas info    : Function properties for helper
    400 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Function properties for _Z3addPf
    8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 408 bytes cumulative stack size, 8448 bytes smem, 360 bytes cmem[0]
ptxas info    : Compiling entry function 'small' for 'sm_90'
ptxas info    : Function properties for small
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, used 0 barriers, 352 bytes cmem[0]
"""
    assert resources_in(log) == {"_Z3addPf": Resources(40, 8448, 408, 16), "small": Resources(8)}

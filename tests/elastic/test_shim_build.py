"""Sources become programs, and what the compiler says keeps the user's lines."""

from pathlib import Path

import numpy as np
import pytest

from edgetune.errors import DeviceError, InputError
from edgetune.stages.elastic.shim import build as module
from edgetune.stages.elastic.shim.build import build, kernel_names
from edgetune.stages.elastic.shim.run import ShimLaunch
from edgetune.stages.elastic.work import Pointer


def test_kernels_are_found_by_their_declarations() -> None:
    text = """
    #include <stdint.h>
    __global__ void first() {}
    #define BOTH(a) { \\
        __global__ void no_macro(int *b) {
    // __global__ void not_this(int *a) {}
    extern "C" __global__ void __launch_bounds__(256, 2) one(float *a) { printf("__global__ void nor_this("); }
    static __global__ __launch_bounds__(128) void two() {}
    template <int N> __global__ void no_template(float *a) {}
    __global__ void later(int n);
    __global__ void later(int n) {}
    /* __global__ void nor_that() {} */
    """
    assert kernel_names(text) == ("first", "one", "two", "later")


def test_an_error_has_the_line_of_the_source() -> None:
    with pytest.raises(InputError) as caught:
        build("__global__ void k(int *a) {\n    a[0] = 1;\n    b[0] = 2;\n}\n", "mine.cu")
    assert caught.value.message.startswith("mine.cu:3: ")
    assert "b" in caught.value.message
    assert "define it there" in caught.value.hint


@pytest.mark.parametrize(
    ("body", "message", "hint"),
    [
        ("cudaMallocHost(a, 4);", ".cudaMallocHost. was not declared", "has no host API"),
        ('asm("lop3.b32 %0, %1, %1, %1, 0x96;" : "=r"(a[0]) : "r"(a[1]));', "inline assembly", "on a GPU"),
        ("static_assert(sizeof(int) == 8);", "static assertion failed", "on a GPU"),
    ],
)
def test_the_hint_is_that_of_the_cause(body: str, message: str, hint: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        build(f"__global__ void k(int *a) {{ {body} }}", "mine.cu")
    assert hint in caught.value.hint


def test_a_header_that_is_not_found_is_named() -> None:
    with pytest.raises(InputError, match=r"^mine.cu:2: .*nowhere\.h") as caught:
        build('\n#include "nowhere.h"\n__global__ void k() { said_there(); }\n', "mine.cu")
    assert "include its folder" in caught.value.hint


def test_a_header_that_is_not_found_and_that_kernels_do_not_need_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "beside.h").write_text("#include <nowhere/vectors.h>\n#define TWO 2\n")
    source = '#include <nowhere.h>\n#include "beside.h"\n__global__ void k(int *x) { x[0] = TWO; }\n'
    assert build(source, "mine.cu", include=[tmp_path]).kernels == ("k",)


@pytest.mark.parametrize("constraint", ["=r", "=f"])
def test_assembly_of_gpus_is_said_to_run_elsewhere(constraint: str) -> None:
    with pytest.raises(InputError, match=r"mine\.cu:2: ") as caught:
        build(
            f'__global__ void k(int *a) {{\n  int l; asm("mov.u32 %0, 7;" : "{constraint}"(l)); a[0] = l; }}', "mine.cu"
        )
    assert "--device nvidia:0" in caught.value.hint


def test_some_instructions_of_gpus_are_those_of_the_shim() -> None:
    source = """__device__ unsigned lane() { unsigned l; asm volatile("mov.u32 %0, %%laneid;" : "=r"(l)); return l; }
    __device__ unsigned apart(unsigned a, unsigned b, unsigned c) {
        unsigned sum;
        asm("vabsdiff4.u32.u32.u32.add"
            " %0, %1, %2, %3;"
            : "=r"(sum)
            : "r"(a), "r"(b), "r"(c));
        return sum;
    }
    __global__ void k(unsigned *x) { x[threadIdx.x] = apart(0x01ff0003, 0x02000001, 1000) + lane(); }"""
    given = np.zeros(40, np.uint32)
    done = build(source, "mine.cu").run([ShimLaunch("k", (1, 1, 1), (40, 1, 1), (Pointer("x"),))], {"x": given})
    assert done.buffers["x"].tolist() == [1000 + 1 + 255 + 2 + lane % 32 for lane in range(40)]


def test_a_declared_but_undefined_function_is_named() -> None:
    source = 'extern __device__ float f(float); extern "C" __global__ void k(float *x) { x[0] = f(x[0]); }'
    with pytest.raises(InputError, match=r"k\.cu: undefined reference to .f\(float\)"):
        build(source, "k.cu", ["k"])


def test_kernels_are_found_in_their_namespaces() -> None:
    text = """
    namespace mine { inline namespace deep { __device__ int two() { return 2; }
    __global__ void k(int *a) { if (a) { *a = two(); } } } extern "C" { __global__ void here(int *a) {} } }
    namespace { __global__ void hidden(int *a) {} }
    __global__ void outside(int *a) {}
    """
    built = build(text)
    assert built.kernels == ("k", "here", "hidden", "outside")
    outcome = built.run([ShimLaunch("k", (1, 1, 1), (1, 1, 1), (Pointer("a"),))], {"a": np.zeros(1, np.int32)})
    assert outcome.buffers["a"][0] == 2


def test_headers_of_the_user_and_of_cuda_are_found(tmp_path: Path) -> None:
    (tmp_path / "mine.h").write_text("#define COUNT 3\n")
    text = (
        '#include <cuda_runtime.h>\n#include <cuda.h>\n#include "mine.h"\n__global__ void k(int *a) { *a = COUNT; }\n'
    )
    assert build(text, include=[tmp_path]).kernels == ("k",)


def test_without_a_compiler_it_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.shutil, "which", lambda name: None)
    module._runtime.cache_clear()
    with pytest.raises(DeviceError) as caught:
        build("__global__ void k() {}")
    module._runtime.cache_clear()
    assert "g++" in caught.value.message
    assert "install" in caught.value.hint


def test_files_go_with_the_program() -> None:
    built = build("__global__ void k() {}")
    folder = built.folder.path
    assert folder.is_dir()
    del built
    assert not folder.exists()


@pytest.mark.parametrize(
    "declared",
    [
        "extern __shared__ float s[];",
        "extern __shared__ __align__(16) float s[];",
        "extern __shared__ volatile float s[];",
        "__shared__ extern float s[];",
        "extern\n    __shared__\n    float\n    s[];",
    ],
)
def test_dynamic_shared_memory_keeps_the_lines(declared: str) -> None:
    text = f"__global__ void k(float *a) {{\n    {declared}\n    s[0] = 1;\n    a[0] = s[0] + wrong;\n}}\n"
    with pytest.raises(InputError) as caught:
        build(text, "mine.cu")
    line = text[: text.index("wrong")].count("\n") + 1
    assert caught.value.message.startswith(f"mine.cu:{line}: ")


@pytest.mark.parametrize(
    "declared",
    [
        "__shared__ alignas(64) char s[2];",
        "__shared__ char odd; __shared__ alignas(16) alignas(64) char s[2];",
        "static __shared__\n    alignas(alignof(Wide)) volatile Wide s[2];",
        "SHARED char s[2];",
    ],
)
def test_alignment_may_stand_behind_other_words(declared: str, tmp_path: Path) -> None:
    (tmp_path / "shared.h").write_text("#define SHARED __shared__ alignas(64)\n")
    text = f"""#include "shared.h"
    struct alignas(64) Wide {{ char c[64]; }};
    __global__ void k(int *a) {{
        {declared}
        a[threadIdx.x] = (size_t)&s[0] % 64;
        a[8] = __LINE__;
    }}
"""
    built = build(text, include=[tmp_path])
    outcome = built.run([ShimLaunch("k", (1, 1, 1), (8, 1, 1), (Pointer("a"),))], {"a": np.ones(9, np.int32)})
    assert outcome.buffers["a"].tolist() == [0] * 8 + [6 + declared.count("\n")]


@pytest.mark.parametrize("name", ["reduce", "vote", "entries", "Place"])
def test_kernels_may_be_called_as_things_of_the_shim_are(name: str) -> None:
    text = f"__global__ void {name}(float *a) {{ a[threadIdx.x] = 1; }}\n"
    assert build(text).kernels == (name,)


def test_a_kernel_under_a_condition_that_does_not_hold_is_missed_by_name() -> None:
    with pytest.raises(InputError) as caught:
        build("#ifdef USE_GPU\n__global__ void k() {}\n#endif\n", "mine.cu", ["k"])
    assert caught.value.message.startswith("mine.cu: a kernel is missing after compilation")
    assert "k" in caught.value.message.split("compilation")[1]
    assert "#if" in caught.value.hint


def test_dynamic_shared_memory_of_a_header_is_the_runtimes(tmp_path):
    (tmp_path / "of").mkdir()
    (tmp_path / "of" / "shared.cuh").write_text('#pragma once\n#include "inner.cuh"\n')
    (tmp_path / "of" / "inner.cuh").write_text(
        "struct Shared { __device__ int *get() { extern __shared__ int ints[]; return ints; } };\n"
    )
    source = '#include "of/shared.cuh"\n'
    source += "__global__ void k(int *x) { Shared s; x[threadIdx.x] = s.get()[threadIdx.x]; }\n"
    assert build(source, include=[tmp_path]).kernels == ("k",)

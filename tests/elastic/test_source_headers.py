"""Headers of the user are read in the places of their #include: their kernels, helpers and macros."""

import shutil

import pytest
from kernel_corpus import BRIEF

from edgetune.errors import InputError
from edgetune.stages.elastic.cpu_equivalence import check
from edgetune.stages.elastic.sample_launches import sample_launches_in
from edgetune.stages.elastic.source.explain import reasons
from edgetune.stages.elastic.source.headers import with_headers
from edgetune.stages.elastic.source.transform import transform

KERNEL = "__global__ void k(float *x, int n)\n{\n    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
MAIN = "// launch k grid=4 block=32 x=float32[128] n=int32:100\nint main() { k<<<4, 32>>>(0, 1); }\n"

needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")


def made(folder, text, **headers):
    for name, content in headers.items():
        path = folder / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)
    return transform(text, "x.cu", [folder])


def codes(done):
    return [each.code for one in done.kernels for each in one.refusals]


def checked(done, folder, text):
    verdicts = check(done, sample_launches_in(text, "x.cu"), name="x.cu", matrix=BRIEF, include=[folder])
    return [(each.kernel, each.answer, each.reason) for each in verdicts]


@needs_compiler
@pytest.mark.parametrize(
    ("begin", "end"), [("", ""), ("#pragma once\n", ""), ("#ifndef K_H\n#define K_H\n", "#endif\n")]
)
def test_kernels_of_a_header_are_elastic_in_the_context_of_the_file(tmp_path, begin, end):
    text = f'#include <stdio.h>\n#define SCALE 3.0f\ntypedef float real;\n  #include "k.cuh" // kernels\n{MAIN}'
    header = f"{begin}{KERNEL}    if (i < n) x[i] *= SCALE + (real)i;\n}}\n{end}"
    done = made(tmp_path, text, k_cuh=header)
    assert codes(done) == []
    (one,) = done.kernels
    assert (one.kernel.file, one.kernel.line) == ("k.cuh", 1 + begin.count("\n"))
    assert len(one.variants) == 2
    assert checked(done, tmp_path, text) == [("k", "equal", "")]
    assert '#include "k.cuh"' not in done.source
    assert '#line 1 "k.cuh"' in done.source
    assert '#line 5 "x.cu"' in done.source
    whole = done.__class__(done.source.partition("int main()")[0], done.kernels)  # what is written compiles
    assert checked(whole, tmp_path, text) == [("k", "equal", "")]


def test_headers_without_kernels_are_included_again(tmp_path):
    text = '#include "a.h"\n__global__ void k(int *x) { x[blockIdx.x] = f(); }\n#include "b.h"\n'
    done = made(tmp_path, text, a_h="__device__ int f() { return 1; }\n", b_h="int host;\n")
    assert codes(done) == []
    assert done.source.endswith('#include "b.h"\n')
    assert '#include "a.h"\n__global__ void k' in done.source
    assert "f() {" not in done.source


def test_a_file_of_which_nothing_is_elastic_is_as_it_was(tmp_path):
    text = '#include "a.h"\r\n__global__ void k(int *x) { x[f()] = blockIdx.x; }\r\n'
    assert made(tmp_path, text, a_h="#pragma once\n").source == text


def test_headers_in_headers_and_folders(tmp_path):
    text = '#include "in/a.cuh"\n' + MAIN
    inner = "#pragma once\n__device__ float f(float v) { return 2 * v; }\n"
    header = f'#include "b.h"\n#include "b.h"\n#include "not_there.h"\n{KERNEL}    if (i < n) x[i] = f(x[i]);\n}}\n'
    done = made(tmp_path, text, in__a_cuh=header, in__b_h=inner)
    assert codes(done) == []
    assert done.kernels[0].kernel.file == "in/a.cuh"
    assert '#include "in/b.h"' in done.source
    if shutil.which("g++"):
        assert checked(done, tmp_path, text) == [("k", "equal", "")]


def test_messages_name_the_header_and_its_line(tmp_path):
    text = '#include "a.h"\n__global__ void k(int *x) { x[blockIdx.x] = f(x); }\n'
    done = made(tmp_path, text, a_h="\n\n__device__ int f(int *x)\n{\n    return gone(x);\n}\n")
    (refused,) = done.kernels[0].refusals
    assert (refused.code, refused.file, refused.line) == ("unknown-name", "a.h", 5)


@pytest.mark.parametrize(
    ("text", "header"),
    [
        ('#include "k.cuh"\n#include "k.cuh"\n', KERNEL + "}\n"),  # twice without a guard
        ('int i; #include "k.cuh"\n', KERNEL + "}\n"),
        ('#define GUARD\n#include "k.cuh"\n', f"#ifndef GUARD\n#define GUARD\n{KERNEL}}}\n#endif\n"),
        ('#if A\n#include "k.cuh"\n#endif\n#include "k.cuh"\n', f"#pragma once\n{KERNEL}}}\n"),
    ],
)
def test_a_header_that_cannot_be_read_in_place_is_named(tmp_path, text, header):
    with pytest.raises(InputError, match=r"x.cu has no kernel .*; k.cuh has: k") as caught:
        made(tmp_path, text, k_cuh=header)
    assert "k.cuh" in caught.value.hint


def test_a_header_that_another_one_includes_out_of_reach_stays_out(tmp_path):
    (tmp_path / "a.h").write_text('#include "b.h"\n')
    (tmp_path / "b.h").write_text("#pragma once\nint b;\n")
    text = '#include "b.h"\n#include "a.h"\n#include "a.h"\n'
    assert with_headers(text, "x.cu", [tmp_path]).text == text


def test_a_macro_of_the_kernel_alone_may_follow_a_helper(tmp_path):
    helper = "__device__ inline int gid() { return blockIdx.x * blockDim.x + threadIdx.x; }\n"
    rest = "#define SCALE 3.0f\n__global__ void k(float *x) { x[gid()] *= SCALE; }\n"
    assert codes(made(tmp_path, f'#include "idx.h"\n{rest}', idx_h=helper)) == []
    assert codes(made(tmp_path, helper + rest)) == []
    scaled = helper.replace("threadIdx.x;", "threadIdx.x + SCALE;")
    before = "__device__ const int SCALE = 1;\n"  # the helper means this one, and its copy would mean the macro
    assert "macro-changed" in codes(made(tmp_path, before + scaled + rest))
    assert "macro-changed" in codes(made(tmp_path, f'{before}#include "idx.h"\n{rest}', idx_h=scaled))
    through = before + "#define MORE SCALE\n" + helper.replace("threadIdx.x;", "threadIdx.x + MORE;") + rest
    assert "macro-changed" in codes(made(tmp_path, through))


def test_a_macro_that_a_header_changes_behind_its_kernel_is_that_of_the_kernel(tmp_path):
    header = f"#define N 4\n{KERNEL}    x[i] = N;\n}}\n#undef N\n#define N 8\n"
    done = made(tmp_path, '#include "k.cuh"\n', k_cuh=header)
    assert done.source.index("k__grid") < done.source.index("#undef N")


@needs_compiler
def test_dynamic_shared_memory_of_a_header(tmp_path):
    header = "extern __shared__ float s[];\n__device__ float first() { return s[0]; }\n"
    kernel = KERNEL + "    s[threadIdx.x] = i;\n    __syncthreads();\n    if (i < n) x[i] = first();\n}\n"
    text = f'#include "s.h"\n{kernel}{MAIN.replace("block=32", "block=32 shared=128")}'
    done = made(tmp_path, text, s_h=header)
    assert codes(done) == []
    assert checked(done, tmp_path, text) == [("k", "equal", "")]


@needs_compiler
def test_host_code_and_missing_headers_of_a_header_do_not_hinder_the_check(tmp_path):
    header = '#pragma once\n#include "helper.h"\nvoid run(cudaStream_t stream);\n#define TWICE(v) (2 * (v))\n'
    text = f'#include "common.h"\n{KERNEL}    if (i < n) x[i] = TWICE(i);\n}}\n{MAIN}'
    done = made(tmp_path, text, common_h=header)
    assert checked(done, tmp_path, text) == [("k", "equal", "")]


def test_template_kernels_of_a_header(tmp_path):
    header = "template <typename T> __global__ void k(T *line)\n{\n    line[blockIdx.x] += T(1);\n}\n"
    text = '#include "k.cuh"\nint main() { k<float><<<1, 1>>>(0); }\n'
    done = made(tmp_path, text, k_cuh=header)
    assert [(each.kernel.name, each.kernel.file, each.kernel.line) for each in done.kernels] == [
        ("k_float", "k.cuh", 1)
    ]
    assert done.kernels[0].variants
    assert '#include "k.cuh"' in done.source


TOOLKIT = {
    "cuda_runtime.h": "#define __global__ __location__(global)\n",
    "crt/host_defines.h": "#define __device__ __location__(device)\n",
    "device_functions.h": "__SM_32_INTRINSICS_DECL__ int __ldg(const int *ptr) __DEF_IF_HOST\n",
    "cub/cub.cuh": "#define CUB_QUOTIENT(x) a##x\n",
}


def test_headers_of_the_toolkit_are_not_read(tmp_path):
    for name, text in TOOLKIT.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    include = "".join(f"#include <{name}>\n" for name in TOOLKIT)
    text = f'{include}#include "device_functions.h"\n{KERNEL}    if (i < n) x[i] = __ldg(x);\n}}\n'
    done = made(tmp_path, text)
    assert codes(done) == []
    assert done.refusals == ()
    assert "unknown-name" in codes(made(tmp_path, text.replace("__ldg(x)", "CUB_QUOTIENT(1)")))


@needs_compiler
def test_the_check_does_not_take_headers_of_the_toolkit(tmp_path):
    for name, text in TOOLKIT.items():
        path = tmp_path / "toolkit" / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(text)
    text = f"#include <cuda_runtime.h>\n{KERNEL}    if (i < n) x[i] = i;\n}}\n{MAIN}"
    folder = tmp_path / "toolkit"
    assert checked(transform(text, "x.cu", [folder]), folder, text) == [("k", "equal", "")]


IN_PARAMETERS = """{define}
__global__ void k(float *x
{condition}
    , int n
#else
    , float m
#endif
    ) {{
    x[blockIdx.x] = {used};
}}
"""


@pytest.mark.parametrize(
    ("define", "condition", "used"),
    [
        ("#define WIDE", "#ifdef WIDE", "n"),
        ("#define WIDE", "#ifndef WIDE", "m"),
        ("#define WIDE 2", "#if WIDE == 2", "n"),
        ("#define WIDE 0", "#if WIDE", "m"),
        ("#define WIDE 0", "#if !WIDE", "n"),
        ("#define WIDE", "#if !defined(WIDE)", "m"),
        ("#define WIDE\n#undef WIDE", "#ifdef WIDE", "m"),
        ("", "#if 1", "n"),
    ],
)
def test_a_condition_within_parameters_that_the_file_decides(tmp_path, define, condition, used):
    text = IN_PARAMETERS.format(define=define, condition=condition, used=used)
    done = made(tmp_path, text)
    assert codes(done) == []
    assert [each.name for each in done.kernels[0].kernel.parameters] == ["x", used]
    assert condition in done.source
    if shutil.which("g++"):
        argument = "n=int32:3" if used == "n" else "m=float32:3"
        launch = f"// launch k grid=4 block=1 x=float32[4] {argument}\n"
        assert checked(done, tmp_path, launch) == [("k", "equal", "")]


@pytest.mark.parametrize(
    ("define", "condition"),
    [
        ("", "#ifdef WIDE"),
        ("", "#ifndef WIDE"),
        ("#if A\n#define WIDE\n#endif", "#ifdef WIDE"),
        ("#define WIDE (1)", "#if WIDE"),
        ('#define WIDE\n#include "a.h"\n#include "a.h"', "#ifdef WIDE"),
    ],
)
def test_a_condition_within_parameters_that_is_open_is_named(tmp_path, define, condition):
    done = made(tmp_path, IN_PARAMETERS.format(define=define, condition=condition, used="x[1]"), a_h="#undef WIDE\n")
    (refused,) = done.kernels[0].refusals
    assert refused.code == "unparsable"
    assert condition in refused.reason


@needs_compiler
@pytest.mark.parametrize("value", [0, 1])
def test_a_condition_that_the_file_decides_is_that_of_its_place(tmp_path, value):
    helper = "__device__ int f() {\n#if MODE\n    return 1;\n#else\n    return (int)blockIdx.x + 5;\n#endif\n}\n"
    changed = f"#undef MODE\n#define MODE {1 - value}\n"
    text = f"#define MODE {value}\n{helper}{changed}{KERNEL}    if (i < n) x[i] = f();\n}}\n{MAIN}"
    done = made(tmp_path, text)
    assert codes(done) == []
    assert helper in done.source
    assert checked(done, tmp_path, text) == [("k", "equal", "")]


def test_a_header_that_was_not_found_may_change_the_condition(tmp_path):
    text = "#define MODE 0\n{}__global__ void k(int *x\n#if MODE\n, int n\n#endif\n) {{ x[blockIdx.x] = 1; }}\n"
    assert codes(made(tmp_path, text.format(""))) == []
    assert codes(made(tmp_path, text.format("#include <stdio.h>\n"))) == []
    assert codes(made(tmp_path, text.format('#include "gone.h"\n'))) == ["unparsable"]


@needs_compiler
def test_a_dead_branch_does_not_stand_between_barriers(tmp_path):
    dead = "#if SKIP\n    int j = i;\n    __syncthreads();\n#endif\n"
    kernel = f"{KERNEL}{dead}    __shared__ float s[32];\n    s[threadIdx.x] = i;\n    __syncthreads();\n"
    text = f"#define SKIP 0\n{kernel}    if (i < n) x[i] = s[31 - threadIdx.x];\n}}\n{MAIN}"
    done = made(tmp_path, text)
    assert codes(done) == []
    assert [each.symbol for each in done.kernels[0].variants] == ["k__grid", "k__block2", "k__block4", "k__block8"]
    assert dead in done.source
    assert checked(done, tmp_path, text) == [("k", "equal", "")]


def test_a_definition_that_begins_within_a_decided_condition_is_left_in_one_piece(tmp_path):
    text = "#define A 1\n#if A\nint host(int a) {\n#else\nint host() {\n#endif\nreturn 0; }\n" + KERNEL + "}\n"
    device = made(tmp_path, text).device
    assert device.count("#if") == device.count("#endif") == 1
    assert "#else\n" in device


def test_reasons_that_kernels_share_are_given_once(tmp_path):
    template = "template <int N> __global__ void k(int *x)\n{\n    gone(x, N);\n    x[N] = gone(x, 1);\n}\n"
    text = f'#include "h.h"\n{template}int main() {{ k<1><<<1, 1>>>(0); k<2><<<1, 1>>>(0); }}\n'
    lines = reasons(made(tmp_path, text))
    assert lines[0].startswith("line 4: k_1, k_2: left as it is: unknown-name: gone is not defined here (h.h was not")
    assert lines[1].startswith("line 1: header-missing: h.h was not found, and may define gone ->")
    assert len(lines) == 2
    assert reasons(made(tmp_path, f'#include "h.h"\n{KERNEL}}}\n')) == []


@needs_compiler
def test_conditions_on_the_compiler_within_declarations(tmp_path):
    head = "template <typename T>\n#ifdef __CUDACC__\n__host__ __device__\n#endif\n"
    header = f"#pragma once\n{head}T twice(T v) {{ return v + v; }}\n"
    text = f'#include "twice.h"\n{KERNEL}    if (i < n) x[i] = twice(i);\n}}\n{MAIN}'
    done = made(tmp_path, text, twice_h=header)
    assert codes(done) == []
    assert checked(done, tmp_path, text) == [("k", "equal", "")]


@pytest.mark.parametrize("odd", ["/* c */ #undef MODE\n", 'const char *s = R"(\n#define MODE 0\n)";\n'])
def test_where_directives_are_unclear_nothing_is_decided(tmp_path, odd):
    text = f"#define MODE 1\n{odd}__global__ void k(int *x\n#if MODE\n, int n\n#endif\n) {{ x[blockIdx.x] = 1; }}\n"
    assert "unparsable" in codes(made(tmp_path, text))


def test_a_using_directive_stays_with_what_kernels_take_from_its_namespace():
    text = """namespace shapes { struct Point { float x; }; }
namespace other { struct Unused {}; }
using namespace shapes;
using namespace other;
__global__ void k(Point *p) { p[threadIdx.x].x += 1; }
"""
    done = transform(text, "k.cu")
    assert "using namespace shapes;" in done.device
    assert "using namespace other;" not in done.device

"""The form of a kernel whose grid is elastic: what it says, and that it is accepted wherever a kernel may stand."""

import re
from pathlib import Path

import pytest

from edgetune.stages.elastic.source.transform import transform

SCALE = "__global__ void scale(float *x, int n) { if (blockIdx.x >= n) return; x[blockIdx.x] *= 2; }\n"


def form(text: str, name: str = "scale", folders=()):
    done = transform(text, "k.cu", folders)
    (elastic,) = [each for each in done.kernels if each.kernel.name == name]
    assert [each for each in elastic.refusals if each.level == "grid"] == []
    return done.source


def refusals(text: str, folders=()):
    done = transform(text, "k.cu", folders)
    return [each.code for one in done.kernels for each in one.refusals if each.level == "grid"]


def test_the_body_is_given_the_logical_indices():
    source = form(SCALE)
    assert 'extern "C" __global__ void scale__grid(float * x, int n, const edgetune_launch_t edgetune_launch)' in source
    assert "{ if (edgetune_blockIdx.x >= n) return; x[edgetune_blockIdx.x] *= 2; }" in source
    assert SCALE in source


def test_names_in_comments_strings_and_fields_are_left_alone():
    text = """struct S { int blockIdx; };
__global__ void scale(S s, float *x) {
    // blockIdx.x
    printf("blockIdx %d", s.blockIdx); /* gridDim */
    x[0] = gridDim.x;
}
"""
    body = form(text).split("edgetune_grid_scale", 1)[1]
    assert "// blockIdx.x" in body
    assert 'printf("blockIdx %d", s.blockIdx); /* gridDim */' in body
    assert "x[0] = edgetune_gridDim.x;" in body


@pytest.mark.parametrize(
    ("body", "end"),
    [
        ("__shared__ int s[4]; s[0] = 1; x[0] = s[0];", "__syncthreads();"),
        ("extern __shared__ int s[]; x[0] = s[0];", "__syncthreads();"),
        ("x[0] = room[0];", "__syncthreads();"),
        ("x[0] = inside();", "__syncthreads();"),
        ("x[0] = __shfl_sync(~0u, 1, 0);", "__syncwarp();"),
        ("x[0] = 1;", None),
    ],
)
def test_logical_blocks_are_kept_apart_where_they_share_something(body, end):
    head = "extern __shared__ int room[];\n__device__ int inside() { __shared__ int t; t = 1; return t; }\n"
    source = form(f"{head}__global__ void scale(int *x) {{ {body} }}")
    loop = source.split("scale__grid(", 1)[1].split("\n}\n")[0]
    found = re.findall(r"__sync\w+\(\);", loop)
    assert found == ([] if end is None else [end])


def test_limits_stay_and_defaults_go():
    source = form("__global__ void __launch_bounds__(64, 2) scale(float *x, int n = 4) { x[blockIdx.x] = n; }")
    assert "void __launch_bounds__ ( 64 , 2 ) scale__grid(float * x, int n, const edgetune_launch_t" in source


@pytest.mark.parametrize(
    "text",
    [
        f"namespace a {{ namespace b {{ struct T {{ int v; }};\n{SCALE} }} }}",
        f"namespace {{ __device__ int one() {{ return 1; }}\n{SCALE} }}",
        f'extern "C" {{ {SCALE} }}',
        f'extern "C" {SCALE}',
        f"#ifndef GUARD\n#define GUARD\n{SCALE}#endif\n",
        f"#if 0\n#else\n{SCALE}#endif\n",
        f"static {SCALE}",
        "__global__ static void scale(float *x) { x[blockIdx.x] = 1; } // not the end\nint main() { return 0; }",
        "__global__ void scale(float *x)\r\n{\r\n    x[blockIdx.x] = 1;\r\n}\r\n",
        "__global__ void scale(const __grid_constant__ int n, float *x) { x[blockIdx.x] = n; }",
        "  \n\n" + SCALE,
        "struct __align__(16) F { float v[4]; };\n__global__ void scale(F *x) { __shared__ __align__(16) F f[2]; "
        "extern __shared__ __align__(sizeof(F)) unsigned char room[]; x[blockIdx.x] = f[room[0]]; }",
        "\ufeff" + SCALE,
        "template <typename T> __device__ T twice(T v) { return 2 * v; }\n"
        "__global__ void scale(float *x) { x[blockIdx.x] = twice<float>(1); }",
        "__global__ void scale(float *x) { float2 v = make_float2(1, 2); x[blockIdx.x] = fmaxf(v.x, sqrtf(v.y)); }",
    ],
)
def test_wherever_a_kernel_may_stand(text):
    source = form(text)
    assert source.count("scale__grid(") == 1
    assert source.count("{") == source.count("}")


def test_lines_are_those_of_the_original():
    text = "\n".join(["", "__global__ void scale(float *x) {", "    x[blockIdx.x] = __LINE__;", "}", "int behind;", ""])
    numbered, line, file = {}, 0, ""
    for row in form(text).splitlines():
        mark = re.fullmatch(r'#line (\d+) "(.*)"', row)
        if mark:
            line, file = int(mark[1]) - 1, mark[2]
        else:
            numbered.setdefault((file, line), []).append(row)
        line += 1
    assert all("__LINE__" in row for row in numbered["k.cu", 3])
    assert len(numbered["k.cu", 3]) >= 2
    assert "int behind;" in numbered["k.cu", 5]


def test_a_form_of_an_unnamed_namespace_stands_behind_it():
    source = form(f"namespace {{\n{SCALE}}}\nint behind;\n")
    assert source.index("\n}\n\n// Elastic forms") < source.index("scale__grid") < source.index("int behind")


def test_words_that_the_parser_does_not_know_stay():
    source = form("__global__ void scale(float *x) { __shared__ __align__ (16) float s[4]; x[0] = s[0]; }")
    assert source.count("__shared__ __align__ (16) float s[4];") >= 2
    assert "alignas" not in source


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("pragma", ["#pragma unroll 4", "#pragma nounroll"])
@pytest.mark.parametrize(
    "head", ["for (int i = 0; i < 2; i++)", "if (x[0] > 1) x[0] = 0; else", "while (x[1] < 9)  // (twice)"]
)
def test_loops_to_unroll_may_be_bodies(head, pragma, end):
    lines = [head, f"  {pragma}", "  for (int j = 0; j < 4; j++) x[blockIdx.x] += j;"]
    source = form(end.join(["__global__ void scale(float *x) {", *lines, "}", ""]))
    assert source.count(pragma) >= 2
    assert "//ragma" not in source


def test_comments_with_such_loops_hide_nothing():
    hidden = "/* for (;;)\n#pragma unroll\n for (;;) */ while (x[1] < 1) ;"
    assert not transform(f"__global__ void scale(volatile float *x) {{ {hidden} }}\n", "k.cu").kernels[0].variants


def test_a_specialisation_of_a_function_is_copied_too():
    source = form(
        "template <int N> __device__ int row() { return blockIdx.x; }\n"
        "template <> __device__ int row<2>() { return blockIdx.y; }\n"
        "__global__ void scale(float *x) { x[row<2>()] = 1; }"
    )
    assert "template <> __device__ int edgetune_grid_scale_row<2>(const uint3 edgetune_blockIdx," in source


def test_functions_that_read_the_launch_are_given_the_logical_one():
    source = form(
        """
__device__ int row() { return blockIdx.y; }
__device__ int place(int i) { return row() + i; }
template <int N> __device__ int wide(int i) { return N * place(i); }
__device__ int other(int i) { return i; }
__global__ void scale(float *x) { x[wide<4>(other(0))] = row(); }
"""
    )
    assert "edgetune_grid_scale_row(const uint3 edgetune_blockIdx, const dim3 edgetune_gridDim)" in source
    assert "return edgetune_grid_scale_row(edgetune_blockIdx, edgetune_gridDim) + i;" in source
    assert "return N * edgetune_grid_scale_place(edgetune_blockIdx, edgetune_gridDim, i);" in source
    assert "x[edgetune_grid_scale_wide<4>(edgetune_blockIdx, edgetune_gridDim, other(0))]" in source
    assert "edgetune_grid_scale_other" not in source


@pytest.mark.parametrize(
    "text",
    [
        "__device__ int row();\n__global__ void k(int *x) { x[row()] = 1; }\n"
        "__device__ int row() { return blockIdx.x; }",
        "namespace n { __device__ int row() { return blockIdx.x; } }\n__global__ void k(int *x) { x[n::row()] = 1; }",
        "__device__ int row() { return blockIdx.x; }\n__global__ void k(int *x) { auto f = row; x[f()] = 1; }",
        "__device__ int row(int i = blockIdx.x) { return i; }\n__global__ void k(int *x) { x[row()] = 1; }",
        "__device__ int row() { return blockIdx.x; }\n#define ROW row()\n__global__ void k(int *x) { x[ROW] = 1; }",
        "struct R { __device__ operator int() { return blockIdx.x; } };\n__global__ void k(int *x) { R r; x[r] = 1; }",
        "struct V { int v; };\n__device__ V operator+(V a, int b) { return {a.v + (int)blockIdx.x + b}; }\n"
        "__global__ void k(int *x, V v) { x[(v + 1).v] = 1; }",
        "__global__ void k(int *x) { auto f = [] { return blockIdx.x; }; x[f()] = 1; }",
        "__global__ void k(int *x) { auto f = [=](int b = blockIdx.x) { return b; }; x[f()] = 1; }",
        "__global__ void k(int *x) { auto f = [&](int b = gridDim.x + 1) { return b; }; x[f(0)] = 1; }",
        "__global__ void k(int *x) { struct R { __device__ int row() { return blockIdx.x; } }; x[R().row()] = 1; }",
        "#if A\n#define B blockIdx\n#endif\n__global__ void k(int *x) { x[B.x] = 1; }",
        "#define B(i) blockIdx.i\n#define C B(x)\n#undef B\n#define B(i) i\n__global__ void k(int *x) { x[C] = 1; }",
        "#define B /* here */ blockIdx.x\n#define B 0\n__global__ void k(int *x) { x[B] = 1; }",
        "#ifndef PUT\n#define PUT(i) put(blockIdx.x, i)\n#endif\nstruct S { __device__ void put(int, int); };\n"
        "__global__ void k(S s) { s.PUT(1); }",
        "__device__ int at(double) { return 1; }\n__device__ int row() { return blockIdx.x + at(1.0f); }\n"
        "__device__ int at(float) { return 2; }\n__global__ void k(int *x) { x[row()] = 1; }",
    ],
)
def test_an_index_out_of_reach_is_refused(text):
    assert set(refusals(text)) & {"helper-index", "hidden-index", "macro-index"}


@pytest.mark.parametrize(
    "text",
    [
        "__device__ int row();\n__global__ void k(int *x) { x[row()] = 1; }",
        "extern __device__ float value(int i);\n__global__ void k(float *x) { x[0] = value(1); }",
        "template <typename T> __device__ T value(T i);\n__global__ void k(float *x) { x[0] = value(1.0f); }",
        "struct S { int v; __device__ int row() const; };\n__global__ void k(S s, int *x) { x[s.row()] = 1; }",
    ],
)
def test_a_function_that_is_defined_elsewhere_is_refused(text):
    assert refusals(text) == ["undefined-function"]


def test_a_function_may_be_declared_before_it_is_defined():
    text = "__device__ float f(float);\n__global__ void scale(float *x) { x[0] = f(x[0]); }\n"
    form(text + "__device__ float f(float v) { return 2 * v; }")
    head = "struct S { int v; __device__ int row() const; };\n__device__ int S::row() const { return v; }\n"
    form(head + "__global__ void scale(S s, int *x) { x[s.row()] = 1; }")


def test_an_index_out_of_reach_is_refused_in_headers_too(tmp_path: Path):
    (tmp_path / "index.h").write_text("#ifndef FLAT\n#define PLACE (blockIdx.x * 4)\n#endif\n")
    assert refusals('#include "index.h"\n__global__ void k(int *x) { x[PLACE] = 1; }', [tmp_path]) == ["macro-index"]
    assert refusals('#include "index.h"\n__global__ void k(int *x) { x[PLACE] = 1; }') == ["unknown-name"]


@pytest.mark.parametrize(
    "body",
    [
        'asm("bar.sync 1, 64;");',
        'asm volatile("ld.volatile.global.u32 %0, [%1];" : "=r"(x[0]) : "l"(x));',
        'asm("mov.u32 %0, %%ctaid.x;" : "=r"(x[0]));',
        'asm("mov.u32 %0, %ctaid.x;" : "=r"(x[0]));',
        'asm volatile("mov.u64 %0, %globaltimer;" : "=l"(x[0]));',
        'asm("mov.u32 %0, %%warpid;" : "=r"(x[0]));',
        'asm("mov.u32 %0, %%laneid_of_grid;" : "=r"(x[0]));',
        'asm("add.u32 %0, %%laneid, %%smid;" : "=r"(x[0]));',
        'asm("exit;");',
        'asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(x[0]) : "l"(x));',
        'asm volatile("{ .reg .pred p; setp.eq.u32 p, %0, 0; @p bra done; done: }" :: "r"(x[0]));',
        'asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(0), "l"(x));',
        "asm(TEXT);",
        r'asm("mov.u32 %0, %%\x63taid.x;" : "=r"(x[0]));',
        r'asm("// all wait\n bar.sync 1, 64;");',
        r'asm("// all" " wait\n" "exit;");',
    ],
)
def test_assembly_that_may_do_more_than_arithmetic_is_refused(body):
    assert set(refusals(f"__global__ void k(int *x) {{ {body} }}")) <= {"inline-assembly", "unparsable"}
    assert refusals(f"__global__ void k(int *x) {{ {body} }}")


@pytest.mark.parametrize(
    "body",
    [
        'asm volatile("st.global.cg.u32 [%0], %1;" :: "l"(x), "r"(1));',
        'asm("vabsdiff4.u32.u32.u32.add %0, %1, %2, %3;" : "=r"(x[0]) : "r"(x[1]), "r"(x[2]), "r"(x[3]));',
        'asm("lop3.b32 %0, %1, %2, %3, 0x96;" : "=r"(x[0]) : "r"(x[1]), "r"(x[2]), "r"(x[3]));',
        'asm volatile("{\\n\\t.reg .pred p;\\n\\tsetp.ne.b32 p, %1, 0;\\n\\t@p ld.global.nc.u32 %0, [%2];\\n\\t}"'
        ' : "=r"(x[0]) : "r"(x[1]), "l"(x));',
        r'asm("// bar.sync 1, 64;\n mov.u32 %0, 3; // exit;" : "=r"(x[0]));',
    ],
)
def test_assembly_that_is_harmless_is_accepted(body):
    assert refusals(f"__global__ void k(int *x) {{ {body} }}") == []


@pytest.mark.parametrize("register", ["laneid", "lanemask_lt"])
def test_the_lane_keeps_its_meaning_where_threads_keep_their_places(register):
    text = f'__global__ void k(int *x) {{ asm("mov.u32 %0, %%{register};" : "=r"(x[blockIdx.x * 32 + threadIdx.x])); }}'
    (kernel,) = transform(text, "k.cu").kernels
    assert [each.level for each in kernel.variants] == ["grid"]
    assert [each.code for each in kernel.refusals] == ["tensor-core"]


def test_modes_of_textures_are_types():
    text = "struct Mode { cudaTextureReadMode read; cudaTextureFilterMode filter; cudaTextureAddressMode address; };\n"
    kernel = "__global__ void k(int *x, Mode m) { x[blockIdx.x] = m.read == cudaReadModeElementType; }"
    assert refusals(text + kernel) == []


@pytest.mark.parametrize(
    "macro",
    ["#define AT(v) ((v).x * (v) . y)", "#define AT(v) ((&(v))->x)", "#define AT(v) (v.x + threadIdx.y)"],
)
def test_members_that_macros_name_need_no_definition(macro):
    kernel = "__global__ void k(float2 *a, float *b) { b[blockIdx.x * 4 + threadIdx.x] = AT(a[blockIdx.x]); }"
    assert refusals(f"{macro}\n{kernel}") == []
    free = macro.replace("#define AT(v) ", "#define AT(v) x + ")
    assert refusals(f"{free}\n{kernel}") == ["unknown-name"]


@pytest.mark.parametrize("changed", ["#undef MODE\n#define MODE 1\n", '#include "mode.h"\n', '#include "outer.h"\n'])
@pytest.mark.parametrize("asked", ["#if MODE + 0", "#if 0\n#elif MODE > 0", "#if NAMED"])
def test_conditions_in_copied_functions_are_those_of_their_place(tmp_path, changed, asked):
    (tmp_path / "mode.h").write_text("#undef MODE\n#define MODE 1\n")
    (tmp_path / "outer.h").write_text('#include "mode.h"\n')
    head = "#define MODE 0\n#define NAMED MODE\n"
    helper = f"__device__ int f() {{\n{asked}\n    return 1;\n#endif\n    return blockIdx.x;\n}}\n"
    kernel = "__global__ void k(int *x) { x[blockIdx.x] = f(); }\n"
    assert refusals(f"{head}{helper}{changed}{kernel}", [tmp_path]) == ["macro-changed"]
    assert refusals(f"{head}{helper}{kernel}{changed}", [tmp_path]) == []


def test_a_macro_of_headers_that_is_defined_again_between_has_another_meaning(tmp_path):
    (tmp_path / "one.h").write_text("#define MODE 0\n__device__ int f() { return MODE + blockIdx.x; }\n")
    (tmp_path / "two.h").write_text("#undef MODE\n#define MODE 1\n")
    kernel = "__global__ void k(int *x) { x[blockIdx.x] = f(); }\n"
    assert refusals(f'#include "one.h"\n{kernel}', [tmp_path]) == []
    assert "macro-changed" in refusals(f'#include "one.h"\n#include "two.h"\n{kernel}', [tmp_path])

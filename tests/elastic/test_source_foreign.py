"""Source that nobody checked before: never a traceback, never a form of what could not be read."""

import re
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from edgetune.errors import InputError
from edgetune.stages.elastic.compiler import compile
from edgetune.stages.elastic.cpu_equivalence import check
from edgetune.stages.elastic.sample_launches import sample_launches_in
from edgetune.stages.elastic.source.transform import transform

KERNELS = [path.read_text() for path in sorted((Path(__file__).parent / "kernels").glob("*.cu"))]
EXAMPLES = [path.read_text() for path in sorted((Path(__file__).parent / "refusals").glob("*.cu"))]
TOKENS = re.compile(r"\w+|\s+|.", re.DOTALL)
WORDS = ["{", "}", "(", ")", ";", "#if 1\n", "#endif\n", "__global__", "template <int N>", "blockIdx", '"', "/*"]


def transformed(text: str):
    try:
        done = transform(text, "k.cu")
    except InputError as error:
        message = error.message + error.hint
        pass
    else:
        return done
    assert "\n" not in message
    return None


@settings(max_examples=60, deadline=None)
@given(some.data())
def test_damaged_source_never_ends_in_a_traceback(data):
    tokens = TOKENS.findall(data.draw(some.sampled_from(KERNELS + EXAMPLES)))
    for _ in range(data.draw(some.integers(1, 3))):
        at = data.draw(some.integers(0, len(tokens) - 1))
        if data.draw(some.booleans()):
            del tokens[at : at + data.draw(some.integers(1, 4))]
        else:
            tokens.insert(at, data.draw(some.sampled_from(WORDS)))
        tokens = tokens or [";"]
    transformed("".join(tokens))


@settings(max_examples=40, deadline=None)
@given(some.text(max_size=80))
def test_any_text_is_answered(text):
    transformed(text)
    transformed(f"__global__ void k(float *x) {{ {text} }}")


@pytest.mark.parametrize("text", KERNELS, ids=range(len(KERNELS)))
def test_the_original_stays_line_by_line(text):
    done = transformed(text)
    assert done is not None
    rest = iter(done.source.splitlines())
    assert all(line in rest for line in text.splitlines())


def test_a_file_that_was_transformed_is_not_transformed_again():
    once = transform("__global__ void k(float *x) { x[blockIdx.x] = 1; }", "k.cu")
    with pytest.raises(InputError, match=r"^k\.cu is transformed already"):
        transform(once.source, "k.cu")


@pytest.mark.parametrize("depth", [50, 140, 400, 3000])
def test_deep_nesting_is_no_problem(depth):
    done = transformed(f"__global__ void k(float *x) {{ {'{' * depth} x[0] = 1; {'}' * depth} }}")
    assert done is not None
    done = transformed(f"__global__ void k(float *x) {{ x[0] = {'(' * depth}1{')' * depth}; }}")
    assert done is not None
    done = transformed(f"__global__ void k(float *x) {{ while ({'x[0] && ' * depth}x[1]) x[0] -= {'1 + ' * depth}1; }}")
    assert done is not None


def test_a_kernel_is_refused_for_a_name_of_a_header_that_is_missing():
    done = transform('#include "a.h"\n__global__ void k(float *x) { clear(x); }', "k.cu")
    (refused,) = [each for each in done.kernels[0].refusals if each.level == "grid"]
    assert (refused.code, refused.line) == ("unknown-name", 2)
    assert "clear" in refused.reason
    assert "a.h" in refused.reason
    assert [each.code for each in done.refusals] == ["header-missing"]


def test_a_name_that_the_file_asks_for_is_an_option():
    text = "#ifdef WIDE\n#define N WIDE\n#elif defined(HIGH)\n#define N HIGH\n#else\n#define N 4\n#endif\n"
    kernel = "__global__ void k(float *x) { x[N] = 1; }"
    assert [each.refusals for each in transform(text + kernel, "k.cu").kernels] == [()]
    (refused,) = transform('#include "a.h"\n' + text + kernel, "k.cu").kernels
    assert {each.code for each in refused.refusals} == {"unknown-name"}


def test_texts_that_only_resemble_kernels_are_reported():
    done = transform("__global__ int;\n)(\n__global__ void k(float *x) { x[0] = 1; }\n", "k.cu")
    assert "unparsable" in {each.code for each in done.refusals} | {
        refused.code for each in done.kernels for refused in each.refusals
    } or any(each.variants for each in done.kernels)


@pytest.mark.parametrize("number", ["16U", "1e-5f", "0x1Fu", ".5f", "1.f", "0x1p-3f", "1'000u", "1e5"])
def test_letters_after_digits_are_no_name(number):
    done = transform(f"#define SIZE ({number})\n__global__ void k(float *x) {{ x[blockIdx.x] = SIZE; }}", "k.cu")
    assert {each.level for each in done.kernels[0].variants} == {"grid", "block"}


def test_a_name_behind_a_number_is_one():
    done = transform("#define SIZE 1e5+unheard.of\n__global__ void k(float *x) { x[blockIdx.x] = SIZE; }", "k.cu")
    assert "unknown-name" in {each.code for each in done.kernels[0].refusals}


PROGRAM = """#include <cublas_v2.h>
#include <vector>
#include "not_there.h"
#define CHECK(call) check((call), __LINE__)
#ifdef __linux__
cudaStream_t stream;
#endif
namespace cg = cooperative_groups;
using namespace cg;
struct Clock { cudaEvent_t start; void begin() { cudaEventRecord(start); } };
typedef float number;
long v = 7, i;
const int SIZE = 1000;
__constant__ number factor[4];
extern "C" void launch(number *x, int n);
void check(cudaError_t error, int line) {
#ifdef LOUD
    if (error) exit(line);
#endif
}
namespace inner {
    void alone() { cudaDeviceSynchronize(); }
    __device__ number scaled(number v, int i) { return v * (factor[i % 4] + 1); }
}
__global__ void together(int *x) { cg::this_grid().sync(); }
__global__ void scale(number *x) { x[blockIdx.x] = inner::scaled(x[blockIdx.x], SIZE); }
extern "C" void launch(number *x, int n) {
    scale<<<n, 64, 0, stream>>>(x);
    CHECK(cudaGetLastError());
}
int main() { std::vector<number> kept; launch(kept.data(), SIZE); }
"""


def test_for_compilers_without_the_host_only_what_kernels_reach_is_left_on_its_lines():
    done = transform(PROGRAM, "k.cu")
    assert [bool(each.variants) for each in done.kernels] == [False, True]
    before, _, original = done.device.partition('#line 1 "k.cu"\n')
    lines, kept = PROGRAM.splitlines(), original.split("\n// Elastic forms")[0].splitlines()
    assert "edgetune_launch_t" in before
    left = [number for number, (was, now) in enumerate(zip(lines, kept, strict=False), start=1) if was == now]
    assert left == [4, 5, 7, 11, 13, 14, 21, 23, 24, 26]
    assert {now for was, now in zip(lines, kept, strict=False) if was != now} <= {"", ";", "    ", "    ;"}
    assert "main" not in done.device
    assert "main" in done.source


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")
def test_a_whole_program_is_checked():
    done = transform(PROGRAM, "k.cu")
    (verdict,) = check(done, sample_launches_in("// launch scale grid=6 block=1 x=float32[6]", "k.cu"), name="k.cu")
    assert (verdict.answer, verdict.forms) == ("equal", 2)


def test_a_whole_program_compiles_for_the_gpu_without_its_host_code():
    assert "scale__grid" in compile(transform(PROGRAM, "k.cu").device, "sm_87", name="k.cu").symbols


def test_a_named_namespace_in_an_unnamed_one_is_out_of_the_reach_of_forms_behind_both():
    text = "__device__ float f(float x) { return x; }\n__global__ void k(float *x) { x[blockIdx.x] = f(1); }\n"
    refused = transform(f"namespace {{ namespace a {{\n{text}}} }}\n", "k.cu").kernels[0]
    assert {each.code for each in refused.refusals} == {"conditional"}
    for spaces in ("namespace {", "namespace a {", "namespace a { namespace {"):
        done = transform(f"{spaces}\n{text}{'}' * spaces.count('{')}\n", "k.cu")
        compiled = compile(done.source, "sm_87", name="k.cu")
        assert {"k__grid", "k__block"} <= set(compiled.symbols), spaces


def test_a_kernel_in_a_comment_is_none():
    with pytest.raises(InputError, match="has no kernel"):
        transform("/* __global__ void k(...) */\n// __global__\nAPI_BEGIN class A { ) };\n", "k.cu")

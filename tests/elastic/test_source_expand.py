"""Macros that are written out are what the preprocessor makes of them; all others are left."""

import re
import shutil
import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some
from kernel_corpus import BRIEF, NAMES, source

from edgetune.stages.elastic.cpu_equivalence import check
from edgetune.stages.elastic.sample_launches import sample_launches_in
from edgetune.stages.elastic.source.macros import expanded
from edgetune.stages.elastic.source.transform import transform

needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")
LOOP = "#define EACH(i, n) for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < (n); i += blockDim.x * gridDim.x)\n"
KERNELS = f"""{LOOP}#define TOGETHER __syncthreads()
#define TID threadIdx.x   // within the block
#define UNLESS(condition) if (!(condition)) return
// launch twice grid=3 block=64 x=float32[1000] n=int32:1000
__global__ void twice(float *x, int n) {{
    EACH(i,
         n) {{ x[i] *= 2.0f; }}
}}
// launch turn grid=3 block=64 x=float32[192] n=int32:2
__global__ void turn(float *x, int n) {{
    __shared__ float s[64];
    UNLESS(blockIdx.x < n);
    s[TID] = x[TID + 64 * blockIdx.x];
    TOGETHER;
    x[TID + 64 * blockIdx.x] = s[63 - TID];
}}
"""


def written_out(text: str, *headers: str) -> str:
    return expanded(text.encode(), [each.encode() for each in headers]).text.decode()


def preprocessed(text: str) -> list[str] | None:
    """Return the tokens that the preprocessor makes of a text; ``None`` where it is refused."""
    command = ["g++", "-E", "-P", "-x", "c++", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    return None if done.returncode else re.findall(r"\w+|[^\w\s]", done.stdout)


@needs_compiler
def test_kernels_with_macros_are_elastic_and_equal():
    done = transform(KERNELS, "k.cu")
    assert [(each.kernel.name, len(each.variants), each.refusals) for each in done.kernels] == [
        ("twice", 2, ()), ("turn", 4, ()),
    ]  # fmt: skip
    assert [each.answer for each in check(done, sample_launches_in(KERNELS, "k.cu"), matrix=BRIEF)] == [
        "equal",
        "equal",
    ]


def test_expanded_macros_are_listed():
    first, second = transform(KERNELS, "k.cu").kernels
    assert first.steps[0].endswith("barriers or returns: EACH")
    assert second.steps[0].endswith("barriers or returns: UNLESS, TID, TOGETHER")
    (plain,) = transform("#define N 4\n__global__ void k(int *x) { x[blockIdx.x] = N; }", "k.cu").kernels
    assert not any("written out" in step for step in plain.steps)


def test_the_original_stays_as_it_was():
    source = transform(KERNELS, "k.cu").source
    first, second = KERNELS.split("// launch turn")
    assert first.rstrip("\n") in source
    assert f"// launch turn{second}".rstrip("\n") in source


@needs_compiler
def test_lines_are_those_of_the_source():
    text = KERNELS.replace("x[i] *= 2.0f;", "x[i] *= 2.0f; while (x[0] > 0) {}")
    assert text.count("\n") == written_out(text).count("\n")
    wanted = preprocessed(text)
    assert wanted is None or preprocessed(written_out(text)) == wanted


@pytest.mark.parametrize(
    ("macro", "use"),
    [
        ("#ifdef A\n#define M threadIdx.x\n#endif\n", "M"),
        ("#define M threadIdx.x\n#undef M\n", "M"),
        ("#define M threadIdx.x\n#define M 0\n", "M"),
        ("#define M blockIdx.x + M\n", "M"),
        ("#define M N\n#define N M + threadIdx.x\n", "M"),
        ("#define M(a) threadIdx.a\n", "M"),
        ("#define M(a) threadIdx.a\n", "M(x, y)"),
        ("#define M(a) threadIdx.x + #a[0]\n", "M(x)"),
        ("#define M(a) threadIdx.a##x\n", "M()"),
        ('#define M threadIdx.x + "\\""[0]\n', "M"),
        ("#define M(...) f(threadIdx.x, __VA_ARGS__)\n", "M(1)"),
        ("#define M(a) (a + threadIdx.x\n", "M(1))"),
        ("#define TWO 1, 2\n#define M(a) f(a, threadIdx.x)\n", "M(TWO)"),
        ("#define M(f, a) f(a, threadIdx.x)\n", "M(M, 1)"),
        ("#define M(a) f(a, threadIdx.x)\n", "M(1 /* , */)"),
        ("#define M(a) f(a, threadIdx.x)\n", "M(',')"),
        ('auto raw = R"(\n#undef M)";\n#define M threadIdx.x\n', "M"),
        ("int i = 1'000;\n#define M threadIdx.x\n", "M"),
        ('#define M threadIdx.x\n#pragma push_macro("M")\n', "M"),
        ("#define M threadIdx.x\n/**/ #undef M\n", "M"),
        ("#define M threadIdx.x\n/*\n*/ #undef M\n", "M"),
        ("#define M threadIdx.x\n\f#undef M\n", "M"),
        ("#define M threadIdx.x\n# /**/ undef M\n", "M"),
        ("#define M threadIdx.x\n#undef /**/ M\n#define/**/M 0\n", "M"),
        ("#define M threadIdx.x\n#un\\\ndef M\n", "M"),
        ("#define M threadIdx.x\n#define Q '/*'\n#undef M\n/* */\n", "M"),
        ("#define M threadIdx.x\n/\\\n* */\n", "M"),
        ("// \\ \n#define M threadIdx.x\n", "M"),
        ("#define M threadIdx.x\n", "M$a + $M"),
        ("#define M threadIdx.x\n", "M\u00f6"),
        ("#define M threadIdx.x\n", "M\\u00f6"),
        ("#define M threadIdx.x\n", "U\"\"[0] + u'1'"),
        ("#define U threadIdx.x\n", "U\"\"[0] + U'1'"),
        ("#define N 4\n#define S(a) #a\n#define M(a) S(a)[0] + threadIdx.x\n", "M(N)"),
        ("#define N 4\n#define C(a, b) a##b\n#define M(a) C(v, a) + threadIdx.x\n", "M(N)"),
        ("#define M namespace N { int i = threadIdx.x; }\n", "M"),
        ("#define M 16\n", "M"),
        ("#define M /* threadIdx.x */ 16\n", "M"),
    ],
)
def test_ambiguous_macros_are_left(macro, use):
    text = f"{macro}int k() {{ return {use}; }}\n"
    assert written_out(text) == text


def test_a_macro_is_written_out_only_behind_its_definition():
    text = 'int a = M;\n#define M threadIdx.x\nint b = M; // M\nchar *c = "M";\n'
    assert written_out(text) == text.replace("b = M", "b =  threadIdx.x ")


def test_lines_that_go_on_are_one():
    text = "#define A\\\n(n) (n + thread\\\nIdx.x) // isn't \\\n + 1\nint a = A(2);"
    assert written_out(text).endswith("int a =  ( 2  + threadIdx.x) ;")


def test_macros_of_headers_that_may_not_be_included():
    header = "#pragma once\n#define AT threadIdx.x\n"
    text = '#ifdef A\n#include "at.h"\n#endif\nint a = AT;\n'
    assert written_out(text, header) == text
    other = text.replace("A\n", "NCCL\n").replace('"at.h"', "<nccl.h>")
    assert written_out(other, header).endswith("int a =  threadIdx.x ;\n")
    assert written_out('#include "b.h"\nint a = AT;\n', text.replace("int a = AT;", ""), header).endswith("= AT;\n")


def test_macros_that_make_very_long_text_are_left():
    many = "".join(f"#define A{i} {' + '.join([f'A{i - 1}'] * 100)}\n" for i in range(1, 5))
    text = f"#define A0 threadIdx.x\n{many}int a = A4;\n"
    assert written_out(text) == text


def test_text_after_a_kernel_in_a_macro_is_hidden_from_its_form():
    head = "#define BODY { x[blockIdx.x] = 1; }"
    text = "\n__global__ void k(int *x) BODY\nint after;"
    assert transform(f"{head}{text}", "k.cu").kernels[0].variants
    (kernel,) = transform(f"{head} __device__ int f() {{ return 1; }}{text}", "k.cu").kernels
    assert [each.code for each in kernel.refusals] == ["macro-behind"]
    assert not kernel.variants


def test_kernels_made_by_a_macro_that_is_written_out_are_kernels():
    text = "#define MAKE(name, v) __global__ void name(int *x) { x[blockIdx.x] = v; }\nMAKE(a, 1) MAKE(b, 2)\n"
    done = transform(text, "k.cu")
    assert [(each.kernel.name, len(each.variants)) for each in done.kernels] == [("a", 2), ("b", 2)]
    assert not done.refusals


def test_host_code_that_a_macro_makes_in_part_is_left():
    made = "#define HOST int one() { for (;;) {} } int\nHOST two() { return 2; }\nint three() { return 3; }\n"
    done = transform(f"{made}__global__ void k(int *x) {{ x[blockIdx.x] = 1; }}", "k.cu")
    assert "HOST two() { return 2; }" in done.device
    assert "three" not in done.device


def test_macros_of_headers():
    header = f"#ifndef LOOPS_H\n#define LOOPS_H\n{LOOP}#endif\n"
    text = '#include "loops.h"\nvoid k() { EACH(j, 4) f(j); }\n'
    assert "for (int  j  = blockIdx.x" in written_out(text, header)
    assert written_out(text) == text
    assert written_out(text, header, "#undef EACH\n") == text
    assert written_out(text, header.replace("#endif", "#else\n#endif")) == text
    assert written_out(text.replace("#include", "void j() { EACH(j, 4) f(j); }\n#include"), header).count("for (") == 1


def test_places_are_found_again():
    text = "#define A(x) B(x) + threadIdx.x\n#define B(x) (x * blockIdx.x)\nint a = A(1), b = 2, c = A(3), d = 4;"
    done = expanded(text.encode())
    for letter in "bd":
        assert text[done.original(done.text.decode().index(f" {letter} = "))] == " "
        assert text[done.original(done.text.decode().index(f"{letter} = "))] == letter
    assert done.original(len(done.text)) == len(text)
    assert done.original(0) == 0


PARTS = ["A", "B(x)", "B(A)", "C(x, 2)", "C((1, 2), A)", "C(B(x), C(1, A))", "D()", "B( )",
         "S(A)", "S(B(x))", "G(A, 1)", "G(E)", "G(C(1, 2), S(A))", "T(A)", "H(A)",
         "C(1)", "x", "B", "A.x", "1A",
         "-", "+", "(A)", "B\n(x)", "C(A,\n B)", '"A"', "'A'", "/* A */", "B(/* 1 */ 2)", "E", "E(1)"]  # fmt: skip
BODIES = ["threadIdx.x", "(x * blockIdx.x)", "A + threadIdx.x", "-x", "x", "B(x) + A", "f(x, y)", "x(y)", "for (;;)",
          "B", "C(x, A)", "1.x + 1e-x + x1", "D() + A", "1, blockIdx.x", "return x"]  # fmt: skip


@needs_compiler
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    some.lists(
        some.tuples(some.sampled_from(["A", "B(x)", "C(x, y)", "D()", "E"]), some.sampled_from(BODIES)), max_size=5
    ),
    some.lists(some.sampled_from(PARTS), max_size=8),
    some.integers(0, 5),
)
def test_expansion_agrees_with_the_preprocessor(macros, parts, early):
    lines = [f"#define {head} {body}" for head, body in macros]
    lines += ["#define S(x) #x", "#define G(x, y) x + y", "#define H S", "#define T(x) x ## A + S(x)"]
    heads = [head for head, _ in macros]
    if len(set(heads)) < len(heads):  # a warning, which is no matter, but for the same name with other parameters
        lines.insert(len(lines) // 2, "#undef A")
    lines.insert(min(early, len(lines)), "early " + " ".join(parts))
    text = "\n".join([*lines, "late " + " ".join(parts), "late " + " ".join(reversed(parts)), ""])
    wanted = preprocessed(text)
    assert wanted is None or preprocessed(written_out(text)) == wanted


HIDING = "".join(
    f"#define {name} {meaning}\n"
    for name, meaning in {
        "IN_BLOCK": "threadIdx", "BLOCK": "blockIdx.x", "SIZE": "blockDim.x", "MEET(order)": "__syncthreads()",
        "LEAVE": "return", "TURNS": "for",
    }.items()
)  # fmt: skip


def generated(text: str) -> list[tuple[list[str], list[str], str]]:
    """Return of each kernel the forms, the codes of refusals, and of all of them the generated text."""
    done = transform(text, "k.cu")
    forms = re.findall(r"// Elastic forms of (?:.*?)(?=\n#line \d+ \"k.cu\"\n(?!\{))", done.source, re.DOTALL)
    bare = re.sub(r"#line.*", "", "".join(forms))
    return [
        ([form.symbol for form in each.variants], [refused.code for refused in each.refusals], "".join(bare.split()))
        for each in done.kernels
    ]


@pytest.mark.parametrize("name", NAMES)
def test_kernels_written_with_macros_have_the_forms_of_those_without(name):
    text = source(name)
    hidden = re.sub(r"\bthreadIdx\b", "IN_BLOCK", text)
    hidden = re.sub(r"\bblockIdx\.x\b", "BLOCK", re.sub(r"\bblockDim\.x\b", "SIZE", hidden))
    hidden = re.sub(r"\bfor\b(?= \()", "TURNS", re.sub(r"\breturn\b(?=;)", "LEAVE", hidden))
    hidden = hidden.replace("__syncthreads()", "MEET(next)")
    assert hidden != text
    assert generated(HIDING + hidden) == generated(text)

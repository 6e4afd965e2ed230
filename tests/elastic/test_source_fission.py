"""Kernels taken apart at their barriers: what they say, and that they do what the originals do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from kernel_corpus import BRIEF

from edgetune.stages.elastic.cpu_equivalence import Verdict, check
from edgetune.stages.elastic.kernel import ElasticKernel, TransformResult
from edgetune.stages.elastic.sample_launches import sample_launches_in
from edgetune.stages.elastic.source.transform import transform

KERNELS = Path(__file__).parent / "fission" / "kernels.cu"
NAMES = tuple(re.findall(r"__global__ void (?:__launch_bounds__\(\w+\) )?(\w+)", KERNELS.read_text()))

NOTHING_LEFT = ("guarded", "nobody_left")
"""With one of their launches every thread leaves at once."""


@pytest.fixture(scope="module")
def transformed() -> TransformResult:
    """Return the file of all kernels, made elastic."""
    return transform(KERNELS.read_text(), "kernels.cu")


@pytest.fixture(scope="module")
def verdicts(transformed: TransformResult) -> list[Verdict]:
    """Return what became of every launch, all kernels compiled at once."""
    launches = sample_launches_in(KERNELS.read_text(), "kernels.cu")
    return list(check(transformed, launches, name="kernels.cu", matrix=BRIEF))


@pytest.mark.parametrize("name", NAMES)
def test_forms_do_what_the_original_does(name: str, verdicts: list[Verdict]) -> None:
    found = [each for each in verdicts if each.kernel == name]
    assert found
    for each in found:
        assert each.answer == "equal" or (each.answer == "no output" and name in NOTHING_LEFT)
        assert each.sequences >= 3


@pytest.mark.parametrize("name", NAMES)
def test_every_kernel_has_forms_of_its_block(name: str, transformed: TransformResult) -> None:
    (elastic,) = (each for each in transformed.kernels if each.kernel.name == name)
    assert elastic.refusals == ()
    counts = {variant.per_thread for variant in elastic.variants if variant.level == "block"}
    assert counts == ({2, 4, 8} if elastic.kernel.barriers else {None})


def made(body: str, parameters: str = "float *x, int n", before: str = "") -> tuple[ElasticKernel, str]:
    """Return what becomes of a kernel, and the text of its body taken apart, on one line without line marks."""
    done = transform(f"{before}\n__global__ void k({parameters}) {{\n__shared__ float s[64];\n{body}\n}}\n", "k.cu")
    (elastic,) = done.kernels
    text = re.sub(r"#line.*\n", "", done.source)
    blocks = re.search(r"edgetune_blocks_k\(.*?\n(\{.*?\n\})", text, re.DOTALL)
    return elastic, "" if blocks is None else " ".join(blocks[1].split())


def codes(elastic: ElasticKernel) -> list[str]:
    return [each.code for each in elastic.refusals]


SWAP = "s[threadIdx.x] = x[threadIdx.x]; __syncthreads(); x[threadIdx.x] = s[63 - threadIdx.x];"


def test_two_regions_and_the_barrier_between_them() -> None:
    elastic, text = made(SWAP)
    assert [variant.symbol for variant in elastic.variants] == ["k__grid", "k__block2", "k__block4", "k__block8"]
    assert text.count("for (unsigned int edgetune_i = 0; edgetune_i < edgetune_n; ++edgetune_i)") == 2
    assert text.count("__syncthreads();") == 1
    first, second = text.split("__syncthreads();")
    assert "s[edgetune_threadIdx.x] = x[edgetune_threadIdx.x];" in first
    assert "x[edgetune_threadIdx.x] = s[63 - edgetune_threadIdx.x];" in second
    assert "__shared__ float s[64];" in first.split("for (")[0]


def test_only_variables_live_across_a_barrier_have_an_element_for_each_thread() -> None:
    _, text = made("float a = x[threadIdx.x], b = a; s[threadIdx.x] = b; __syncthreads(); x[threadIdx.x] = a;")
    assert "float edgetune_many_a[edgetune_n];" in text
    assert text.count("auto &a = edgetune_many_a[edgetune_i];") == 2
    assert "float b = a;" in text
    assert "edgetune_many_b" not in text


@pytest.mark.parametrize(
    ("declared", "array"),
    [
        ("const float a = x[threadIdx.x];", "float edgetune_many_a [ edgetune_n ] ;"),
        ("const float *a = x + threadIdx.x;", "const float * edgetune_many_a [ edgetune_n ] ;"),
        ("float *const __restrict__ a = x + threadIdx.x;", "float * edgetune_many_a [ edgetune_n ] ;"),
        ("float a[2][3]; a[1][2] = x[threadIdx.x];", "float edgetune_many_a [ edgetune_n ] [ 2 ] [ 3 ] ;"),
        ("unsigned long long a = threadIdx.x;", "unsigned long long edgetune_many_a [ edgetune_n ] ;"),
        ("float const a = x[threadIdx.x];", "float edgetune_many_a[edgetune_n];"),
        ("const float *a[2] = {x + threadIdx.x, x};", "const float *edgetune_many_a[edgetune_n][2];"),
    ],
)
def test_arrays_are_of_the_declared_type_and_can_be_assigned(declared: str, array: str) -> None:
    text = made(f"{declared} __syncthreads(); x[threadIdx.x] += sizeof(a);", before="")[1]
    assert "".join(array.split()) in "".join(text.split())


def test_uniform_variables_are_stored_once() -> None:
    elastic, text = made(f"int tiles = (n + 15) / 16; for (int i = 0; i < tiles; ++i) {{ {SWAP} __syncthreads(); }}")
    assert "int tiles = (n + 15) / 16;" in text.split("for (")[0]
    assert "for (int i = 0; i < tiles; ++i) {" in text
    assert "__syncthreads_or" not in text
    assert any("one for all logical threads: tiles, i (" in step for step in elastic.steps)


@pytest.mark.parametrize("condition", ["i < n + s[0]", "x[i] > 0", "i + threadIdx.x < n", "i < *(int *)x"])
def test_a_loop_around_a_barrier_votes_where_threads_might_disagree(condition: str) -> None:
    elastic, text = made(f"for (int i = 0; {condition}; ++i) {{ {SWAP} __syncthreads(); }}")
    assert text.count("__syncthreads_or(") == 1
    assert any("they vote" in step and "line 4" in step for step in elastic.steps)


def test_the_block_ends_when_no_thread_is_left() -> None:
    _, text = made(f"for (int i = 0; i < n; ++i) {{ if (x[threadIdx.x] > i) return; {SWAP} __syncthreads(); }}")
    assert text.count("if (!__syncthreads_or(edgetune_left_") == 1
    assert "__syncthreads_or(edgetune_any_" not in text
    assert "edgetune_live[edgetune_i] = false; goto" in text


def test_a_return_of_all_threads_is_one() -> None:
    _, text = made(f"if (blockIdx.x > n) return; {SWAP}")
    assert "if (edgetune_blockIdx.x > n) { return; }" in text
    assert "edgetune_live" not in text


def test_a_return_behind_all_barriers_needs_no_flag() -> None:
    _, text = made(f"{SWAP} if (x[threadIdx.x] > n) return; x[threadIdx.x] = 0;")
    assert "edgetune_live" not in text
    assert "goto edgetune_next_" in text


def test_fewer_threads_may_have_more_registers() -> None:
    source = (
        "__global__ void __launch_bounds__(256, 4) k(float *x) { __shared__ float s[4]; s[0] = *x; __syncthreads(); }"
    )
    text = transform(source, "k.cu").source
    assert "__launch_bounds__((256 + 8 - 1) / 8) k__block8(" in text


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (f"for (int i = 0; i < n; ++i) {{ {SWAP} if (x[i] > 0) break; }}", "loop-exit"),
        (f"for (int i = 0; i < x[i]; ++i) {{ if (n == 3) continue; {SWAP} }}", "loop-exit"),
        (f"auto a = x[threadIdx.x]; {SWAP} x[0] = a;", "auto"),
        (f"float &a = x[threadIdx.x]; {SWAP} a = 1;", "reference"),
        (f"switch (n) {{ case 1: {SWAP} }}", "switch-barrier"),
        ("x[threadIdx.x] = (__syncthreads(), s[3]);", "barrier-place"),
        ("if (int m = n / 2) { x[m] = 0; __syncthreads(); }", "barrier-place"),
        ("auto wait = [&]() { __syncthreads(); }; wait();", "barrier-place"),
        (f"float a[] = {{x[threadIdx.x], 1}}; {SWAP} x[0] = a[1];", "type-across"),
        (f"struct {{ float y; }} a; a.y = x[threadIdx.x]; {SWAP} x[0] = a.y;", "type-across"),
        (f"int a = x[threadIdx.x]; {{ int a = x[n + threadIdx.x]; {SWAP} x[a] = 0; }} x[a] = 1;", "shadowed"),
        (f"int i = 0; while (i < n) {{ int a = i++; a += threadIdx.x; {SWAP} x[a] = 0; }}", "uncertain"),
        (f"#define FOUR 4\n{SWAP}", "directive"),
        (f"\n#ifdef FOUR\n{SWAP}\n#endif\n", "directive"),
        (f"{SWAP}\n#ifdef FOUR\nint a = n;\n#else\nint a = 2;\n#endif\nx[a] = 0;", "directive"),
        (f"int a = n;\n#ifdef FOUR\na = 4;\n#endif\nfor (int i = 0; i < a; ++i) {{ {SWAP} }}", "directive"),
        (f"for (int i = 0; i < n; ++i) {{ {SWAP}\n#ifdef FOUR\nif (n == 4) break;\n#endif\n}}", "directive"),
        (f"{{ int a = x[1]; {SWAP} x[a] = 0; }} a = 1; int a = x[2]; {SWAP} x[a] = 0;", "shadowed"),
    ],
)
def test_a_kernel_that_cannot_be_split_keeps_the_grid_level_if_safe(body: str, code: str) -> None:
    elastic, text = made(body)
    assert [each for each in codes(elastic) if each != "barrier-branch"] == [code]
    kept = [] if "barrier-branch" in codes(elastic) else ["grid"]  # not where threads might come to a barrier apart
    assert [variant.level for variant in elastic.variants] == kept
    assert text == ""


def test_an_inner_variable_of_the_same_name_is_no_matter_where_no_barrier_stands_between() -> None:
    elastic, _ = made(f"int a = x[threadIdx.x]; {SWAP} for (int a = 0; a < 3; ++a) x[a] += 1; x[a] = 0;")
    assert codes(elastic) == []


def test_the_same_name_behind_the_scope_that_knew_it_is_another_variable() -> None:
    elastic, _ = made(f"{{ int a = x[threadIdx.x]; {SWAP} x[a] = 0; }} int a = x[n + threadIdx.x]; {SWAP} x[a] = 1;")
    assert codes(elastic) == []


def test_a_condition_of_the_preprocessor_may_hold_what_is_of_one_region() -> None:
    inside = "#ifdef FOUR\nif (v) { int w = v; v += w; }\n#else\nif (v > n) return;\n#endif\n"
    elastic, text = made(f"int v = x[threadIdx.x];\n{inside}{SWAP} x[threadIdx.x] = v;")
    assert codes(elastic) == []
    assert text.count("#ifdef FOUR") == text.count("#endif") == 1


def test_names_behind_macros_count() -> None:
    _, text = made(
        "float a = x[threadIdx.x]; s[threadIdx.x] = 1; __syncthreads(); x[threadIdx.x] = OLD + 1;",
        before="#define OLD (a)",
    )
    assert text.count("auto &a = edgetune_many_a[edgetune_i];") == 2


def test_messages_of_compilers_have_the_lines_of_the_user() -> None:
    source = (
        "__global__ void k(float *x) {\n    x[threadIdx.x] = 1;\n    __syncthreads();\n    x[threadIdx.x] = 2;\n}\n"
    )
    text = transform(source, "k.cu").source
    blocks = text.split("edgetune_blocks_k(", 1)[1]
    assert re.search(r'#line 2 "k.cu"\n\s+x\[edgetune_threadIdx.x\] = 1;', blocks)
    assert re.search(r'#line 3 "k.cu"\n\s+__syncthreads\(\);', blocks)
    assert re.search(r'#line 4 "k.cu"\n\s+x\[edgetune_threadIdx.x\] = 2;', blocks)


def test_an_address_in_memory_outlives_the_region_it_was_taken_in() -> None:
    body = "__shared__ float *places[64]; float a = x[threadIdx.x]; places[threadIdx.x] = &a; __syncthreads();"
    _, text = made(f"{body} x[threadIdx.x] = *places[threadIdx.x];")
    assert "float edgetune_many_a[edgetune_n];" in text


def test_all_threads_may_leave_a_loop_together() -> None:
    elastic, text = made(f"for (int i = 0;; ++i) {{ {SWAP} if (i == n) break; __syncthreads(); }}")
    assert codes(elastic) == []
    assert "if (i == n) { break; }" in text
    assert "__syncthreads_or" not in text


@pytest.mark.parametrize(
    "body",
    [
        "float a[2] = {x[threadIdx.x], 2}; float *p = a;",
        "float a = x[threadIdx.x]; float *p = &a;",
        "float2 a; a.x = x[threadIdx.x]; float *p = &a.x;",
        "float a = x[threadIdx.x]; float &b = a; float *p = &b;",
    ],
)
def test_the_target_of_a_pointer_lives_as_long_as_the_pointer(body: str) -> None:
    elastic, text = made(f"{body} __syncthreads(); x[threadIdx.x] += *p;")
    assert codes(elastic) == []
    assert "edgetune_many_a[edgetune_n]" in text
    assert "edgetune_many_p[edgetune_n]" in text


def test_a_declaration_that_counts_stays_behind_what_read_the_old_count() -> None:
    loop = f"for (int j = 0; j < b + k; ++j) {{ {SWAP} __syncthreads(); }}"
    _, text = made(f"int k = n; x[threadIdx.x] += k; int b = k++; {loop}")
    assert text.index("int k = n;") < text.index("+= k;") < text.index("int b = k++;") < text.index("j < b + k")


def test_a_uniform_counter_is_kept_once() -> None:
    loop = f"for (int j = 0; j < k; ++j) {{ {SWAP} __syncthreads(); }}"
    elastic, text = made(f"int k = n; int b = k++; x[threadIdx.x] = b; {loop}")
    assert codes(elastic) == []
    assert "edgetune_many_" not in text


@pytest.mark.parametrize(
    ("macro", "use"),
    [
        ("#define DECLARE int kept = other * 3", "DECLARE;"),
        ("#define DECLARE __shared__ int kept", "DECLARE;"),
        ("#define DECLARE(v) x[v] = 1; int other = 2, kept = 4", "DECLARE(3);"),
        ("#define DECLARE INNER(3)\n#define INNER(v) int kept = v", "DECLARE;"),
    ],
)
def test_a_macro_that_declares_what_is_also_known_outside(macro, use):
    text = f"""__device__ int kept, other;
{macro}
__global__ void k(int *x) {{
    __shared__ int s[32];
    {use}
    s[threadIdx.x] = 1;
    __syncthreads();
    x[threadIdx.x] = s[31 - threadIdx.x];
}}
"""
    (kernel,) = transform(text, "k.cu").kernels
    assert [each.code for each in kernel.refusals] == ["shadowed"]
    assert [each.level for each in kernel.variants] == ["grid"]


@pytest.mark.parametrize(
    "hidden",
    [
        "#define T const int",
        "#define C const\n#define T C int",
        "#define T auto",
        "#define T int &&",
        "typedef const int T;",
        "typedef int I; typedef const I T;",
        "using T = const int;",
        "struct T { const int v; __device__ T(int a) : v(a) {} };",
        "struct T { int &v; };",
    ],
)
def test_a_type_whose_name_hides_that_it_is_given_a_value_once_becomes_no_array(hidden):
    kernel = "__global__ void k(int *x) { T t = {threadIdx.x}; __syncthreads(); x[threadIdx.x] = sizeof(t); }"
    (done,) = transform(f"{hidden}\n{kernel}\n", "k.cu").kernels
    assert [each.code for each in done.refusals] == ["type-across"]
    assert [each.level for each in done.variants] == ["grid"]


@pytest.mark.parametrize("variable", ["", "holder"])
def test_an_array_type_of_a_class_is_one_also_where_a_variable_is_declared_with_the_class(variable):
    held = f"struct Holder {{ typedef int row[4]; int v; }} {variable};"
    body = "Holder::row t = {n}; t[0] = threadIdx.x; if (t[0]) { __syncthreads(); x[threadIdx.x] = t[0]; }"
    (done,) = transform(f"{held}\n__global__ void k(int *x, int n) {{ {body} }}\n", "k.cu").kernels
    assert {each.code for each in done.refusals} == {"barrier-branch", "type-across"}


@pytest.mark.parametrize(
    "plain",
    [
        "#define T const int *",
        "typedef const int *T;",
        "struct T { const int *v; };",
        "struct T { static constexpr int N = 4; const int *v; __device__ int f() const { return 1; } };",
    ],
)
def test_a_pointer_to_constants_becomes_an_array(plain):
    kernel = "__global__ void k(int *x) { T t = {x + threadIdx.x}; __syncthreads(); x[threadIdx.x] = sizeof(t); }"
    (done,) = transform(f"{plain}\n{kernel}\n", "k.cu").kernels
    assert not done.refusals

"""Template kernels become kernels: a copy for each set of arguments that is known."""

import re
import shutil

import pytest
from kernel_corpus import BRIEF

from edgetune.errors import InputError
from edgetune.stages.elastic.cpu_equivalence import check
from edgetune.stages.elastic.sample_launches import instance_symbol, sample_launches_in
from edgetune.stages.elastic.source import write_analysis
from edgetune.stages.elastic.source.name_resolution import resolve
from edgetune.stages.elastic.source.templates import instantiated
from edgetune.stages.elastic.source.transform import transform

SCALE = """template <typename T, int N = 4>
__global__ void scale(T *x, T by) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) x[i] = T(by) * x[i];
}
"""


def copies(text, *asked):
    return [each.symbol for each in instantiated(text, "k.cu", asked).made]


@pytest.mark.parametrize(
    ("more", "symbols"),
    [
        ("void go(float *x) { scale<float, 16><<<4, 64>>>(x, 2.0f); }", ["scale_float_16"]),
        ("void go(int *x) { scale<int><<<4, 64>>>(x, 2); scale<int><<<1, 1>>>(x, 3); }", ["scale_int"]),
        ("template __global__ void scale<double, 7>(double *, double);", ["scale_double_7"]),
        ("template <class U> void run(U *x) { scale<U, 8><<<1, 8>>>(x, U(2)); }\ntemplate void run<float>(float *);\n"
         "void go(int *x) { run<int>(x); }", ["scale_float_8", "scale_int_8"]),
        ("template <class U> void run(U *x) { scale<U, 8><<<1, 8>>>(x, U(2)); }", []),
        ("void go(unsigned int *x) { scale<unsigned int, 2 * 8><<<4, 64>>>(x, 2u); }", ["scale_unsigned_int_2_8"]),
    ],
)  # fmt: skip
def test_arguments_come_from_launches_and_instantiations(more, symbols):
    assert copies(SCALE + more) == symbols


def test_a_copy_has_arguments_for_parameters_and_its_templates_lines():
    text = f"\n\n{SCALE}void go(unsigned int *x) {{ scale<unsigned int, 2 * 8><<<4, 64>>>(x, 2u); }}\n"
    (copy,) = instantiated(text, "k.cu").made
    assert "__global__ void scale_unsigned_int_2_8(unsigned int *x, unsigned int by) {" in copy.text
    assert "if (i < (2 * 8)) x[i] = (unsigned int)(by) * x[i];" in copy.text
    assert copy.text.splitlines()[2] == '#line 4 "k.cu"'
    found = transform(text, "k.cu")
    (kernel,) = found.kernels
    assert (kernel.kernel.name, kernel.kernel.line, len(kernel.variants)) == ("scale_unsigned_int_2_8", 4, 2)
    lines = [int(each) for each in re.findall(r'^#line (\d+) "k.cu"', found.source, re.MULTILINE)]
    assert max(lines) <= text.count("\n") + 1, "no line behind the file's end"
    assert found.source.count(SCALE) == 1


def test_a_refused_copy_is_not_written_and_its_reason_has_the_templates_line():
    text = "template <int N>\n__global__ void wait(volatile int *x) {\n    while (*x < N) { }\n}\n"
    text += "void go(int *x) { wait<3><<<1, 1>>>(x); }\n"
    found = transform(text, "k.cu")
    (kernel,) = found.kernels
    assert [(each.code, each.line, each.kernel) for each in kernel.refusals] == [("spin-wait", 3, "wait_3")]
    assert found.source == text


def test_a_template_without_known_arguments_is_refused_with_the_option_that_names_them():
    (kernel,) = transform(SCALE, "k.cu").kernels
    (refused,) = kernel.refusals
    assert refused.code == "template"
    assert "--instantiate" in refused.remedy
    (kernel,) = transform(SCALE, "k.cu", asked=["scale<float, 16>"]).kernels
    assert kernel.kernel.name == "scale_float_16" == instance_symbol("scale<float, 16>")
    assert kernel.variants


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("scale", "is no instance"),
        ("scael<float>", "no template kernel 'scael'"),
        ("scale<>", "does not fit scale<T, N>"),
        ("scale<float, 1, 2>", "does not fit scale<T, N>"),
    ],
)
def test_an_instance_that_cannot_be_is_refused(asked, message):
    with pytest.raises(InputError, match=re.escape(message)):
        instantiated(SCALE, "k.cu", [asked])


@pytest.mark.parametrize(
    "text",
    [
        f"#if X\n{SCALE}#endif\n",
        f"#define N_MORE (N + 1)\n{SCALE.replace('i < N', 'i < N_MORE')}",
        f"#define LOW 0\n{SCALE.replace('i < N', 'i < N + LOW')}#undef LOW\n",
        f"#define LOW 0\n{SCALE.replace('{', '{ // of all').replace('i < N', 'i < N + LOW')}#undef LOW\n",
        f"struct Holder {{\n{SCALE.replace('__global__', 'static __global__')}}};\n",
        SCALE + SCALE.replace("int N = 4", "bool N").replace("T by", "T by, T more"),
        "template <typename... Ts> __global__ void scale(Ts... x) { }\n",
    ],
    ids=[
        "under an #if",
        "a macro of a parameter",
        "a macro undone",
        "a macro behind a comment",
        "a member",
        "overloads",
        "a pack",
    ],
)
def test_a_template_whose_copy_might_mean_something_else_is_left(text):
    assert copies(f"{text}void go(float *x) {{ scale<float, 16><<<4, 64>>>(x, 2.0f); }}\n") == []


def test_a_pragma_behind_a_template_changes_nothing_in_it():
    unrolled = "#pragma unroll\nfor (int j = 0; j < 2; ++j) "
    later = f"#pragma diag_suppress x\n__global__ void k(float *x) {{\n{unrolled} x[j] = 1; }}\n"
    text = SCALE.replace("    if", f"{unrolled}if") + later
    assert copies(f"{text}void go(float *x) {{ scale<float, 16><<<4, 64>>>(x, 2.0f); }}\n") == ["scale_float_16"]


GUARDED = f"#ifndef SCALE_H\n#define SCALE_H\n{SCALE}#endif  // of the guard\n"


def test_a_template_in_an_include_guard_has_its_copy_there():
    assert copies(GUARDED) == []
    text = GUARDED.replace("#endif", "void go(float *x) { scale<float, 16><<<4, 64>>>(x, 2.0f); }\n#endif")
    found = transform(text, "k.cu")
    (kernel,) = found.kernels
    assert (kernel.kernel.name, kernel.kernel.line, len(kernel.variants)) == ("scale_float_16", 4, 2)
    assert found.source.endswith("\n#endif  // of the guard\n")
    assert found.source.count(SCALE) == 1
    (kernel,) = transform(GUARDED, "k.cu", asked=["scale<int>"]).kernels
    assert (kernel.kernel.name, len(kernel.variants)) == ("scale_int", 2)


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_a_copy_in_an_include_guard_computes_what_its_template_does():
    launch = "// launch scale_float grid=3 block=4 x=float32[12] by=float32:2\n"
    text = launch + GUARDED.replace("#endif", "template __global__ void scale<float>(float *, float);\n#endif")
    (verdict,) = check(transform(text, "k.cu"), sample_launches_in(text, "k.cu"), matrix=BRIEF)
    assert verdict.answer == "equal", verdict.reason


@pytest.mark.parametrize(
    "text",
    [
        GUARDED.replace("#ifndef SCALE_H", "#ifdef SCALE_H"),
        GUARDED.replace("#define SCALE_H", "#define SCALE_HH"),
        f"{GUARDED}int behind;\n",
        f"int before;\n{GUARDED}",
        GUARDED.replace("#endif", "#else\n#endif"),
        f"#ifndef SCALE_H\n#define SCALE_H\n#if X\n{SCALE}#endif\n#endif\n",
        f"{GUARDED}#ifdef SCALE_H\n#endif\n",
    ],
)
def test_a_condition_that_is_no_guard_of_the_file_leaves_its_templates(text):
    kernels = transform(text, "k.cu", asked=["scale<float>"]).kernels
    assert [[each.code for each in one.refusals] for one in kernels] == [["template"]]


@pytest.mark.parametrize(
    ("go", "symbols"),
    [
        ("void go(float *x) { const int N = 16; scale<float, N><<<4, 64>>>(x, 2.0f); }", ["scale_float_16"]),
        ("void go(float *x) { constexpr int a = 8, *b = 0; scale<float, a><<<4, 64>>>(x, 2.0f); }", []),
        ("void go(float *x) { const int a = 8; const int b = 2 * a; scale<float, b><<<4, 64>>>(x, 2.0f); }",
         ["scale_float_2_8"]),
        ("void go(float *x) { typedef float T; { using N = T; scale<N><<<4, 64>>>(x, 2.0f); } }", ["scale_float"]),
        ("void go(float *x, int N) { scale<float, N><<<4, 64>>>(x, 2.0f); }", []),
        ("void go(float *x) { int N = 16; scale<float, N><<<4, 64>>>(x, 2.0f); }", []),
        ("void go(float *x) { const char N = 300; scale<float, N><<<4, 64>>>(x, 2.0f); }", []),
        ("void go(float *x) { typedef const float T; scale<T><<<4, 64>>>(x, 2.0f); }", []),
        ("void go(float *x) { const int N = 3; { const int N = 5; } scale<float, N><<<4, 64>>>(x, 2.0f); }",
         ["scale_float_3"]),
        ("void go(float *x) { const int N = 3; { const int N = 5; scale<float, N><<<4, 64>>>(x, 2.0f); } }",
         ["scale_float_5"]),
        ("const int M = 4;\nvoid go(float *x) { scale<float, M><<<4, 64>>>(x, 2.0f); }", ["scale_float_M"]),
        ("template <int N> void go(float *x) { const int m = N + 1; scale<float, m><<<4, 64>>>(x, 2.0f); }\n"
         "void all(float *x) { const int N = 6; go<N>(x); }", ["scale_float_6_1"]),
        ("template <class T> struct Plan { void go(T *x) { const int n = 5; scale<T, n><<<4, 64>>>(x, T(2)); } };\n"
         "void all() { using N = float; Plan<N> plan; }", ["scale_float_5"]),
    ],
)  # fmt: skip
def test_names_of_the_function_that_launches_mean_what_they_mean_there(go, symbols):
    assert copies(SCALE + go) == symbols


def test_a_reason_in_a_template_and_its_copy_is_told_once():
    text = "template <int N>\n__global__ void deep(float *x) {\n    if (N) deep<N><<<1, 1>>>(x);\n}\n"
    (kernel,) = transform(f"{text}void go(float *x) {{ deep<3><<<1, 1>>>(x); }}\n", "k.cu").kernels
    assert kernel.kernel.name == "deep_3"
    assert [(each.code, each.line) for each in kernel.refusals if each.code == "dynamic-parallelism"] == [
        ("dynamic-parallelism", 3)
    ]


def test_a_copy_stands_in_the_namespaces_of_its_template():
    text = (
        f"namespace a {{ namespace {{\n{SCALE}}} }}\nvoid go(float *x) {{ a::scale<float, 16><<<4, 64>>>(x, 2.0f); }}\n"
    )
    (copy,) = instantiated(text, "k.cu").made
    assert copy.text.splitlines()[3].startswith("namespace a { namespace  { __global__ void scale_float_16")


@pytest.mark.parametrize("use", ["template class Pricing<float>;", "int main() { Pricing<float> p; }"])
def test_class_templates_that_launch_a_template_kernel(use):
    text = (
        "template <typename T> __global__ void price(T *x) { x[blockIdx.x] *= T(2); }\n"
        "template <typename T, int N> __global__ void many(T *x) { x[blockIdx.x] *= T(N); }\n"
        "template <typename Real> class Pricing {\n"
        "    void run(Real *x) { price<Real><<<1, 1>>>(x); }\n"
        "    void more(Real *x);\n"
        "};\n"
        "template <typename R> void Pricing<R>::more(R *x) { many<R, 4><<<1, 1>>>(x); }\n"
    )
    done = transform(text + use, "k.cu")
    assert [each.kernel.name for each in done.kernels if each.variants] == ["price_float", "many_float_4"]
    assert not any(each.variants for each in transform(text, "k.cu").kernels)


def test_the_names_of_an_instance_are_looked_up_once_for_all_its_forms(monkeypatch):
    looked_up = []
    monkeypatch.setattr(write_analysis, "resolve", lambda *given: looked_up.append(given[0]) or resolve(*given))
    text = (
        "template <int N> __global__ void sum(float *x) {\n"
        "    __shared__ float s[64];\n"
        "    s[threadIdx.x] = x[blockIdx.x * 64 + threadIdx.x];\n"
        "    for (int d = N; d > 0; d /= 2) { __syncthreads(); s[threadIdx.x] += s[threadIdx.x ^ d]; }\n"
        "    __syncthreads();\n"
        "    x[blockIdx.x * 64 + threadIdx.x] = __shfl_sync(~0u, s[threadIdx.x], 0);\n"
        "}\n"
    )
    launches = "".join(f"sum<{each}><<<4, 64>>>(x); " for each in range(1, 33))
    done = transform(f"{text}void go(float *x) {{ {launches}}}\n", "k.cu")
    assert [len(each.variants) for each in done.kernels] == [4] * 32
    assert len(looked_up) == 33  # that of the template too

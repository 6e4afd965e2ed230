"""Source that nobody checked before: never a traceback, never a form of what could not be read."""

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from edgetune.elastic.source.transform import transform
from edgetune.errors import InputError

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
    twice = transform(once.source, "k.cu")
    assert twice.source == once.source
    assert all("reserved-name" in {refused.code for refused in each.refusals} for each in twice.kernels)


@pytest.mark.parametrize("depth", [50, 400])
def test_deep_nesting_is_no_problem(depth):
    done = transformed(f"__global__ void k(float *x) {{ {'{' * depth} x[0] = 1; {'}' * depth} }}")
    assert done is not None
    done = transformed(f"__global__ void k(float *x) {{ x[0] = {'(' * depth}1{')' * depth}; }}")
    assert done is not None


def test_a_kernel_is_refused_for_a_name_of_a_header_that_is_missing():
    done = transform('#include "a.h"\n__global__ void k(float *x) { clear(x); }', "k.cu")
    (refused,) = [each for each in done.kernels[0].refusals if each.level == "grid"]
    assert (refused.code, refused.line) == ("unknown-name", 2)
    assert "clear" in refused.reason
    assert "a.h" in refused.reason
    assert [each.code for each in done.refusals] == ["header-missing"]


def test_what_is_like_a_kernel_and_is_none_is_told():
    done = transform("__global__ int;\n)(\n__global__ void k(float *x) { x[0] = 1; }\n", "k.cu")
    assert "unparsable" in {each.code for each in done.refusals} | {
        refused.code for each in done.kernels for refused in each.refusals
    } or any(each.variants for each in done.kernels)


@pytest.mark.parametrize("number", ["16U", "1e-5f", "0x1Fu", ".5f", "1.f", "0x1p-3f", "1'000u", "1e5"])
def test_what_stands_behind_digits_is_no_name(number):
    done = transform(f"#define SIZE ({number})\n__global__ void k(float *x) {{ x[blockIdx.x] = SIZE; }}", "k.cu")
    assert {each.level for each in done.kernels[0].variants} == {"grid", "block"}


def test_a_name_behind_a_number_is_one():
    done = transform("#define SIZE 1e5+unheard.of\n__global__ void k(float *x) { x[blockIdx.x] = SIZE; }", "k.cu")
    assert "unknown-name" in {each.code for each in done.kernels[0].refusals}

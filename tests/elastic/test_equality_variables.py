"""Variables of a file are results too, and what changes no memory is not called equal."""

from __future__ import annotations

from dataclasses import replace

import pytest
from kernel_corpus import BRIEF
from ptx_corpus import made

from edgetune.stages.elastic.cpu_equivalence import Verdict, check
from edgetune.stages.elastic.sample_launches import sample_launches_in


def verdict(text: str, old: str = "", new: str = "") -> Verdict:
    """Return the verdict of a kernel, of whose grid form a text is replaced."""
    done = made(text)
    if old:
        at = done.source.index(".entry k__grid")
        form = done.source[at:].replace(old, new)
        assert form != done.source[at:]
        done = replace(done, source=done.source[:at] + form)
    return check(done, sample_launches_in(text, "one.cu"), name="one.ptx", matrix=BRIEF)[0]


@pytest.mark.parametrize(
    ("declared", "body", "said"),
    [
        ("__device__ int last;", "last = threadIdx.x;", "last[0] is 0, not 7"),
        ("__device__ int some[4];", "some[1] = blockIdx.x;", "not 3"),
        ("struct Pair { int a; char b; }; __device__ Pair pair;", "pair.a = blockIdx.x;", "pair[0] is "),
    ],
)
def test_variables_of_the_file_show_races(declared: str, body: str, said: str) -> None:
    found = verdict(f"{declared}\n// launch k grid=4 block=8\n__global__ void k() {{ {body} }}\n")
    assert found.answer == "racy"
    assert said in found.reason


@pytest.mark.parametrize(
    ("declared", "body"),
    [
        ("__device__ unsigned int total;", "atomicAdd(&total, threadIdx.x);"),
        ("__device__ float sum;", "atomicAdd(&sum, 0.1f * threadIdx.x);"),
        ("__device__ int places[32];", "places[blockIdx.x * 8 + threadIdx.x] = blockIdx.x;"),
    ],
)
def test_variables_of_the_file_are_compared(declared: str, body: str) -> None:
    found = verdict(f"{declared}\n// launch k grid=4 block=8\n__global__ void k() {{ {body} }}\n")
    assert (found.answer, found.reason) == ("equal", "")


def test_a_form_that_leaves_a_variable_wrong_is_different() -> None:
    text = "__device__ int places[32];\n// launch k grid=4 block=8\n"
    text += "__global__ void k() { places[blockIdx.x * 8 + threadIdx.x] = 1 + blockIdx.x; }\n"
    found = verdict(text, ", 1;\n", ", 2;\n")
    assert found.answer == "different"
    assert "places[0]" in found.reason


def test_what_changes_no_memory_is_not_called_equal() -> None:
    text = "// launch k grid=4 block=8 a=int32[4]\n__global__ void k(int *a) { if (threadIdx.x > 99) a[0] = 1; }\n"
    found = verdict(text)
    assert found.answer == "no output"
    assert found.reason == "it changes no memory: there is nothing to compare"

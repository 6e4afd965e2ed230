"""Variables of a file are results too, and what changes no memory is not called equal."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from edgetune.stages.elastic.cpu_equivalence import BRIEF, Verdict, check
from edgetune.stages.elastic.ptx.transform import transform_ptx
from edgetune.stages.elastic.sample_launches import sample_launches_in
from edgetune.stages.elastic.shim.build import build
from edgetune.stages.elastic.shim.run import ShimLaunch
from edgetune.stages.elastic.source.transform import transform
from edgetune.stages.elastic.work import Pointer


def verdict(text: str) -> Verdict:
    return check(transform(text, "one.cu"), sample_launches_in(text, "one.cu"), name="one.cu", matrix=BRIEF)[0]


@pytest.mark.parametrize(
    ("declared", "body", "said"),
    [
        ("__device__ int last;", "last = threadIdx.x;", "last[0] is 0, not 7"),
        ("static __device__ int unread[4];", "unread[1] = blockIdx.x;", "unread[1] is 0, not 3"),
        ("namespace { __device__ float hidden; }", "hidden = blockIdx.x;", "hidden[0] is 0.0, not 3.0"),
        ("struct Pair { int a; char b; }; __device__ Pair pair;", "pair.a = blockIdx.x;", "pair[0] is 0, not 3"),
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
    made = transform(text, "one.cu")
    broken = made.device.replace("1 + edgetune", "2 + edgetune")
    assert broken != made.device
    found = check(replace(made, device=broken), sample_launches_in(text, "one.cu"), matrix=BRIEF)[0]
    assert found.answer == "different"
    assert "places[0]" in found.reason


def test_what_changes_no_memory_is_not_called_equal() -> None:
    text = "// launch k grid=4 block=8 a=int32[4]\n__global__ void k(int *a) { if (threadIdx.x > 99) a[0] = 1; }\n"
    found = verdict(text)
    assert (found.answer, found.sequences) == ("no output", 0)
    assert found.reason == "it changes no memory: there is nothing to compare"


PTX = """.version 7.0
.target sm_80
.address_size 64
.global .align 4 .u32 last;
.visible .entry k()
{
    .reg .b32 %r<2>;
    mov.u32 %r1, %ctaid.x;
    st.global.u32 [last], %r1;
    ret;
}
"""


def test_variables_of_ptx_are_compared() -> None:
    made = transform_ptx(PTX, "k.ptx")
    found = check(made, sample_launches_in("// launch k grid=4 block=8", "k.ptx"), matrix=BRIEF)[0]
    assert found.answer == "racy"
    assert "last[0] is 1, not 3" in found.reason


CONSTANTS = """
__constant__ float weights[8];
__constant__ int sizes[8];
__constant__ float given[2] = {0.0f, 5.0f};
__global__ void k(float *out) {
    for (int i = 0; i < 8; ++i) { out[i] = weights[i]; out[8 + i] = sizes[i]; }
    out[16] = given[0];
    out[17] = given[1];
}
"""


def test_constant_memory_is_filled_unless_the_file_does() -> None:
    built = build(CONSTANTS)
    launch = ShimLaunch("k", (1, 1, 1), (1, 1, 1), (Pointer("out"),))
    out = built.run([launch], {"out": np.zeros(18, np.float32)}).buffers["out"]
    assert len(set(out[:8])) == 8
    assert abs(out[:8]).max() <= 1
    assert set(out[8:16]) <= set(range(1, 17))
    assert len(set(out[8:16])) > 1
    np.testing.assert_array_equal(out[16:], [0, 5])

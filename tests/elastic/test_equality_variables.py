"""Variables of a file are results too, and what changes no memory is not called equal."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from kernel_corpus import BRIEF

from edgetune.stages.elastic.cpu_equivalence import Verdict, check
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
    ("body", "answer"),
    [
        ('printf("%d %s\\n", blockIdx.x * blockDim.x + threadIdx.x, "here");', "equal"),
        ('printf("done\\n"); if (threadIdx.x > 2) printf("%.2f\\n", 0.5 * blockIdx.x);', "equal"),
        ('__shared__ int turn; if (threadIdx.x == 0) turn = 0; __syncthreads(); '
         'int mine = atomicAdd(&turn, 1); printf("%d of %d\\n", mine, threadIdx.x);', "racy"),
        ('if (blockIdx.x > 4) printf("never\\n");', "no output"),
    ],
)  # fmt: skip
def test_what_is_printed_is_compared_whatever_its_order(body: str, answer: str) -> None:
    head = "#include <cstdio>\n__device__ int printed = 3;\n// launch k grid=4 block=8\n"
    text = f"{head}__global__ void k() {{ if (printed == 3) {{ {body} }} }}\n"
    assert verdict(text).answer == answer


def test_a_form_that_prints_something_else_is_found() -> None:
    text = '// launch k grid=4 block=8\n__global__ void k() { if (threadIdx.x == 0) printf("%d\\n", blockIdx.x); }\n'
    done = transform(text, "one.cu")
    wrong = replace(
        done, device=done.device.replace('printf("%d', 'printf("%x', 1).replace('printf("%d', 'printf("_%d')
    )
    (found,) = check(wrong, sample_launches_in(text, "one.cu"), name="one.cu", matrix=BRIEF)
    assert (found.answer, "printed lines[1] is " in found.reason) == ("different", True)


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
    assert found.answer == "no output"
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


STRUCTS = """#include <stdint.h>
#include "wide.h"
#define MANY 4
typedef struct { real price; real at[2]; uint8_t tag; } Row;
struct __align__(16) Option { float3 place; int steps; Row row; };
union Either { float a; int b; };
struct Linked { float *next; };
static __constant__ Row rows[2 * MANY];
namespace inner { __constant__ Option options[MANY]; }
struct Size { int width; float height; };
__constant__ Size size;
__constant__ Row given = {1, {2, 3}, 4};
__constant__ Linked linked;
__constant__ Either either;
__constant__ bool flags[8];
"""


@pytest.mark.parametrize("wide", [False, True])
def test_structs_of_constant_memory_are_filled_with_numbers_of_their_members(wide: bool, tmp_path: Path) -> None:
    (tmp_path / "wide.h").write_text("#ifdef WIDE\ntypedef double real;\n#else\ntypedef float real;\n#endif\n")
    text = f"""{"#define WIDE" if wide else ""}\n{STRUCTS}
    __global__ void k(float *out, int *steps) {{
        for (int i = 0; i < 8; ++i) {{ out[3 * i] = rows[i].price; out[3 * i + 1] = rows[i].at[0]; out[3 * i + 2] = rows[i].at[1]; }}
        for (int i = 0; i < 4; ++i) {{ out[24 + i] = inner::options[i].place.z; out[28 + i] = inner::options[i].row.at[1]; }}
        for (int i = 0; i < 4; ++i) steps[i] = inner::options[i].steps;
        out[32] = size.height; steps[4] = size.width; steps[5] = 0;
        steps[6] = given.at[1]; steps[7] = linked.next != 0; steps[8] = either.b;
        for (int i = 0; i < 8; ++i) {{ steps[9 + i] = (unsigned char &)flags[i]; steps[17 + i] = rows[i].tag; }}
    }}
    """  # noqa: E501
    buffers = {"out": np.zeros(33, np.float32), "steps": np.zeros(25, np.int32)}
    launch = ShimLaunch("k", (1, 1, 1), (1, 1, 1), (Pointer("out"), Pointer("steps")))
    outcome = build(text, include=[tmp_path]).run([launch], buffers)
    assert outcome.message == ""
    out, steps = outcome.buffers["out"], outcome.buffers["steps"]
    assert len(set(out)) == 33
    assert abs(out).max() <= 1
    assert set(steps[:5]) <= set(range(1, 17))
    assert set(steps[9:]) == {0, 1}
    assert len(set(steps[:4])) > 1
    assert steps[6:9].tolist() == [3, 0, 0]


def test_a_form_that_takes_the_wrong_struct_of_constant_memory_is_different() -> None:
    text = """struct Option { float price; int steps; };
    __constant__ Option options[4];
    // launch k grid=4 block=8 out=float32[32]
    __global__ void k(float *out) { out[blockIdx.x * 8 + threadIdx.x] = 1 * options[blockIdx.x].price; }
    """
    made = transform(text, "one.cu")
    assert verdict(text).answer == "equal"
    broken = made.device.replace("1 * options[edgetune", "1 * options[3 - edgetune")
    assert broken != made.device
    found = check(replace(made, device=broken), sample_launches_in(text, "one.cu"), matrix=BRIEF)[0]
    assert found.answer == "different"

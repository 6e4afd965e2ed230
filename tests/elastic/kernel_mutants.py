"""Generated code, made wrong in one place, as a careless generator would have made it."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import hand_elastic
from kernel_corpus import BRIEF

from edgetune.stages.elastic.cpu_equivalence import Verdict, check
from edgetune.stages.elastic.kernel import TransformResult
from edgetune.stages.elastic.sample_launches import sample_launches_in
from edgetune.stages.elastic.source.transform import transform

PLAIN = """
// launch plain grid=3,2 block=9,3 data=int32[180] n=int32:150
__global__ void plain(int *data, int n) {
    int i = (blockIdx.y * gridDim.x + blockIdx.x) * 27 + threadIdx.y * blockDim.x + threadIdx.x;
    if (i >= n) return;
    data[i] = data[i] * 3 + gridDim.y * 10 + blockDim.y + threadIdx.x * 7;
}
"""
OPEN = PLAIN.replace("    if (i >= n) return;\n", "")
SPACE = (Path(__file__).parent / "kernels" / "convolution_direct.cu").read_text()
SOURCES = {
    "mix": hand_elastic.ORIGINAL, "plain": PLAIN, "space": SPACE,
    "taken": hand_elastic.ORIGINAL, "taken-plain": PLAIN, "taken-open": OPEN,
}  # fmt: skip
"""By name; those whose names begin with ``taken`` have persistent forms, of which alone the mutants are."""
VOTE = r"(?:\n    if \(!__syncthreads_or\(\w+\)\) return;\n#line[^\n]*)?"  # is a barrier too
LOOP = r"for \(unsigned int edgetune_i = 0; edgetune_i < edgetune_n; \+\+edgetune_i\)"
QUOTA = r"            if \(edgetune_rank < ([^\n]*)->quota\)\n"
TAKE = r"edgetune_taken = atomicAdd\(&edgetune_control->next, 1u\);"
FIRST = r"if \(threadIdx\.x == 0 && threadIdx\.y == 0 && threadIdx\.z == 0\) \{"
SHOWN = r"        __syncthreads\(\);\n(        const unsigned int edgetune_number = edgetune_taken)"
DONE = (
    r"        if \(threadIdx[^\n]*\n            __threadfence\(\);\n            atomicAdd[^\n]*done, 1u\);\n"
    r"        \}\n"
)
BEHIND = r"        __syncthreads\(\);\n(" + DONE + r"    \}\n\})"
END = r"        __syncthreads\(\);\n(        edgetune_at \+=)"
MUTANTS = {
    "the counter is read and written without an atomic": (
        "taken",
        TAKE,
        "edgetune_taken = edgetune_control->next++;",
        0,
    ),
    "the counter is read by one and written later": (
        "taken-plain",
        TAKE + r"\n        \}\n        __syncthreads\(\);",
        "edgetune_taken = edgetune_control->next;\n        }\n        __syncthreads();\n"
        "        if (threadIdx.x == 0 && threadIdx.y == 0 && edgetune_taken < edgetune_launch.count)"
        " atomicExch(&edgetune_control->next, edgetune_taken + 1);",
        0,
    ),
    "every thread takes a block": ("taken", FIRST, "if (true) {", 0),
    "the first thread of each row takes a block": ("taken", r" && threadIdx\.y == 0", "", 0),
    "what is taken is not shared": (
        "taken",
        r"__shared__ unsigned int edgetune_taken",
        "unsigned int edgetune_taken",
        0,
    ),
    "no barrier between take and use": ("taken", SHOWN, r"\1", 0),
    "no barrier between use and the next take": ("taken-plain", BEHIND, r"\1", 0),
    "the quota is read behind the take": (
        "taken",
        QUOTA + r" *" + TAKE,
        r"edgetune_taken = atomicAdd(&edgetune_control->next, 1u);\n"
        r"if (edgetune_rank >= \1->quota) edgetune_taken = edgetune_launch.count;\n",
        0,
    ),
    "the quota is read by each thread": (
        "taken",
        FIRST,
        r"if (edgetune_rank >= static_cast<volatile edgetune_control_t *>(edgetune_control)->quota) break;\n\g<0>",
        0,
    ),
    "the quota is not read": ("taken", QUOTA, "", 0),
    "the quota is read once": (
        "taken",
        r"    for \(;;\) \{\n((?:.*\n)*?)" + QUOTA,
        r"const unsigned int quota = edgetune_control->quota;\nfor (;;) {\n\1if (edgetune_rank < quota)\n",
        0,
    ),
    "the quota lets one more go on": ("taken", r"edgetune_rank <", "edgetune_rank <=", 0),
    "ranks are those of the launch alone": ("taken", r"edgetune_launch\.first \+ blockIdx\.x", "blockIdx.x", 0),
    "who leaves takes the last block": (
        "taken",
        r"edgetune_taken = edgetune_launch\.count",
        "edgetune_taken = edgetune_launch.count - 1",
        0,
    ),
    "the counter goes one too far": (
        "taken-open",
        r"edgetune_number >= edgetune_launch\.count",
        "edgetune_number > edgetune_launch.count",
        0,
    ),
    "the counter stops one too early": (
        "taken",
        r"edgetune_number >= edgetune_launch\.count",
        "edgetune_number + 1 >= edgetune_launch.count",
        0,
    ),
    "two logical blocks are taken for one": ("taken", r"next, 1u", "next, 2u", 0),
    "a block takes one logical block and leaves": (
        "taken",
        r"        \}\n    \}\n\}",
        "        }\nbreak;\n    }\n}",
        0,
    ),
    "what is done is not counted": ("taken", DONE, "", 0),
    "every thread counts what is done": ("taken", FIRST, "{", 1),
    "what is done is counted without an atomic": (
        "taken",
        r"atomicAdd\(&edgetune_control->done, 1u\)",
        "edgetune_control->done++",
        0,
    ),
    "logical blocks are those of physical ones": (
        "taken",
        r"edgetune_number = edgetune_taken",
        "edgetune_number = blockIdx.x",
        0,
    ),
    "the first barrier is dropped": ("mix", VOTE + r"\n    __syncthreads\(\);", "", 0),
    "the second barrier is dropped": ("mix", r"\n    __syncthreads\(\);", "", 1),
    "the third barrier is dropped": ("mix", r"\n    __syncthreads\(\);", "", 2),
    "no barrier behind a logical block": ("mix", END, r"\1", 0),
    "no barrier behind a logical block at N = 2": ("mix", END, r"\1", 1),
    "no barrier behind a logical block at N = 4": ("mix", END, r"\1", 2),
    "no barrier behind a logical block at N = 8": ("mix", END, r"\1", 3),
    "the physical block index is left in": ("mix", r"edgetune_blockIdx\.x\) \* 32", "blockIdx.x) * 32", 0),
    "the physical grid is left in": ("mix", r"\+ edgetune_gridDim\.y", "+ gridDim.y", 0),
    "the physical thread index is left in": ("mix", r"edgetune_threadIdx\.x;", "threadIdx.x;", 0),
    "the physical block size is left in": (
        "mix",
        r"edgetune_threadIdx\.y \* edgetune_blockDim",
        "edgetune_threadIdx.y * blockDim",
        0,
    ),
    "the last block is forgotten": (
        "mix",
        r"edgetune_at < edgetune_launch\.count",
        "edgetune_at + 1 < edgetune_launch.count",
        0,
    ),
    "one block too many": ("mix", r"edgetune_at < edgetune_launch\.count;", "edgetune_at <= edgetune_launch.count;", 1),
    "shards all begin at the first block": ("mix", r"edgetune_launch\.first \+ edgetune_at", "edgetune_at", 2),
    "the step is one too long": ("mix", r"edgetune_at \+= gridDim\.x", "edgetune_at += gridDim.x + 1", 0),
    "rows and columns change places": (
        "space",
        r"edgetune_number / edgetune_launch\.grid\[0\]",
        "edgetune_number / edgetune_launch.grid[1]",
        0,
    ),
    "a grid of two dimensions is taken for one": (
        "space",
        r"edgetune_launch\.grid\[1\] \* edgetune_launch\.grid\[2\] == 1",
        "edgetune_launch.grid[0] > 1",
        0,
    ),
    "a grid of three dimensions is taken for two": (
        "space",
        r"edgetune_launch\.grid\[2\] == 1 \?",
        "edgetune_launch.grid[0] > 1 ?",
        0,
    ),
    "a logical thread is forgotten": (
        "mix",
        LOOP,
        "for (unsigned int edgetune_i = 0; edgetune_i + 1 < edgetune_n; ++edgetune_i)",
        3,
    ),
    "all logical threads are the first": ("mix", r"edgetune_own \+ edgetune_i \* edgetune_step", "edgetune_own", 1),
    "a thread that has returned goes on": ("mix", r"edgetune_live\[edgetune_i\] = false; ", "", 0),
    "a local is shared by logical threads": ("mix", r"edgetune_many_own\[edgetune_i\]", "edgetune_many_own[0]", 0),
    "a local of the second region is shared": (
        "mix",
        r"edgetune_many_other\[edgetune_i\]",
        "edgetune_many_other[0]",
        1,
    ),
    "a barrier in a branch": (
        "mix",
        r"\n    __syncthreads\(\);",
        "\nif (edgetune_live[0])\n__syncthreads();\nelse\n__syncthreads();",
        1,
    ),
    "a barrier that some do not come to": (
        "mix",
        r"\n    __syncthreads\(\);",
        "\nif (edgetune_live[0]) __syncthreads();",
        1,
    ),
    "threads beyond the block": ("plain", r"edgetune_t < edgetune_threads; ", "edgetune_t <= edgetune_threads; ", 0),
    "the block is taken for a row": ("plain", r"if \(block\.y == 1 && block\.z == 1\) return", "return", 0),
    "the step is that of the logical block": (
        "plain",
        r"edgetune_t \+= blockDim\.x",
        "edgetune_t += edgetune_blockDim.x",
        0,
    ),
    "the logical block's first thread is left out": (
        "plain",
        r"edgetune_t = threadIdx\.x",
        "edgetune_t = threadIdx.x + 1",
        0,
    ),
}
"""What is wrong: in which source, a pattern of the generated code, what takes its place, which one of several."""


@cache
def generated(name: str) -> TransformResult:
    return transform(SOURCES[name], f"{name}.cu", persistent=name.startswith("taken"))


def mutated(name: str, pattern: str, new: str, place: int) -> TransformResult:
    whole = generated(name)
    before = 'extern "C" __global__ void ' + whole.kernels[0].kernel.name + "__persistent"
    head, mark, forms = whole.source.partition(before if name.startswith("taken") else "// Elastic forms of")
    found = list(re.finditer(pattern, forms))
    assert mark
    assert len(found) > place, f"the generator no longer writes {pattern}"
    here = found[place]
    forms = forms[: here.start()] + here.expand(new.replace("\n", "\\n")) + forms[here.end() :]
    return replace(whole, source=head + mark + forms, device="")


def verdict_of(mutant: str) -> Verdict:
    """Return what is found of a mutant."""
    name = MUTANTS[mutant][0]
    (verdict,) = check(
        mutated(*MUTANTS[mutant]), sample_launches_in(SOURCES[name], f"{name}.cu"), matrix=BRIEF, limit_s=1
    )
    return verdict

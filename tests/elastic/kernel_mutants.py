"""Generated code, made wrong in one place, as a careless generator would have made it."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import hand_elastic

from edgetune.stages.elastic.cpu_equivalence import Matrix, Verdict, check
from edgetune.stages.elastic.kernel import TransformResult
from edgetune.stages.elastic.sample_launches import sample_launches_in
from edgetune.stages.elastic.shim.run import FORWARD, REVERSE, chance
from edgetune.stages.elastic.source.transform import transform

SHORT = Matrix(schedules=(FORWARD, REVERSE, chance(1)), cuts=1)
PLAIN = """
// launch plain grid=3,2 block=9,3 data=int32[180] n=int32:150
__global__ void plain(int *data, int n) {
    int i = (blockIdx.y * gridDim.x + blockIdx.x) * 27 + threadIdx.y * blockDim.x + threadIdx.x;
    if (i >= n) return;
    data[i] = data[i] * 3 + gridDim.y * 10 + blockDim.y + threadIdx.x * 7;
}
"""
SPACE = (Path(__file__).parent / "kernels" / "convolution_direct.cu").read_text()
SOURCES = {"mix": hand_elastic.ORIGINAL, "plain": PLAIN, "space": SPACE, "memory": SPACE}
VOTE = r"(?:\n    if \(!__syncthreads_or\(\w+\)\) return;\n#line[^\n]*)?"  # is a barrier too
LOOP = r"for \(unsigned int edgetune_i = 0; edgetune_i < edgetune_n; \+\+edgetune_i\)"
END = r"        __syncthreads\(\);\n(        edgetune_at \+=)"
MUTANTS = {
    "an entry is used before it is there": ("memory", r"        __syncthreads\(\);\n(        const uint3)", r"\1", 0),
    "an entry is replaced while it is used": ("memory", END, r"\1", 0),
    "an entry is taken by a thread that small blocks lack": (
        "memory",
        r"if \(threadIdx\.x == 0",
        "if (threadIdx.x == 7",
        1,
    ),
    "entries are those of the first piece": ("memory", r"\[edgetune_number\]", "[edgetune_at]", 1),
    "entries are those of physical blocks": ("memory", r"\[edgetune_number\]", "[blockIdx.x]", 0),
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
    return transform(SOURCES[name], f"{name}.cu", indexing="memory" if name == "memory" else "computed")


def mutated(name: str, pattern: str, new: str, place: int) -> TransformResult:
    whole = generated(name)
    head, mark, forms = whole.source.partition("// Elastic forms of")
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
        mutated(*MUTANTS[mutant]), sample_launches_in(SOURCES[name], f"{name}.cu"), matrix=SHORT, limit_s=1
    )
    return verdict

"""The loop of an elastic kernel over logical blocks: over a slice of them, or over those that a counter gives.

slice        for (at = blockIdx.x; at < launch.count; at += gridDim.x) number = launch.first + at; run
persistent   for (;;) { thread 0: taken = rank < quota ? atomicAdd(next, 1) : count; barrier; run; barrier; done }
"""

from __future__ import annotations

from dataclasses import dataclass

from edgetune.stages.elastic.abi import CONTROL, CONTROL_NAME, PARAMETER, STRUCT_NAME, TABLE, Indexing
from edgetune.stages.elastic.source.index_parameters import BLOCK_DIM, BLOCK_INDEX, GRID_DIM


@dataclass(frozen=True, slots=True)
class FormOptions:
    """How the forms of a file come to their logical blocks.

    Args:
        indexing: How a block gets the index of a logical one.
        persistent: Whether each kernel gets a persistent form too.
        only: The one kernel whose forms are written; ``None``: those of all.
    """

    indexing: Indexing = "computed"
    persistent: bool = False
    only: str | None = None


_FIRST_THREAD = "if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0)"
_ROWS = f"{PARAMETER}.grid[1] * {PARAMETER}.grid[2]"
_COMPUTED = f"""        const unsigned int edgetune_row = {_ROWS} == 1 ? 0 : edgetune_number / {PARAMETER}.grid[0];
        const unsigned int edgetune_plane = {PARAMETER}.grid[2] == 1 ? 0 : edgetune_row / {PARAMETER}.grid[1];
        const uint3 {BLOCK_INDEX.name} = {{edgetune_number - edgetune_row * {PARAMETER}.grid[0],
            edgetune_row - edgetune_plane * {PARAMETER}.grid[1], edgetune_plane}};
"""
_ENTRY = "    __shared__ uint3 edgetune_entry;\n"
_FROM_ENTRY = f"        const uint3 {BLOCK_INDEX.name} = edgetune_entry;\n"
_FROM_MEMORY = f"""        {_FIRST_THREAD}
            edgetune_entry = {TABLE}[edgetune_number];
        __syncthreads();
{_FROM_ENTRY}"""
_DIMENSIONS = f"""    const dim3 {GRID_DIM.name}({PARAMETER}.grid[0], {PARAMETER}.grid[1], {PARAMETER}.grid[2]);
    const dim3 {BLOCK_DIM.name}({PARAMETER}.block[0], {PARAMETER}.block[1], {PARAMETER}.block[2]);
"""
_QUOTA = f"static_cast<volatile {CONTROL_NAME} *>({CONTROL})->quota"
"""Read from memory every time, past the caches of the multiprocessor."""


def loop_parameters(indexing: Indexing, *, persistent: bool = False) -> list[str]:
    """Return the parameters behind those of the original."""
    table = [f"const uint3 *{TABLE}"] if indexing == "memory" else []
    control = [f"{CONTROL_NAME} *{CONTROL}"] if persistent else []
    return [f"const {STRUCT_NAME} {PARAMETER}", *table, *control]


def slice_loop(before: str, run: str, indexing: Indexing, *, shared: bool, warp: bool) -> str:
    """Return the body of a kernel that runs a slice of the logical blocks.

    The loop counts what is left, as a sum might not fit into 32 bits. Computed indices divide in grids of two and three
    dimensions only. Only blocks with another behind them wait for all of their threads; with indices from memory they
    always do, as the entry of the next block takes the place of the last.

    Args:
        before: Statements in front of the loop.
        run: The statements that run one logical block.
        indexing: Of logical blocks.
        shared: Whether the kernel uses shared memory.
        warp: Whether it uses warp primitives.
    """
    memory = indexing == "memory"
    wait = "        __syncthreads();\n" if shared or memory else "        __syncwarp();\n" if warp else ""
    entry = _ENTRY if memory else ""
    return f"""{{
{_DIMENSIONS}{entry}{before}    for (unsigned int edgetune_at = blockIdx.x; edgetune_at < {PARAMETER}.count;) {{
        const unsigned int edgetune_number = {PARAMETER}.first + edgetune_at;
{_FROM_MEMORY if memory else _COMPUTED}{run}        if ({PARAMETER}.count - edgetune_at <= gridDim.x) break;
{wait}        edgetune_at += gridDim.x;
    }}
}}
"""


def persistent_loop(before: str, run: str, indexing: Indexing) -> str:
    """Return the body of a kernel whose blocks take logical blocks from the counter until none is left.

    One thread reads the quota and takes for all: threads that read it themselves might see different ones. The first
    barrier shows the others what was taken; the second keeps it until all have read it, and keeps shared memory of one
    logical block from the next. Behind it all threads have written what they write, which the fence shows to others
    before they see that the block is done.

    Args:
        before, run, indexing: As for ``slice_loop``.
    """
    memory = indexing == "memory"
    entry = f"            if (edgetune_taken < {PARAMETER}.count) edgetune_entry = {TABLE}[edgetune_taken];\n"
    return f"""{{
{_DIMENSIONS}    __shared__ unsigned int edgetune_taken;
{_ENTRY if memory else ""}{before}    const unsigned int edgetune_rank = {PARAMETER}.first + blockIdx.x;
    for (;;) {{
        {_FIRST_THREAD} {{
            edgetune_taken = {PARAMETER}.count;
            if (edgetune_rank < {_QUOTA})
                edgetune_taken = atomicAdd(&{CONTROL}->next, 1u);
{entry if memory else ""}        }}
        __syncthreads();
        const unsigned int edgetune_number = edgetune_taken;
        if (edgetune_number >= {PARAMETER}.count) break;
{_FROM_ENTRY if memory else _COMPUTED}{run}        __syncthreads();
        {_FIRST_THREAD} {{
            __threadfence();
            atomicAdd(&{CONTROL}->done, 1u);
        }}
    }}
}}
"""

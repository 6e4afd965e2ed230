"""The loop of an elastic kernel over logical blocks: over a slice of them, or over those that a counter gives.

slice        for (at = blockIdx.x; at < launch.count; at += gridDim.x) number = launch.first + at; run
persistent   for (;;) { thread 0: taken = rank < quota ? atomicAdd(next, 1) : count; barrier; run; barrier; done }
"""

from __future__ import annotations

from dataclasses import dataclass

from edgetune.stages.elastic.abi import CONTROL, CONTROL_NAME, PARAMETER, STRUCT_NAME
from edgetune.stages.elastic.source.index_parameters import BLOCK_DIM, BLOCK_INDEX, GRID_DIM


@dataclass(frozen=True, slots=True)
class FormOptions:
    """Which forms of a file are written.

    Args:
        persistent: Whether each kernel gets a persistent form too.
        only: The one kernel whose forms are written; ``None``: those of all.
    """

    persistent: bool = False
    only: str | None = None


_FIRST_THREAD = "if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0)"
_ROWS = f"{PARAMETER}.grid[1] * {PARAMETER}.grid[2]"
_INDEX = f"""        const unsigned int edgetune_row = {_ROWS} == 1 ? 0 : edgetune_number / {PARAMETER}.grid[0];
        const unsigned int edgetune_plane = {PARAMETER}.grid[2] == 1 ? 0 : edgetune_row / {PARAMETER}.grid[1];
        const uint3 {BLOCK_INDEX.name} = {{edgetune_number - edgetune_row * {PARAMETER}.grid[0],
            edgetune_row - edgetune_plane * {PARAMETER}.grid[1], edgetune_plane}};
"""
_DIMENSIONS = f"""    const dim3 {GRID_DIM.name}({PARAMETER}.grid[0], {PARAMETER}.grid[1], {PARAMETER}.grid[2]);
    const dim3 {BLOCK_DIM.name}({PARAMETER}.block[0], {PARAMETER}.block[1], {PARAMETER}.block[2]);
"""
_QUOTA = f"static_cast<volatile {CONTROL_NAME} *>({CONTROL})->quota"
"""Read from memory every time, past the caches of the multiprocessor."""


def loop_parameters(*, persistent: bool = False) -> list[str]:
    """Return the parameters behind those of the original."""
    control = [f"{CONTROL_NAME} *{CONTROL}"] if persistent else []
    return [f"const {STRUCT_NAME} {PARAMETER}", *control]


def slice_loop(before: str, run: str, *, shared: bool, warp: bool) -> str:
    """Return the body of a kernel that runs a slice of the logical blocks.

    The loop counts what is left, as a sum might not fit into 32 bits. Indices divide in grids of two and three
    dimensions only. Only blocks with another behind them wait for all of their threads.

    Args:
        before: Statements in front of the loop.
        run: The statements that run one logical block.
        shared: Whether the kernel uses shared memory.
        warp: Whether it uses warp primitives.
    """
    wait = "        __syncthreads();\n" if shared else "        __syncwarp();\n" if warp else ""
    return f"""{{
{_DIMENSIONS}{before}    for (unsigned int edgetune_at = blockIdx.x; edgetune_at < {PARAMETER}.count;) {{
        const unsigned int edgetune_number = {PARAMETER}.first + edgetune_at;
{_INDEX}{run}        if ({PARAMETER}.count - edgetune_at <= gridDim.x) break;
{wait}        edgetune_at += gridDim.x;
    }}
}}
"""


def persistent_loop(before: str, run: str) -> str:
    """Return the body of a kernel whose blocks take logical blocks from the counter until none is left.

    One thread reads the quota and takes for all: threads that read it themselves might see different ones. The first
    barrier shows the others what was taken; the second keeps it until all have read it, and keeps shared memory of one
    logical block from the next. Behind it all threads have written what they write, which the fence shows to others
    before they see that the block is done.

    Args:
        before, run: As for ``slice_loop``.
    """
    return f"""{{
{_DIMENSIONS}    __shared__ unsigned int edgetune_taken;
{before}    const unsigned int edgetune_rank = {PARAMETER}.first + blockIdx.x;
    for (;;) {{
        {_FIRST_THREAD} {{
            edgetune_taken = {PARAMETER}.count;
            if (edgetune_rank < {_QUOTA})
                edgetune_taken = atomicAdd(&{CONTROL}->next, 1u);
        }}
        __syncthreads();
        const unsigned int edgetune_number = edgetune_taken;
        if (edgetune_number >= {PARAMETER}.count) break;
{_INDEX}{run}        __syncthreads();
        {_FIRST_THREAD} {{
            __threadfence();
            atomicAdd(&{CONTROL}->done, 1u);
        }}
    }}
}}
"""

"""A kernel whose grid is elastic: physical blocks that go through logical ones.

    __global__ void vadd(float *a, int n) { if (i >= n) return; ... }

    static __device__ void edgetune_grid_vadd(float *a, int n, uint3 block, dim3 grid) { if (i >= n) return; ... }
    extern "C" __global__ void vadd__grid(float *a, int n, edgetune_launch_t launch) {
        for (b = blockIdx.x; b < launch.count; b += gridDim.x)
            edgetune_grid_vadd(a, n, index of launch.first + b, launch.grid);
    }

``return`` leaves the function, so a thread that has nothing to do in one logical block is there again in the next; and
parameters are by value, so that what a logical block writes to its own is not seen by the next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgetune.elastic.abi import PARAMETER, STRUCT_NAME, grid_symbol
from edgetune.elastic.source.block_legality import warps_return
from edgetune.elastic.source.builtins import BLOCK_INDICES
from edgetune.elastic.source.edits import Edit, edited, line_mark, plain
from edgetune.elastic.source.index_parameters import (
    BLOCK_DIM,
    BLOCK_INDEX,
    GRID_DIM,
    call_edits,
    copies_of,
    index_edits,
    readers,
)
from edgetune.elastic.source.kernel_scan import parameter_nodes, parameter_text
from edgetune.elastic.source.nodes import find, line_of

if TYPE_CHECKING:
    from tree_sitter import Node

    from edgetune.elastic.source.translation_unit import ParsedFile, ParsedKernel

GRID_INDICES = (BLOCK_INDEX, GRID_DIM)


def grid_form(translation_unit: ParsedFile, kernel: ParsedKernel) -> str:
    """Return the functions that make up the grid-elastic form of a kernel that was not refused."""
    name = kernel.kernel.name
    body_name = f"edgetune_grid_{name}"
    copied = readers(kernel, BLOCK_INDICES)
    helpers, names = copies_of(translation_unit, copied, GRID_INDICES, f"{body_name}_")
    edits = [*index_edits(kernel.body, GRID_INDICES), *call_edits(kernel.body, names, GRID_INDICES)]
    declared = [parameter_text(each) for each in parameter_nodes(kernel.node)]
    handed = [*(each.name for each in kernel.kernel.parameters), *(each.name for each in GRID_INDICES)]
    run = f"        {body_name}({', '.join(handed)});\n"
    indices = [f"{each.type} {each.name}" for each in GRID_INDICES]
    return (
        f"{helpers}static __device__ __forceinline__ void {body_name}({', '.join([*declared, *indices])})\n"
        f"{line_mark(line_of(kernel.body), translation_unit.name)}{edited(kernel.body, edits)}\n"
        f"{line_mark(1, generated_name(translation_unit, kernel))}"
        f'extern "C" __global__ void {bounds(kernel.node)}{grid_symbol(name)}'
        f"({', '.join([*declared, f'const {STRUCT_NAME} {PARAMETER}'])})\n"
        f"{loop_over_blocks(kernel, whole_rows(translation_unit, kernel), run)}"
    )


def loop_over_blocks(kernel: ParsedKernel, before: str, run: str) -> str:
    """Return the body of an elastic kernel.

    The way on is by what is left, not by a sum that might not fit into 32 bits. Only grids of two and three dimensions
    pay for a division, and only blocks with another behind them wait for all of their threads: on an H100 that was 5 %
    of kernels of some microseconds.

    Args:
        kernel: The original.
        before: Statements in front of the loop.
        run: The statements that run one logical block.
    """
    rows = f"{PARAMETER}.grid[1] * {PARAMETER}.grid[2]"
    return f"""{{
    const dim3 {GRID_DIM.name}({PARAMETER}.grid[0], {PARAMETER}.grid[1], {PARAMETER}.grid[2]);
    const dim3 {BLOCK_DIM.name}({PARAMETER}.block[0], {PARAMETER}.block[1], {PARAMETER}.block[2]);
{before}    for (unsigned int edgetune_at = blockIdx.x; edgetune_at < {PARAMETER}.count;) {{
        const unsigned int edgetune_number = {PARAMETER}.first + edgetune_at;
        const unsigned int edgetune_row = {rows} == 1 ? 0 : edgetune_number / {PARAMETER}.grid[0];
        const unsigned int edgetune_plane = {PARAMETER}.grid[2] == 1 ? 0 : edgetune_row / {PARAMETER}.grid[1];
        const uint3 {BLOCK_INDEX.name} = {{edgetune_number - edgetune_row * {PARAMETER}.grid[0],
            edgetune_row - edgetune_plane * {PARAMETER}.grid[1], edgetune_plane}};
{run}        if ({PARAMETER}.count - edgetune_at <= gridDim.x) break;
{_end_of_block(kernel)}        edgetune_at += gridDim.x;
    }}
}}
"""


def whole_rows(translation_unit: ParsedFile, kernel: ParsedKernel) -> str:
    """Return the statement that stops launches in which warps would return in part in front of warp primitives."""
    return f"    if ({BLOCK_DIM.name}.x % 32) __trap();\n" if warps_return(translation_unit, kernel) else ""


def _end_of_block(kernel: ParsedKernel) -> str:
    """Return what keeps one logical block from the next: shared memory is the block's, warp primitives the warp's."""
    if kernel.kernel.static_shared or kernel.kernel.dynamic_shared:
        return "        __syncthreads();\n"
    return "        __syncwarp();\n" if kernel.kernel.warp else ""


def bounds(function: Node) -> str:
    """Return the limits that a kernel is compiled for, with a space behind; they hold for its forms too."""
    found = [plain(each) for each in find(function, "launch_bounds") if each.start_byte < _body_start(function)]
    return "".join(f"{each} " for each in found)


def _body_start(function: Node) -> int:
    body = function.child_by_field_name("body")
    assert body is not None  # or it is no kernel
    return int(body.start_byte)


def generated_name(translation_unit: ParsedFile, kernel: ParsedKernel) -> str:
    """Return what compilers call the lines that stand in no file."""
    return f"{translation_unit.name} (elastic {kernel.kernel.name})"


def anchor(kernel: ParsedKernel) -> Node:
    """Return the node behind which a kernel's forms stand: in its own namespace, but for unnamed ones."""
    at = kernel.function.outer
    here = at.parent
    while here is not None:
        unnamed = here.type == "namespace_definition" and here.child_by_field_name("name") is None
        block = here.type == "linkage_specification" and here.child_by_field_name("body") == at
        if unnamed or block:
            at = here
        here = here.parent
    return at


def inserted(at: Node, translation_unit: ParsedFile, text: str) -> Edit:
    """Return the edit that puts generated text behind a node, with the lines counted on behind it."""
    last = int(at.end_point[0]) + 1
    return Edit(at.end_byte, at.end_byte, f"\n{text}{line_mark(last, translation_unit.name)}")

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

from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgetune.elastic.abi import PARAMETER, PER_THREAD, STRUCT_NAME, block_symbol, grid_symbol
from edgetune.elastic.kernel import Refusal, Variant
from edgetune.elastic.source.block_legality import block_illegalities, threads_apart, warps_return
from edgetune.elastic.source.builtins import BLOCK_INDICES, INDICES
from edgetune.elastic.source.codegen import CodeGenerator
from edgetune.elastic.source.explain import fission_steps, strided_steps
from edgetune.elastic.source.fission import CannotSplit, Fission
from edgetune.elastic.source.index_parameters import (
    BLOCK_DIM,
    BLOCK_INDEX,
    GRID_DIM,
    THREAD_INDEX,
    call_edits,
    copies_of,
    index_edits,
    readers,
)
from edgetune.elastic.source.kernel_scan import parameter_nodes, parameter_text
from edgetune.elastic.source.name_resolution import resolve
from edgetune.elastic.source.scalar_expansion import expand_scalars
from edgetune.elastic.source.syntax import Edit, edited, find, line_mark, line_of, plain
from edgetune.elastic.source.uniformity import uniformity

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


_ALL = (THREAD_INDEX, BLOCK_DIM, BLOCK_INDEX, GRID_DIM)
_OF_BLOCK = (BLOCK_DIM, BLOCK_INDEX, GRID_DIM)

_OWN = ("edgetune_own", "edgetune_step")
"""The number of a physical thread in its block, and how many of them there are."""
_OWN_OF_BLOCK = (
    "(threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x",
    "blockDim.x * blockDim.y * blockDim.z",
)

_WHOLE_WARPS = "blockDim.x != edgetune_threads && (blockDim.x % 32 || edgetune_threads % 32)"
"""So lanes would be in other warps: better no result than a wrong one, or a warp that waits."""


@dataclass(frozen=True, slots=True)
class BlockForms:
    """What became of a kernel at block level.

    Args:
        text: The functions that make up its forms.
        variants: Its forms.
        refusals: Why there are none.
        steps: What was done, a line each.
        grid: Whether the text has the grid-elastic form too: where threads return while others go on to barriers, it
            must keep them waiting, which a function that they leave does not.
    """

    text: str = ""
    variants: tuple[Variant, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    steps: tuple[str, ...] = ()
    grid: bool = False


def block_variants(unit: ParsedFile, kernel: ParsedKernel) -> BlockForms:
    """Return the forms of a kernel whose blocks are elastic, or why there are none.

    Args:
        unit: The file.
        kernel: One of its kernels that may be made elastic at grid level.
    """
    against = block_illegalities(unit, kernel)
    if against:
        return BlockForms(refusals=against)
    if not kernel.kernel.barriers:
        return _strided(unit, kernel)
    try:
        return _split(unit, kernel)
    except CannotSplit as wrong:
        return BlockForms(refusals=(wrong.refusal(kernel.kernel.name),))


def _strided(unit: ParsedFile, kernel: ParsedKernel) -> BlockForms:
    """Return the one form of a kernel without barriers, for every size of the physical block."""
    name = kernel.kernel.name
    helpers, edits = _logical(unit, kernel)
    handed = [*(each.name for each in kernel.kernel.parameters), *(each.name for each in _ALL)]
    each_thread = "unsigned int edgetune_t = threadIdx.x; edgetune_t < edgetune_threads; edgetune_t += blockDim.x"
    call = f"""        for ({each_thread}) {{
            const uint3 {THREAD_INDEX.name} = edgetune_thread_{name}(edgetune_t, {BLOCK_DIM.name});
            edgetune_each_{name}({", ".join(handed)});
        }}
"""
    text = (
        f"{_thread_index(name)}{helpers}static __device__ __forceinline__ void edgetune_each_{name}"
        f"({', '.join([*_declared(kernel), *(f'{each.type} {each.name}' for each in _ALL)])})\n"
        f"{line_mark(line_of(kernel.body), unit.name)}{edited(kernel.body, edits)}\n"
        f"{line_mark(1, generated_name(unit, kernel))}{_kernel(unit, kernel, None, call)}"
    )
    return BlockForms(text, (Variant(block_symbol(name, None), "block", None),), (), strided_steps(kernel.kernel))


def _split(unit: ParsedFile, kernel: ParsedKernel) -> BlockForms:
    """Return the forms of a kernel with barriers, taken apart at them.

    Raises:
        CannotSplit: That cannot be done.
    """
    name = kernel.kernel.name
    helpers, edits = _logical(unit, kernel)
    names = resolve(kernel.node, kernel.body, unit.macros)
    fission = Fission(kernel.body, names, uniformity(kernel.body, names, unit))
    pieces, many = expand_scalars(fission)
    weaver = CodeGenerator(fission, many, edits, unit.name, f"edgetune_thread_{name}")
    body = weaver.body(pieces)
    own = [f"const unsigned int {each}" for each in _OWN]
    parameters = ", ".join([*_declared(kernel), *(f"{each.type} {each.name}" for each in _OF_BLOCK), *own])
    grid = weaver.live or bool(threads_apart(unit, kernel))
    counts = [each for each in PER_THREAD if each > 1 or grid]
    text = (
        f"{_thread_index(name)}{helpers}template <unsigned int edgetune_n>\n"
        f"static __device__ __forceinline__ void edgetune_blocks_{name}({parameters})\n{body}"
        f"{line_mark(1, generated_name(unit, kernel))}{''.join(_split_kernel(unit, kernel, each) for each in counts)}"
    )
    variants = tuple(Variant(block_symbol(name, each), "block", each) for each in PER_THREAD if each > 1)
    single = {each for each in fission.single if each.kind == "local" or fission.uniform.writes[each]}
    steps = fission_steps(kernel.kernel, pieces, many, single, live=weaver.live)
    return BlockForms(text, variants, (), steps, grid=grid)


def _split_kernel(unit: ParsedFile, kernel: ParsedKernel, per_thread: int) -> str:
    """Return one form of a kernel that was taken apart; that of one logical thread has blocks of the logical shape."""
    own = _OWN_OF_BLOCK if per_thread == 1 else ("threadIdx.x", "blockDim.x")
    handed = [*(each.name for each in kernel.kernel.parameters), *(each.name for each in _OF_BLOCK), *own]
    call = f"        edgetune_blocks_{kernel.kernel.name}<{per_thread}>({', '.join(handed)});\n"
    return _kernel(unit, kernel, per_thread, call)


def _logical(unit: ParsedFile, kernel: ParsedKernel) -> tuple[str, list[Edit]]:
    """Return copies of the functions that read indices, and the edits that make a kernel read the logical ones."""
    copied = readers(kernel, INDICES)
    helpers, names = copies_of(unit, copied, _ALL, f"edgetune_of_{kernel.kernel.name}__")
    return helpers, [*index_edits(kernel.body, _ALL), *call_edits(kernel.body, names, _ALL)]


def _declared(kernel: ParsedKernel) -> list[str]:
    return [parameter_text(each) for each in parameter_nodes(kernel.node)]


def _thread_index(name: str) -> str:
    """Return the function that computes ``threadIdx`` of a logical thread; few kernels need the divisions."""
    return f"""static __device__ __forceinline__ uint3 edgetune_thread_{name}(const unsigned int t, const dim3 block)
{{
    if (block.y == 1 && block.z == 1) return {{t, 0, 0}};
    return {{t % block.x, t / block.x % block.y, t / (block.x * block.y)}};
}}
"""


def _kernel(unit: ParsedFile, kernel: ParsedKernel, per_thread: int | None, run: str) -> str:
    """Return a form: the loop over logical blocks around what runs one.

    Args:
        unit: The file.
        kernel: The original.
        per_thread: Logical threads in a physical one.
        run: The statements that run a logical block.
    """
    parameters = ", ".join([*_declared(kernel), f"const {STRUCT_NAME} {PARAMETER}"])
    threads = ""
    if per_thread != 1:
        threads = (
            f"    const unsigned int edgetune_threads = {BLOCK_DIM.name}.x * {BLOCK_DIM.name}.y * {BLOCK_DIM.name}.z;\n"
        )
    if per_thread not in (None, 1):
        threads += f"    if (blockDim.x * {per_thread} < edgetune_threads) __trap();\n"
    if kernel.kernel.warp and per_thread != 1:
        threads += f"    if ({_WHOLE_WARPS}) __trap();\n"
    threads += whole_rows(unit, kernel)
    symbol = grid_symbol(kernel.kernel.name) if per_thread == 1 else block_symbol(kernel.kernel.name, per_thread)
    head = f'extern "C" __global__ void {_bounds(kernel, per_thread)}{symbol}({parameters})\n'
    return head + loop_over_blocks(kernel, threads, run)


def _bounds(kernel: ParsedKernel, per_thread: int | None) -> str:
    """Return the most threads that a form is compiled for: as many times fewer as it runs logical threads in one."""
    for each in find(kernel.node, "launch_bounds"):
        if each.start_byte < kernel.body.start_byte and each.named_children:
            most = plain(each.named_children[0])
            return f"__launch_bounds__(({most} + {per_thread or 1} - 1) / {per_thread or 1}) "
    return ""

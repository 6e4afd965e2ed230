"""A kernel whose blocks are elastic too: physical blocks of fewer threads than logical ones have.

    without barriers   K__block    for (t = threadIdx.x; t < threads; t += blockDim.x)  K of logical thread t
    with barriers      K__block2   each physical thread runs 2 logical ones from barrier to barrier
                       K__block4   4
                       K__block8   8
                       K__grid     1, of the logical shape, where a plain one would not do: threads return early

Lane l of a physical warp runs lane l of a logical one where the physical block is a multiple of 32.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgetune.elastic.abi import PARAMETER, PER_THREAD, STRUCT_NAME, block_symbol, grid_symbol
from edgetune.elastic.kernel import Refusal, Variant
from edgetune.elastic.source.block_legality import block_illegalities
from edgetune.elastic.source.block_steps import fission_steps, strided_steps
from edgetune.elastic.source.builtins import INDICES
from edgetune.elastic.source.codegen import CodeGenerator
from edgetune.elastic.source.edits import Edit, edited, line_mark, plain
from edgetune.elastic.source.fission import CannotSplit, Fission
from edgetune.elastic.source.grid_level import generated_name, loop_over_blocks, whole_rows
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
from edgetune.elastic.source.nodes import find, line_of
from edgetune.elastic.source.scalar_expansion import expand_scalars
from edgetune.elastic.source.uniformity import uniformity
from edgetune.elastic.source.warp_divergence import threads_apart

if TYPE_CHECKING:
    from edgetune.elastic.source.translation_unit import ParsedFile, ParsedKernel

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

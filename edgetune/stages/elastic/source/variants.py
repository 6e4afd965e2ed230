"""The elastic forms of a kernel: physical blocks that go through logical ones, of as many threads or of fewer.

    __global__ void vadd(float *a, int n) { if (i >= n) return; ... }

    static __device__ void edgetune_grid_vadd(float *a, int n, uint3 block, dim3 grid) { if (i >= n) return; ... }
    extern "C" __global__ void vadd__grid(float *a, int n, edgetune_launch_t launch) {
        for (b = blockIdx.x; b < launch.count; b += gridDim.x)
            edgetune_grid_vadd(a, n, index of launch.first + b, launch.grid);
    }

    vadd__block             no barriers: for (t = threadIdx.x; t < threads; t += blockDim.x) body of logical thread t
    vadd__block2, 4 and 8   barriers: each physical thread runs 2, 4 or 8 logical ones from barrier to barrier
    vadd__grid              made the same way with 1, where threads return while others go on to barriers
    vadd__persistent        as vadd__grid, but blocks take the next logical block from a counter

``return`` leaves the function, so a thread that has nothing to do in one logical block takes part in the next.
Parameters are by value, so the next logical block does not see what one writes to its own.
Lane l of a physical warp runs lane l of a logical one where the physical block is a multiple of 32.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edgetune.stages.elastic.abi import PER_THREAD, block_symbol, grid_symbol, persistent_symbol
from edgetune.stages.elastic.kernel import Refusal, Variant
from edgetune.stages.elastic.source.async_copies import AWAIT, copies_of_threads
from edgetune.stages.elastic.source.block_legality import (
    block_illegalities,
    lanes_in_rows,
    threads_apart,
    warps_return,
)
from edgetune.stages.elastic.source.block_loops import FormOptions, loop_parameters, persistent_loop, slice_loop
from edgetune.stages.elastic.source.builtins import BLOCK_INDICES, INDICES
from edgetune.stages.elastic.source.codegen import CodeGenerator
from edgetune.stages.elastic.source.explain import fission_steps, strided_steps
from edgetune.stages.elastic.source.fission import CannotSplit, Fission
from edgetune.stages.elastic.source.index_parameters import (
    BLOCK_DIM,
    BLOCK_INDEX,
    GRID_DIM,
    THREAD_INDEX,
    Index,
    call_edits,
    copies_of,
    index_edits,
    readers,
)
from edgetune.stages.elastic.source.kernel_scan import parameter_nodes, parameter_text
from edgetune.stages.elastic.source.scalar_expansion import expand_scalars
from edgetune.stages.elastic.source.syntax import Edit, Node, above, edited, find, line_mark, line_of, plain
from edgetune.stages.elastic.source.translation_unit import ParsedKernel
from edgetune.stages.elastic.source.uniformity import uniformity

_OF_GRID = (BLOCK_INDEX, GRID_DIM)
_OF_BLOCK = (BLOCK_DIM, BLOCK_INDEX, GRID_DIM)
_ALL = (THREAD_INDEX, *_OF_BLOCK)

_OWN = ("edgetune_own", "edgetune_step")
"""The number of a physical thread in its block, and how many of them there are."""
_OWN_OF_BLOCK = (
    "(threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x",
    "blockDim.x * blockDim.y * blockDim.z",
)
_SPLIT_WARPS = "blockDim.x != edgetune_threads && (blockDim.x % 32 || edgetune_threads % 32)"
"""Lanes would be in other warps than in the original; the form stops rather than give a wrong result or wait."""


@dataclass(frozen=True, slots=True)
class BlockForms:
    """The forms of a kernel at block level.

    Args:
        text: The functions that make up the forms.
        variants: The forms.
        refusals: Why there are none.
        steps: What was done, a line each.
        grid: Whether the text holds the grid-elastic form too. It does where threads return while others go on to
            barriers: that form must keep the returned ones at the barriers.
    """

    text: str = ""
    variants: tuple[Variant, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    steps: tuple[str, ...] = ()
    grid: bool = False


def grid_form(kernel: ParsedKernel, options: FormOptions) -> str:
    """Return the functions that make up the grid-elastic forms of a kernel that is not refused."""
    body_name = f"edgetune_grid_{kernel.name}"
    helpers, edits = _logical(kernel, BLOCK_INDICES, _OF_GRID, f"{body_name}_")
    run = f"        {body_name}({_handed(kernel, _OF_GRID)});\n"
    bounds = "".join(f"{plain(each)} " for each in _launch_bounds(kernel))
    return (
        f"{helpers}static __device__ __forceinline__ void {body_name}({_declared(kernel, _OF_GRID)})\n"
        f"{_body(kernel, edits)}{_grid_kernels(kernel, bounds, run, options)}"
    )


def block_variants(kernel: ParsedKernel, options: FormOptions) -> BlockForms:
    """Return the block-elastic forms of a kernel that may be made elastic at grid level, or why there are none."""
    against = block_illegalities(kernel)
    if against:
        return BlockForms(refusals=against)
    if not kernel.kernel.barriers:
        return _strided(kernel, options)
    try:
        return _split(kernel, options)
    except CannotSplit as wrong:
        return BlockForms(refusals=(wrong.refusal(kernel.name),))


def _strided(kernel: ParsedKernel, options: FormOptions) -> BlockForms:
    """Return the one form of a kernel without barriers, for every size of the physical block."""
    name = kernel.name
    helpers, edits = _logical(kernel, INDICES, _ALL, f"edgetune_of_{name}__")
    each_thread = "unsigned int edgetune_t = threadIdx.x; edgetune_t < edgetune_threads; edgetune_t += blockDim.x"
    call = f"""        for ({each_thread}) {{
            const uint3 {THREAD_INDEX.name} = edgetune_thread_{name}(edgetune_t, {BLOCK_DIM.name});
            edgetune_each_{name}({_handed(kernel, _ALL)});
        }}
"""
    text = (
        f"{_thread_index(name)}{helpers}static __device__ __forceinline__ void edgetune_each_{name}"
        f"({_declared(kernel, _ALL)})\n{_body(kernel, edits)}{_kernel(kernel, None, call, options)}"
    )
    return BlockForms(text, (Variant(block_symbol(name, None), "block", None),), (), strided_steps(kernel.kernel))


def _split(kernel: ParsedKernel, options: FormOptions) -> BlockForms:
    """Return the forms of a kernel that is split at its barriers.

    Raises:
        CannotSplit: A barrier, or a variable that lives across one, does not allow it.
    """
    name, source = kernel.name, kernel.source
    helpers, edits = _logical(kernel, INDICES, _ALL, f"edgetune_of_{name}__")
    fission = Fission(uniformity(kernel))
    pieces, many = expand_scalars(fission)
    generator = CodeGenerator(fission, many, edits, source.name, f"edgetune_thread_{name}")
    body = generator.body(pieces)
    parameters = ", ".join([_declared(kernel, _OF_BLOCK), *(f"const unsigned int {each}" for each in _OWN)])
    grid = generator.live or bool(threads_apart(kernel))
    counts = [each for each in PER_THREAD if each > 1 or grid]
    text = (
        f"{_thread_index(name)}{helpers}template <unsigned int edgetune_n>\n"
        f"static __device__ __forceinline__ void edgetune_blocks_{name}({parameters})\n{body}"
        f"{line_mark(1, generated_name(kernel))}{''.join(_split_kernel(kernel, each, options) for each in counts)}"
    )
    variants = tuple(Variant(block_symbol(name, each), "block", each) for each in PER_THREAD if each > 1)
    single = {each for each in fission.single if each.kind == "local" or fission.uniform.writes[each]}
    steps = fission_steps(kernel.kernel, pieces, many, single, live=generator.live)
    return BlockForms(text, variants, (), steps, grid=grid)


def _split_kernel(kernel: ParsedKernel, per_thread: int, options: FormOptions) -> str:
    """Return one form of a split kernel; the form of one logical thread has blocks of the logical shape."""
    own = _OWN_OF_BLOCK if per_thread == 1 else ("threadIdx.x", "blockDim.x")
    handed = ", ".join([_handed(kernel, _OF_BLOCK), *own])
    return _kernel(kernel, per_thread, f"        edgetune_blocks_{kernel.name}<{per_thread}>({handed});\n", options)


def _logical(
    kernel: ParsedKernel, builtins: frozenset[str], indices: tuple[Index, ...], prefix: str
) -> tuple[str, list[Edit]]:
    """Return copies of the functions that read indices, and the edits that make a kernel read the logical ones."""
    helpers, names = copies_of(kernel.source, readers(kernel, builtins), indices, prefix)
    return helpers, [*index_edits(kernel.body, indices), *call_edits(kernel.body, names, indices)]


def _declared(kernel: ParsedKernel, indices: tuple[Index, ...]) -> str:
    """Return the parameters of a function that has the body of a kernel."""
    own = (parameter_text(each) for each in parameter_nodes(kernel.node))
    return ", ".join([*own, *(f"{each.type} {each.name}" for each in indices)])


def _handed(kernel: ParsedKernel, indices: tuple[Index, ...]) -> str:
    """Return the arguments for these parameters."""
    own = (each.name for each in kernel.kernel.parameters)
    return ", ".join([*own, *(each.name for each in indices)])


def _body(kernel: ParsedKernel, edits: list[Edit]) -> str:
    """Return the edited body of a kernel, on its own lines, and the mark of the generated lines behind it."""
    mark = line_mark(line_of(kernel.body), kernel.source.name)
    return f"{mark}{edited(kernel.body, edits)}\n{line_mark(1, generated_name(kernel))}"


def _thread_index(name: str) -> str:
    """Return the function that computes ``threadIdx`` of a logical thread; few kernels need the divisions."""
    return f"""static __device__ __forceinline__ uint3 edgetune_thread_{name}(const unsigned int t, const dim3 block)
{{
    if (block.y == 1 && block.z == 1) return {{t, 0, 0}};
    return {{t % block.x, t / block.x % block.y, t / (block.x * block.y)}};
}}
"""


def _kernel(kernel: ParsedKernel, per_thread: int | None, run: str, options: FormOptions) -> str:
    """Return a form: the loop over logical blocks around the statements that run one.

    Args:
        kernel: The original.
        per_thread: Logical threads in a physical one.
        run: The statements that run a logical block.
        options: How forms come to their logical blocks.
    """
    bounds = _bounds(kernel, per_thread)
    if per_thread == 1:
        return _grid_kernels(kernel, bounds, run, options)
    sizes = " * ".join(f"{BLOCK_DIM.name}.{axis}" for axis in "xyz")
    checks = f"    const unsigned int edgetune_threads = {sizes};\n"
    if per_thread is not None:
        checks += f"    if (blockDim.x * {per_thread} < edgetune_threads) __trap();\n"
    if kernel.kernel.warp:
        checks += f"    if ({_SPLIT_WARPS}) __trap();\n"
    head = _head(kernel, bounds, block_symbol(kernel.name, per_thread), loop_parameters())
    return head + _sliced(kernel, checks + _whole_rows(kernel), run)


def _grid_kernels(kernel: ParsedKernel, bounds: str, run: str, options: FormOptions) -> str:
    """Return the form whose grid alone is elastic, and the persistent one where that is asked for."""
    before, name = _whole_rows(kernel), kernel.name
    if kernel.shared and any("volatile" in each.tokens for each in kernel.reach):
        run = f"        __syncwarp();\n{run}"  # lanes may count on running in step, as at the start of a kernel
    if copies_of_threads(kernel):
        run += AWAIT
    text = _head(kernel, bounds, grid_symbol(name), loop_parameters())
    text += _sliced(kernel, before, run)
    if options.persistent:
        text += _head(kernel, bounds, persistent_symbol(name), loop_parameters(persistent=True))
        text += persistent_loop(before, run)
    return text


def _sliced(kernel: ParsedKernel, before: str, run: str) -> str:
    return slice_loop(before, run, shared=kernel.shared, warp=kernel.kernel.warp)


def _head(kernel: ParsedKernel, bounds: str, symbol: str, more: Sequence[str]) -> str:
    """Return the head of an elastic kernel, which takes more parameters than the original."""
    own = (parameter_text(each) for each in parameter_nodes(kernel.node))
    return f'extern "C" __global__ void {bounds}{symbol}({", ".join([*own, *more])})\n'


def _launch_bounds(kernel: ParsedKernel) -> list[Node]:
    head = (each for each in kernel.node.children if each != kernel.body)
    return [bounds for each in head for bounds in find(each, "launch_bounds")]


def _bounds(kernel: ParsedKernel, per_thread: int | None) -> str:
    """Return the most threads that a form is compiled for: the original's, divided by the logical threads in one."""
    for each in _launch_bounds(kernel):
        if each.named_children:
            most = plain(each.named_children[0])
            return f"__launch_bounds__(({most} + {per_thread or 1} - 1) / {per_thread or 1}) "
    return ""


def _whole_rows(kernel: ParsedKernel) -> str:
    """Return the statement that stops launches in which only a part of a warp would come to warp primitives."""
    if warps_return(kernel):
        return f"    if ({BLOCK_DIM.name}.x % 32) __trap();\n"
    lanes = lanes_in_rows(kernel) if kernel.kernel.warp else 0
    several = f"{BLOCK_DIM.name}.y * {BLOCK_DIM.name}.z != 1"
    return f"    if ({BLOCK_DIM.name}.x % {lanes} && {several}) __trap();\n" if lanes else ""


def generated_name(kernel: ParsedKernel) -> str:
    """Return the file name that compilers show for generated lines."""
    return f"{kernel.source.name} (elastic {kernel.name})"


def anchor(kernel: ParsedKernel) -> Node:
    """Return the node behind which a kernel's forms stand: in its own namespace, except unnamed ones."""
    at = kernel.function.outer
    for here in above(at):
        unnamed = here.type == "namespace_definition" and here.child_by_field_name("name") is None
        block = here.type == "linkage_specification" and here.child_by_field_name("body") == at
        if unnamed or block:
            at = here
    return at


def inserted(kernel: ParsedKernel, text: str) -> Edit:
    """Return the edit that puts generated text behind a kernel, and lets the lines behind it count on."""
    at = anchor(kernel)
    last = int(at.end_point[0]) + 1
    return Edit(at.end_byte, at.end_byte, f"\n{text}{line_mark(last, kernel.source.name)}")

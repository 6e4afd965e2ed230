"""Adds to a PTX text a form of each kernel whose grid is elastic, behind all of the original.

    .entry vadd(.param .u64 a)                     .entry vadd__grid(.param .u64 a, .param .b8 edgetune_launch[32])
                                                   at = %ctaid.x
                                                   next:  if (at >= count) ret; index of first + at
      mov.u32 %r1, %ctaid.x                        mov.u32 %r1, index along x
      @%p1 ret                                     @%p1 bra turn
      bar.sync 0 ...                               bar.sync 0 ...
                                                   turn:  if (count - at <= %nctaid.x) ret; bar.sync 0;
                                                          at += %nctaid.x; bra next

The parameter and the order of logical blocks are those of ``abi``, with computed indices. Registers and labels of a
kernel are its own, and the body stands in the form once, so only new names are added. The turn ends with a barrier
where shared memory or barriers are used, else with one of the warp where lanes meet; asynchronous copies and products
have ended by then. What threads left in registers and local memory is undefined at the start of the original, so the
body reads none of it. Source of the form: Zhao et al., Miriam (SenSys 2023), made behind the compiler.
"""

from __future__ import annotations

import re

from edgetune.errors import InputError
from edgetune.stages.elastic.abi import COUNT_OFFSET_BYTES, FIRST_OFFSET_BYTES, PARAMETER, SIZE_BYTES, grid_symbol
from edgetune.stages.elastic.kernel import CudaKernel, ElasticKernel, Parameter, TransformResult, Variant
from edgetune.stages.elastic.ptx.legality import legality, refusal, waits_for_warp
from edgetune.stages.elastic.ptx.parse import Entry, Instruction, Module, parse

MARK = "/* edgetune: elastic forms at the end */ "
"""The start of a transformed text; lines of the original keep their numbers."""
_INDEX = re.compile(r"%(n?)ctaid\.([xyz])\b")
_TAKEN = re.compile(r"edgetune_|__grid\b")
_REGISTERS = (
    "at", "count", "first", "step", "left", "number", "row", "x", "y", "z", "width", "height", "depth", "rows", "shape"
)  # fmt: skip


def transform_ptx(text: str, name: str) -> TransformResult:
    """Make the kernels of a PTX text elastic.

    Args:
        text: Of one module.
        name: Of the file, for messages.

    Returns:
        The text with a mark in front and, behind it, a form of each kernel that is not refused.

    Raises:
        InputError: it is no PTX, or has no kernel.
    """
    module = parse(text, name)
    if not module.entries:
        raise InputError(f"{name} has no kernel: it has no .entry", "give the PTX of a file with kernels")
    kernels, forms = zip(*(_elastic(module, each) for each in module.entries), strict=True)
    end = "" if text.endswith("\n") else "\n"
    return TransformResult(f"{MARK}{text}{end}{''.join(forms)}", kernels, language="ptx")


def _elastic(module: Module, entry: Entry) -> tuple[ElasticKernel, str]:
    kernel = _facts(module, entry)
    whole = module.text[entry.span[0] : entry.span[1]]
    if _TAKEN.search(whole) or any(each.name == grid_symbol(entry.name) for each in module.entries):
        return ElasticKernel(kernel, (), (refusal(entry, "reserved-name", None, entry.name),)), ""
    refused, rows = legality(entry)
    if refused:
        return ElasticKernel(kernel, (), refused), ""
    steps = ["grid: %ctaid and %nctaid are those of the logical launch; ret goes on to the next logical block"]
    ends = _turn_end(kernel, entry)
    steps += [f"    each turn ends with {', '.join(ends)}"] if ends else []
    steps += ["    a block whose rows of threads are no whole warps stops: branches go by warps"] if rows else []
    variant = Variant(grid_symbol(entry.name), "grid")
    return ElasticKernel(kernel, (variant,), (), tuple(steps)), f"\n{_form(module.text, entry, ends, rows)}\n"


def _facts(module: Module, entry: Entry) -> CudaKernel:
    """Return what a kernel takes and uses, as its instructions show it."""
    code = entry.instructions
    words = {name for each in code for operand in each.operands for name in re.findall(r"[\w$]+", operand)}
    outside = [each for each in module.variables.values() if each.name in words]
    shared = [each for each in (*entry.variables, *outside) if each.space == "shared"]
    return CudaKernel(
        entry.name,
        entry.line,
        tuple(Parameter(f"{each.type}[{each.size_bytes}]", each.name) for each in entry.parameters),
        barriers=sum(each.op[0] in ("bar", "barrier") and "warp" not in each.op for each in code),
        static_shared=any(each.size_bytes for each in shared),
        dynamic_shared=any(not each.size_bytes for each in shared),
        warp=any(map(waits_for_warp, code)),
        float_atomics=any(each.op[0] in ("atom", "red") and each.op[-1][:1] in "fb" and "add" in each.op
                          and each.op[-1] not in ("b32", "b64") for each in code),
        tables=any(each.space == "const" for each in outside),
    )  # fmt: skip


def _turn_end(kernel: CudaKernel, entry: Entry) -> list[str]:
    """Return the instructions between two logical blocks."""
    kinds = {each.op[0] for each in entry.instructions}
    copies = ["cp.async.wait_all"] * ("cp" in kinds) + ["wgmma.wait_group.sync.aligned 0"] * ("wgmma" in kinds)
    shared = kernel.barriers or any("shared" in each.name for each in entry.instructions)
    if shared or kernel.static_shared or kernel.dynamic_shared or copies:
        # lanes may count on running in step, as at the start of a kernel
        steps = any({"volatile", "shared"} <= set(each.op) for each in entry.instructions)
        return [*copies, "bar.sync 0", *["bar.warp.sync 0xffffffff"] * steps]
    return ["bar.warp.sync 0xffffffff"] if kernel.warp else []


def _form(text: str, entry: Entry, ends: list[str], rows: bool) -> str:
    """Return the text of the elastic form."""
    edits = [(entry.head[0], entry.head[1], grid_symbol(entry.name)), (entry.first, entry.first, _before(rows))]
    parameter = f".param .align 4 .b8 {PARAMETER}[{SIZE_BYTES}]"
    if entry.head[2] < 0:
        edits.append((entry.head[1], entry.head[1], f"(\n\t{parameter}\n)"))
    else:
        edits.append(
            (entry.head[2], entry.head[2], f",\n\t{parameter}\n" if entry.parameters else f"\n\t{parameter}\n")
        )
    edits.append((entry.span[1] - 1, entry.span[1] - 1, _behind(ends)))
    for each in entry.instructions:
        edits += _within(text, each)
    made, at = "", entry.span[0]
    for start, end, new in sorted(edits):
        made += text[at:start] + new
        at = end
    return made + text[at : entry.span[1]]


def _within(text: str, each: Instruction) -> list[tuple[int, int, str]]:
    """Return the edits of one instruction of the body."""
    if each.op[0] in ("ret", "exit"):
        guard = f"@{'!' * each.guard[1]}{each.guard[0].partition('@')[0]} " if each.guard else ""
        return [(each.start, each.end, f"{guard}bra $edgetune_turn;")]
    found = _INDEX.finditer(text, each.start, each.end)
    names = {"x": "width", "y": "height", "z": "depth"}
    return [(one.start(), one.end(), f"%edgetune_{names[one[2]] if one[1] else one[2]}") for one in found]


def _before(rows: bool) -> str:
    """Return the statements in front of the body."""
    registers = ", ".join(f"%edgetune_{each}" for each in _REGISTERS)
    check = """
	mov.u32 %edgetune_shape, %ntid.x;
	and.b32 %edgetune_shape, %edgetune_shape, 31;
	setp.ne.u32 %edgetune_is, %edgetune_shape, 0;
	mov.u32 %edgetune_shape, %ntid.y;
	mov.u32 %edgetune_rows, %ntid.z;
	mul.lo.u32 %edgetune_shape, %edgetune_shape, %edgetune_rows;
	setp.ne.and.u32 %edgetune_is, %edgetune_shape, 1, %edgetune_is;
	@%edgetune_is trap;"""
    return f""".reg .b32 {registers};
	.reg .pred %edgetune_is;{check if rows else ""}
	ld.param.u32 %edgetune_width, [{PARAMETER}];
	ld.param.u32 %edgetune_height, [{PARAMETER}+4];
	ld.param.u32 %edgetune_depth, [{PARAMETER}+8];
	ld.param.u32 %edgetune_first, [{PARAMETER}+{FIRST_OFFSET_BYTES}];
	ld.param.u32 %edgetune_count, [{PARAMETER}+{COUNT_OFFSET_BYTES}];
	mov.u32 %edgetune_at, %ctaid.x;
	mov.u32 %edgetune_step, %nctaid.x;
	mul.lo.u32 %edgetune_rows, %edgetune_height, %edgetune_depth;
	setp.ge.u32 %edgetune_is, %edgetune_at, %edgetune_count;
	@%edgetune_is ret;
$edgetune_next:
	add.u32 %edgetune_number, %edgetune_first, %edgetune_at;
	mov.u32 %edgetune_x, %edgetune_number;
	mov.u32 %edgetune_y, 0;
	mov.u32 %edgetune_z, 0;
	setp.eq.u32 %edgetune_is, %edgetune_rows, 1;
	@%edgetune_is bra $edgetune_body;
	div.u32 %edgetune_row, %edgetune_number, %edgetune_width;
	mul.lo.u32 %edgetune_x, %edgetune_row, %edgetune_width;
	sub.u32 %edgetune_x, %edgetune_number, %edgetune_x;
	div.u32 %edgetune_z, %edgetune_row, %edgetune_height;
	mul.lo.u32 %edgetune_y, %edgetune_z, %edgetune_height;
	sub.u32 %edgetune_y, %edgetune_row, %edgetune_y;
$edgetune_body:
	"""


def _behind(ends: list[str]) -> str:
    """Return the statements behind the body."""
    return f"""
$edgetune_turn:
	sub.u32 %edgetune_left, %edgetune_count, %edgetune_at;
	setp.le.u32 %edgetune_is, %edgetune_left, %edgetune_step;
	@%edgetune_is ret;
	{"".join(f"{each};{chr(10)}{chr(9)}" for each in ends)}add.u32 %edgetune_at, %edgetune_at, %edgetune_step;
	bra.uni $edgetune_next;
"""

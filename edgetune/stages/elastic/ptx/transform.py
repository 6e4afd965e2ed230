"""Adds to a PTX text elastic forms of each kernel, behind all of the original.

    .entry vadd(.param .u64 a)         .entry vadd__grid(.param .u64 a, .param .b8 edgetune_launch[32])
                                       ... next:  index of the logical block
      mov.u32 %r1, %ctaid.x            mov.u32 %r1, index along x
      @%p1 ret                         @%p1 bra turn
      bar.sync 0 ...                   bar.sync 0 ...
                                       turn:  if (count - at <= %nctaid.x) ret; bar.sync 0; at += %nctaid.x; bra next

Parameters and the order of logical blocks are those of ``abi``. Registers and labels of a kernel are its own, so its
body stands in the form as it is, with new names added; in forms of its block, and where threads return before barriers
of others, ``body`` writes it anew. The turn ends with a barrier where shared memory or barriers are used, else with one
of the warp where lanes meet; asynchronous copies and products have ended by then. What threads left in registers and
local memory is undefined at the start of the original, so the body reads none of it. Source of the form: Zhao et al.,
Miriam (SenSys 2023), made behind the compiler.
"""

import math
import re
from dataclasses import replace
from pathlib import Path

from edgetune.errors import InputError
from edgetune.stages.elastic.kernel import (
    PER_THREAD,
    WARP_THREADS,
    CudaKernel,
    ElasticKernel,
    Level,
    Parameter,
    Refusal,
    TransformResult,
    Variant,
    form_symbol,
)
from edgetune.stages.elastic.ptx import frames
from edgetune.stages.elastic.ptx.body import Body, NoFormError
from edgetune.stages.elastic.ptx.control_flow import UNIFORM, Divergence, waits_for_block
from edgetune.stages.elastic.ptx.legality import Legality, block_legality, legality, refusal, waits_for_warp
from edgetune.stages.elastic.ptx.parse import Entry, Module, parse

MARK = "/* edgetune: elastic forms at the end */ "
"""The start of a transformed text; lines of the original keep their numbers."""
_INDEX = re.compile(r"%(n?)ctaid\.([xyz])\b")
_TAKEN = re.compile(r"edgetune|__(?:grid|block\d|persistent)\b")
_SIZE = re.compile(r"\.(reqntid|maxntid)\s+(\d+(?:\s*,\s*\d+)*)")
_TEXTURES = frozenset({"tex", "tld4", "txq", "suld", "sust", "sured", "suq"})


def transform_ptx(text: str, name: str, *, persistent: bool = False, compiled: bool = False) -> TransformResult:
    """Make the kernels of a PTX text elastic.

    Args:
        text: Of one module.
        name: Of the file, for messages.
        persistent: Whether each kernel gets a persistent form too.
        compiled: Whether it was compiled from the file, which messages have lines of, then.

    Returns:
        The text with a mark in front and, behind it, the forms of each kernel that is not refused.

    Raises:
        InputError: it is no PTX, or has no kernel.
    """
    module = parse(text, name)
    if not module.entries:
        raise InputError(f"{name} has no kernel: it has no .entry", "give the PTX of a file with kernels")
    kernels, forms = zip(*(_elastic(module, each, persistent) for each in module.entries), strict=True)
    if compiled:
        of_source = zip(kernels, module.entries, strict=True)
        kernels = tuple(_in_source(kernel, entry, Path(name).name) for kernel, entry in of_source)
    end = "" if text.endswith("\n") else "\n"
    return TransformResult(f"{MARK}{text}{end}{''.join(forms)}", kernels)


def _in_source(elastic: ElasticKernel, entry: Entry, name: str) -> ElasticKernel:
    """Return a kernel with places in the source that it was compiled from."""
    lines = [each.source[1] for each in entry.instructions if each.source and Path(each.source[0]).name == name]
    refusals = tuple(
        replace(each, file=None) if each.file is not None and Path(each.file).name == name else each
        for each in elastic.refusals
    )
    kernel = replace(elastic.kernel, line=lines[0] if lines else elastic.kernel.line)
    return replace(elastic, kernel=kernel, refusals=refusals)


def _elastic(module: Module, entry: Entry, persistent: bool) -> tuple[ElasticKernel, str]:
    """Return a kernel with its forms, and their text."""
    kernel = _facts(module, entry)
    whole = module.text[entry.span[0] : entry.span[1]]
    if _TAKEN.search(whole) or any(each.name == form_symbol(entry.name, "grid") for each in module.entries):
        return ElasticKernel(kernel, (), (refusal(entry, "reserved-name", None, entry.name),)), ""
    found = legality(entry, module.functions)
    if found.refusals or found.flow is None:
        return ElasticKernel(kernel, (), found.refusals), ""
    kernel = replace(kernel, rows=found.rows)
    forms = _Forms(module, entry, kernel, found, found.flow)
    try:
        made = [forms.whole_block("grid"), *([forms.whole_block("persistent")] if persistent else [])]
    except NoFormError as error:
        return ElasticKernel(kernel, (), (refusal(entry, error.args[0], None, error.args[1]),)), ""
    of_block, refused = forms.of_block()
    made += of_block
    variants = tuple(variant for variant, _ in made)
    text = "".join(f"\n{each}\n" for _, each in made)
    return ElasticKernel(kernel, variants, refused, tuple(forms.steps(variants))), text


class _Forms:
    """Writes the forms of a kernel."""

    def __init__(self, module: Module, entry: Entry, kernel: CudaKernel, found: Legality, flow: Divergence) -> None:
        self._module, self._entry, self._kernel, self._found, self._flow = module, entry, kernel, found, flow
        self._ends = _turn_end(kernel, entry)

    def whole_block(self, level: Level) -> tuple[Variant, str]:
        """Return a form whose physical blocks have the shape of logical ones.

        Raises:
            NoFormError: its body cannot be written.
        """
        variant = Variant(form_symbol(self._entry.name, level), level)
        if not self._found.leaving:
            return variant, _edited(self._module.text, self._entry, variant, self._ends, self._found.rows)
        return variant, self._written(variant, self._entry.bounds)

    def of_block(self) -> tuple[list[tuple[Variant, str]], tuple[Refusal, ...]]:
        """Return the forms whose physical blocks are smaller than logical ones, and why there are no more."""
        refused = block_legality(self._entry, self._flow)
        made: list[tuple[Variant, str]] = []
        try:
            for copies in () if refused else PER_THREAD[1:]:
                if (bounds := _divided(self._entry.bounds, copies, self._kernel.warp)) is not None:
                    variant = Variant(form_symbol(self._entry.name, "block", copies), "block", copies)
                    made.append((variant, self._written(variant, bounds)))
        except NoFormError as error:
            return made, (refusal(self._entry, error.args[0], None, error.args[1], "block"),)
        if not made and not refused:
            half = " of whole warps" if self._kernel.warp else ""
            return made, (refusal(self._entry, "block-size", None, half, "block"),)
        return made, refused

    def _written(self, variant: Variant, bounds: str) -> str:
        """Return the text of a form whose body is written anew."""
        entry, text, copies = self._entry, self._module.text, variant.per_thread
        body = Body(self._module, entry, self._flow, copies, leaving=self._found.leaving)
        given = text[entry.head[1] : entry.head[2]] if entry.head[2] >= 0 else "("
        before = frames.before(variant.level, rows=self._found.rows, copies=copies, warps=self._kernel.warp)
        more = "," * bool(entry.parameters) + frames.parameters(variant.level)
        return f""".visible .entry {variant.symbol}{given}{more})
{bounds}
{{
	{body.declarations}
	{before}{body.text}{frames.behind(variant.level, self._ends)}}}"""

    def steps(self, variants: tuple[Variant, ...]) -> list[str]:
        """Return what was done and why that is safe."""
        steps = ["grid: %ctaid and %nctaid are those of the logical launch; ret goes on to the next logical block"]
        steps += [f"    each turn ends with {', '.join(self._ends)}"] if self._ends else []
        if self._found.rows:
            steps.append("    a block whose rows of threads are no whole warps stops: branches go by warps")
        if self._found.leaving:
            steps.append("    threads that return wait at the barriers of the others until all have returned")
        if any(each.level == "block" for each in variants):
            apart = sum(level > UNIFORM for level in self._flow.places)
            steps.append(
                "block: each instruction that is not the same for all threads stands there for every logical thread; "
                f"{apart} of {len(self._flow.places)} basic blocks run one behind the other: threads come to them apart"
            )
            if self._kernel.warp:
                steps.append("    a physical block that is no whole warps stops: lanes of a warp meet")
        return steps


def _divided(bounds: str, copies: int, warp: bool) -> str | None:
    """Return the directives of a kernel for smaller blocks; ``None`` where its size cannot be divided so."""
    sizes = [(found[1], math.prod(map(int, re.findall(r"\d+", found[2])))) for found in _SIZE.finditer(bounds)]
    if any(kind == "reqntid" and threads % (copies * (WARP_THREADS if warp else 1)) for kind, threads in sizes):
        return None
    made = iter(f".{kind} {-(-threads // copies)}" for kind, threads in sizes)
    return _SIZE.sub(lambda _: next(made), re.sub(r"\.minnctapersm\s+\d+", "", bounds))


def _facts(module: Module, entry: Entry) -> CudaKernel:
    """Return what a kernel takes and uses, as its instructions show it."""
    code = entry.instructions
    words = {name for each in code for operand in each.operands for name in re.findall(r"[\w$]+", operand)}
    outside = [each for each in module.variables.values() if each.name in words]
    shared = [each for each in (*entry.variables, *outside) if each.space == "shared"]
    memory = _pointed_to(entry)
    return CudaKernel(
        entry.name,
        entry.line,
        tuple(Parameter(f"{each.type}[{each.size_bytes}]", each.name, memory.get(each.name, ""))
              for each in entry.parameters),
        barriers=sum(map(waits_for_block, code)),
        static_shared=any(each.size_bytes for each in shared),
        dynamic_shared=any(not each.size_bytes for each in shared),
        warp=any(waits_for_warp(each) or {"volatile", "shared"} <= set(each.op) for each in code)
        or any("%lane" in operand for each in code for operand in each.operands),
        float_atomics=any(each.op[0] in ("atom", "red") and each.op[-1][:1] in "fb" and "add" in each.op
                          and each.op[-1] not in ("b32", "b64") for each in code),
        axes=2 if any("%tid.y" in operand for each in code for operand in each.operands) else 1,
        textures=any(each.op[0] in _TEXTURES for each in code),
    )  # fmt: skip


def _pointed_to(entry: Entry) -> dict[str, str]:
    """Return the type of the numbers behind each parameter that is seen to be an address of memory, by its name."""
    parameters, known, found = {each.name for each in entry.parameters}, dict[str, str](), dict[str, str]()
    floats = {each.op[-1] for each in entry.instructions if each.op[-1][:1] == "f"}
    for each in entry.instructions:
        words = [re.findall(r"[%\w$]+", operand) for operand in each.operands]
        if each.op[:2] == ("ld", "param") and words[1][0] in parameters and len(words[1]) == 1:
            known[words[0][0]] = words[1][0]
        elif each.op[0] in ("cvta", "add", "sub", "mad", "mov", "selp"):
            known |= {words[0][0]: known[one] for some in words[1:] for one in some if one in known}  # noqa: B035
        elif each.op[0] in ("ld", "st", "atom", "red"):
            of = next((known[some[0]] for some in words[:2] if some and some[0] in known), None)
            kind, bits = each.op[-1][:1], each.op[-1].lstrip("bfsu")
            if of is not None and of not in found:
                found[of] = f"f{bits}" if f"f{bits}" in floats and (kind in "bf" or bits == "16") else f"{kind}{bits}"
    return found


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


def _edited(text: str, entry: Entry, variant: Variant, ends: list[str], rows: bool) -> str:
    """Return the text of a form in which the body stands as it is."""
    names = {"x": "width", "y": "height", "z": "depth"}
    before, behind = frames.before(variant.level, rows=rows), frames.behind(variant.level, ends)
    edits = [
        (entry.head[0], entry.head[1], variant.symbol),
        *surrounded(entry, frames.parameters(variant.level), before, behind, "$edgetune_turn"),
    ]
    for each in entry.instructions:
        for one in _INDEX.finditer(text, each.start, each.end):
            edits.append((one.start(), one.end(), f"%edgetune_{names[one[2]] if one[1] else one[2]}"))
    return edited(text, entry.span, edits)


Edit = tuple[int, int, str]
"""A change of a text: from where, to where, new text."""


def surrounded(entry: Entry, parameter: str, before: str, behind: str, end: str) -> list[Edit]:
    """Return the edits that give a kernel a last parameter and statements around its body, to whose end returns go."""
    at, added = entry.head[2], f"{',' * bool(entry.parameters)}{parameter}"
    edits = [(at, at, added) if at >= 0 else (entry.head[1], entry.head[1], f"({parameter})")]
    edits += [(entry.first, entry.first, before), (entry.span[1] - 1, entry.span[1] - 1, behind)]
    for each in entry.instructions:
        if each.op[0] in ("ret", "exit"):
            guard = f"@{'!' * each.guard[1]}{each.guard[0].partition('@')[0]} " if each.guard else ""
            edits.append((each.start, each.end, f"{guard}bra {end};"))
    return edits


def edited(text: str, span: tuple[int, int], edits: list[Edit]) -> str:
    """Return a part of a text with edits."""
    made, at = "", span[0]
    for start, end, new in sorted(edits):
        made += text[at:start] + new
        at = end
    return made + text[at : span[1]]

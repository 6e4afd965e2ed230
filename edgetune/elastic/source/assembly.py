"""Inline assembly that is sure to be harmless: plain arithmetic, moves, loads and stores.

    asm("lop3.b32 %0, %1, %2, %3, 0x96;" : "=r"(d) : ...)      harmless
    asm("mov.u32 %0, %%smid;" : "=r"(d))                       reads a special register: refused
    asm volatile("bar.sync 1, 64;")                            waits: refused

Source of the names of instructions: Parallel Thread Execution ISA, "Instruction Set".
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from edgetune.elastic.source.nodes import find, text_of

if TYPE_CHECKING:
    from tree_sitter import Node


def _word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


_HARMLESS = _word_set("""
    add sub mul mad mul24 mad24 sad div rem abs neg min max popc clz bfind fns brev bfe bfi szext bmsk dp4a dp2a
    addc subc madc fma rcp sqrt rsqrt sin cos lg2 ex2 tanh copysign testp set setp selp slct and or xor not cnot lop3
    shf shl shr mov prmt ld ldu st cvt cvta prefetch prefetchu pack isspacep vadd vsub vabsdiff vmin vmax vshl vshr
    vmad vset vadd2 vadd4 vsub2 vsub4
""")
_WARP = frozenset({"mma", "wmma", "ldmatrix", "stmatrix", "movmatrix", "shfl", "vote", "match", "redux", "activemask"})
_WAITING = re.compile(r"\.(volatile|relaxed|acquire|release|acq_rel|mmio)\b|\bld\S*\.(cv|cg)\b")
_STRINGS = ("string_literal", "raw_string_literal", "concatenated_string")


def wrong_with(node: Node) -> str | None:
    """Return the instruction for which inline assembly is refused, or ``None`` where all of it is harmless.

    Args:
        node: A ``gnu_asm_expression``.
    """
    code = node.child_by_field_name("assembly_code")
    if code is None or code.type not in _STRINGS or any(find(code, "identifier")):
        return "its text is not a plain string"
    if any(text_of(each) == "goto" for each in node.children):
        return "asm goto"
    return next((each for each in _instructions(code) if not _harmless(each)), None)


def of_warps(node: Node) -> bool:
    """Return whether inline assembly has instructions that threads of a warp run together."""
    code = node.child_by_field_name("assembly_code")
    return code is not None and any(_opcode(each) in _WARP for each in _instructions(code))


def _instructions(code: Node) -> list[str]:
    literals = list(find(code, "string_literal", "raw_string_literal"))
    text = "".join(re.sub(r'^\w*"|"$', "", text_of(literal)) for literal in literals)
    text = re.sub(r"\\[ntr]", " ", text).replace("\\\n", " ").replace("{", ";").replace("}", ";")
    return [" ".join(each.split()) for each in text.split(";") if each.strip()]


def _opcode(instruction: str) -> str:
    bare = re.sub(r"^@!?%?\w+\s+", "", instruction)
    return re.split(r"[.\s]", bare, maxsplit=1)[0]


def _harmless(instruction: str) -> bool:
    if "%%" in instruction or _WAITING.search(instruction) or ":" in instruction.replace("::", ""):
        return False
    if instruction.startswith((".reg", "//")):
        return True
    return _opcode(instruction) in _HARMLESS or _opcode(instruction) in _WARP

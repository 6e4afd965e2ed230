"""Puts the functions that a PTX kernel calls into its body, for the interpreter.

    call (retval0), helper, (param0);        bra $helper@1;   $helper@1+: ...
    ...                                      ... body with names of its own, and param0 for its parameter
    .func (.param .b32 r) helper(.param p)   ret              -> bra behind the call

Each call gets a copy of its own behind the kernel. A call of a function that is not in the text, or of one that calls
itself, stays as it is. Source of the syntax: NVIDIA, "PTX ISA", section 7.1.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from edgetune.stages.elastic.ptx.parse import MOST_STATEMENTS, Entry, Instruction, Module, parse

_FUNCTION = re.compile(
    r"\.func\s*(?:\((?P<results>[^)]*)\)\s*)?(?P<name>[\w$]+)\s*(?:\((?P<parameters>[^)]*)\))?[^{;(]*(?P<body>\{.*?\n\})",
    re.DOTALL,
)
_WORD = re.compile(r"[%\w$@]+")
_CALL_WORDS = re.compile(r"[\w$]+")


def with_functions(module: Module, entry: Entry) -> Entry:
    """Return a kernel with the bodies of the functions that it calls."""
    if not any(each.op[0] == "call" for each in entry.instructions):
        return entry
    functions = _functions(module.text)
    code = [*entry.instructions, replace(entry.instructions[-1], op=("ret",), operands=(), guard=None)]
    made = replace(
        entry,
        instructions=code,
        registers=dict(entry.registers),
        labels=dict(entry.labels),
        variables=[*entry.variables],
    )
    within: dict[int, tuple[str, ...]] = {}
    at = 0
    while at < len(code):
        each, chain = code[at], within.get(at, ())
        name, actual = _called(each)
        if name in functions and name not in chain and len(code) < MOST_STATEMENTS:
            start, number = len(code), f"{name}@{at}"
            code[at] = replace(each, op=("bra",), operands=(f"$in@{number}",))
            made.labels |= {f"$in@{number}": start, f"$out@{number}": at + 1}
            _append(made, functions[name], actual, number)
            within |= dict.fromkeys(range(start, len(code)), (*chain, name))
        at += 1
    return made


def _called(each: Instruction) -> tuple[str, list[str]]:
    """Return the function that an instruction calls, and the variables of its results and parameters."""
    if each.op[0] != "call":
        return "", []
    names = [one for one in each.operands if not one.startswith("(")]
    return names[0], _CALL_WORDS.findall(" ".join(one for one in each.operands if one.startswith("(")))


def _functions(text: str) -> Mapping[str, Entry]:
    """Return the functions of a text as kernels whose first parameters are their results."""
    found = {}
    for each in _FUNCTION.finditer(text):
        parameters = ", ".join(filter(None, ((each[part] or "").strip() for part in ("results", "parameters"))))
        lines = "\n" * text.count("\n", 0, each.start("body"))
        kernel = f".version 8.0{lines}.entry {each['name']}({parameters}) {each['body']}"
        found[each["name"]] = parse(kernel.replace(f"({parameters})", f"({' '.join(parameters.split())})"), "").entries[
            0
        ]
    return found


def _append(made: Entry, function: Entry, actual: list[str], number: str) -> None:
    """Put a function behind a kernel, with names of its own."""
    own = [*function.registers, *function.labels, *(one.name for one in function.variables if one.space != "shared")]
    names = {name: f"{name}@{number}" for name in own}
    names |= {formal.name: name for formal, name in zip(function.parameters, actual, strict=False)}
    start = len(made.instructions)
    made.registers.update({names[name]: kind for name, kind in function.registers.items()})
    made.labels.update({names[name]: start + place for name, place in function.labels.items()})
    known = {each.name for each in made.variables}
    made.variables.extend(
        replace(each, name=names.get(each.name, each.name)) for each in function.variables if each.name not in known
    )
    for each in function.instructions:
        operands = tuple(_WORD.sub(lambda word: names.get(word[0], word[0]), one) for one in each.operands)
        guard = each.guard and (names.get(each.guard[0], each.guard[0]), each.guard[1])
        op = each.op
        if op[0] == "ret":
            op, operands = ("bra",), (f"$out@{number}",)
        made.instructions.append(replace(each, op=op, operands=operands, guard=guard))

"""Finds functions that wait by calling themselves, alone or in turns: they return only when another thread has written.

    int spin(int *flag)         { return *flag ? 1 : spin(flag); }            waits: the same question again
    int walk(Node *n, int key)  { return n ? walk(n->next, key) : 0; }        gets on: another n, and n decides

Recursion gets on if each of its calls changes an argument that a condition of the called function depends on, and none
of its functions polls.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from edgetune.stages.elastic.source.syntax import (
    Node,
    arguments,
    callee,
    calls,
    closure,
    declared_name,
    find,
    names,
    text_of,
)
from edgetune.stages.elastic.source.translation_unit import Definition

_CONDITIONAL = ("if_statement", "while_statement", "do_statement", "for_statement", "switch_statement",
                "conditional_expression")  # fmt: skip


def waiting_call(reach: Sequence[Definition], polled: Collection[str]) -> tuple[Node, str, Definition] | None:
    """Return a call by which recursion may wait, the reason and the definition around it; ``None`` without one.

    Args:
        reach: A kernel's definition and those that it reaches.
        polled: Names of functions that read what other threads may change.
    """
    functions = [piece for piece in reach if piece.kind == "function" and piece.node is not None and piece.name]
    called: dict[str, set[str]] = {}
    for piece in functions:
        called.setdefault(piece.name, set()).update(_callee(call) for call in _calls(piece))
    reached = {name: closure(called[name], lambda each: called.get(each, ())) for name in called}
    for piece in functions:
        for call in _calls(piece):
            other = _callee(call)
            if piece.name not in reached.get(other, ()):
                continue
            polls = piece.name in polled or other in polled
            if polls or not any(_gets_on(call, piece, each) for each in functions if each.name == other):
                through = "" if other == piece.name else f" through {other}"
                return call, f"{piece.name} calls itself{through}", piece
    return None


def _calls(piece: Definition) -> Iterator[Node]:
    assert piece.node is not None
    return calls(piece.node)


def _callee(call: Node) -> str:
    return callee(call).split("::")[-1].partition("<")[0]


def _gets_on(call: Node, caller: Definition, called: Definition) -> bool:
    """Return whether a call changes a parameter that a condition of the called function depends on."""
    kept = {name for name in _parameters(caller) if name not in _written(caller)}
    changed = {
        name
        for name, given in zip(_parameters(called), arguments(call), strict=False)
        if text_of(given) not in kept
    }  # fmt: skip
    return bool(changed & _deciding(called))


def _parameters(piece: Definition) -> list[str]:
    """Return the names of a function's parameters, empty where one has none."""
    declarator = next(piece.find("function_declarator"), None)
    given = None if declarator is None else declarator.child_by_field_name("parameters")
    found = (
        []
        if given is None
        else [declared_name(each.child_by_field_name("declarator")) for each in given.named_children]
    )
    return ["" if name is None else text_of(name) for name in found]


def _written(piece: Definition) -> set[str]:
    """Return the names in assignments of a function."""
    return {text_of(each) for node in piece.find("assignment_expression", "update_expression") for each in names(node)}


def _deciding(piece: Definition) -> set[str]:
    """Return the names in conditions of a function, operands of ``&&`` and ``||`` included."""
    conditions = [each.child_by_field_name("condition") for each in piece.find(*_CONDITIONAL)]
    conditions += [each for each in piece.find("binary_expression") if {"&&", "||"} & {of.type for of in each.children}]
    return {text_of(name) for each in conditions if each is not None for name in find(each, "identifier")}

"""Finds functions that wait by calling themselves, alone or in turns: they return only when another thread has written.

    int spin(int *flag)         { return *flag ? 1 : spin(flag); }            waits: the same question again
    int walk(Node *n, int key)  { return n ? walk(n->next, key) : 0; }        gets on: another n, and n decides
    float4 all(float s)         { return all(s, s, s, s); }                   no recursion: another function of the name
    template <int n> int sum(int *x) { return x[n] + sum<n - 1>(x); }         ends when it is compiled

Recursion gets on if each of its calls changes an argument that a condition of the called function depends on, and none
of its functions polls. Recursion by calls that are only possible, as types are not known, counts where it reads memory.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from edgetune.stages.elastic.source.builtins import POLLING, atomic
from edgetune.stages.elastic.source.call_graph import Call, Function, call_graph
from edgetune.stages.elastic.source.kernel_scan import name_of, parameter_nodes
from edgetune.stages.elastic.source.macros import Macro
from edgetune.stages.elastic.source.name_resolution import hidden_words
from edgetune.stages.elastic.source.polled_names import PolledNames
from edgetune.stages.elastic.source.syntax import (
    CLASSES,
    Node,
    arguments,
    around,
    child,
    closure,
    find,
    has,
    listed,
    names,
    reads_memory,
    squeezed,
    text_of,
    texts,
    walk,
    words,
)
from edgetune.stages.elastic.source.translation_unit import Definition

_CONDITIONAL = ("if_statement", "while_statement", "do_statement", "for_statement", "switch_statement",
                "conditional_expression")  # fmt: skip
_STEP = re.compile(r"(?P<name>\w+)(?P<sign>[+-])[1-9]\d*[uUlL]*")
_INTEGERS = frozenset({"int", "unsigned", "long", "size_t"})


def waiting_call(
    reach: Sequence[Definition], watched: PolledNames, macros: Mapping[str, Sequence[Macro]]
) -> tuple[Node, str, Definition] | None:
    """Return a call by which recursion may wait, the reason and the definition around it; ``None`` without one.

    Args:
        reach: A kernel's definition and those that it reaches.
        watched: What other threads may change.
        macros: Of the file, by name.
    """
    graph = call_graph(reach, macros)
    own = [each for each in graph if each.called == each.caller]
    ending = {each.caller for each in own if _ends_compiled([other for other in own if other.caller == each.caller])}
    graph = [each for each in graph if each.called != each.caller or each.caller not in ending]
    for calls, sure in (([each for each in graph if not each.doubtful], True), (graph, False)):
        reached = _reached(calls)
        for call in (each for each in calls if each.caller in reached.get(each.called, ())):
            turns = [each for each in reached[call.caller] if call.caller in reached.get(each, ())]
            polls = any(_polls(each, watched) for each in turns)
            if not polls and not sure and not any(_reads(each, watched) for each in turns):
                continue
            if polls or not _gets_on(call, macros):
                through = "" if call.called == call.caller else f" through {_shown(call.called)}"
                return call.node, f"{_shown(call.caller)} calls itself{through}", call.caller.piece
    return None


def _reached(calls: Sequence[Call]) -> dict[Function, set[Function]]:
    """Return, for each function that calls any, the functions that it calls in any number of steps."""
    onward: dict[Function, list[Function]] = {}
    for each in calls:
        onward.setdefault(each.caller, []).append(each.called)
    return {function: closure(onward[function], lambda each: onward.get(each, ())) for function in onward}


def _shown(function: Function) -> str:
    return "a lambda" if function.node.type == "lambda_expression" else function.name


def _gets_on(call: Call, macros: Mapping[str, Sequence[Macro]]) -> bool:
    """Return whether a call changes a parameter that a condition of the called function depends on."""
    if call.node.type != "call_expression":
        return False
    kept = {name for name in _parameters(call.caller) if name not in _written(call.caller)}
    deciding = _deciding(call.called)
    for name, given in zip(_parameters(call.called), arguments(call.node), strict=False):
        text = squeezed(given).strip("()")
        if name in deciding and text not in kept and not hidden_words(text, macros) & kept:
            return True
    return False


def _parameters(function: Function) -> list[str]:
    """Return the names of a function's parameters, empty where one has none."""
    return [name_of(each) for each in parameter_nodes(function.node)]


def _written(function: Function) -> set[str]:
    """Return the names in assignments of a function."""
    changes = find(function.node, "assignment_expression", "update_expression")
    return texts(each for node in changes for each in names(node))


def _deciding(function: Function) -> set[str]:
    """Return the names in conditions of a function, operands of ``&&`` and ``||`` included."""
    conditions = [each.child_by_field_name("condition") for each in find(function.node, *_CONDITIONAL)]
    logical = find(function.node, "binary_expression")
    conditions += [each for each in logical if {"&&", "||"} & {of.type for of in each.children}]
    return texts(name for each in conditions for name in find(each, "identifier"))


def _polls(function: Function, watched: PolledNames) -> bool:
    """Return whether a function holds a word for what other threads may change."""
    marks = watched.polled | POLLING | {"volatile"}
    return any(word in marks or atomic(word) for word in words(text_of(function.node)))


def _reads(function: Function, watched: PolledNames) -> bool:
    """Return whether a function reads memory that all threads share, or may do so through a pointer."""
    return has(function.node, "gnu_asm_expression") or any(
        reads_memory(node) or text_of(node) in watched.memory for node in walk(function.node)
    )


def _ends_compiled(own: Sequence[Call]) -> bool:
    """Return whether a template calls itself only with a number that each time is larger, or each time smaller.

    Each call is of another function then, and the compiler must come to an end of them.

    Args:
        own: The calls of a function by itself.
    """
    steps = {_step(each) for each in own}
    return len(steps) == 1 and None not in steps


def _step(call: Call) -> tuple[str, str] | None:
    """Return the parameter and the sign of a call like ``f<n - 1>()`` in a template with a parameter ``n``.

    The parameter is one of the function, or of its class: ``Sum<n - 1>::of()``.
    """
    called, function = call.node.child_by_field_name("function"), call.caller.node
    owner = around(function, *CLASSES)
    places = {call.caller.name: function.parent, text_of(child(owner, "name")): owner and owner.parent}
    for given in find(called, "template_argument_list"):
        template = places.get(text_of(child(given.parent, "name")))
        inner = around(given, "template_argument_list", within=called) is not None
        if inner or template is None or template.type != "template_declaration":
            continue
        for argument, number in zip(listed(given), _numbers(template), strict=False):
            found = _STEP.fullmatch(squeezed(argument))
            if found and found["name"] == number:
                return found["name"], found["sign"]
    return None


def _numbers(template: Node) -> list[str]:
    """Return the names of the parameters of a template that are numbers, empty for others."""
    given = listed(template.child_by_field_name("parameters"))
    kinds = (set(text_of(each.child_by_field_name("type")).split()) for each in given)
    return [name_of(each) if kind and kind <= _INTEGERS else "" for each, kind in zip(given, kinds, strict=True)]

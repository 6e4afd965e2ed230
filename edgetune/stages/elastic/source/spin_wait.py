"""Finds loops that wait: they end only when another thread has written something.

    while (atomicExch(&lock, 1) != 0);                                waits
    do old = atomicCAS(p, seen = old, ...); while (seen != old);      a lock-free retry: some thread succeeds each time
    for (;;) if (*(volatile int *)flag) break;                        waits
    while (clock64() - start < n);                                    ends by itself: time goes on
    __shared__ int hits; while (hits < n) atomicAdd(&hits, 1);        waits for threads of its own block only

A loop ends by itself if one of the conditions that end it depends on a clock or on a variable that the loop writes, and
neither the variable nor the condition depends on a polled value: results of atomic operations, volatile variables,
reads past the caches, and memory that is read repeatedly at one address. Where that is not certain, the loop may wait.

A loop waits within its block if all that it polls are shared variables. A block whose threads are all there then ends
as in the original, whatever other blocks do: at grid level that is safe, and several logical threads in a physical one
might wait for each other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from edgetune.stages.elastic.source.builtins import CLOCKS, POLLING, atomic, known, loads
from edgetune.stages.elastic.source.lock_free import tries_again
from edgetune.stages.elastic.source.polled_names import PolledNames, other_names
from edgetune.stages.elastic.source.syntax import (
    LOOPS,
    Node,
    above,
    arguments,
    around,
    callee,
    calls,
    child,
    decider,
    declared_name,
    find,
    first_name,
    has,
    one_line,
    own,
    reads_memory,
    sign_of,
    steps,
    takes_address,
    text_of,
    texts,
    value_names,
    walk,
)
from edgetune.stages.elastic.source.translation_unit import Definition

_COPIES = ("memcpy", "memmove", "__builtin_memcpy")
_BREAKABLE = ("switch_statement", "for_range_loop", *LOOPS)
_METHODS = frozenset({"load", "wait", "exchange", "test", "test_and_set", "compare_exchange_strong",
                      "compare_exchange_weak", "fetch_add", "fetch_sub", "fetch_or", "fetch_and"})  # fmt: skip


@dataclass(slots=True)
class _Loop:
    """A loop and the variables that it writes.

    Args:
        node: The statement.
        watched: Names that other threads may change.
        assignments: The written name, the value (``None``: the name itself), and the place.
        written: The written names, and those passed to functions that may write them.
        renewed: The names whose new value changes too.
        fixed: The names that get the same value in each turn.
        tainted: The names that depend on a polled value.
        fenced: Whether it holds a fence, behind which memory is read anew.
        others: By name, the other names of a variable: references and pointers.
    """

    node: Node
    watched: PolledNames
    assignments: list[tuple[str, Node | None, Node]]
    written: set[str]
    renewed: set[str] = field(default_factory=set)
    fixed: set[str] = field(default_factory=set)
    tainted: set[str] = field(default_factory=set)
    fenced: bool = False
    others: Mapping[str, set[str]] = field(default_factory=dict)


def waiting_loops(reach: Sequence[Definition], watched: PolledNames) -> Iterator[tuple[str, Node, str, Definition]]:
    """Yield the loops that may wait: code of the rule, node, what ends it, and its definition.

    Args:
        reach: A kernel's definition and those that it reaches.
        watched: What other threads may change.
    """
    for piece in reach:
        others = other_names(piece)
        for node in piece.find(*LOOPS):
            loop = _loop(node, watched, piece, others)
            exits = list(_exits(loop, node.child_by_field_name("condition")))
            if _ends(loop, exits):
                continue
            shown = [one_line(each)[:60] for conditions in exits for each in conditions]
            code = "shared-wait" if shown and _within_block(loop) else "spin-wait"
            yield code, node, ", ".join(shown[:2]) or "it has no end", piece


def waiting_macro(reach: Sequence[Definition]) -> Definition | None:
    """Return a macro that holds a loop and a polled value."""
    for piece in reach:
        polls = any(atomic(each) or each in POLLING or each == "volatile" for each in piece.tokens)
        if piece.kind == "macro" and polls and {"while", "for", "goto"} & set(piece.tokens):
            return piece
    return None


def _loop(node: Node, watched: PolledNames, piece: Definition, others: Mapping[str, set[str]]) -> _Loop:
    used = texts(find(node, "identifier"))
    values = (each.child_by_field_name("value") for each in piece.find("init_declarator") if first_name(each) in used)
    lambdas = [value for value in values if value is not None and value.type == "lambda_expression"]
    assignments = [each for code in (node, *lambdas) for each in _assignments(code)]
    loop = _Loop(node, watched, assignments, {name for name, _, _ in assignments} | _handed_out(node))
    loop.fenced, loop.others = bool(used & watched.fences), others
    loop.renewed = {name for name, value, _ in assignments if value is not None and value_names(value) & loop.written}
    loop.fixed = _fixed(loop)
    _taint(loop)
    return loop


def _ends(loop: _Loop, exits: Sequence[Sequence[Node]]) -> bool:
    """Return whether a loop ends whatever other threads do."""
    condition = text_of(loop.node.child_by_field_name("condition"))
    if loop.node.type == "do_statement" and condition.strip("() \t\r\n") in ("0", "false"):
        return True
    for conditions in exits:
        if not conditions and not has(loop.node, "continue_statement"):
            return True
        needed = [each for condition in conditions for each in _needed(condition)]
        moves = [value_names(each) & (loop.written - loop.tainted) or any(calls(each, *CLOCKS)) for each in needed]
        polls = (_polls(each, loop, memory=not moving) for each, moving in zip(needed, moves, strict=True))
        if any(moves) and not any(polls):
            return True
    return False


def _needed(condition: Node) -> list[Node]:
    """Return the parts of a condition that ends a loop that must all hold, or fail: the last operand of commas."""
    found = [part for each in _parts(condition, "||") for part in _parts(each, "&&")]
    return [part for each in found for part in list(_parts(each, ","))[-1:]]


def _within_block(loop: _Loop) -> bool:
    """Return whether shared variables are all that a loop polls, and it reads other memory at moving addresses only.

    Other functions might read what other blocks write, and macros might hide it.
    """
    shared = loop.watched.shared
    names = texts(find(loop.node, "identifier"))
    other = (loop.watched.polled - shared) | loop.watched.references | loop.watched.macros
    if not names & shared or names & other or _volatile(loop.node):
        return False
    reads = [each for each in _reads(loop.node, loop) if not _stored(each)]
    for call in calls(loop.node):
        name, given = callee(call), arguments(call) if atomic(callee(call)) else []
        if not known(name) or name in POLLING or not {first_name(each) for each in given[:1]} <= shared:
            return False
        reads += [each for one in given for each in _reads(one, loop)]
    moving = _moving(loop)
    return all(first_name(each) in shared or value_names(each) & moving for each in reads)


def _fixed(loop: _Loop) -> set[str]:
    """Return the variables that every assignment in the loop gives a value of others that stay the same."""
    found = set[str]()
    while True:
        others = {
            name
            for name, value, where in loop.assignments
            if _itself(where)
            or value is None
            or value_names(value) & (loop.written - found)
            or has(value, "call_expression")
        }
        more = {name for name, _, _ in loop.assignments} - others - _handed_out(loop.node)
        if more == found:
            return found
        found = more


def _moving(loop: _Loop) -> set[str]:
    """Return the variables that get on with each turn: every assignment in the loop depends on one of them."""
    found = {name for name, _, _ in loop.assignments}
    while True:
        still = {
            name
            for name, value, where in loop.assignments
            if name in found and not _itself(where) and (value is None or not value_names(value) & found)
        }
        if not still:
            return found
        found -= still


def _itself(assignment: Node) -> bool:
    """Return whether an assignment changes the old value: ``i++``, ``i += 2``."""
    return assignment.type == "update_expression" or sign_of(assignment) not in ("", "=")


def _stored(node: Node) -> bool:
    """Return whether an expression is the target of a plain assignment."""
    outer = node.parent
    if outer is None or outer.type != "assignment_expression" or outer.child_by_field_name("left") != node:
        return False
    return not _itself(outer)


def _exits(loop: _Loop, condition: Node | None) -> Iterator[list[Node]]:
    """Yield the ways out of a loop: for each the conditions that must all hold, or fail."""
    if condition is not None and value_names(condition):
        for part in _parts(condition, "&&"):
            yield [part]
    for node in own(loop.node, "break_statement", "return_statement"):
        if node.type == "break_statement" and around(node, *_BREAKABLE) != loop.node:
            continue
        conditions = list(_conditions_around(node, loop.node))
        if len(conditions) == 1:
            for part in _parts(conditions[0], "||"):
                yield [part]
        else:
            yield conditions


def _parts(condition: Node, operator: str) -> Iterator[Node]:
    """Yield the operands of a chain of ``&&``, ``||`` or commas."""
    here = condition
    while here.type in ("parenthesized_expression", "condition_clause") and len(here.named_children) == 1:
        here = here.named_children[0]
    signs = {each.type for each in here.children} if here.type in ("binary_expression", "comma_expression") else set()
    left, right = here.child_by_field_name("left"), here.child_by_field_name("right")
    if operator in signs and left is not None and right is not None:
        yield from _parts(left, operator)
        yield from _parts(right, operator)
    else:
        yield here


def _conditions_around(node: Node, loop: Node) -> Iterator[Node]:
    """Yield the conditions inside ``loop`` on which ``node`` is reached, innermost first."""
    for outer, part in steps(node, loop):
        statement = outer.type in ("if_statement", *_BREAKABLE)
        condition = outer.child_by_field_name("condition") if statement else decider(outer, part)
        if condition is not None:
            yield condition


def _assignments(loop: Node) -> Iterator[tuple[str, Node | None, Node]]:
    fields = {"assignment_expression": ("left", "right"), "update_expression": ("argument", "operand"),
              "init_declarator": ("declarator", "value")}  # fmt: skip
    for node in walk(loop):
        if node.type in fields:
            target, value = (node.child_by_field_name(each) for each in fields[node.type])
            name = first_name(declared_name(target) if node.type == "init_declarator" else target)
            if name:
                yield name, value, node


def _handed_out(loop: Node) -> set[str]:
    """Return the names that the body of a loop passes to functions, or calls methods on: they may be written."""
    found = set[str]()
    for call in calls(loop.child_by_field_name("body")):
        if not atomic(callee(call)):
            function = call.child_by_field_name("function")
            given = [each for each in arguments(call) if each.type in ("identifier", "pointer_expression")]
            given += [function] if function is not None and function.type == "field_expression" else []
            found |= set(map(first_name, given)) - {""}
    return found


def _taint(loop: _Loop) -> None:
    """Find the names that depend on a polled value, or are written on a condition that does."""
    loop.tainted = loop.written & (loop.watched.polled | loop.watched.caught)
    update = loop.node.child_by_field_name("update") if loop.node.type == "for_statement" else None
    first = loop.node.child_by_field_name("initializer")
    while True:
        before = len(loop.tainted)
        skipped = any(
            _on_condition(each, loop)
            for each in find(loop.node, "continue_statement")
            if around(each, "for_range_loop", *LOOPS) == loop.node
        )
        for name, value, where in loop.assignments:
            if first is not None and first.start_byte <= where.start_byte < first.end_byte:
                continue  # done once, before the loop
            in_update = update is not None and update.start_byte <= where.start_byte < update.end_byte
            polled = value is not None and _polls(value, loop, memory=True)
            if polled or (skipped and not in_update) or _on_condition(where, loop) or _left_before(where, loop):
                loop.tainted.add(name)
        loop.tainted |= _filled(loop)
        loop.tainted |= {other for name in loop.tainted for other in loop.others.get(name, ())}
        if len(loop.tainted) == before:
            return


def _on_condition(node: Node, loop: _Loop) -> bool:
    """Return whether ``node`` is reached only on a condition that polls."""
    return any(
        _polls(each, loop, memory=each.parent is not None and each.parent.type not in _BREAKABLE)
        for each in _conditions_around(node, loop.node)
    )


def _left_before(node: Node, loop: _Loop) -> bool:
    """Return whether a lambda or an inner loop around ``node`` may be left on a condition that polls."""
    inner = (each for each in above(node, loop.node) if each.type in ("lambda_expression", *_BREAKABLE))
    return any(
        _on_condition(leave, loop)
        for each in inner
        for leave in find(each, "return_statement", "break_statement", "continue_statement")
    )


def _filled(loop: _Loop) -> set[str]:
    """Return the variables that a function is given by address or reference, and may write what it polls to."""
    found = set[str]()
    for node in find(loop.node, "gnu_asm_expression"):
        if loads(node) or value_names(node) & (loop.tainted | loop.watched.polled):
            found |= {name for each in find(node, "gnu_asm_output_operand") for name in value_names(each)}
    for call in calls(loop.node):
        parts, given = re.split(r"::|\.|->", callee(call)), arguments(call)
        name = parts[-1]
        reads = not known(name) and name not in loop.watched.silent
        polls = reads or loop.watched.polled & set(parts) or _polls(call, loop, memory=False)
        copied = name in _COPIES and len(given) > 1 and not value_names(given[1]) & (loop.written - loop.fixed)
        if atomic(name) or not (copied or polls):
            continue
        for number, each in enumerate(given):
            if text_of(each).startswith("&") or (name, number) in loop.watched.filled:
                found.add(first_name(each))
    return found - {""}


def _polls(node: Node, loop: _Loop, *, memory: bool) -> bool:
    """Return whether other threads alone may change the value of an expression.

    Args:
        node: The expression.
        loop: The loop around it.
        memory: Whether memory counts that is read at an address which the loop does not change. It does not in a
            condition that depends on another variable which the loop changes: ``j < ends[row]``. In a loop with a
            fence all memory counts.
    """
    if value_names(node) & (loop.tainted | loop.watched.polled) or _volatile(node):
        return True
    memory, changes = memory or loop.fenced, set() if loop.fenced else loop.written - loop.fixed
    for call in calls(node):
        name = callee(call).split("::")[-1]
        if text_of(child(call, "function", "field")) in _METHODS:
            return True
        if name in POLLING or (atomic(name) and not tries_again(call, loop.renewed, loop.assignments)):
            return True
        if memory and name in loop.watched.functions and not _arguments_change(call, loop):
            return True
    if memory and value_names(node) & (loop.watched.aliases - loop.written):
        return True
    return memory and any(not value_names(each) & changes for each in _reads(node, loop))


def _arguments_change(call: Node, loop: _Loop) -> bool:
    """Return whether a function is given an address of a variable, or a value that the loop changes."""
    assigned = {name for name, _, _ in loop.assignments} - loop.fixed
    return any(each.type == "pointer_expression" or value_names(each) & assigned for each in arguments(call))


def _volatile(node: Node) -> bool:
    return "volatile" in texts(find(node, "type_qualifier"))


def _reads(node: Node, loop: _Loop) -> Iterator[Node]:
    """Yield the reads of memory in an expression, without arguments of atomic functions."""
    for here in walk(node, lambda each: not takes_address(each) and not atomic(callee(each))):
        if reads_memory(here) or (here.type == "identifier" and text_of(here) in loop.watched.memory):
            yield here

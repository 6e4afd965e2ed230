"""Compare-and-swap that is tried again until it succeeds, which it does for one of the threads each time.

do { seen = old; old = atomicCAS(p, seen, seen + 1); } while (seen != old);            a lock-free retry
do { seen = max(old, 1); old = atomicCAS(p, seen, seen - 1); } while (seen != old);    waits until *p is not 0
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from edgetune.stages.elastic.source.builtins import atomic
from edgetune.stages.elastic.source.syntax import Node, arguments, callee, closure, has, value_names

Assignment = tuple[str, Node | None, Node]
"""The written name, the value (``None``: the name itself), and the place."""


def tries_again(call: Node, renewed: Collection[str], assignments: Sequence[Assignment]) -> bool:
    """Return whether a compare-and-swap compares with what its loop has read before, as it is.

    Args:
        call: Of any function.
        renewed: The names whose new value changes in each turn of the loop.
        assignments: Of the loop.
    """
    given = arguments(call)
    if not callee(call).startswith("atomicCAS") or len(given) != 3 or not value_names(given[1]) & set(renewed):
        return False
    compared = closure(value_names(given[1]), lambda name: _copied(name, assignments))
    return all(_is_copy(value) for name, value, _ in assignments if name in compared)


def _copied(name: str, assignments: Sequence[Assignment]) -> set[str]:
    values = [value for other, value, _ in assignments if other == name and value is not None]
    return {each for value in values if not has(value, "call_expression") for each in value_names(value)}


def _is_copy(value: Node | None) -> bool:
    """Return whether a value is another one, or what memory holds, but for its type."""
    if value is None or value.type in ("binary_expression", "conditional_expression", "number_literal"):
        return False
    if value.type == "call_expression" and not atomic(callee(value)):
        return len(arguments(value)) == 1 and _is_copy(arguments(value)[0])
    inner = value.named_children[-1:] if value.type in ("parenthesized_expression", "cast_expression") else []
    return all(map(_is_copy, inner))

"""Masks of warp primitives that were computed from what the lanes voted.

m = __ballot_sync(~0u, t < n);   if (t < n) v = __shfl_down_sync(m, v, 1);     computed
m = ~0u;                         if (t < n) v = __shfl_down_sync(m, v, 1);     not: it names lanes that do not come
v = sum(m, v) in a function sum(unsigned mask, int v) { ... }                  if each call of it gives a computed one
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from edgetune.stages.elastic.source.barrier_functions import Holder, called_word
from edgetune.stages.elastic.source.builtins import WARP
from edgetune.stages.elastic.source.kernel_scan import parameter_nodes
from edgetune.stages.elastic.source.name_resolution import Variable, resolve
from edgetune.stages.elastic.source.syntax import Node, above, arguments, callee, calls, child, sign_of
from edgetune.stages.elastic.source.translation_unit import ParsedKernel
from edgetune.stages.elastic.source.write_analysis import written

_WAITING = WARP - {"warpSize", "__activemask"}
_VOTES = frozenset({"__ballot_sync", "__ballot", "__match_any_sync", "__match_all_sync", "__activemask"})
_INSIDE = ("parenthesized_expression", "cast_expression")
_EITHER, _LEFT, _BOTH = ("&", "^"), ("<<", ">>"), ("|",)


class Masks:
    """Tells which masks of a kernel and its functions were computed.

    Args:
        kernel: The kernel.
        held: The functions with warp primitives that it reaches.
    """

    def __init__(self, kernel: ParsedKernel, held: Sequence[Holder]) -> None:
        self._kernel, self._held = kernel, held

    def computed(self, mask: Node, function: Holder | None, seen: frozenset[str] = frozenset()) -> bool:
        """Return whether a mask was computed from votes.

        Args:
            mask: The expression.
            function: The function that holds it; ``None`` for the kernel.
            seen: Functions whose calls are being looked at.
        """
        if mask.type == "identifier":
            return self._variable(mask, function, seen)
        if mask.type == "call_expression":
            name = callee(mask)
            own = name in self._kernel.source.functions or name in self._kernel.source.macros
            return name in _VOTES and not own
        if mask.type in _INSIDE and mask.named_children:
            return self.computed(mask.named_children[-1], function, seen)
        sign = sign_of(mask)
        if mask.type == "unary_expression" and sign == "~":
            return self.computed(mask.named_children[-1], function, seen)
        left, right = mask.child_by_field_name("left"), mask.child_by_field_name("right")
        if mask.type != "binary_expression" or left is None or right is None:
            return False
        known = [self.computed(each, function, seen) for each in (left, right)]
        return (sign in _EITHER and any(known)) or (sign in _LEFT and known[0]) or (sign in _BOTH and all(known))

    def given(self, call: Node, function: Holder | None) -> bool:
        """Return whether a call of a function gives its primitives masks that were computed."""
        name = called_word(call)
        found = [each for each in self._held if each.name == name]
        return bool(found) and all(self._hands_on(each, call, function) for each in found)

    def _hands_on(self, inner: Holder, call: Node, function: Holder | None) -> bool:
        """Return whether all primitives in a function take a parameter as mask that this call gives a computed mask."""
        names = {each.name for each in self._held}
        primitives = [each for each in calls(inner.body) if called_word(each) in _WAITING]
        masked = all(
            callee(each) in _WAITING and called_word(each).endswith(("_sync", "syncwarp")) for each in primitives
        )
        if not primitives or not masked or any(called_word(each) in names for each in calls(inner.body)):
            return False
        places = [self._parameter(arguments(each)[0], inner) if arguments(each) else None for each in primitives]
        given = arguments(call)
        return all(
            each is not None and each < len(given) and self.computed(given[each], function, frozenset({inner.name}))
            for each in places
        )

    def _parameter(self, mask: Node, function: Holder) -> int | None:
        """Return which parameter a mask is that the function does not change."""
        variable, changes = self._meant(mask, function)
        nodes = parameter_nodes(function.node)
        if variable is None or changes or variable.declaration not in nodes:
            return None
        return nodes.index(variable.declaration)

    def _meant(self, name: Node, function: Holder | None) -> tuple[Variable | None, list[Node | None]]:
        """Return the variable that a name means, and the whole expressions that change it."""
        source, kernel = self._kernel.source, self._kernel
        node, body = (kernel.node, kernel.body) if function is None else (function.node, function.body)
        names = resolve(node, body, source.macros)
        meant = [use.variable for use in names.uses if use.node == name and not use.hidden]
        if len(meant) != 1:
            return None, []
        local = {each.name for each in names.variables}
        uses = (written(use, source, local) for use in names.uses if use.variable is meant[0])
        return meant[0], [root for changed, root in uses if changed]

    def _variable(self, name: Node, function: Holder | None, seen: frozenset[str]) -> bool:
        variable, changes = self._meant(name, function)
        if variable is None or variable.kind == "shared" or None in changes:
            return False
        if variable.kind == "parameter":
            return not changes and function is not None and self._always_given(variable, function, seen)
        values = [] if variable.value is None else [(variable.value, variable.value)]
        for each in changes:
            left, value = child(each, "left"), child(each, "right")
            if each is None or value is None or left is None or left.type != "identifier":
                return False
            values.append((each, value))
        known = [(each, self.computed(value, function, seen)) for each, value in values if _plain(each)]
        first = max((each.start_byte for each, computed in known if computed and _before(each, name)), default=-1)
        return first >= 0 and len(known) == len(values) and all(ok for each, ok in known if each.start_byte >= first)

    def _always_given(self, variable: Variable, function: Holder, seen: frozenset[str]) -> bool:
        """Return whether each call of a function gives a parameter a computed mask."""
        if function.name in seen:
            return False
        place = parameter_nodes(function.node).index(variable.declaration)
        found = list(self._calls(function.name))
        return bool(found) and all(
            place < len(arguments(each)) and self.computed(arguments(each)[place], holder, seen | {function.name})
            for each, holder in found
        )

    def _calls(self, name: str) -> Iterator[tuple[Node, Holder | None]]:
        bodies = [(self._kernel.body, None), *((each.body, each) for each in self._held)]
        for body, holder in bodies:
            yield from ((each, holder) for each in calls(body) if called_word(each) == name)


def _plain(change: Node) -> bool:
    """Return whether an expression is a value or an assignment with ``=``."""
    return change.type != "assignment_expression" or sign_of(change) == "="


def _before(change: Node, name: Node) -> bool:
    """Return whether a value is given each time before a name is read: in a statement in front, around no condition."""
    statement = next((each for each in above(change) if each.type in ("declaration", "expression_statement")), None)
    block = None if statement is None else statement.parent
    return (
        block is not None
        and block.type == "compound_statement"
        and change.end_byte <= name.start_byte
        and (block in list(above(name)))
    )

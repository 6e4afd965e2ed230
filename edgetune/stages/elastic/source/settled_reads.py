"""Reads of a shared variable that give all threads of a block the same value, as nobody writes it between two barriers.

    __shared__ int done;                    for (;;) {
    if (t == 0) done = 0;                       if (busy(t)) done = 0;         written behind barriers 1 and 3
    __syncthreads();           // 1             __syncthreads();       // 2
                                                if (done) break;               read behind barrier 2 only: settled
                                                __syncthreads();       // 3
                                                if (t == 0) done = 1;
                                                ...

A use is behind a barrier if code leads from there to it without another one. Where all threads meet at each barrier,
those that read the variable and those that write it are never between the same two: the value is that of the barrier.
"""

from __future__ import annotations

from collections.abc import Mapping

from edgetune.stages.elastic.source.barrier_functions import called_word, holders
from edgetune.stages.elastic.source.builtins import BARRIERS, atomic
from edgetune.stages.elastic.source.kernel_scan import parameter_nodes
from edgetune.stages.elastic.source.name_resolution import NameTable, Variable, VariableUse, resolve
from edgetune.stages.elastic.source.syntax import (
    LOOPS,
    Node,
    above,
    arguments,
    callee,
    decider,
    find,
    has,
    node_types,
    steps,
    text_of,
    texts,
)
from edgetune.stages.elastic.source.translation_unit import ParsedKernel
from edgetune.stages.elastic.source.uniformity import condition_of
from edgetune.stages.elastic.source.write_analysis import written

_Places = frozenset[int]
_UNKNOWN = node_types(
    "switch_statement for_range_loop lambda_expression labeled_statement try_statement goto_statement"
)
_LEAVING = ("break_statement", "continue_statement", "return_statement")


def settled_reads(kernel: ParsedKernel) -> _Places:
    """Return the ids of the nodes that read a shared scalar between barriers where nobody writes it.

    They are only settled if all threads of the block meet at all of the kernel's barriers.
    """
    names = resolve(kernel.node, kernel.body, kernel.source.macros)
    flags = [each for each in names.variables if each.kind == "shared" and _scalar(each)]
    in_macros = any(each.kind == "macro" and BARRIERS & {*each.tokens} for each in kernel.reach)
    if not flags or in_macros or has(kernel.body, *_UNKNOWN):
        return frozenset()
    flow = _Flow({each.name for each in holders(kernel, BARRIERS)})
    flow.through(kernel.body, frozenset({0}))
    return frozenset() if flow.lost else frozenset().union(*(_settled(each, names, kernel, flow.at) for each in flags))


def _scalar(variable: Variable) -> bool:
    extern = "extern" in texts(variable.declaration.children)
    return variable.of_number and not extern and variable.declarator.type == "identifier"


def _settled(variable: Variable, names: NameTable, kernel: ParsedKernel, at: Mapping[int, _Places]) -> _Places:
    """Return the settled reads of one variable; none if its address may be known elsewhere."""
    local = {each.name for each in names.variables}
    reads, writes = set[int](), frozenset[int]()
    for use in names.uses:
        if use.variable is not variable:
            continue
        changed = _changed(use, kernel, local, frozenset())
        if changed is None:
            return frozenset()
        if changed:
            writes |= at.get(use.node.id, frozenset())
        else:
            reads.add(use.node.id)
    return frozenset(each for each in reads if at.get(each) and not at[each] & writes)


def _changed(use: VariableUse, kernel: ParsedKernel, local: set[str], seen: frozenset[str]) -> bool | None:
    """Return whether a use may change its variable, just there; ``None`` where its address may be known elsewhere."""
    changed, root = written(use, kernel.source, local)
    followed = root is not None or _by_atomic(use) or _by_function(use, kernel, local, seen)
    if use.hidden or _cast(use.node) or (changed and not followed):
        return None
    return changed


def _cast(node: Node) -> bool:
    """Return whether a variable is taken for one of another type: ``(int &)x``."""
    return any(
        "&" in text_of(each.child_by_field_name("type")) for each in above(node) if each.type == "cast_expression"
    )


def _by_atomic(use: VariableUse) -> bool:
    """Return whether a variable is changed by an atomic operation on its address."""
    address = use.node.parent
    call = None if address is None or address.parent is None else address.parent.parent
    if address is None or call is None or call.type != "call_expression" or not atomic(callee(call)):
        return False
    return address.type == "pointer_expression" and text_of(address) == f"&{use.variable.name}"


def _by_function(use: VariableUse, kernel: ParsedKernel, local: set[str], seen: frozenset[str]) -> bool:
    """Return whether a variable is changed by functions without barriers that keep no reference to it."""
    call = None if use.node.parent is None else use.node.parent.parent
    if call is None or call.type != "call_expression" or use.node not in arguments(call):
        return False
    place, source, name = arguments(call).index(use.node), kernel.source, callee(call)
    functions = source.functions.get(name, ())
    if name in {*seen, *source.macros, *local, *(holder.name for holder in holders(kernel, BARRIERS))}:
        return False
    for each in functions:
        given, names = parameter_nodes(each.node), resolve(each.node, each.body, source.macros)
        inside = {one.name for one in names.variables}
        meant = next((one for one in names.variables if given[place : place + 1] == [one.declaration]), None)
        returned = (name for leave in find(each.body, "return_statement") for name in find(leave, "identifier"))
        if meant is None or meant.kind != "parameter" or meant.name in texts(returned):
            return False
        uses = (one for one in names.uses if one.variable is meant)
        if any(_changed(one, kernel, inside, seen | {name}) is None for one in uses):
            return False
    return bool(functions)


class _Flow:
    """Goes through code, and notes for each name in it behind which barriers it stands; 0 is the start."""

    def __init__(self, holding: set[str]) -> None:
        self.at: dict[int, _Places] = {}
        self.lost = False
        """Whether a barrier stands where it may not be run."""
        self._holding = holding
        self._leaving: list[dict[str, _Places]] = []

    def through(self, node: Node, places: _Places) -> _Places:
        """Return behind which barriers the code stands that follows a node."""
        if node.type == "if_statement":
            return self._branch(node, places)
        if node.type in LOOPS:
            return self._loop(node, places)
        if node.type in ("break_statement", "continue_statement"):
            loop = self._leaving[-1]
            loop[node.type] = loop.get(node.type, frozenset()) | places
        elif node.type == "identifier":
            self.at[node.id] = self.at.get(node.id, frozenset()) | places
        places = self._each(node, places)
        return frozenset() if node.type in _LEAVING else self._call(node, places)

    def _each(self, node: Node, places: _Places) -> _Places:
        for child in node.children:
            places = self.through(child, places)
        return places

    def _part(self, node: Node, name: str, places: _Places) -> _Places:
        part = node.child_by_field_name(name)
        return places if part is None else self.through(part, places)

    def _branch(self, node: Node, places: _Places) -> _Places:
        behind = self._part(node, "condition", places)
        return self._part(node, "consequence", behind) | self._part(node, "alternative", behind)

    def _loop(self, node: Node, places: _Places) -> _Places:
        places = self._part(node, "initializer", places)
        first = node.type == "do_statement"
        self._leaving.append({})
        before = None
        while before != places:
            before = places
            tested = places if first else self._part(node, "condition", places)
            done = self._part(node, "body", tested) | self._leaving[-1].get("continue_statement", frozenset())
            done = self._part(node, "condition", done) if first else self._part(node, "update", done)
            places |= done
        left = self._leaving.pop().get("break_statement", frozenset())
        condition = condition_of(node)
        endless = condition is None or text_of(condition) in ("true", "1")
        return left if endless else left | (done if first else tested)

    def _call(self, call: Node, places: _Places) -> _Places:
        if call.type != "call_expression":
            return places
        holds = called_word(call) in self._holding
        if callee(call) not in BARRIERS and not holds:
            return places
        self.lost |= any(decider(outer, part) is not None for outer, part in steps(call))
        return places | {call.id} if holds else frozenset({call.id})

"""Splits a kernel at its barriers (loop fission).

    s[t] = x[i];                  for each logical thread: s[t] = x[i];
    __syncthreads();      ->      __syncthreads();
    y[i] = s[n - 1 - t];          for each logical thread: y[i] = s[n - 1 - t];

CUDA orders nothing between threads between two barriers, so running several of them one after another, barrier by
barrier, is one of the orders that the original allows. An ``if`` or a loop that holds a barrier is run once for all of
them: its condition has to be the same for all threads of the block. Where the source shows that, the condition is
evaluated once and its variables are single ones. Otherwise each logical thread evaluates it, the block votes, and the
threads that would not go on are left out until the others are done: a kernel is only right if they agree. Threads that
return early are left out from there on, and the block ends when none is left.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from edgetune.stages.elastic.kernel import Refusal
from edgetune.stages.elastic.source.builtins import BARRIERS
from edgetune.stages.elastic.source.diagnostics import refusal
from edgetune.stages.elastic.source.name_resolution import Variable
from edgetune.stages.elastic.source.region_tree import (
    BarrierLoop,
    BarrierStatement,
    Branch,
    Piece,
    Region,
    RegionPart,
    Scope,
    UniformExit,
    UniformStatement,
)
from edgetune.stages.elastic.source.syntax import (
    LOOPS,
    Node,
    around,
    callee,
    calls,
    find,
    line_of,
    listed,
    node_types,
    own,
    text_of,
)
from edgetune.stages.elastic.source.uniformity import Uniformity, condition_of, exits
from edgetune.stages.elastic.source.write_analysis import parts_of

_TYPE_STATEMENTS = node_types("""
    type_definition alias_declaration using_declaration static_assert_declaration struct_specifier enum_specifier
    union_specifier
""")


class CannotSplit(Exception):
    """A kernel cannot be split.

    Args:
        code: Of the refusal.
        node: The offending source.
        found: The fields of its reason.
    """

    def __init__(self, code: str, node: Node, **found: str) -> None:
        super().__init__(code)
        self.code, self.node, self.found = code, node, found

    def refusal(self, kernel: str) -> Refusal:
        """Return the refusal of this kernel."""
        return refusal(self.code, line_of(self.node), kernel, **self.found)


def _no_unnamed_union(statement: Node) -> None:
    """Refuse ``union { int a; float b; };``: its fields are variables in one place, which no declaration shows."""
    if statement.type == "declaration" and statement.child_by_field_name("declarator") is None:
        kind = statement.child_by_field_name("type")
    else:
        kind = statement
    if kind is not None and kind.type == "union_specifier" and kind.child_by_field_name("name") is None:
        raise CannotSplit("type-across", statement, name="a union without a name")


def _has_barrier(node: Node) -> bool:
    return any(True for _ in calls(node, *BARRIERS))


@dataclass(slots=True)
class Fission:
    """A kernel that is being split.

    Args:
        uniform: Its uniform values.
        single: Variables of which a physical thread has one, not one for each logical thread.
        marks: By id, statements that are run once for all logical threads, and those that hold such statements.
    """

    uniform: Uniformity
    single: set[Variable] = field(default_factory=set)
    marks: set[int] = field(default_factory=set)
    _numbers: int = 0

    def single_out(self, wanted: Iterable[Variable] = ()) -> None:
        """Find the single variables: ``wanted`` ones, and those that conditions around barriers depend on."""
        self.single |= set(wanted)
        while True:
            self._mark()
            more = {each for node in self._evaluated_once() for each in self.uniform.names.used_in(node)}
            more |= {each for each in self.uniform.names.variables if each.value and self._changes_single(each.value)}
            more = {each for each in more if each in self.uniform.variables} - self.single
            if not more:
                return
            self.single |= more

    def pieces(self) -> list[Piece]:
        """Return the parts of the kernel.

        Raises:
            CannotSplit: a barrier stands where the kernel cannot be split.
        """
        self._numbers = 0
        return self._sequence(self.uniform.body.named_children)

    def _mark(self) -> None:
        once = list(calls(self.uniform.body, *BARRIERS))
        once += [each for each in own(self.uniform.body, "return_statement") if self.uniform.all_return(each)]
        for variable in self.single:
            once += [root for root in self.uniform.writes[variable] if root is not None]
            once += [variable.declaration] if variable.kind == "local" else []
        self.marks = {self.uniform.body.id}
        while once:
            for each in once:
                here: Node | None = each
                while here is not None and here.id not in self.marks:
                    self.marks.add(here.id)
                    here = here.parent
            split = [each for each in find(self.uniform.body, *LOOPS) if each.id in self.marks]
            once = [each for loop in split for each in exits(loop) if each.id not in self.marks]

    def _evaluated_once(self) -> list[Node]:
        """Return the expressions that physical threads evaluate once."""
        found: list[Node] = []
        for statement in find(self.uniform.body, "if_statement", *LOOPS):
            condition = condition_of(statement)
            if statement.id in self.marks and condition is not None and self.uniform.expression(condition):
                found.append(condition)
        for each in self.single:
            found += [root for root in self.uniform.writes[each] if root is not None]
            found += [] if each.value is None else [each.value]
        shared = (each for each in self.uniform.names.variables if each.kind == "shared")
        found += [each.declarator for each in shared if each.scope.id in self.marks]
        return found

    def _sequence(self, statements: Iterable[Node]) -> list[Piece]:
        """Split consecutive statements."""
        run = _Run(self)
        for statement in statements:
            _no_unnamed_union(statement)
            if statement.type in ("comment", "preproc_call"):
                run.direct(statement)
            elif self._all_in_region(statement):
                run.add(RegionPart(statement))
            elif statement.type.startswith("preproc_"):
                raise CannotSplit("directive", statement, name=text_of(statement).split("\n")[0].strip())
            elif statement.type == "declaration":
                self._declaration(statement, run)
            elif statement.type in _TYPE_STATEMENTS:
                run.in_front(UniformStatement(statement))
            elif statement.id not in self.marks:
                run.add(RegionPart(statement))
            elif statement.type == "expression_statement":
                self._expressions(statement, run)
            else:
                run.then(self._control(statement, run))
        return run.end()

    def _all_in_region(self, statement: Node) -> bool:
        """Whether a directive and the text under it, e.g. ``#ifdef``, belong to one region.

        They do where nothing in it is run once, or known behind it.
        """
        if statement.type not in ("preproc_if", "preproc_ifdef") or statement.id in self.marks:
            return False
        inside = (_TYPE_STATEMENTS, ("declaration", "preproc_def", "preproc_function_def", "preproc_call"))
        known = find(statement, *(each for types in inside for each in types))
        return all(around(each, "compound_statement", "for_statement", within=statement) for each in known)

    def _declaration(self, declaration: Node, run: _Run) -> None:
        """Split a declaration into shared memory, single variables, and the others."""
        if _has_barrier(declaration):
            raise CannotSplit("barrier-place", declaration, name="__syncthreads()")
        declared = [each for each in self.uniform.names.variables if each.declaration == declaration]
        if any(each.kind == "shared" for each in declared) or not declared:
            run.in_front(UniformStatement(declaration))
            return
        by_declarator: dict[int, list[Variable]] = {}
        for each in declared:
            by_declarator.setdefault(each.declarator.id, []).append(each)
        for variables in by_declarator.values():
            first = variables[0]
            changes = first.value is not None and self._changes_single(first.value)
            if first not in self.single and changes:
                raise CannotSplit("uncertain", first.declarator, name=first.name)
            if first not in self.single:
                run.add(RegionPart(first.declarator, "declares", tuple(variables)))
            elif changes:
                run.then(UniformStatement(first.declarator, first))
            else:
                run.in_front(UniformStatement(first.declarator, first))

    def _expressions(self, statement: Node, run: _Run) -> None:
        """Split ``a, b;`` into barriers, changes of single variables, and the others."""
        expression = statement.named_children[0]
        if expression.type == "call_expression" and callee(expression) == "__syncthreads":
            run.then(BarrierStatement(statement))
            return
        self._list(expression, run)

    def _list(self, expression: Node, run: _Run) -> None:
        for part in parts_of(expression):
            if _has_barrier(part):
                raise CannotSplit("barrier-place", part, name="__syncthreads()")
            if self._changes_single(part):
                run.then(UniformStatement(part))
            else:
                run.add(RegionPart(part, "expression"))

    def _changes_single(self, expression: Node) -> bool:
        roots = (root for each in self.single for root in self.uniform.writes[each] if root is not None)
        return any(root.start_byte < expression.end_byte and expression.start_byte < root.end_byte for root in roots)

    def _control(self, statement: Node, run: _Run) -> Piece:
        """Split a statement around others."""
        if statement.type == "compound_statement":
            return Scope(self._sequence(statement.named_children))
        if statement.type in ("return_statement", "break_statement", "continue_statement"):
            return UniformExit(statement)
        if statement.type == "if_statement":
            return self._branch(statement)
        if statement.type in LOOPS:
            return self._loop(statement, tuple(run.take_directives()))
        code = "switch-barrier" if statement.type == "switch_statement" else "barrier-place"
        raise CannotSplit(code, statement, name=text_of(statement).split("\n")[0].strip())

    def _branch(self, statement: Node) -> Branch:
        condition, vote = self._condition(statement)
        then, otherwise = statement.child_by_field_name("consequence"), statement.child_by_field_name("alternative")
        if condition is None or then is None:
            raise CannotSplit("barrier-place", statement, name="if")
        if otherwise is not None and otherwise.type == "else_clause":
            otherwise = listed(otherwise)[0]
        second = None if otherwise is None else self._inside(otherwise)
        return Branch(statement, condition, vote, self._inside(then), second)

    def _loop(self, statement: Node, directives: tuple[Node, ...]) -> Piece:
        body = statement.child_by_field_name("body")
        if body is None:
            raise CannotSplit("barrier-place", statement, name="loop")
        condition, vote = self._condition(statement)
        for leave in exits(statement):
            if not self.uniform.all_leave(leave):
                raise CannotSplit("loop-exit", leave, name=text_of(leave).rstrip("; "))
        first, last = statement.child_by_field_name("initializer"), statement.child_by_field_name("update")
        if vote is None and self._all_single(first) and self._all_single(last):
            header = statement.type == "for_statement"
            return BarrierLoop(statement, condition, vote, header, self._inside(body), [], directives)
        onward = [each for each in exits(statement) if each.type == "continue_statement"]
        if onward and (vote is not None or last is not None):
            raise CannotSplit("loop-exit", onward[0], name="continue")
        before, after = _Run(self), _Run(self)
        if first is not None and first.type == "declaration":
            self._declaration(first, before)
        elif first is not None:
            self._list(first, before)
        if last is not None:
            self._list(last, after)
        loop = BarrierLoop(
            statement, condition, vote, False, self._inside(body), after.end(), () if vote else directives
        )
        before.then(loop)
        return Scope(before.end())

    def _condition(self, statement: Node) -> tuple[Node | None, Region | None]:
        """Return the condition of a statement that holds a barrier, and the region of the vote on it.

        There is no vote where the source shows that all threads take the same way.
        """
        condition = condition_of(statement)
        if condition is None:
            return None, None
        alike = self.uniform.expression(condition)
        split = self._changes_single(condition) and not alike
        if split or condition.type == "condition_clause" or _has_barrier(condition):
            raise CannotSplit("barrier-place", condition, name=text_of(condition))
        return condition, None if alike else Region(self.next_number(), [RegionPart(condition, "condition")])

    def _all_single(self, node: Node | None) -> bool:
        """Whether the first or last part of a ``for`` header is about single variables only."""
        if node is None:
            return True
        if node.type == "declaration":
            return all(each in self.single for each in self.uniform.names.variables if each.declaration == node)
        return all(self._changes_single(each) for each in parts_of(node))

    def _inside(self, statement: Node) -> list[Piece]:
        return self._sequence(statement.named_children if statement.type == "compound_statement" else [statement])

    def next_number(self) -> int:
        """Return the number of the next region."""
        self._numbers += 1
        return self._numbers


@dataclass(slots=True)
class _Run:
    """Collects consecutive statements; a declaration that is run once goes in front of the region it stands in."""

    fission: Fission
    done: list[Piece] = field(default_factory=list)
    front: list[Piece] = field(default_factory=list)
    region: Region | None = None
    waiting: list[Node] = field(default_factory=list)

    def direct(self, node: Node) -> None:
        """Keep a directive or comment for the next statement."""
        if node.type == "preproc_call" and not text_of(node).lstrip("# \t").startswith("pragma"):
            raise CannotSplit("directive", node, name=text_of(node).strip())
        self.waiting.append(node)

    def take_directives(self) -> list[Node]:
        """Return the directives in front of the next statement."""
        found, self.waiting = [each for each in self.waiting if each.type == "preproc_call"], []
        return found

    def add(self, part: RegionPart) -> None:
        """Add a part for each logical thread."""
        if self.region is None:
            self.region = Region(self.fission.next_number(), [])
        self.region.parts.extend(RegionPart(each, "directive") for each in self.waiting)
        self.region.parts.append(part)
        self.waiting = []

    def in_front(self, piece: Piece) -> None:
        """Add a declaration, which may come before the region that it stands in."""
        self.waiting = []
        self.front.append(piece)

    def then(self, piece: Piece) -> None:
        """Add a piece that separates regions."""
        self._close()
        self.waiting = []
        self.done.append(piece)

    def end(self) -> list[Piece]:
        """Return all pieces."""
        self._close()
        return self.done

    def _close(self) -> None:
        self.done += self.front
        if self.region is not None:
            self.done.append(self.region)
        self.front, self.region = [], None

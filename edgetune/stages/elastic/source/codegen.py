"""Writes a kernel that was split at its barriers as one function for any number of logical threads.

    template <unsigned int edgetune_n>                 // logical threads of a physical one
    static __device__ void edgetune_blocks_K(...) {
        float edgetune_many_sum[edgetune_n];
        for (edgetune_i = 0 ... edgetune_n)            // unrolled: the array is in registers
            if (edgetune_t < edgetune_threads) { auto &sum = edgetune_many_sum[edgetune_i]; ... }
        __syncthreads();
        ...

A logical thread that has returned is no longer ``edgetune_live``, and the block ends when none is; one that a vote left
out is not ``edgetune_in``. ``edgetune_own`` is the number of the physical thread, ``edgetune_step`` their count.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from edgetune.stages.elastic.source.fission import CannotSplit, Fission
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
    regions,
)
from edgetune.stages.elastic.source.scalar_expansion import MANY, array, first_value, nodes_of, specifiers
from edgetune.stages.elastic.source.syntax import Edit, Node, edited, line_mark, line_of, own, replaced

_EACH = (
    "#pragma unroll",
    "for (unsigned int edgetune_i = 0; edgetune_i < edgetune_n; ++edgetune_i) {",
)
_NUMBER = "    const unsigned int edgetune_t = edgetune_own + edgetune_i * edgetune_step;"
_THERE = "edgetune_t < edgetune_threads"


@dataclass(slots=True)
class CodeGenerator:
    """Writes one kernel.

    Args:
        fission: The split kernel.
        many: Variables that become arrays.
        edits: Of its body: logical indices in place of physical ones.
        file: Its file's name, for the marks of lines.
        thread_index: The function that computes ``threadIdx`` of a logical thread, e.g. ``edgetune_thread_K``.
        live: Whether some threads return while others go on to barriers; known once the body is written.
    """

    fission: Fission
    many: Collection[Variable]
    edits: Sequence[Edit]
    file: str
    thread_index: str
    live: bool = False
    _last: Piece | None = None
    _depth: int = 1
    _lines: list[str] = field(default_factory=list)

    def body(self, pieces: list[Piece]) -> str:
        """Return the body of the function, braces included.

        Raises:
            CannotSplit: code that is run once depends on a variable of which there are several.
        """
        returning = [each for each in regions(pieces) if self._returns(each)]
        self._last = pieces[-1] if pieces else None
        self.live = any(each is not self._last for each in returning)
        threads = "edgetune_blockDim.x * edgetune_blockDim.y * edgetune_blockDim.z"
        self._write(f"const unsigned int edgetune_threads = {threads};")
        if self.live:
            alive = f"    edgetune_live[edgetune_i] = {_THERE};"
            self._write("bool edgetune_live[edgetune_n];", *_EACH, _NUMBER, alive, "}")
        for each in self.fission.uniform.names.variables:
            if each.kind == "parameter" and each in self.many:
                self._write(array(each), *_EACH, f"    {MANY}{each.name}[edgetune_i] = {each.name};", "}")
        self._pieces(pieces, None)
        return "{\n" + "".join(self._lines) + "}\n"

    def _pieces(self, pieces: list[Piece], mask: str | None) -> None:
        """Write pieces; ``mask`` is the array that says which logical threads take part."""
        for piece in pieces:
            match piece:
                case Region():
                    self._region(piece, mask)
                case UniformStatement():
                    self._once(piece)
                case BarrierStatement():
                    self._mark(piece.node)
                    self._write("__syncthreads();")
                case UniformExit():
                    self._write(f"{piece.node.children[0].type};")
                case Scope():
                    self._block("{", piece.pieces, mask)
                case Branch():
                    self._branch(piece, mask)
                case BarrierLoop():
                    self._loop(piece, mask)

    def _block(self, head: str, pieces: list[Piece], mask: str | None, tail: str = "}") -> None:
        with self._braces(head, tail):
            self._pieces(pieces, mask)

    @contextmanager
    def _braces(self, head: str = "{", tail: str = "}") -> Iterator[None]:
        self._write(head)
        self._depth += 1
        yield
        self._depth -= 1
        self._write(tail)

    def _branch(self, branch: Branch, mask: str | None) -> None:
        if branch.vote is None:
            self._mark(branch.node)
            self._block(f"if ({self._alike(branch.condition)}) {{", branch.then, mask)
            if branch.otherwise is not None:
                self._block("else {", branch.otherwise, mask)
            return
        number, second = branch.vote.number, branch.otherwise is not None
        inside, outside = f"edgetune_in_{number}", f"edgetune_out_{number}"
        with self._braces():
            self._write(f"bool {inside}[edgetune_n];", *([f"bool {outside}[edgetune_n];"] if second else []))
            self._write(f"int edgetune_any_{number} = 0;", *([f"int edgetune_none_{number} = 0;"] if second else []))
            self._region(branch.vote, mask, second=second)
            self._block(f"if (__syncthreads_or(edgetune_any_{number})) {{", branch.then, inside)
            if branch.otherwise is not None:
                self._block(f"if (__syncthreads_or(edgetune_none_{number})) {{", branch.otherwise, outside)

    def _loop(self, loop: BarrierLoop, mask: str | None) -> None:
        if loop.vote is not None:
            self._voted_loop(loop, loop.vote, mask)
            return
        self._mark(loop.node)
        self._write(*(self._text(each).strip() for each in loop.directives))
        condition = "" if loop.condition is None else self._alike(loop.condition)
        if loop.node.type == "do_statement":
            self._block("do {", loop.pieces, mask, f"}} while ({condition});")
        elif loop.header:
            self._block(f"for ({self._header(loop.node, condition)}) {{", loop.pieces, mask)
        else:
            self._block(f"while ({condition or 'true'}) {{", [*loop.pieces, *loop.update], mask)

    def _voted_loop(self, loop: BarrierLoop, vote: Region, mask: str | None) -> None:
        inside, guard = f"edgetune_in_{vote.number}", self._guard(mask)
        number = [_NUMBER] if _THERE in guard else []
        with self._braces():
            self._write(f"bool {inside}[edgetune_n];", *_EACH, *number, f"    {inside}[edgetune_i] = {guard};", "}")
            with self._braces("for (;;) {"):
                if loop.node.type == "do_statement":
                    self._block("{", loop.pieces, inside)
                self._write(f"int edgetune_any_{vote.number} = 0;")
                self._region(vote, inside)
                self._write(f"if (!__syncthreads_or(edgetune_any_{vote.number})) break;")
                if loop.node.type != "do_statement":
                    self._block("{", loop.pieces, inside)
                    self._pieces(loop.update, inside)

    def _header(self, loop: Node, condition: str) -> str:
        """Return the text between the parentheses of a ``for``."""
        first, last = loop.child_by_field_name("initializer"), loop.child_by_field_name("update")
        begin = "" if first is None else self._alike(first).rstrip("; \n")
        return f"{begin}; {condition}; {'' if last is None else self._alike(last)}"

    def _once(self, once: UniformStatement) -> None:
        self._mark(once.node)
        if once.variable is None:
            text = self._alike(once.node)
            self._statement(text if text.rstrip().endswith(";") else f"{text};")
            return
        self._statement(f"{specifiers(once.variable.declaration)} {self._alike(_with_value(once.node))};")

    def _region(self, region: Region, mask: str | None, *, second: bool = False) -> None:
        """Write the code of each logical thread; with ``second`` its vote is for an ``else`` too."""
        inside = self._inside_of(region)
        for variable in (each for part in region.parts for each in part.variables):
            if variable in self.many:
                self._write(array(variable))
        leaving = self.live and bool(self._returns(region)) and region is not self._last
        self._write(*([f"int edgetune_left_{region.number} = 0;"] if leaving else []))
        conditions = [self._text(part.node) for part in region.parts if part.kind == "condition"]
        indexed = any("edgetune_threadIdx" in text for text in (*inside, *conditions))
        guard = self._guard(mask)
        unroll, each_thread = _EACH
        self._write(unroll)
        with self._braces(each_thread):
            self._write(*([_NUMBER.strip()] if indexed or _THERE in guard else []))
            if region.votes and (second or mask != f"edgetune_in_{region.number}"):
                out = f" = edgetune_out_{region.number}[edgetune_i]" if second else ""
                self._write(f"edgetune_in_{region.number}[edgetune_i]{out} = false;")
            with self._braces(f"if ({guard}) {{"):
                if indexed:
                    self._write(f"const uint3 edgetune_threadIdx = {self.thread_index}(edgetune_t, edgetune_blockDim);")
                self._write(*(f"auto &{each.name} = {MANY}{each.name}[edgetune_i];" for each in self._known(region)))
                for text in inside:
                    self._statement(text)
                if region.votes:
                    self._vote(region, second)
            if self._returns(region):
                self._write(f"edgetune_next_{region.number}:;")
            if leaving:
                self._write(f"edgetune_left_{region.number} |= edgetune_live[edgetune_i];")
        if leaving:
            self._write(f"if (!__syncthreads_or(edgetune_left_{region.number})) return;")

    def _vote(self, region: Region, second: bool) -> None:
        condition, number = self._text(region.parts[0].node), region.number
        self._mark(region.parts[0].node)
        self._write(f"edgetune_in_{number}[edgetune_i] = ({condition});")
        self._write(f"edgetune_any_{number} |= edgetune_in_{number}[edgetune_i];")
        if second:
            self._write(f"edgetune_out_{number}[edgetune_i] = !edgetune_in_{number}[edgetune_i];")
            self._write(f"edgetune_none_{number} |= edgetune_out_{number}[edgetune_i];")

    def _inside_of(self, region: Region) -> list[str]:
        """Return the text of a region's parts, a mark of its line in front of each."""
        edits = [replaced(each, self._leave(region)) for each in self._returns(region)]
        found: list[str] = []
        directed = False
        for part in region.parts:
            mark = "" if directed else line_mark(line_of(part.node), self.file)
            directed = part.kind == "directive"
            if part.kind == "declares":
                found += [mark + each for each in self._declared(part, edits)]
            elif part.kind != "condition":
                end = ";" if part.kind == "expression" else ""
                found.append(mark + _moved(self._text(part.node, edits), part.node) + end)
        return found

    def _declared(self, part: RegionPart, edits: Sequence[Edit]) -> list[str]:
        """Return the statements in place of a declaration in a region."""
        variable = part.variables[0]
        if variable not in self.many:
            whole = _with_value(part.node)
            return [f"{specifiers(variable.declaration)} {_moved(self._text(whole, edits), whole)};"]
        if variable.value is None:
            return []
        return ["\n".join(first_value(variable, self._text(variable.value, edits)))]

    def _known(self, region: Region) -> list[Variable]:
        """Return the arrays that a region uses, in the order of their declarations."""
        nodes = [node for part in region.parts for node in nodes_of(part)]
        used = {each for node in nodes for each in self.fission.uniform.names.used_in(node)}
        used |= {each for part in region.parts for each in part.variables}
        return [each for each in self.fission.uniform.names.variables if each in used and each in self.many]

    def _returns(self, region: Region) -> list[Node]:
        """Return the ``return`` statements of a region."""
        found: list[Node] = []
        for part in region.parts:
            found += [part.node] if part.node.type == "return_statement" else own(part.node, "return_statement")
        return found

    def _leave(self, region: Region) -> str:
        gone = "edgetune_live[edgetune_i] = false; " if self.live else ""
        return f"{{ {gone}goto edgetune_next_{region.number}; }}"

    def _guard(self, mask: str | None) -> str:
        """Return the condition under which a logical thread takes part."""
        there = "edgetune_live[edgetune_i]" if self.live else _THERE
        if mask is None:
            return there
        return f"{mask}[edgetune_i] && {there}" if self.live else f"{mask}[edgetune_i]"

    def _alike(self, node: Node) -> str:
        """Return the text of code that is run once, after a check that it is the same for all logical threads."""
        for each in self.fission.uniform.names.used_in(node):
            unchanged = each.kind == "parameter" and each not in self.many
            if not (unchanged or each.kind == "shared" or each in self.fission.single):
                raise CannotSplit("uncertain", node, name=each.name)
        return _moved(self._text(node), node)

    def _text(self, node: Node, more: Sequence[Edit] = ()) -> str:
        inside = (each for each in (*self.edits, *more) if node.start_byte <= each.start and each.end <= node.end_byte)
        return edited(node, inside)

    def _mark(self, node: Node) -> None:
        self._lines.append(line_mark(line_of(node), self.file))

    def _write(self, *lines: str) -> None:
        self._lines += ["    " * self._depth + each + "\n" for each in lines]

    def _statement(self, text: str) -> None:
        """Write source of several lines, with directives among them."""
        for line in text.rstrip().split("\n"):
            self._lines.append(("" if line.startswith("#line") else "    " * self._depth) + line.rstrip() + "\n")


def _with_value(declarator: Node) -> Node:
    """Return a declarator with its initialiser, if it has one."""
    outer = declarator.parent
    return outer if outer is not None and outer.type == "init_declarator" else declarator


def _moved(text: str, node: Node) -> str:
    """Return the source of a node with its other lines moved left by the column of its first."""
    column = int(node.start_point[1])
    first, *others = text.split("\n")
    return "\n".join([first, *(each[column:] if not each[:column].strip() else each for each in others)])

"""The control flow of a PTX kernel, and which of its branches all threads of a block take alike.

    setp.ge.s32 %p1, %r1, %r2    %r1 from %tid.x: each thread has its own       %p1 varies
    @%p1 bra $L_end              some threads go on, the others to $L_end       what lies between is divergent
    bar.sync 0                   is there: only some threads come to it

A block of instructions is divergent if a varying branch has a path to it that does not pass the place where all paths
from that branch meet again (the immediate postdominator: Cytron et al., TOPLAS 1991). Threads that can come to no
barrier any more may be left out: then those that stay meet where all paths to a barrier do. A register varies if a
varying value or a divergent instruction goes into it. Plain loads from one address give all threads of a block one
value, as between two barriers nothing may write there without a race; volatile and atomic ones may differ, and those
from local memory, also through a generic address where a kernel has any.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import networkx as nx

from edgetune.stages.elastic.kernel import WARP_THREADS
from edgetune.stages.elastic.ptx.parse import Entry, Instruction

UNIFORM, BY_WARP, VARYING = range(3)
"""The same for all threads of a block; for all of a warp; neither."""

_NAME = re.compile(r"[%A-Za-z_$][\w$@.]*")
_NO_RESULT = frozenset({
    "st", "red", "bar", "barrier", "bra", "ret", "exit", "trap", "membar", "fence", "prefetch", "prefetchu", "cp",
    "nanosleep", "sust", "sured", "stmatrix",
})  # fmt: skip
_ORDERED = frozenset({"volatile", "relaxed", "acquire", "mmio"})
_POSITIONS = ("%tid", "%lane", "%clock", "%globaltimer")
"""How the names of special registers begin that are different for each thread, or each time."""
_OF_OTHERS = frozenset({
    "atom", "shfl", "match", "redux", "mma", "wmma", "ldmatrix", "movmatrix", "wgmma", "addc", "subc", "madc", "suld",
    "call",
})  # fmt: skip
"""Instructions whose result depends on other lanes, other threads' writes, a function, or on what the last instruction
carried."""


@dataclass(frozen=True, slots=True)
class BasicBlock:
    """Instructions that run one after another.

    Args:
        first: Number of the first instruction.
        end: Number behind the last.
        next: Numbers of the blocks that may follow; the number of blocks stands for the end of the kernel.
    """

    first: int
    end: int
    next: tuple[int, ...]


def waits_for_block(each: Instruction) -> bool:
    """Return whether an instruction is a barrier of the block."""
    return each.op[0] in ("bar", "barrier") and "warp" not in each.op


def results(each: Instruction) -> list[str]:
    """Return the names that an instruction writes."""
    if not each.operands or (each.op[0] in _NO_RESULT and "red" not in each.op[1:]):
        return []
    return _NAME.findall(each.operands[0])


def sources(each: Instruction) -> list[str]:
    """Return the names that an instruction reads, its predicate included."""
    read = each.operands if not results(each) else each.operands[1:]
    return [name for one in read for name in _NAME.findall(one)] + ([each.guard[0]] if each.guard else [])


def basic_blocks(entry: Entry) -> list[BasicBlock]:
    """Return the basic blocks of a kernel, the entry first.

    Raises:
        KeyError: a branch goes to a label that is not there.
    """
    code = entry.instructions
    if not code:
        return []
    jumps = {number for number, each in enumerate(code) if each.op[0] in ("bra", "ret", "exit", "trap")}
    starts = sorted({0, *entry.labels.values(), *(number + 1 for number in jumps)} - {len(code)})
    of = {start: number for number, start in enumerate(starts)} | {len(code): len(starts)}
    made = []
    for start, end in zip(starts, [*starts[1:], len(code)], strict=True):
        last, after = code[end - 1], list[int]()
        if end - 1 not in jumps or last.guard:
            after.append(of[end])
        if last.op[0] == "bra":
            after.append(of[entry.labels[last.operands[0]]])
        elif last.op[0] in ("ret", "exit"):
            after.append(len(starts))
        made.append(BasicBlock(start, end, tuple(dict.fromkeys(after))))
    return made


class Divergence:
    """What is the same for all threads of a block, or of a warp, in a kernel.

    Attributes:
        blocks: The basic blocks.
        graph: Of their numbers.
        meets: Where all paths from each of them meet again: its immediate postdominator.
        levels: ``UNIFORM``, ``BY_WARP`` or ``VARYING`` of each register that is written.
        places: The same of each basic block: whether its threads come to it alike.
    """

    def __init__(self, entry: Entry, rows: bool = False, leaving: bool = False) -> None:
        """Look through a kernel.

        Args:
            entry: The kernel.
            rows: Whether rows of threads along x are whole warps, or a block has one row only.
            leaving: Whether threads that can come to no barrier any more are left out of what others have in common.
        """
        self._code = entry.instructions
        self._rows = rows
        self._local = {each.name for each in entry.variables if each.space == "local"}
        self.blocks = basic_blocks(entry)
        self.graph = flow_graph(self.blocks)
        self.levels: dict[str, int] = {}
        self.places = [UNIFORM] * len(self.blocks)
        self._numbers = self._thread_numbers()
        self.meets = postdominators(*self._staying()) if leaving else postdominators(self.graph)
        regions = {
            block: reachable(self.graph, each.next, len(self.blocks), self.meets[block])  # to where all of them meet
            for block, each in enumerate(self.blocks)
            if len(each.next) > 1
        }
        changed = True
        while changed:
            changed = False
            for block, each in enumerate(self.blocks):
                for number in range(each.first, each.end):
                    changed |= self._raise_levels(self._code[number], self.places[block])
            for block, region in regions.items():
                guard = self._code[self.blocks[block].end - 1].guard
                level = self.level(guard[0]) if guard else UNIFORM
                for one in region:
                    if level > self.places[one]:
                        self.places[one], changed = level, True

    def level(self, name: str) -> int:
        """Return the level of a name: a register, a special register, a constant or memory of each thread."""
        if name.startswith(_POSITIONS):
            return BY_WARP if self._rows and name in ("%tid.y", "%tid.z") else VARYING
        return VARYING if name in self._local else self.levels.get(name, UNIFORM)

    def _staying(self) -> tuple[nx.DiGraph, set[int]]:
        """Return the graph without the branches that leave all barriers behind, and the blocks with barriers."""
        barriers = {block for block, each in enumerate(self.blocks)
                    if any(map(waits_for_block, self._code[each.first : each.end]))}  # fmt: skip
        ahead = reachable(self.graph.reverse(copy=False), barriers)
        leaving = [(here, one) for here, one in self.graph.edges if one not in ahead and ahead & {*self.graph[here]}]
        return nx.restricted_view(self.graph, (), leaving), barriers

    def of(self, number: int) -> int:
        """Return the level at which threads come to an instruction, its predicate included."""
        block = next(place for place, each in enumerate(self.blocks) if each.first <= number < each.end)
        guard = self._code[number].guard
        return max(self.places[block], self.level(guard[0]) if guard else UNIFORM)

    def _raise_levels(self, each: Instruction, place: int) -> bool:
        level = max(place, self.level(each.guard[0]) if each.guard else UNIFORM, self._value(each))
        higher = [name for name in results(each) if level > self.levels.get(name, UNIFORM)]
        self.levels |= dict.fromkeys(higher, level)
        return bool(higher)

    def _value(self, each: Instruction) -> int:
        """Return the level of the value that an instruction computes."""
        kind, words = each.op[0], set(each.op)
        read = max((self.level(name) for operand in each.operands[1:] for name in _NAME.findall(operand)), default=0)
        if kind in ("bar", "barrier"):
            return UNIFORM
        if kind == "vote":  # one value for all lanes of a mask
            return VARYING if self.level(each.operands[-1]) == VARYING else BY_WARP
        if kind == "ld":
            own = "local" in words or (self._local and not words & {"global", "shared", "const", "param"})
            return VARYING if own or words & _ORDERED else read
        if kind in _OF_OTHERS or "cc" in words:
            return VARYING
        return BY_WARP if read == VARYING and self._same_in_warp(each) else read

    def _same_in_warp(self, each: Instruction) -> bool:
        """Return whether an instruction makes of a thread's number something that all lanes of a warp share."""
        if len(each.operands) != 3 or not each.operands[2].removeprefix("-").isdigit():
            return False
        constant = int(each.operands[2])
        low = {"lt": 0, "ge": 0, "le": WARP_THREADS - 1, "gt": WARP_THREADS - 1}
        kind = each.op[0]
        same = (kind == "shr" and constant >= 5) or (kind == "and" and constant % WARP_THREADS == 0)
        same |= kind == "setp" and len(each.op) == 3 and low.get(each.op[1]) == constant % WARP_THREADS
        return same and each.operands[1] in self._numbers

    def _thread_numbers(self) -> set[str]:
        """Return the registers that hold the number of a thread in its block, or, in whole rows, ``%tid.x``."""
        writes: dict[str, list[Instruction]] = {}
        for each in self._code:
            for name in results(each):
                writes.setdefault(name, []).append(each)
        single = {name: made[0] for name, made in writes.items() if len(made) == 1 and made[0].guard is None}
        copies = {name: one.operands[1] for name, one in single.items() if one.op == ("mov", "u32")}

        def origin(name: str) -> str:
            while name in copies:
                name = copies[name]
            return name

        sums = {name: (set(map(origin, one.operands[1:3])), origin(one.operands[3]))
                for name, one in single.items() if one.op[:2] == ("mad", "lo")}  # fmt: skip

        def rows(size: str, outer: set[str], inner: str) -> set[str]:
            """Return the registers that hold ``size * outer + inner``."""
            return {name for name, (factors, added) in sums.items()
                    if added == inner and size in factors and factors & outer}  # fmt: skip

        planes = rows("%ntid.y", {"%tid.z"}, "%tid.y")
        found = {name for name in single if self._rows and origin(name) == "%tid.x"}
        return found | rows("%ntid.x", {"%tid.y", *planes}, "%tid.x")


def flow_graph(blocks: list[BasicBlock]) -> nx.DiGraph:
    """Return the numbers of basic blocks, and of the end, as a graph."""
    made = nx.DiGraph((here, one) for here, each in enumerate(blocks) for one in each.next)
    made.add_nodes_from(range(len(blocks) + 1))
    return made


def reachable(graph: nx.DiGraph, starts: Iterable[Any], *without: int | None) -> set[Any]:
    """Return what can be reached in a graph from some of it, themselves included, on paths that do not pass others."""
    kept = nx.restricted_view(graph, without, ())
    return {one for layer in nx.bfs_layers(kept, [each for each in starts if each in kept]) for one in layer}


def postdominators(graph: nx.DiGraph, stops: Collection[int] = ()) -> list[int | None]:
    """Return the immediate postdominator of each block; ``None`` where no path from it ends.

    Args:
        graph: The basic blocks.
        stops: Blocks in which paths end that come to them.
    """
    end, back = len(graph) - 1, nx.DiGraph()
    back.add_node(end)
    back.add_edges_from((end if here in stops else ~here, here) for here in range(end))  # ~here is the place behind it
    back.add_edges_from((one, ~here) for here, one in graph.edges)
    found = nx.immediate_dominators(back, end)
    return [found.get(~here) for here in range(end)]


def loops(graph: nx.DiGraph) -> Iterator[tuple[set[int], set[int]]]:
    """Yield the loops of a kernel, each with its entries; loops within a loop after it."""
    rest = [graph]
    while rest:
        inside = rest.pop()
        for loop in sorted(nx.strongly_connected_components(inside), key=min):
            here = min(loop)
            if len(loop) > 1 or inside.has_edge(here, here):
                heads = nx.node_boundary(graph, graph.nodes - loop) | loop & {0}
                yield loop, heads
                rest.append(graph.subgraph(loop - (heads or {here})))

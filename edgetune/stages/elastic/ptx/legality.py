"""Finds the reasons for which a PTX kernel cannot be made elastic; what is not known to be safe is refused."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from networkx import DiGraph, is_directed_acyclic_graph

from edgetune.stages.elastic.kernel import Level, Refusal
from edgetune.stages.elastic.ptx.control_flow import (
    BY_WARP,
    UNIFORM,
    BasicBlock,
    Divergence,
    basic_blocks,
    flow_graph,
    loops,
    reachable,
    results,
    sources,
    waits_for_block,
)
from edgetune.stages.elastic.ptx.parse import Entry, Instruction

_SAFE = frozenset({
    "abs", "add", "addc", "and", "atom", "bar", "barrier", "bfe", "bfi", "bfind", "bmsk", "bra", "brev", "clz", "cnot",
    "copysign", "cos", "cp", "cvt", "cvta", "div", "dp2a", "dp4a", "ex2", "exit", "fence", "fma", "fns", "ld",
    "ldmatrix", "ldu", "lg2", "lop3", "mad", "mad24", "madc", "match", "max", "membar", "min", "mma", "mov",
    "movmatrix", "mul", "mul24", "nanosleep", "neg", "not", "or", "popc", "prefetch", "prefetchu", "prmt", "rcp", "red",
    "redux", "rem", "ret", "rsqrt", "sad", "selp", "set", "setp", "shf", "shfl", "shl", "shr", "sin", "slct", "sqrt",
    "st", "stmatrix", "sub", "subc", "suld", "suq", "sured", "sust", "szext", "tanh", "testp", "tex", "tld4", "trap",
    "txq", "vote", "wmma", "xor",
})  # fmt: skip
"""Instructions that depend on nothing but their operands and the position of a thread in its block."""
_CLOCKS = ("%clock", "%globaltimer")
_WARP_WIDE = frozenset({"shfl", "vote", "match", "redux", "mma", "wmma", "ldmatrix", "stmatrix", "movmatrix"})
_WARP_GROUP = (("wgmma", "fence"), ("wgmma", "mma_async"), ("wgmma", "commit_group"), ("wgmma", "wait_group"))
"""Products by four warps at once, and what waits for them."""
_COPIES = (("ca",), ("cg",), ("commit_group",), ("wait_group",), ("wait_all",))
"""Asynchronous copies of single threads, and what waits for them."""
_ORDERED = frozenset({"volatile", "relaxed", "acquire", "mmio"})
CARRIED = frozenset({"addc", "subc", "madc"})
"""Instructions that read what the one before them carried."""
MOST_BLOCKS = 4096
"""Basic blocks of a kernel; CUTLASS kernels have some hundreds."""
_PHYSICAL = re.compile(r"%(?:n?warpid|n?smid|pm\d\w*|reserved_smem\w*|current_graph_exec)\b|%n?ctaid\b(?!\.[xyz])")
"""Special registers that say where a block runs, and indices that are read as vectors."""
_INDEX = re.compile(r"%(?:n?ctaid|n?tid|lane)")
_PRINTS = ("vprintf", "__assertfail")
"""Functions of CUDA that depend on their arguments only."""

RULES = {
    "grid-sync": (
        "{name} belongs to a grid that waits for all of its blocks, and pieces of a grid do not run at once",
        "split the kernel where it waits, and launch the parts one after another",
    ),
    "spin-wait": (
        "a loop may wait for what the host or another thread writes ({name}), which may be in a piece that runs later",
        "split the kernel at the wait, or let the loop end by a count of its own",
    ),
    "cluster": (
        "{name} belongs to thread block clusters, and blocks of a cluster must run at once",
        "compile a form of the kernel without clusters for best-effort work",
    ),
    "function-call": (
        "{name} calls a function that reads an index, waits for other threads, or is not in the file",
        "let the compiler inline it (__forceinline__)",
    ),
    "indirect-call": ("{name} goes where a register says, so it is not known what it does", "call or branch by name"),
    "async-barrier": (
        "{name} is asynchronous: work may be under way when the next logical block begins",
        "compile for an architecture before sm_90, or copy with plain loads and stores",
    ),
    "named-barrier": ("{name} {operands} waits for some threads of the block only", "use bar.sync 0 (__syncthreads)"),
    "barrier-branch": (
        "only some threads of the block may come to this barrier: the others go on to the next block",
        "let all threads come to the barrier",
    ),
    "warp-branch": (
        "{name} waits for lanes of a warp, and only some may come to it: the others go on to the next block",
        "branch by whole warps of %tid.x, or let all lanes come to it",
    ),
    "special-register": ("{name} depends on where the physical block runs", "compute it from %tid and %ctaid"),
    "unknown-instruction": ("the instruction {name} is not known to be safe", "compile without it"),
    "shared-wait": (
        "a loop may wait in shared memory ({name}) for threads that run behind this one in the same physical thread",
        "wait by a barrier",
    ),
    "warp-group": ("{name} belongs to four warps that multiply together", "only the grid is elastic: use KERNEL__grid"),
    "carry": ("{name} carries from one basic block to another", "compile it with optimisation"),
    "block-size": (
        "it is compiled for blocks of a size that has no half{name}",
        "only the grid is elastic: use KERNEL__grid, or compile it for larger blocks",
    ),
    "crossing": (
        "threads that go their own ways come to code ({name}) that all threads of the block come to otherwise",
        "compile it for another architecture, or by another compiler",
    ),
    "unparsable": ("this cannot be read as PTX: {name}", "give PTX as compilers write it"),
    "too-large": ("it has {name} basic blocks or lines, and is not looked through", "compile it with less unrolling"),
    "reserved-name": (
        "the name {name} is taken: elastic forms are named KERNEL__grid and the like, and use edgetune...",
        "rename it (a file that was transformed already needs no second time)",
    ),
}
"""The reason and the remedy by code."""


@dataclass(frozen=True, slots=True)
class Legality:
    """What a kernel's elastic forms have to keep to.

    Args:
        refusals: Why it has no form; of several places that break one rule the first.
        rows: Whether its rows of threads must be whole warps.
        leaving: Whether some threads return while others go on to barriers.
        flow: Its control flow, such threads left out; ``None`` where it was refused before that was looked at.
    """

    refusals: tuple[Refusal, ...] = ()
    rows: bool = False
    leaving: bool = False
    flow: Divergence | None = None


def legality(entry: Entry, functions: Mapping[str, Entry]) -> Legality:
    """Return why a kernel cannot be made elastic at grid level, and what its forms have to keep to.

    Args:
        entry: The kernel.
        functions: Of its file, by name.
    """
    found = _all_refusals(entry, functions)
    codes = dict.fromkeys(each.code for each in found.refusals)
    first = {each.code: each for each in reversed(found.refusals)}
    return replace(found, refusals=tuple(first[code] for code in codes))


def _all_refusals(entry: Entry, functions: Mapping[str, Entry]) -> Legality:
    clusters = re.findall(r"\.(?:reqnctapercluster|explicitcluster|maxclusterrank)\b", entry.bounds)
    found = [refusal(entry, "cluster", None, each) for each in clusters[:1]]
    try:
        broken = [(each, _of_instruction(each, functions)) for each in entry.instructions]
        found += [refusal(entry, code, each, f"{each.name} {', '.join(each.operands)}".strip())
                  for each, code in broken if code]  # fmt: skip
        if found:
            return Legality(tuple(found))
        blocks = basic_blocks(entry)
        if len(blocks) > MOST_BLOCKS:
            return Legality((refusal(entry, "too-large", None, str(len(blocks))),))
        all_of_them = staying = Divergence(entry)
        leaving = any(waits_for_block(each) and staying.of(at) > UNIFORM for at, each in enumerate(entry.instructions))
        if leaving:
            staying = Divergence(entry, leaving=True)
        refused = _of_barriers(entry, all_of_them, staying)
        rows = {each.code for each in refused} == {"warp-branch"}
        if rows:
            staying = Divergence(entry, rows=True, leaving=leaving)
            refused = _of_barriers(entry, Divergence(entry, rows=True) if leaving else staying, staying)
        return Legality((*refused, *_of_loops(entry)), rows, leaving, staying)
    except (KeyError, IndexError) as missing:  # a label or an operand
        return Legality((refusal(entry, "unparsable", None, f"{missing.args[0]} is missing"),))


def refusal(entry: Entry, code: str, at: Instruction | None, name: str, level: Level = "grid") -> Refusal:
    """Return a refusal of a kernel, with the place in the source that the text was compiled from, where it says so.

    Args:
        entry: The kernel.
        code: A row of ``RULES``.
        at: The instruction; ``None`` for the whole kernel.
        name: What the reason names.
        level: ``block``: the grid alone is elastic.
    """
    reason, remedy = RULES[code]
    operands = ", ".join(at.operands) if at else ""
    text = reason.format(name=at.name if at and "{operands}" in reason else name, operands=operands)
    source = at.source if at else next((each.source for each in entry.instructions if each.source), None)
    file, line = source or (None, at.line if at else entry.line)
    return Refusal(code, line, text, remedy, entry.name, level, file)


def _of_instruction(each: Instruction, functions: Mapping[str, Entry]) -> str | None:
    """Return the code of the rule that an instruction breaks by itself."""
    kind, text = each.op[0], " ".join(each.operands)
    called = next((name for name in each.operands if not name.startswith("(")), "") if kind == "call" else ""
    broken = {
        "cluster": "cluster" in each.name or "%cluster" in text or kind in ("mapa", "getctarank"),
        "grid-sync": "%envreg" in text or "%gridid" in text or kind == "griddepcontrol",
        "indirect-call": kind == "brx" or called.startswith("%"),
        "function-call": kind == "call" and not _harmless(called, functions),
        "async-barrier": kind in ("mbarrier", "tcgen05") or (kind == "cp" and each.op[2:3] not in _COPIES),
        "named-barrier": waits_for_block(each) and not _whole_block(each),
        "special-register": _PHYSICAL.search(text),
        "unknown-instruction": kind not in _SAFE and kind != "call" and each.op[:2] not in _WARP_GROUP,
    }
    return next((code for code, found in broken.items() if found), None)


def _harmless(name: str, functions: Mapping[str, Entry]) -> bool:
    """Return whether a function does the same in every block and thread: it reads no index and waits for nobody."""
    if name in _PRINTS:
        return True
    function = functions.get(name)
    others = {other: each for other, each in functions.items() if other != name}  # without recursion
    return function is not None and not _of_loops(function, "block") and not any(
        each.op[0] in ("wgmma", "exit") or _of_instruction(each, others) or waits_for_block(each)
        or waits_for_warp(each) or _INDEX.search(" ".join(each.operands)) for each in function.instructions
    )  # fmt: skip


def _whole_block(each: Instruction) -> bool:
    """Return whether a barrier is barrier 0 for all threads of the block."""
    if "arrive" in each.op or "_" in "".join(each.op):
        return False
    if "red" in each.op:
        return len(each.operands) == 3 and each.operands[1] == "0"
    return each.operands == ("0",)


def _of_barriers(entry: Entry, divergence: Divergence, of_block: Divergence) -> list[Refusal]:
    """Refuse barriers that only some threads come to: of the block (or of four warps), or lanes of the warp.

    Threads that have returned are missing at no barrier of the block: the forms have them wait for the others there.
    Lanes of a warp are missed.
    """
    found = []
    for number, each in enumerate(entry.instructions):
        if waits_for_block(each) or each.op[0] == "wgmma":
            if (divergence if each.op[0] == "wgmma" else of_block).of(number) > UNIFORM:
                found.append(refusal(entry, "barrier-branch", each, each.name))
        elif (waits_for_warp(each)) and divergence.of(number) > BY_WARP:
            found.append(refusal(entry, "warp-branch", each, each.name))
    return found


def waits_for_warp(each: Instruction) -> bool:
    """Return whether an instruction waits for lanes of its warp."""
    return each.op[0] in _WARP_WIDE or each.op[:2] in (("bar", "warp"), ("barrier", "warp"))


def block_legality(entry: Entry, flow: Divergence) -> tuple[Refusal, ...]:
    """Return why several logical threads of a kernel cannot run in one physical thread, though its grid is elastic.

    Args:
        entry: The kernel.
        flow: Its control flow.
    """
    found = _of_loops(entry, "block")
    for at, each in enumerate(entry.instructions):
        if re.search(r"%n?tid\b(?!\.[xyz])", " ".join(each.operands)):
            found.append(refusal(entry, "special-register", each, each.name, "block"))
        if each.op[0] == "wgmma":
            found.append(refusal(entry, "warp-group", each, each.name, "block"))
        if each.op[0] == "call" and not any(first <= at < behind for _, _, first, behind in entry.scopes):
            found.append(refusal(entry, "function-call", each, each.name, "block"))
    for block in flow.blocks:
        code = entry.instructions[block.first : block.end]
        carried = next((each for each in code if "cc" in each.op or each.op[0] in CARRIED), None)
        if carried is not None and carried.op[0] in CARRIED:
            found.append(refusal(entry, "carry", carried, carried.name, "block"))
    for one in entry.variables:
        if one.space not in ("shared", "local", "param"):
            found.append(refusal(entry, "unparsable", None, f".{one.space} {one.name} in a kernel", "block"))
    return tuple({each.code: each for each in reversed(found)}.values())


def _of_loops(entry: Entry, level: Level = "grid") -> list[Refusal]:
    """Refuse loops that poll and have no other end; at block level in shared memory too, but between barriers."""
    blocks = basic_blocks(entry)
    graph, found = flow_graph(blocks), []
    for inside, heads in loops(graph):
        loop = _Loop(entry, blocks, graph.subgraph(inside), heads, shared=level == "block")
        if level == "block" and loop.meets:
            continue
        if loop.polls and not any(map(loop.ends_at, inside)):
            code = "spin-wait" if level == "grid" else "shared-wait"
            found.append(refusal(entry, code, loop.polls[0], loop.polls[0].name, level))
    return found


class _Loop:
    """A loop.

    Attributes:
        polls: Instructions that read what other blocks may write while it runs. Shared memory is among it on request
            only: what a thread waits for there comes from threads of its own block.
        meets: Whether there is a barrier in it.
    """

    def __init__(
        self, entry: Entry, blocks: list[BasicBlock], inside: DiGraph, heads: set[int], *, shared: bool = False
    ) -> None:
        self._code, self._blocks, self._inside, self._heads = entry.instructions, blocks, inside, heads
        self._elsewhere = {"const", "param", "local", "nc", *(() if shared else ("shared",))}
        code = [(block, each) for block in sorted(inside)
                for each in entry.instructions[blocks[block].first : blocks[block].end]]  # fmt: skip
        self._writes: dict[str, list[tuple[int, Instruction]]] = {}
        for block, each in code:
            for name in results(each):
                self._writes.setdefault(name, []).append((block, each))
        read = ((name, one) for _, each in code for name in results(each) for one in sources(each))
        self._sources = DiGraph(read).subgraph(self._writes)
        self.polls = [each for _, each in code if self._polls(each)]
        self.meets = any(waits_for_block(each) for _, each in code)

    def ends_at(self, block: int) -> bool:
        """Return whether a block is an exit that every turn passes, and that needs nobody else to be taken."""
        last = self._code[self._blocks[block].end - 1]
        if last.guard is None or not set(self._blocks[block].next) - self._inside.nodes or not self._every_turn(block):
            return False
        if self._retries(last.guard[0]):
            return True
        names = self._behind(last.guard[0])
        made = [one for name in names for one in self._writes.get(name, ())]
        counts = not is_directed_acyclic_graph(self._sources.subgraph(names))
        counts |= any(operand.startswith(_CLOCKS) for _, each in made for operand in each.operands)
        return counts and all(each not in self.polls and self._every_turn(block) for block, each in made)

    def _polls(self, each: Instruction) -> bool:
        if each.op[0] not in ("ld", "ldu", "atom", "suld") or self._elsewhere.intersection(each.op):
            return False
        changes = each.op[0] in ("atom", "suld") or _ORDERED.intersection(each.op)
        return bool(changes) or not self._writes.keys() & set(sources(each))  # one address, over and over

    def _every_turn(self, block: int) -> bool:
        """Return whether every turn of the loop passes a block."""
        inside = self._inside
        return block in self._heads or not any(head in reachable(inside, inside[head], block) for head in self._heads)

    def _behind(self, name: str) -> set[str]:
        """Return the names, written in the loop, that go into one, and itself."""
        return {name, *reachable(self._sources, [name])}

    def _retries(self, guard: str) -> bool:
        """Return whether the loop ends when a compare-and-swap finds what was read there before: some thread does."""
        made = self._writes.get(guard, [])
        if len(made) != 1 or made[0][1].op[:2] not in (("setp", "eq"), ("setp", "ne")):
            return False
        compared = set(made[0][1].operands[1:3])
        for each in self.polls:
            if "cas" in each.op and compared == {each.operands[0], each.operands[2]}:
                seen = [one for name in self._behind(each.operands[2]) for _, one in self._writes.get(name, ())]
                return any(one is each or (one.op[0] == "ld" and one.operands[1] == each.operands[1]) for one in seen)
        return False

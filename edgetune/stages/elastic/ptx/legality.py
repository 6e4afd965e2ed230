"""Finds the reasons for which a PTX kernel cannot be made elastic; what is not known to be safe is refused."""

from __future__ import annotations

import re
from collections.abc import Sequence

from edgetune.stages.elastic.kernel import Refusal
from edgetune.stages.elastic.ptx.control_flow import (
    BY_WARP,
    UNIFORM,
    BasicBlock,
    Divergence,
    basic_blocks,
    loops,
    reachable,
    results,
    sources,
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
MOST_BLOCKS = 4096
"""Basic blocks of a kernel; CUTLASS kernels have some hundreds."""
_PHYSICAL = re.compile(r"%(?:n?warpid|n?smid|pm\d\w*|reserved_smem\w*|current_graph_exec)\b|%n?ctaid\b(?!\.[xyz])")
"""Special registers that say where a block runs, and indices that are read as vectors."""

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
        "{name} calls a function, which is not looked through",
        "let the compiler inline it (__forceinline__), and take printf and assert out",
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
    "unparsable": ("this cannot be read as PTX: {name}", "give PTX as compilers write it"),
    "too-large": ("it has {name} basic blocks, and is not looked through", "compile it with less unrolling"),
    "reserved-name": (
        "the name {name} is taken: elastic forms are named KERNEL__grid and use edgetune_...",
        "rename it (a file that was transformed already needs no second time)",
    ),
}
"""The reason and the remedy by code; those that the source route knows too have the same code there."""


def legality(entry: Entry) -> tuple[tuple[Refusal, ...], bool]:
    """Return why a kernel cannot be made elastic at grid level, and whether its rows of threads must be whole warps.

    Of several places that break one rule the first is named.
    """
    found, rows = _all_refusals(entry)
    first: dict[str, Refusal] = {}
    for each in found:
        first.setdefault(each.code, each)
    return tuple(first.values()), rows


def _all_refusals(entry: Entry) -> tuple[Sequence[Refusal], bool]:
    found = list(_of_bounds(entry))
    for each in entry.instructions:
        reason = _of_instruction(each)
        if reason is not None:
            found.append(refusal(entry, reason, each, " ".join(filter(None, (each.name, ", ".join(each.operands))))))
    if found:
        return found, False
    try:
        blocks = basic_blocks(entry)
        if len(blocks) > MOST_BLOCKS:
            return (refusal(entry, "too-large", None, str(len(blocks))),), False
        refused = _of_barriers(entry, Divergence(entry))
        rows = bool(refused) and {each.code for each in refused} == {"warp-branch"}
        if rows:
            refused = _of_barriers(entry, Divergence(entry, rows=True))
        return (*refused, *_of_loops(entry)), rows
    except (KeyError, IndexError) as missing:  # a label or an operand
        return (refusal(entry, "unparsable", None, f"{missing.args[0]} is missing"),), False


def refusal(entry: Entry, code: str, at: Instruction | None, name: str) -> Refusal:
    """Return a refusal of a kernel.

    Args:
        entry: The kernel.
        code: A row of ``RULES``.
        at: The instruction; ``None`` for the whole kernel.
        name: What the reason names.
    """
    reason, remedy = RULES[code]
    operands = ", ".join(at.operands) if at else ""
    text = reason.format(name=at.name if at and "{operands}" in reason else name, operands=operands)
    return Refusal(code, at.line if at else entry.line, text, remedy, entry.name)


def _of_bounds(entry: Entry) -> list[Refusal]:
    clusters = re.search(r"\.(?:reqnctapercluster|explicitcluster|maxclusterrank)\b", entry.bounds)
    return [refusal(entry, "cluster", None, clusters[0])] if clusters else []


def _of_instruction(each: Instruction) -> str | None:
    """Return the code of the rule that an instruction breaks by itself."""
    words, kind, text = set(each.op), each.op[0], " ".join(each.operands)
    by_name = re.search(r"(?:^|[\s,)])[A-Za-z_$]", text)
    broken = {
        "cluster": "cluster" in each.name or "%cluster" in text or kind in ("mapa", "getctarank"),
        "grid-sync": "%envreg" in text or "%gridid" in text or kind == "griddepcontrol",
        "function-call": kind == "call" and by_name,
        "indirect-call": kind in ("call", "brx"),
        "async-barrier": kind in ("mbarrier", "tcgen05") or (kind == "cp" and each.op[2:3] not in _COPIES),
        "named-barrier": kind in ("bar", "barrier") and "warp" not in words and not _whole_block(each),
        "special-register": _PHYSICAL.search(text),
        "unknown-instruction": kind not in _SAFE and each.op[:2] not in _WARP_GROUP,
    }
    return next((code for code, found in broken.items() if found), None)


def _whole_block(each: Instruction) -> bool:
    """Return whether a barrier is barrier 0 for all threads of the block."""
    if "arrive" in each.op or "_" in "".join(each.op):
        return False
    if "red" in each.op:
        return len(each.operands) == 3 and each.operands[1] == "0"
    return each.operands == ("0",)


def _of_barriers(entry: Entry, divergence: Divergence) -> list[Refusal]:
    """Refuse barriers that only some threads come to: of the block (or of four warps), or lanes of the warp."""
    found = []
    for number, each in enumerate(entry.instructions):
        if each.op[0] in ("bar", "barrier", "wgmma") and "warp" not in each.op:
            if divergence.of(number) > UNIFORM:
                found.append(refusal(entry, "barrier-branch", each, each.name))
        elif (waits_for_warp(each)) and divergence.of(number) > BY_WARP:
            found.append(refusal(entry, "warp-branch", each, each.name))
    return found


def waits_for_warp(each: Instruction) -> bool:
    """Return whether an instruction waits for lanes of its warp."""
    return each.op[0] in _WARP_WIDE or each.op[:2] in (("bar", "warp"), ("barrier", "warp"))


def _of_loops(entry: Entry) -> list[Refusal]:
    """Refuse loops that poll and have no other end."""
    blocks = basic_blocks(entry)
    found = []
    for inside, heads in loops(blocks):
        loop = _Loop(entry, blocks, inside, heads)
        if loop.polls and not any(map(loop.ends_at, inside)):
            found.append(refusal(entry, "spin-wait", loop.polls[0], loop.polls[0].name))
    return found


def _reads_clock(each: Instruction) -> bool:
    """Return whether an instruction reads a clock, which goes on by itself."""
    return any(operand.startswith(_CLOCKS) for operand in each.operands)


class _Loop:
    """A loop.

    Attributes:
        polls: Instructions that read what other blocks may write while it runs. Shared memory is not among it: what a
            thread waits for there comes from threads of its own block.
    """

    def __init__(self, entry: Entry, blocks: list[BasicBlock], inside: set[int], heads: set[int]) -> None:
        self._code, self._blocks, self._inside, self._heads = entry.instructions, blocks, inside, heads
        self._writes: dict[str, list[tuple[int, Instruction]]] = {}
        code = [(block, each) for block in sorted(inside)
                for each in entry.instructions[blocks[block].first : blocks[block].end]]  # fmt: skip
        for block, each in code:
            for name in results(each):
                self._writes.setdefault(name, []).append((block, each))
        self.polls = [each for _, each in code if self._polls(each)]

    def ends_at(self, block: int) -> bool:
        """Return whether a block is an exit that every turn passes, and that needs nobody else to be taken."""
        last = self._code[self._blocks[block].end - 1]
        if last.guard is None or not set(self._blocks[block].next) - self._inside or not self._every_turn(block):
            return False
        if self._retries(last.guard[0]):
            return True
        names = self._behind(last.guard[0]) | {last.guard[0]}
        made = [one for name in names for one in self._writes.get(name, ())]
        counts = any(name in self._behind(name) for name in names) or any(_reads_clock(each) for _, each in made)
        return counts and all(each not in self.polls and self._every_turn(block) for block, each in made)

    def _polls(self, each: Instruction) -> bool:
        words = set(each.op)
        if each.op[0] not in ("ld", "ldu", "atom", "suld") or words & {"shared", "const", "param", "local", "nc"}:
            return False
        if each.op[0] in ("atom", "suld"):
            return True
        return bool(words & _ORDERED) or not self._writes.keys() & set(sources(each))  # one address, over and over

    def _every_turn(self, block: int) -> bool:
        """Return whether every turn of the loop passes a block."""
        kept = self._inside - {block}
        without = [BasicBlock(0, 0, tuple(one for one in each.next if one in kept)) for each in self._blocks]
        return block in self._heads or not any(head in reachable(without, without[head].next) for head in self._heads)

    def _behind(self, name: str) -> set[str]:
        """Return the names, written in the loop, that go into one: itself only if it goes into itself."""
        found: set[str] = set()
        rest = [name]
        while rest:
            for _, each in self._writes.get(rest.pop(), ()):
                new = self._writes.keys() & set(sources(each)) - found
                found |= new
                rest += new
        return found

    def _retries(self, guard: str) -> bool:
        """Return whether the loop ends when a compare-and-swap finds what was read there before: some thread does."""
        made = self._writes.get(guard, [])
        if len(made) != 1 or made[0][1].op[:2] not in (("setp", "eq"), ("setp", "ne")):
            return False
        compared = set(made[0][1].operands[1:3])
        for each in self.polls:
            if "cas" in each.op and compared == {each.operands[0], each.operands[2]}:
                names = self._behind(each.operands[2]) | {each.operands[2]}
                seen = [one for name in names for _, one in self._writes.get(name, ())]
                return any(one is each or (one.op[0] == "ld" and one.operands[1] == each.operands[1]) for one in seen)
        return False

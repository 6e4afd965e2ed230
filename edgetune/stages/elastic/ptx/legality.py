"""Finds the reasons for which a PTX kernel cannot be made elastic; what is not known to be safe is refused."""

from __future__ import annotations

import re

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

_SAFE = frozenset(
    """abs add addc and atom bar barrier bfe bfi bfind bmsk bra brev clz cnot copysign cos cvt cvta div dp2a dp4a ex2
    exit fence fma fns ld ldmatrix ldu lg2 lop3 mad mad24 madc match max membar min mma mov movmatrix mul mul24 nanosleep
    neg not or popc prefetch prefetchu prmt rcp red redux rem ret rsqrt sad selp set setp shf shfl shl shr sin slct sqrt
    st sub subc szext tanh testp trap vote wmma xor cp""".split()
)
"""Instructions that depend on nothing but their operands and the position of a thread in its block."""
_SPECIAL = frozenset(
    """tid ntid ctaid nctaid laneid lanemask_eq lanemask_le lanemask_lt lanemask_ge lanemask_gt clock clock_hi clock64
    globaltimer globaltimer_lo globaltimer_hi total_smem_size dynamic_smem_size aggr_smem_size""".split()
)
_CLOCKS = ("%clock", "%globaltimer")
_WARP_WIDE = frozenset("shfl vote match redux mma wmma ldmatrix movmatrix".split())
_ASYNC_COPIES = (("cp", "async", "ca"), ("cp", "async", "cg"))
_ORDERED = frozenset({"volatile", "relaxed", "acquire", "mmio"})
_NAMED = re.compile(r"%([a-z_]+[a-z_0-9]*)(?:\.[xyzw])?")

RULES = {
    "grid-sync": (
        "{name} belongs to a grid that waits for all of its blocks, and pieces of a grid do not run at once",
        "split the kernel where it waits, and launch the parts one after another",
    ),
    "spin-wait": (
        "a loop may wait for what another thread writes ({name}), which may be in a piece that runs later",
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
    "volatile-shared": (
        "shared memory is read and written as volatile, which counts on threads of a warp running in step",
        "leave volatile out and put __syncwarp() or __syncthreads() between writes and reads",
    ),
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
    "unknown-label": ("a branch goes to {name}, which is not there", "give PTX as compilers write it"),
    "reserved-name": (
        "the name {name} is taken: elastic forms are named KERNEL__grid and use edgetune_...",
        "rename it (a file that was transformed already needs no second time)",
    ),
}
"""The reason and the remedy by code; those that the source route knows too have the same code there."""


def legality(entry: Entry) -> tuple[tuple[Refusal, ...], bool]:
    """Return why a kernel cannot be made elastic at grid level, and whether its rows of threads must be whole warps."""
    found = list(_of_bounds(entry))
    for each in entry.instructions:
        reason = _of_instruction(each)
        if reason is not None:
            found.append(refusal(entry, reason, each, " ".join(filter(None, (each.name, ", ".join(each.operands))))))
    if found:
        return tuple(found), False
    try:
        refused = _of_barriers(entry, Divergence(entry))
        rows = bool(refused) and {each.code for each in refused} == {"warp-branch"}
        if rows:
            refused = _of_barriers(entry, Divergence(entry, rows=True))
        return (*refused, *_of_loops(entry)), rows
    except KeyError as missing:
        return (refusal(entry, "unknown-label", entry.instructions[0], str(missing.args[0])),), False


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
    words, kind = set(each.op), each.op[0]
    text = " ".join(each.operands)
    if "cluster" in words or "cluster" in each.name or kind in ("mapa", "getctarank") or "%cluster" in text:
        return "cluster"
    if "%envreg" in text or "%gridid" in text or kind == "griddepcontrol":
        return "grid-sync"
    if kind == "call":
        return "function-call" if re.search(r"(?:^|[\s,)])[A-Za-z_$]", text) else "indirect-call"
    if kind == "brx":
        return "indirect-call"
    if kind in ("mbarrier", "wgmma", "tcgen05") or "bulk" in words or (kind, *each.op[1:2]) == ("cp", "reduce"):
        return "async-barrier"
    if kind == "cp" and each.op[:3] not in _ASYNC_COPIES and each.op[2:3] not in (
        ("commit_group",), ("wait_group",), ("wait_all",)
    ):  # fmt: skip
        return "async-barrier"
    if kind in ("bar", "barrier") and "warp" not in words and not _whole_block(each):
        return "named-barrier"
    if "volatile" in words and "shared" in words:
        return "volatile-shared"
    names = {found[1] for found in _NAMED.finditer(text)}
    hardware = {name for name in names if name in _SPECIAL or not re.fullmatch(r"[a-zA-Z]+\d+", name)}
    if re.search(r"%n?ctaid\b(?!\.[xyz])", text) or any(
        name not in _SPECIAL and re.fullmatch(r"(?:n?warpid|n?smid|pm\d.*|reserved_smem\w*|current_graph_exec)", name)
        for name in hardware
    ):
        return "special-register"
    return None if kind in _SAFE else "unknown-instruction"


def _whole_block(each: Instruction) -> bool:
    """Return whether a barrier is barrier 0 for all threads of the block."""
    if "arrive" in each.op or "_" in "".join(each.op):
        return False
    if "red" in each.op:
        return len(each.operands) == 3 and each.operands[1] == "0"
    return each.operands == ("0",)


def _of_barriers(entry: Entry, divergence: Divergence) -> list[Refusal]:
    """Refuse barriers that only some threads come to: of the block, or lanes of the warp."""
    found = []
    for number, each in enumerate(entry.instructions):
        if each.op[0] in ("bar", "barrier") and "warp" not in each.op:
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
    found, blocks = [], basic_blocks(entry)
    for loop, heads in loops(blocks):
        code = [each for place in sorted(loop) for each in entry.instructions[blocks[place].first : blocks[place].end]]
        written = {name for each in code for name in results(each)}
        polls = [each for each in code if _polls(each, written)]
        if polls and not any(_ends(entry, blocks, loop, heads, place, polls) for place in loop):
            found.append(refusal(entry, "spin-wait", polls[0], polls[0].name))
    return found


def _polls(each: Instruction, written: set[str]) -> bool:
    """Return whether an instruction in a loop reads what other blocks may write while it runs."""
    words = set(each.op)
    if any(operand.startswith(_CLOCKS) for operand in each.operands):
        return True
    if each.op[0] == "atom":
        return True
    if each.op[0] not in ("ld", "ldu") or words & {"shared", "const", "param", "local", "nc"}:
        return False
    return bool(words & _ORDERED) or not written & set(sources(each))  # a plain load from one address, over and over


def _ends(
    entry: Entry, blocks: list[BasicBlock], loop: set[int], heads: set[int], place: int, polls: list[Instruction]
) -> bool:
    """Return whether a block is an exit of a loop that every turn passes, and that needs nobody else to be taken."""
    last = entry.instructions[blocks[place].end - 1]
    if last.guard is None or not set(blocks[place].next) - loop or not _every_turn(blocks, loop, heads, place):
        return False
    writes: dict[str, list[tuple[int, Instruction]]] = {}
    for block in loop:
        for each in entry.instructions[blocks[block].first : blocks[block].end]:
            for name in results(each):
                writes.setdefault(name, []).append((block, each))
    slice_of = _slice(writes, last.guard[0])
    if _retry(writes, last.guard[0], polls):
        return True
    made = [one for name in slice_of for one in writes.get(name, ())]
    if any(each in polls or each.op[0] == "atom" for _, each in made):
        return False
    counts = any(name in _slice(writes, name, itself=False) for name in slice_of)
    return counts and all(_every_turn(blocks, loop, heads, block) for block, _ in made)


def _every_turn(blocks: list[BasicBlock], loop: set[int], heads: set[int], place: int) -> bool:
    """Return whether every turn of a loop passes a block."""
    outside = [BasicBlock(0, 0, tuple(one for one in each.next if one in loop and one != place)) for each in blocks]
    return place in heads or not any(
        head in reachable(outside, outside[head].next) for head in heads
    )  # fmt: skip


def _slice(writes: dict[str, list[tuple[int, Instruction]]], name: str, itself: bool = True) -> set[str]:
    """Return the names, written in a loop, that go into one; itself only if it goes into itself, or on request."""
    found = {name} if itself else set()
    rest = [name]
    while rest:
        for _, each in writes.get(rest.pop(), ()):
            for one in sources(each):
                if one in writes and one not in found:
                    found.add(one)
                    rest.append(one)
    return found


def _retry(writes: dict[str, list[tuple[int, Instruction]]], guard: str, polls: list[Instruction]) -> bool:
    """Return whether a loop ends when a compare-and-swap finds what was read there before: some thread succeeds."""
    made = writes.get(guard, [])
    if len(made) != 1 or made[0][1].op[0] != "setp" or made[0][1].op[1] not in ("eq", "ne"):
        return False
    compared = set(made[0][1].operands[1:3])
    for each in polls:
        if each.op[0] != "atom" or "cas" not in each.op or compared != {each.operands[0], each.operands[2]}:
            continue
        seen = {one for name in _slice(writes, each.operands[2]) for _, one in writes.get(name, ())}
        return any(one is each or (one.op[0] == "ld" and one.operands[1:2] == each.operands[1:2]) for one in seen)
    return False

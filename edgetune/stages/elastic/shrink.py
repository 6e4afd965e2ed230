"""Selects the pieces of a kernel that are worth launching from its design space.

    slices of 196 blocks        x  threads of a block      per piece: the compiler's report      -> dropped, and why
    49, 98, 196 (halved while      512, 256, 128, 64       per leftover: fits? score, best 20 %  -> kept
    they are even)

A piece is a number of logical blocks, with a number of logical threads in a physical one. Miriam (Zhao et al., SenSys
2023) launches a slice as that many blocks, which is at most the number of multiprocessors that the last wave of the
critical kernel leaves idle: of 196 = 4 x 49 blocks no slice fits 8 or 16 multiprocessors then. Here a physical block
goes on to the next logical one, so that the limit is on physical blocks only and every slice fits.

    blocks on SMs  [critical][critical][piece][piece][    ]      4 of 5
    threads on one [critical 512     ][piece 256 ][       ]      768 of 1024       WIScore = 4/5 x 768/1024

Source of both scores: the same paper, section on the shrinking of the design space.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from edgetune.stages.elastic.gpu import Call, Gpu, Logical, Resources, allocated, blocks_resident
from edgetune.stages.elastic.kernel import PER_THREAD, WARP_THREADS
from edgetune.stages.elastic.pieces import UNKNOWN, LeftoverTable, PieceShape


def balance_score(gpu: Gpu, critical_blocks: int, critical_threads: int, blocks: int, threads: int) -> float:
    """Return WIScore: the share of multiprocessors in use, times the share of threads in use on one of them.

    As printed the threads of the piece count twice, and those of the critical kernel not at all.

    Args:
        gpu: The GPU.
        critical_blocks: Blocks of the critical kernel modulo multiprocessors: those of its last wave.
        critical_threads: Threads of one of its blocks.
        blocks: Physical blocks of the piece.
        threads: Threads of one of them.
    """
    return (critical_blocks + blocks) / gpu.sm_count * ((critical_threads + threads) / gpu.threads_per_sm)


Flaw = Literal["does not fit", "stack", "spills", "registers"]
"""Why the compiler's report speaks against a form: not one block of it fits a multiprocessor; it has stack or spills
that the original has not; a block of it, though of fewer threads, takes more registers than one of the original."""

KEPT_SHARE = 0.2
"""Source: Miriam keeps the best 20 % of the design space."""
LAUNCHES = 64
"""Launches of a kernel that are allowed, by which OScore is 1, else 0: six halvings of the grid. A convention of ours;
Miriam limits the time that launches take, measures its maxima on each device and gives no number."""


@dataclass(frozen=True, slots=True)
class ShapeCandidate:
    """A piece of the design space, whatever is beside it.

    Args:
        count: Logical blocks.
        per_thread: Logical threads in a physical one.
        threads: Of a physical block.
        cheap: OScore: 1 where there are not too many such pieces, else 0.
        flaw: The objection of the compiler's report; ``None``: none.
    """

    count: int
    per_thread: int
    threads: int
    cheap: int
    flaw: Flaw | None = None


@dataclass(frozen=True, slots=True)
class LeftoverFit:
    """A piece kept for one leftover.

    Args:
        critical_blocks: Of the critical kernel, modulo multiprocessors.
        critical_threads: Of one of its blocks, at most.
        rank: 0 is the best.
        count: Logical blocks of the piece.
        per_thread: Logical threads in a physical one.
        blocks: Physical blocks.
        threads: Of each of them.
        score: WIScore, as OScore is 1.
    """

    critical_blocks: int
    critical_threads: int
    rank: int
    count: int
    per_thread: int
    blocks: int
    threads: int
    score: float


@dataclass(frozen=True, slots=True)
class Shrunk:
    """The shrunk design space of one kernel at one logical launch.

    Args:
        kernel: Name of the original.
        logical: The launch.
        gpu: The GPU.
        designs: The whole space: slices times block sizes.
        leftovers: Threads of a critical block up to which one more of the sizes fits beside it, ascending.
        places: The kept pieces by leftover, the best first.
    """

    kernel: str
    logical: Logical
    gpu: Gpu
    designs: tuple[ShapeCandidate, ...]
    leftovers: tuple[int, ...]
    places: tuple[LeftoverFit, ...]

    @property
    def pruned_share(self) -> float:
        """Share of the design space that is not kept, over all leftovers."""
        possible = len(self.designs) * self.gpu.sm_count * len(self.leftovers)
        return 1 - len(self.places) / possible if possible else 1.0

    def reason(self, design: ShapeCandidate) -> str | None:
        """Return why a piece is kept for no leftover; ``None`` where it is kept for one."""
        if any((each.count, each.per_thread) == (design.count, design.per_thread) for each in self.places):
            return None
        return design.flaw or ("others score more" if design.cheap else "too many launches")

    def table(self) -> LeftoverTable:
        """Return the look-up of the best."""
        rows: list[list[tuple[int, PieceShape]]] = [[] for _ in range(self.gpu.sm_count)]
        for each in self.places:  # by ascending threads
            if each.rank == 0:
                shape = PieceShape(each.count, each.per_thread, each.blocks)
                rows[each.critical_blocks].append((each.critical_threads, shape))
        return LeftoverTable(tuple(map(tuple, rows)))


def slices(blocks: int) -> tuple[int, ...]:
    """Return the sizes of slices, ascending: the grid halved as long as it is even (Miriam: M / 2^n, ..., M)."""
    powers = (blocks & -blocks).bit_length()
    return tuple(blocks >> halvings for halvings in reversed(range(powers)))


def block_threads(threads: int) -> dict[int, int]:
    """Return threads of a physical block by logical threads in a physical one: whole warps, or the block as it is."""
    return {n: threads // n for n in PER_THREAD if n == 1 or threads % (n * WARP_THREADS) == 0}


def flaw_of(original: Resources, form: Resources, logical: Logical, per_thread: int, gpu: Gpu) -> Flaw | None:
    """Return the objection of the compiler's report to a form; ``None``: none.

    A block of as many threads as the original's may take more registers, as long as it fits: smaller blocks are there
    to leave registers to others.

    Args:
        original: Needs of the original.
        form: Needs of the form.
        logical: The launch.
        per_thread: Logical threads in a physical one.
        gpu: The GPU.
    """
    threads = -(-logical.threads // per_thread)
    if not blocks_resident(gpu, form, threads, logical.dynamic_shared_bytes):
        return "does not fit"
    if form.spill_bytes > original.spill_bytes:
        return "spills"
    if form.stack_bytes > original.stack_bytes:
        return "stack"
    if per_thread > 1 and form.registers_per_thread * threads > original.registers_per_thread * logical.threads:
        return "registers"
    return None


def shrink(kernel: str, logical: Logical, original: Resources, forms: Mapping[int, Resources], gpu: Gpu) -> Shrunk:
    """Return the pieces of a kernel to keep for everything that a critical kernel can leave.

    Args:
        kernel: Name of the original.
        logical: The launch.
        original: Needs of the original.
        forms: Needs of its forms, by logical threads in a physical one.
        gpu: The GPU.
    """
    sizes = {n: threads for n, threads in block_threads(logical.threads).items() if n in forms}
    flaws = {n: flaw_of(original, forms[n], logical, n, gpu) for n in sizes}
    designs = tuple(
        ShapeCandidate(count, n, threads, int(logical.blocks // count <= LAUNCHES), flaws[n])
        for count in slices(logical.blocks)
        for n, threads in sizes.items()
    )
    sound = [design for design in designs if design.flaw is None]
    leftovers = tuple(sorted({gpu.threads_per_sm - allocated(UNKNOWN, design.threads)[0] for design in sound}))
    places = tuple(
        place
        for critical_blocks in range(gpu.sm_count)
        for critical_threads in leftovers
        for place in _kept(sound, critical_blocks, critical_threads, gpu)
    )
    return Shrunk(kernel, logical, gpu, designs, leftovers, places)


@lru_cache(1024)
def kept_pieces(call: Call, gpu: Gpu) -> LeftoverTable:
    """Return the look-up for a call of a network, from the needs of its kernel's forms.

    Args:
        call: Where its kernel is not compiled, threads and shared memory of the launch decide.
        gpu: The GPU.
    """
    forms = call.resources or dict.fromkeys(PER_THREAD, UNKNOWN)
    return shrink(call.kernel, call.logical, forms.get(1, UNKNOWN), forms, gpu).table()


def _kept(
    sound: Sequence[ShapeCandidate], critical_blocks: int, critical_threads: int, gpu: Gpu
) -> Iterator[LeftoverFit]:
    """Return the best pieces without flaw for one leftover; of two with the same score, the shorter one first."""
    idle = gpu.sm_count - critical_blocks
    scored: list[tuple[float, ShapeCandidate]] = []
    for design in sound:
        if allocated(UNKNOWN, design.threads)[0] <= gpu.threads_per_sm - critical_threads:
            blocks = min(design.count, idle)
            score = balance_score(gpu, critical_blocks, critical_threads, blocks, design.threads)
            scored.append((design.cheap * score, design))
    scored.sort(key=lambda each: (-each[0], each[1].count, each[1].threads))
    for rank, (score, one) in enumerate(scored[: math.ceil(KEPT_SHARE * len(scored))]):
        if score:
            piece = one.count, one.per_thread, min(one.count, idle), one.threads
            yield LeftoverFit(critical_blocks, critical_threads, rank, *piece, score)

"""Compares elastic forms of kernels with the originals on the CPU: equal bits, whatever way they are run.

    original   forward, reverse, random order of threads and blocks       differs from itself: it is racy
    each form  x logical threads in a physical one                        1, 2, 4, 8
               x shards of its logical blocks, in random order            all | halves of halves | cut anywhere
               x physical blocks                                          one, a few, more than there are logical ones
               x orders of threads and blocks                             the same bits as the original, every time
    persistent forms, launched until all is done, blocks in turns         the quota changes at random moments

Only kernels that add floating-point numbers atomically get a tolerance: their results depend on the order of additions
on every device.
"""

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from edgetune.stages.elastic.gpu import Call, Logical, Pointer, Scalar
from edgetune.stages.elastic.kernel import (
    CONTROL,
    NO_QUOTA,
    CudaKernel,
    Dim,
    ElasticKernel,
    TransformResult,
    Variant,
    packed,
)
from edgetune.stages.elastic.ptx.interpreter import PtxProgram
from edgetune.stages.elastic.sample_launches import (
    FORWARD,
    LIMIT_S,
    REVERSE,
    Buffers,
    CpuLaunch,
    CpuResult,
    ExecutionOrder,
    SampleLaunch,
    chance,
)

Shard = tuple[int, int]
Answer = Literal["equal", "different", "racy", "fails", "no output"]

_WARP_THREADS = 32
_MOST_SHARDS = 16
_A_FEW_BLOCKS = 3
_MOST_REENTRIES = 4
_NO_OUTPUT = "it changes no memory: there is nothing to compare"
_SUM_TOLERANCE = 1e-4
"""Of the largest number of a buffer: float32 rounds to 6e-8, and a thousand additions in another order may each differ
by that."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """Which ways of running a form to try.

    Args:
        schedules: Orders of threads and blocks.
        cuts: Slicings at random places, besides all blocks at once and powers of two; of persistent forms, sequences of
            launches, besides one launch alone.
        seed: Of the cuts, of the order of shards, and of the ranks and moments of persistent forms.
        most: Ways to try of each form, drawn from all of these; ``None``: all.
    """

    schedules: tuple[ExecutionOrder, ...] = (FORWARD, REVERSE, chance(1), chance(2))
    cuts: int = 2
    seed: int = 0
    most: int | None = None


@dataclass(frozen=True, slots=True)
class FormLaunch:
    """One way to run a kernel in an elastic form.

    Args:
        symbol: Of the form.
        block: Threads of a physical block.
        blocks: Physical blocks of each launch.
        shards: First logical block and count of each launch, in the order of launches; of persistent forms the rank of
            the first physical block, and all logical blocks.
        schedule: Order of threads and blocks.
        persistent: Whether blocks take logical blocks from a counter: in all launches but the last the quota changes at
            random moments.
    """

    symbol: str
    block: Dim
    blocks: int
    shards: tuple[Shard, ...]
    schedule: ExecutionOrder
    persistent: bool = False

    def __str__(self) -> str:
        threads = "x".join(str(size) for size in self.block)
        shards, launch = list(self.shards), f"{self.symbol}<<<{self.blocks}, {threads}>>>"
        if self.persistent:
            return f"{launch} {len(shards)} times, from ranks {[rank for rank, _ in shards]} on, {self.schedule}"
        return f"{launch} on shards {shards}, {self.schedule}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of one trial of a kernel.

    Args:
        kernel: Its name.
        answer: ``equal``; ``different``: a form does something else; ``racy``: the original differs from itself;
            ``fails``: the original does not run to its end; ``no output``: it changes no memory, so that nothing shows
            whether its forms do the same.
        sequences: Sequences of launches of elastic forms that were run.
        forms: The number of forms.
        reason: Why it is not equal, one line; empty where it is.
    """

    kernel: str
    answer: Answer
    sequences: int
    forms: int
    reason: str = ""


def check(
    transformed: TransformResult,
    trials: Sequence[SampleLaunch],
    *,
    name: str = "kernel.ptx",
    matrix: Matrix | None = None,
    limit_s: int = LIMIT_S,
    program: PtxProgram | None = None,
) -> tuple[Verdict, ...]:
    """Run trials of kernels in all their forms; return a verdict of each.

    Args:
        transformed: The source with its elastic forms.
        trials: Launches of the originals; those of kernels without forms are left out.
        name: Of the file, for messages.
        matrix: The ways to try; the full matrix by default.
        limit_s: CPU time after which a sequence of launches counts as endless, s.
        program: The kernels and their forms, where they are read already.

    Raises:
        InputError: a trial is no launch that its kernel takes, or the kernel has an instruction that the interpreter
            does not know.
    """
    there = {each.kernel.name: each for each in transformed.kernels if each.variants}
    read, wanted = program or PtxProgram(transformed.source, name), matrix or Matrix()
    tried = ((there[trial.call.kernel], trial) for trial in trials if trial.call.kernel in there)
    return tuple(_verdict(read, elastic, trial, wanted, limit_s) for elastic, trial in tried)


def ways(elastic: ElasticKernel, logical: Logical, matrix: Matrix) -> Iterator[FormLaunch]:
    """Yield the ways to run a kernel's forms in place of one launch of it.

    Args:
        elastic: The kernel.
        logical: The launch.
        matrix: The ways to try.
    """
    chosen = random.Random(matrix.seed)
    for variant in elastic.variants:
        if variant.level == "persistent":
            found = list(_persistent_ways(variant.symbol, logical, matrix, chosen))
        else:
            found = [
                FormLaunch(variant.symbol, block, blocks, shards, schedule)
                for block in _blocks(elastic.kernel, variant, logical)
                for shards in _slicings(logical.blocks, matrix.cuts, chosen)
                for blocks in _physical_blocks(max(count for _, count in shards))
                for schedule in matrix.schedules
            ]
        yield from found if matrix.most is None else chosen.sample(found, min(len(found), matrix.most))


def _persistent_ways(symbol: str, logical: Logical, matrix: Matrix, chosen: random.Random) -> Iterator[FormLaunch]:
    """Yield sequences of launches of a persistent form, each with turns and quotas of its own."""
    for cut in range(matrix.cuts + 1):
        for blocks in _physical_blocks(logical.blocks):
            for schedule in matrix.schedules:
                more = chosen.randint(1, _MOST_REENTRIES) if cut else 0
                ranks = [chosen.choice((0, 0, chosen.randint(1, blocks))) for _ in range(more)] + [0]
                shards = tuple((rank, logical.blocks) for rank in ranks)
                turns = replace(schedule, seed=schedule.seed + chosen.randrange(1000))
                yield FormLaunch(symbol, logical.block, blocks, shards, turns, persistent=True)


def _physical_blocks(logical: int) -> Iterable[int]:
    """Return numbers of physical blocks for so many logical ones: one, a few, more than there are."""
    return dict.fromkeys((1, min(_A_FEW_BLOCKS, logical), logical + 2))


def _blocks(kernel: CudaKernel, variant: Variant, logical: Logical) -> list[Dim]:
    """Return the physical block that a form has in place of the logical one; none where it cannot be divided so."""
    if variant.level == "grid":
        return [logical.block]
    size, left = divmod(logical.threads, variant.per_thread)
    if left or (kernel.warp and size % _WARP_THREADS):
        return []
    return [(size, 1, 1)]


def _slicings(blocks: int, cuts: int, chosen: random.Random) -> list[tuple[Shard, ...]]:
    """Return ways to cut logical blocks into shards: not at all, by powers of two as far as possible, anywhere."""
    equal = 1
    while blocks % (2 * equal) == 0 and 2 * equal <= _MOST_SHARDS:
        equal *= 2
    slicings = [[0], [part * (blocks // equal) for part in range(equal)]]
    for _ in range(cuts):
        inner = range(1, blocks)
        slicings.append([0, *sorted(chosen.sample(inner, min(len(inner), chosen.randint(1, _MOST_SHARDS // 2))))])
    found = [
        [(first, end - first) for first, end in zip(starts, [*starts[1:], blocks], strict=True)] for starts in slicings
    ]
    for shards in found:
        chosen.shuffle(shards)
    return list(dict.fromkeys(map(tuple, found)))


def _verdict(built: PtxProgram, elastic: ElasticKernel, trial: SampleLaunch, matrix: Matrix, limit_s: int) -> Verdict:
    call, kernel, forms = trial.call, elastic.kernel, len(elastic.variants)
    logical, buffers = call.logical, {**trial.buffers, CONTROL: np.array([0, 0, NO_QUOTA], np.uint32)}
    original = CpuLaunch(kernel.name, logical.grid, logical.block, call.arguments, logical.dynamic_shared_bytes)
    nothing = next(built.run_all([([], FORWARD)], buffers, limit_s)).buffers
    expected: Buffers = {}
    for outcome, schedule in zip(
        built.run_all([([original], schedule) for schedule in matrix.schedules], buffers, limit_s),
        matrix.schedules,
        strict=False,  # none is run after one that hangs
    ):
        if outcome.status != "ok":
            return Verdict(kernel.name, "fails", 0, forms, f"{_failure(outcome)}, in {schedule}")
        expected = expected or {name: array for name, array in outcome.buffers.items() if name != CONTROL}
        if reason := different(expected, outcome.buffers, kernel):
            return Verdict(kernel.name, "racy", 0, forms, f"the original differs from itself in {schedule}: {reason}")
    silent = all(array.tobytes() == nothing[name].tobytes() for name, array in expected.items())
    tried = list(ways(elastic, logical, matrix))
    sequences = [(launches_of(call, way), way.schedule) for way in tried]
    ran = 0
    for outcome, way in zip(built.run_all(sequences, buffers, limit_s), tried, strict=False):
        ran += 1
        reason = _failure(outcome) if outcome.status != "ok" else different(expected, outcome.buffers, kernel)
        if not reason and way.persistent and outcome.buffers[CONTROL][1] != logical.blocks:
            reason = f"{outcome.buffers[CONTROL][1]} logical blocks were counted as done, of {logical.blocks}"
        if reason:
            return Verdict(kernel.name, "different", ran, forms, f"{way}: {reason}")
    return Verdict(kernel.name, "no output" if silent else "equal", ran, forms, _NO_OUTPUT if silent else "")


def launches_of(call: Call, way: FormLaunch) -> list[CpuLaunch]:
    """Return the launches of a form in place of one of the original."""
    logical, launches = call.logical, list[CpuLaunch]()
    for place, (first, count) in enumerate(way.shards, 1):
        arguments = (*call.arguments, Scalar(packed(logical.grid, logical.block, first, count)))
        launch = CpuLaunch(way.symbol, (way.blocks, 1, 1), way.block, arguments, logical.dynamic_shared_bytes)
        if way.persistent:
            arguments, changes = (*arguments, Pointer(CONTROL)), place < len(way.shards)
            launch = replace(launch, arguments=arguments, rank=first, quota_changes=changes)
        launches.append(launch)
    return launches


def _failure(outcome: CpuResult) -> str:
    line = "" if outcome.line is None else f" (line {outcome.line})"
    return f"{outcome.status}: {outcome.message}{line}"


def different(expected: Buffers, got: Buffers, kernel: CudaKernel) -> str:
    """Return the first difference of two results; empty where they are the same.

    Two values that are no numbers are equal: the source does not say which of two such operands a processor passes on.

    Args:
        expected: The results of the original, by the names of buffers.
        got: Those of a form.
        kernel: The original; one that adds floating-point numbers atomically gets a tolerance.
    """
    for name, right in expected.items():
        left = got[name]
        if left.tobytes() == right.tobytes():
            continue
        apart = _apart(right, left, kernel.float_atomics)
        if apart.any():
            place = tuple(int(i) for i in np.argwhere(apart)[0])
            return (
                f"{name}{list(place)} is {left[place]}, not {right[place]}; {int(apart.sum())} of {apart.size} differ"
            )
    return ""


def _apart(right: np.ndarray[Any, Any], left: np.ndarray[Any, Any], sums: bool) -> np.ndarray[Any, Any]:
    if right.dtype.kind != "f":
        return np.asarray(left != right)
    bits = np.dtype(f"u{right.dtype.itemsize}")
    apart = (left.view(bits) != right.view(bits)) & ~(np.isnan(left) & np.isnan(right))
    if sums:
        largest = float(np.nanmax(np.abs(right), initial=0.0))
        apart &= ~(np.abs(left.astype(float) - right.astype(float)) <= _SUM_TOLERANCE * largest)
    return np.asarray(apart)

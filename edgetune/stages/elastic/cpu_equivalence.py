"""Compares elastic forms of kernels with the originals: equal bits, whatever way they are run.

    original   forward, reverse, random order of threads and blocks       differs from itself: it is racy
    each form  x logical threads in a physical one                        1, 2, 4, 8
               x shards of its logical blocks, in random order            all | halves of halves | cut anywhere
               x physical blocks                                          one, a few, more than there are logical ones
               x orders of threads and blocks                             the same bits as the original, every time
    persistent forms, launched until all is done, blocks in turns         the quota changes at random moments

Here they run on the CPU; ``cuda.gpu_equivalence`` runs them on a GPU, in the same ways but for the orders. Only
kernels that add floating-point numbers atomically get a tolerance: their results depend on the order of additions on
every device.
"""

import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from edgetune.errors import InputError
from edgetune.stages.elastic.gpu import Call, Logical, Pointer, Scalar
from edgetune.stages.elastic.kernel import (
    CONTROL,
    NO_QUOTA,
    NO_ROWS,
    ROWS,
    WARP_THREADS,
    CudaKernel,
    Dim,
    ElasticKernel,
    TransformResult,
    packed,
)
from edgetune.stages.elastic.ptx.interpreter import PtxProgram
from edgetune.stages.elastic.sample_launches import (
    FORWARD,
    LIMIT_S,
    REVERSE,
    Buffers,
    CpuLaunch,
    ExecutionOrder,
    SampleLaunch,
    chance,
)

Shard = tuple[int, int]
Answer = Literal["equal", "different", "racy", "fails", "no output"]

_MOST_SHARDS = 16
_A_FEW_BLOCKS = 3
_MOST_REENTRIES = 4
_NO_OUTPUT = "it changes no memory that could be compared"
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
    """One way to run a kernel, as it is or in an elastic form.

    Args:
        symbol: Of the kernel or form.
        block: Threads of a physical block.
        blocks: Physical blocks of each launch.
        shards: First logical block and count of each launch, in the order of launches; of persistent forms the rank of
            the first physical block, and all logical blocks. None: the original.
        schedule: Order of threads and blocks.
        persistent: Whether blocks take logical blocks from a counter: in all launches but the last the quota changes at
            random moments. On a GPU, there is one launch, and the ranks are the quotas that follow it.
    """

    symbol: str
    block: Dim
    blocks: int
    shards: tuple[Shard, ...]
    schedule: ExecutionOrder
    persistent: bool = False

    def __str__(self) -> str:
        threads = "x".join(str(size) for size in self.block)
        parts = [rank for rank, _ in self.shards] if self.persistent else list(self.shards)
        how = "in turns from ranks" if self.persistent else "on shards"
        return f"{self.symbol}<<<{self.blocks}, {threads}>>> {how} {parts}, {self.schedule}"


Runner = Callable[[Sequence[FormLaunch]], Iterator[tuple[str, Buffers]]]
"""Runs a kernel in these ways, each from the same memory, up to the first after which nothing runs; yields why it
failed, empty where it did not, and the memory that it left."""


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
    read, wanted, found = program or PtxProgram(transformed.source, name), matrix or Matrix(), list[Verdict]()
    for trial in trials:
        if (elastic := there.get(trial.call.kernel)) is not None:
            buffers = {**trial.buffers, CONTROL: np.array([0, 0, NO_QUOTA], np.uint32)}
            run = partial(_run, read, trial.call, buffers, limit_s)
            before = next(read.run_all([([], FORWARD)], buffers, limit_s)).buffers
            tried = [original(trial.call, schedule) for schedule in wanted.schedules]
            found.append(compared(elastic, [*tried, *ways(elastic, trial.call.logical, wanted)], run, before))
    return tuple(found)


def compared(elastic: ElasticKernel, tried: Sequence[FormLaunch], run: Runner, before: Buffers) -> Verdict:
    """Return the outcome of one trial of a kernel, which ends with the first difference.

    Args:
        elastic: The kernel.
        tried: Ways to run it: the original, which is to be the same in all of them, and behind it forms.
        run: Runs them.
        before: The memory that each begins with.
    """
    kernel, forms, ran = elastic.kernel, len(elastic.variants), 0
    expected: Buffers = {}
    for way, (failure, got) in zip(tried, run(tried), strict=False):
        expected, ran = expected or got, ran + bool(way.shards)
        reason = failure or different(expected, got, kernel)
        if reason and way.shards:
            return Verdict(kernel.name, "different", ran, forms, f"{way}: {reason}")
        if failure:
            return Verdict(kernel.name, "fails", 0, forms, f"{failure}, in {way.schedule}")
        if reason:
            why = f"the original differs from itself in {way.schedule}: {reason}"
            return Verdict(kernel.name, "racy", 0, forms, why)
    if all(array.tobytes() == before[name].tobytes() for name, array in expected.items()):
        return Verdict(kernel.name, "no output", ran, forms, _NO_OUTPUT)
    return Verdict(kernel.name, "equal", ran, forms)


def original(call: Call, schedule: ExecutionOrder) -> FormLaunch:
    """Return the original as a way to run a kernel."""
    return FormLaunch(call.kernel, call.logical.block, call.logical.blocks, (), schedule)


def ways(elastic: ElasticKernel, logical: Logical, matrix: Matrix) -> Iterator[FormLaunch]:
    """Yield the ways to run a kernel's forms in place of one launch of it.

    Args:
        elastic: The kernel.
        logical: The launch.
        matrix: The ways to try.

    Raises:
        InputError: its forms do not run blocks of this shape.
    """
    if not elastic.kernel.suits(logical.block):
        raise InputError(f"{elastic.kernel.name}: {NO_ROWS}", ROWS)
    chosen = random.Random(matrix.seed)
    for variant in elastic.variants:
        size, left = divmod(logical.threads, variant.per_thread)
        if left or (variant.level == "block" and elastic.kernel.warp and size % WARP_THREADS):
            continue  # a block cannot be divided so
        block = (size, 1, 1) if variant.level == "block" else logical.block
        if variant.level == "persistent":
            found = list(_persistent_ways(variant.symbol, logical, matrix, chosen))
        else:
            found = [
                FormLaunch(variant.symbol, block, blocks, shards, schedule)
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


def _slicings(blocks: int, cuts: int, chosen: random.Random) -> list[tuple[Shard, ...]]:
    """Return ways to cut logical blocks into shards: not at all, by powers of two as far as possible, anywhere."""
    step = blocks // math.gcd(blocks, _MOST_SHARDS)
    slicings = [[0], [*range(0, blocks, step)]]
    for _ in range(cuts):
        inner = range(1, blocks)
        slicings.append([0, *sorted(chosen.sample(inner, min(len(inner), chosen.randint(1, _MOST_SHARDS // 2))))])
    found = [[(first, end - first) for first, end in pairwise([*starts, blocks])] for starts in slicings]
    for shards in found:
        chosen.shuffle(shards)
    return list(dict.fromkeys(map(tuple, found)))


def _run(
    built: PtxProgram, call: Call, buffers: Buffers, limit_s: int, tried: Sequence[FormLaunch]
) -> Iterator[tuple[str, Buffers]]:
    """Run a kernel on the CPU; as ``Runner``."""
    sequences = [(launches_of(call, way), way.schedule) for way in tried]
    for way, outcome in zip(tried, built.run_all(sequences, buffers, limit_s), strict=False):
        failure, memory = "", dict(outcome.buffers)
        words = memory.pop(CONTROL, None)
        if outcome.status != "ok":
            line = "" if outcome.line is None else f" (line {outcome.line})"
            failure = f"{outcome.status}: {outcome.message}{line}"
        elif way.persistent and words is not None and words[1] != call.logical.blocks:
            failure = f"{words[1]} logical blocks were counted as done, of {call.logical.blocks}"
        yield failure, memory


def launches_of(call: Call, way: FormLaunch) -> list[CpuLaunch]:
    """Return the launches of a way on the CPU."""
    logical, launches = call.logical, list[CpuLaunch]()
    if not way.shards:
        return [CpuLaunch(way.symbol, logical.grid, way.block, call.arguments, logical.dynamic_shared_bytes)]
    for place, (first, count) in enumerate(way.shards, 1):
        arguments = (*call.arguments, Scalar(packed(logical.grid, logical.block, first, count)))
        launch = CpuLaunch(way.symbol, (way.blocks, 1, 1), way.block, arguments, logical.dynamic_shared_bytes)
        if way.persistent:
            arguments, changes = (*arguments, Pointer(CONTROL)), place < len(way.shards)
            launch = replace(launch, arguments=arguments, rank=first, quota_changes=changes)
        launches.append(launch)
    return launches


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
        apart = _apart(right, left, kernel.float_atomics)
        if apart.any():
            place = tuple(int(i) for i in np.argwhere(apart)[0])
            return (
                f"{name}{list(place)} is {left[place]}, not {right[place]}; {int(apart.sum())} of {apart.size} differ"
            )
    return ""


def _apart(right: np.ndarray[Any, Any], left: np.ndarray[Any, Any], sums: bool) -> np.ndarray[Any, Any]:
    bits = np.dtype(f"u{right.dtype.itemsize}")
    apart = (left.view(bits) != right.view(bits)) & ~(np.isnan(left) & np.isnan(right))
    if sums and right.dtype.kind == "f":
        largest = float(np.nanmax(np.abs(right), initial=0.0))
        apart &= ~(np.abs(left.astype(float) - right.astype(float)) <= _SUM_TOLERANCE * largest)
    return np.asarray(apart)

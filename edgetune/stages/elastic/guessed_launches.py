"""Launches to try a kernel with that has none: several are guessed, and the one that suits the kernel best is taken.

    saxpy(float *y, float *x, float a, int n)  ->  saxpy grid=4 block=64 y=float32[65536] ... a=float32:1 n=int32:256
                                                   saxpy grid=4 block=64 y=float32[65536] ... a=float32:1 n=int32:64

Memory is large and sizes are small, so that a kernel which takes sizes as numbers stays within it. A guess suits where
the original runs to its end, gives the same results in several orders, and changes much memory: with a wrong size,
``if (i < n)`` leaves most threads without work. A guess that does not suit says nothing about the kernel.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import numpy as np

from edgetune.stages.elastic.cpu_equivalence import Matrix, Runner, Verdict, check, different, runner_of
from edgetune.stages.elastic.kernel import SURFACES, TEXTURES, CudaKernel, HostLaunch, Parameter, TransformResult
from edgetune.stages.elastic.sample_launches import SampleLaunch, sample_launches_in
from edgetune.stages.elastic.shim.run import FORWARD, LIMIT_S, Sequenced, ShimLaunch

_NUMBERS = 65536
"""Numbers of each memory."""
_MOST_BY_VALUE = 64
"""Numbers of a struct by value: more make a launch that nobody reads."""
_SHARED_BYTES = 16384
_SURFACE = "16x64x512"
_SHAPES = {
    1: (((4,), (64,)), ((4,), (256,)), ((4,), (32,)), ((4,), (128,))),
    2: (((2, 2), (16, 16)), ((2, 2), (32, 8)), ((2, 2), (8, 8)), ((2, 2), (32, 32)), ((2, 2), (16, 4))),
    3: (((2, 2, 2), (8, 4, 4)), ((2, 2, 2), (4, 4, 4)), ((2, 2, 2), (8, 4, 2)), ((2, 2, 2), (8, 8, 8))),
}
"""Grids and blocks by the axes of the block that a kernel reads; tiles of 16 times 16 are the usual ones."""
_BLOCKS = {1: 4, 2: 2, 3: 2}
"""Along an axis whose blocks are no constant of the file, by the number of axes."""
_MOST_BLOCKS = 64
_MOST_HOST_LAUNCHES = 3
_SMALL = (64, 16, 4, 2, 1, 32, 128)
"""Values of integers besides the sizes of the launch."""
_SMALLEST = 4
"""Of one integer, where the others are larger."""
_FILL, _NO_ZEROS = ":0..16", ":1..17"
"""Integers in memory: they may be indices, or factors."""
_ENOUGH = 0.5
"""Of the threads of a launch, changed numbers of memory: no better guess is looked for."""
_FEW = 0.1
"""Likewise: below this share the verdict says how few are changed."""
_LIMIT_S = 1
_MOST_HANGS = 3


def unguessable(kernel: CudaKernel) -> Parameter | None:
    """Return the first parameter of a kernel for which nothing can be guessed."""
    return next((each for each in kernel.parameters if _argument(each, 1) is None), None)


def guessed_launches(kernel: CudaKernel) -> tuple[str, ...]:
    """Return small launches of a kernel as words of a comment, the likeliest first.

    A parameter that is not plain is written as ``NAME=...``, which the user has to fill in.
    """
    shapes = list(_shapes(kernel))
    found = {_words(kernel, shape, value): None for shape in shapes for value in _values(*shape[:2])}
    whole = next(iter(_values(*shapes[0][:2])))
    for each in kernel.parameters:  # a radius or a number of steps beside the sizes of an image
        found[_words(kernel, shapes[0], whole, small=each.name)] = None
    found[_words(kernel, shapes[0], whole, fill=_NO_ZEROS)] = None
    return tuple(found)


def _words(
    kernel: CudaKernel,
    shape: tuple[Sequence[int], Sequence[int], int],
    value: int,
    *,
    small: str | None = None,
    fill: str = _FILL,
) -> str:
    """Return a launch as words: all its integers have one value, and one of them may have a small one."""
    grid, block, shared = shape
    words = [kernel.name, f"grid={_listed(grid)}", f"block={_listed(block)}", *([f"shared={shared}"] if shared else [])]
    for number, each in enumerate(kernel.parameters, 1):
        given = _argument(each, _SMALLEST if each.name == small else value, number, fill)
        words.append(given or f"{each.name}=...")
    return " ".join(words)


def check_guesses(
    transformed: TransformResult,
    guesses: Sequence[str],
    *,
    name: str,
    include: Sequence[Path] = (),
    runner: Runner | None = None,
) -> tuple[SampleLaunch, Verdict]:
    """Check a kernel with the guess that suits it best; return that guess and the verdict.

    Args:
        transformed: The source with its elastic forms.
        guesses: Launches of one kernel that has forms, as words, the likeliest first.
        name: Of the file, for messages.
        include: Folders of headers.
        runner: The kernels and their forms, where they are built already.

    Raises:
        InputError: g++ refuses the source.
        DeviceError: there is no g++.
    """
    kernel = next(each.kernel for each in transformed.kernels if each.kernel.name == guesses[0].split()[0])
    runner = runner or runner_of(transformed, [kernel.name], name, include)
    best, share = _best(runner, kernel, guesses)
    limit_s = LIMIT_S if share >= 0 else _LIMIT_S  # no guess suits: nothing more shows in a longer time
    (verdict,) = check(transformed, [best], name=name, include=include, runner=runner, limit_s=limit_s)
    if verdict.answer == "equal" and share < _FEW:
        threads = best.call.logical.blocks * best.call.logical.threads
        changed = round(share * threads)
        verdict = replace(verdict, reason=f"{threads} threads of the guess change {changed} numbers of memory")
    return best, verdict


def read_guess(words: str) -> SampleLaunch:
    """Return the launch that a guess means."""
    (launch,) = sample_launches_in(f"// launch {words}", "a guess")
    return launch


def _best(runner: Runner, kernel: CudaKernel, guesses: Sequence[str]) -> tuple[SampleLaunch, float]:
    """Return the first guess by which most threads change memory, else that by which most is changed.

    With it comes how much is changed: numbers of memory for each thread; below 0 where no guess suits.
    """
    best, most, hangs = read_guess(guesses[0]), -1.0, 0
    for guess in map(read_guess, guesses):
        call = guess.call
        launch = ShimLaunch(
            kernel.name, call.logical.grid, call.logical.block, call.arguments, call.logical.dynamic_shared_bytes
        )
        sequences: list[Sequenced] = [([], FORWARD), *(([launch], order) for order in Matrix().schedules)]
        nothing, *outcomes = runner.run_all(sequences, guess.buffers, _LIMIT_S)
        hangs += any(each.status == "hang" for each in outcomes)
        if hangs == _MOST_HANGS:
            break
        if any(each.status != "ok" or different(outcomes[0].buffers, each.buffers, kernel) for each in outcomes):
            continue
        changed = sum(int((before != outcomes[0].buffers[at]).sum()) for at, before in nothing.buffers.items())
        share = changed / (call.logical.blocks * call.logical.threads)
        if share > most:
            best, most = guess, share
        if share >= _ENOUGH:
            break
    return best, most


def _shapes(kernel: CudaKernel) -> Iterator[tuple[Sequence[int], Sequence[int], int]]:
    """Yield grids, blocks and bytes of shared memory: those of launches in the file, then usual ones."""
    for launch in kernel.launches[:_MOST_HOST_LAUNCHES]:
        shared = launch.shared_bytes
        if shared is None or (kernel.dynamic_shared and not shared):
            shared = _SHARED_BYTES if kernel.dynamic_shared else 0
        for grid in _grids(launch):
            yield grid, launch.block, shared
    for grid, block in (*_SHAPES[kernel.axes], *(_SHAPES[1][:2] if kernel.axes > 1 else ())):  # a rank reads all axes
        yield grid, block, _SHARED_BYTES if kernel.dynamic_shared else 0


def _grids(launch: HostLaunch) -> Iterator[tuple[int, ...]]:
    """Yield small grids for a launch in the file: its own where that is small and not a single block first."""
    few = tuple(_BLOCKS[len(launch.grid)] for _ in launch.grid)
    own = tuple(few[0] if each is None or each < 1 else each for each in launch.grid)
    if 1 < math.prod(own) <= _MOST_BLOCKS:
        yield own
    else:
        yield few
        if math.prod(own) == 1:
            yield own


def _listed(sizes: Sequence[int]) -> str:
    return ",".join(map(str, sizes))


def _values(grid: Sequence[int], block: Sequence[int]) -> dict[int, None]:
    """Return values for the integers of a launch: sizes along x, of everything, of a block, and small ones."""
    threads = math.prod(block)
    return dict.fromkeys((grid[0] * block[0], math.prod(grid) * threads, threads, block[0], *_SMALL))


def _argument(parameter: Parameter, value: int, number: int = 1, fill: str = _FILL) -> str | None:
    """Return an argument as words; ``None`` where the parameter is not plain, or a struct of too many numbers."""
    members, name, words = parameter.members, parameter.name, parameter.type.split()
    if any(each in TEXTURES for each in words):
        return f"{name}=uint64[{_NUMBERS}]{fill}" if parameter.pointer else f"{name}=uint64:{number}"
    if any(each in SURFACES for each in words):
        return None if parameter.pointer else f"{name}=surface[{_SURFACE}]"
    if not members or not name:
        return None
    name += "_" * (name in ("grid", "block", "shared"))  # which mean the launch's own
    if not parameter.pointer:
        if len(members) > _MOST_BY_VALUE:
            return None
        runs = ((kind, len(list(run))) for kind, run in groupby(members))
        return f"{name}={'+'.join(f'{kind}:{_numbers(kind, value, count)}' for kind, count in runs)}"
    size = sum(np.dtype(each).itemsize for each in members)
    kinds = Counter(members)
    kind = members[0] if len(kinds) == 1 else "int32" if size % 4 == 0 else "uint8"  # as numbers, or as indices
    return f"{name}={kind}[{_NUMBERS}]{'' if kind.startswith('float') else fill}"


def _numbers(kind: str, value: int, count: int) -> str:
    number = 1 if kind.startswith("float") or kind.endswith("int8") else value
    return ",".join([str(number)] * count)

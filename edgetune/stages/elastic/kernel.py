"""Facts about a kernel, its elastic forms, and the reasons for refusals.

PTX -> CudaKernel (what it takes and uses) -> Variant (a form of it, with a symbol of its own)
                                           -> Refusal (code, line, reason, remedy)

The names of elastic kernels, and the parameters that they take beyond those of the original.

    original                     elastic
    vadd<<<(6,1,1), 256>>>(a)    vadd__grid<<<2, 256>>>(a, {grid (6,1,1), block (256,1,1), first 0, count 3})
                                 vadd__grid<<<2, 256>>>(a, {grid (6,1,1), block (256,1,1), first 3, count 3})

Every elastic kernel takes its own parameters first, unchanged, then ``edgetune_launch`` by value, eight ``unsigned
int``: the logical launch, which the program asked for, and the part of its blocks to run. Logical blocks are numbered
with x fastest. The physical grid is one-dimensional and of any size: a physical block that has finished a logical block
goes on to the next. At grid level the physical block has the shape of the logical block. At block level it has one
dimension, and a physical thread runs the logical threads whose number equals its own modulo the physical block size, so
that lanes of a warp keep their places where that size is a multiple of 32. Forms stop where not every physical thread
has as many logical ones, or where lanes of a warp meet and that size is no multiple of 32.

A physical block computes the index of a logical block from its number, x = number % grid.x, y = number / grid.x ...,
with divisions in grids of two and three dimensions only (Zhao et al., Miriam, SenSys 2023, section on the
source-to-source transformer).

A persistent form is launched once with as many physical blocks as the GPU holds, which take logical blocks until none
is left (persistent threads: Gupta et al. 2012, A study of persistent threads style GPU programming). Its last parameter
is the address of three words of device memory, ``edgetune_control``:

    next     the logical block that is taken next; the host sets it to 0 before a call
    done     logical blocks that have been done; likewise
    quota    physical blocks whose rank is below it go on; anyone may change it at any time

    thread 0:  rank < quota ? atomicAdd(next, 1) : leave        for the whole block, before each logical block
               atomicAdd(done, 1)                               behind it

In its launch ``count`` bounds the counter, and ``first`` is the rank of the first physical block: a block has rank
first + blockIdx.x. A block leaves before it takes, so that no logical block is lost; preemption takes one logical block
and no host. Another launch with the same words goes on where the counter is, also beside one that still runs: with
``first`` at the old quota it brings back the blocks that have left. All is done once ``done`` is the count; the counter
goes beyond that by one at most for each physical block that was launched, and the sum must fit 32 bits. A launch that
comes late finds nothing left; one that comes so late that the words are those of the next request helps with that.

Explains what was done to a kernel and why that is safe, and why something was not done.

vadd (line 3): 4 parameters
  grid: vadd__grid
    %ctaid and %nctaid are those of the logical launch ...
  the grid alone is elastic: line 7: shared-wait: ... -> wait by a barrier
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from edgetune.errors import InputError

PARAMETER = "edgetune_launch"
_PACKING = struct.Struct("<8I")
SIZE_BYTES, FIRST_OFFSET_BYTES, COUNT_OFFSET_BYTES = _PACKING.size, 24, 28
"""Of a packed launch, whose last two numbers alone change from shard to shard."""

MOST_BLOCKS = 2**32 - 1
"""Most logical blocks that can be numbered."""

PER_THREAD = (1, 2, 4, 8)
"""Numbers of logical threads that a physical one may run."""


WARP_THREADS = 32

Level = Literal["grid", "block", "persistent"]
Dim = tuple[int, int, int]

CONTROL = "edgetune_control"
"""The last parameter of a persistent form: the address of the words ``next``, ``done`` and ``quota``."""
CONTROL_BYTES, DONE_OFFSET_BYTES, QUOTA_OFFSET_BYTES = 12, 4, 8
NO_QUOTA = 2**32 - 1
"""The quota with which no block leaves early."""


def dim(sizes: Sequence[int]) -> Dim:
    """Return sizes along x, y and z, of which the last are 1 where they are left out.

    Raises:
        InputError: there are none or more than three, or one is not positive.
    """
    if not 1 <= len(sizes) <= 3 or min(sizes) < 1:
        raise InputError(f"{list(sizes)} is not one to three numbers above zero", "x first, e.g. 196 or 14,14")
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z


def packed(grid: Dim, block: Dim, first: int, count: int) -> bytes:
    """Return the parameter as the kernel reads it (little endian, as every CUDA platform)."""
    return _PACKING.pack(*grid, *block, first, count)


def form_symbol(kernel: str, level: Level, per_thread: int = 1) -> str:
    """Return the name of a form of a kernel, e.g. ``vadd__grid`` or ``vadd__block4``."""
    return f"{kernel}__{level}{per_thread if level == 'block' else ''}"


PERSISTENT = 0
"""The key of persistent forms, beside numbers of logical threads in a physical one; that of originals is ``None``."""


def symbol_of(kernel: str, key: int | None) -> str:
    """Return the symbol of a kernel or of one of its forms by its key."""
    if key is None:
        return kernel
    return form_symbol(kernel, "persistent" if key == PERSISTENT else "grid" if key == 1 else "block", key)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter.

    Args:
        type: Its type and size in PTX, e.g. ``u64[8]``.
        name: Its name.
        memory: The type of the numbers that it points to, e.g. ``f32``; empty where it is not seen to be an address.
    """

    type: str
    name: str
    memory: str = ""

    @property
    def size_bytes(self) -> int:
        """Its size."""
        return int(self.type.partition("[")[2].rstrip("]"))


@dataclass(frozen=True, slots=True)
class CudaKernel:
    """A kernel as its instructions show it.

    Args:
        name: The name that launches it.
        line: Of its first instruction that comes from the source, or of its name in PTX, from 1.
        parameters: In order.
        barriers: Barriers in it.
        static_shared: Whether it declares shared memory of fixed size.
        dynamic_shared: Whether it uses shared memory whose size the launch gives.
        warp: Whether it uses warp primitives (shuffles, votes, ``__syncwarp``): these keep their meaning only where the
            physical block is a multiple of 32.
        float_atomics: Whether it adds floating-point numbers atomically: results then depend on the order of blocks, in
            the original too, and are compared with a tolerance.
        axes: Axes of the block on which it reads the thread's index: 2 where it reads ``threadIdx.y``.
        textures: Whether it uses textures or surfaces, which only the host of a GPU can make.
        rows: Whether its forms need blocks with whole warps along x, or of one row: they stop in others.
    """

    name: str
    line: int
    parameters: tuple[Parameter, ...]
    barriers: int = 0
    static_shared: bool = False
    dynamic_shared: bool = False
    warp: bool = False
    float_atomics: bool = False
    axes: int = 1
    textures: bool = False
    rows: bool = False

    def suits(self, block: Dim) -> bool:
        """Return whether its forms run blocks of this shape."""
        return not self.rows or block[0] % WARP_THREADS == 0 or block[1] * block[2] == 1


@dataclass(frozen=True, slots=True)
class Variant:
    """A form of a kernel.

    Args:
        symbol: Its name for the launch.
        level: The elastic part of the launch; ``persistent``: the grid, and logical blocks are taken from a counter.
        per_thread: Logical threads in a physical one.
    """

    symbol: str
    level: Level
    per_thread: int = 1


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a kernel, or one level of it, stays as it is.

    Args:
        code: Stable over versions, e.g. ``grid-sync``.
        line: From 1.
        reason: Why it cannot be made elastic safely, one line.
        remedy: What to do about it, one line.
        kernel: Its name.
        level: ``grid``: no form was made; ``block``: only the grid is elastic.
        file: The header in which the line is; ``None``: the file itself.
    """

    code: str
    line: int
    reason: str
    remedy: str
    kernel: str
    level: Level = "grid"
    file: str | None = None


@dataclass(frozen=True, slots=True)
class ElasticKernel:
    """The result of the transformation of one kernel.

    Args:
        kernel: The original.
        variants: Its elastic forms; empty where it is refused.
        refusals: Why there are no more.
        steps: What was done to it and why that is safe, a line each, in order.
    """

    kernel: CudaKernel
    variants: tuple[Variant, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    steps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TransformResult:
    """The result of the transformation of a file.

    Args:
        source: PTX: all of the original, and behind it the elastic forms.
        kernels: In the order of the file.
    """

    source: str
    kernels: tuple[ElasticKernel, ...]


_MOST_NAMED = 3
"""Kernels that one line names, and places besides the first."""


def explained(done: TransformResult) -> Iterator[str]:
    """Yield the explanation of a file, line by line."""
    for each in done.kernels:
        yield f"{each.kernel.name} (line {each.kernel.line}): {used(each.kernel)}"
        for level in get_args(Level):
            symbols = [variant.symbol for variant in each.variants if variant.level == level]
            if symbols:
                yield f"  {level}: {', '.join(symbols)}"
        yield from (f"    {step}" for step in each.steps)
        yield from (f"  {cost(each, refused)}: {_place(refused)}: {describe(refused)}" for refused in each.refusals)


def cost(each: ElasticKernel, refused: Refusal) -> str:
    """Return what a refusal costs a kernel."""
    if each.variants:
        return "the grid alone is elastic"
    return "left as it is" if refused.level == "grid" else "nor could its blocks be elastic"


def reasons(done: TransformResult) -> list[str]:
    """Return the refusals of a file, a line each; one of several kernels, as of instances, or places is given once."""
    found: dict[str, list[tuple[str, str]]] = {}
    for each in done.kernels:
        for refused in each.refusals:
            text = f"{cost(each, refused)}: {describe(refused)}"
            found.setdefault(text, []).append((each.kernel.name, _place(refused)))
    lines = []
    for text, where in found.items():
        names, (first, *others) = (list(dict.fromkeys(column)) for column in zip(*where, strict=True))
        others = [*others[:_MOST_NAMED], *["..."] * (len(others) > _MOST_NAMED)]
        more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        also = f" (also {', '.join(others)})" if others else ""
        lines.append(f"{first}: {', '.join(names[:_MOST_NAMED])}{more}: {text}{also}")
    return lines


NO_ROWS = "its forms stop in blocks whose rows of threads are no whole warps"
ROWS = "launch it with blocks of 32, 64 ... threads along x, e.g. block=32,8"
"""The reason and the remedy where a kernel does not suit a block."""


def describe(refused: Refusal) -> str:
    """Return a refusal as one line."""
    return f"{refused.code}: {refused.reason} -> {refused.remedy}"


def used(kernel: CudaKernel) -> str:
    """Return what a kernel uses, as words."""
    words = [_counted(len(kernel.parameters), "parameter")]
    words += [_counted(kernel.barriers, "barrier")] * bool(kernel.barriers)
    words += ["static shared memory"] * kernel.static_shared + ["dynamic shared memory"] * kernel.dynamic_shared
    words += ["warp primitives"] * kernel.warp + ["floating-point atomics"] * kernel.float_atomics
    return ", ".join(words)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _place(refused: Refusal) -> str:
    """Return a place as a message shows it: ``line 3``, or ``loops.h:3`` of a header."""
    return f"line {refused.line}" if refused.file is None else f"{refused.file}:{refused.line}"

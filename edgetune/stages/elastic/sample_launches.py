"""Launches to try a kernel with, written beside it in its source as comments.

    // launch saxpy grid=6 block=256 y=float32[1500] x=float32[1500] a=float32:0.5 n=int32:1500
    // launch blur grid=4,4 block=16,8 shared=1024 out=float32[64x32]:zero in=float32[64x32] size=int32:32+int32:64

An argument, in the order of the kernel's parameters, is memory, ``TYPE[SHAPE]``, or a value, ``TYPE:NUMBER``. A struct
is its members joined by ``+`` (several of one type: ``TYPE:NUMBER,NUMBER``), with padding written as a member too.
Memory is filled by chance with numbers from -1 to 1, with integers from 0 to 99; ``:zero``, ``:count`` (0, 1, 2 ...)
and ``:LOW..HIGH`` (integers below HIGH; with a point in one of them, e.g. ``:0.0..1.0``, numbers in between) say
otherwise. Types are named with their bits, as numpy names them: C's int is int32, unsigned int uint32, float float32,
double float64, char int8. CUDA's vectors are several numbers of one type: ``float4[16]`` is 64 of float32, ``int2:3,4``
two of int32. An instance of a template is named as it is launched, ``k<float, 16>``, or by its copy, ``k_float_16``.

Of a kernel without a launch one is guessed: arrays of small numbers, of a size that the guess states.

A texture is a number, e.g. ``uint64:1``: on the CPU what it holds is made of the number and the coordinates.

Physical launches of kernels to run on the CPU, the order in which their blocks and threads run, and the outcome.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from edgetune.errors import InputError
from edgetune.stages.elastic.gpu import Argument, Call, Logical, Pointer, Scalar
from edgetune.stages.elastic.kernel import CudaKernel, Dim, dim

Array: TypeAlias = np.ndarray[Any, Any]

_VECTORS = {
    f"{name}{count}": (number, count)
    for name, number in {
        "char": "int8", "uchar": "uint8", "short": "int16", "ushort": "uint16", "int": "int32", "uint": "uint32",
        "long": "int64", "ulong": "uint64", "longlong": "int64", "ulonglong": "uint64", "float": "float32",
        "double": "float64", "half": "float16", "__half": "float16",
    }.items()
    for count in (1, 2, 3, 4)
}  # fmt: skip
"""CUDA's vector types, each with numpy's name of its numbers and their count."""
_LINE = re.compile(
    r"^[ \t]*//[ \t]*launch[ \t]+(?P<kernel>\w+(?:[ \t]*<.*?>(?=[ \t]))?)[ \t]+(?P<words>\S.*?)[ \t]*$", re.MULTILINE
)
_MEMORY = re.compile(r"(?P<type>[a-z_]+\d*)\[(?P<shape>\d+(?:x\d+)*)\](?::(?P<fill>\S+))?")
_NUMBER = r"-?\d+(?:\.\d+)?"
_RANGE = re.compile(rf"({_NUMBER})\.\.({_NUMBER})")
_OF_C = {"int": "int32 for C's int, int64 for long", "uint": "uint32 for C's unsigned int, uint64 for unsigned long",
         "long": "int64", "ulong": "uint64", "float": "float32 for C's float, float64 for double"}  # fmt: skip
"""Names of C that mean another size to numpy."""
HINT = (
    "write e.g. `// launch saxpy grid=6 block=256 y=float32[1500] x=float32[1500] a=float32:0.5 n=int32:1500`, "
    "arguments in the order of the parameters; see `edgetune help kernels`"
)


GUESS = "--guess"
"""The place of launches that were written nowhere."""


@dataclass(frozen=True, slots=True)
class SampleLaunch:
    """A launch, and the memory that it reads and writes.

    Args:
        call: The kernel, its logical launch and its arguments.
        buffers: Device memory by name as it is before the launch.
        words: The launch as it was written.
        place: Where it was written: file and line.
    """

    call: Call
    buffers: Mapping[str, Array]
    words: str = ""
    place: str = ""

    @property
    def guess(self) -> str | None:
        """Its words, where it was guessed."""
        return self.words if self.place.startswith(GUESS) else None


def sample_launches_in(source: str, name: str) -> tuple[SampleLaunch, ...]:
    """Return the launches that stand in a source as comments, in order.

    Args:
        source: CUDA C.
        name: Of the file, for messages.

    Raises:
        InputError: a comment begins as a launch and cannot be read, the message has its line; or its memory does not
            fit here.
    """
    trials: list[SampleLaunch] = []
    for found in _LINE.finditer(source):
        if "grid=" not in found["words"]:  # a sentence
            continue
        kernel, line = instance_symbol(found["kernel"]), source.count("\n", 0, found.start()) + 1
        try:
            trial = _trial(kernel, found["words"].split(), len(trials))
            trials.append(replace(trial, words=f"{kernel} {found['words']}", place=f"{name}:{line}"))
        except (ValueError, InputError) as error:
            raise InputError(f"{name}:{line}: cannot read the launch of {found['kernel']}: {error}", HINT) from None
        except MemoryError:
            message = f"{name}: there is no room here for the memory of the launch of {found['kernel']}"
            raise InputError(message, "launch a smaller grid on smaller memory") from None
    return tuple(trials)


def _trial(kernel: str, words: list[str], seed: int) -> SampleLaunch:
    random = np.random.default_rng(seed)
    sizes, shared_bytes = dict[str, Dim](), 0
    arguments: list[Argument] = []
    buffers: dict[str, Array] = {}
    for word in words:
        name, _, value = word.partition("=")
        if not name or not value:
            raise ValueError(f"{word!r} is not name=value")
        if name in ("grid", "block"):
            sizes[name] = dim([*map(int, value.split(","))])
        elif name == "shared":
            shared_bytes = int(value)
        elif memory := _MEMORY.fullmatch(value):
            if name in buffers:
                raise ValueError(f"{name} is given twice")
            buffers[name] = _filled(memory, random)
            arguments.append(Pointer(name))
        else:
            arguments.append(Scalar(_value(value)))
    if len(sizes) < 2:
        raise ValueError("it needs grid= and block=")
    return SampleLaunch(Call(kernel, Logical(sizes["grid"], sizes["block"], shared_bytes), tuple(arguments)), buffers)


def instance_symbol(instance: str) -> str:
    """Return the name of the copy of a template kernel: ``kernel_float_16`` of ``kernel<float, 16>``."""
    return "_".join(re.findall(r"\w+", instance))


def _type(name: str) -> tuple[np.dtype[Any], int]:
    """Return the type of the numbers that a type has, and how many: 4 of ``float4``."""
    if name in _VECTORS:
        number, count = _VECTORS[name]
        return np.dtype(number).newbyteorder("<"), count
    if name in _OF_C:
        raise ValueError(f"{name!r} does not say its size: write {_OF_C[name]}")
    try:
        dtype: np.dtype[Any] = np.dtype(name).newbyteorder("<")
    except TypeError:
        raise ValueError(f"{name!r} is no type; types are numpy's, e.g. float32, int32, uint8, or float4 ...") from None
    return dtype, 1


def _value(text: str) -> bytes:
    packed = b""
    for member in text.split("+"):
        kind, colon, numbers = member.partition(":")
        if not colon:
            raise ValueError(f"{member!r} is neither TYPE[SHAPE] nor TYPE:NUMBER")
        dtype, count = _type(kind)
        if count > 1 and len(numbers.split(",")) != count:
            raise ValueError(f"{member!r} needs {count} numbers, with commas between")
        number = float if dtype.kind == "f" else int
        try:
            packed += np.array([number(each) for each in numbers.split(",")], dtype).tobytes()
        except OverflowError:
            raise ValueError(f"{numbers} does not fit into {kind}") from None
    return packed


def _filled(memory: re.Match[str], random: np.random.Generator) -> Array:
    sizes = tuple(int(size) for size in memory["shape"].split("x"))
    dtype, count = _type(memory["type"])
    shape = (*sizes, *[count] * (count > 1))
    fill = memory["fill"]
    if fill == "zero":
        return np.zeros(shape, dtype)
    if fill == "count":
        return np.arange(math.prod(shape)).astype(dtype).reshape(shape)
    if fill is not None:
        return _in_range(fill, shape, dtype, random)
    if dtype.kind == "f":
        return random.uniform(-1, 1, shape).astype(dtype)
    return random.integers(0, 100, shape).astype(dtype)


def _in_range(fill: str, shape: tuple[int, ...], dtype: np.dtype[Any], random: np.random.Generator) -> Array:
    limits = _RANGE.fullmatch(fill)
    if limits is None:
        raise ValueError(f"{fill!r} is none of zero, count, LOW..HIGH")
    number = float if "." in fill.replace("..", " ") else int
    if number is float and dtype.kind != "f":
        raise ValueError(f"{fill!r} are no integers, as those of {dtype.name} are")
    low, high = map(number, limits.groups())
    if high <= low:
        raise ValueError(f"{fill!r} holds no number: LOW is below HIGH")
    if number is float:
        return random.uniform(low, high, shape).astype(dtype)
    return random.integers(int(low), int(high), shape).astype(dtype)


_GUESSED_NUMBERS = 65536
"""In each array: the square of the threads of a flat guess."""


def guessed_launch(kernel: CudaKernel) -> str | None:
    """Return a launch to try a kernel with, as words; ``None`` where a parameter is neither an address nor a number.

    Args:
        kernel: It gets arrays of small numbers, and numbers that suit the count of threads.
    """
    flat = kernel.axes == 1
    words = [kernel.name, *(("grid=4", "block=64") if flat else ("grid=2,2", "block=16,16"))]
    words += ["shared=4096"] * kernel.dynamic_shared
    for place, each in enumerate(kernel.parameters):
        if each.memory:
            kind, bits = ("float" if each.memory[0] == "f" else "int"), each.memory[1:]
            value = f"{kind}{bits}[{_GUESSED_NUMBERS}]" + ":0..4" * (kind == "int")
        elif each.type in ("f32[4]", "f64[8]"):
            value = f"float{each.type[1:3]}:0.5"
        elif each.type[0] in "us" and each.type.endswith(("[4]", "[8]")):
            value = f"int{each.type[1:3]}:{256 if flat else 32}"
        else:
            return None
        words.append(f"p{place}={value}")
    return " ".join(words)


Order = Literal["forward", "reverse", "random", "any"]
Status = Literal["ok", "deadlock", "mismatched-barrier", "hang", "crash"]


@dataclass(frozen=True, slots=True)
class ExecutionOrder:
    """The order in which the blocks of a grid, and between barriers the threads of a block, run.

    Args:
        order: By number, ascending or descending, or random at each round of turns; any: as a GPU chooses.
        seed: Of the random order, and of the turns of blocks of persistent forms.
    """

    order: Order = "forward"
    seed: int = 0

    def __str__(self) -> str:
        return f"{self.order} order {self.seed}" if self.order == "random" or self.seed else f"{self.order} order"


FORWARD = ExecutionOrder("forward")
REVERSE = ExecutionOrder("reverse")


def chance(seed: int) -> ExecutionOrder:
    """Return the random order with this seed."""
    return ExecutionOrder("random", seed)


@dataclass(frozen=True, slots=True)
class CpuLaunch:
    """A physical launch of a kernel or of one of its forms on the CPU.

    Args:
        symbol: Of the kernel.
        grid: Blocks along x, y, z.
        block: Threads along x, y, z.
        arguments: In the order of the kernel's parameters; pointers name buffers of the run.
        dynamic_shared_bytes: Of each block.
        rank: Of the first physical block of a persistent form, whose control words are in the buffer ``CONTROL``.
        quota_changes: Whether its quota changes at random moments; afterwards it is what it was.
    """

    symbol: str
    grid: Dim
    block: Dim
    arguments: tuple[Argument, ...] = ()
    dynamic_shared_bytes: int = 0
    rank: int | None = None
    quota_changes: bool = False


@dataclass(frozen=True, slots=True)
class CpuResult:
    """The outcome of a sequence of launches on the CPU.

    Args:
        status: ``ok``; ``deadlock``: threads wait for others that never come; ``mismatched-barrier``: they wait at
            different ones; ``hang``: it did not end in time; ``crash``: it touched memory that is not its own, divided
            an integer by zero, trapped.
        message: What happened and where, one line; empty after success.
        line: Of the text, from 1, where it is known.
        buffers: Their contents after the last launch, and those of variables of the text in device memory; empty unless
            all went well.
    """

    status: Status
    message: str
    line: int | None
    buffers: Mapping[str, np.ndarray[Any, Any]]


Buffers = Mapping[str, np.ndarray[Any, Any]]
Sequenced = tuple[Sequence[CpuLaunch], ExecutionOrder]

LIMIT_S = 10
"""CPU time of one sequence of launches before it counts as endless, s."""

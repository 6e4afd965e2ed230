"""Facts about a kernel from its source, its elastic forms, and the reasons for refusals.

FILE.cu -> CudaKernel (what it takes and uses) -> Variant (a form of it, with a symbol of its own)
                                               -> Refusal (code, line, reason, remedy)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from edgetune.stages.elastic.abi import Level

VECTORS = {
    f"{name}{count}": (number, count)
    for name, number in {
        "char": "int8", "uchar": "uint8", "short": "int16", "ushort": "uint16", "int": "int32", "uint": "uint32",
        "long": "int64", "ulong": "uint64", "longlong": "int64", "ulonglong": "uint64", "float": "float32",
        "double": "float64", "half": "float16", "__half": "float16",
    }.items()
    for count in (1, 2, 3, 4)
}  # fmt: skip
"""CUDA's vector types, each with numpy's name of its numbers and their count."""
TEXTURES, SURFACES = ("cudaTextureObject_t", "CUtexObject"), ("cudaSurfaceObject_t", "CUsurfObject")
"""Types of parameters that only the host of a GPU can make."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter as declared.

    Args:
        type: Its type as written, e.g. ``const float *``.
        name: Its name.
        members: The numbers that it is made of, or the memory that it points to, by numpy's names and with padding:
            four ``float32`` of ``float4 *``; empty where the type is not plain.
        pointer: Whether it points to memory.
        inner_pointers: Whether it is a struct that holds pointers, or memory of pointers: no launch can give these.
    """

    type: str
    name: str
    members: tuple[str, ...] = ()
    pointer: bool = False
    inner_pointers: bool = False


@dataclass(frozen=True, slots=True)
class HostLaunch:
    """A launch of a kernel in the host's code, as far as it is constant.

    Args:
        grid: Blocks along each axis; ``None`` where that is no constant.
        block: Threads along each axis.
        shared_bytes: Dynamic shared memory; ``None`` where it is no constant.
    """

    grid: tuple[int | None, ...]
    block: tuple[int, ...]
    shared_bytes: int | None = 0


@dataclass(frozen=True, slots=True)
class CudaKernel:
    """A kernel as its source shows it.

    Args:
        name: The name that launches it.
        line: First line of its definition, from 1.
        parameters: In order.
        barriers: Barriers in it, and in the functions it calls.
        static_shared: Whether it declares shared memory of fixed size.
        dynamic_shared: Whether it uses shared memory whose size the launch gives.
        warp: Whether it uses warp primitives (shuffles, votes, ``__syncwarp``): these keep their meaning only where the
            physical block is a multiple of 32.
        float_atomics: Whether it adds floating-point numbers atomically: results then depend on the order of blocks, in
            the original too, and are compared with a tolerance.
        axes: Axes of the block on which it reads the thread's index: 2 where it reads ``threadIdx.y``.
        tables: Whether it reads tables of the file in constant memory, whose size a launch has to fit.
        launches: Its launches in the file whose blocks have a constant size.
        file: The header that defines it; ``None``: the file itself.
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
    tables: bool = False
    launches: tuple[HostLaunch, ...] = ()
    file: str | None = None


@dataclass(frozen=True, slots=True)
class Variant:
    """A form of a kernel.

    Args:
        symbol: Its name for the launch; all variants are ``extern "C"``.
        level: The elastic part of the launch; ``persistent``: the grid, and logical blocks are taken from a counter.
        per_thread: Logical threads in a physical one; ``None`` for any physical block size.
    """

    symbol: str
    level: Level
    per_thread: int | None = 1


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a file, a kernel, or one level of it stays as it is.

    Args:
        code: Stable over versions, e.g. ``grid-sync``.
        line: From 1.
        reason: Why it cannot be made elastic safely, one line.
        remedy: What to do about it, one line.
        kernel: Its name; ``None`` for the whole file.
        level: ``grid``: no form was made; ``block``: only the grid is elastic.
        file: The header in which the line is; ``None``: the file itself.
    """

    code: str
    line: int
    reason: str
    remedy: str
    kernel: str | None = None
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
        source: CUDA C or PTX: all of the original, and behind each kernel its elastic forms. ``#line`` keeps the
            numbers of the original's lines in messages of compilers.
        kernels: In the order of the file.
        refusals: Text that looks like a kernel and could not be read, and headers that were not found.
        device: The source with nothing but kernels that have forms, or were asked for, and what these reach, on the
            same lines: for compilers that do not know the host's API. Empty where there are none.
        language: Of the source: ``cuda``, or ``ptx``, which is compiled already.
        alone: Returns the device source with one kernel only, by its name: for a compiler that refuses another one.
    """

    source: str
    kernels: tuple[ElasticKernel, ...]
    refusals: tuple[Refusal, ...] = ()
    device: str = ""
    language: Literal["cuda", "ptx"] = "cuda"
    alone: Callable[[str], str] | None = field(default=None, compare=False, repr=False)

    @property
    def compiled(self) -> str:
        """The source for compilers: the device source, or all of it where there is none."""
        return self.device or self.source

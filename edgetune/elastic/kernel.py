"""What is known of a kernel from its source, what was made of it, and why something was not.

FILE.cu -> Kernel (what it takes and uses) -> Variant (a form of it, with a symbol of its own)
                                           -> Refusal (code, line, why, what to do)
"""

from __future__ import annotations

from dataclasses import dataclass

from edgetune.elastic.abi import Level


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter as declared.

    Args:
        type: Its type as written, e.g. ``const float *``.
        name: Its name.
    """

    type: str
    name: str


@dataclass(frozen=True, slots=True)
class CudaKernel:
    """A kernel as its source shows it.

    Args:
        name: As it is launched by.
        line: Where its definition begins, from 1.
        parameters: In order.
        barriers: How many barriers stand in it, and in the functions it calls.
        static_shared: Whether it declares shared memory of fixed size.
        dynamic_shared: Whether it uses shared memory whose size the launch gives.
        warp: Whether it uses warp primitives (shuffles, votes, ``__syncwarp``): these keep their meaning only where the
            physical block is a multiple of 32.
        float_atomics: Whether it adds floating-point numbers atomically: results then depend on the order of blocks, in
            the original too, and are compared with a tolerance.
        extern_c: Whether its symbol is its name (``extern "C"``); else the compiler mangles it.
        axes: Of a block, as many as it asks its threads' places on: 2 where it reads ``threadIdx.y``.
    """

    name: str
    line: int
    parameters: tuple[Parameter, ...]
    barriers: int = 0
    static_shared: bool = False
    dynamic_shared: bool = False
    warp: bool = False
    float_atomics: bool = False
    extern_c: bool = False
    axes: int = 1


@dataclass(frozen=True, slots=True)
class Variant:
    """A form of a kernel.

    Args:
        symbol: By which it is launched; all variants are ``extern "C"``.
        level: What of the launch is elastic.
        per_thread: Logical threads in a physical one; ``None`` where every physical block size will do.
    """

    symbol: str
    level: Level
    per_thread: int | None = 1


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a file, a kernel, or one level of it was left alone.

    Args:
        code: A word that stays the same over versions, e.g. ``grid-sync``.
        line: Where, from 1.
        reason: Why it cannot be made elastic safely, one line.
        remedy: What to do about it, one line.
        kernel: Of which kernel; ``None`` of the whole file.
        level: ``grid``: nothing was made; ``block``: only the grid is elastic.
    """

    code: str
    line: int
    reason: str
    remedy: str
    kernel: str | None = None
    level: Level = "grid"


@dataclass(frozen=True, slots=True)
class ElasticKernel:
    """What became of one kernel.

    Args:
        kernel: The original.
        variants: Its elastic forms; empty where it was refused.
        refusals: Why there are no more.
        steps: What was done to it and why that is safe, a line each, in order.
    """

    kernel: CudaKernel
    variants: tuple[Variant, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    steps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TransformResult:
    """What became of a file.

    Args:
        source: CUDA C: all of the original, and behind it the elastic forms. ``#line`` keeps the numbers of the
            original's lines in messages of compilers.
        kernels: In the order of the file.
        refusals: What of the file is like a kernel and could not be read, and headers that were not found.
        device: The source with nothing in it but kernels that have forms, or were asked for, and what these reach, on
            the same lines: for compilers that do not know the host's API. Empty where there are none.
    """

    source: str
    kernels: tuple[ElasticKernel, ...]
    refusals: tuple[Refusal, ...] = ()
    device: str = ""

    @property
    def compiled(self) -> str:
        """What compilers are given: what is for the GPU, or all of it where nothing is known to be."""
        return self.device or self.source

"""Facts about a kernel, its elastic forms, and the reasons for refusals.

PTX -> CudaKernel (what it takes and uses) -> Variant (a form of it, with a symbol of its own)
                                           -> Refusal (code, line, reason, remedy)
"""

from __future__ import annotations

from dataclasses import dataclass

from edgetune.stages.elastic.abi import Level


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

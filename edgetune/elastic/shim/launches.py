"""What is run on the shim, in which order its threads take turns, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from edgetune.elastic.abi import Dim
from edgetune.elastic.work import Argument

if TYPE_CHECKING:
    import numpy as np

Order = Literal["forward", "reverse", "random"]
Status = Literal["ok", "deadlock", "mismatched-barrier", "hang", "crash"]


@dataclass(frozen=True, slots=True)
class ExecutionOrder:
    """In which order the blocks of a grid, and between barriers the threads of a block, take their turns.

    Args:
        order: By number, ascending or descending, or anew by chance at each round of turns.
        seed: Of chance.
    """

    order: Order = "forward"
    seed: int = 0

    def __str__(self) -> str:
        return f"random order {self.seed}" if self.order == "random" else f"{self.order} order"


FORWARD = ExecutionOrder("forward")
REVERSE = ExecutionOrder("reverse")


def chance(seed: int) -> ExecutionOrder:
    """Return the schedule of random order with this seed."""
    return ExecutionOrder("random", seed)


@dataclass(frozen=True, slots=True)
class ShimLaunch:
    """A launch, physical: whatever form of a kernel the symbol names.

    Args:
        symbol: Of the kernel.
        grid: Blocks along x, y, z.
        block: Threads along x, y, z.
        arguments: In the order of the kernel's parameters; pointers name buffers of the run.
        dynamic_shared_bytes: Of each block.
    """

    symbol: str
    grid: Dim
    block: Dim
    arguments: tuple[Argument, ...] = ()
    dynamic_shared_bytes: int = 0


@dataclass(frozen=True, slots=True)
class ShimResult:
    """What came of a sequence of launches.

    Args:
        status: ``ok``; ``deadlock``: threads wait for others that never come; ``mismatched-barrier``: they wait at
            different ones; ``hang``: it did not end in time; ``crash``: it touched memory that is not its own, divided
            an integer by zero, trapped.
        message: What happened and where, one line; empty where all went well.
        line: Of the source, from 1, where it is known.
        buffers: As they are after the last launch; empty unless all went well.
    """

    status: Status
    message: str
    line: int | None
    buffers: Mapping[str, np.ndarray[Any, Any]]

"""Physical launches of kernels to run on the CPU, the order in which their blocks and threads run, and the outcome."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from edgetune.stages.elastic.abi import Dim
from edgetune.stages.elastic.work import Argument

Order = Literal["forward", "reverse", "random"]
Status = Literal["ok", "deadlock", "mismatched-barrier", "hang", "crash"]


@dataclass(frozen=True, slots=True)
class ExecutionOrder:
    """The order in which the blocks of a grid, and between barriers the threads of a block, run.

    Args:
        order: By number, ascending or descending, or random at each round of turns.
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
class Taking:
    """How the blocks of a persistent form take logical blocks: a few of them run in turns.

    Args:
        control: The buffer of the control words (see ``abi``), of which only atomic operations may change the counter.
        rank: Of the first physical block.
        quota_changes: Whether the quota changes at random moments; afterwards it is what it was.
    """

    control: str
    rank: int = 0
    quota_changes: bool = False


@dataclass(frozen=True, slots=True)
class CpuLaunch:
    """A physical launch of a kernel or of one of its forms on the CPU.

    Args:
        symbol: Of the kernel.
        grid: Blocks along x, y, z.
        block: Threads along x, y, z.
        arguments: In the order of the kernel's parameters; pointers name buffers of the run.
        dynamic_shared_bytes: Of each block.
        taking: Of a persistent form.
    """

    symbol: str
    grid: Dim
    block: Dim
    arguments: tuple[Argument, ...] = ()
    dynamic_shared_bytes: int = 0
    taking: Taking | None = None


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

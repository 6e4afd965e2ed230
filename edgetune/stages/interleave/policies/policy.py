"""The protocol of policies that are chosen by name, and the lateness that they allow for."""

from collections.abc import Sequence
from typing import ClassVar, Protocol

from edgetune.stages.interleave.snapshot import InterleavePolicy

GUARD_NS = 1_000_000
"""How late a process may be woken, ns: one tick of a kernel that ticks 1000 times a second (CONFIG_HZ, Linux
Kconfig.hz).

Timers add 50 microseconds of slack (prctl(2), PR_SET_TIMERSLACK), messages between processes about as much again.
"""


GUARD_SHARE = 0.05
"""Share of the shortest latency budget kept free on a real device: half of what plans leave free (``HEADROOM`` in
``cycle``), so that a minibatch may be slower than any before it and its requests are still in time."""


def guard_ns(budgets_s: Sequence[float]) -> int:
    """Return how long before its deadline every minibatch is to end on a real device, ns.

    Args:
        budgets_s: Latency budgets of the workloads that answer, s.
    """
    return max(GUARD_NS, round(GUARD_SHARE * min(budgets_s, default=0.0) * 1e9))


class NamedInterleavePolicy(InterleavePolicy, Protocol):
    """A policy with a name, constructed with the lateness of wake-ups to allow for.

    One that ``lines_up`` sends minibatches to begin when others end (``begin_by_ns``), which not every engine can.
    """

    name: ClassVar[str]
    lines_up: ClassVar[bool]

    def __init__(self, *, guard_ns: int = GUARD_NS) -> None: ...

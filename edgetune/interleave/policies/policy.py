"""What a policy is to those who choose one by name."""

from __future__ import annotations

from typing import ClassVar, Protocol

from edgetune.interleave.snapshot import Policy

GUARD_NS = 1_000_000
"""How late a process may be woken: one tick of a kernel that ticks 1000 times a second (CONFIG_HZ, Linux Kconfig.hz).

Timers add 50 microseconds of slack (prctl(2), PR_SET_TIMERSLACK), messages between processes about as much again.
"""


class NamedPolicy(Policy, Protocol):
    """A policy with a name, made with the lateness of wake-ups that it is to allow for."""

    name: ClassVar[str]

    def __init__(self, *, guard_ns: int = GUARD_NS) -> None: ...

"""Minibatches, and the protocol of the backends that run them: child processes on a device, or an event clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import Task


@dataclass(frozen=True, slots=True)
class Minibatch:
    """One minibatch to run.

    Args:
        tenant: Whose.
        task: ``infer`` or ``train``.
        number: Which of that tenant's, from 0.
        requests: Numbers of the requests answered, from 0 in the order of arrival; none for training.
        begin_by_ns: It begins when the running minibatch has ended, and at this time at the latest; ``None`` begins it
            now, or behind the one that its tenant runs.
    """

    tenant: str
    task: Task
    number: int
    requests: tuple[int, ...] = ()
    begin_by_ns: int | None = None


@dataclass(frozen=True, slots=True)
class FinishedMinibatch:
    """A minibatch that is over.

    Args:
        minibatch: Which.
        start_ns, end_ns: When the device ran it, on the stage's clock.
        loss: Training loss, where the workload returns it.
        failure: Why it failed, one line; ``None`` where it did not.
        failed: Requests of it that failed by themselves, with the reason; the others were answered.
        lost: Whether the tenant cannot go on: its process crashed, hung or ended.
    """

    minibatch: Minibatch
    start_ns: int
    end_ns: int
    loss: float | None = None
    failure: str | None = None
    failed: tuple[tuple[int, str], ...] = ()
    lost: bool = False


class MinibatchBackend(Protocol):
    """Runs minibatches of tenants that it holds ready."""

    def now_ns(self) -> int:
        """Return the time on the clock that stamps everything, ns."""
        ...

    def start(self, minibatch: Minibatch) -> None:
        """Begin a minibatch, or line it up; returns at once."""
        ...

    def wait(self, until_ns: int | None) -> Sequence[FinishedMinibatch]:
        """Return what is over, as soon as anything is, a request comes in from outside, or it is ``until_ns``.

        With ``None`` there is no such time, and requests from outside wait, too; where nothing runs either, it returns
        at once.
        """
        ...

    def prepare(self, tenant: str, batch_size: int) -> None:
        """Hold a tenant ready at another batch size; what is running ends first. May take long.

        Raises:
            InputError: it cannot run at this batch size; the old one is held ready.
        """
        ...

    def apply(self, mode: Mode) -> Mode:
        """Set a power mode and return it as read back.

        Raises:
            DeviceError: the device has none, or refused it.
        """
        ...

"""Minibatches, and the protocol of the backends that run them: child processes on a device, or an event clock."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import Task


@dataclass(frozen=True, slots=True)
class Minibatch:
    """One minibatch to run.

    Args:
        tenant: Name of its tenant.
        task: ``infer`` or ``train``.
        number: Its number among those of the tenant, from 0.
        requests: Numbers of the requests answered, from 0 in the order of arrival; none without a deadline.
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
    """A minibatch that has ended.

    Args:
        minibatch: The minibatch as it was started.
        start_ns, end_ns: Start and end on the device, on the backend's clock.
        loss: Training loss, where the workload returns it.
        failure: The reason of its failure, one line; ``None`` if it succeeded.
        failed: Requests that failed alone, with the reason; the others were answered.
        lost: Whether the tenant cannot continue: its process crashed, hung or ended.
    """

    minibatch: Minibatch
    start_ns: int
    end_ns: int
    loss: float | None = None
    failure: str | None = None
    failed: tuple[tuple[int, str], ...] = ()
    lost: bool = False


class MinibatchBackend(Protocol):
    """Runs minibatches of loaded tenants."""

    def now_ns(self) -> int:
        """Return the time of the clock of all times, ns."""
        ...

    def start(self, minibatch: Minibatch) -> None:
        """Begin a minibatch, or line it up, without waiting for it."""
        ...

    def wait(self, until_ns: int | None) -> Sequence[FinishedMinibatch]:
        """Wait for the end of a minibatch, a request from outside, or ``until_ns``; return the minibatches that ended.

        ``None`` waits for the end of a minibatch only, and not at all if none runs.
        """
        ...

    def prepare(self, tenant: str, batch_size: int) -> None:
        """Load a tenant at another batch size after its running minibatches; this may take long.

        Raises:
            InputError: it cannot run at this batch size; it stays loaded at the old one.
        """
        ...

    def apply(self, mode: Mode) -> Mode:
        """Set a power mode and return it as read back.

        Raises:
            DeviceError: the device has no modes, or refused this one.
        """
        ...

"""Minibatches, and the protocol of the backends that run them: child processes on a device, or an event clock.

The engines: how tenants share a device. A new one is one row of ``ENGINES``.

The workloads that share a device.

A tenant with all that loading it on a device needs, and the checkpoint it hands back.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import Task
from edgetune.plugins import Registry
from edgetune.workloads.workload import Workload


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


@dataclass(frozen=True, slots=True)
class Engine:
    """A way to share a device.

    Args:
        name: In ``--engine`` and in the rows of a run.
        policy: Name of the policy that decides by default.
        simulated: Whether minibatches are computed on an event clock and not run.
        one_process: Whether all tenants are threads of one process, with streams of two priorities, and not processes.
        lines_up: Whether a minibatch can be sent while another runs, to begin when that ends. Only then can a policy
            decide for the device as a whole; otherwise the driver shares it out.
        shares: Name of the engine whose sharing by the driver a simulation models, see ``Device.contention``.
    """

    name: str
    policy: str
    simulated: bool = False
    one_process: bool = False
    lines_up: bool = False
    shares: str = "native"


ENGINES: Registry[Engine] = Registry(
    "engine",
    {
        engine.name: engine
        for engine in (
            Engine("managed", "managed", lines_up=True),
            Engine("native", "native"),
            Engine("streams", "native", one_process=True),
            Engine("simulated", "managed", simulated=True, lines_up=True),
            Engine("simulated-native", "native", simulated=True),
            Engine("simulated-streams", "native", simulated=True, shares="streams"),
        )
    },
)


@dataclass(frozen=True, slots=True)
class Inference:
    """A workload that answers requests.

    Args:
        name: Unique among the tenants.
        batch_size: Requests per minibatch; fewer are padded to it.
        latency_budget_s: Every request is due this long after it arrived, s.
        rate_per_s: Requests per second as planned; ``None`` where it is unknown (live, closed).
        minibatch_s: Duration of a minibatch, as planned or measured before the run, s.
    """

    name: str
    batch_size: int
    latency_budget_s: float
    rate_per_s: float | None
    minibatch_s: float


@dataclass(frozen=True, slots=True)
class Training:
    """A workload that trains in the time that answers leave, or one that infers without a deadline.

    Args:
        name: Unique among the tenants.
        batch_size: Samples per minibatch.
        minibatch_s: Duration of a minibatch, as planned or measured before the run, s.
        weight: Its share of the time left for training, relative to other jobs.
        task: ``infer`` for a network that infers samples which are always there: the non-urgent one of two inferences
            (Fulcrum, 2025, section 5.4).
    """

    name: str
    batch_size: int
    minibatch_s: float
    weight: float = 1.0
    task: Task = "train"


Tenant = Inference | Training


@dataclass(frozen=True, slots=True)
class LiveTenant:
    """A tenant, its workload and its files.

    Args:
        tenant: Name, batch size and times.
        workload: The network or file to run.
        inputs: ``.npz`` of samples for an inference; random ones without it.
        handler: Python file with ``inputs`` and ``outputs``, see ``workloads.handler_file``.
        checkpoint: Where the trained state goes: an ONNX file with trained weights, or whatever a Python file saves.
        resume: A checkpoint to start from.
        dimensions: Values of symbolic dimensions besides the batch.
    """

    tenant: Tenant
    workload: Workload
    inputs: str | None = None
    handler: Path | None = None
    checkpoint: Path | None = None
    resume: Path | None = None
    dimensions: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SavedCheckpoint:
    """The checkpoint of a training, or why there is none.

    Args:
        tenant: Name of the training.
        path: Of the file; ``None`` where there is none.
        steps: Minibatches it has learnt from, those of warming up a Python file included.
        failure: Why there is none, or an older one.
    """

    tenant: str
    path: Path | None
    steps: int | None = None
    failure: str | None = None

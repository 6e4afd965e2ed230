"""The run: the requests and training steps of workloads that shared a device, with changes of plan, mode and power."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from edgetune.artifacts.columns import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt
from edgetune.artifacts.events import Events, Needed
from edgetune.artifacts.header import Header

KIND = "run"
VERSION = 1

Event = Literal["request", "train", "plan", "mode", "power"]
Outcome = Literal["ok", "failed", "abandoned"]


@dataclass(frozen=True, slots=True)
class RunRow:
    """One event. All times are seconds since the begin of the run.

    Args:
        engine: Name of the engine that shared the device; any, for another version may have others.
        event: ``request`` (answered or not), ``train`` (a minibatch of a training, or of an inference without a
            deadline), ``plan`` (batch size or mode changed), ``mode`` (the mode changed; only in files of
            earlier versions), ``power`` (a reading).
        finished_s: End of the event; the time of ``plan``, ``mode`` and ``power``.
        tenant: Name of the workload; ``None`` for events of the device.
        turn: Number of earlier runs of this engine in this file, because compared engines take turns.
        arrived_s: Arrival of the request.
        started_s: Start of its minibatch; of a ``plan`` row of earlier versions, start of the trial of a point.
        deadline_s: Deadline of the request.
        met: Whether the deadline was met.
        minibatch: Number of the minibatch among those of its tenant, from 0; requests answered together share it.
        batch_size: Samples per minibatch.
        samples: Requests answered together, or samples trained on.
        status: ``failed`` for a request or step that raised, ``abandoned`` for one open when the run ended.
        reason: Why it failed, or why plan or mode changed.
        loss: Training loss of the minibatch, if the workload reports it.
        power_w: A reading of the power sensor, W.
        power_budget_w: The power budget at that time, W.
        cpu_cores, cpu_mhz, gpu_mhz, mem_mhz, power_limit_w, power_mode: The mode, in ``plan`` and ``mode`` rows.
    """

    engine: str
    event: Event
    finished_s: NonNegativeFloat
    tenant: str | None = None
    turn: NonNegativeInt = 0
    arrived_s: NonNegativeFloat | None = None
    started_s: NonNegativeFloat | None = None
    deadline_s: NonNegativeFloat | None = None
    met: bool | None = None
    minibatch: NonNegativeInt | None = None
    batch_size: PositiveInt | None = None
    samples: NonNegativeInt | None = None
    status: Outcome = "ok"
    reason: str | None = None
    loss: float | None = None
    power_w: NonNegativeFloat | None = None
    power_budget_w: PositiveFloat | None = None
    cpu_cores: PositiveInt | None = None
    cpu_mhz: PositiveFloat | None = None
    gpu_mhz: PositiveFloat | None = None
    mem_mhz: PositiveFloat | None = None
    power_limit_w: PositiveFloat | None = None
    power_mode: str | None = None


@dataclass(frozen=True, slots=True)
class Run(Events):
    """The events and their header.

    ``header.conditions`` has ``duration_s``, ``device`` and ``simulated``; ``header.inputs["tenants"]`` is a
    list of the name, reference, hash, task, batch size, rate and latency budget of each tenant.
    """

    header: Header
    rows: tuple[RunRow, ...]

    ROW = RunRow
    NEEDED: ClassVar[Needed] = {"request": ("arrived_s", "started_s"), "train": ("started_s",), "power": ("power_w",)}

"""The run: every request and every training step of workloads that shared a device, and what was changed meanwhile."""

from __future__ import annotations

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
    """One thing that happened. All times are seconds since the run began.

    Args:
        engine: How the device was shared.
        event: ``request`` (one that was answered, or not), ``train`` (a training minibatch), ``plan`` (batch size or
            mode chosen anew, or explored), ``mode`` (a step of the power governor), ``power`` (a reading).
        finished_s: When it was over; for ``plan``, ``mode`` and ``power`` when it was.
        tenant: Name of the workload; ``None`` for what concerns the device.
        turn: How often this engine had run before in this file: engines compared take turns.
        arrived_s: When the request came.
        started_s: When its minibatch began; of a ``plan`` row that explored, when exploring did.
        deadline_s: When it was due.
        met: Whether it was answered by then.
        minibatch: Number of the minibatch among those of its tenant, from 0; requests answered together share it.
        batch_size: Samples per minibatch.
        samples: Requests answered together, or samples trained on.
        status: ``failed`` for a request or step that raised, ``abandoned`` for what was left when the run ended.
        reason: Why it failed, or why plan or mode were changed.
        loss: Training loss of the minibatch, where the workload tells it.
        power_w: A reading of the power sensor, W.
        power_budget_w: What it was to stay below at that time, W.
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
    """Everything that happened and its header.

    ``header.conditions`` has ``duration_s``, ``device`` and ``simulated``; ``header.inputs["tenants"]`` is a
    list that says of each tenant its name, reference, hash, task, batch size, rate and latency budget.
    """

    header: Header
    rows: tuple[RunRow, ...]

    ROW = RunRow
    NEEDED: ClassVar[Needed] = {"request": ("arrived_s", "started_s"), "train": ("started_s",), "power": ("power_w",)}

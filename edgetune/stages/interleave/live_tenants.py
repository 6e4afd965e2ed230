"""A tenant with all that loading it on a device needs, and the checkpoint it hands back."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from edgetune.stages.interleave.tenants import Tenant
from edgetune.workloads.workload import Workload


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

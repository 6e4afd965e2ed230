"""What is trained, and how, as one noun; and what makes two runs runs of the same table."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from edgetune.profiling.convergence.datasets import Dataset
from edgetune.profiling.convergence.options import TrainingOptions
from edgetune.version import __version__
from edgetune.workloads.workload import Workload

Task = tuple[int, int]
"""Batch size and seed of a run."""


@dataclass(frozen=True, slots=True)
class Proxy:
    """What is trained, and how.

    Args:
        workload: See ``proxies.resolve_proxy``.
        dataset: Loaded, for its size and hash.
        dataset_reference: As the user wrote it: what the child loads.
        options: How.
        device: ``auto``, ``cpu`` or ``cuda:0``.
    """

    workload: Workload
    dataset: Dataset
    dataset_reference: str
    options: TrainingOptions
    device: str = "auto"

    @property
    def identity(self) -> dict[str, Any]:
        """What must be equal for runs to be taken over; batch sizes and seeds are not part of it."""
        workload, dataset = self.workload, self.dataset
        return {
            "version": __version__,
            "convergence": workload.reference if workload.kind == "name" else workload.name,
            "workload_sha256": workload.sha256,
            "dataset": dataset.name,
            "dataset_sha256": dataset.sha256,
            "device": self.device,
            "options": asdict(self.options),
        }

    def command(self, batch_size: int, seed: int) -> dict[str, Any]:
        """Return what a child process is told to train one run."""
        described = asdict(self.workload)
        described["path"] = None if self.workload.path is None else str(self.workload.path)
        return {
            "workload": described,
            "dataset": self.dataset_reference,
            "options": asdict(self.options),
            "batch_size": batch_size,
            "seed": seed,
            "device": self.device,
        }

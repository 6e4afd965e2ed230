"""How training runs are done: the target, the optimiser and its rate at each batch size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from edgetune.errors import InputError
from edgetune.profiling.convergence.datasets import Dataset

REFERENCE_BATCH = 32
"""Batch size that the learning rate is given for."""
OPTIMIZERS = ("adam", "adamw")


@dataclass(frozen=True, slots=True)
class TrainingOptions:
    """How every run is trained.

    Args:
        target_accuracy: Share of held-out samples classified correctly at which a run ends, above 0, at most 1.
        max_epochs: Passes over the data after which a run has missed the target.
        optimizer: One of ``OPTIMIZERS``.
        learning_rate: At ``REFERENCE_BATCH`` samples; see ``learning_rate_at``.
        evaluations: Times per epoch that the accuracy is looked at.
    """

    target_accuracy: float
    max_epochs: int
    optimizer: str = "adam"
    learning_rate: float = 1e-3
    evaluations: int = 8

    def __post_init__(self) -> None:
        if not 0 < self.target_accuracy <= 1:
            message = f"the target accuracy must be above 0 and at most 100 %, not {self.target_accuracy:g}"
            raise InputError(message, "e.g. --target-accuracy 90%")
        if not (math.isfinite(self.learning_rate) and self.learning_rate > 0):
            raise InputError(f"the learning rate must be above zero, not {self.learning_rate:g}", "e.g. 0.001")
        if self.optimizer not in OPTIMIZERS:
            raise InputError(f"there is no optimizer {self.optimizer!r} here", f"known: {', '.join(OPTIMIZERS)}")

    def learning_rate_at(self, batch_size: int) -> float:
        """Return the rate scaled by the square root of the batch size.

        That keeps the noise of adaptive optimisers' steps the same from batch to batch (Malladi et al., 2022, "On the
        SDEs and scaling rules for adaptive gradient algorithms").
        """
        return self.learning_rate * math.sqrt(batch_size / REFERENCE_BATCH)


def check_sizes(batch_sizes: Sequence[int], dataset: Dataset, options: TrainingOptions) -> None:
    """Refuse what cannot be trained.

    Raises:
        InputError: a batch larger than the data set, or a target no better than guessing.
    """
    samples = len(dataset.x)
    large = [size for size in batch_sizes if size > samples]
    if large:
        message = f"batch size {', '.join(map(str, large))}: the data set {dataset.name} has {samples} samples to learn"
        raise InputError(message, f"use batch sizes up to {samples}, or a larger data set")
    if dataset.classes < 2:
        raise InputError(f"the data set {dataset.name} has one label only", "there is nothing to tell apart in it")
    if options.target_accuracy <= 1 / dataset.classes:
        message = f"a target accuracy of {options.target_accuracy:.3g} is that of guessing one of {dataset.classes}"
        raise InputError(message, "aim higher, e.g. --target-accuracy 90%")

"""The trained network or proxy, its dataset, and the options of training."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import onnx

from edgetune.choices import nearest
from edgetune.errors import InputError
from edgetune.stages.profiling.convergence.datasets import DatasetFacts
from edgetune.stats import is_positive
from edgetune.version import __version__
from edgetune.workloads import zoo
from edgetune.workloads.onnx_file import load_model
from edgetune.workloads.resolve import resolve
from edgetune.workloads.workload import Workload

PROXIES: dict[str, str] = {
    "proxy:cnn": "two convolutions and two dense layers, for images",
    "proxy:mlp": "two dense layers, for anything",
    "proxy:lstm": "an LSTM of 128 units, for text",
    "proxy:transformer": "two layers of four heads, 64 wide, for text",
}
"""Small networks defined here."""
_OF_TEXT = ("proxy:lstm", "proxy:transformer")


def takes_tokens(workload: Workload) -> bool:
    """Return whether a network takes tokens: whole numbers, as the first input of its graph says."""
    if workload.reference in PROXIES:
        return workload.reference in _OF_TEXT
    if workload.kind == "zoo":
        return zoo.network(workload.name).inputs[0].dtype == "int64"
    graph = load_model(workload, weights=False).graph
    held = {tensor.name for tensor in graph.initializer}
    types = [value.type.tensor_type.elem_type for value in graph.input if value.name not in held]
    return bool(types) and types[0] in (onnx.TensorProto.INT32, onnx.TensorProto.INT64)


def resolve_proxy(reference: str) -> Workload:
    """Return the named workload: a proxy defined here, a network of the zoo, or an ONNX file.

    Raises:
        InputError: There is no such proxy, network or file, or it is a Python file, whose accuracy is unknown.
    """
    if not reference.startswith("proxy:"):
        workload = resolve(reference)
        if workload.kind == "python":
            message = f"{reference} is a Python file: it trains, but does not say how accurate it is"
            raise InputError(message, f"give {', '.join(PROXIES)}, a network of the zoo or an ONNX file")
        return workload
    if reference not in PROXIES:
        raise InputError(f"there is no proxy {reference!r}", nearest(reference, PROXIES))
    return Workload(reference, reference, "name", None, f"edgetune {__version__}")


REFERENCE_BATCH = 32
"""Batch size that the learning rate is given for."""
OPTIMIZER = "adam"


@dataclass(frozen=True, slots=True)
class TrainingOptions:
    """The options of every run.

    Args:
        target_accuracy: Share of held-out samples classified correctly at which a run ends, above 0, at most 1.
        max_epochs: Passes over the data after which a run has missed the target.
        learning_rate: At ``REFERENCE_BATCH`` samples; see ``learning_rate_at``.
        evaluations: Times per epoch that the accuracy is looked at.
    """

    target_accuracy: float
    max_epochs: int
    learning_rate: float = 1e-3
    evaluations: int = 8

    def __post_init__(self) -> None:
        if not 0 < self.target_accuracy <= 1:
            message = f"the target accuracy must be above 0 and at most 100 %, not {self.target_accuracy:g}"
            raise InputError(message, "e.g. --target-accuracy 90%")
        if not is_positive(self.learning_rate):
            raise InputError(f"the learning rate must be above zero, not {self.learning_rate:g}", "e.g. 0.001")

    def learning_rate_at(self, batch_size: int) -> float:
        """Return the rate scaled by the square root of the batch size.

        That keeps the noise of adaptive optimisers' steps the same from batch to batch (Malladi et al., 2022, "On the
        SDEs and scaling rules for adaptive gradient algorithms").
        """
        return self.learning_rate * math.sqrt(batch_size / REFERENCE_BATCH)


def check_sizes(batch_sizes: Sequence[int], dataset: DatasetFacts, options: TrainingOptions) -> None:
    """Refuse batch sizes, datasets and targets that cannot be trained.

    Raises:
        InputError: a batch larger than the data set, or a target no better than guessing.
    """
    samples = dataset.samples
    large = [size for size in batch_sizes if size > samples]
    if large:
        message = f"batch size {', '.join(map(str, large))}: the data set {dataset.name} has {samples} samples to learn"
        raise InputError(message, f"use batch sizes up to {samples}, or a larger data set")
    if dataset.classes < 2:
        raise InputError(f"the data set {dataset.name} has one label only", "a classifier needs two labels or more")
    if options.target_accuracy <= 1 / dataset.classes:
        message = f"a target accuracy of {options.target_accuracy:.3g} is that of guessing one of {dataset.classes}"
        raise InputError(message, "give a higher target, e.g. --target-accuracy 90%")


Task = tuple[int, int]
"""Batch size and seed of a run."""


@dataclass(frozen=True, slots=True)
class Proxy:
    """A network with its dataset and the options of training.

    Args:
        workload: See ``proxies.resolve_proxy``.
        dataset: Its name, size and hash.
        dataset_reference: As the user wrote it: what the child loads.
        options: How.
        device: ``auto``, ``cpu`` or ``cuda:0``.
    """

    workload: Workload
    dataset: DatasetFacts
    dataset_reference: str
    options: TrainingOptions
    device: str = "auto"

    @property
    def identity(self) -> dict[str, Any]:
        """Facts that two requests must share to share runs; batch sizes and seeds are not among them."""
        workload, dataset = self.workload, self.dataset
        return {
            "version": __version__,
            "convergence": workload.reference if workload.kind == "name" else workload.name,
            "workload_sha256": workload.sha256,
            "dataset": dataset.name,
            "dataset_sha256": dataset.sha256,
            "device": self.device,
            "options": {**asdict(self.options), "optimizer": OPTIMIZER},
        }

    def command(self, batch_size: int, seed: int) -> dict[str, Any]:
        """Return the command with which a child process trains one run."""
        return {
            "workload": self.workload.plain(),
            "dataset": self.dataset_reference,
            "options": asdict(self.options),
            "batch_size": batch_size,
            "seed": seed,
            "device": self.device,
        }

"""The network that PowerTrain and Fulcrum learn time and power with: dense 256-128-64-1 with ReLU, in PyTorch.

    knobs, batch size -> 256 -> 128 -> 64 -> 1: s per minibatch
    knobs, batch size -> 256 -> 128 -> 64 -> 1: W

Adam with learning rate 1e-3 for 1000 epochs; squared error that weighs under-prediction four times, because
under-prediction breaks a budget; four fifths of the points train, one fifth validates, and the weights that did best on
that fifth are kept (Fulcrum, 2025; PowerTrain, 2024). Where the texts are silent, these choices were made:

- Knobs are standardised over all offered points, which are known before anything is measured.
- The network learns the logarithms of time and power, standardised over the measured points, so that an error is a
  share: times of one table differ a hundredfold by batch size, and a network trained on seconds cannot tell its fastest
  modes apart (every answer to an inference problem broke a budget). Both networks weigh under-prediction.
- The whole training share is one batch. Below five points all of them both train and validate.
- Weights start uniform within 1 / sqrt(inputs), which is PyTorch's default for a dense layer.
- A network knows no physics: predictions more than ten times beyond the measured figures are clipped.

The two networks train side by side as one batch of two; Adam works weight by weight, so neither feels the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from edgetune.artifacts.profile import Point
from edgetune.stages.search.space import value_of

if TYPE_CHECKING:
    Array = npt.NDArray[np.float64]
    Layers = list[tuple[torch.Tensor, torch.Tensor]]

EPOCHS = 1000
WIDTHS = (256, 128, 64, 1)
LEARNING_RATE = 1e-3
UNDER_PREDICTION = 4.0
"""Weight of the squared error of a prediction that is too low; 1 for one that is too high."""
VALIDATION_SHARE = 0.2
_REACH = float(np.log(10))
"""Largest log ratio of a prediction to the measured figures: a factor of ten."""


def features(points: Sequence[Point], axes: Sequence[str]) -> Array:
    """Return the points' values on these axes, each axis with mean 0 and standard deviation 1; shape (points, axes)."""
    values = np.array([[value_of(point, name) or 0.0 for name in axes] for point in points], dtype=float)
    return _standardised(values.reshape(len(points), len(axes)))[0]


def predict(inputs: Array, rows: Sequence[int], measured: Array, *, seed: int) -> Array:
    """Return predicted time and power of every point, deterministic for a seed.

    Args:
        inputs: Features of every point, shape (points, axes).
        rows: Indices of the measured points.
        measured: Their s per minibatch and W, shape (rows, 2); NaN where not measured. A column of NaN stays NaN.
        seed: Seed of the initial weights and of the split.

    Returns:
        s per minibatch and W, above zero, shape (points, 2).
    """
    logs = np.log(measured)
    known = ~np.isnan(logs)
    targets, mean, deviation = _standardised(logs)
    with _alone(seed) as generator:
        layers = _train(_pair(inputs[list(rows)]), _column(np.where(known, targets, 0)), _column(known), generator)
        with torch.no_grad():
            found = _forward(layers, _pair(inputs))[:, :, 0].T.double().numpy()
    least = np.min(logs, axis=0, initial=np.inf, where=known) - _REACH
    most = np.max(logs, axis=0, initial=-np.inf, where=known) + _REACH
    predicted: Array = np.where(known.any(axis=0), np.exp(np.clip(found * deviation + mean, least, most)), np.nan)
    return predicted


def _standardised(values: Array) -> tuple[Array, Array, Array]:
    """Return the columns with mean 0 and standard deviation 1, and both as they were; constant columns are 0."""
    known = ~np.isnan(values)
    count = np.maximum(known.sum(axis=0), 1)
    mean = np.where(known, values, 0).sum(axis=0) / count
    deviation = np.sqrt(np.where(known, (values - mean) ** 2, 0).sum(axis=0) / count)
    deviation = np.where(deviation > 0, deviation, 1)
    return (values - mean) / deviation, mean, deviation


class ContinuedNetwork:
    """The network as Fulcrum prints it: it predicts seconds and watts, and goes on from its weights when taught more.

    The loss is the mean absolute percentage error, four times that where the prediction is too low; four fifths of the
    points train, in batches of 32, and the weights that did best on the others are kept. The text is silent on batches
    (these are Keras's) and on the scale of what the network returns: it is a share of the mean of what was measured
    first, which the loss does not see.

    Args:
        seed: Of the weights, of the split and of the batches.
    """

    def __init__(self, seed: int) -> None:
        self._seed, self._layers, self._scale = seed, None, None  # type: tuple[int, Layers | None, Array | None]

    def predict(self, inputs: Array, rows: Sequence[int], measured: Array) -> Array:
        """Learn from the measured points, and return predicted s and W of every point, shape (points, 2).

        Arguments are those of ``predict``.
        """
        known = np.where(np.isnan(measured), 1.0, measured)
        if self._scale is None:
            self._scale = np.nanmean(measured, axis=0) if len(measured) else np.ones(2)
            self._scale = np.where(np.isnan(self._scale), 1.0, self._scale)
        targets, weights = _column(known / self._scale), _column(~np.isnan(measured))
        with _alone(self._seed) as generator:
            if self._layers is None:
                self._layers = _layers(inputs.shape[1], generator)
            self._layers = _continued(self._layers, _pair(inputs[list(rows)]), targets, weights, generator)
            with torch.no_grad():
                found = _forward(self._layers, _pair(inputs))[:, :, 0].T.double().numpy()
        return np.asarray(np.where(np.isnan(measured).all(axis=0), np.nan, np.maximum(found, 1e-6) * self._scale))


BATCH = 32


def _continued(
    layers: Layers, inputs: torch.Tensor, targets: torch.Tensor, known: torch.Tensor, generator: torch.Generator
) -> Layers:
    """Return the weights after more training; shapes as in ``_train``."""
    rows = inputs.shape[1]
    order = torch.randperm(rows, generator=generator)
    held_back = order[: round(VALIDATION_SHARE * rows)] if rows * VALIDATION_SHARE >= 1 else order
    training = order[len(held_back) % rows :]
    kept = _BestWeights(layers)
    optimiser = torch.optim.Adam(kept.weights, lr=LEARNING_RATE)

    def loss(some: torch.Tensor) -> torch.Tensor:
        share = (targets[:, some] - _forward(layers, inputs[:, some])) / targets[:, some]
        return _mean(torch.where(share > 0, UNDER_PREDICTION, 1.0) * share.abs(), known[:, some])

    for _ in range(EPOCHS):
        with torch.no_grad():
            kept.note(loss(held_back))
        for some in training[torch.randperm(len(training), generator=generator)].split(BATCH):
            optimiser.zero_grad()
            loss(some).sum().backward()
            optimiser.step()
    return [(weight.requires_grad_(), bias.requires_grad_()) for weight, bias in kept.layers()]


class _BestWeights:
    """The weights of two networks side by side that did best so far, each network's for itself.

    Args:
        layers: Their layers, which are trained.
    """

    def __init__(self, layers: Layers) -> None:
        self.weights = [tensor for layer in layers for tensor in layer]
        self._best = [tensor.detach().clone() for tensor in self.weights]
        self._least = torch.full((2, 1, 1), torch.inf)

    def note(self, loss: torch.Tensor) -> None:
        """Keep the present weights of the networks whose loss, shape (2, 1, 1), is the least so far."""
        better = loss < self._least
        self._least = torch.where(better, loss, self._least)
        for kept, tensor in zip(self._best, self.weights, strict=True):
            kept.copy_(torch.where(better, tensor, kept))

    def layers(self) -> Layers:
        """Return the best layers."""
        return list(zip(self._best[::2], self._best[1::2], strict=True))


def _train(inputs: torch.Tensor, targets: torch.Tensor, known: torch.Tensor, generator: torch.Generator) -> Layers:
    """Return the weights that did best on the points held back; inputs (2, rows, axes), the others (2, rows, 1)."""
    rows = inputs.shape[1]
    held_back = torch.zeros(rows, 1)
    held_back[torch.randperm(rows, generator=generator)[: round(VALIDATION_SHARE * rows)]] = 1
    training, validating = known * (1 - held_back), known * held_back
    if rows * VALIDATION_SHARE < 1:
        training = validating = known
    layers = _layers(inputs.shape[2], generator)
    kept = _BestWeights(layers)
    optimiser = torch.optim.Adam(kept.weights, lr=LEARNING_RATE)
    for _ in range(EPOCHS):
        short = targets - _forward(layers, inputs)
        errors = torch.where(short > 0, UNDER_PREDICTION, 1.0) * short**2
        with torch.no_grad():
            kept.note(_mean(errors, validating))
        optimiser.zero_grad()
        _mean(errors, training).sum().backward()
        optimiser.step()
    return kept.layers()


def _mean(errors: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Return each network's mean error over the rows of weight 1, shape (2, 1, 1); 0 where there are none."""
    return (errors * weights).sum(dim=1, keepdim=True) / weights.sum(dim=1, keepdim=True).clamp(min=1)


def _layers(inputs: int, generator: torch.Generator) -> Layers:
    """Return the first weights (2, inputs, outputs) and biases (2, 1, outputs) of every layer of two networks."""
    layers = []
    for outputs in WIDTHS:
        bound = 1 / max(inputs, 1) ** 0.5
        weight, bias = (
            ((2 * torch.rand(2, size, outputs, generator=generator) - 1) * bound).requires_grad_()
            for size in (inputs, 1)
        )
        layers.append((weight, bias))
        inputs = outputs
    return layers


def _forward(layers: Layers, values: torch.Tensor) -> torch.Tensor:
    for number, (weight, bias) in enumerate(layers):
        values = torch.baddbmm(bias, values, weight)
        if number < len(layers) - 1:
            values = values.relu()
    return values


def _pair(values: Array) -> torch.Tensor:
    """Return the same rows for both networks, shape (2, rows, axes)."""
    return torch.tensor(values, dtype=torch.float32).expand(2, *values.shape)


def _column(values: npt.NDArray[Any]) -> torch.Tensor:
    """Return each network's own figures, shape (2, rows, 1), of an array (rows, 2)."""
    return torch.tensor(values, dtype=torch.float32).T[:, :, None]


@contextmanager
def _alone(seed: int) -> Iterator[torch.Generator]:
    """Compute on one thread with separate random numbers, for reproducible results; restore both afterwards.

    These networks are so small that a second thread slows them down.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.enable_grad():
            yield torch.Generator().manual_seed(seed)
    finally:
        torch.set_num_threads(threads)

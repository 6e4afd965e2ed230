"""Training runs in PyTorch: the proxy networks, and steps until the held-out samples are classified well enough.

Small PyTorch networks that score the next token at every place of a sequence: an LSTM and a causal transformer.

The simple noise scale of gradients: the batch size above which larger batches hardly need fewer steps.

    |G|^2 = (B |g_B|^2 - b |g_b|^2) / (B - b)            g_b: gradient over b samples, g_B: over B, of the same weights
    S     = (|g_b|^2 - |g_B|^2) / (1 / b - 1 / B)        G: the true gradient, S: the variance of that of one sample
    noise = S / |G|^2

McCandlish et al. (2018), "An empirical model of large-batch training", appendix A.1; both sums are unbiased, their
ratio is not, and is the better the more samples it is of. It grows while a network learns. The samples that a training
needs at batch size b are in proportion to 1 + b / noise (there equation 2.11, E = E_min (1 + B / B_crit)).
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from edgetune.errors import InputError
from edgetune.stages.profiling.convergence.datasets import Dataset
from edgetune.stages.profiling.convergence.proxy import PROXIES, TrainingOptions
from edgetune.workloads import zoo
from edgetune.workloads.initial_weights import has_data
from edgetune.workloads.onnx_file import fix_dimensions, load_model, network_batch
from edgetune.workloads.torch_module import OnnxModule
from edgetune.workloads.torch_required import require_torch
from edgetune.workloads.workload import Workload


class NextTokenLstm(nn.Module):  # type: ignore[misc]
    """An embedding, an LSTM over the sequence and a dense layer: scores ``[samples, length, classes]``."""

    def __init__(self, vocabulary: int, classes: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, 32)
        self.lstm = nn.LSTM(32, 128, batch_first=True)
        self.decoder = nn.Linear(128, classes)

    def forward(self, tokens: torch.Tensor) -> Any:
        """Return the scores after each token."""
        return self.decoder(self.lstm(self.embedding(tokens))[0])


class NextTokenTransformer(nn.Module):  # type: ignore[misc]
    """A causal transformer, normalised before each part: scores ``[samples, length, classes]``.

    Heads are ``width // heads`` wide, so that any number of heads fits: six heads of 42 in a width of 256.
    """

    def __init__(
        self, vocabulary: int, classes: int, length: int, *, layers: int = 2, heads: int = 4, width: int = 64
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.places = nn.Parameter(0.02 * torch.randn(length, width))
        self.blocks = nn.ModuleList(_Block(width, heads) for _ in range(layers))
        self.normal = nn.LayerNorm(width)
        self.decoder = nn.Linear(width, classes)

    def forward(self, tokens: torch.Tensor) -> Any:
        """Return the scores after each token."""
        x = self.embedding(tokens) + self.places[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.decoder(self.normal(x))


class _Block(nn.Module):  # type: ignore[misc]
    """Causal self-attention and a network of two dense layers, each added to its input."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self._shape = (3, heads, width // heads)
        inner = heads * (width // heads)
        self.normal_1, self.normal_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.into, self.out = nn.Linear(width, 3 * inner), nn.Linear(inner, width)
        self.dense = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> Any:
        samples, length, _ = x.shape
        q, k, v = self.into(self.normal_1(x)).view(samples, length, *self._shape).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(samples, length, -1))
        return x + self.dense(self.normal_2(x))


class LastPlace(nn.Module):  # type: ignore[misc]
    """The scores after the last token, for data with one label for a whole sequence."""

    def forward(self, scores: torch.Tensor) -> Any:
        """Return ``[samples, classes]`` of ``[samples, length, classes]``."""
        return scores[:, -1]


@dataclass(frozen=True, slots=True)
class Trainee:
    """A network ready to be trained.

    Args:
        module: Takes a minibatch of samples and returns a score per class.
        fixed_batch: Samples it takes at once, no more and no fewer; ``None`` for any number.
    """

    module: nn.Module
    fixed_batch: int | None = None


def build_network(workload: Workload, dataset: Dataset, *, batch_size: int, seed: int) -> Trainee:
    """Return a network with the weights of a seed, the same at every batch size; an ONNX file keeps those it has.

    Args:
        workload: See ``proxies.resolve_proxy``.
        dataset: What it is to learn: samples of ``(16, 16)`` and ``(1, 16, 16)`` are images, sequences of whole numbers
            are tokens, anything else fits ``proxy:mlp`` only. A proxy gives as many scores as there are classes, other
            networks give what they give.
        batch_size: Samples per minibatch.
        seed: Of the weights.

    Raises:
        InputError: samples that are no images for a network that takes images, or a graph that cannot be trained.
    """
    torch.manual_seed(seed)
    sample_shape, classes = dataset.x.shape[1:], dataset.classes
    if workload.reference == "proxy:mlp":
        dense = (nn.Linear(prod(sample_shape), 128), nn.ReLU(), nn.Linear(128, classes))
        return Trainee(nn.Sequential(nn.Flatten(), *dense))
    if workload.reference == "proxy:cnn":
        return Trainee(_cnn(sample_shape, classes))
    if workload.reference in PROXIES:
        return Trainee(_of_text(workload.reference, dataset))

    graph = zoo.weightless(workload.name) if workload.kind == "zoo" else load_model(workload, weights=True)
    try:
        model = fix_dimensions(graph, batch_size=batch_size, batch=network_batch(workload, {}, batch_size))
    except InputError as error:
        raise InputError(error.message, "export it with its batch open and every other dimension fixed") from None
    if not all(has_data(tensor) for tensor in model.graph.initializer):
        model = zoo.with_weights(model, seed)
    return Trainee(OnnxModule(model), batch_size)


def _cnn(sample_shape: Sequence[int], classes: int) -> nn.Module:
    """Two convolutions and two dense layers: about 40,000 weights on 16 x 16 pixels."""
    if len(sample_shape) not in (2, 3) or min(sample_shape[-2:]) < 4:
        shape = "x".join(map(str, sample_shape)) or "single numbers"
        raise InputError(f"proxy:cnn takes images of at least 4x4, and the samples are {shape}", "take proxy:mlp")
    height, width = sample_shape[-2:]
    channels = sample_shape[0] if len(sample_shape) == 3 else 1
    return nn.Sequential(
        nn.Unflatten(1, (1, height)) if len(sample_shape) == 2 else nn.Identity(),
        nn.Conv2d(channels, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(12, 24, 3, padding=1), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(24 * (height // 4) * (width // 4), 64), nn.ReLU(),
        nn.Linear(64, classes),
    )  # fmt: skip


def _of_text(reference: str, dataset: Dataset) -> nn.Module:
    vocabulary, classes, length = dataset.vocabulary, dataset.classes, dataset.x.shape[1]
    network: nn.Module
    if reference == "proxy:lstm":
        network = NextTokenLstm(vocabulary, classes)
    else:
        network = NextTokenTransformer(vocabulary, classes, length)
    return network if dataset.y.ndim > 1 else nn.Sequential(network, LastPlace())


_EVALUATED_AT_ONCE = 512
"""Samples per minibatch of an evaluation, for a network that takes any number."""


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """The result of a run.

    Args:
        minibatches: Trained until the end of the run.
        accuracy: The best seen, 0 to 1.
        reached: Whether that is the target or better.
        reason: Why not.
    """

    minibatches: int
    accuracy: float
    reached: bool
    reason: str | None = None


def train(
    workload: Workload, dataset: Dataset, options: TrainingOptions, *, batch_size: int, seed: int, device: str
) -> TrainingResult:
    """Train until the target accuracy is seen, or for as many epochs as are allowed.

    The same seed gives the same initial weights and the same order of samples at every batch size. Samples that fill no
    whole minibatch sit out an epoch, others the next.

    Raises:
        InputError: the network does not take such samples, or does not give scores for such labels.
    """
    trainee = build_network(workload, dataset, batch_size=batch_size, seed=seed)
    module = trainee.module.to(device)
    parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
    if not parameters:
        raise InputError(f"{workload.name} has no weights to train", "export it with its weights as initializers")
    optimiser = torch.optim.Adam(parameters, lr=options.learning_rate_at(batch_size))
    x, y = torch.from_numpy(dataset.x).to(device), torch.from_numpy(dataset.y).to(device)
    _try_out(trainee, workload, x[:batch_size], y[:batch_size], dataset.classes)
    best, minibatches = 0.0, 0
    for indices, look in _order(len(x), batch_size, seed, options):
        chosen = indices.to(device)
        optimiser.zero_grad(set_to_none=True)
        loss = functional.cross_entropy(_scores(module(x[chosen])).flatten(0, -2), y[chosen].flatten())
        loss.backward()
        optimiser.step()
        minibatches += 1
        if not look:
            continue
        if not math.isfinite(loss.item()):
            return TrainingResult(
                minibatches, best, False, f"the loss was {loss.item()} after {minibatches} minibatches"
            )
        best = max(best, _accuracy(trainee, dataset, device, batch_size))
        if best >= options.target_accuracy:
            return TrainingResult(minibatches, best, True)
    return TrainingResult(minibatches, best, False, f"{best:.1%} at best in {options.max_epochs} epochs")


def _order(samples: int, batch_size: int, seed: int, options: TrainingOptions) -> Iterator[tuple[torch.Tensor, bool]]:
    """Yield the samples of each minibatch, and whether the accuracy is evaluated after it."""
    generator = torch.Generator().manual_seed(seed)
    steps = samples // batch_size
    looks = {math.ceil(steps * (look + 1) / options.evaluations) for look in range(options.evaluations)}
    for _ in range(options.max_epochs):
        shuffled = torch.randperm(samples, generator=generator)
        for step in range(steps):
            yield shuffled[step * batch_size : (step + 1) * batch_size], step + 1 in looks


def _try_out(trainee: Trainee, workload: Workload, x: torch.Tensor, y: torch.Tensor, classes: int) -> None:
    """Run one minibatch, to refuse a network that does not fit the samples in clear words."""
    shape = "x".join(map(str, x.shape[1:])) or "single numbers"
    try:
        with torch.no_grad():
            scores = _scores(trainee.module.eval()(x))
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        reason = " ".join(str(error).split())[:160]
        message = f"{workload.name} does not take samples of {shape}: {reason}"
        raise InputError(message, "give a data set of the network's own input shape, or another network") from None
    finally:
        trainee.module.train()
    if scores.shape[:-1] != y.shape or scores.shape[-1] < classes:
        found = "x".join(map(str, scores.shape))
        message = f"{workload.name} gives {found} for {len(x)} samples of {classes} classes"
        if y.dim() > 1:
            message += f", each with {y.shape[1]} labels"
        raise InputError(message, f"give a network whose output is a score for each of {classes} classes or more")


def _scores(output: Any) -> torch.Tensor:
    """Return a network's scores: its output, or the last of several that is of floating point."""
    outputs = output if isinstance(output, tuple) else (output,)
    floats = [value for value in outputs if value.is_floating_point()]
    if not floats:
        raise InputError("no output of the network is of floating point", "train a network that ends in scores")
    return floats[-1]


def _accuracy(trainee: Trainee, dataset: Dataset, device: str, batch_size: int) -> float:
    """Return the share of held-out labels that have the highest score."""
    size = trainee.fixed_batch or max(batch_size, _EVALUATED_AT_ONCE)
    x, y = torch.from_numpy(dataset.x_held_out), torch.from_numpy(dataset.y_held_out)
    right = 0
    trainee.module.eval()
    with torch.no_grad():
        for start in range(0, len(x), size):
            part = x[start : start + size]
            short = (trainee.fixed_batch or 0) - len(part)
            if short > 0:  # a graph of a fixed batch size is fed up, and what it says of the filling is not counted
                part = torch.cat([part, part[:1].expand(short, *part.shape[1:])])
            found = _scores(trainee.module(part.to(device))).argmax(-1).cpu()
            wanted = y[start : start + size]
            right += int((found[: len(wanted)] == wanted).sum())
    trainee.module.train()
    return right / float(y.numel())


def gradient_noise_scale(parameters: Iterable[Any], losses: Iterable[Any], *, samples: int) -> float:
    """Return the simple noise scale at the present weights, in samples; infinity where noise hides the gradient.

    Neither the weights nor their ``.grad`` change.

    Args:
        parameters: Those that are trained, of a PyTorch module.
        losses: Mean losses of equally large parts of the data, one after the other; give a generator, so that one part
            is in memory at a time. At least two; sixteen parts of 64 samples are usual.
        samples: Samples of a part.

    Raises:
        InputError: fewer than two parts.
    """
    torch = require_torch()
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    total, of_parts, count = None, 0.0, 0
    for loss in losses:
        parts = torch.autograd.grad(loss, trained, allow_unused=True)
        gradient = torch.cat([part.detach().flatten() for part in parts if part is not None])
        total = gradient if total is None else total + gradient
        of_parts += float(gradient @ gradient)
        count += 1
    if total is None or count < 2:
        raise InputError(f"the noise of gradients needs two parts of data or more, not {count}", "give sixteen")
    small, large = of_parts / count, float(total @ total) / count**2
    signal = (count * large - small) / (count - 1)
    noise = (small - large) * samples / (1 - 1 / count)
    return noise / signal if signal > 0 else math.inf

"""A training file as edgetune takes it: ``make(batch_size)`` returns ``step()``, which trains on one minibatch.

Handwritten digits are stood in for by synthetic images, so there is nothing to download; the network, the loss, the
gradients and the optimiser are real. Profile it with:

    edgetune profile examples/train_tiny.py --task train --batch-sizes 16,64 --device host -o tiny.parquet

or train it between the answers of another network with ``edgetune interleave``.
"""

from collections.abc import Callable

import torch
from torch import nn


def make(batch_size: int) -> Callable[[], float]:
    """Return the step that trains on ``batch_size`` images and returns the loss."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * 7 * 7, 10),
    )  # fmt: skip
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    images = torch.rand(batch_size, 1, 28, 28)
    labels = torch.randint(0, 10, (batch_size,))

    def step() -> float:
        optimiser.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimiser.step()
        return float(loss.detach())

    def save(path: str) -> None:
        torch.save({"model": model.state_dict(), "optimiser": optimiser.state_dict()}, path)

    def load(path: str) -> None:
        state = torch.load(path)
        model.load_state_dict(state["model"])
        optimiser.load_state_dict(state["optimiser"])

    step.save, step.load = save, load  # optional: what edgetune interleave --checkpoint and --resume call
    return step

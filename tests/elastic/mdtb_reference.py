"""The six networks as PyTorch has them, in double precision: what the kernels are compared with.

Written from the papers, apart from ``edgetune.stages.elastic.mdtb.networks``; the two share names of weights.
"""

from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

Weights = Mapping[str, Tensor]


def expected(network: str, drawn: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the answer of a network for the input and weights of ``edgetune.stages.elastic.mdtb.networks``."""
    weights = {name: torch.from_numpy(numbers).double() for name, numbers in drawn.items()}
    with torch.no_grad():
        return _NETWORKS[network](weights).flatten().numpy()


def _conv(w: Weights, name: str, x: Tensor, stride: int = 1, padding: int = 0) -> Tensor:
    return functional.conv2d(x, w[f"{name}.weights"], w[f"{name}.bias"], stride=stride, padding=padding)


def _linear(w: Weights, name: str, x: Tensor) -> Tensor:
    return functional.linear(x.flatten(1), w[f"{name}.weights"], w[f"{name}.bias"])


def _alexnet(w: Weights) -> Tensor:
    x = functional.max_pool2d(_conv(w, "conv1", w["image"][None], 4, 2).relu(), 3, 2)
    x = functional.max_pool2d(_conv(w, "conv2", x, 1, 2).relu(), 3, 2)
    for name in ("conv3", "conv4", "conv5"):
        x = _conv(w, name, x, 1, 1).relu()
    x = functional.max_pool2d(x, 3, 2)
    x = _linear(w, "fc7", _linear(w, "fc6", x).relu()).relu()
    return _linear(w, "fc8", x).softmax(1)


def _squeezenet(w: Weights) -> Tensor:
    x = _conv(w, "conv1", w["image"][None], 2).relu()
    for number in range(2, 10):
        if number in (2, 5, 9):
            x = functional.max_pool2d(x, 3, 2, ceil_mode=True)
        squeezed = _conv(w, f"fire{number}.squeeze", x).relu()
        x = torch.cat(
            [
                _conv(w, f"fire{number}.expand1", squeezed).relu(),
                _conv(w, f"fire{number}.expand3", squeezed, 1, 1).relu(),
            ],
            dim=1,
        )
    return _conv(w, "conv10", x).relu().mean(dim=(2, 3)).softmax(1)


def _resnet(w: Weights) -> Tensor:
    x = functional.max_pool2d(_conv(w, "conv1", w["image"][None], 2, 3).relu(), 3, 2, 1)
    for stage in range(1, 5):
        for half in "ab":
            name = f"block{stage}{half}"
            stride = 2 if stage > 1 and half == "a" else 1
            inner = _conv(w, f"{name}.conv2", _conv(w, f"{name}.conv1", x, stride, 1).relu(), 1, 1)
            x = (inner + (_conv(w, f"{name}.straight", x, stride) if stride > 1 else x)).relu()
    return _linear(w, "fc", x.mean(dim=(2, 3))).softmax(1)


def _cifarnet(w: Weights) -> Tensor:
    x = functional.max_pool2d(_conv(w, "conv1", w["image"][None], 1, 2).relu(), 3, 2, ceil_mode=True)
    for number in (2, 3):
        x = functional.avg_pool2d(_conv(w, f"conv{number}", x, 1, 2).relu(), 3, 2, ceil_mode=True)
    return _linear(w, "fc2", _linear(w, "fc1", x)).softmax(1)


def _recurrent(w: Weights, module: torch.nn.RNNBase, kind: str, biases: tuple[str, str | None]) -> Tensor:
    """Return the prediction of a recurrent network; where there is one bias only, the other is zero."""
    module = module.double()
    module.weight_ih_l0.copy_(w[f"{kind}.input_weights"])
    module.weight_hh_l0.copy_(w[f"{kind}.hidden_weights"])
    module.bias_ih_l0.copy_(w[biases[0]])
    module.bias_hh_l0.copy_(w[biases[1]] if biases[1] else torch.zeros_like(module.bias_hh_l0))
    states, _ = module(w["sequence"][:, None])
    return _linear(w, "fc", states[-1])


def _lstm(w: Weights) -> Tensor:
    rows, units = w["lstm.hidden_weights"].shape
    assert rows == 4 * units
    return _recurrent(w, torch.nn.LSTM(w["sequence"].shape[1], units), "lstm", ("lstm.bias", None))


def _gru(w: Weights) -> Tensor:
    rows, units = w["gru.hidden_weights"].shape
    assert rows == 3 * units
    return _recurrent(w, torch.nn.GRU(w["sequence"].shape[1], units), "gru", ("gru.input_bias", "gru.hidden_bias"))


_NETWORKS: dict[str, Callable[[Weights], Tensor]] = {
    "alexnet": _alexnet,
    "squeezenet": _squeezenet,
    "resnet": _resnet,
    "cifarnet": _cifarnet,
    "lstm": _lstm,
    "gru": _gru,
}

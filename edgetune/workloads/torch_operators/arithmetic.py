"""Operators that compute: element-wise, activations, normalisations, products and reductions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

if TYPE_CHECKING:
    from edgetune.workloads.torch_operators.node import Inputs, Make, NodeView, Run


def plain(function: Callable[..., Any]) -> Make:
    """An operator without settings: its inputs are the function's arguments."""
    return lambda _: lambda x: function(*x)


def configured(function: Callable[..., Any], **defaults: Any) -> Make:
    """An operator on one input with settings: the function's further arguments, in the order of ``defaults``."""

    def make(node: NodeView) -> Run:
        settings = [node.attributes.get(name, default) for name, default in defaults.items()]
        return lambda x: function(x[0], *settings)

    return make


def softmax(node: NodeView) -> Run:
    """``Softmax``, over one axis (opset 13 on) or over all from one on (before)."""
    if node.opset >= 13:
        return configured(torch.softmax, axis=-1)(node)
    axis = node.attributes.get("axis", 1)  # up to opset 12 all axes from this one on are one
    return lambda x: torch.softmax(x[0].flatten(axis), -1).reshape(x[0].shape)


def divide(a: Any, b: Any) -> Any:
    """``Div``: integers are cut towards zero."""
    return torch.div(a, b, rounding_mode=None if a.is_floating_point() else "trunc")


def hard_sigmoid(node: NodeView) -> Run:
    """``HardSigmoid``: PyTorch's own where the slope is its 1/6."""
    alpha, beta = node.attributes.get("alpha", 0.2), node.attributes.get("beta", 0.5)
    if abs(alpha - 1 / 6) < 1e-6 and beta == 0.5:
        return lambda x: functional.hardsigmoid(x[0])
    return lambda x: torch.clamp(x[0] * alpha + beta, 0.0, 1.0)


def clip(node: NodeView) -> Run:
    """``Clip``, either bound optional."""
    low, high = node.numbers("min", 1), node.numbers("max", 2)

    def run(x: Inputs) -> Any:
        least, most = low(x), high(x)
        return x[0] if least is None and most is None else torch.clamp(x[0], least, most)

    return run


def batch_norm(node: NodeView) -> Run:
    """``BatchNormalization``: by the minibatch's statistics while training, which it follows in place."""
    momentum = 1.0 - node.attributes.get("momentum", 0.9)
    epsilon, training = node.attributes.get("epsilon", 1e-5), node.training

    def run(x: Inputs) -> Any:
        data, weight, bias, mean, variance = x[:5]
        return functional.batch_norm(data, mean, variance, weight, bias, training, momentum, epsilon)

    return run


def layer_norm(node: NodeView) -> Run:
    """``LayerNormalization`` over the last axes."""
    axis, epsilon = node.attributes.get("axis", -1), node.attributes.get("epsilon", 1e-5)

    def run(x: Inputs) -> Any:
        bias = x[2] if len(x) > 2 else None
        return functional.layer_norm(x[0], x[0].shape[axis:], x[1], bias, epsilon)

    return run


def local_response_norm(node: NodeView) -> Run:
    """``LRN``; of an even number of channels ONNX centres the window elsewhere than PyTorch."""
    size = node.attributes["size"]
    if size % 2 == 0:
        raise node.refuse(f"an even size, {size}")
    alpha, beta = node.attributes.get("alpha", 1e-4), node.attributes.get("beta", 0.75)
    offset = node.attributes.get("bias", 1.0)
    return lambda x: functional.local_response_norm(x[0], size, alpha, beta, offset)


def dropout(node: NodeView) -> Run:
    """``Dropout``: nothing unless training."""
    ratio = node.numbers("ratio", 1)
    if not node.training:
        return lambda x: x[0]

    def run(x: Inputs) -> Any:
        share = ratio(x)
        return functional.dropout(x[0], 0.5 if share is None else share)

    return run


def gemm(node: NodeView) -> Run:
    """``Gemm``: alpha A B + beta C."""
    alpha, beta = node.attributes.get("alpha", 1.0), node.attributes.get("beta", 1.0)
    left, right = node.attributes.get("transA", 0), node.attributes.get("transB", 0)

    def run(x: Inputs) -> Any:
        a = x[0].t() if left else x[0]
        b = x[1].t() if right else x[1]
        c = x[2] if len(x) > 2 else None
        if c is None:
            return torch.mm(a, b) * alpha if alpha != 1.0 else torch.mm(a, b)
        return torch.addmm(c, a, b, beta=beta, alpha=alpha)

    return run


def global_average(data: Any) -> Any:
    """``GlobalAveragePool``, over all axes but batch and channels."""
    return data.mean(dim=tuple(range(2, data.dim())), keepdim=True)

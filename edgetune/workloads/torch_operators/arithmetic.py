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


def softmax(function: Callable[..., Any]) -> Make:
    """``Softmax`` and ``LogSoftmax``, over one axis (opset 13 on) or over all from one on (before)."""

    def make(node: NodeView) -> Run:
        if node.opset >= 13:
            return configured(function, axis=-1)(node)
        axis = node.attributes.get("axis", 1)  # up to opset 12 all axes from this one on are one
        return lambda x: function(x[0].flatten(axis), -1).reshape(x[0].shape)

    return make


def divide(a: Any, b: Any) -> Any:
    """``Div``: integers are cut towards zero."""
    return torch.div(a, b, rounding_mode=None if a.is_floating_point() else "trunc")


def modulo(node: NodeView) -> Run:
    """``Mod``: with the sign of the divisor, or of the dividend where ``fmod`` is set."""
    function = torch.fmod if node.attributes.get("fmod", 0) else torch.remainder
    return lambda x: function(x[0], x[1])


def power(a: Any, b: Any) -> Any:
    """``Pow``: in the type of the base."""
    return torch.pow(a, b).to(a.dtype)


def chain(function: Callable[[Any, Any], Any]) -> Make:
    """An operator that takes any number of inputs, two at a time."""

    def run(x: Inputs) -> Any:
        result = x[0]
        for other in x[1:]:
            result = function(result, other)
        return result

    return lambda _: run


def hard_sigmoid(node: NodeView) -> Run:
    """``HardSigmoid``: PyTorch's own where the slope is its 1/6."""
    alpha, beta = node.attributes.get("alpha", 0.2), node.attributes.get("beta", 0.5)
    if abs(alpha - 1 / 6) < 1e-6 and beta == 0.5:
        return lambda x: functional.hardsigmoid(x[0])
    return lambda x: torch.clamp(x[0] * alpha + beta, 0.0, 1.0)


def prelu(a: Any, slope: Any) -> Any:
    """``PRelu``: the slope broadcasts."""
    return torch.where(a >= 0, a, a * slope)


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


def instance_norm(node: NodeView) -> Run:
    """``InstanceNormalization``."""
    epsilon = node.attributes.get("epsilon", 1e-5)
    return lambda x: functional.instance_norm(x[0], weight=x[1], bias=x[2], eps=epsilon)


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


def reduce(function: Callable[..., Any]) -> Make:
    """Reductions over given axes, or all."""

    def make(node: NodeView) -> Run:
        axes, keep = node.numbers("axes", 1), bool(node.attributes.get("keepdims", 1))
        leave = bool(node.attributes.get("noop_with_empty_axes", 0))

        def run(x: Inputs) -> Any:
            over = axes(x)
            if not over and leave:
                return x[0]
            return function(x[0], dim=tuple(over) if over else tuple(range(x[0].dim())), keepdim=keep)

        return run

    return make


def arg(function: Callable[..., Any]) -> Make:
    """``ArgMax`` and ``ArgMin``."""
    return configured(lambda x, axis, keep: function(x, axis, bool(keep)), axis=0, keepdims=1)


def global_pool(function: Callable[..., Any]) -> Make:
    """Pooling over all axes but batch and channels."""
    return lambda _: lambda x: function(x[0], dim=tuple(range(2, x[0].dim())), keepdim=True)


def where(condition: Any, a: Any, b: Any) -> Any:
    """``Where``."""
    return torch.where(condition.to(torch.bool), a, b)

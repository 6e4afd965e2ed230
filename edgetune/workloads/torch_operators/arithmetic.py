"""Operators that compute: element-wise, activations, normalisations, products and reductions.

LSTM and GRU nodes of an ONNX graph as PyTorch's own layers, and their trained weights back in ONNX layout.

ONNX stacks gates as i o f c (LSTM) and z r h (GRU), PyTorch as i f g o and r z n; ONNX keeps both biases in one tensor
and one leading axis per direction. PyTorch's layer holds the weights instead of the node, because its fused kernels
require contiguous weights.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

from edgetune.errors import InputError

Inputs = Sequence[Any]
Run = Callable[[Inputs], Any]
"""Runs one node: from its inputs (``None`` where one is left out) to its output, or a tuple of several."""
Make = Callable[["NodeView"], Run]


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node without its graph.

    Args:
        op: Operator type.
        name: Name of the node, for messages.
        attributes: Its attributes as Python values.
        constants: Inputs whose value is known beforehand, by index.
        outputs: Number of outputs that are used.
        training: Whether the function is for training instead of inference.
        opset: Version of the operator set the graph is written in.
    """

    op: str
    name: str
    attributes: Mapping[str, Any]
    constants: Mapping[int, torch.Tensor]
    outputs: int
    training: bool
    opset: int

    def numbers(self, attribute: str, index: int) -> Callable[[Inputs], Any]:
        """A list of numbers that was an attribute in old operator sets and is an input in new ones.

        Returns:
            A function from the node's inputs to the list, or to ``None`` where neither is given.
        """
        if attribute in self.attributes:
            fixed = self.attributes[attribute]
            return lambda _: fixed
        if index in self.constants:
            known = self.constants[index].tolist()
            return lambda _: known
        return lambda x: x[index].tolist() if len(x) > index and x[index] is not None else None

    def refuse(self, what: str) -> InputError:
        """The error for a variant of the operator that is not implemented."""
        return InputError(
            f"operator {self.op} (node {self.name!r}) with {what} cannot run in PyTorch here",
            "train a Python file instead (make(batch_size) -> step), or export the network without it",
        )


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


GATES: Mapping[str, tuple[int, ...]] = {"LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2)}
"""Index of the ONNX gate for each PyTorch gate."""
WEIGHTS = 3
"""Inputs 1 to 3 of the node are input weights, recurrent weights and biases."""


class Recurrent(torch.nn.Module):  # type: ignore[misc]
    """One LSTM or GRU node.

    Args:
        op: ``LSTM`` or ``GRU``.
        name: Name of the node, for messages.
        attributes: Its attributes.
        weights: Input weights ``[directions, gates x hidden, features]``, recurrent weights ``[directions, gates x
            hidden, hidden]`` and, where there are biases, ``[directions, 2 x gates x hidden]``.

    Raises:
        InputError: PyTorch's layer does not support an attribute of the node.
    """

    def __init__(self, op: str, name: str, attributes: Mapping[str, Any], weights: Sequence[torch.Tensor]) -> None:
        super().__init__()
        self.op = op
        unusual = {
            "direction 'reverse'": attributes.get("direction") == "reverse",
            "layout 1": attributes.get("layout", 0) != 0,
            "its own activations": "activations" in attributes,
            "clip": "clip" in attributes,
            "input_forget": attributes.get("input_forget", 0) != 0,
            "linear_before_reset 0": op == "GRU" and attributes.get("linear_before_reset", 0) == 0,
        }
        if found := [what for what, present in unusual.items() if present]:
            raise InputError(
                f"{op} {name!r} uses {found[0]}, which cannot be trained here",
                "export the network from PyTorch, whose recurrent layers can",
            )
        directions, _, features = weights[0].shape
        layer = torch.nn.LSTM if op == "LSTM" else torch.nn.GRU
        self.layer = layer(
            features, weights[1].shape[2], bias=len(weights) == WEIGHTS, bidirectional=directions == len(_SUFFIXES)
        )
        with torch.no_grad():
            for direction, suffix in enumerate(_SUFFIXES[:directions]):
                self._parameter("weight_ih", suffix).copy_(self._to_torch(weights[0][direction]))
                self._parameter("weight_hh", suffix).copy_(self._to_torch(weights[1][direction]))
                if len(weights) == WEIGHTS:
                    for kind, half in zip(("bias_ih", "bias_hh"), weights[2][direction].chunk(2), strict=True):
                        self._parameter(kind, suffix).copy_(self._to_torch(half))

    def forward(self, inputs: Sequence[torch.Tensor | None]) -> tuple[torch.Tensor, ...]:
        """Outputs of all steps ``[sequence, directions, batch, hidden]`` and the last states, as ONNX orders them.

        Args:
            inputs: The node's inputs; the weights at 1 to 3 are ignored, initial states may be missing.
        """
        x = inputs[0]
        assert x is not None
        states = [state for state in inputs[5:7] if state is not None]
        start: Any = None if not states else tuple(states) if self.op == "LSTM" else states[0]
        steps, last = self.layer(x, start)
        sequence, batch, _ = steps.shape
        directions = 2 if self.layer.bidirectional else 1
        steps = steps.reshape(sequence, batch, directions, -1).transpose(1, 2)
        return (steps, *last) if self.op == "LSTM" else (steps, last)

    def onnx_weights(self) -> list[torch.Tensor]:
        """The weights as the node's inputs 1 to 3 hold them."""
        order, suffixes = GATES[self.op], _SUFFIXES[: 2 if self.layer.bidirectional else 1]

        def to_onnx(stacked: torch.Tensor) -> torch.Tensor:
            gates = stacked.detach().chunk(len(order))
            return torch.cat([gates[order.index(index)] for index in range(len(order))])

        kinds: list[tuple[str, ...]] = [("weight_ih",), ("weight_hh",)]
        if self.layer.bias:
            kinds.append(("bias_ih", "bias_hh"))
        return [
            torch.stack([torch.cat([to_onnx(self._parameter(k, s)) for k in kind]) for s in suffixes]) for kind in kinds
        ]

    def _parameter(self, kind: str, suffix: str) -> torch.Tensor:
        parameter: torch.Tensor = getattr(self.layer, f"{kind}_l0{suffix}")
        return parameter

    def _to_torch(self, stacked: torch.Tensor) -> torch.Tensor:
        gates = stacked.chunk(len(GATES[self.op]))
        return torch.cat([gates[index] for index in GATES[self.op]])


_SUFFIXES = ("", "_reverse")

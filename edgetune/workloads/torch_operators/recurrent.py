"""LSTM and GRU nodes of an ONNX graph as PyTorch's own layers, and their trained weights back in ONNX layout.

ONNX stacks gates as i o f c (LSTM) and z r h (GRU), PyTorch as i f g o and r z n; ONNX keeps both biases in one tensor
and one leading axis per direction. PyTorch's layer holds the weights instead of the node, because its fused kernels
require contiguous weights.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from edgetune.errors import InputError

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
        self._refuse_unusual(name, attributes)
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
        suffixes = _SUFFIXES[: 2 if self.layer.bidirectional else 1]
        kinds: list[tuple[str, ...]] = [("weight_ih",), ("weight_hh",)]
        if self.layer.bias:
            kinds.append(("bias_ih", "bias_hh"))
        return [
            torch.stack([torch.cat([self._to_onnx(self._parameter(k, s)) for k in kind]) for s in suffixes])
            for kind in kinds
        ]

    def _parameter(self, kind: str, suffix: str) -> torch.Tensor:
        parameter: torch.Tensor = getattr(self.layer, f"{kind}_l0{suffix}")
        return parameter

    def _to_torch(self, stacked: torch.Tensor) -> torch.Tensor:
        gates = stacked.chunk(len(GATES[self.op]))
        return torch.cat([gates[index] for index in GATES[self.op]])

    def _to_onnx(self, stacked: torch.Tensor) -> torch.Tensor:
        gates = stacked.detach().chunk(len(GATES[self.op]))
        order = GATES[self.op]
        return torch.cat([gates[order.index(index)] for index in range(len(order))])

    def _refuse_unusual(self, name: str, attributes: Mapping[str, Any]) -> None:
        unusual = {
            "direction 'reverse'": attributes.get("direction") == "reverse",
            "layout 1": attributes.get("layout", 0) != 0,
            "its own activations": "activations" in attributes,
            "clip": "clip" in attributes,
            "input_forget": attributes.get("input_forget", 0) != 0,
            "linear_before_reset 0": self.op == "GRU" and attributes.get("linear_before_reset", 0) == 0,
        }
        for what, present in unusual.items():
            if present:
                raise InputError(
                    f"{self.op} {name!r} uses {what}, which cannot be trained here",
                    "export the network from PyTorch, whose recurrent layers can",
                )


_SUFFIXES = ("", "_reverse")

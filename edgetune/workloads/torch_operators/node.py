"""The view of a node that an operator's implementation reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from edgetune.errors import InputError

if TYPE_CHECKING:
    import torch

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

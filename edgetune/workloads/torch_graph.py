"""Reading of an ONNX graph for PyTorch: needed nodes, trainable weights, and values as tensors.

Losses of synthetic training, on random targets drawn once from a seed.

``classification``, ``language``
    Cross-entropy of the last output, whose last axis holds the classes (for a language model, the words that may come
    next), with a random label for each position.
``detection``
    A dense surrogate for YOLOv8's loss, not the loss itself. The real one first assigns each true box to cells (an
    assigner that depends on the predictions) and adds an overlap term. Here every cell has a fixed target: about 2 %
    hold an object of random class at random distances from their centre. Minimised are binary cross-entropy of all
    class scores and, in cells with an object, the distribution focal loss of the distances (arXiv:2006.04388, eq. 6).
    Forward and backward passes of the network are the real ones; of the loss, only its share of the time differs.
``regression``
    Mean squared error of the first output to a random target.

A graph of unknown purpose is trained by ``classification`` if an output is a matrix of more than one column, else by
``regression``.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal

import onnx
import torch
from onnx import AttributeProto, TensorProto, helper, numpy_helper
from torch.nn import functional

from edgetune.errors import InputError
from edgetune.workloads import graphs
from edgetune.workloads.initial_weights import has_data, role_of
from edgetune.workloads.zoo.mobile import BINS, BOXES, SCORES

_SETTINGS: Mapping[str, tuple[int, ...]] = {
    "BatchNormalization": (3, 4), "Clip": (1, 2), "Dropout": (1, 2), "Pad": (2,), "Resize": (1, 2),
}  # fmt: skip
"""Floating-point inputs that are no weights: statistics, limits, ratios, scales."""

_FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE)
_LISTS = (AttributeProto.INTS, AttributeProto.FLOATS, AttributeProto.STRINGS)


def needed_nodes(graph: onnx.GraphProto, wanted: Iterable[str]) -> list[onnx.NodeProto]:
    """Return the nodes that the wanted values depend on, in the graph's order."""
    available = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    made = {name for node in graph.node for name in node.output}
    for name in sorted(set(wanted) - available - made):
        raise InputError(f"the graph has no value {name!r}", "name one of its outputs, or leave them out")
    return graphs.needed_nodes(graph.node, wanted)


def trainable(nodes: Iterable[onnx.NodeProto], weights: Mapping[str, onnx.TensorProto]) -> set[str]:
    """Return the names of the trainable weights: those the zoo recorded, else chosen by use, type and size."""
    if any(role_of(tensor) for tensor in weights.values()):
        return {name for name, tensor in weights.items() if role_of(tensor) == "parameter"}
    settings = {
        name for node in nodes for index, name in enumerate(node.input) if index in _SETTINGS.get(node.op_type, ())
    }
    return {
        name
        for name, tensor in weights.items()
        if tensor.data_type in _FLOATS and name not in settings and math.prod(tensor.dims) > 1
    }


def tensor_value(proto: onnx.TensorProto) -> torch.Tensor:
    """Return the data of a weight or constant."""
    if not has_data(proto):
        raise InputError(f"weight {proto.name!r} has no data", "fill the zoo's graphs with zoo.with_weights first")
    try:
        return torch.from_numpy(numpy_helper.to_array(proto).copy())
    except (TypeError, ValueError) as error:
        raise InputError(
            f"weight {proto.name!r} cannot be read: {error}", "export the model with float weights"
        ) from None


def constant_value(node: onnx.NodeProto) -> torch.Tensor:
    """Return the value of a ``Constant`` node."""
    value = attribute_value(node.attribute[0])
    if isinstance(value, torch.Tensor):
        return value
    first = value[0] if isinstance(value, list) else value
    return torch.tensor(value, dtype=torch.float32 if isinstance(first, float) else torch.int64)


def attribute_value(attribute: onnx.AttributeProto) -> Any:
    """Return an attribute as a Python value, text decoded and tensors as PyTorch tensors."""
    value = helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, onnx.TensorProto):
        return tensor_value(value)
    return list(value) if attribute.type in _LISTS else value


def without_data(model: onnx.ModelProto, names: Collection[str]) -> onnx.ModelProto:
    """Return a copy of the model without the data of the weights ``names``, so that memory holds them once."""
    skeleton = onnx.ModelProto()
    _copy_fields(model, skeleton, skip="graph")
    _copy_fields(model.graph, skeleton.graph, skip="initializer")
    for weight in model.graph.initializer:
        described = {"name": weight.name, "dims": weight.dims, "data_type": weight.data_type}
        empty = TensorProto(**described, doc_string=weight.doc_string)
        skeleton.graph.initializer.append(empty if weight.name in names else weight)
    return skeleton


def _copy_fields(source: Any, target: Any, *, skip: str) -> None:
    for field, value in source.ListFields():
        if field.name == skip:
            continue
        if hasattr(value, "extend"):
            getattr(target, field.name).extend(value)
        elif hasattr(value, "CopyFrom"):
            getattr(target, field.name).CopyFrom(value)
        else:
            setattr(target, field.name, value)


Kind = Literal["classification", "language", "detection", "regression"]


OBJECT_SHARE = 0.02


def values_for(kind: Kind | None) -> Sequence[str] | None:
    """Return the names of the values that a loss is computed from, or ``None`` for the graph's outputs."""
    return (BOXES, SCORES) if kind == "detection" else None


class Objective:
    """The loss of one minibatch; its targets are drawn at the first call, when the shapes are known.

    Args:
        kind: Kind of loss; ``None`` to choose by the outputs.
        seed: Seed of the targets.
    """

    def __init__(self, kind: Kind | None, seed: int) -> None:
        self._kind = kind
        self._generator = torch.Generator().manual_seed(seed)
        self._targets: tuple[torch.Tensor, ...] = ()

    def __call__(self, outputs: Any) -> Any:
        """Return the loss of a module's output or outputs, a scalar tensor."""
        given = outputs if isinstance(outputs, tuple) else (outputs,)
        if self._kind == "detection":
            return self._detection(*given)
        floats = [value for value in given if value.is_floating_point()]
        if not floats:
            raise InputError("no output of the network is of floating point", "train a network that ends in scores")
        matrices = [value for value in floats if value.dim() == 2 and value.shape[1] > 1]
        if self._kind == "regression" or (self._kind is None and not matrices):
            target = self._targets or (torch.randn(floats[0].shape, generator=self._generator),)
            self._targets = (target[0].to(device=floats[0].device, dtype=floats[0].dtype),)
            return functional.mse_loss(floats[0], self._targets[0])
        logits = matrices[-1] if matrices else floats[-1]
        rows = logits.reshape(-1, logits.shape[-1])
        labels = self._targets or (torch.randint(rows.shape[1], (rows.shape[0],), generator=self._generator),)
        self._targets = (labels[0].to(rows.device),)
        return functional.cross_entropy(rows, self._targets[0])

    def _detection(self, distributions: torch.Tensor, scores: torch.Tensor) -> Any:
        """``[batch, 4 x 16, cells]`` distance distributions and ``[batch, classes, cells]`` class scores."""
        batch, classes, cells = scores.shape
        if not self._targets:
            objects = (torch.rand(batch, cells, generator=self._generator) < OBJECT_SHARE).nonzero(as_tuple=True)
            labels = torch.randint(classes, objects[0].shape, generator=self._generator)
            wanted = torch.zeros(batch, classes, cells)
            wanted[objects[0], labels, objects[1]] = 1.0
            distance = torch.rand(len(labels), 4, generator=self._generator) * (BINS - 1.01)
            self._targets = tuple(t.to(scores.device) for t in (wanted, *objects, distance))
        wanted, sample, cell, distance = self._targets
        count = max(1, len(sample))
        found = functional.binary_cross_entropy_with_logits(scores, wanted, reduction="sum") / count
        sides = distributions.reshape(batch, 4, BINS, cells)[sample, :, :, cell].log_softmax(-1)
        below = distance.floor().long()
        share = distance - below
        near = sides.gather(-1, below.unsqueeze(-1)).squeeze(-1)
        far = sides.gather(-1, (below + 1).unsqueeze(-1)).squeeze(-1)
        return found - (near * (1 - share) + far * share).sum() / (4 * count)

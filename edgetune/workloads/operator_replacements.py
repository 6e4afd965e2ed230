"""Replacement of ONNX Runtime's own operators by standard ones for shape inference.

ONNX infers no shapes through operators such as ``com.microsoft.SkipLayerNormalization``, which ONNX Runtime's optimiser
and exporters of language models write. During inference each is replaced by a standard operator of the same output
shape; the model itself keeps its nodes. Source of inputs and outputs: ONNX Runtime's ContribOperators.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from edgetune.workloads.graphs import attributes
from edgetune.workloads.lazy import np, onnx

DOMAIN = "com.microsoft"
Shapes = Mapping[str, tuple[int, ...]]
"""Shapes of weights and of the network's inputs, by name."""
StandIn = tuple[list["onnx.NodeProto"], list["onnx.TensorProto"]]

_SAME: Mapping[str, tuple[int, ...]] = {
    "SkipLayerNormalization": (0, 3),
    "SkipSimplifiedLayerNormalization": (0, 3),
    "SimplifiedLayerNormalization": (0,),
    "SkipGroupNorm": (0, 1),
    **dict.fromkeys(("GroupNorm", "BiasGelu", "FastGelu", "Gelu", "QuickGelu", "BiasAdd", "BiasSoftmax"), (0,)),
    **dict.fromkeys(("RotaryEmbedding", "QLinearSigmoid", "QLinearLeakyRelu", "QLinearSoftmax"), (0,)),
    "BiasDropout": (0,),
}
"""Outputs with the type and shape of the first input."""

_RENAMED: Mapping[str, tuple[str, Sequence[int]]] = {
    "FusedConv": ("Conv", (0, 1, 2)),
    "FusedGemm": ("Gemm", (0, 1, 2)),
    "DynamicQuantizeMatMul": ("MatMul", (0, 1)),
    "QGemm": ("Gemm", (0, 3)),
    "QLinearAdd": ("Add", (0, 3)),
    "QLinearMul": ("Mul", (0, 3)),
    "QLinearAveragePool": ("AveragePool", (0,)),
    "QLinearGlobalAveragePool": ("GlobalAveragePool", (0,)),
    "QLinearConcat": ("Concat", range(2, 1 << 10, 3)),
    "QuantizeLinear": ("QuantizeLinear", (0, 1, 2)),
    "DequantizeLinear": ("DequantizeLinear", (0, 1, 2)),
    "EmbedLayerNormalization": ("Gather", (2, 0)),
    "Pad": ("Pad", (0, 1, 2)),
    "GatherND": ("GatherND", (0, 1)),
    "Trilu": ("Trilu", (0, 1)),
}
"""Operators whose first output has the shape of a standard operator's on some of their inputs."""


def replace_runtime_operators(nodes: Sequence[onnx.NodeProto], shapes: Shapes) -> StandIn:
    """Return ``nodes`` with standard operators for those of ONNX Runtime, and the weights without values they need.

    An operator without a replacement stays: its outputs have the shapes that the model stores, if any.

    Args:
        nodes: Nodes in the order of the graph.
        shapes: Shapes of weights and of the network's inputs.
    """
    kept: list[onnx.NodeProto] = []
    weights: list[onnx.TensorProto] = []
    for node in nodes:
        found = _stand_in(node, shapes)
        kept.extend([node] if found is None else found[0])
        weights.extend([] if found is None else found[1])
    return kept, weights


def _stand_in(node: onnx.NodeProto, shapes: Shapes) -> StandIn | None:
    if node.domain != DOMAIN and node.op_type != "SimplifiedLayerNormalization":
        return None
    if attributes(node).get("channels_last", 0):
        return None
    if node.op_type in _SAME:
        outputs = [node.output[i] for i in _SAME[node.op_type] if i < len(node.output) and node.output[i]]
        return [onnx.helper.make_node("Identity", [node.input[0]], [output]) for output in outputs], []
    if node.op_type in _RENAMED:
        op, places = _RENAMED[node.op_type]
        inputs = [node.input[i] for i in places if i < len(node.input)]
        return [_renamed(node, op, inputs)], []
    special = _SPECIAL.get(node.op_type)
    return special(node, shapes) if special is not None else None


def _renamed(node: onnx.NodeProto, op: str, inputs: Sequence[str]) -> onnx.NodeProto:
    """Return the standard operator with the node's attributes that it has."""
    known = onnx.defs.get_schema(op).attributes
    renamed = onnx.NodeProto(op_type=op, input=inputs, output=node.output[:1])
    renamed.attribute.extend(attribute for attribute in node.attribute if attribute.name in known)
    return renamed


def _fused_matmul(node: onnx.NodeProto, shapes: Shapes) -> StandIn | None:  # noqa: ARG001 - one signature for all
    if attributes(node).get("transBatchA", 0) or attributes(node).get("transBatchB", 0):
        return None
    nodes, operands = [], []
    for name, transposed in zip(node.input[:2], ("transA", "transB"), strict=True):
        if attributes(node).get(transposed, 0):
            turned = f"{node.output[0]}/{transposed}"
            nodes.append(onnx.helper.make_node("Einsum", [name], [turned], equation="...ab->...ba"))
        operands.append(turned if attributes(node).get(transposed, 0) else name)
    return [*nodes, onnx.helper.make_node("MatMul", operands, node.output[:1])], []


def _packed_product(node: onnx.NodeProto, shapes: Shapes) -> StandIn | None:
    """Replace a product with packed weights, or the last of an attention, by one with a weight without values."""
    settings, operands = attributes(node), list(node.input[:2])
    sizes: list[tuple[int, int]] = []
    if node.op_type == "MatMulNBits":
        sizes = [(int(settings.get("K", 0)), int(settings.get("N", 0)))]
    elif node.op_type != "MatMulIntegerToFloat":
        if (weight := shapes.get(node.input[1])) is None:
            return None
        sizes = [(weight[0], int((settings.get("qkv_hidden_sizes", ()) or (weight[1] // 3,) * 3)[2]))]
    if sizes:
        operands[1] = f"{node.output[0]}/weight"
    weights = [onnx.TensorProto(name=operands[1], dims=shape, data_type=onnx.TensorProto.FLOAT) for shape in sizes]
    if node.op_type not in ("MatMulIntegerToFloat", "QAttention"):
        return [onnx.helper.make_node("MatMul", operands, node.output[:1])], weights
    inner = f"{node.output[0]}/integer"
    to_float = onnx.helper.make_node("Cast", [inner], node.output[:1], to=onnx.TensorProto.FLOAT)
    return [onnx.helper.make_node("MatMul", operands, [inner]), to_float], weights


def _multi_head(node: onnx.NodeProto, shapes: Shapes) -> StandIn | None:  # noqa: ARG001 - one signature for all
    """Replace multi-head attention by its query, assumed as wide as the value; packed queries keep stored shapes."""
    if len(node.input) < 2 or not node.input[1]:
        return None
    return [onnx.helper.make_node("Identity", node.input[:1], node.output[:1])], []


def _grouped_query(node: onnx.NodeProto, shapes: Shapes) -> StandIn | None:
    """Replace grouped-query attention by its query; if packed, by a slice with the head size of the cache."""
    if len(node.input) > 1 and node.input[1]:
        return _multi_head(node, shapes)
    past = shapes.get(node.input[3]) if len(node.input) > 3 else None
    if past is None:
        return None
    name = f"{node.output[0]}/bounds"
    bounds = {"start": 0, "end": int(attributes(node).get("num_heads", 0)) * past[3], "axis": 2}
    weights = [onnx.numpy_helper.from_array(np.array([value]), f"{name}/{key}") for key, value in bounds.items()]
    return [onnx.helper.make_node("Slice", [node.input[0], *(w.name for w in weights)], node.output[:1])], weights


def _quantised_lstm(node: onnx.NodeProto, shapes: Shapes) -> StandIn | None:
    """Replace a quantised LSTM by an LSTM of floats with transposed weights."""
    weights, names = [], [f"{node.output[0]}/weight", f"{node.output[0]}/recurrence"]
    for name, stored in zip(names, node.input[1:3], strict=True):
        if stored not in shapes:
            return None
        directions, inner, width = shapes[stored]
        weights.append(onnx.TensorProto(name=name, dims=(directions, width, inner), data_type=onnx.TensorProto.FLOAT))
    standard = _renamed(node, "LSTM", [node.input[0], *names])
    standard.output.extend(node.output[1:])
    return [standard], weights


_SPECIAL: Mapping[str, Callable[[Any, Shapes], StandIn | None]] = {
    "FusedMatMul": _fused_matmul,
    "TransposeMatMul": _fused_matmul,
    **dict.fromkeys(("MatMulIntegerToFloat", "MatMulNBits", "Attention", "QAttention"), _packed_product),
    "MultiHeadAttention": _multi_head,
    "GroupQueryAttention": _grouped_query,
    "DynamicQuantizeLSTM": _quantised_lstm,
}

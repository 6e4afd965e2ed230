"""The type in which an operator computes, told from its tensors: the roof that it is judged against."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from edgetune.artifacts.ops import OpRow
from edgetune.workloads.costs.node import GraphTensor, OperatorNode

_ARITHMETIC: Mapping[str, str] = MappingProxyType(
    {"float64": "fp64", "float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}
)
_QUANTISES_INSIDE = frozenset(("DynamicQuantizeMatMul", "DynamicQuantizeLSTM"))
"""Operators that are given floats and multiply them as 8-bit integers."""
_CHANGES_TYPE = frozenset(("Cast", "CastLike", "DequantizeLinear"))
_DEFAULT = "fp32"


def precision_of(node: OperatorNode) -> str | None:
    """Return the precision of an operator's arithmetic; ``None`` for one on wide integers, booleans or text alone.

    The type of the first operand decides: 8-bit integers are multiplied as such whatever their scales are, and floats
    as floats even where the weights beside them are stored in fewer bits. An operator that changes types computes in
    the type that it makes.
    """
    if node.op in _QUANTISES_INSIDE:
        return "int8"
    first = next((tensor for tensor in node.inputs if tensor is not None), None)
    if first is not None and node.op not in _CHANGES_TYPE and first.dtype in ("int8", "uint8"):
        return "int8"
    tensors = (*node.outputs, *node.inputs) if node.op in _CHANGES_TYPE else (*node.inputs, *node.outputs)
    return next((found for tensor in tensors if (found := _float(tensor)) is not None), None)


def _float(tensor: GraphTensor | None) -> str | None:
    if tensor is None:
        return None
    return "fp8" if tensor.dtype.startswith("float8") else _ARITHMETIC.get(tensor.dtype)


def main_precision(rows: Sequence[OpRow]) -> str:
    """Return the precision in which most is multiplied; without products, computed or else moved."""
    weights: tuple[Callable[[OpRow], int], ...] = (
        lambda row: row.macs,
        lambda row: row.flops,
        lambda row: row.bytes_read + row.bytes_written,
    )
    for weight in weights:
        found: Counter[str] = Counter()
        for row in rows:
            if row.precision is not None and weight(row):
                found[row.precision] += weight(row)
        if found:
            return found.most_common(1)[0][0]
    return _DEFAULT

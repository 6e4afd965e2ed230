"""The types in which a network stores what it computes on."""

from __future__ import annotations

from edgetune.workloads.onnx_file import load_model
from edgetune.workloads.workload import Workload

_PRECISIONS = {1: "fp32", 11: "fp64", 10: "fp16", 16: "bf16", 2: "int8", 3: "int8"}
"""By ONNX's number of an element type (``onnx.TensorProto.DataType``)."""
_DEFAULT = ("fp32",)


def stored_precisions(workload: Workload) -> tuple[str, ...]:
    """Return the precisions of a network's weights and inputs; FP32 for a training file, whose graph is not known.

    Raises:
        InputError: see ``load_model``.
    """
    if workload.kind not in ("onnx", "zoo"):
        return _DEFAULT
    graph = load_model(workload, weights=False).graph
    kinds = [weight.data_type for weight in graph.initializer]
    kinds += [value.type.tensor_type.elem_type for value in graph.input]
    return tuple(dict.fromkeys(_PRECISIONS[kind] for kind in kinds if kind in _PRECISIONS)) or _DEFAULT

"""What preparing would write, told from the graph alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from edgetune.workloads.malformed import refuse_malformed
from edgetune.workloads.onnx_file import fixed_model
from edgetune.workloads.workload import Workload


def planned_weight_bytes(workload: Workload, *, batch_size: int, dimensions: Mapping[str, int]) -> int:
    """Return what the weights of a network take, having checked that its dimensions can be fixed.

    Args:
        workload: A network of the zoo or an ONNX file.
        batch_size: Samples per request.
        dimensions: See ``fix_dimensions``.

    Raises:
        InputError: no network with a graph, or one whose dimensions cannot be fixed so.
    """
    from onnx import helper

    model = fixed_model(workload, batch_size, dimensions, weights=False)
    total_bytes = 0
    with refuse_malformed(f"the weights of {workload.reference}"):
        for tensor in model.graph.initializer:
            dtype: Any = helper.tensor_dtype_to_np_dtype(tensor.data_type)
            total_bytes += math.prod(tensor.dims) * int(dtype.itemsize)
    return total_bytes

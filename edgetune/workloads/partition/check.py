"""The options of a cut, its weight bytes, and the check that the layers compute the same as the whole network."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from edgetune.errors import InputError
from edgetune.workloads.graphs import tensor_bytes
from edgetune.workloads.model_storage import refuse_malformed
from edgetune.workloads.network_inputs import random_inputs, read_inputs
from edgetune.workloads.onnx_file import fixed_model
from edgetune.workloads.ort_session import one_line, require_onnxruntime, session_options
from edgetune.workloads.partition.optimised import Level
from edgetune.workloads.prepared import Prepared
from edgetune.workloads.workload import Workload


@dataclass(frozen=True, slots=True)
class PrepareOptions:
    """The options of a prepared folder.

    Args:
        batch_size: Samples per request.
        dimensions: Sizes of open dimensions, see ``fix_dimensions``.
        optimise: Optimisation level of ONNX Runtime before the cut.
        split_bytes: Largest matrix of a fully connected layer or table that is not split; ``None`` to split none.
        whole: Whether the whole network becomes one layer.
        batch_axes: The batch axes that the user names, see ``Workload``.
        inputs: ``.npz`` file of the inputs that layers and network are compared on; random ones without it.
    """

    batch_size: int = 1
    dimensions: Mapping[str, int] = field(default_factory=dict)
    optimise: Level = "all"
    split_bytes: int | None = None
    whole: bool = False
    batch_axes: tuple[tuple[str, int], ...] | None = None
    inputs: str | None = None

    def document(self) -> dict[str, Any]:
        """Return the options as the manifest stores them, without the batch size, which is a field of its own."""
        named = {} if self.batch_axes is None else {"batch_axes": dict(self.batch_axes)}
        return named | {
            "dimensions": dict(sorted(self.dimensions.items())),
            "optimise": self.optimise,
            "split_bytes": self.split_bytes,
            "whole": self.whole,
        }


def planned_weight_bytes(workload: Workload, *, batch_size: int, dimensions: Mapping[str, int]) -> int:
    """Return the bytes of a network's weights, with its dimensions fixed.

    Args:
        workload: A network of the zoo or an ONNX file.
        batch_size: Samples per request.
        dimensions: See ``fix_dimensions``.

    Raises:
        InputError: the workload has no graph, or its dimensions cannot be fixed.
    """
    model = fixed_model(workload, batch_size, dimensions, weights=False)
    with refuse_malformed(f"the weights of {workload.reference}"):
        return sum(tensor_bytes(tensor.data_type, tensor.dims) for tensor in model.graph.initializer)


CHECK_SHARE = 1.7
"""Memory that the comparison with the whole network takes, as a share of the weights."""
TOLERANCE = 1e-4
"""Allowed difference, as a share of an output's largest magnitude: FP32 rounds each of some thousand sums by 6e-8."""


COARSE_TOLERANCE = 2e-2
"""Tolerance for weights of fewer bits: about two 8-bit steps (1/127 each), since a sum may round either way."""


_FEW = 0.01
"""Share of integers that may differ: an argmax over nearly equal scores may change."""


_OTHERWISE = (
    "edgetune schedule prepare --optimise basic cuts the network as it is, edgetune schedule prepare --whole not at all"
)


def largest_difference(prepared: Prepared, inputs: str | None = None) -> float | None:
    """Return the difference of the layers' outputs from the whole network's, relative to the largest magnitude.

    Returns:
        ``None`` if undecidable: the network fails on random inputs, or its outputs are random.

    Raises:
        InputError: a layer does not run, the outputs differ by more than the tolerance, or the inputs do not fit.
    """
    model = onnx.load(str(prepared.folder / prepared.whole["external"]), load_external_data=False)
    given = None if inputs is None else read_inputs(inputs, model, prepared.batch_size)
    try:
        feed = random_inputs(model, seed=0) if given is None else given
        session = _session(prepared.folder / prepared.whole["external"], optimised=True)
        expected, again = session.run(None, feed), session.run(None, feed)
        del session
    except Exception:  # exceptions of ONNX Runtime: an index out of range, a shape that does not fit
        return None
    if difference_between(again, expected) != 0:
        return None
    difference = difference_between(run_layers(prepared, feed), expected)
    full = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT32, TensorProto.INT64, TensorProto.BOOL)
    coarse = any(tensor.data_type not in (*full, TensorProto.STRING) for tensor in model.graph.initializer)
    if not difference <= (COARSE_TOLERANCE if coarse else TOLERANCE):
        raise InputError(
            f"the layers of {prepared.reference} do not compute what the whole network does: outputs differ by "
            f"{difference:.2g} of the largest",
            _OTHERWISE,
        )
    return difference


def run_layers(prepared: Prepared, feed: Mapping[str, Any]) -> list[Any]:
    """Run the layers one after another and return the network's outputs.

    Raises:
        InputError: ONNX Runtime fails to run a layer; the message names the layer.
    """
    values = dict(feed)
    for layer in prepared.layers:
        fed = {name: values[name] for name in layer.inputs}
        for weight in layer.weights:
            path = prepared.folder / weight.file
            fed[weight.input] = np.memmap(path, weight.dtype, "r", weight.offset, weight.shape)
        try:
            made = _session(prepared.folder / layer.graph, optimised=False).run(list(layer.outputs), fed)
        except Exception as error:  # its exception types share no base class but Exception
            raise InputError(
                f"layer {layer.name} of {prepared.reference} does not run alone: {one_line(error)}", _OTHERWISE
            ) from None
        values.update(zip(layer.outputs, made, strict=True))
    return [values[tensor.name] for tensor in prepared.outputs]


def _session(path: Path, *, optimised: bool) -> Any:
    ort = require_onnxruntime(("CPUExecutionProvider",))
    options = session_options("all" if optimised else "disabled")  # layers were optimised before the cut
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def difference_between(
    found: Sequence[Any], expected: Sequence[Any], *, least: float = float(np.finfo(np.float32).tiny)
) -> float:
    """Return the largest difference between outputs, as a share of the largest magnitude; infinite for other shapes.

    Args:
        found, expected: The outputs.
        least: Smallest magnitude to take the share of.
    """
    most = 0.0
    for got, want in zip(found, expected, strict=True):
        if got.shape != want.shape or got.dtype != want.dtype:
            return float("inf")
        if got.dtype.kind != "f":
            differing = float(np.mean(got != want)) if got.size else 0.0
            most = max(most, 0.0 if differing <= _FEW else 1.0)
            continue
        finite = np.isfinite(want)
        if not np.array_equal(got[~finite], want[~finite], equal_nan=True) or not np.isfinite(got[finite]).all():
            return float("inf")
        off = np.abs(got[finite].astype(np.float64) - want[finite])
        most = max(most, float(off.max(initial=0) / max(np.abs(want[finite]).max(initial=0), least)))
    return most

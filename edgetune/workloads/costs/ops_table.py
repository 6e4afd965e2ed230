"""The operator table of a workload: the graph costed, with its provenance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from edgetune.artifacts.header import Caution, Header
from edgetune.artifacts.ops import KIND, VERSION, OpRow, OpsTable
from edgetune.artifacts.profile import Task
from edgetune.errors import InputError
from edgetune.workloads.costs.decoder import decoder_nodes, pass_of
from edgetune.workloads.costs.fused_view import fuse
from edgetune.workloads.costs.generation import decoder_conditions, graph_conditions
from edgetune.workloads.costs.kernel_table import kernel_table
from edgetune.workloads.costs.training import training_rows
from edgetune.workloads.costs.walk import Costed, cost_nodes, read_graph, to_row
from edgetune.workloads.given_ops import matching
from edgetune.workloads.kernels import kernel_of
from edgetune.workloads.llm import read_decoder
from edgetune.workloads.onnx_file import fix_dimensions, input_specs, load_model
from edgetune.workloads.shapes import without_weights
from edgetune.workloads.workload import Workload

if TYPE_CHECKING:
    import onnx

_NOTHING: Mapping[str, int] = MappingProxyType({})
_IMAGE_RANK = 4
_IMAGE_CHANNELS = (1, 3)


def operator_table(
    workload: Workload,
    task: Task,
    batch_size: int,
    *,
    precision: str = "fp32",
    dimensions: Mapping[str, int] = _NOTHING,
    fused: bool = False,
) -> OpsTable:
    """Return what each operator of a workload costs. The weights are not read.

    Where the workload comes with an operator table, that is it. A kernel has a row for each run in its step.

    Args:
        workload: An ONNX file, a network of the zoo, a kernel, or a language model.
        task: ``infer`` for the forward pass, ``train`` for a whole step.
        batch_size: Samples per minibatch.
        precision: Storage of floating-point tensors: ``fp32``, ``fp16``, ``bf16``, ``fp8``, ``int8``; of a kernel
            what it computes in, ``tf32`` too.
        dimensions: Sizes of open dimensions other than the batch, see ``fix_dimensions``; of a language model see
            ``pass_of``.
        fused: Whether element-wise chains and normalisations by batch are folded into their producer, see ``fuse``;
            of inference only.

    Raises:
        InputError: see ``load_model`` and ``fix_dimensions``; an unknown precision; a shape a formula needs and
            inference did not find; a given table that is for another task, batch size or precision.
    """
    if workload.ops is not None:
        return matching(workload.ops.table, task, batch_size, precision)
    if workload.kind == "kernel":
        return kernel_table(workload, kernel_of(workload, task, batch_size, precision))
    if precision == "tf32":
        raise InputError(
            f"{workload.reference} has no costs in tf32, a way of multiplying FP32 and not of storing it",
            "leave --precision out: its operations and bytes are those of fp32",
        )
    return _operator_table(workload, task, batch_size, precision, tuple(sorted(dimensions.items())), fused=fused)


@lru_cache(maxsize=256)
def _operator_table(
    workload: Workload,
    task: Task,
    batch_size: int,
    precision: str,
    dimensions: tuple[tuple[str, int], ...],
    *,
    fused: bool,
) -> OpsTable:
    # Safe to remember: a workload carries the hash of its definition.
    if workload.kind == "llm":
        return _decoder_table(workload, task, batch_size, precision, dict(dimensions), fused=fused)
    return model_table(
        load_model(workload, weights=False),
        workload.name,
        task,
        batch_size,
        precision=precision,
        dimensions=dict(dimensions),
        loads_images=_zoo_loads_images(workload),
        inputs=_origin(workload),
        fused=fused,
    )


def model_table(
    model: onnx.ModelProto,
    name: str,
    task: Task,
    batch_size: int,
    *,
    precision: str = "fp32",
    dimensions: Mapping[str, int] = _NOTHING,
    loads_images: bool | None = None,
    inputs: Mapping[str, object] = MappingProxyType({}),
    fused: bool = False,
) -> OpsTable:
    """Return the operator table of a model in memory; the arguments are those of ``operator_table``.

    Args:
        model: Its dimensions may be open.
        name: Name of the network in the table.
        loads_images: Whether training samples are images that CPU cores decode; guessed from the inputs when ``None``.
        inputs: Provenance for the header.
        fused: See ``operator_table``.

    Raises:
        InputError: see ``operator_table``.
    """
    _refuse_fused_training(task, fused)
    fixed = fix_dimensions(without_weights(model), batch_size=batch_size, dimensions=dimensions)
    graph = read_graph(fixed, precision=precision, training=task == "train")
    costed = cost_nodes(graph.nodes)
    run = graph_conditions(fixed, graph.parameters, precision)
    conditions: dict[str, object] = {"dimensions": dict(dimensions), **run}
    if fused:
        costed = _fused(costed, frozenset(value.name for value in fixed.graph.output), conditions)
    rows = training_rows(costed, graph.parameters) if task == "train" else _forward(costed)
    return _table(
        name,
        task,
        batch_size,
        precision,
        rows,
        inputs=inputs,
        conditions=conditions,
        parameters=sum(tensor.elements for tensor in graph.parameters),
        loads_images=_loads_images(fixed) if loads_images is None else loads_images,
    )


def _decoder_table(
    workload: Workload, task: Task, batch_size: int, precision: str, dimensions: Mapping[str, int], *, fused: bool
) -> OpsTable:
    """Return the table of a language model at one operating point, which the header names."""
    if task != "infer":
        raise InputError(f"{workload.reference} is costed for inference only", "--task infer")
    assert workload.path is not None
    decoder, run = read_decoder(workload.path), pass_of(batch_size, dimensions)
    nodes = decoder_nodes(decoder, run, precision)
    costed = cost_nodes(nodes)
    conditions = decoder_conditions(decoder, run, nodes, precision)
    if fused:
        costed = _fused(costed, frozenset((nodes[-1].y.name,)), conditions)
    return _table(
        workload.name,
        task,
        batch_size,
        precision,
        _forward(costed),
        inputs=_origin(workload),
        conditions=conditions,
        parameters=decoder.parameters,
        loads_images=False,
    )


def _table(
    name: str,
    task: Task,
    batch_size: int,
    precision: str,
    rows: Sequence[OpRow],
    *,
    inputs: Mapping[str, object],
    conditions: Mapping[str, object],
    parameters: int,
    loads_images: bool,
) -> OpsTable:
    unmodelled = sorted({row.op for row in rows if row.ledger == "unmodelled"})
    count = sum(row.ledger == "unmodelled" for row in rows)
    caution = Caution(
        "unmodelled-operators",
        f"no cost is known for {', '.join(unmodelled)}; totals leave them out",
        {"nodes": float(count), "nodes_share": count / max(len(rows), 1)},
    )
    asked = {"task": task, "batch_size": batch_size, "precision": precision}
    header = Header.new(
        KIND, VERSION, inputs=inputs, conditions={**asked, **conditions}, warnings=(caution,) if unmodelled else ()
    )
    return OpsTable(header, name, task, batch_size, precision, parameters, loads_images, tuple(rows))


def _forward(costed: Sequence[Costed]) -> list[OpRow]:
    return [to_row(item.node, item.cost) for item in costed]


def _fused(costed: Sequence[Costed], outputs: frozenset[str], conditions: dict[str, object]) -> list[Costed]:
    """Return the fused view, and record what the operators one by one would move and launch."""
    moved = sum(item.cost.bytes_read + item.cost.bytes_written for item in costed)
    conditions["fused"] = True
    conditions["unfused"] = {"bytes_moved": moved, "kernels": sum(item.cost.kernels for item in costed)}
    return fuse(costed, outputs)


def _refuse_fused_training(task: Task, fused: bool) -> None:
    if fused and task == "train":
        raise InputError(
            "training is not fused: its backward pass reads what lies between the operators",
            "--task infer, or leave --fused out",
        )


def _origin(workload: Workload) -> dict[str, object]:
    return {"workload": {"name": workload.reference, "sha256": workload.sha256}}


def _zoo_loads_images(workload: Workload) -> bool | None:
    """Return what the zoo says of its own network; ``None`` for any other."""
    if workload.kind != "zoo":
        return None
    from edgetune.workloads import zoo

    return zoo.NETWORKS[workload.name].loads_images


def _loads_images(model: onnx.ModelProto) -> bool:
    """Return whether samples are images that CPU cores decode: an input of rank 4 with one or three channels.

    A heuristic, for data loading is not in the graph: N C H W, or N H W C as TensorFlow exports.
    """
    shapes = [shape for _, shape, _ in input_specs(model) if len(shape) == _IMAGE_RANK]
    return any(shape[1] in _IMAGE_CHANNELS or shape[3] in _IMAGE_CHANNELS for shape in shapes)

"""The operator table of a workload with its provenance: the costs of a graph's operators, or of a peak kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Literal

from edgetune.artifacts.header import DataWarning, Header
from edgetune.artifacts.ops import KIND, VERSION, OpRow, OpsTable
from edgetune.artifacts.profile import Task
from edgetune.errors import InputError
from edgetune.workloads.control_flow import CONTROL_FLOW
from edgetune.workloads.costs.derived import apart, fuse, training_rows
from edgetune.workloads.costs.formulas.pointwise import trains
from edgetune.workloads.costs.generation import decoder_conditions, decoder_nodes, graph_conditions, pass_of
from edgetune.workloads.costs.node import GraphTensor, OperatorNode, main_precision, streamed
from edgetune.workloads.costs.table import has_formula
from edgetune.workloads.costs.walk import Costed, cost_nodes, read_graph, to_row
from edgetune.workloads.kernels import KERNELS, MATMUL, BenchmarkKernel, kernel_of
from edgetune.workloads.lazy import onnx
from edgetune.workloads.llm import read_decoder
from edgetune.workloads.observed import Feed, observe
from edgetune.workloads.onnx_file import fix_dimensions, fixed_model, input_specs, load_model, network_batch, with_batch
from edgetune.workloads.resolve import matching
from edgetune.workloads.shapes import infer, without_weights
from edgetune.workloads.workload import Workload

_NOTHING: Mapping[str, int] = MappingProxyType({})
_RANDOM = Feed()
View = Literal["fused", "eager"] | None
"""Operators fused into fewer kernels, split into more kernels, or (``None``) unchanged."""
_DEFAULT = "fp32"
_MOST = 2**63 - 1
"""Largest count of a table: its columns are signed 64-bit integers."""
_IMAGE_RANK = 4
_IMAGE_CHANNELS = (1, 3)


def operator_table(
    workload: Workload,
    task: Task,
    batch_size: int,
    *,
    precision: str | None = None,
    dimensions: Mapping[str, int] = _NOTHING,
    fused: bool = False,
    eager: bool = False,
    feed: Feed = _RANDOM,
) -> OpsTable:
    """Return the costs of each operator of a workload.

    If the workload comes with an operator table, that table is returned. A kernel has a row for each run in its step.
    For a network the graph is read, not the weights. Where shapes, trip counts or branches depend on the data, an ONNX
    file runs once to observe them, see ``observed``. Operators that are still unknown are unmodelled.

    Args:
        workload: An ONNX file, a network of the zoo, a kernel, or a language model.
        task: ``infer`` for the forward pass, ``train`` for a whole step.
        batch_size: Samples per minibatch.
        precision: Storage and arithmetic of every floating-point tensor: ``fp32``, ``fp16``, ``bf16``, ``fp8``,
            ``int8``; for a kernel also ``tf32``. ``None`` for the types that the graph declares; a language model's
            configuration and a kernel then have ``fp32``.
        dimensions: Sizes of open dimensions other than the batch, see ``fix_dimensions``; for a language model see
            ``pass_of``.
        fused: Whether element-wise chains and batch normalisations are folded into their producer, see ``fuse``;
            inference only.
        eager: Whether the parts of attention, GELU, LSTM and the like are separate kernels, see ``apart``; inference
            only.
        feed: Inputs of the run that observes shapes.

    Raises:
        InputError: see ``load_model`` and ``fix_dimensions``; the precision is unknown; the given table is for another
            task, batch size or precision.
    """
    if workload.ops is not None:
        return matching(workload.ops.table, task, batch_size, precision)
    if workload.kind == "kernel":
        return kernel_table(workload, kernel_of(workload, task, batch_size, precision or _DEFAULT))
    if precision == "tf32":
        raise InputError(
            f"{workload.reference} has no costs in tf32, a way of multiplying FP32 and not of storing it",
            "leave --precision out: its operations and bytes are those of fp32",
        )
    if fused and eager:
        raise InputError("--fused joins kernels and --eager takes them apart", "leave one of them out")
    view: View = "fused" if fused else "eager" if eager else None
    sizes = tuple(sorted(dimensions.items()))
    return _network_table(workload, CostRequest(task, batch_size, precision, sizes, view, feed))


@dataclass(frozen=True, slots=True)
class CostRequest:
    """What an operator table costs; the fields are the arguments of ``operator_table``."""

    task: Task
    batch_size: int
    precision: str | None = None
    dimensions: tuple[tuple[str, int], ...] = ()
    view: View = None
    feed: Feed = _RANDOM


@lru_cache(maxsize=256)
def _network_table(workload: Workload, request: CostRequest) -> OpsTable:
    # Safe to cache: a workload carries the hash of its definition.
    if workload.kind == "llm":
        return _decoder_table(workload, request)
    return graph_table(load_model(workload, weights=False), workload.name, request, workload)


def graph_table(model: onnx.ModelProto, name: str, request: CostRequest, workload: Workload | None = None) -> OpsTable:
    """Return the table of a model; its workload, if any, runs where the graph does not determine all shapes.

    Raises:
        InputError: see ``operator_table``.
    """
    task, view, precision, dimensions = request.task, request.view, request.precision, dict(request.dimensions)
    if view is not None and task == "train":
        raise InputError(
            "--eager is of inference: no parts of a backward pass are known"
            if view == "eager"
            else "training is not fused: its backward pass reads what lies between the operators",
            f"--task infer, or leave --{view} out",
        )
    fixed = fix_dimensions(
        without_weights(model), batch_size=request.batch_size, dimensions=dimensions,
        batch=None if workload is None else network_batch(workload, dimensions, request.batch_size),
    )  # fmt: skip
    read = partial(read_graph, fixed, precision=precision, training=task == "train")
    graph = read()
    costed = cost_nodes(graph.nodes)
    data_warnings: tuple[DataWarning, ...] = ()
    if workload is not None and not (graph.settled and all(map(_has_shapes, costed))):
        observed, failed = observe(
            with_batch(workload, dimensions, request.batch_size), request.batch_size, dimensions, request.feed
        )
        infer(fixed, observed)
        graph = read(observed=observed)
        costed = cost_nodes(graph.nodes)
        told = "shapes, trip counts and branches that depend on the data are those of one run, fed as to measure it"
        data_warnings = (DataWarning("shapes-of-a-run", told, {}) if failed is None else _no_run(failed),)
    data_warnings = (*data_warnings, *_unknown_shapes(costed), *_training_mode(costed, task))
    conditions: dict[str, object] = {"dimensions": dimensions, **graph_conditions(fixed, graph.weights, precision)}
    if graph.quantised:
        conditions["quantised_operators"] = graph.quantised
    if view is not None:
        costed = _viewed(costed, view, frozenset(value.name for value in fixed.graph.output), conditions)
    return _table(
        name, request, training_rows(costed, graph.parameters) if task == "train" else _forward(costed),
        inputs=_origin(workload), conditions=conditions, parameters=sum(tensor.elements for tensor in graph.weights),
        loads_images=_loads_images(fixed, workload), data_warnings=data_warnings,
    )  # fmt: skip


def time_warnings(
    workload: Workload, task: Task, batch_size: int, dimensions: Mapping[str, int]
) -> tuple[DataWarning, ...]:
    """Return warnings about the time of a network: that it depends on the data, or is of training mode.

    Args:
        workload: An ONNX file or a network of the zoo, which was measured.
        task, batch_size, dimensions: As it was measured.
    """
    try:
        graph = read_graph(fixed_model(workload, batch_size, dimensions, weights=False))
        costed = cost_nodes(graph.nodes)
    except InputError:  # it runs, although its costs are unknown
        return ()
    deciding = [
        f"{item.node.op} {item.node.name!r}"
        for item in costed
        if (has_formula(item.node) and item.node.op not in CONTROL_FLOW)
        and all(tensor.shape is not None for tensor in item.node.reads)
        and any(tensor.shape is None for tensor in item.node.makes)
    ]
    deciding += [] if graph.settled else ["the trips of a loop, or the branch of an If"]
    told = (
        f"the time depends on the data, which decide {deciding[0]}; --inputs FILE.npz feeds real ones"
        if deciding
        else ""
    )
    found = (DataWarning("time-of-data", told, {"operators": float(len(deciding))}),) if deciding else ()
    return (*found, *_training_mode(costed, task))


def _training_mode(costed: Sequence[Costed], task: Task) -> tuple[DataWarning, ...]:
    """Return a warning if inference is of a file that was exported in training mode."""
    count = sum(trains(item.node) for item in costed) if task == "infer" else 0
    told = "the file was exported in training mode: its BatchNormalization computes statistics of each batch"
    return (DataWarning("training-mode", told, {"operators": float(count)}),) if count else ()


def _has_shapes(item: Costed) -> bool:
    """Return whether an operator has a cost, or lacks one for other reasons than unknown shapes."""
    known = all(tensor.shape is not None for tensor in (*item.node.reads, *item.node.makes))
    return item.cost.ledger != "unmodelled" or (known and item.node.op not in CONTROL_FLOW)


def _unknown_shapes(costed: Sequence[Costed]) -> list[DataWarning]:
    """Return a warning if shapes are missing to operators that have a formula."""
    missing: dict[str, None] = {}
    for item in costed:
        if not _has_shapes(item) and has_formula(item.node):
            tensors = (*item.node.reads, *item.node.makes)
            missing.update(dict.fromkeys(each.name for each in tensors if each.shape is None))
    if not missing:
        return []
    first = repr(next(iter(missing)))[1:-1]  # in a damaged model a name may contain any characters
    more = f" and of {len(missing) - 1} more" if len(missing) > 1 else ""
    advice = f"the shape of tensor '{first}'{more} is unknown: no run showed it"
    return [DataWarning("unknown-shapes", advice, {"tensors": float(len(missing))})]


def _no_run(failed: str) -> DataWarning:
    return DataWarning(
        "no-run-for-shapes",
        "some shapes, trip counts or branches depend on the data, and the network did not run to show them: "
        f"{failed}; without them the dearer branch of an If counts, and a Loop as often as its constant says",
        {},
    )


def _decoder_table(workload: Workload, request: CostRequest) -> OpsTable:
    """Return the table of a language model in one run, whose conditions are in the header."""
    if request.task != "infer":
        raise InputError(f"{workload.reference} is costed for inference only", "ask for its inference")
    assert workload.path is not None
    precision = request.precision or _DEFAULT
    decoder, run = read_decoder(workload.path), pass_of(request.batch_size, dict(request.dimensions))
    nodes = decoder_nodes(decoder, run, precision)
    costed = cost_nodes(nodes)
    conditions = decoder_conditions(decoder, run, nodes, precision)
    if request.view is not None:
        costed = _viewed(costed, request.view, frozenset((nodes[-1].y.name,)), conditions)
    return _table(
        workload.name, replace(request, precision=precision), _forward(costed), inputs=_origin(workload),
        conditions=conditions, parameters=decoder.parameters,
    )  # fmt: skip


def _table(
    name: str,
    request: CostRequest,
    rows: Sequence[OpRow],
    *,
    inputs: Mapping[str, object],
    conditions: Mapping[str, object],
    parameters: int = 0,
    loads_images: bool = False,
    data_warnings: tuple[DataWarning, ...] = (),
) -> OpsTable:
    _refuse_beyond_64_bits(name, rows)
    unmodelled = sorted({row.op for row in rows if row.ledger == "unmodelled"})
    count = sum(row.ledger == "unmodelled" for row in rows)
    if unmodelled:
        advice = f"no cost is known for {', '.join(unmodelled)}; totals leave them out"
        figures = {"nodes": float(count), "nodes_share": count / max(len(rows), 1)}
        data_warnings = (*data_warnings, DataWarning("unmodelled-operators", advice, figures))
    task, batch_size, precision = request.task, request.batch_size, request.precision or main_precision(rows)
    asked = {"task": task, "batch_size": batch_size, "precision": precision}
    header = Header.new(KIND, VERSION, inputs=inputs, conditions={**asked, **conditions}, warnings=data_warnings)
    return OpsTable(header, name, task, batch_size, precision, parameters, loads_images, tuple(rows))


def _refuse_beyond_64_bits(name: str, rows: Sequence[OpRow]) -> None:
    """Refuse a network whose counts exceed the 64-bit integers of a table, row by row or in total.

    Raises:
        InputError: a count exceeds them; the message names the dearest operator.
    """
    for column, what in (
        ("flops", "FLOP"),
        ("bytes_moved", "bytes"),
        ("weight_bytes", "bytes"),
        ("kernels", "kernels"),
    ):
        counts = [getattr(row, column) for row in rows]
        if sum(counts) > _MOST:
            dearest = rows[counts.index(max(counts))]
            raise InputError(
                f"{name} would take more than 2^63 - 1 {what}, most of them in {dearest.name!r} ({dearest.op})",
                "check the dimensions and trip counts of the network: one of them is too large",
            )


def _forward(costed: Sequence[Costed]) -> list[OpRow]:
    return [to_row(item.node, item.cost) for item in costed]


def _viewed(
    costed: Sequence[Costed], view: str, outputs: frozenset[str], conditions: dict[str, object]
) -> list[Costed]:
    """Return the fused or the eager view; record the bytes and launches of the plain operators in ``conditions``."""
    moved = sum(item.cost.bytes_moved for item in costed)
    conditions[view] = True
    conditions["unfused"] = {"bytes_moved": moved, "kernels": sum(item.cost.kernels for item in costed)}
    return fuse(costed, outputs) if view == "fused" else apart(costed)


def _origin(workload: Workload | None) -> dict[str, object]:
    return {} if workload is None else {"workload": {"name": workload.reference, "sha256": workload.sha256}}


def _loads_images(model: onnx.ModelProto, workload: Workload | None) -> bool:
    """Return whether samples are images that CPU cores decode: of the zoo a fact, else guessed from the inputs.

    The graph does not contain data loading: an input of rank 4 with one or three channels is taken for an image,
    N C H W, or N H W C as TensorFlow exports.
    """
    if workload is not None and workload.kind == "zoo":
        from edgetune.workloads import zoo

        return zoo.NETWORKS[workload.name].loads_images
    shapes = [shape for _, shape, _ in input_specs(model) if len(shape) == _IMAGE_RANK]
    return any(shape[1] in _IMAGE_CHANNELS or shape[3] in _IMAGE_CHANNELS for shape in shapes)


def kernel_table(workload: Workload, kernel: BenchmarkKernel) -> OpsTable:
    """Return the table of one step of a kernel.

    Args:
        workload: Name and provenance.
        kernel: The kernel of the workload.
    """
    stored, flops = kernel.storage, kernel.flops

    def operand(name: str, rows: int, columns: int) -> GraphTensor:
        return GraphTensor(name, (rows, columns), stored.operand, stored.operand_bytes)

    x, y = (operand(name, kernel.rows, kernel.columns) for name in ("x", "y"))
    node = OperatorNode(kernel.label, KERNELS[kernel.name], (x,), (y,))
    if kernel.name == MATMUL:  # each operand is read once, the result written once
        factors = operand("a", kernel.rows, kernel.inner), operand("b", kernel.inner, kernel.columns)
        product = GraphTensor("c", (kernel.rows, kernel.columns), stored.result, stored.result_bytes)
        node = replace(node, inputs=factors, outputs=(product,))
        cost = streamed(node, "saturated", macs=flops // 2, channels_in=kernel.inner, channels_out=kernel.columns)
    else:
        cost = streamed(node, "elementwise" if kernel.name == "relu" else "copy", flops_other=flops)
    row = replace(to_row(node, cost), precision=None)  # operands of TF32 and FP32 are alike
    rows = [replace(row, name=f"{row.name}_{run}") for run in range(kernel.repeats)]
    request = CostRequest("infer", 1, kernel.precision)
    return _table(workload.name, request, rows, inputs=_origin(workload), conditions={"dimensions": {}})

"""Loading of ONNX models, from untrusted files or the zoo, and their batch and stored precisions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

from edgetune.artifacts.files import file_hash, require_utf8
from edgetune.errors import EdgetuneError, InputError
from edgetune.limits import read_whole
from edgetune.workloads import model_storage
from edgetune.workloads.batch import confirm
from edgetune.workloads.dimensions import batch_of, fix_dimensions, input_specs
from edgetune.workloads.foreign_files import model_name, refuse_foreign, require_file
from edgetune.workloads.input_values import FROM_FILE, needs_runs, static_values
from edgetune.workloads.lazy import onnx
from edgetune.workloads.model_storage import HINT, check_model, refuse_malformed
from edgetune.workloads.observed import running
from edgetune.workloads.workload import Batch, InputValues, Workload, WorkloadKind

__all__ = ["fix_dimensions", "fixed_model", "input_specs", "load_model", "network_batch", "parse_model"]


_MAX_PROTOBUF_BYTES = 2**31 - 1


def load(reference: str) -> Workload:
    """Return the workload of an ONNX file, whatever its ending.

    Raises:
        InputError: the file is missing, unreadable, empty, a folder or of another kind, or its weights are missing.
    """
    path = require_file(reference)
    refuse_foreign(path, reference)
    try:
        sha256 = _hash(path)
    except InputError:
        refuse_foreign(path, reference, by_name=True)
        raise
    return Workload(reference, model_name(path), "onnx", path, sha256)


def _hash(path: Path) -> str:
    """Return the hash of an ONNX file and of the names and sizes of its external weights.

    The weights may be gigabytes and are not read: only changes of their files' sizes change the hash.
    """
    model = parse_model(path)
    with refuse_malformed(f"the external weights of {path}"):
        files = model_storage.check_external(model, path.parent)
    digest = file_hash(path)
    for file in files:
        digest.update(f"\0{file.name}\0{file.stat().st_size}".encode())
    return digest.hexdigest()


_SIMULATE = "name an ONNX file or zoo:resnet18, or simulate what it costs: edgetune profile MODEL --ops FILE"
_TO_ONNX = (
    "export it to ONNX: torch.onnx.export(torch.export.load({}), f='net.onnx'); edgetune profile runs it as it is"
)
_WITHOUT_GRAPH = {
    "program": ("program of torch.export", _TO_ONNX),
    "engine": ("TensorRT engine", "name the ONNX file that it was built from; edgetune profile runs it as it is"),
    "python": ("Python workload", _SIMULATE),
    "name": ("name in a table", _SIMULATE),
}
"""Kinds of workloads without a graph in words, and hints."""


def load_model(workload: Workload, *, weights: bool) -> onnx.ModelProto:
    """Return the workload's ONNX model with its dimensions as exported.

    Args:
        workload: A result of ``resolve``.
        weights: Whether to read external weights and to draw those of a zoo network. Otherwise large external files are
            checked and not read.

    Raises:
        InputError: the workload has no graph; the file cannot be read or is no ONNX model; external weights are
            missing, truncated or outside the model's folder.
    """
    if workload.kind == "zoo":
        from edgetune.workloads import zoo

        model = zoo.weightless(workload.name)
        return zoo.with_weights(model) if weights else model
    if workload.kind == "llm":
        raise InputError(
            f"{workload.reference} is a configuration: it has no graph and no weights to run",
            "edgetune roofline ops costs it; to run the model, export it to ONNX",
        )
    if workload.kind != "onnx" or workload.path is None:
        what, hint = _WITHOUT_GRAPH.get(workload.kind, (workload.kind, _SIMULATE))
        raise InputError(
            f"{workload.reference} is a {what} and has no graph of operators", hint.format(repr(workload.reference))
        )
    model = parse_model(workload.path)
    folder = workload.path.parent
    with refuse_malformed(f"the external weights of {workload.path}"):
        if model_storage.check_external(model, folder) and weights:
            require_utf8(folder)
            onnx.external_data_helper.load_external_data_for_model(model, str(folder.resolve()))
    return model


def fixed_model(
    workload: Workload, batch_size: int, dimensions: Mapping[str, int], *, weights: bool
) -> onnx.ModelProto:
    """Return the workload's model with fixed dimensions; see ``load_model`` and ``fix_dimensions``."""
    batch = network_batch(workload, dimensions, batch_size)
    return fix_dimensions(
        load_model(workload, weights=weights), batch_size=batch_size, dimensions=dimensions, batch=batch
    )


def network_batch(
    workload: Workload, dimensions: Mapping[str, int], batch_size: int | None = None, *, inputs: str | None = None
) -> Batch:
    """Return the batch axes of the workload's inputs.

    Args:
        workload: An ONNX file or a network of the zoo.
        dimensions: Sizes of open dimensions.
        batch_size: A batch size that it must run at; ``None`` for that of the file.
        inputs: ``.npz`` of inputs for runs that decide; random ones without it.

    Raises:
        InputError: see ``load_model`` and ``fix_dimensions``.
    """
    if workload.batch is not None:
        return workload.batch
    key = (workload, tuple(sorted(dimensions.items())))
    found = _batches.get(key)
    resized = found is not None and batch_size not in (None, found.exported)
    if found is None or (resized and not found.decided):
        found = batch_of(
            load_model(workload, weights=False), lambda tried: confirm(workload, tried, dimensions, inputs),
            dimensions=dimensions, asked=workload.batch_axes, resized=resized,
        )  # fmt: skip
        _batches[key] = found
        return network_batch(workload, dimensions, batch_size, inputs=inputs)
    return found


_batches: dict[tuple[Workload, tuple[tuple[str, int], ...]], Batch] = {}
"""The batches decided by this process: a workload carries the hash of its definition."""


def network_values(workload: Workload, dimensions: Mapping[str, int]) -> tuple[InputValues, ...]:
    """Return the values of the workload's inputs that are no plain floats, as runs find them.

    Where the network cannot run they are those that its graph shows, which their words say. Those of the zoo are known.

    Raises:
        InputError: an input decides how much is computed; see also ``load_model`` and ``fix_dimensions``.
    """
    if workload.values is not None:
        return workload.values
    key = (workload, tuple(sorted(dimensions.items())))
    if key not in _values:
        batch = network_batch(workload, dimensions)
        fixed = fixed_model(workload, batch.exported or 1, dimensions, weights=False)
        found = static_values(fixed)
        if workload.kind != "zoo" and needs_runs(fixed):
            try:
                with running(workload, dimensions) as ask:
                    reply = ask({"command": "values", "batch": asdict(batch)})
            except EdgetuneError:  # told where the network is measured
                reply = {}
            if "refused" in reply:
                raise InputError(reply["refused"], FROM_FILE)
            if "values" in reply:
                found = tuple(InputValues(**each) for each in reply["values"])
            else:
                found = tuple(replace(each, words=f"{each.words} (no run confirmed it)") for each in found)
        _values[key] = found
    return _values[key]


_values: dict[tuple[Workload, tuple[tuple[str, int], ...]], tuple[InputValues, ...]] = {}
"""The values found by this process."""


def with_batch(workload: Workload, dimensions: Mapping[str, int], batch_size: int | None = None) -> Workload:
    """Return a workload with its batch and known values of inputs, for another process, which need not decide them.

    Without a batch size, a batch that is not decided stays so.
    """
    if not workload.has_graph:
        return workload
    batch = network_batch(workload, dimensions, batch_size)
    if not batch.decided and batch_size is None:
        return workload
    return replace(workload, batch=batch, values=_values.get((workload, tuple(sorted(dimensions.items())))))


def parse_model(path: Path) -> onnx.ModelProto:
    """Return the model in a file without loading external weights.

    Raises:
        InputError: the file is unreadable, empty or no ONNX model; the model has no operators or exceeds the limits.
    """
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    foreign = InputError(
        f"{path} is not an ONNX model, or is cut short", "export the model to ONNX again, or use e.g. zoo:resnet18"
    )
    try:
        size = path.stat().st_size
        if size > _MAX_PROTOBUF_BYTES:
            raise InputError(
                f"{path} is larger than 2 GiB, which no ONNX file can be",
                "save the model with external data (onnx.save_model(..., save_as_external_data=True))",
            )
        with path.open("rb") as file:
            content = file.read(size) if size else read_whole(file, name=str(path))  # a device has no size
    except OSError as error:
        raise InputError(
            f"cannot read {path}: {error.strerror or error}", "check the path and its permissions"
        ) from None
    if not content:
        raise InputError(f"{path} is empty", "export the model again")
    model = onnx.ModelProto()
    try:
        model.ParseFromString(content)
    except DecodeError:
        raise foreign from None
    if not model.ir_version or not model.opset_import or not model.HasField("graph"):
        raise foreign
    if not model.graph.node:
        raise InputError(f"{path} is an ONNX model without operators", "export the model again")
    if not _is_text(model.graph):
        raise InputError(f"{path} has names that are not UTF-8 text: it is damaged", HINT)
    with refuse_malformed(f"the graph of {path}"):
        check_model(model, str(path))
    return model


def _is_text(graph: onnx.GraphProto) -> bool:
    """Return whether all names are text: protobuf returns damaged names as bytes, or fails to read them."""
    try:
        names = [graph.name, *(value.name for value in (*graph.input, *graph.output, *graph.value_info))]
        names += [weight.name for weight in graph.initializer]
        for node in graph.node:
            names += [node.name, node.op_type, node.domain, *node.input, *node.output]
            names += [attribute.name for attribute in node.attribute]
    except UnicodeDecodeError:
        return False
    return all(isinstance(name, str) for name in names)


_PRECISIONS = {1: "fp32", 11: "fp64", 10: "fp16", 16: "bf16", 2: "int8", 3: "int8"}
"""Precision by ONNX's number of an element type (``onnx.TensorProto.DataType``)."""


def stored_precisions(workload: Workload) -> tuple[str, ...]:
    """Return the precisions of a network's weights and inputs; FP32 for a training file, whose graph is unknown.

    Raises:
        InputError: see ``load_model``.
    """
    if not workload.is_graph:
        return ("fp32",)
    graph = load_model(workload, weights=False).graph
    kinds = [weight.data_type for weight in graph.initializer]
    kinds += [value.type.tensor_type.elem_type for value in graph.input]
    return tuple(dict.fromkeys(_PRECISIONS[kind] for kind in kinds if kind in _PRECISIONS)) or ("fp32",)


def is_quantized(workload: Workload) -> bool:
    """Return whether a network's graph has the scales of its 8-bit tensors (QDQ).

    Raises:
        InputError: see ``load_model``.
    """
    return any(node.op_type == "QuantizeLinear" for node in load_model(workload, weights=False).graph.node)


KIND = WorkloadKind(load, endings=(".onnx",), task="infer")

"""Storage of models: checks of external weight files, and atomic writing of models.

A model is untrusted input. Its external locations are paths that this program opens, so an absolute path, a path with
``..`` or a symbolic link could read any file of the user. External weights must be inside the model's folder.

Checks of untrusted models: limits on their size, and one error for malformed bytes.

Limits are checked before a model is processed: 1 kB of functions that call each other expands to 10^6 operators.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from edgetune import limits
from edgetune.artifacts.files import require_utf8, writing
from edgetune.errors import InputError
from edgetune.workloads.graphs import bodies, constant_nodes, nested_bodies, nested_nodes, tensor_bytes
from edgetune.workloads.lazy import onnx

_READ_OVER = 8
"""Number of times that a file of weights may always be read, for tensors that share values."""


_PACKED = ("INT4", "UINT4", "FLOAT4E2M1", "INT2", "UINT2")


def check_external(model: onnx.ModelProto, folder: Path) -> list[Path]:
    """Return the external files of a model after checking that each is inside ``folder``, exists and is long enough.

    Raises:
        InputError: an entry has no location or an invalid number; a location is outside the folder, missing, no file,
            or shorter than its tensor; or too many tensors share the same part of a file.
    """
    files: dict[str, Path] = {}
    read_bytes = 0
    for tensor in (each for each in _all_tensors(model) if each.data_location == onnx.TensorProto.EXTERNAL):
        values = {item.key: item.value for item in tensor.external_data}
        location = values.get("location", "")
        try:
            offset_bytes, length_bytes = int(values.get("offset", 0)), int(values.get("length", 0))
        except ValueError:
            offset_bytes = length_bytes = -1
        if not location or "\0" in location or offset_bytes < 0 or length_bytes < 0:
            raise InputError(
                f"external weights of {tensor.name!r} have no valid location, offset or length",
                "the model is malformed; export it again",
            )
        path = files.get(location) or _inside(tensor.name, location, folder)
        files[location] = path
        size_bytes, needed_bytes = path.stat().st_size, 0
        with suppress(KeyError, TypeError, ValueError):  # of a packed type, which NumPy lacks, the length is checked
            if onnx.TensorProto.DataType.Name(tensor.data_type) not in _PACKED:
                needed_bytes = tensor_bytes(tensor.data_type, tensor.dims)
        end = offset_bytes + max(length_bytes, needed_bytes)
        if end > size_bytes:
            raise InputError(
                f"external weights of {tensor.name!r} are cut short: {path} has {size_bytes} bytes, {end} are needed",
                "copy the file again, or export the model again",
            )
        read_bytes += max(length_bytes or size_bytes - offset_bytes, needed_bytes)
    found = sorted(set(files.values()))
    enough = _READ_OVER * sum(path.stat().st_size for path in found)
    limits.check("weight_bytes", read_bytes, "the external weights of the model", at_least=enough)
    return found


def _inside(name: str, location: str, folder: Path) -> Path:
    root = folder.resolve()
    try:
        path = (root / location).resolve()
        found = path.is_file()
    except (OSError, RuntimeError) as error:  # a cycle of links, a name that is too long
        raise InputError(f"external weights of {name!r} cannot be reached: {error}", "export the model again") from None
    if Path(location).is_absolute() or not path.is_relative_to(root):
        raise InputError(
            f"external weights of {name!r} lie outside the model's folder: {location}",
            f"refused: a model may only read files below {folder}; move the weights there and export again",
        )
    if not found:
        raise InputError(
            f"external weights of {name!r} are missing: {path}", "put the file beside the model, as it was exported"
        )
    return path


def _all_tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    nodes = [*model.graph.node, *(node for function in model.functions for node in function.node)]
    for graph in (model.graph, *nested_bodies(nodes)):
        yield from graph.initializer
        for sparse in graph.sparse_initializer:
            yield from (sparse.values, sparse.indices)
    for node in nested_nodes(nodes):
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors


EXTERNAL_ABOVE_BYTES = 1_500_000_000
"""Protobuf refuses messages of 2 GiB; above this size the weights go into a second file."""


_HINT = "check the folder, its permissions and the free space"


def save_model(model: onnx.ModelProto, path: Path) -> Path:
    """Write a model through a temporary folder and return its path; large weights go into ``<file>.data``.

    Args:
        model: The model; if it is large, its weights are moved out of it.
        path: The file to write or replace.

    Raises:
        InputError: the file cannot be written; an existing file is unchanged.
    """
    with writing(path, _HINT) as output, output.written_by_path() as partial:
        weights = f"{path.name}.data"
        if model.ByteSize() > EXTERNAL_ABOVE_BYTES:
            require_utf8(path)
            onnx.save_model(model, partial, save_as_external_data=True, location=weights)
            with writing(path.with_name(weights), _HINT) as data, data.written_by_path() as whole:
                (partial.parent / weights).replace(whole)
        else:
            onnx.save_model(model, partial)
    return output.path


HINT = "check the model with onnx.checker, or export it again"


@contextmanager
def refuse_malformed(what: str) -> Iterator[None]:
    """Convert exceptions of protobuf, onnx and NumPy on a damaged model to an ``InputError`` that names ``what``.

    Invalid UTF-8, unknown types, values that do not fill their shape, missing inputs and recursive functions parse as
    protobuf and fail only when read.

    Args:
        what: The part being read, e.g. ``"the model's weights"``.

    Raises:
        InputError: one of these exceptions was raised.
    """
    try:
        yield
    except Exception as error:
        # those of the onnx library share no base class with other errors
        of_onnx = onnx.checker.ValidationError, onnx.shape_inference.InferenceError
        if not isinstance(error, (ArithmeticError, LookupError, TypeError, ValueError, *of_onnx)):
            raise
        lines = str(error).splitlines() or [type(error).__name__]
        raise InputError(f"{what} cannot be read, the model is malformed: {lines[0]}", HINT) from error


_Key = tuple[str, str, str]


def check_model(model: onnx.ModelProto, name: str) -> None:
    """Refuse a model with more operators, bodies within bodies, weights or inputs than the limits allow.

    Operators are counted after inlining of every function, including those in bodies of control flow.

    Raises:
        InputError: the model exceeds a limit, or a function calls itself.
    """
    limits.check("onnx_inputs", max(len(model.graph.input), len(model.graph.output)), name)
    limits.check("onnx_nodes", _inlined_nodes(model, name), name)
    nodes = [*model.graph.node, *(node for function in model.functions for node in function.node)]
    limits.check("onnx_nesting", _nesting(nodes), name)
    graphs = (model.graph, *nested_bodies(nodes))
    limits.check("onnx_weights", sum(len(each.initializer) + len(each.sparse_initializer) for each in graphs), name)


def check_constants(model: onnx.ModelProto, name: str) -> None:
    """Refuse a model whose operators compute more bytes from constants than the limit allows.

    ONNX Runtime computes these tensors when it optimises a model, and keeps them; one ``ConstantOfShape`` can take
    gigabytes.

    Args:
        model: The model with inferred shapes; tensors of unknown shape are not counted.
        name: Name of the model, for the message.

    Raises:
        InputError: the bytes exceed the limit ``constant_bytes`` and eight times the weights of the model.
    """
    graph = model.graph
    declared = {value.name: value.type.tensor_type for value in (*graph.value_info, *graph.output)}
    stored = {each.name: tensor_bytes(each.data_type, each.dims) for each in graph.initializer}
    made = 0
    for node in constant_nodes(graph.node, stored, operands=lambda node: node.input):
        for output in node.output if node.op_type != "Constant" else ():
            if output in declared and declared[output].HasField("shape"):
                made += tensor_bytes(
                    declared[output].elem_type, [size.dim_value for size in declared[output].shape.dim]
                )
    limits.check("constant_bytes", made, name, at_least=8 * sum(stored.values()))


def check_inputs(inputs: Iterable[onnx.ValueInfoProto], name: str, *, batch_size: int) -> None:
    """Refuse a model whose inputs take more bytes per sample than the limit ``input_bytes`` allows.

    Args:
        inputs: Its data inputs with fixed dimensions, see ``dimensions.data_inputs``.
        name: Name of the model, for the message.
        batch_size: Samples per minibatch.

    Raises:
        InputError: the inputs exceed the limit.
    """
    types = [value.type.tensor_type for value in inputs]
    fed = sum(tensor_bytes(each.elem_type, [size.dim_value for size in each.shape.dim]) for each in types)
    limits.check("input_bytes", fed // batch_size, name)


def _nesting(nodes: Iterable[onnx.NodeProto], level: int = 1) -> int:
    """Return the number of operators in bodies, each counted once for each body around it."""
    inner = (body.node for node in nodes for body in bodies(node))
    return sum(level * len(each) + _nesting(each, level + 1) for each in inner)


def _inlined_nodes(model: onnx.ModelProto, name: str) -> int:
    """Return the number of operators after inlining of functions; each function's own count is computed once."""
    functions = {_key(each.domain, each.name, each): each for each in model.functions}
    calls = {
        key: {_key(n.domain, n.op_type, n) for n in nested_nodes(f.node)} & functions.keys()
        for key, f in functions.items()
    }
    sizes: dict[_Key, int] = {}
    try:
        order = list(TopologicalSorter(calls).static_order())
    except CycleError as error:
        circle = " calls ".join(key[1] for key in error.args[1])
        raise InputError(f"{name} has functions that call themselves: {circle}", "export the model again") from None
    for key in order:
        sizes[key] = _count(functions[key].node, sizes)
    return _count(model.graph.node, sizes)


def _count(nodes: Sequence[onnx.NodeProto], sizes: Mapping[_Key, int]) -> int:
    return sum(sizes.get(_key(node.domain, node.op_type, node), 1) for node in nested_nodes(nodes))


def _key(domain: str, name: str, of: onnx.NodeProto | onnx.FunctionProto) -> _Key:
    return domain, name, getattr(of, "overload", "")

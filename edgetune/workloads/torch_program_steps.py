"""Inference of a program of ``torch.export.save`` by PyTorch, on generated inputs or those of the user.

Source: https://docs.pytorch.org/docs/stable/export.html (``torch.export.load``, ``ExportedProgram.module``).

Programs of ``torch.export.save``: what a ``.pt2`` file says about its inputs, read without PyTorch.

    net.pt2 = zip of models/model.json (the graph, its inputs and ranges of symbols), weights, example inputs

``torch_program_steps`` loads and runs such a program, in the child process alone: old files hold pickles.

Source: PyTorch, ``torch/_export/serde/schema.py`` (``ExportedProgram``, ``SymInt``, ``RangeConstraint``) and
https://docs.pytorch.org/docs/stable/export/pt2_archive.html.
"""

import json
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from edgetune.artifacts.files import file_hash
from edgetune.artifacts.profile import Task
from edgetune.choices import nearest
from edgetune.errors import DeviceError, EdgetuneError, InputError
from edgetune.workloads.foreign_files import model_name, refuse_foreign, require_file
from edgetune.workloads.network_inputs import made_inputs
from edgetune.workloads.ort_session import one_line
from edgetune.workloads.torch_required import INSTALL_TORCH, require_accelerator, require_torch
from edgetune.workloads.workload import BatchLimits, RunOptions, Workload, WorkloadKind

EXPORT = "torch.export.save(torch.export.export(model, (example,)), 'net.pt2')"
_GRAPHS = ("models/model.json", "serialized_exported_program.json")
"""The graph since PyTorch 2.8, and before."""
_LARGEST_GRAPH_BYTES = 512 << 20
_SYMBOL = re.compile(r"Symbol\('(\w+)'[^)]*\)|([A-Za-z_]\w*)")

Size = int | str
"""A fixed size, the name of a symbol, or ``?`` for a size that is computed from symbols."""


@dataclass(frozen=True, slots=True)
class ProgramShapes:
    """The shapes of a program.

    Args:
        inputs, outputs: Sizes of each tensor, by name.
        ranges: The smallest and largest size of each symbol; ``None`` for no largest.
        examples: The size of each symbol in the example with which the program was exported.
        torch_version: PyTorch that wrote the file; empty if the file does not say it.
    """

    inputs: Mapping[str, tuple[Size, ...]]
    outputs: Mapping[str, tuple[Size, ...]]
    ranges: Mapping[str, tuple[int, int | None]]
    examples: Mapping[str, int]
    torch_version: str = ""

    @property
    def batch_symbol(self) -> str | None:
        """The symbol of the batch: that of the first axis of an input and of an output; ``None`` if it is fixed.

        Time may come first in the input, ``[20, s27, 16]`` of a recurrent network, but not one single sample.
        """
        firsts = {shape[0] for shape in self.outputs.values() if shape}
        places = [shape[0] for shape in self.inputs.values() if shape]
        places += [shape[1] for shape in self.inputs.values() if len(shape) > 1 and shape[0] != 1]
        return next((size for size in places if size in firsts and isinstance(size, str) and size != "?"), None)

    @property
    def batch_axes(self) -> dict[str, int]:
        """The batch axis of each input that has one."""
        symbol = self.batch_symbol
        fixed = self._fixed_batch() if symbol is None else None
        if symbol is None:
            return {} if fixed is None else {name: 0 for name, shape in self.inputs.items() if shape}
        return {name: shape.index(symbol) for name, shape in self.inputs.items() if symbol in shape}

    @property
    def batch_limits(self) -> BatchLimits:
        """The batch sizes that the program takes; a program without a batch runs once a minibatch, at 1."""
        symbol = self.batch_symbol
        if symbol is None:
            fixed = self._fixed_batch() or 1
            return BatchLimits(
                fixed,
                fixed,
                fixed,
                "leave --batch-sizes out, or export it with dynamic_shapes={'x': {0: Dim('batch')}}",
            )
        least, most = self.ranges.get(symbol, (1, None))
        least = max(least, 1)
        return BatchLimits(
            least, most, self.examples.get(symbol, least), "name a size in this range, or export it with a wider Dim"
        )

    def _fixed_batch(self) -> int | None:
        """Return the size that every first axis of inputs and outputs has; ``None`` if they differ."""
        firsts = {shape[0] for shape in (*self.inputs.values(), *self.outputs.values()) if shape}
        found = next(iter(firsts)) if len(firsts) == 1 else None
        return found if isinstance(found, int) and found > 0 else None


def load(reference: str) -> Workload:
    """Return the workload of a ``.pt2`` file, which is not loaded.

    Raises:
        InputError: the file is missing, unreadable, cut short, or no program.
    """
    path = require_file(reference)
    workload = Workload(reference, model_name(path), "program", path, file_hash(path).hexdigest())
    shapes_of(workload)
    return workload


def shapes_of(workload: Workload) -> ProgramShapes:
    """Return the shapes of a program.

    Raises:
        InputError: the file is cut short, damaged, or no program.
    """
    assert workload.path is not None
    return _shapes(workload.path, workload.reference, workload.sha256)


@lru_cache(maxsize=16)
def _shapes(path: Path, reference: str, sha256: str) -> ProgramShapes:  # noqa: ARG001 -- the hash makes caching safe
    damaged = InputError(f"{reference} is cut short, damaged, or of an unknown format", f"save it again: {EXPORT}")
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            graph = next((name for name in names if name.endswith(_GRAPHS)), None)
            if graph is None:
                refuse_foreign(path, reference)
                compiled = any("/aotinductor/" in name for name in names)
                what = "compiled by AOTInductor and holds no program" if compiled else "a zip archive, but no program"
                raise InputError(f"{reference} is {what}", f"save the program: {EXPORT}")
            if archive.getinfo(graph).file_size > _LARGEST_GRAPH_BYTES:
                raise damaged
            written = json.loads(archive.read(graph))
            return _read(written, written.get("torch_version") or "")
    except (zipfile.BadZipFile, OSError, NotImplementedError, EOFError):
        with path.open("rb") as stream:
            if stream.read(2) != b"PK":
                refuse_foreign(path, reference)
                raise InputError(f"{reference} is no program of torch.export", f"save one: {EXPORT}") from None
        raise damaged from None
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError, MemoryError, zipfile.error):
        raise damaged from None


def _read(written: Mapping[str, Any], torch_version: str) -> ProgramShapes:
    """Return the shapes of a serialised program; a malformed one raises ``KeyError``, ``TypeError`` or the like."""
    graph, examples = written["graph_module"], dict[str, int]()
    tensors = graph["graph"]["tensor_values"]

    def shapes(specs: list[Mapping[str, Any]], kind: str) -> dict[str, tuple[Size, ...]]:
        arguments = [each[kind]["arg"] for each in specs if kind in each]
        names = [each["as_tensor"]["name"] for each in arguments if "as_tensor" in each]
        return {name: tuple(_size(each, examples) for each in tensors[name]["sizes"]) for name in names}

    signature = graph["signature"]
    ranges = {
        str(name): (int(each["min_val"] or 0), None if each["max_val"] is None else int(each["max_val"]))
        for name, each in written["range_constraints"].items()
    }
    inputs, outputs = shapes(signature["input_specs"], "user_input"), shapes(signature["output_specs"], "user_output")
    return ProgramShapes(inputs, outputs, ranges, examples, str(torch_version))


def _size(described: Mapping[str, Any], examples: dict[str, int]) -> Size:
    """Return a size, and add the example's value of a symbol to ``examples``."""
    if "as_int" in described:
        return int(described["as_int"])
    expression = described["as_expr"]
    found = _SYMBOL.fullmatch(expression["expr_str"])
    if found is None:
        return "?"
    name = found[1] or found[2]
    hint = (expression.get("hint") or {}).get("as_int")
    if hint is not None:
        examples[name] = int(hint)
    return name


KIND = WorkloadKind(
    load,
    endings=(".pt2",),
    task="infer",
    runtime="edgetune.workloads.torch_program_steps",
    runs_code=True,
    batch_limits=lambda workload: shapes_of(workload).batch_limits,
)


def open_step(workload: Workload, task: Task, batch_size: int, options: RunOptions) -> Callable[[], object]:
    """Return a step that calls the program with one minibatch; see ``steps.open_step``.

    Raises:
        InputError: the task is to train, the program cannot be loaded or does not take this batch size, a size of an
            input is unknown, or the inputs do not fit.
        DeviceError: PyTorch is missing or too old, or cannot use the device.
    """
    if task != "infer":
        raise InputError(
            f"{workload.reference} is an exported program, which infers and does not train",
            "use --task infer, or give a Python file or an ONNX file to train",
        )
    torch = require_torch()
    require_accelerator(options.torch_device)
    shapes = shapes_of(workload)
    shapes.batch_limits.check(batch_size, workload.reference)
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    program = _loaded(torch, workload, shapes.torch_version, options.torch_device)
    arguments, named = _arguments(torch, program, shapes, batch_size, options)
    with _refusing(f"{workload.reference} cannot be made to run"):
        module = program.module()

    def step() -> object:
        with torch.no_grad():
            try:
                return module(*arguments, **named)
            except Exception as error:
                why = one_line(error) or type(error).__name__
                raise InputError(
                    f"{workload.reference} failed at batch size {batch_size}: {why}",
                    "give real inputs with --inputs FILE.npz if it looks them up, or export it for these shapes",
                ) from None

    return step


def _loaded(torch: Any, workload: Workload, written_by: str, device: str) -> Any:
    """Return the program on a device.

    Raises:
        InputError: it cannot be loaded.
        DeviceError: this PyTorch has no ``torch.export.load``.
    """
    if not hasattr(torch, "export") or not hasattr(torch.export, "load"):
        raise DeviceError(f"PyTorch {torch.__version__} cannot load programs of torch.export", INSTALL_TORCH)
    made = f", which PyTorch {written_by} saved" if written_by else ""
    with _refusing(
        f"PyTorch {torch.__version__} cannot load {workload.reference}{made}",
        "export it with the PyTorch that runs it, or install the one that saved it",
    ):
        program = torch.export.load(str(workload.path))
        if device == "cpu" and all(tensor.device.type == "cpu" for tensor in program.state_dict.values()):
            return program
        from torch.export.passes import move_to_device_pass

        return move_to_device_pass(program, device)


@contextmanager
def _refusing(what: str, hint: str = "export it again") -> Iterator[None]:
    """Report any exception of PyTorch as an ``InputError``."""
    try:
        yield
    except EdgetuneError:
        raise
    except Exception as error:
        raise InputError(f"{what}: {one_line(error) or type(error).__name__}", hint) from None


def _arguments(
    torch: Any, program: Any, shapes: ProgramShapes, batch_size: int, options: RunOptions
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the positional and the named arguments of a call.

    Floats are uniform in [0, 1), whole numbers 0 or 1; constants are those of the export.

    Raises:
        InputError: a size is unknown, an argument is no tensor, or the user's arrays do not fit.
    """
    values = dict(options.dimensions)
    known = sorted({*shapes.ranges, *shapes.examples})
    if unknown := sorted(set(values) - set(known)):
        listed = f"open dimensions: {', '.join(known) or 'none; all its dimensions are fixed'}"
        raise InputError(f"the program has no open dimension {unknown[0]!r}", nearest(unknown[0], known, listed=listed))
    if shapes.batch_symbol is not None:
        values[shapes.batch_symbol] = batch_size
    tensors = {node.name: node.meta["val"] for node in program.graph.nodes if node.op == "placeholder"}
    arguments = [spec.arg for spec in program.graph_signature.input_specs if spec.kind.name == "USER_INPUT"]
    constants = {each.name: each.value for each in arguments if type(each).__name__ == "ConstantArgument"}
    names = [each.name for each in arguments if each.name not in constants]
    if any(not isinstance(tensors[name], torch.Tensor) for name in names):
        raise InputError("the program takes a number or an object, not only tensors", "export it with tensors alone")
    specs = [
        (name, _sizes(name, tensors[name].shape, values, shapes), _numpy_type(tensors[name].dtype)) for name in names
    ]
    arrays = made_inputs(specs, batch_size, shapes.batch_axes, options.inputs, options.seed)
    made = {
        name: torch.from_numpy(array).to(tensors[name].dtype).to(options.torch_device) for name, array in arrays.items()
    }
    flat = [constants[each.name] if each.name in constants else made[each.name] for each in arguments]
    from torch.utils._pytree import tree_unflatten  # since 2.1, and what torch.export itself uses

    positional, named = tree_unflatten(flat, program.call_spec.in_spec)
    return tuple(positional), dict(named)


def _sizes(name: str, shape: Sequence[Any], values: Mapping[str, int], shapes: ProgramShapes) -> tuple[int, ...]:
    """Return the shape of an input with the symbols of ``values`` filled in.

    Raises:
        InputError: a symbol has no value, or one out of its range.
    """
    found = []
    for axis, size in enumerate(shape):
        if isinstance(size, int):
            found.append(size)
            continue
        expression = size.node.expr
        for symbol in sorted(map(str, expression.free_symbols)):
            example = shapes.examples.get(symbol)
            least, most = shapes.ranges.get(symbol, (0, None))
            if symbol not in values:
                seen = "" if example is None else f", exported with {symbol}={example}"
                raise InputError(
                    f"axis {axis} of input {name} is open ({expression}{seen})",
                    f"choose it: --dim {symbol}={example or max(least, 1)}",
                )
            if values[symbol] < least or (most is not None and values[symbol] > most):
                upper = "or more" if most is None else f"to {most}"
                raise InputError(f"the program takes {symbol} of {least} {upper}, not {values[symbol]}", "change --dim")
        found.append(int(expression.subs({each: values[str(each)] for each in expression.free_symbols})))
    return tuple(found)


def _numpy_type(dtype: Any) -> str:
    """Return the NumPy type in which the user gives an input; bfloat16 and FP8 have none of their own."""
    name = str(dtype).removeprefix("torch.")
    return "float32" if name.startswith(("bfloat", "float8")) else name

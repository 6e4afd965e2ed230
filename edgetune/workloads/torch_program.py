"""Programs of ``torch.export.save``: what a ``.pt2`` file says about its inputs, read without PyTorch.

    net.pt2 = zip of models/model.json (the graph, its inputs and ranges of symbols), weights, example inputs

``torch_program_steps`` loads and runs such a program, in the child process alone: old files hold pickles.

Source: PyTorch, ``torch/_export/serde/schema.py`` (``ExportedProgram``, ``SymInt``, ``RangeConstraint``) and
https://docs.pytorch.org/docs/stable/export/pt2_archive.html.
"""

import json
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from edgetune.artifacts.files import file_hash
from edgetune.errors import InputError
from edgetune.workloads.foreign_files import model_name, refuse_foreign, require_file
from edgetune.workloads.workload import BatchLimits, Workload, WorkloadKind

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

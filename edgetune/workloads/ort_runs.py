"""Runs of a network on ONNX Runtime that show how it behaves: its outputs, the shapes inside, its trips and branches.

The profiler reports the shapes of the inputs and outputs of every operator, including those in bodies of control flow,
and keeps no tensors in memory.

Source: onnxruntime, ``sequential_executor.cc``, ``input_type_shape`` and ``output_type_shape`` of each kernel's event.

Runs that find the values of a network's inputs, in the process of ``observe_worker``.

Each whole number, and each float that may be a size, is run on several values. If other tensors get another shape, or
operators run more often, the input decides how much is computed, and the user must give it. If another branch runs, the
input is the constant that the graph compares it with. Of an index, the largest value is the largest that runs.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from edgetune.errors import InputError
from edgetune.workloads import shapes
from edgetune.workloads.dimensions import input_specs
from edgetune.workloads.graphs import nested_nodes
from edgetune.workloads.input_values import FROM_FILE, constant, of_use, uses
from edgetune.workloads.model_storage import save_model
from edgetune.workloads.observed import name_by_path, path_of, read_profile
from edgetune.workloads.ort_session import cannot_load, one_line, require_onnxruntime, session_options
from edgetune.workloads.workload import InputValues

Trace = tuple[dict[str, int], dict[str, tuple[int, list[int]]]]
"""Runs of operators and sizes of tensors, the fields of an ``Observation``."""

_FAILED = re.compile(r"running (\w+) node\. Name:'([^']*)'")
_OUT_OF_MEMORY = ("Failed to allocate memory", "bad_alloc", "bad allocation")


class RunError(Exception):
    """The network does not run on these inputs; the message names the operator where ONNX Runtime does."""


class Session:
    """A network loaded without optimisations.

    Args:
        model: The network with its weights; the outputs change for a moment, and with ``profile`` the names of nodes.
        folder: A folder for its files.
        expose: Tensors inside that are outputs too.
        profile: Whether ``traces`` is called.

    Raises:
        InputError: it cannot be loaded.
    """

    def __init__(
        self, model: onnx.ModelProto, folder: Path, *, expose: Sequence[str] = (), profile: bool = False
    ) -> None:
        ort, options = require_onnxruntime(("CPUExecutionProvider",)), session_options("disabled")
        self._names: dict[str, tuple[str, onnx.NodeProto]] = {}
        self._ended: list[bool] = []
        if profile:
            name_by_path(model.graph, self._names)
            options.enable_profiling = True
            options.profile_file_prefix = str(folder / "trace")
        own = len(model.graph.output)
        model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in expose)
        path = save_model(model, folder / "model.onnx")
        del model.graph.output[own:]
        try:
            self._session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # its exception types share no base class but Exception
            if any(sign in str(error) for sign in _OUT_OF_MEMORY):
                raise MemoryError from None
            raise cannot_load("the network", error) from None
        self.outputs = [output.name for output in self._session.get_outputs()]

    def run(self, feed: Mapping[str, Any]) -> list[Any]:
        """Return the outputs, of which some may be no arrays.

        Raises:
            RunError: the network does not run on this feed.
        """
        self._ended.append(False)
        try:
            outputs: list[Any] = self._session.run(None, dict(feed))
        except Exception as error:
            if any(sign in str(error) for sign in _OUT_OF_MEMORY):
                raise MemoryError from None
            failed = _FAILED.search(str(error))
            told = f"node {failed[2]!r} ({failed[1]}) does not run" if failed and not self._names else one_line(error)
            raise RunError(told) from None
        self._ended[-1] = True
        return outputs

    def traces(self) -> list[Trace]:
        """Return what each run did that ended well, and stop profiling."""
        text = Path(self._session.end_profiling()).read_text(encoding="utf-8", errors="replace")
        events = json.loads(text)
        spans = [(event["ts"], event["ts"] + event["dur"]) for event in events if event.get("name") == "model_run"]
        found = [
            read_profile((event for event in events if start <= event["ts"] <= end), self._names)
            for start, end in spans
        ]
        return [trace for trace, ended in zip(found, self._ended, strict=False) if ended]


_MOST = 2**31 - 1


def find_values(model: onnx.ModelProto, folder: Path) -> tuple[InputValues, ...]:
    """Return the values of each input that is no plain float.

    Args:
        model: The model with fixed dimensions and its weights; its nodes get other names.
        folder: A folder for its files.

    Raises:
        InputError: an input decides how much is computed, or selects a branch by an unknown value.
        RunError: the network runs neither on ones nor on zeros.
    """
    return _Search(model, folder).find()


class _Search:
    def __init__(self, model: onnx.ModelProto, folder: Path) -> None:
        self._specs = {name: (shape, np.dtype(dtype)) for name, shape, dtype in input_specs(model)}
        self._uses, self._compared = uses(model), _compared_constants(model)
        self._labels = [(node, f"{node.op_type} {node.name or path_of('', node)!r}") for node in model.graph.node]
        self._found = {name: constant(name, 1) for name, (_, dtype) in self._specs.items() if dtype.kind in "biu"}
        self._generator = np.random.default_rng(0)
        self._session = Session(model, folder, profile=True)

    def find(self) -> tuple[InputValues, ...]:
        self._run_first()
        asked = [(name, value) for name in self._specs for value in self._others(name)]
        ran = [(name, value) for name, value in asked if self._accepts(name, value)]
        first, *traces = self._session.traces()
        for name in dict.fromkeys(name for name, _ in ran):
            self._judge(name, first, [(value, t) for (n, value), t in zip(ran, traces, strict=True) if n == name])
        for name, (_, dtype) in self._specs.items():
            if dtype.kind == "b":
                self._found[name] = constant(name, 1, "true")
            elif dtype.kind in "iu" and self._found[name] == constant(name, 1):
                self._found[name] = self._whole_numbers(name)
            elif dtype.kind == "f" and name in self._uses:
                self._found[name] = self._index(name)
        return tuple(self._found.values())

    def _others(self, name: str) -> list[float]:
        """Return the values to compare the first run with."""
        shape, dtype = self._specs[name]
        flat = len(shape) <= 1
        if dtype.kind in "iu":
            return [*([0] if flat else []), 2, 3, *(self._compared if math.prod(shape) <= 1 else [])]
        return [0.5, 1.0, 2.0] if flat and dtype.kind == "f" else []

    def _run_first(self) -> None:
        """Run on ones; else on zeros; else with a number that something is compared with."""
        whole = [*self._found]
        tried = [dict.fromkeys(whole, 1), dict.fromkeys(whole, 0)]
        tried += [{**dict.fromkeys(whole, 1), n: v} for n in whole if not self._specs[n][0] for v in self._compared]
        failed = RunError("")
        for values in tried:
            self._found = {name: constant(name, value) for name, value in values.items()}
            try:
                self._session.run(self._feed())
            except RunError as error:
                failed = error
                continue
            flat = [name for name, value in values.items() if value == 0 and len(self._specs[name][0]) == 1]
            if flat:
                raise InputError(f"input {flat[0]!r} takes particular values only", FROM_FILE)
            return
        names = " and ".join(repr(name) for name, (shape, _) in self._specs.items() if name in whole or len(shape) < 2)
        if names:
            raise InputError(f"the network does not run on what was made up for input {names}: {failed}", FROM_FILE)
        raise failed

    def _feed(self) -> dict[str, Any]:
        return {
            name: self._array(name, self._found[name].least)
            if name in self._found
            else self._generator.random(shape, dtype=np.float32).astype(dtype)
            for name, (shape, dtype) in self._specs.items()
        }

    def _array(self, name: str, value: float) -> Any:
        shape, dtype = self._specs[name]
        return np.full(shape, value).astype(dtype)

    def _accepts(self, name: str, value: float) -> bool:
        try:
            self._session.run({**self._feed(), name: self._array(name, value)})
        except RunError:
            return False
        return True

    def _judge(self, name: str, first: Trace, seen: Sequence[tuple[float, Trace]]) -> None:
        """Refuse an input that decides how much is computed; settle a number that selects a branch.

        Raises:
            InputError: see ``find_values``.
        """
        whole = name in self._found
        base = first if whole else seen[0][1]
        branched = [value for value, (runs, _) in seen if set(runs) != set(base[0])]
        if whole and branched and all(value in self._compared for value in branched):
            value = int(branched[0])
            self._found[name] = constant(name, value, f"{value}, with which it is compared")
            return
        other = next((trace for _, trace in seen if trace != base), None)
        if other is not None:
            where = next((label for node, label in self._labels if _differs(node, base, other)), "control flow")
            raise InputError(
                f"input {name!r} decides how much is computed ({where}), and the graph does not say how much", FROM_FILE
            )

    def _whole_numbers(self, name: str) -> InputValues:
        """Return the values of an index, of a length, or of a byte; ones where any number runs, or for a mask."""
        shape, dtype = self._specs[name]
        if name in self._uses:
            return self._index(name)
        most = min(_MOST, int(np.iinfo(dtype).max))
        if len(shape) > 1 or self._accepts(name, most):
            if dtype.itemsize == 1:
                return InputValues(name, "any value of a byte", int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
            return constant(name, 1)
        if math.prod(shape) <= 1:
            return constant(name, 1)
        most = self._largest(name, most)
        if most == 1 and len(shape) == 1 and not self._accepts(name, 0):
            raise InputError(f"input {name!r} takes particular values only", FROM_FILE)
        if any(most in sizes for other, (sizes, _) in self._specs.items() if other != name):
            return constant(name, most, f"{most}, the most that runs")  # a length
        return InputValues(name, f"whole numbers from 0 to {most}, the most that runs", 0, most)

    def _index(self, name: str) -> InputValues:
        use = self._uses[name]
        runs = use.most < 1 or self._accepts(name, use.most)
        return of_use(name, use, use.most if runs else self._largest(name, use.most))

    def _largest(self, name: str, too_large: int) -> int:
        """Return the largest value that runs, at least 1, below one that does not."""
        low, high = 1, too_large
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._accepts(name, middle) else (low, middle)
        return low


def _differs(node: onnx.NodeProto, base: Trace, other: Trace) -> bool:
    """Return whether an operator runs another number of times, or it or its body makes tensors of another shape."""
    path = path_of("", node)
    runs = {key for key in {*base[0], *other[0]} if base[0].get(key) != other[0].get(key)}
    sizes = {key for key in {*base[1], *other[1]} if base[1].get(key) != other[1].get(key)}
    inside = any(key == path or key.startswith(f"{path}/") for key in runs | sizes)
    return inside or any(name in sizes for name in node.output)


def _compared_constants(model: onnx.ModelProto) -> list[int]:
    """Return the whole numbers that something is compared with for equality, which may select a branch."""
    known: Mapping[str, Any] = shapes.small_constants(model.graph)
    equal = [node for node in nested_nodes(model.graph.node) if node.op_type == "Equal"]
    values = [known[name] for node in equal for name in node.input if name in known]
    return list(dict.fromkeys(int(value.ravel()[0]) for value in values if value.size == 1))

"""Observation of the shapes and trip counts of a network in one run, where its graph does not determine them.

The number of selected boxes, a trip count or the branch taken may depend on the data. The network then runs once in a
process of its own, on the inputs that a measurement would use, without optimisations. ONNX Runtime's profiler reports
the shapes of the inputs and outputs of every operator, including those in bodies of control flow, and keeps no tensors
in memory.

Source: onnxruntime, ``sequential_executor.cc``, ``input_type_shape`` and ``output_type_shape`` of each kernel's event.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from edgetune import limits
from edgetune.errors import EdgetuneError
from edgetune.processes.child import Child
from edgetune.workloads.lazy import onnx
from edgetune.workloads.workload import Workload

WORKER = "edgetune.workloads.observe_worker:Observer"
_LONGEST_LOAD_S = 600.0
_PREPARED_PER_S = 10e6
"""Weights prepared per second on the slowest boards, bytes/s."""
_RUNS, _LOADS = 24, 6
"""Runs of one sample, and preparations of the weights, that decide a batch or the values of inputs."""


@dataclass(frozen=True, slots=True)
class Observation:
    """The observed runs of operators and sizes of tensors.

    Args:
        runs: Number of runs of each operator, by its path.
        sizes: ONNX element type and sizes of tensors, by path. If an operator ran several times on different sizes,
            as in a loop that grows its state, each size is the mean of all, rounded.
        prefix: Prefix of the paths in the graph that is read: the main graph, or a body.
    """

    runs: Mapping[str, int] = field(default_factory=dict)
    sizes: Mapping[str, tuple[int, tuple[int, ...]]] = field(default_factory=dict)
    prefix: str = ""

    def __bool__(self) -> bool:
        return bool(self.runs)

    def value(self, name: str) -> onnx.ValueInfoProto | None:
        """Return the observed type and shape of a tensor of the graph; ``None`` if it was not observed."""
        seen = self.sizes.get(self.prefix + name)
        return None if seen is None else onnx.helper.make_tensor_value_info(name, seen[0], list(seen[1]))

    def body(self, node: onnx.NodeProto, attribute: str) -> Observation:
        """Return the observation of a body of an operator of the graph."""
        return replace(self, prefix=_body_prefix(self.prefix, node, attribute))

    def runs_of(self, graph: onnx.GraphProto) -> int:
        """Return the number of runs of the graph, a body, taken from the operators in it."""
        return max((self.runs.get(path_of(self.prefix, node), 0) for node in graph.node), default=0)


NOTHING = Observation(MappingProxyType({}), MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class Feed:
    """Inputs of the run: the user's file, or random arrays from a seed."""

    inputs_file: str | None = None
    seed: int = 0


def observe(
    workload: Workload, batch_size: int, dimensions: Mapping[str, int], feed: Feed
) -> tuple[Observation, str | None]:
    """Run a network once and return the observation, and the reason if it could not run.

    Args:
        workload: An ONNX file.
        batch_size, dimensions: See ``fix_dimensions``.
        feed: Inputs of the run.
    """
    built_in = workload.batch is not None and workload.batch.exported is not None  # nobody asks for this batch
    command = {"command": "observe", "batch_size": batch_size, "inputs": feed.inputs_file, "seed": feed.seed}
    try:
        with running(workload, dimensions, 1 if built_in else max(batch_size, 1)) as ask:
            reply = ask(command)
    except EdgetuneError as error:
        return NOTHING, f"{error.message}; {error.hint}"
    sizes = {name: (kind, tuple(dims)) for name, (kind, dims) in reply["sizes"].items()}
    return Observation(reply["runs"], sizes), None


@contextmanager
def running(
    workload: Workload, dimensions: Mapping[str, int], runs: int = _RUNS
) -> Iterator[Callable[[Mapping[str, Any]], Any]]:
    """Load a network in a process of its own and yield the function that sends it a command, see ``observe_worker``.

    Args:
        workload: The network.
        dimensions: See ``fix_dimensions``.
        runs: Runs of one sample that a command may take.

    Raises:
        EdgetuneError: it cannot be loaded; a command fails, or takes too long.
    """
    child = Child(WORKER)
    try:
        command = {"command": "load", "workload": workload.plain(), "dimensions": dict(dimensions)}
        weight_bytes = child.ask(command, deadline_s=time.monotonic() + _LONGEST_LOAD_S)["weight_bytes"]
        within_s = runs * limits.limit("observe_seconds") + _LOADS * weight_bytes / _PREPARED_PER_S
        yield lambda command: child.ask(command, deadline_s=time.monotonic() + within_s)
    except TimeoutError:
        raise limits.beyond("observe_seconds", "a run of the network") from None
    finally:
        child.close()


def path_of(prefix: str, node: onnx.NodeProto) -> str:
    """Return the path that identifies an operator: the prefix of its graph, and its first output."""
    return prefix + next((name for name in node.output if name), "")


def _body_prefix(prefix: str, node: onnx.NodeProto, attribute: str) -> str:
    return f"{path_of(prefix, node)}/{attribute}/"


def name_by_path(graph: onnx.GraphProto, names: dict[str, tuple[str, onnx.NodeProto]], prefix: str = "") -> None:
    """Rename every operator of a graph and of its bodies uniquely; record the prefix and operator of each name.

    Args:
        graph: The graph, changed in place.
        names: Filled with prefix and operator by new name.
        prefix: Prefix of the graph's paths.
    """
    for node in graph.node:
        node.name = f"edgetune{len(names)}"
        names[node.name] = (prefix, node)
        for attribute in node.attribute:
            if attribute.HasField("g"):
                name_by_path(attribute.g, names, _body_prefix(prefix, node, attribute.name))


def read_profile(
    events: Iterable[Mapping[str, Any]], names: Mapping[str, tuple[str, onnx.NodeProto]]
) -> tuple[dict[str, int], dict[str, tuple[int, list[int]]]]:
    """Return the two fields of an ``Observation`` from the events of a profile.

    Args:
        events: Events of ONNX Runtime's profile.
        names: See ``name_by_path``.
    """
    runs: dict[str, int] = {}
    sums: dict[str, tuple[str, int, list[int]]] = {}
    for event in events:
        prefix, node = names.get(str(event.get("name", "")).removesuffix("_kernel_time"), ("", None))
        if node is None or event.get("cat") != "Node":
            continue
        path = path_of(prefix, node)
        runs[path] = runs.get(path, 0) + 1
        told = event["args"]
        for names_of, key in ((node.output, "output_type_shape"), (node.input, "input_type_shape")):
            present = [prefix + name for name in names_of if name]
            if len(present) != len(told.get(key, ())):  # they cannot be matched to names
                continue
            for name, kind, dims in (
                (n, k, d) for n, each in zip(present, told[key], strict=True) for k, d in each.items()
            ):
                before = sums.get(name, (kind, 0, [0] * len(dims)))
                if len(before[2]) == len(dims):
                    sums[name] = (kind, before[1] + 1, [a + b for a, b in zip(before[2], dims, strict=True)])
    kinds = onnx.TensorProto.DataType
    return runs, {
        name: (int(kinds.Value(kind.upper())), [round(size / count) for size in dims])
        for name, (kind, count, dims) in sums.items()
        if kind.upper() in kinds.keys()  # noqa: SIM118 - protobuf's own, no dictionary
    }

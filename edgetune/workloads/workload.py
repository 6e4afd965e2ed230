"""Workloads and their kinds, operator tables from the user, and the options of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

from edgetune.artifacts.ops import OpsTable
from edgetune.artifacts.profile import Task
from edgetune.errors import InputError
from edgetune.workloads.engines import EngineOptions


@dataclass(frozen=True, slots=True)
class OpsFile:
    """An operator table that the user gives for a network, instead of costs from its graph.

    Args:
        name: The file, or ``standard input``.
        sha256: Hash of its bytes; tables are compared by it.
        table: The table.
    """

    name: str
    sha256: str
    table: OpsTable = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Options of a run.

    Args:
        ort_providers: Requested ONNX Runtime execution providers, in order of preference.
        torch_device: PyTorch device for training and for kernels, e.g. ``cpu`` or ``cuda:0``.
        threads: CPU threads for the operators; ``None`` for the library's default.
        inputs: ``.npz`` of arrays named as the network's inputs; ``None`` for random ones.
        dimensions: Values of symbolic dimensions besides the batch, by name.
        seed: Seed of random inputs and weights.
        mode: Settings of the point, for the placeholders of a command.
        step_pattern: Marks the lines of a command's output at which a step ends; see ``markers``.
        steps: Whether a command reports its steps by ``edgetune.step()`` or PyTorch's optimisers.
        start: Command that starts a server; ``None`` if it runs already.
        start_within_s: How long the server may take to become ready, s.
        engine: What infers an ONNX network.
        python: Another Python that runs networks and training files, see ``foreign_python``; ``None`` for this one.
    """

    ort_providers: tuple[str, ...] = ("CPUExecutionProvider",)
    torch_device: str = "cpu"
    threads: int | None = None
    inputs: str | None = None
    dimensions: Mapping[str, int] = field(default_factory=dict)
    seed: int = 0
    mode: Mapping[str, Any] = field(default_factory=dict)
    step_pattern: str | None = None
    steps: bool = False
    start: str | None = None
    start_within_s: float = 600.0
    engine: EngineOptions = field(default_factory=EngineOptions)
    python: str | None = None

    @classmethod
    def from_plain(cls, described: Mapping[str, Any]) -> RunOptions:
        """Return the options from values that another process sends; missing ones have their defaults."""
        found = {each.name: described[each.name] for each in fields(cls) if each.name in described}
        engine = EngineOptions(**described.get("engine", {}))
        return cls(**{**found, "ort_providers": tuple(described["ort_providers"]), "engine": engine})


@dataclass(frozen=True, slots=True)
class LayerSampling:
    """How the times of layers are measured.

    Args:
        minibatches: Number of profiled minibatches; times are medians over them. Enough by default, and a trace of
            BERT-base takes about a megabyte for each.
        warmup: Number of minibatches before them.
        optimisation: Level of ONNX Runtime, see ``layer_times.OPTIMISATIONS``; ``basic`` keeps most operators
            separate, ``all`` is its default.
    """

    minibatches: int = 20
    warmup: int = 5
    optimisation: str = "all"


Axes = tuple[tuple[str, int], ...]
"""The batch axis of each input that has one."""
Reshapes = Literal["kept", "first", "second"]
"""Which entry of the constant target of each ``Reshape`` is opened for another batch size: none, the first, or the
second where the first is not the batch."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The batch axes of a network's inputs.

    Args:
        axes: The batch axis of each input that has one; empty for a network without a batch.
        exported: Batch size of the file; ``None`` where the axis is open. 1 without a batch axis.
        why: Reason for the decision.
        reshapes: How a fixed batch is given another size; ``None`` where it cannot be.
        decided: Whether the axes are known; they are not looked for where a file is used as exported, for 1.
    """

    axes: Axes
    exported: int | None
    why: str
    reshapes: Reshapes | None = None
    decided: bool = True

    @staticmethod
    def from_plain(described: Mapping[str, Any]) -> Batch:
        """Return the batch described by the result of ``dataclasses.asdict``."""
        return Batch(**{**described, "axes": tuple(map(tuple, described["axes"]))})

    def plain(self) -> dict[str, Any]:
        """Return the batch as plain data, for headers."""
        return {
            **({"axes": dict(self.axes)} if self.decided or self.axes else {}),
            "exported": self.exported,
            "why": self.why,
        }

    def __str__(self) -> str:
        if not self.axes:
            return "no batch axis"
        alike = len({axis for _, axis in self.axes}) == 1
        where = f"axis {self.axes[0][1]}" if alike else describe_axes(self.axes)
        return f"batch {where}, {'open' if self.exported is None else f'exported for {self.exported}'}"


@dataclass(frozen=True, slots=True)
class InputValues:
    """The generated values of an input that is no plain float.

    Args:
        name: Name of the input.
        words: Range or rule of the values, in words.
        least, most: Bounds of its whole numbers; 1 for true.
    """

    name: str
    words: str
    least: int
    most: int


def describe_axes(axes: Axes) -> str:
    """Return axes in words."""
    return " and ".join(f"axis {axis} of {name!r}" for name, axis in axes)


@dataclass(frozen=True, slots=True)
class Workload:
    """A network to run.

    Args:
        reference: As the user wrote it: ``zoo:resnet18``, ``model.onnx``, ``train.py``, ``kernel:matmul:4096``,
            ``llm:config.json``.
        name: Name in the ``workload`` column: the zoo name, or the file's stem.
        kind: Name of its kind in ``resolve.KINDS``, or ``name`` for the name of a network in a table of measurements
            or of operators.
        path: The file; ``None`` for the zoo, a kernel and a name.
        sha256: Hash of the file, of the zoo's definition at this version, or of the table with the name.
        ops: Its operator table, if the user gives one.
        batch_axes: Input and axis of each batch axis that the user names, none for ``()``; ``None`` to decide, see
            ``batch``.
        parts: Names in the ``workload`` column, if it is measured as several: the lengths of requests to a server.
        batch, values: Its batch and the values of its inputs as another process decided them; ``None`` to decide in
            this one.
    """

    reference: str
    name: str
    kind: str
    path: Path | None
    sha256: str
    ops: OpsFile | None = None
    batch_axes: Axes | None = None
    parts: tuple[str, ...] = ()
    batch: Batch | None = None
    values: tuple[InputValues, ...] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names in the ``workload`` column."""
        return self.parts or (self.name,)

    @property
    def is_graph(self) -> bool:
        """Whether the workload is a graph of operators: an ONNX file or a network of the zoo."""
        return self.kind in ("onnx", "zoo")

    @property
    def has_graph(self) -> bool:
        """Whether the graph is at hand, and not a table of the user or only the name of a file."""
        return self.is_graph and self.ops is None and (self.kind == "zoo" or self.path is not None)

    @staticmethod
    def from_plain(described: Mapping[str, Any]) -> Workload:
        """Return the workload described by the result of ``plain``."""
        path, axes, batch, values = (described[name] for name in ("path", "batch_axes", "batch", "values"))
        return Workload(
            **{
                **described,
                "path": None if path is None else Path(path),
                "batch_axes": None if axes is None else tuple(map(tuple, axes)),
                "parts": tuple(described["parts"]),
                "batch": None if batch is None else Batch.from_plain(batch),
                "values": None if values is None else tuple(InputValues(**each) for each in values),
            }
        )

    def plain(self) -> dict[str, Any]:
        """Return the workload as plain data, without an operator table."""
        return {**asdict(replace(self, ops=None)), "path": None if self.path is None else str(self.path)}


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """The batch sizes that a compiled or exported program takes as it is.

    Args:
        least, most: The smallest and the largest; ``None`` for no largest.
        usual: The batch size that it was exported or tuned with.
        fix: How to get a program for other batch sizes.
    """

    least: int
    most: int | None
    usual: int
    fix: str

    def __str__(self) -> str:
        if self.most == self.least:
            return f"batch {self.least} only"
        return f"batch {self.least} {'or more' if self.most is None else f'to {self.most}'}"

    def check(self, batch_size: int, reference: str) -> None:
        """Check that the program takes a batch size.

        Raises:
            InputError: it does not.
        """
        if batch_size < self.least or (self.most is not None and batch_size > self.most):
            raise InputError(f"{reference} takes {self}, not {batch_size}", self.fix)


@dataclass(frozen=True, slots=True)
class WorkloadKind:
    """A kind of workload: how a reference to one is recognised, loaded and run.

    Args:
        load: Returns the workload that a reference names, of the kind of this name.
        prefixes: Beginnings of its references, e.g. ``zoo:``.
        endings: Endings of the names of its files, e.g. ``.py``.
        task: The task without ``--task``; ``None`` if the task must be named.
        runtime: The module whose ``open_step`` runs it, see ``steps``; empty for a graph of operators, which ONNX
            Runtime infers and PyTorch trains.
        runs_code: Whether a step runs code of the user, which an estimate does not run unasked.
        per_mode: Whether it is opened anew in each mode and closed after each point, because it runs by itself.
        batch_limits: Returns the batch sizes that a workload takes; ``None`` if a graph or the user decides.
    """

    load: Callable[[str], Workload]
    prefixes: tuple[str, ...] = ()
    endings: tuple[str, ...] = ()
    task: Task | None = None
    runtime: str = ""
    runs_code: bool = False
    per_mode: bool = False
    batch_limits: Callable[[Workload], BatchLimits] | None = None

"""Kernel tasks: the tasks that share a GPU kernel by kernel, with priorities, arrivals and deadlines.

kind: kernel_tasks
version: 1
gpu: orin-agx
policy: elastic
duration: 2s
tasks:
- {name: detect, network: 'mdtb:alexnet', priority: 1, arrivals: 'uniform:10/s', deadline: 50ms}
- {name: sort, network: mine}
networks:
  mine:
    source: sort.cu
    calls: [{kernel: sort, grid: [49], block: [256], flop_per_block: 1e6, bytes_per_block: 64KiB}]

The dataclasses are the file's keys; ``stages.elastic.tasks`` reads their words and refuses what cannot run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Literal

from edgetune.artifacts.columns import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt
from edgetune.artifacts.document import Document, head_of
from edgetune.artifacts.header import Header
from edgetune.artifacts.yaml_document import BlockMapping

KIND = "kernel_tasks"
VERSION = 1

Role = Literal["input", "weights", "scratch", "output"]


@dataclass(frozen=True, slots=True)
class BufferEntry:
    """Device memory of a network.

    Args:
        shape: Of its tensor.
        dtype: As numpy writes it, e.g. ``float32``.
        role: Its use; ``scratch`` and ``output`` are written before they are read.
    """

    shape: tuple[PositiveInt, ...]
    dtype: str = "float32"
    role: Role = "scratch"


@dataclass(frozen=True, slots=True)
class CallEntry:
    """A launch of a network.

    Args:
        kernel: Its name in the source.
        grid, block: Blocks, and threads of a block, along x, y and z.
        shared: Shared memory that the launch gives each block, e.g. ``2KiB``.
        arguments: Names of buffers, and values as ``{int: 5}`` or ``{float: 0.5}``; empty if only simulated.
        flop_per_block, bytes_per_block: Cost of one block, for simulation.
        waits_per_block: How often a thread waits for memory or for its block, one wait after another.
        efficiency: Share of the peak that its blocks reach; the rest of the time goes to other instructions.
        block_time: Duration of one block alone on a multiprocessor, which replaces cost, waits and efficiency.
        registers: Registers per thread if the kernel is not compiled; ``None`` takes the simulation's default.
        static_shared: Shared memory that the kernel declares.
    """

    kernel: str
    grid: tuple[PositiveInt, ...]
    block: tuple[PositiveInt, ...]
    shared: str | None = None
    arguments: tuple[str | dict[str, float], ...] = ()
    flop_per_block: NonNegativeFloat = 0.0
    bytes_per_block: str | NonNegativeFloat = 0.0
    waits_per_block: NonNegativeInt = 0
    efficiency: PositiveFloat = 1.0
    block_time: str | None = None
    registers: NonNegativeInt | None = None
    static_shared: str | None = None


@dataclass(frozen=True, slots=True)
class NetworkEntry:
    """A user's network, or a network of the benchmark in another size.

    Args:
        mdtb: Name of a network of the benchmark; ``None`` for a user's network.
        sizes: Sizes of the benchmark's network, e.g. ``{side: 64}``.
        source: CUDA C or PTX file of all kernels; ``None`` if only simulated.
        calls: The launches in order.
        buffers: The buffers that arguments name, each a shape or with more.
    """

    mdtb: str | None = None
    sizes: dict[str, int] = field(default_factory=dict)
    source: str | None = None
    calls: tuple[CallEntry, ...] = ()
    buffers: dict[str, tuple[PositiveInt, ...] | BufferEntry] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TaskEntry:
    """A stream of requests to a network.

    Args:
        name: Unique.
        network: ``mdtb:NAME`` for one of the benchmark's, else one of those in the document.
        priority: 0 is best effort; above it, a higher number is more critical.
        arrivals: The arrival process (``closed``, ``uniform:10/s``, ``poisson:10/s``, ``trace:FILE``).
        deadline: Relative deadline of a request; ``None`` without one.
        sms: The most multiprocessors of a best-effort task; ``None`` for all.
    """

    name: str
    network: str
    priority: NonNegativeInt = 0
    arrivals: str = "closed"
    deadline: str | None = None
    sms: PositiveInt | None = None


@dataclass(frozen=True, slots=True)
class KernelTasks(Document):
    """Everything that is to run.

    Args:
        header: The header; of a file written by hand only kind and version.
        tasks: The tasks.
        networks: The networks that tasks name without ``mdtb:``; one of the benchmark by its name alone.
        gpu: The simulated GPU, by name in the catalogue.
        policy: The scheduling policy.
        duration: Duration of the arrivals.
        seed: Seed of random arrivals.
    """

    header: Header
    tasks: tuple[TaskEntry, ...]
    networks: dict[str, str | NetworkEntry] = field(default_factory=dict)
    gpu: str = "orin-agx"
    policy: str = "elastic"
    duration: str = "2s"
    seed: NonNegativeInt = 0

    EXAMPLE = "see edgetune schedule kernels simulate --help, and examples/kernels.yaml"

    @property
    def sources(self) -> list[str]:
        """Files of kernels."""
        return [each.source for each in self.networks.values() if isinstance(each, NetworkEntry) and each.source]

    def document(self) -> dict[str, Any]:
        """Return the head, what it runs on, a line for each task, and the networks."""
        head = {key: value for key, value in head_of(self.header).items() if value}
        whole = {"gpu": self.gpu, "policy": self.policy, "duration": self.duration, "seed": self.seed}
        networks = BlockMapping({
            name: BlockMapping(_stated(each)) if isinstance(each, NetworkEntry) else each
            for name, each in self.networks.items()
        })  # fmt: skip
        tasks = [_stated(each) for each in self.tasks]
        return BlockMapping({**head, **whole, "tasks": tasks, **({"networks": networks} if networks else {})})


def _stated(value: Any) -> Any:
    """Return plain values, of dataclasses the keys that are not as by default."""
    if is_dataclass(value):
        said = {each.name: (getattr(value, each.name), each.default) for each in fields(value)}
        return {name: _stated(one) for name, (one, usual) in said.items() if one not in (usual, {})}
    if isinstance(value, Mapping):
        return {key: _stated(each) for key, each in value.items()}
    return [_stated(each) for each in value] if isinstance(value, tuple) else value

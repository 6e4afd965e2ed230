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
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from edgetune import limits
from edgetune.artifacts.artifact import Raw
from edgetune.artifacts.columns import (
    Bytes,
    BytesOrNumber,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Seconds,
)
from edgetune.artifacts.document import WITH_UNITS, Document, named
from edgetune.artifacts.header import Header
from edgetune.artifacts.yaml_document import BlockMapping
from edgetune.choices import nearest
from edgetune.errors import InputError

KIND = "kernel_tasks"
VERSION = 1


Role = Literal["input", "weights", "scratch", "output"]


@dataclass(frozen=True, slots=True)
class KernelBuffer:
    """Device memory of a network.

    Args:
        name: Unique in the network.
        shape: Of its tensor.
        dtype: As numpy writes it, e.g. ``float32``.
        role: Its use; ``scratch`` and ``output`` are written before they are read.
    """

    name: str
    shape: tuple[PositiveInt, ...]
    dtype: str = "float32"
    role: Role = "scratch"


@dataclass(frozen=True, slots=True)
class KernelCall:
    """A launch of a network.

    Args:
        kernel: Its name in the source.
        grid, block: Blocks, and threads of a block, along x, y and z; the last are 1 where they are left out.
        shared_bytes: Shared memory that the launch gives each block.
        arguments: Names of buffers, and values as ``{int: 5}`` or ``{float: 0.5}``; empty if only simulated.
        flop_per_block, bytes_per_block: Cost of one block, for simulation.
        block_time_s: Duration of one block alone on a multiprocessor, s, which replaces cost, waits and efficiency.
        registers: Registers per thread if the kernel is not compiled; ``None`` takes the simulation's default.
        static_shared_bytes: Shared memory that the kernel declares.
        waits_per_block: How often a thread waits for memory or for its block, one wait after another.
        efficiency: Share of the peak that its blocks reach; the rest of the time goes to other instructions.
    """

    kernel: str
    grid: tuple[PositiveInt, ...]
    block: tuple[PositiveInt, ...]
    shared_bytes: Bytes = 0
    arguments: tuple[str | Mapping[str, float], ...] = ()
    flop_per_block: NonNegativeFloat = 0.0
    bytes_per_block: BytesOrNumber = 0.0
    block_time_s: Seconds | None = None
    registers: NonNegativeInt | None = None
    static_shared_bytes: Bytes = 0
    waits_per_block: NonNegativeInt = 0
    efficiency: PositiveFloat = 1.0


@dataclass(frozen=True, slots=True)
class KernelNetwork:
    """A user's network, or a network of the benchmark in another size.

    Args:
        name: Its name in tasks; unique.
        mdtb: Name of a network of the benchmark; ``None`` for a user's network.
        sizes: Sizes of the benchmark's network, e.g. ``{side: 64}``.
        source: CUDA C or PTX file of all kernels; ``None`` if only simulated.
        calls: The launches in order.
        buffers: The buffers that arguments name.
    """

    name: str
    mdtb: str | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)
    source: str | None = None
    calls: tuple[KernelCall, ...] = ()
    buffers: tuple[KernelBuffer, ...] = ()


@dataclass(frozen=True, slots=True)
class KernelTask:
    """A stream of requests to a network.

    Args:
        name: Unique.
        network: ``mdtb:NAME`` for one of the benchmark's, else one of those in the document.
        priority: 0 is best effort; above it, a higher number is more critical.
        arrivals: The arrival process in words (``closed``, ``uniform:10/s``, ``poisson:10/s``, ``trace:FILE``).
        deadline_s: Relative deadline of a request, s; ``None`` without one.
        sms: The most multiprocessors of a best-effort task; ``None`` for all.
    """

    name: str
    network: str
    priority: NonNegativeInt = 0
    arrivals: str = "closed"
    deadline_s: Seconds | None = None
    sms: PositiveInt | None = None


MDTB = "mdtb:"
"""Before the name of a network of the benchmark."""
VALUES = {"int": "<i", "uint": "<I", "int64": "<q", "uint64": "<Q", "float": "<f", "double": "<d"}
"""Types of arguments by value, as ``struct`` packs them (little endian, as every CUDA platform)."""


@dataclass(frozen=True, slots=True)
class KernelTasks(Document):
    """Everything that is to run.

    Args:
        header: The header; of a file written by hand only kind and version.
        tasks: The tasks, not empty.
        networks: The networks that tasks name without ``mdtb:``.
        gpu: The simulated GPU, by name in the catalogue.
        policy: The scheduling policy.
        duration_s: Duration of the arrivals, s.
        seed: Seed of random arrivals.
    """

    header: Header
    tasks: tuple[KernelTask, ...]
    networks: tuple[KernelNetwork, ...] = ()
    gpu: str = "orin-agx"
    policy: str = "elastic"
    duration_s: Seconds = 2.0
    seed: NonNegativeInt = 0

    __pydantic_config__: ClassVar[Mapping[str, Any]] = WITH_UNITS
    EXAMPLE = "see edgetune schedule kernels simulate --help, and examples/kernels.yaml"

    @classmethod
    def read(cls, raw: Raw, *, name: str) -> KernelTasks:
        """Return the validated tasks.

        Raises:
            InputError: an unknown key or a missing one, a value of the wrong type, an impossible number, an unknown
                network, two tasks of one name, a launch of no blocks, a quantity that cannot be parsed.
        """
        body = {**raw.body, "networks": named(raw.body.get("networks", {}), "mdtb", name=name, key="networks")}
        for each in body["networks"]:
            key = f"networks.{each['name']}.buffers"
            each["buffers"] = named(each.get("buffers", {}), "shape", name=name, key=key)
        read = super(KernelTasks, cls).read(Raw(raw.head, body), name=name)
        limits.check("networks", len(read.networks), name)
        limits.check("jobs", len(read.tasks), name)
        if not read.tasks:
            hint = "e.g. tasks: [{name: detect, network: 'mdtb:alexnet', priority: 1}]"
            raise InputError(f"{name} names no tasks", hint)
        _check_tasks(read.tasks, [each.name for each in read.networks], name=name)
        for network in read.networks:
            _check_network(network, f"{name}, network {network.name}")
        return read

    @property
    def sources(self) -> list[str]:
        """Files of kernels."""
        return [each.source for each in self.networks if each.source]

    def document(self) -> dict[str, Any]:
        """Return the head, what it runs on, a line for each task, and the networks."""
        keys = self.keys("gpu", "policy", "duration_s", "seed", "tasks", "networks")
        networks = {each.pop("name"): BlockMapping(each) for each in keys.pop("networks")}
        for network in networks.values():
            if "buffers" in network:
                network["buffers"] = BlockMapping({each.pop("name"): each for each in network["buffers"]})
        return BlockMapping({**keys, **({"networks": BlockMapping(networks)} if networks else {})})


def _check_tasks(tasks: Sequence[KernelTask], networks: Sequence[str], *, name: str) -> None:
    names = [task.name for task in tasks]
    for task in tasks:
        if not task.name:
            raise InputError(f"{name}: a task has an empty name", "give it a name, e.g. name: detect")
        if names.count(task.name) > 1:
            raise InputError(f"{name}: two tasks are called {task.name}", "give each a name of its own")
        word = task.network
        if not word.startswith(MDTB) and word not in networks:
            hint = nearest(word, networks, listed=f"add it under networks, or write {MDTB}{word} of the benchmark")
            raise InputError(f"{name}, task {task.name} names an unknown network, {word!r}", hint)


def _check_network(network: KernelNetwork, where: str) -> None:
    if (network.mdtb is None) == (not network.calls):
        which = "both mdtb and calls" if network.calls else "neither mdtb nor calls"
        hint = "write mdtb: alexnet, or calls: [{kernel: k, grid: [49], block: [64]}]"
        raise InputError(f"{where} has {which}", hint)
    if network.mdtb is not None and (network.source or network.buffers):
        raise InputError(f"{where} is a network of the benchmark, and has a source or buffers", "leave them out")
    if network.sizes and network.mdtb is None:
        raise InputError(f"{where} has sizes, which are for networks of the benchmark", "leave them out")
    limits.check("kernel_calls", len(network.calls), where)
    buffers = [each.name for each in network.buffers]
    for number, call in enumerate(network.calls):
        for argument in call.arguments:
            named = isinstance(argument, str)
            if argument not in buffers if named else len(argument) != 1 or next(iter(argument)) not in VALUES:
                hint = f"write one of {', '.join(buffers)}, or a value with its type, one of {', '.join(VALUES)}"
                raise InputError(f"{where}, call {number}: unknown argument {argument!r}", f"{hint}: {{int: 5}}")

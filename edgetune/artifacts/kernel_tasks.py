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

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from edgetune import limits
from edgetune.artifacts.artifact import Raw
from edgetune.artifacts.columns import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt
from edgetune.artifacts.document import Document, head_of, stated, validated
from edgetune.artifacts.header import Header
from edgetune.artifacts.yaml_document import BlockMapping
from edgetune.choices import closest
from edgetune.errors import InputError
from edgetune.units import exact_bytes, exact_time, parse_bytes, parse_time_s

KIND = "kernel_tasks"
VERSION = 1

DEFAULT_GPU = "orin-agx"
DEFAULT_POLICY = "elastic"
DEFAULT_DURATION_S = 2.0


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
    shape: tuple[int, ...]
    dtype: str = "float32"
    role: Role = "scratch"


@dataclass(frozen=True, slots=True)
class KernelCall:
    """A launch of a network.

    Args:
        kernel: Its name in the source.
        grid, block: Blocks, and threads of a block, along x, y and z.
        shared_bytes: Shared memory that the launch gives each block.
        arguments: Names of buffers, and values as ``{int: 5}`` or ``{float: 0.5}``; empty if only simulated.
        flop_per_block, bytes_per_block: Cost of one block, for simulation.
        block_s: Duration of one block alone on a multiprocessor, s, which replaces cost, waits and efficiency.
        registers: Registers per thread if the kernel is not compiled; ``None`` takes the simulation's default.
        static_shared_bytes: Shared memory that the kernel declares.
        waits_per_block: How often a thread waits for memory or for its block, one wait after another.
        efficiency: Share of the peak that its blocks reach; the rest of the time goes to other instructions.
    """

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int = 0
    arguments: tuple[str | Mapping[str, float], ...] = ()
    flop_per_block: float = 0.0
    bytes_per_block: float = 0.0
    block_s: float | None = None
    registers: int | None = None
    static_shared_bytes: int = 0
    waits_per_block: int = 0
    efficiency: float = 1.0


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
    priority: int = 0
    arrivals: str = "closed"
    deadline_s: float | None = None
    sms: int | None = None


MDTB = "mdtb:"
"""Before the name of a network of the benchmark."""
VALUES = ("int", "uint", "int64", "uint64", "float", "double")
"""Types of arguments by value."""


@dataclass(frozen=True, slots=True)
class _Call:
    kernel: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
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
class _Buffer:
    shape: tuple[int, ...]
    dtype: str = "float32"
    role: Role = "scratch"


@dataclass(frozen=True, slots=True)
class _Network:
    mdtb: str | None = None
    sizes: dict[str, int] = field(default_factory=dict)
    source: str | None = None
    calls: tuple[_Call, ...] = ()
    buffers: dict[str, tuple[int, ...] | _Buffer] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Task:
    name: str
    network: str
    priority: int = 0
    arrivals: str = "closed"
    deadline: str | None = None
    sms: PositiveInt | None = None


@dataclass(frozen=True, slots=True)
class _Document:
    tasks: tuple[_Task, ...]
    networks: dict[str, str | _Network] = field(default_factory=dict)
    gpu: str = DEFAULT_GPU
    policy: str = DEFAULT_POLICY
    duration: str | None = None
    seed: NonNegativeInt = 0


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
    gpu: str = DEFAULT_GPU
    policy: str = DEFAULT_POLICY
    duration_s: float = DEFAULT_DURATION_S
    seed: int = 0

    EXAMPLE = "see edgetune schedule kernels simulate --help, and examples/kernels.yaml"

    @classmethod
    def read(cls, raw: Raw, *, name: str) -> KernelTasks:
        """Return the validated tasks.

        Raises:
            InputError: an unknown key or a missing one, a value of the wrong type, an impossible number, an unknown
                network, two tasks of one name, a launch of no blocks, a quantity that cannot be parsed.
        """
        document = validated(raw.body, _Document, name=name, example=cls.EXAMPLE)
        header = Header.of(stated(raw.head), name=name)
        limits.check("networks", len(document.networks), name)
        limits.check("jobs", len(document.tasks), name)
        if not document.tasks:
            hint = "e.g. tasks: [{name: detect, network: 'mdtb:alexnet', priority: 1}]"
            raise InputError(f"{name} names no tasks", hint)
        duration = document.duration
        return cls(
            header,
            _tasks(document.tasks, document.networks, name=name),
            tuple(_network(key, said, name=name) for key, said in document.networks.items()),
            document.gpu,
            document.policy,
            DEFAULT_DURATION_S if duration is None else parse_time_s(duration, what=f"{name}: duration"),
            document.seed,
        )

    def document(self) -> dict[str, Any]:
        """Return the head, what it runs on, a line for each task, and the networks."""
        head = {key: value for key, value in head_of(self.header).items() if value}
        whole = {"gpu": self.gpu, "policy": self.policy, "duration": exact_time(self.duration_s), "seed": self.seed}
        tasks = {"tasks": [_task_words(each) for each in self.tasks]}
        networks = BlockMapping({each.name: BlockMapping(_network_words(each)) for each in self.networks})
        return BlockMapping({**head, **whole, **tasks, **({"networks": networks} if networks else {})})


def _tasks(said: Iterable[_Task], networks: Iterable[str], *, name: str) -> tuple[KernelTask, ...]:
    found: dict[str, KernelTask] = {}
    for task in said:
        where = f"{name}, task {task.name}"
        if not task.name:
            raise InputError(f"{name}: a task has an empty name", "give it a name, e.g. name: detect")
        if task.name in found:
            raise InputError(f"{name}: two tasks are called {task.name}", "give each a name of its own")
        if task.priority < 0:
            raise InputError(f"{where}: priority is {task.priority}", "0 is best effort, 1 and more are critical")
        _check_network(task.network, list(networks), where)
        deadline_s = None if task.deadline is None else parse_time_s(task.deadline, what=f"{where}: deadline")
        found[task.name] = KernelTask(task.name, task.network, task.priority, task.arrivals, deadline_s, task.sms)
    return tuple(found.values())


def _check_network(word: str, known: list[str], where: str) -> None:
    if word.startswith(MDTB) or word in known:
        return
    near = closest(word, known)
    hint = f"did you mean {near}?" if near else f"add it under networks, or write {MDTB}{word} for the benchmark's"
    raise InputError(f"{where} names an unknown network, {word!r}", hint)


def _network(key: str, said: str | _Network, *, name: str) -> KernelNetwork:
    where = f"{name}, network {key}"
    if isinstance(said, str):
        said = _Network(mdtb=said)
    if (said.mdtb is None) == (not said.calls):
        which = "both mdtb and calls" if said.calls else "neither mdtb nor calls"
        raise InputError(
            f"{where} has {which}", "write mdtb: alexnet, or calls: [{kernel: k, grid: [49], block: [64]}]"
        )
    if said.mdtb is not None and (said.source or said.buffers):
        raise InputError(f"{where} is a network of the benchmark, and has a source or buffers", "leave them out")
    if said.sizes and said.mdtb is None:
        raise InputError(f"{where} has sizes, which are for networks of the benchmark", "leave them out")
    limits.check("kernel_calls", len(said.calls), where)
    buffers = tuple(_buffer(each, told, where) for each, told in said.buffers.items())
    calls = tuple(_call(each, said.buffers, f"{where}, call {number}") for number, each in enumerate(said.calls))
    return KernelNetwork(key, said.mdtb, dict(said.sizes), said.source, calls, buffers)


def _buffer(name: str, told: tuple[int, ...] | _Buffer, where: str) -> KernelBuffer:
    said = told if isinstance(told, _Buffer) else _Buffer(told)
    if not said.shape or min(said.shape) < 1:
        raise InputError(f"{where}: buffer {name} has the shape {list(said.shape)}", "sizes are whole and above zero")
    return KernelBuffer(name, said.shape, said.dtype, said.role)


def _call(said: _Call, buffers: Iterable[str], where: str) -> KernelCall:
    for argument in said.arguments:
        _check_argument(argument, list(buffers), where)
    return KernelCall(
        said.kernel,
        _dim(said.grid, f"{where}: grid"),
        _dim(said.block, f"{where}: block"),
        _size(said.shared, f"{where}: shared"),
        said.arguments,
        said.flop_per_block,
        _size(said.bytes_per_block, f"{where}: bytes_per_block"),
        None if said.block_time is None else parse_time_s(said.block_time, what=f"{where}: block_time"),
        said.registers,
        _size(said.static_shared, f"{where}: static_shared"),
        said.waits_per_block,
        said.efficiency,
    )


def _check_argument(argument: str | Mapping[str, float], buffers: list[str], where: str) -> None:
    if isinstance(argument, str):
        if argument not in buffers:
            known = ", ".join(buffers) or "none"
            raise InputError(f"{where}: argument {argument!r} is no buffer of the network", f"known: {known}")
    elif len(argument) != 1 or next(iter(argument)) not in VALUES:
        hint = f"write a buffer's name, or a value with its type, one of {', '.join(VALUES)}: {{int: 5}}"
        raise InputError(f"{where}: unknown argument {dict(argument)}", hint)


def _dim(sizes: tuple[int, ...], what: str) -> tuple[int, int, int]:
    if not 1 <= len(sizes) <= 3 or min(sizes) < 1:
        raise InputError(f"{what} is {list(sizes)}", "one to three whole numbers above zero, x first, e.g. [49, 4]")
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z


def _size(said: str | float | None, what: str) -> Any:
    return parse_bytes(said, what=what) if isinstance(said, str) else said or 0


def _task_words(task: KernelTask) -> dict[str, Any]:
    return _words(
        name=task.name,
        network=task.network,
        priority=task.priority,
        arrivals=task.arrivals,
        deadline=None if task.deadline_s is None else exact_time(task.deadline_s),
        sms=task.sms,
    )


def _network_words(network: KernelNetwork) -> dict[str, Any]:
    buffers = {
        each.name: {"shape": list(each.shape), "dtype": each.dtype, "role": each.role} for each in network.buffers
    }
    return _words(
        mdtb=network.mdtb,
        sizes=dict(network.sizes) or None,
        source=network.source,
        calls=[_call_words(each) for each in network.calls] or None,
        buffers=BlockMapping(buffers) if buffers else None,
    )


def _call_words(call: KernelCall) -> dict[str, Any]:
    return _words(
        kernel=call.kernel,
        grid=list(call.grid),
        block=list(call.block),
        shared=exact_bytes(call.shared_bytes) if call.shared_bytes else None,
        arguments=[each if isinstance(each, str) else dict(each) for each in call.arguments] or None,
        flop_per_block=call.flop_per_block or None,
        bytes_per_block=call.bytes_per_block or None,
        waits_per_block=call.waits_per_block or None,
        efficiency=None if call.efficiency == 1.0 else call.efficiency,
        block_time=None if call.block_s is None else exact_time(call.block_s),
        registers=call.registers,
        static_shared=exact_bytes(call.static_shared_bytes) if call.static_shared_bytes else None,
    )


def _words(**words: Any) -> dict[str, Any]:
    return {key: value for key, value in words.items() if value is not None}

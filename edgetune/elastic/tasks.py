"""From a document of kernel tasks to tasks: networks of the benchmark looked up, those of one's own read."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from pathlib import Path

from edgetune.artifacts.files import read_source
from edgetune.artifacts.kernel_tasks import MDTB, KernelCall, KernelNetwork, KernelTasks
from edgetune.elastic.gpu import Resources
from edgetune.elastic.mdtb.networks import network as mdtb_network
from edgetune.elastic.model import ASSUMED
from edgetune.elastic.work import Argument, Buffer, Call, GpuTask, KernelSequence, Logical, Pointer, Role, Scalar
from edgetune.errors import InputError, blaming

_FORMATS: Mapping[str, str] = {"int": "<i", "uint": "<I", "float": "<f", "double": "<d"}
"""As ``struct`` packs them (little endian, as every CUDA platform)."""
_ROLES: Mapping[str, Role] = {"input": "input", "weights": "weights", "scratch": "scratch", "output": "output"}


def tasks_of(
    document: KernelTasks, *, folder: Path = Path(), benchmark: Callable[..., KernelSequence] = mdtb_network
) -> tuple[GpuTask, ...]:
    """Return the tasks of a document.

    Args:
        document: Who asks what.
        folder: That its source files are in.
        benchmark: Finds a network of the benchmark by name and sizes.

    Raises:
        InputError: a network of the benchmark that there is not, a source that cannot be read, a value that does not
            fit its type.
    """
    own = {}
    for each in document.networks:
        with blaming(f"network {each.name}"):
            own[each.name] = _network(each, folder, benchmark)
    found = []
    for task in document.tasks:
        asked = own.get(task.network)
        with blaming(f"task {task.name}"):
            network = benchmark(task.network.removeprefix(MDTB)) if asked is None else asked
        found.append(GpuTask(task.name, network, task.priority, task.arrivals, task.deadline_s))
    return tuple(found)


def _network(said: KernelNetwork, folder: Path, benchmark: Callable[..., KernelSequence]) -> KernelSequence:
    if said.mdtb is not None:
        return benchmark(said.mdtb.removeprefix(MDTB), **said.sizes)
    source = "" if said.source is None else _text(folder / said.source)
    buffers = [Buffer(each.name, each.shape, each.dtype, _ROLES[each.role]) for each in said.buffers]
    return KernelSequence(said.name, [_call(each) for each in said.calls], source, buffers)


def _text(path: Path) -> str:
    try:
        return read_source(path).decode()
    except UnicodeDecodeError:
        raise InputError(f"{path} is not text in UTF-8", "name a CUDA C file") from None


def _call(said: KernelCall) -> Call:
    registers = ASSUMED.registers_per_thread if said.registers is None else said.registers
    resources = {1: Resources(registers, said.static_shared_bytes)}
    return Call(
        said.kernel,
        Logical(said.grid, said.block, said.shared_bytes),
        tuple(_argument(each, f"kernel {said.kernel}") for each in said.arguments),
        said.flop_per_block,
        said.bytes_per_block,
        said.block_s,
        resources=resources,
    )


def _argument(said: str | Mapping[str, float], where: str) -> Argument:
    if isinstance(said, str):
        return Pointer(said)
    ((kind, value),) = said.items()
    try:
        number = int(value) if kind in ("int", "uint") and value == int(value) else value
        return Scalar(struct.pack(_FORMATS[kind], number))
    except (struct.error, OverflowError, ValueError):
        raise InputError(f"{where}: {value:g} is no value of type {kind}", "e.g. {int: 5}, {float: 0.5}") from None

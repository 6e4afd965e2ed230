"""The table of the kinds of workloads, and the resolution of a reference to a workload.

Networks with an operator table from the user instead of a graph.

A simulated device can so run a network without a graph: a Python training file, or one counted by another tool.
"""

import hashlib
from dataclasses import replace
from itertools import chain
from pathlib import Path

from edgetune.artifacts.files import name_of, read_source
from edgetune.artifacts.io import from_bytes
from edgetune.artifacts.ops import OpsTable
from edgetune.artifacts.profile import Task
from edgetune.errors import InputError
from edgetune.plugins import Registry
from edgetune.workloads.workload import Axes, OpsFile, Workload, WorkloadKind

KINDS: Registry[WorkloadKind] = Registry(
    "kind of workload",
    {
        "python": "edgetune.workloads.python_file:KIND",
        "zoo": "edgetune.workloads.zoo:KIND",
        "onnx": "edgetune.workloads.onnx_file:KIND",
        "program": "edgetune.workloads.torch_program_steps:KIND",
        "engine": "edgetune.workloads.tensorrt_engine:KIND",
        "kernel": "edgetune.workloads.kernels:KIND",
        "llm": "edgetune.workloads.llm:KIND",
        "endpoint": "edgetune.workloads.endpoint:KIND",
        "command": "edgetune.workloads.command:KIND",
    },
    group="edgetune.workloads",
    contract=WorkloadKind,
)
"""Every kind of workload; the first that recognises a reference loads it."""


def recognised(reference: str) -> WorkloadKind | None:
    """Return the kind whose prefix, or else whose ending a reference has; ``None`` for any other."""
    ending = Path(reference).suffix
    prefixed = (kind for kind in KINDS.values() if reference.startswith(kind.prefixes)) if ":" in reference else ()
    ended = (kind for kind in KINDS.values() if reference.startswith(kind.prefixes) or ending in kind.endings)
    return next(chain(prefixed, ended), None)


def resolve(reference: str, batch_axes: Axes | None = None) -> Workload:
    """Return the workload named by ``reference``.

    Args:
        reference: ``zoo:resnet18``, a path to an ONNX file (any suffix), a path to a ``.py``, ``.pt2`` or ``.engine``
            file, a peak kernel: ``kernel:matmul:4096``, ``kernel:relu:8192:fp16`` (see ``kernels``), the configuration
            of a language model: ``llm:config.json`` (see ``llm``), a server (see ``endpoint``), or a reference of a
            kind that an installed package adds.
        batch_axes: See ``Workload``.

    Raises:
        InputError: the zoo network or kernel is unknown; the file is missing, unreadable, empty, a folder or of another
            kind; batch axes are given for a workload without a graph.
    """
    found = (recognised(reference) or KINDS["onnx"]).load(reference)
    if batch_axes is None:
        return found
    if not found.is_graph:
        raise InputError(f"--batch-axis: {reference} is no ONNX network", "leave --batch-axis out")
    return replace(found, batch_axes=batch_axes)


def names_path(reference: str) -> bool:
    """Return whether ``reference`` is a path: one that begins with ``zoo:`` is not, ``./zoo:`` is."""
    kind = recognised(reference)
    return kind is None or not reference.startswith(kind.prefixes)


def with_ops(reference: str, source: str) -> Workload:
    """Return the workload named by ``reference`` with the operator table in ``source``.

    Args:
        reference: As for ``resolve``, or the name of the network in the table.
        source: The table's file, or ``-`` for standard input.

    Raises:
        InputError: the file is no operator table, or that of another network; see also ``resolve``.
    """
    data, name = read_source(source), name_of(source)
    table = from_bytes(data, kind="ops", name=name)
    digest = hashlib.sha256(data).hexdigest()
    given = OpsFile(name, digest, table)
    if reference == table.workload and not Path(reference).exists():
        return Workload(reference, reference, "name", None, digest, given)
    workload = resolve(reference)
    if workload.name != table.workload:
        hint = f"name {table.workload}, or make the table of {reference}: edgetune roofline ops {reference} -o FILE"
        raise InputError(f"the table is for {table.workload}, not for {workload.name}", hint)
    return replace(workload, ops=given)


def matching(table: OpsTable, task: Task, batch_size: int, precision: str | None) -> OpsTable:
    """Return ``table`` if it is for that task, batch size and precision; ``None`` accepts any precision.

    Raises:
        InputError: the table is for another task, batch size or precision.
    """
    precision = precision or table.precision
    asked, found = (task, batch_size, precision), (table.task, table.batch_size, table.precision)
    if asked == found:
        return table
    options = ("--task", "--batch-sizes", "--precision")
    differing = [
        f"{option} {value}" for option, value, want in zip(options, found, asked, strict=True) if value != want
    ]
    raise InputError(
        f"the table is for {table.workload} {table.task}, batch size {table.batch_size}, {table.precision}; "
        f"this command needs {task}, batch size {batch_size}, {precision}",
        f"{' '.join(differing)}, or make another with edgetune roofline ops",
    )

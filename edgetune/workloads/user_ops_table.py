"""Networks with an operator table from the user instead of a graph.

A simulated device can so run a network without a graph: a Python training file, or one counted by another tool.
"""

import hashlib
from dataclasses import replace
from pathlib import Path

from edgetune.artifacts.files import name_of, read_source
from edgetune.artifacts.io import from_bytes
from edgetune.artifacts.ops import OpsTable
from edgetune.artifacts.profile import Task
from edgetune.errors import InputError
from edgetune.workloads.resolve import resolve
from edgetune.workloads.workload import OpsFile, Workload


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

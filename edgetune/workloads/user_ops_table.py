"""A network whose operators are given as a table: what edgetune then needs to know of it is only what the table says.

So a simulated device can run what edgetune has no graph of: a Python training file, or a network that another tool has
counted.
"""

from __future__ import annotations

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
        reference: As for ``resolve``, or the bare name that the table knows the network by.
        source: The table's file, or ``-`` for standard input.

    Raises:
        InputError: it is no operator table, or that of another network; or see ``resolve``.
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
    """Return ``table`` when it is for that task, batch size and precision; any precision where none is asked for.

    Raises:
        InputError: it is for others; costs of one batch size are not those of another.
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
        f"asked is {task}, batch size {batch_size}, {precision}",
        f"{' '.join(differing)}, or make another with edgetune roofline ops",
    )

"""The tables of an evaluation of strategies: read, and joined by device."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from edgetune.artifacts.convergence import Convergence, epochs_of
from edgetune.artifacts.files import name_of, read_source
from edgetune.artifacts.header import DataWarning
from edgetune.artifacts.io import from_bytes, read
from edgetune.artifacts.profile import RAW_COLUMNS, ProfileRow, Task
from edgetune.devices.recorded import RecordedTable
from edgetune.errors import InputError
from edgetune.stages.search.evaluation.cases import ProfiledWorkload
from edgetune.workflows.reporting import Reporter


@dataclass(frozen=True, slots=True)
class EvaluationTables:
    """The tables of an evaluation.

    Args:
        subjects: Every network and task on every device.
        inputs: Name and hash of each file, for the header.
        devices: Their names.
        simulated: Whether any figure comes from a model.
        data_warnings: Warnings, e.g. on points measured twice.
    """

    subjects: tuple[ProfiledWorkload, ...]
    inputs: tuple[dict[str, str], ...]
    devices: tuple[str, ...]
    simulated: bool
    data_warnings: tuple[DataWarning, ...]


def read_tables(sources: Sequence[str]) -> EvaluationTables:
    """Read profiles; profiles of one device form one table.

    Raises:
        InputError: a file is unreadable or not a profile.
    """

    rows: dict[str | None, list[ProfileRow]] = {}
    names: dict[tuple[str | None, str, Task], list[str]] = {}
    inputs: list[dict[str, str]] = []
    data_warnings: list[DataWarning] = []
    simulated = False
    for source in sources:
        data, name = read_source(source), name_of(source)
        profile = from_bytes(data, kind="profile", name=name)
        inputs.append({"name": name, "sha256": hashlib.sha256(data).hexdigest()})
        simulated = simulated or profile.header.simulated
        for row in profile.rows:
            device = row.device or _device_of(profile.header.conditions)
            rows.setdefault(device, []).append(row)
            files = names.setdefault((device, row.workload, row.task), [])
            if name not in files:
                files.append(name)
    subjects: dict[tuple[str | None, str, Task], list[ProfileRow]] = {}
    no_samples: dict[str, Any] = dict.fromkeys(RAW_COLUMNS)
    for device, found in rows.items():
        table = RecordedTable.of(found, name=device or "the table")
        data_warnings += table.data_warnings
        for row in table.rows:
            slim = replace(row, **no_samples)  # worker processes get a copy, and need no raw readings
            subjects.setdefault((device, row.workload, row.task), []).append(slim)
    made = [ProfiledWorkload(" + ".join(names[key]), *key, tuple(found)) for key, found in subjects.items()]
    devices = tuple(sorted(device for device in rows if device is not None))
    return EvaluationTables(tuple(made), tuple(inputs), devices, simulated, tuple(data_warnings))


def with_epochs(
    subjects: Sequence[ProfiledWorkload], convergence: Sequence[str], reporter: Reporter
) -> tuple[list[ProfiledWorkload], dict[str, tuple[tuple[int, float], ...]]]:
    """Return the training workloads, without batch sizes that missed the target, and the epochs of each by batch size.

    Args:
        subjects: The workloads, of any task.
        convergence: Files of epochs: one for all workloads, or one with the name of each.
        reporter: Receives notes on omitted batch sizes.

    Raises:
        InputError: there is no file, or none of several has a workload's name.
    """

    if not convergence:
        raise InputError("time to accuracy needs the epochs that each batch size takes", "--convergence FILE")
    tables = {name: read(Convergence, name) for name in convergence}
    found = {table.rows[0].workload: (name, epochs_of(table, name=name)) for name, table in tables.items()}
    training = [subject for subject in subjects if subject.task == "train"]
    lacking = [subject.workload for subject in training if subject.workload not in found]
    if lacking and len(found) > 1:
        known = ", ".join(found)
        raise InputError(
            f"none of the convergence tables is of {lacking[0]}", f"they are of {known}; or give one alone"
        )
    only, left, epochs = next(iter(found.values())), [], {}  # a proxy: one table stands for all
    for subject in training:
        name, own = found.get(subject.workload, only)
        for size in sorted({row.batch_size for row in subject.rows} & own.absent.keys()):
            reporter.info(f"{name}: batch {size} is left out: {own.absent[size]}")
        left.append(replace(subject, rows=tuple(row for row in subject.rows if row.batch_size not in own.absent)))
        epochs[subject.workload] = tuple(own.by_batch.items())
    return left, epochs


def _device_of(conditions: Any) -> str | None:
    device = conditions.get("device")
    return None if device is None else str(device)

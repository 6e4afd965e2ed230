"""What a search may choose from: the points of tables, or those of a network on a device."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from edgetune.choices import nearest
from edgetune.errors import EdgetuneError, InputError

if TYPE_CHECKING:
    from edgetune.artifacts.header import DataWarning
    from edgetune.artifacts.profile import Point, Profile, ProfileRow
    from edgetune.cli.screen import Screen
    from edgetune.devices.recorded import RecordedTable
    from edgetune.profiling.estimate import SweepEstimate
    from edgetune.search.strategy import OperatorTotals


@dataclass(frozen=True, slots=True)
class Candidates:
    """Points to choose from and how to measure one, ``free`` when that is a look-up.

    ``kind`` is the problem they are for. ``expect`` says what measuring all of them would take; ``inputs``,
    ``conditions`` and ``warnings`` go into headers. ``no_power`` is why the device cannot measure power, where it
    cannot; ``defect`` what every measurement failed of; ``background`` the name of the second network of a live search;
    ``rows`` what a table holds; ``recovered`` what of an earlier run was put back on the device, a sentence each;
    ``operators`` what the network costs at each batch size, where its graph is known; ``warn_of_load`` tells a screen
    what else uses the machine that measures.
    """

    points: Sequence[Point]
    measure: Callable[[Point], ProfileRow]
    kind: str
    described: str
    simulated: bool
    free: bool
    inputs: Mapping[str, Any]
    conditions: Mapping[str, Any]
    warnings: tuple[DataWarning, ...] = ()
    expect: Callable[[], SweepEstimate] | None = None
    no_power: str | None = None
    defect: Callable[[], EdgetuneError | None] = lambda: None
    background: str | None = None
    recovered: Callable[[], Sequence[str]] = tuple
    operators: Callable[[], tuple[OperatorTotals, ...]] = tuple
    rows: Sequence[ProfileRow] = ()
    warn_of_load: Callable[[Screen], None] = lambda _: None


@dataclass(frozen=True, slots=True)
class TableSelection:
    """What to take from tables: the kind of problem, workloads by name, batch sizes; ``None`` leaves it to them."""

    kind: str | None = None
    workload: str | None = None
    background: str | None = None
    batch_sizes: tuple[int, ...] | None = None


def candidates_of_tables(sources: Sequence[str], selection: TableSelection, columns: Mapping[str, str]) -> Candidates:
    """Offer the points of one table, or of several of one device; ``columns`` as in ``foreign_table``.

    Raises:
        InputError: unreadable, of several devices, or a choice of networks and tasks that is not said.
    """
    from edgetune.devices.recorded import RecordedTable
    from edgetune.search.problem import PAIRS

    profiles, origins = zip(*(read_table(source.removeprefix("recorded:"), columns) for source in sources), strict=True)
    names = ", ".join(origin["name"] for origin in origins)
    conditions = _conditions(profiles, names)
    table = RecordedTable.of([row for profile in profiles for row in profile.rows], name=names)
    if selection.kind in PAIRS:
        kind, points = str(selection.kind), _of_two(table, selection)
        described = f"{kind} in {names}"
    else:
        workload, task, kind = _choose(table, selection)
        points = [row.point for row in table.rows if row.workload == workload and row.task == task]
        described = f"{workload} {task} in {names}"
    points = _of_sizes(points, selection, names)
    inputs = {**profiles[0].header.inputs, **_origins(profiles, points, selection)}
    for number, origin in enumerate(origins):
        if "table" not in profiles[number].header.inputs:  # a foreign table names itself
            inputs["profile" if number == 0 else f"profile_{number + 1}"] = origin
    return Candidates(
        points=points,
        measure=table.lookup,
        kind=kind,
        described=described,
        simulated=any(profile.header.simulated for profile in profiles),
        free=True,
        inputs=inputs,
        conditions=conditions,
        warnings=(*(w for profile in profiles for w in profile.header.warnings), *table.data_warnings),
        rows=table.rows,
    )


def read_table(source: str, columns: Mapping[str, str]) -> tuple[Profile, dict[str, str]]:
    """Return a table and where it comes from; ``columns`` as in ``foreign_table``.

    Raises:
        InputError: it cannot be read, or is no profile.
    """
    from edgetune.artifacts.files import name_of, read_source
    from edgetune.artifacts.io import profile_of_bytes

    data, name = read_source(source), name_of(source)
    origin = {"name": name, "sha256": hashlib.sha256(data).hexdigest()}
    return profile_of_bytes(data, columns, name=name), origin


def _conditions(profiles: Sequence[Profile], names: str) -> dict[str, Any]:
    """Return the conditions of the first table, simulated when any is; tables of different devices are refused."""
    devices = {str(device) for p in profiles if (device := p.header.conditions.get("device")) is not None}
    if len(devices) < 2:
        devices = {row.device for profile in profiles for row in profile.rows if row.device is not None}
    if len(devices) > 1:
        message = f"{names} has rows of different devices: {', '.join(sorted(devices))}"
        raise InputError(message, "choose tables, or rows, of one device")
    merged = dict(profiles[0].header.conditions)
    if any(profile.header.simulated for profile in profiles):
        merged["simulated"] = True
    return merged


def _origins(profiles: Sequence[Profile], points: Sequence[Point], selection: TableSelection) -> dict[str, Any]:
    """Return what the tables say of each network by its role, at least its name: ``workload``, and ``background``."""
    from edgetune.search.problem import PAIRS, background_task

    found = list(dict.fromkeys((point.workload, point.task) for point in points))
    if selection.kind not in PAIRS:
        return {"workload": _origin(profiles, *found[0])}
    task = background_task(selection.kind)
    first = next((one for one in found if one[1] == "infer" and one[0] != selection.background), None)
    second = next((one for one in found if one[1] == task and one != first), None)
    roles = {"workload": first, "background": second}
    return {role: _origin(profiles, *one) for role, one in roles.items() if one is not None}


def _origin(profiles: Sequence[Profile], name: str, task: str) -> dict[str, Any]:
    """Return what the table that measured a network says of it, the options it was run with included."""
    for profile in profiles:
        options = profile.header.options
        given = {key: options[key] for key in ("dimensions", "precision", "inputs") if options.get(key)}
        for role in ("workload", "background"):
            told = profile.header.inputs.get(role, {})
            if told.get("name") == name and any((row.workload, row.task) == (name, task) for row in profile.rows):
                return {**given, **told}
    return {"name": name}


def _of_sizes(points: Sequence[Point], selection: TableSelection, names: str) -> list[Point]:
    """Return the points at the batch sizes asked for; a background workload keeps its own."""
    from edgetune.search.problem import PAIRS

    if selection.batch_sizes is None:
        return list(points)
    kept = [
        point
        for point in points
        if point.batch_size in selection.batch_sizes
        or (selection.kind in PAIRS and (point.task == "train" or point.workload == selection.background))
    ]
    if not kept:
        sizes = sorted({point.batch_size for point in points})
        raise InputError(f"{names} has none of these batch sizes", f"it has {', '.join(map(str, sizes))}")
    return kept


def _choose(table: RecordedTable, selection: TableSelection) -> tuple[str, str, str]:
    """Return the workload, task and kind of problem: those asked for, else the only ones there."""
    here = [(candidates.workload, candidates.task) for candidates in table.workloads]
    workload, task = selection.workload, "train" if selection.kind == "accuracy" else selection.kind
    _known(workload, [name for name, _ in here])
    left = [(name, kind) for name, kind in here if workload in (None, name) and task in (None, kind)]
    listed = ", ".join(f"{name} {kind}" for name, kind in here)
    if len(left) == 1:
        return *left[0], selection.kind or left[0][1]
    if not left:
        raise InputError(f"the table has no {task} rows of {workload or 'any network'}", f"it has: {listed}")
    raise InputError(
        f"the table has several networks or tasks: {listed}", "choose with --workload NAME and --kind KIND"
    )


def _of_two(table: RecordedTable, selection: TableSelection) -> list[Point]:
    """Return the points of the two workloads: those named, else all that may be."""
    from edgetune.search.problem import background_task

    task = background_task(str(selection.kind))
    points = [row.point for row in table.rows]
    _known(selection.workload, [point.workload for point in points if point.task == "infer"])
    _known(selection.background, [point.workload for point in points if point.task == task])
    return [
        point
        for point in points
        if (point.task == "infer" and selection.workload in (None, point.workload))
        or (point.task == task and selection.background in (None, point.workload))
    ]


def _known(name: str | None, names: Sequence[str]) -> None:
    if name is not None and name not in names:
        raise InputError(f"the table has no workload {name!r}", nearest(name, sorted(set(names))))

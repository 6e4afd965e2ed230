"""Artifacts to bytes and back: what the rest of the package reads and writes files with.

What is written has the format that the ending of the file's name says. What is read is told by its content: ``PAR1``
is Parquet, a JSON object with ``rows`` is a table, other text with a ``kind:`` is YAML, and the rest is CSV with a
header line. ``-`` is standard input, read whole.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeVar, cast, overload

from edgetune.artifacts import (
    convergence,
    elastic_table,
    evaluation,
    kernel_timeline,
    layer_costs,
    ops,
    profile,
    run,
    timeline,
    trace,
)
from edgetune.artifacts.columns import Column, columns_of
from edgetune.artifacts.convergence import Convergence, ConvergenceRow, checked_runs, refuse_unknown_columns
from edgetune.artifacts.csv_format import csv_bytes
from edgetune.artifacts.detection import document_kind, sniff, table_in, text_of
from edgetune.artifacts.document import plan_of, plan_text, raw_document
from edgetune.artifacts.elastic_table import ElasticRow, ElasticTable, checked_pieces
from edgetune.artifacts.evaluation import Evaluation, EvaluationRow, evaluation_of, evaluation_table
from edgetune.artifacts.events import EventRules, checked_events
from edgetune.artifacts.files import name_of, read_source, write_atomically
from edgetune.artifacts.foreign_profile import foreign_table
from edgetune.artifacts.header import DataWarning, Header
from edgetune.artifacts.jobs import Jobs, jobs_of, jobs_text
from edgetune.artifacts.json_format import json_bytes, json_document
from edgetune.artifacts.kernel_tasks import KernelTasks, kernel_tasks_of, kernel_tasks_text
from edgetune.artifacts.kernel_timeline import RULES as KERNEL_RULES
from edgetune.artifacts.kernel_timeline import KernelTimeline, KernelTimelineRow
from edgetune.artifacts.kinds import Document, Format, format_of
from edgetune.artifacts.layer_costs import LayerCostRow, LayerCosts, checked_costs, with_lists
from edgetune.artifacts.ops import OpRow, OpsTable
from edgetune.artifacts.parquet_format import parquet_bytes
from edgetune.artifacts.plain import plain
from edgetune.artifacts.plan import Plan
from edgetune.artifacts.profile import Profile, ProfileRow
from edgetune.artifacts.profile_checks import checked_profile
from edgetune.artifacts.roofline import Roofline, roofline_of, roofline_text
from edgetune.artifacts.rows import rows_of, table_of
from edgetune.artifacts.run import RULES as RUN_RULES
from edgetune.artifacts.run import Run, RunRow
from edgetune.artifacts.table_checks import finite_table, typed_table
from edgetune.artifacts.timeline import RULES as TIMELINE_RULES
from edgetune.artifacts.timeline import Timeline, TimelineRow
from edgetune.artifacts.trace import Trace, TraceRow
from edgetune.artifacts.versions import CURRENT, MADE_BY, Raw, upgrade
from edgetune.artifacts.yaml_document import load_yaml
from edgetune.errors import InputError

Artifact = (
    Profile | Trace | OpsTable | Plan | Convergence | Evaluation | Roofline | Run | Timeline | LayerCosts | Jobs
    | ElasticTable | KernelTimeline | KernelTasks
)  # fmt: skip
Kind = (
    Document
    | Literal[
        "profile", "trace", "ops", "convergence", "evaluation", "run", "timeline", "layer_costs", "elastic_table",
        "kernel_timeline",
    ]
)  # fmt: skip

_ROW_TYPES: dict[str, type] = {
    profile.KIND: ProfileRow,
    trace.KIND: TraceRow,
    ops.KIND: OpRow,
    convergence.KIND: ConvergenceRow,
    evaluation.KIND: EvaluationRow,
    run.KIND: RunRow,
    timeline.KIND: TimelineRow,
    layer_costs.KIND: LayerCostRow,
    elastic_table.KIND: ElasticRow,
    kernel_timeline.KIND: KernelTimelineRow,
}
_OF_EVENTS: dict[str, tuple[type[Run] | type[Timeline] | type[KernelTimeline], EventRules]] = {
    run.KIND: (Run, RUN_RULES),
    timeline.KIND: (Timeline, TIMELINE_RULES),
    kernel_timeline.KIND: (KernelTimeline, KERNEL_RULES),
}
_MAPPINGS = {
    "inputs": ("workload", "background", "table", "request", "dataset", "ops"),
    "conditions": ("problem", "policies", "gpu"),
}
"""What in a header has fields of its own, where it is there."""
_H = TypeVar("_H")
_OPS_FIELDS = ("workload", "task", "batch_size", "precision", "parameters", "loads_images")
_DOCUMENTS: dict[str, Callable[..., Plan | Roofline | Jobs | KernelTasks]] = {
    "plan": plan_of,
    "roofline": roofline_of,
    "jobs": jobs_of,
    "kernel_tasks": kernel_tasks_of,
}
_TEXTS: dict[str, Callable[[Any], str]] = {
    "plan": plan_text,
    "roofline": roofline_text,
    "jobs": jobs_text,
    "kernel_tasks": kernel_tasks_text,
}


def read_profile(source: str, columns: Mapping[str, str] | None = None) -> Profile:
    """Return the profile in a file or, for ``-``, on standard input: ours, or any table with the needed columns.

    Args:
        source: The file.
        columns: What the columns of a table of others hold, where their names do not say it; see ``foreign_table``.

    Raises:
        InputError: it cannot be read, is something else, or its figures cannot be measurements.
    """
    return profile_of_bytes(read_source(source), columns, name=name_of(source))


def profile_of_bytes(data: bytes, columns: Mapping[str, str] | None, *, name: str) -> Profile:
    """Return the profile in ``data``; arguments and errors as ``read_profile``."""
    if not columns:
        return from_bytes(data, kind="profile", name=name)
    form = sniff(data, name=name)
    if form == "yaml":
        raise InputError(f"--column: {name} is YAML, and no table", "give it a CSV or Parquet file")
    table, head = table_in(data, form, name=name)
    if head is not None:
        message = f"--column: {name} was written by edgetune, which names its columns itself"
        raise InputError(message, "leave --column out")
    return _foreign_profile(table, data, columns, name=name)


def read_trace(source: str) -> Trace:
    """Return the trace in a file or, for ``-``, on standard input.

    Raises:
        InputError: it cannot be read or is something else.
    """
    return from_bytes(read_source(source), kind="trace", name=name_of(source))


def read_ops(source: str) -> OpsTable:
    """Return the operator table in a file or, for ``-``, on standard input.

    Raises:
        InputError: it cannot be read or is something else.
    """
    return from_bytes(read_source(source), kind="ops", name=name_of(source))


def read_plan(source: str) -> Plan:
    """Return the plan in a file or, for ``-``, on standard input.

    Raises:
        InputError: it cannot be read, is something else, or holds an unknown key or an impossible value.
    """
    return from_bytes(read_source(source), kind="plan", name=name_of(source))


def read_convergence(source: str) -> Convergence:
    """Return the convergence table in a file or on standard input: ours, or any table with the needed columns.

    Raises:
        InputError: it cannot be read, is something else, has unknown columns, or its figures cannot be training runs.
    """
    return from_bytes(read_source(source), kind="convergence", name=name_of(source))


def read_evaluation(source: str) -> Evaluation:
    """Return the evaluation in a file or, for ``-``, on standard input.

    Raises:
        InputError: it cannot be read or is something else.
    """
    return from_bytes(read_source(source), kind="evaluation", name=name_of(source))


def read_roofline(source: str) -> Roofline:
    """Return the rooflines in a file or, for ``-``, on standard input.

    Raises:
        InputError: it cannot be read, is something else, or holds an unknown key or an impossible value.
    """
    return from_bytes(read_source(source), kind="roofline", name=name_of(source))


def read_run(source: str) -> Run:
    """Return the run in a file or, for ``-``, on standard input.

    Raises:
        InputError: it cannot be read, is something else, or holds what cannot have happened.
    """
    return from_bytes(read_source(source), kind="run", name=name_of(source))


def read_timeline(source: str) -> Timeline:
    """Return the timeline in a file or, for ``-``, on standard input.

    Raises:
        InputError: it cannot be read, is something else, or holds what cannot have happened.
    """
    return from_bytes(read_source(source), kind="timeline", name=name_of(source))


def read_layer_costs(source: str) -> LayerCosts:
    """Return the layer costs in a file or on standard input: ours, or any table with the needed columns.

    Raises:
        InputError: it cannot be read, is something else, or holds what cannot be the costs of a network.
    """
    return from_bytes(read_source(source), kind="layer_costs", name=name_of(source))


def read_elastic_table(source: str) -> ElasticTable:
    """Return the kept pieces of kernels in a file or, for ``-``, on standard input.

    Raises:
        InputError: it cannot be read, is something else, or holds what cannot be launched.
    """
    return from_bytes(read_source(source), kind="elastic_table", name=name_of(source))


def read_jobs(source: str) -> Jobs:
    """Return the jobs in a file or, for ``-``, on standard input.

    Raises:
        InputError: it cannot be read, is something else, or says what makes no sense.
    """
    return from_bytes(read_source(source), kind="jobs", name=name_of(source))


def read_kernel_timeline(source: str) -> KernelTimeline:
    """Return the kernel timeline in a file or, for ``-``, on standard input.

    Raises:
        InputError: it cannot be read, is something else, or holds what cannot have happened.
    """
    return from_bytes(read_source(source), kind="kernel_timeline", name=name_of(source))


def read_kernel_tasks(source: str) -> KernelTasks:
    """Return the kernel tasks in a file or, for ``-``, on standard input.

    Raises:
        InputError: it cannot be read, is something else, or says what makes no sense.
    """
    return from_bytes(read_source(source), kind="kernel_tasks", name=name_of(source))


def write(artifact: Artifact, target: Path | str) -> Path:
    """Write ``artifact`` to the file ``target`` in the format that its ending says, and return where it is.

    Raises:
        InputError: no such ending; or the folder is missing or read-only, the disk is full, ...: an old file is left as
            it was.
    """
    return write_atomically(to_bytes(artifact, format_of(target, artifact.header.kind)), target)


def to_bytes(artifact: Artifact, form: Format | None = None) -> bytes:
    """Return the file of an artifact; by default YAML for a plan, a roofline, jobs and kernel tasks, else Parquet.

    Args:
        artifact: Of any kind.
        form: ``csv`` has the rows only; a cell that is a list is JSON text there.
    """
    kind = artifact.header.kind
    if kind in _TEXTS:
        text = _TEXTS[kind](artifact)
        return json_document(load_yaml(text, name=kind)) if form == "json" else text.encode()
    if isinstance(artifact, Evaluation):
        table = evaluation_table(artifact)
    else:
        table = table_of(cast("Any", artifact).rows, _ROW_TYPES[kind])
    if form == "csv":
        return csv_bytes(table)
    head = plain(artifact.header)
    if isinstance(artifact, OpsTable):
        head |= {field: getattr(artifact, field) for field in _OPS_FIELDS}
    return json_bytes(table, head) if form == "json" else parquet_bytes(table, head)


@overload
def from_bytes(data: bytes, *, kind: Literal["profile"], name: str) -> Profile: ...
@overload
def from_bytes(data: bytes, *, kind: Literal["trace"], name: str) -> Trace: ...
@overload
def from_bytes(data: bytes, *, kind: Literal["ops"], name: str) -> OpsTable: ...
@overload
def from_bytes(data: bytes, *, kind: Literal["plan"], name: str) -> Plan: ...
@overload
def from_bytes(data: bytes, *, kind: Literal["convergence"], name: str) -> Convergence: ...
@overload
def from_bytes(data: bytes, *, kind: Literal["evaluation"], name: str) -> Evaluation: ...
@overload
def from_bytes(data: bytes, *, kind: Literal["roofline"], name: str) -> Roofline: ...
@overload
def from_bytes(data: bytes, *, kind: Literal["run"], name: str) -> Run: ...
@overload
def from_bytes(data: bytes, *, kind: Literal["timeline"], name: str) -> Timeline: ...
@overload
def from_bytes(data: bytes, *, kind: Literal["layer_costs"], name: str) -> LayerCosts: ...
@overload
def from_bytes(data: bytes, *, kind: Literal["elastic_table"], name: str) -> ElasticTable: ...
@overload
def from_bytes(data: bytes, *, kind: Literal["jobs"], name: str) -> Jobs: ...
@overload
def from_bytes(data: bytes, *, kind: Literal["kernel_tasks"], name: str) -> KernelTasks: ...
@overload
def from_bytes(data: bytes, *, kind: Literal["kernel_timeline"], name: str) -> KernelTimeline: ...
@overload
def from_bytes(data: bytes, *, kind: Document, name: str) -> Plan | Roofline | Jobs | KernelTasks: ...
def from_bytes(data: bytes, *, kind: Kind, name: str) -> Artifact:
    """Return the artifact of that kind in ``data``; ``name`` is what messages call it.

    Raises:
        InputError: as the readers above.
    """
    form = sniff(data, name=name)
    if kind in _DOCUMENTS:
        if form in ("parquet", "json"):
            upgrade(Raw(table_in(data, form, name=name)[1] or {}, None), kind=kind, name=name)
            raise InputError(f"{name} is a table, but a {kind} is a document", f"give it a {kind} in YAML or JSON")
        raw = raw_document(load_yaml(text_of(data), name=name), kind=kind, name=name)
        return _DOCUMENTS[kind](upgrade(raw, kind=kind, name=name), name=name)
    if form == "yaml":
        document = load_yaml(text_of(data), name=name)
        upgrade(Raw(document if isinstance(document, dict) else {}, None), kind=kind, name=name)
        raise InputError(f"{name} is YAML, but a {kind} is a table", f"give it a {kind}, as `{MADE_BY[kind]}` writes")
    table, head = table_in(data, form, _names(_ROW_TYPES[kind]), name=name)
    if head is None:
        if kind == "convergence":
            return _foreign_convergence(table, data, name=name)
        if kind == layer_costs.KIND:
            return _foreign_costs(table, data, name=name)
        if kind != "profile":
            if columns_kind(table) == kind:
                message = f"{name} has the rows of a {kind} alone: CSV keeps no conditions, without which it is none"
                raise InputError(message, "give it the .parquet or .json file that the rows are from")
            message = f"{name} is not a {kind}: edgetune did not write it"
            raise InputError(message, f"give it a {kind}, as `{MADE_BY[kind]}` writes")
        return _foreign_profile(table, data, {}, name=name)
    return _table_artifact(upgrade(Raw(head, table), kind=kind, name=name), kind=kind, name=name)


def columns_by_kind() -> dict[str, tuple[Column, ...]]:
    """Return the columns of every kind of table."""
    return {kind: columns_of(row_type) for kind, row_type in _ROW_TYPES.items()}


def columns_kind(table: Any) -> str | None:
    """Return the kind whose rows have exactly these columns, as CSV of edgetune has; ``None`` where no kind's have."""
    found = (kind for kind, row_type in _ROW_TYPES.items() if table.column_names == _names(row_type))
    return next(found, None)


def _names(row_type: type) -> list[str]:
    return [column.name for column in columns_of(row_type)]


def _table_artifact(raw: Raw, *, kind: str, name: str) -> Artifact:
    header = _header(raw, name=name)
    row_type = _ROW_TYPES[kind]
    table = typed_table(raw.body, row_type, name=name)
    if kind == profile.KIND:
        return Profile(header, _finite_rows(checked_profile(table, table.column_names, name=name), row_type, name=name))
    if kind == evaluation.KIND:
        return evaluation_of(header, finite_table(table, row_type, name=name))
    if kind in _OF_EVENTS:
        artifact, rules = _OF_EVENTS[kind]
        return artifact(header, _finite_rows(checked_events(table, rules, name=name), row_type, name=name))
    return _plain_table(raw, header, _finite_rows(table, row_type, name=name), table.column_names, name=name)


def _plain_table(raw: Raw, header: Header, rows: Any, columns: list[str], *, name: str) -> Artifact:
    """Return an artifact that is its header and its rows."""
    if header.kind == trace.KIND:
        return Trace(header, rows)
    if header.kind == layer_costs.KIND:
        return LayerCosts(header, checked_costs(rows, name=name))
    if header.kind == elastic_table.KIND:
        return checked_pieces(header, rows, name=name)
    if header.kind == convergence.KIND:
        return Convergence(header, checked_runs(rows, columns, name=name))
    try:
        said = {field: raw.head[field] for field in _OPS_FIELDS}
    except KeyError as error:
        raise InputError(f"{name} has a damaged header: no {error.args[0]}", "write the file again") from None
    empty = {**said, "header": raw.head, "rows": []}
    return replace(_of_head(OpsTable, empty, name=name), header=header, rows=rows)


def _header(raw: Raw, *, name: str) -> Header:
    header = _of_head(Header, raw.head, name=name)
    for place, keys in _MAPPINGS.items():
        for key in keys:
            if not isinstance(getattr(header, place).get(key) or {}, Mapping):
                message = f"{name} has a damaged header: {place}.{key}: it should hold keys and values"
                raise InputError(message, "write the file again")
    return header


def _of_head(form: type[_H], head: Mapping[str, Any], *, name: str) -> _H:
    """Return what the head of a file says, as the dataclass ``form``.

    Raises:
        InputError: a field is missing or has another type.
    """
    from pydantic import TypeAdapter, ValidationError

    try:
        found: _H = TypeAdapter(form).validate_json(json.dumps(head), strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise InputError(f"{name} has a damaged header: {where}: {first['msg']}", "write the file again") from None
    return found


def _finite_rows(table: Any, row_type: type, *, name: str) -> tuple[Any, ...]:
    """Return the rows of a typed table, of which every number is finite."""
    return rows_of(finite_table(table, row_type, name=name), row_type)


def _foreign_profile(table: Any, data: bytes, columns: Mapping[str, str], *, name: str) -> Profile:
    """Return the profile in a table that edgetune did not write; its hash is all the provenance there is."""
    found = foreign_table(table, columns, name=name)
    rows: tuple[ProfileRow, ...] = _finite_rows(found.table, ProfileRow, name=name)
    devices = sorted({row.device for row in rows if row.device is not None})
    conditions: dict[str, Any] = {"device": ", ".join(devices)} if devices else {}
    if any(device.startswith("twin:") for device in devices):
        conditions["simulated"] = True  # a twin's figures stay a twin's, also after a detour through CSV
    header = _foreign_header(
        profile.KIND, data, name, columns=columns, conditions=conditions, warnings=found.data_warnings
    )
    return Profile(header, rows)


def _foreign_convergence(table: Any, data: bytes, *, name: str) -> Convergence:
    """Return the training runs in a table that edgetune did not write."""
    found = table.column_names
    typed = typed_table(table, ConvergenceRow, name=name)
    refuse_unknown_columns(found, name=name)
    rows = checked_runs(rows_of(typed, ConvergenceRow), found, name=name)
    return Convergence(_foreign_header(convergence.KIND, data, name), rows)


def _foreign_costs(table: Any, data: bytes, *, name: str) -> LayerCosts:
    """Return the layer costs in a table that edgetune did not write."""
    typed = typed_table(with_lists(table, name=name), LayerCostRow, name=name)
    rows = _finite_rows(typed, LayerCostRow, name=name)
    return LayerCosts(_foreign_header(layer_costs.KIND, data, name), checked_costs(rows, name=name))


def _foreign_header(
    kind: str,
    data: bytes,
    name: str,
    *,
    columns: Mapping[str, str] | None = None,
    conditions: Mapping[str, Any] | None = None,
    warnings: tuple[DataWarning, ...] = (),
) -> Header:
    table = {"name": name, "sha256": hashlib.sha256(data).hexdigest()}
    return Header(
        kind=kind,
        version=CURRENT[kind],
        created="unknown",
        tool="unknown",
        inputs={"table": {**table, "columns": dict(columns)} if columns else table},
        conditions=conditions or {},
        warnings=warnings,
    )


__all__ = [
    "Artifact", "Document", "Format", "Kind", "columns_kind", "document_kind", "from_bytes", "profile_of_bytes",
    "read_convergence", "read_elastic_table", "read_evaluation", "read_jobs", "read_kernel_tasks",
    "read_kernel_timeline", "read_layer_costs", "read_ops", "read_plan", "read_profile", "read_roofline",
    "read_run", "read_timeline", "read_trace", "sniff", "table_in", "to_bytes", "write",
]  # fmt: skip

"""The sections of reports, by kind of artifact: a function writes each, on a page or on a terminal.

    def section(table: Profile, out: SectionWriter) -> None: ...

Installed packages add rows. The order of the rows is the order of a page.

Cells of tables: figures in their units, where a missing one stays ``None``, which a table prints as a dash.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from edgetune.artifacts.artifact import Artifact
from edgetune.artifacts.profile import RAW_COLUMNS, ProfileRow
from edgetune.artifacts.yaml_document import plain
from edgetune.plotting.page import SectionWriter
from edgetune.plugins import Registry
from edgetune.units import format_si

SECTIONS: Registry[Callable[..., None]] = Registry(
    "section of a report",
    {
        "plan.answer": "edgetune.workflows.report.plan:plan_section",
        "profile.points": "edgetune.workflows.report.profile:profile_section",
        "trace.steps": "edgetune.workflows.report.plan:trace_section",
        "roofline.roofs": "edgetune.workflows.report.tables:roofline_section",
        "ops.operators": "edgetune.workflows.report.tables:ops_section",
        "run.engines": "edgetune.workflows.report.run:run_section",
        "timeline.policies": "edgetune.workflows.report.timeline:timeline_section",
        "kernel_timeline.policies": "edgetune.workflows.report.kernel_timeline:kernel_timeline_section",
        "evaluation.strategies": "edgetune.workflows.report.evaluation:evaluation_section",
        "convergence.epochs": "edgetune.workflows.report.tables:convergence_section",
        "layer_costs.layers": "edgetune.workflows.report.tables:layer_costs_section",
        "jobs.document": "edgetune.workflows.report.tables:document_section",
        "kernel_tasks.document": "edgetune.workflows.report.tables:document_section",
    },
    group="edgetune.reports",
)
"""The sections by kind of artifact and name."""


def write_sections(artifact: Artifact, out: SectionWriter, **options: Any) -> None:
    """Write all sections of an artifact's kind; ``options`` are those of the kind's own section."""
    for name in SECTIONS:
        if name.partition(".")[0] == artifact.header.kind:
            SECTIONS[name](artifact, out, **options)
            options = {}


def answer_of(artifact: Artifact) -> Any:
    """Return the figures of an artifact for machines: ``answer`` beside its section, else the whole of it."""
    name = next((each for each in SECTIONS if each.partition(".")[0] == artifact.header.kind), None)
    module = None if name is None else sys.modules[SECTIONS[name].__module__]
    return getattr(module, "answer", plain)(artifact)


def page_order(kind: str) -> int:
    """Return the place of a kind on a page; ``-1`` if it has no section."""
    kinds = list(dict.fromkeys(name.partition(".")[0] for name in SECTIONS))
    return kinds.index(kind) if kind in kinds else -1


Of = TypeVar("Of")
_RAW = (*RAW_COLUMNS, "_samples_s")
"""Endings of the columns with raw samples."""


class Cell(str):
    """The text of a figure, with the ``value`` by which a page sorts it."""

    __slots__ = ("value",)

    value: float


def _figure(text: str, value: object) -> str:
    """Return a text with its value, if that is a number."""
    if not isinstance(value, int | float):
        return text
    made = Cell(text)
    made.value = value
    return made


def cell(value: Of | None, form: str | Callable[[Of], str] = "") -> str | None:
    """Return a value in a format specification, or as a function writes it."""
    if value is None:
        return None
    return _figure(format(value, form) if isinstance(form, str) else form(value), value)


def si_cell(value: float | None, unit: str) -> str | None:
    """Return a figure with an SI prefix and as many digits as the others of its column."""
    return None if value is None else _figure(format_si(value, unit, zeros=True), value)


def own_figure(row: ProfileRow) -> str | None:
    """Return a command's own figure and its unit."""
    return None if row.own_value is None else f"{row.own_value:.4g} {row.own_unit or ''}".rstrip()


def rows_of(figures: Mapping[str, Callable[[Of], object]], nouns: Sequence[Of]) -> tuple[list[str], list[list[object]]]:
    """Return the columns and rows of a table: each column's function of each noun, without empty columns."""
    cells = {name: [figure(each) for each in nouns] for name, figure in figures.items()}
    shown = {name: column for name, column in cells.items() if any(found is not None for found in column)}
    return list(shown), [list(row) for row in zip(*shown.values(), strict=True)]


def brief(row: Any) -> dict[str, Any]:
    """Return a row of an artifact for machines, without raw samples and without what is ``None``."""
    from edgetune.artifacts.yaml_document import plain

    return {name: value for name, value in plain(row).items() if value is not None and not name.endswith(_RAW)}

"""The sections of reports, by kind of artifact: a function writes each, on a page or on a terminal.

    def section(table: Profile, out: SectionWriter) -> None: ...

Installed packages add rows. The order of the rows is the order of a page.
"""

import sys
from collections.abc import Callable
from typing import Any

from edgetune.artifacts.artifact import Artifact
from edgetune.artifacts.yaml_document import plain
from edgetune.plotting.page import SectionWriter
from edgetune.plugins import Registry

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

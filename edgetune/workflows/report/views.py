"""The figures of an artifact in a report."""

from __future__ import annotations

from functools import partial

from edgetune.artifacts.artifact import Artifact
from edgetune.plotting.page import SectionWriter
from edgetune.workflows.figures import choose_view, views_of


def draw_views(artifact: Artifact, out: SectionWriter) -> None:
    """Draw every figure that the kind of an artifact has."""
    kind = artifact.header.kind
    for view in views_of(kind):
        out.figure(partial(choose_view(kind, view).draw, artifact), f"{kind.replace('_', ' ')}: {view}")

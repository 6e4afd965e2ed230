"""One self-contained HTML page of several artifacts: the provenance, first rows and default figure of each."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from pathlib import Path

from edgetune.artifacts.artifact import Artifact
from edgetune.artifacts.files import write_atomically
from edgetune.errors import EdgetuneError, InputError
from edgetune.plotting.figure_file import bounded, figure_bytes
from edgetune.workflows.figures import choose_view, views_of
from edgetune.workflows.output import Target

_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;color:#222}"
    "table{border-collapse:collapse;font-size:.8rem;display:block;overflow-x:auto}"
    "th,td{padding:.2rem .6rem;border-bottom:1px solid #ddd;text-align:left;white-space:nowrap}"
    "img{max-width:100%}.simulated{background:#ffe9a8;padding:.3rem .6rem}"
)


def report(artifacts: Sequence[Artifact], path: str | Path) -> Path:
    """Write a page with a section for each artifact and return its path.

    The page loads nothing from elsewhere. A figure that cannot be drawn is replaced by the reason.

    Args:
        artifacts: In the order of the sections.
        path: A name that ends in ``.html``.

    Raises:
        InputError: there is no artifact, the name has another ending, or the file cannot be written.
    """
    if not artifacts:
        raise InputError("a report needs an artifact", "e.g. edgetune.report([table, plan], 'report.html')")
    if Path(path).suffix.lower() not in (".html", ".htm"):
        raise InputError(f"{path}: a report is a page", "name a .html file")
    Target(Path(path)).check("figure", "the report")
    sections = "".join(_section(artifact) for artifact in artifacts)
    head = (
        f'<meta charset=utf-8><meta name="generator" content="edgetune"><title>edgetune</title><style>{_STYLE}</style>'
    )
    page = f"<!doctype html><html lang=en>{head}{sections}"
    return write_atomically(f"{page}</html>\n".encode(), path)


def _section(artifact: Artifact) -> str:
    header = artifact.header
    title = f"<h2>{html.escape(header.kind.replace('_', ' '))}</h2>"
    label = "<p class=simulated>SIMULATED: these figures come from a model, not from a device.</p>"
    return f"<section>{title}{label if header.simulated else ''}{_figure(artifact)}{artifact._repr_html_()}</section>"


def _figure(artifact: Artifact) -> str:
    """Return the default figure of an artifact as an image, or the reason for its absence."""
    kind = artifact.header.kind
    if not views_of(kind):
        return ""
    try:
        with bounded():
            drawn = figure_bytes(choose_view(kind).draw(artifact), "svg")
    except EdgetuneError as error:
        return f"<p>No figure: {html.escape(error.message)} ({html.escape(error.hint)}).</p>"
    return f'<img alt="{html.escape(kind)}" src="data:image/svg+xml;base64,{base64.b64encode(drawn).decode()}">'

"""One self-contained HTML page of several artifacts, made of the sections of their kinds.

A section is a function that returns HTML of an artifact, and one row of ``SECTIONS``; installed packages add rows.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Callable, Sequence
from operator import methodcaller
from pathlib import Path

from edgetune.artifacts.artifact import Artifact
from edgetune.artifacts.files import write_atomically
from edgetune.errors import EdgetuneError, InputError
from edgetune.plotting.figure_file import bounded, figure_bytes
from edgetune.plugins import Registry
from edgetune.workflows.figures import choose_view, views_of
from edgetune.workflows.output import Target

_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;color:#222}"
    "table{border-collapse:collapse;font-size:.8rem;display:block;overflow-x:auto}"
    "th,td{padding:.2rem .6rem;border-bottom:1px solid #ddd;text-align:left;white-space:nowrap}"
    "img{max-width:100%}.simulated{background:#ffe9a8;padding:.3rem .6rem}"
)


def report(artifacts: Sequence[Artifact], path: str | Path) -> Path:
    """Write a page with a part for each artifact and return its path.

    The page loads nothing from elsewhere. A section that cannot be made is replaced by the reason.

    Args:
        artifacts: In the order of the page.
        path: A name that ends in ``.html``.

    Raises:
        InputError: there is no artifact, the name has another ending, or the file cannot be written.
    """
    if not artifacts:
        raise InputError("a report needs an artifact", "e.g. edgetune.report([table, plan], 'report.html')")
    if Path(path).suffix.lower() not in (".html", ".htm"):
        raise InputError(f"{path}: a report is a page", "name a .html file")
    Target(Path(path)).check("figure", "the report")
    parts = "".join(_part(artifact) for artifact in artifacts)
    head = (
        f'<meta charset=utf-8><meta name="generator" content="edgetune"><title>edgetune</title><style>{_STYLE}</style>'
    )
    page = f"<!doctype html><html lang=en>{head}{parts}"
    return write_atomically(f"{page}</html>\n".encode(), path)


def _part(artifact: Artifact) -> str:
    """Return the title of an artifact and its sections."""
    header, parts = artifact.header, []
    if header.simulated:
        parts.append("<p class=simulated>SIMULATED: these figures come from a model, not from a device.</p>")
    for name in SECTIONS:
        kind, _, title = name.partition(".")
        if kind in (header.kind, EVERY):
            try:
                parts.append(SECTIONS[name](artifact))
            except EdgetuneError as error:
                reason = html.escape(f"{error.message} ({error.hint})")
                parts.append(f"<p>No {html.escape(title)}: {reason}.</p>")
    return f"<section><h2>{html.escape(header.kind.replace('_', ' '))}</h2>{''.join(parts)}</section>"


def figure_section(artifact: Artifact) -> str:
    """Return the default figure of an artifact as an image; empty if its kind has none.

    Raises:
        EdgetuneError: it cannot be drawn.
    """
    kind = artifact.header.kind
    if not views_of(kind):
        return ""
    with bounded():
        drawn = figure_bytes(choose_view(kind).draw(artifact), "svg")
    return f'<img alt="{html.escape(kind)}" src="data:image/svg+xml;base64,{base64.b64encode(drawn).decode()}">'


EVERY = "any"
SECTIONS: Registry[Callable[[Artifact], str]] = Registry(
    "section of a report",
    {f"{EVERY}.figure": figure_section, f"{EVERY}.rows": methodcaller("_repr_html_")},
    group="edgetune.reports",
)
"""The sections by kind of artifact (or ``any``) and name, in the order of the page."""

"""Files that people write, in a report: their text."""

from __future__ import annotations

from edgetune.artifacts.document import Document
from edgetune.plotting.page import SectionWriter


def document_section(document: Document, out: SectionWriter) -> None:
    """Write the document as YAML."""
    out.command(document.to_bytes().decode())

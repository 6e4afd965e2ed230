"""Where the figures of a report come from: files, programs, devices, conditions and warnings."""

from __future__ import annotations

from collections.abc import Sequence

from edgetune.artifacts.artifact import Artifact
from edgetune.artifacts.plain import plain
from edgetune.artifacts.yaml_document import dump_value
from edgetune.plotting.page import SectionWriter
from edgetune.visible import cut_in_middle

_LONGEST = 400
"""Most characters of a condition."""


def provenance_section(artifacts: Sequence[tuple[str, Artifact]], out: SectionWriter) -> None:
    """Write the warnings, inputs and conditions of every artifact by the name of its file."""
    for name, artifact in artifacts:
        header = artifact.header
        out.heading(f"{name}: {header.kind.replace('_', ' ')} version {header.version}, {header.made}")
        if header.command:
            out.command(header.command)
        for warning in header.warnings:
            numbers = "".join(f", {key} {value:g}" for key, value in warning.numbers.items())
            out.note(f"warning: {warning.code}{numbers}: {warning.advice}")
        facts = [
            (kind, key, cut_in_middle(dump_value(value), _LONGEST))
            for kind, found in (("input", plain(header.inputs)), ("condition", plain(header.conditions)))
            for key, value in found.items()
        ]
        if facts:
            out.table(("of", "name", "value"), facts, title="inputs and conditions", opened=False)

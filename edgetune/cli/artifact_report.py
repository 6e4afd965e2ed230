"""Prints the provenance and the warnings of an artifact."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from edgetune.cli.screen import print_lines, terminal_width
from edgetune.visible import visible

if TYPE_CHECKING:
    from edgetune.artifacts.header import Header

_WIDEST = 100
"""The widest line of prose, columns."""


def show_header(header: Header) -> None:
    """Print the provenance and warnings of an artifact as YAML."""
    from edgetune.artifacts.plain import plain
    from edgetune.artifacts.yaml_document import dump_value

    print_lines(f"{header.kind} version {header.version}, {header.made}")
    if header.command:
        print_lines(f"command: {header.command}")
    width = min(terminal_width(_WIDEST), _WIDEST)
    for title, facts in (("inputs", plain(header.inputs)), ("conditions", plain(header.conditions))):
        if facts:
            print_lines(f"{title}:")
        for name, value in facts.items():
            first, *more = textwrap.wrap(
                f"{visible(str(name))}: {dump_value(value)}", width - 6, break_long_words=False, break_on_hyphens=False
            )
            print_lines(*[f"  {first}", *(f"      {line}" for line in more)])
    for data_warning in header.warnings:
        numbers = "".join(f" {name}={value:g}" for name, value in data_warning.numbers.items())
        print_lines(f"warning: {data_warning.code}{numbers}: {data_warning.advice}")
    print_lines()

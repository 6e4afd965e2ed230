"""The commands of edgetune and what they take, read from the command line's own tree: new commands are here at once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

READS = re.compile(r"FILE|TABLE|PROFILE|PLAN|JOBS|TASKS|MODEL|DIR|SPEC|MODE\b|HOW|DEVICE")
"""Metavars of what may be the name of a file."""
WRITES = (
    "--output",
    "--plot",
    "--figure",
    "--trace",
    "--points",
    "--checkpoint",
    "--write",
    "--calibrate",
)
"""Options that name a file or folder to be written."""
PREFIXED = {"--device": "recorded:", "--arrivals": "trace:", "name": "recorded:"}
"""What names a file after a word."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """An argument or option of a command.

    Args:
        name: The longest of its words; of an argument, its name.
        metavar: What the help writes for its value; empty for a flag.
        option: Whether it has a word of its own.
        required: Whether the command refuses to run without it.
    """

    name: str
    metavar: str
    option: bool
    required: bool

    @property
    def writes(self) -> bool:
        """Whether it names what is written."""
        return self.name in WRITES or (self.name == "--jobs" and self.metavar == "FILE")

    @property
    def reads(self) -> bool:
        """Whether it may name a file to read."""
        return not self.writes and (self.name in PREFIXED or bool(READS.search(self.metavar)))


@dataclass(frozen=True, slots=True)
class Command:
    """A command that runs: its words after ``edgetune``, and what it takes."""

    words: tuple[str, ...]
    parameters: tuple[Parameter, ...]

    @property
    def name(self) -> str:
        """Its words as people write them."""
        return " ".join(self.words)

    @property
    def slots(self) -> tuple[Parameter, ...]:
        """What of it may name a file to read."""
        return tuple(parameter for parameter in self.parameters if parameter.reads)


@cache
def commands() -> tuple[Command, ...]:
    """Return every command, hidden ones too."""
    from typer.main import get_command

    from edgetune.cli.app import app

    return tuple(_below(get_command(app), ()))


def _below(command: Any, words: tuple[str, ...]) -> Iterator[Command]:
    group = hasattr(command, "list_commands")
    if not group or command.params:
        yield Command(words, tuple(_parameter(each) for each in command.params))
    if group:
        for name in getattr(command, "subcommands", None) or command.list_commands(None):
            yield from _below(command.get_command(None, name), (*words, name))


def _parameter(found: Any) -> Parameter:
    option = found.param_type_name == "option"
    name = max((*found.opts, *found.secondary_opts), key=len) if option else found.name
    if option and getattr(found, "is_flag", False):
        name = found.opts[0]
    flag = option and getattr(found, "is_flag", False)
    return Parameter(name, "" if flag else (found.metavar or ""), option, bool(found.required))

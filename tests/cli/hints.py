"""What a hint tells to type, held against the commands: an option that is named is one of the command it is for."""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from typer.main import get_command

_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
_COMMAND = re.compile(r"(?:^|(?<=[\s`'\"(]))edgetune (?=[a-z-])")
_ENDS = re.compile(r"[;`)\"]|, | or | and |: ")
"""What ends a command line within a sentence."""
_FOREIGN = re.compile(r"(?<![\w-])(?:pip|apt|sudo|docker|nvcc|git|systemctl|python3?) [^;`]*")
"""Command lines of other programs, whose options are theirs."""
ANYWHERE = {"--help", "--verbose", "--version"}


@cache
def commands() -> dict[tuple[str, ...], set[str]]:
    """Return every command by its words after ``edgetune``, and its options."""
    from edgetune.cli.app import app

    command = get_command(app)
    with command.make_context("edgetune", [], resilient_parsing=True) as context:
        return dict(_options(command, context, ()))


def _options(command: Any, context: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], set[str]]]:
    parameters = [each for each in command.get_params(context) if each.param_type_name == "option"]
    yield path, ANYWHERE | {name for each in parameters for name in (*each.opts, *each.secondary_opts)}
    for name in command.list_commands(context) if hasattr(command, "list_commands") else ():
        below = command.get_command(context, name)
        with below.make_context(name, [], parent=context, resilient_parsing=True) as inner:
            yield from _options(below, inner, (*path, name))


def command_at(words: Sequence[str]) -> tuple[str, ...]:
    """Return the command that a command line invokes: the longest of its first words that is one."""
    return max((path for path in commands() if tuple(words[: len(path)]) == path), key=len)


def option_words(text: str) -> list[str]:
    """Return the options that a text names."""
    return list(dict.fromkeys(_OPTION.findall(text)))


def phrases(hint: str) -> list[tuple[tuple[str, ...] | None, str]]:
    """Return the parts of a hint, each with the command that it types; ``None`` where it types none.

    A command line is what follows ``edgetune`` up to the end of the phrase; those of other programs are left out.
    """
    own, *named = _COMMAND.split(_FOREIGN.sub("", hint))
    found: list[tuple[tuple[str, ...] | None, str]] = [(None, own)]
    for text in named:
        end = _ENDS.search(text)
        line, rest = (text, "") if end is None else (text[: end.start()], text[end.start() :])
        found += [(command_at(line.split()), line), (None, rest)]
    return found


def misplaced(hint: str, argv: Sequence[str]) -> list[str]:
    """Return the options that a hint names and that the command it is for does not have.

    Args:
        hint: As printed. Options that are not of a command line in it are for the command that was invoked.
        argv: The command line that was invoked.
    """
    found = []
    for path, text in phrases(hint):
        command = command_at(argv) if path is None else path
        name = " ".join(("edgetune", *command))
        found += [f"{option} of {name}" for option in option_words(text) if option not in commands()[command]]
    return found

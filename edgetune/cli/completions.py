"""What TAB offers in a shell: the scripts of ``completions/`` are typer's, and ask the program itself."""

import os
import re
from collections.abc import Callable, Iterable
from contextlib import redirect_stdout
from io import StringIO
from pkgutil import resolve_name
from typing import Any, get_args

import typer

from edgetune.cli.screen import print_document

VARIABLE = "_EDGETUNE_COMPLETE"
"""Set by the scripts: the shell that asks what may follow its command line."""


def answer(command: Any) -> int:
    """Print what may follow the words of a command line, as typer reads and writes them for each shell.

    Bash splits words at colons. They are joined before, and what the shell holds already is cut off the answers.

    Returns:
        The exit code, by which fish asks whether there are answers.
    """
    from typer._completion_classes import completion_init

    completion_init()
    split = os.environ.get("COMP_WORDS", "").split("\n")[: int(os.environ.get("COMP_CWORD", "0")) + 1]
    joined = re.sub("\n?:\n?", ":", "\n".join(split)).split("\n")
    os.environ |= {"COMP_WORDS": "\n".join(joined), "COMP_CWORD": str(len(joined) - 1)}
    os.environ["COLUMNS"] = "9999"  # at which rich would wrap the help of a word, and typer would offer the pieces
    held = len(joined[-1]) - (0 if split[-1] == ":" else len(split[-1]))
    code = 0
    with redirect_stdout(StringIO()) as found:
        try:
            command.main(args=[], prog_name="edgetune")
        except SystemExit as end:
            code = int(end.code or 0)
    print_document("".join(line[held:] for line in found.getvalue().splitlines(keepends=True)))
    return code


def offering(names: Iterable[str | None]) -> Callable[..., list[str]] | None:
    """Return the function that offers the values of an option or argument; ``None`` if no list has them.

    Args:
        names: Of the option, as written, and the placeholder of its value.
    """
    known = {key.split()[-1] for key in VALUES}
    name = next((each for each in names if each in known), None)
    if name is None:
        return None

    def offer(ctx: typer.Context) -> list[str]:
        path, command = ctx.command_path.split()[1:], ctx.command
        keys = (" ".join((*path[:length], name)) for length in range(len(path), -1, -1))
        found = next((list(_values(VALUES[key])) for key in keys if key in VALUES), [])
        return [*command.list_commands(ctx), *found] if name.isupper() and hasattr(command, "list_commands") else found

    return offer


def _values(source: str | tuple[str, ...]) -> Iterable[str]:
    if isinstance(source, tuple):
        return source
    prefix, _, place = source.rpartition(" ")
    found = resolve_name(f"edgetune.{place}")
    found = get_args(found) or (found() if callable(found) else found)
    return (prefix + name for name in found)


_DEVICES = ("auto", "host", "twin:orin-agx", "recorded:", "jetson", "nvidia:0")
VALUES: dict[str, str | tuple[str, ...]] = {
    "--task": "artifacts.profile:TASKS",
    "--kind": "artifacts.problem:ProblemKind",
    "--objective": "artifacts.problem:Objective",
    "--strategy": "stages.search.strategies:STRATEGIES",
    "--strategies": "stages.search.strategies:STRATEGIES",
    "--device": _DEVICES,
    "--modes": ("MAXN", "grid:441", "all"),
    "--precision": "workloads.kernels:PRECISIONS",
    "--family": "workflows.search.options:FAMILIES",
    "--grid": ("fulcrum", "auto"),
    "--limit": "workflows.schedule.options:LIMITS",
    "--by": ("op", "class", "node"),
    "search evaluate --by": ("strategy", "workload"),
    "schedule --policy": "stages.schedule.policies:POLICIES",
    "schedule kernels --policy": "stages.elastic.policies:POLICIES",
    "schedule kernels --device": ("nvidia:0", "jetson"),
    "schedule kernels --gpu": "stages.elastic.gpu:catalogue",
    "NETWORK": "workloads.zoo:NETWORKS",
    "MODEL": "zoo: workloads.zoo:NETWORKS",
    "TABLE": "zoo: workloads.zoo:NETWORKS",
    "DEVICE": _DEVICES,
    "TOPIC": "manual:TOPICS",
}
"""The values of an option or argument, or the name in the package of what lists them, with what stands before each.

The words before an option are those of the commands that the row is for.
"""

"""``edgetune completions``: the completion scripts of ``completions/``, made from the commands themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from edgetune.cli.screen import print_document
from edgetune.cli.shells import CommandEntry, Switch, bash, fish, zsh
from edgetune.errors import InputError

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def completions(
    shell: Annotated[str, typer.Argument(metavar="SHELL", help="bash, zsh or fish.")] = "bash",
    write: Annotated[str | None, typer.Option(metavar="FOLDER", help="Write all three scripts there instead.")] = None,
) -> None:
    """Print the completion script of a shell.

    \b
      source <(edgetune completions bash)
    """
    from edgetune.artifacts.files import write_atomically
    from edgetune.choices import choose

    scripts = render()
    if write is None:
        choose(shell, ("bash", "zsh", "fish"), what="shell")
        print_document(scripts[{"bash": "edgetune.bash", "zsh": "_edgetune", "fish": "edgetune.fish"}[shell]])
        return
    folder = Path(write)
    if not folder.is_dir():
        raise InputError(f"{write} is not a folder", "make it first")
    for name, text in scripts.items():
        write_atomically(text.encode(), folder / name)


def render() -> dict[str, str]:
    """Return the text of each script by its file name."""
    from typer.main import get_command

    from edgetune.cli.app import app as whole

    command = get_command(whole)
    with command.make_context("edgetune", [], resilient_parsing=True) as context:
        entries = walk(command, context, (), words())
    return {"edgetune.bash": bash(entries), "_edgetune": zsh(entries), "edgetune.fish": fish(entries)}


def words() -> dict[str, tuple[str, ...]]:
    """Return what to offer after an option (of one command, where its words come first) or for an argument, by name."""
    from edgetune.artifacts.problem import Objective, ProblemKind
    from edgetune.artifacts.profile import TASKS
    from edgetune.schedule.policies import POLICIES
    from edgetune.search.strategies import STRATEGIES
    from edgetune.workflows.figures import views_of
    from edgetune.workflows.roofline.drawing import VIEWS as ROOFLINE_VIEWS
    from edgetune.workflows.schedule.options import LIMITS
    from edgetune.workflows.search.options import FAMILIES
    from edgetune.workloads.kernels import PRECISIONS
    from edgetune.workloads.zoo import NETWORKS

    return {
        "--task": TASKS,
        "--kind": get_args(ProblemKind),
        "--strategy": ("auto", *STRATEGIES),
        "--objective": get_args(Objective),
        "--device": DEVICES,
        "--modes": ("MAXN", "grid:441", "all"),
        "--precision": tuple(PRECISIONS),
        "--family": FAMILIES,
        "--strategies": tuple(STRATEGIES),
        "--grid": ("fulcrum", "auto"),
        "search evaluate --by": ("strategy", "workload"),
        "show --view": tuple(sorted(views_of("trace"))),
        "schedule run --view": tuple(views_of("timeline")),
        "--policy": tuple(POLICIES),
        "--limit": LIMITS,
        "roofline --view": ROOFLINE_VIEWS,
        "--by": ("op", "class", "node"),
        "MODEL": tuple(f"zoo:{name}" for name in NETWORKS),
        "TABLE": tuple(f"zoo:{name}" for name in NETWORKS),
        "NETWORK": tuple(NETWORKS),
        "DEVICE": DEVICES,
        "SHELL": ("bash", "zsh", "fish"),
        **_of_kernels(),
    }


def _of_kernels() -> dict[str, tuple[str, ...]]:
    """Return what to offer after options of ``schedule kernels``, which has policies and devices of its own."""
    from edgetune.elastic.gpu import catalogue
    from edgetune.elastic.policies import POLICIES

    offered = {"--policy": tuple(POLICIES), "--device": ("nvidia:0", "jetson"), "--gpu": tuple(catalogue())}
    offered["--wiscore"] = ("corrected", "literal")
    commands = ("transform", "shrink", "simulate", "run", "bench", "calibrate")
    return {f"schedule kernels {name} {option}": words for name in commands for option, words in offered.items()}


DEVICES = ("auto", "host", "twin:orin-agx", "recorded:", "jetson", "nvidia:0")


def walk(command: Any, context: Any, path: tuple[str, ...], known: dict[str, tuple[str, ...]]) -> list[CommandEntry]:
    """Return the entry of ``command`` and those of everything below it."""
    from edgetune.cli.app import COMMANDS

    options = [parameter for parameter in command.get_params(context) if parameter.param_type_name == "option"]
    arguments = [parameter for parameter in command.get_params(context) if parameter.param_type_name == "argument"]
    switches = tuple(
        Switch(
            names=tuple(sorted((*option.opts, *option.secondary_opts), key=len, reverse=True)),
            help=" ".join((option.help or "").split()),
            takes_value=not option.is_flag,
            values=next(
                (known[word] for name in option.opts for word in (" ".join((*path, name)), name) if word in known), ()
            ),
        )
        for option in options
        if not option.hidden
    )
    offered = tuple(word for argument in arguments for word in known.get(argument.metavar or "", ()))
    summary = COMMANDS.get(" ".join(path)) or " ".join((command.help or "").partition("\n\n")[0].split())
    entries = [CommandEntry(path, summary, switches, offered)]
    for name in command.list_commands(context) if hasattr(command, "list_commands") else ():
        below = command.get_command(context, name)
        with below.make_context(name, [], parent=context, resilient_parsing=True) as inner:
            entries += walk(below, inner, (*path, name), known)
    return entries

"""The tree of commands: a subcommand's module is imported, and its command built, only when it is asked for."""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Annotated, Any, ClassVar, NamedTuple

import typer
from typer.core import TyperGroup
from typer.main import get_command

from edgetune.choices import nearest
from edgetune.cli.removed import removed
from edgetune.cli.screen import print_document, print_lines
from edgetune.errors import InputError
from edgetune.limits import set_limits
from edgetune.processes.privilege import give_root_up
from edgetune.version import __version__

COMMANDS: dict[str, str] = {
    "profile": "Measure a network: time, power and energy per minibatch, for batch sizes and power modes.",
    "measure": "Measure commands in the power mode that is: time, power and energy of a run, or of its steps.",
    "search": "Find the best power mode and batch size within budgets, and print a plan.",
    "interleave": "Answer requests in time, and train in the time that is left.",
    "schedule": "Run several networks in little memory, layer by layer, for real or simulated.",
    "roofline": "Measure the peaks of a device, in time and in energy, and say what bounds a network on it.",
    "report": "Write one page for a browser: answers, fronts, rooflines and timelines of files of edgetune.",
    "merge": "Merge tables of the same network, device and conditions into one.",
    "compare": "Compare tables of the same network: ratios with intervals, and a verdict.",
    "fleet": "Join many boards to one device: start a scheduler, join boards, list them, stop.",
    "device": "List devices with their abilities and modes; set a mode, watch the device, restore it.",
    "zoo": "List the networks defined in edgetune, and export them as ONNX files.",
    "show": "Print any edgetune file in readable form.",
    "help": "Print a page of the manual, or list the pages.",
    "doctor": "Say what is installed, what each device can do, and what to install for what is missing.",
}
"""Every subcommand and its line of help; ``edgetune.cli.NAME`` holds a typer app called ``app``."""

STEPS_OF_ROOT = ("profile", "measure", "search", "interleave", "schedule", "roofline", "fleet", "device", "doctor")
"""Subcommands that use devices or memory limits; under sudo the others give root up before they read anything."""
CONTEXT: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class Subcommand(NamedTuple):
    """A subcommand: its line in the list, and the function that builds it."""

    line: str
    build: Callable[[], Any]


class Offer(NamedTuple):
    """A word that TAB offers, with its help."""

    value: str
    help: str


class LazyGroup(TyperGroup):
    """A group that lists its subcommands from a table and builds the one that is asked for."""

    subcommands: ClassVar[dict[str, Subcommand]]

    def get_help_option(self, ctx: Any) -> Any:
        """Return the help option, off unless given.

        Without a default, recent versions of typer load pydantic to convert the missing value.
        """
        option = super().get_help_option(ctx)
        if option is not None:
            option.default = False
        return option

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        """Return the subcommands in the order of the table."""
        return list(self.subcommands)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        """Build a subcommand; return ``None`` if there is none of this name."""
        if cmd_name not in self.subcommands:
            return None
        command = self.subcommands[cmd_name].build()
        command.name = cmd_name
        return command

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the subcommand that ``args`` start with; none of this name has no completions.

        Raises:
            InputError: there is no such subcommand; the hint names its replacement or the nearest.
        """
        if args and not args[0].startswith("-") and args[0] not in self.subcommands:
            if ctx.resilient_parsing:
                return None, None, []
            known = self.list_commands(ctx)
            raise removed(ctx.command_path, args[0]) or InputError(
                f"no such command: {args[0]!r}", nearest(args[0], known)
            )
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Return what TAB offers: the options after a dash, else the subcommands from the table, none of them built."""
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        return [Offer(name, each.line) for name, each in self.subcommands.items() if name.startswith(incomplete)]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of subcommands from the table."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.subcommands[name].line) for name in self.list_commands(ctx)])


class LazyApp(typer.Typer):
    """A typer app that becomes a ``LazyGroup`` with a table of subcommands of its own.

    Args:
        group: The class of the group.
        settings: Of ``typer.Typer``.
    """

    def __init__(self, group: type[LazyGroup] = LazyGroup, **settings: Any) -> None:
        self.subcommands: dict[str, Subcommand] = {}
        own = type(group.__name__, (group,), {"subcommands": self.subcommands})
        super().__init__(
            cls=own, rich_markup_mode=None, add_completion=False, context_settings=CONTEXT,
            invoke_without_command=True, **settings,
        )  # fmt: skip


def load(module: str) -> Any:
    """Import a module of ``edgetune.cli`` and build the command of its app."""
    return get_command(import_module(f"edgetune.cli.{module}").app)


class Commands(LazyGroup):
    """The subcommands of ``edgetune``."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options; the words of ``--raise-limit`` are taken as they are, see ``get_help_option``."""
        found: list[Any] = super().get_params(ctx)
        for option in found:
            if option.name == "raise_limit":
                option.process_value = lambda _, words: tuple(words or ())
        return found


EPILOG = (
    "Exit codes: 0 done, 1 unexpected, 2 usage or bad input, 3 no feasible configuration, 4 device or permission, "
    "5 finished in part, 6 device state not restored, 129, 130, 131 and 143 stopped by a signal."
)

app = LazyApp(Commands, epilog=EPILOG)
app.subcommands |= {name: Subcommand(line, partial(load, name)) for name, line in COMMANDS.items()}


def _print_version(ctx: typer.Context, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        print_lines(f"edgetune {__version__}")
        raise typer.Exit


@app.callback()
def edgetune(
    ctx: typer.Context,
    version: Annotated[  # noqa: ARG001
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    raise_limit: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE", show_default=False,
            help="Before the command: raise a limit on what it reads, e.g. table_cells=2e7. An error names the limit. "
            "May be repeated.",
        ),
    ] = None,
) -> None:  # fmt: skip
    """Power modes, batch sizes and schedules for neural networks on edge accelerators: measured, not guessed."""
    if ctx.invoked_subcommand not in STEPS_OF_ROOT:
        give_root_up()
    set_limits(raise_limit or ())
    if ctx.invoked_subcommand is None:
        print_document(ctx.get_help())

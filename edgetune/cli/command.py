"""Makes a command from an options class, whose fields are the options, listed by group in ``--help``."""

import gc
import inspect
import shlex
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field
from functools import wraps
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, get_args, get_type_hints

import typer
from typer.core import TyperCommand
from typer.main import get_command

from edgetune.choices import closest
from edgetune.cli.app import LazyApp, LazyGroup, Subcommand
from edgetune.cli.removed import removed
from edgetune.cli.screen import Screen, report_moved
from edgetune.errors import InputError
from edgetune.workflows.options import Group, Option, declared, options_class

COMMAND_PREFIX = "command:"
_NEAR = 0.75
"""Likeness above which a word that names no file is taken for a misspelt subcommand."""


class DefaultGroup(LazyGroup):
    """A group that is itself a command: its callback with its options, listed by group in ``--help``, and arguments.

    The first word selects a subcommand if it names one; otherwise all words belong to the group itself. A file with
    the name of a subcommand is written ``./NAME``.
    """

    allow_extra_args = False
    allow_interspersed_args = True

    def get_params(self, ctx: Any) -> list[Any]:
        """Return options and arguments; only the options where a subcommand asks which words come before its own."""
        found: list[Any] = super().get_params(ctx)
        return found if ctx.command is self else [each for each in found if each.param_type_name == "option"]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Leave a subcommand's words in ``ctx.args``; parse all others as the group's own.

        Words after ``--`` are joined to one argument where there are ``sources``, measured on a named device.

        Raises:
            InputError: the first word is a removed subcommand, or nearly a subcommand, and is no file.
        """
        if "--" in args and any(each.name == "sources" for each in self.get_params(ctx)):
            before = args[: args.index("--")]
            if any(word.startswith(("-d", "--device")) for word in before):
                args = _join_command(args)
        if args and args[0] in self.list_commands(ctx):
            ctx.args = args
            return args
        if args and not args[0].startswith("-") and not ctx.resilient_parsing:
            gone = None if Path(args[0]).exists() else removed(ctx.command_path, args[0])
            if gone:
                raise gone
            near = closest(args[0], self.list_commands(ctx), likeness=_NEAR)
            if near and not Path(args[0]).exists():
                raise InputError(f"there is neither a command nor a file called {args[0]!r}", f"did you mean {near}?")
        rest: list[str] = super().parse_args(ctx, args)
        return rest

    def invoke(self, ctx: Any) -> Any:
        """Run the subcommand, else the group's own callback."""
        if not ctx.args:
            assert self.callback is not None
            return ctx.invoke(self.callback, **ctx.params)
        name, command, rest = self.resolve_command(ctx, ctx.args)
        assert command is not None
        ctx.invoked_subcommand = name
        with command.make_context(name, rest, parent=ctx) as inner:
            return command.invoke(inner)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words of the usage line: those of the group itself, for subcommands are listed below."""
        pieces: list[str] = super().collect_usage_pieces(ctx)
        return [piece for piece in pieces if piece != self.subcommand_metavar]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write a section per group, then the subcommands."""
        write_options(self, ctx, formatter)
        self.format_commands(ctx, formatter)


_CONTEXT = "ctx"
_USUAL = "Usual"
_HEADINGS = ("Arguments", _USUAL, *get_args(Group))
_LAST = ("batch_axis", "dim", "root", "seed", "force")
"""Fields whose options come last in their group: few people need them."""


@options_class
class AnswerTerminal:
    """The terminal options of a command without details, unknown to workflows."""

    json: Annotated[bool, Option("Print the answer as JSON.", ("--json",), "Output")] = False
    quiet: Annotated[
        bool, Option("On standard error only errors, and the SIMULATED label.", ("--quiet", "-q"), "Output")
    ] = False

    @property
    def screen(self) -> Screen:
        """The reporter of the terminal."""
        return Screen(self.quiet, getattr(self, "verbose", False), self.json)


@options_class
class Terminal(AnswerTerminal):
    """The terminal options of most commands."""

    verbose: Annotated[bool, Option("Print more; show a traceback on an unexpected error.", group="Output")] = False


@options_class
class PlanningTerminal(Terminal):
    """The terminal options of a command with a dry run."""

    dry_run: Annotated[
        bool, Option("Print what would be done, and how long it may take.", ("--dry-run",), "Output")
    ] = False


class GroupedCommand(TyperCommand):
    """A command whose ``--help`` lists its options by group; words after ``--`` are the command that it measures."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Join the words after ``--`` to one argument where there is an argument ``model`` or ``commands``."""
        if "--" in args and any(each.name in ("model", "commands") for each in self.get_params(ctx)):
            args = _join_command(args)
        rest: list[str] = super().parse_args(ctx, args)
        return rest

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write a section per group."""
        write_options(self, ctx, formatter)


def _join_command(args: list[str]) -> list[str]:
    """Join the words after ``--`` to one argument, the command that is measured."""
    place = args.index("--")
    return [*args[:place], "--", COMMAND_PREFIX + shlex.join(args[place + 1 :])]


def write_options(command: Any, ctx: Any, formatter: Any) -> None:
    """Write a section per group of a command's options, in the order of ``_HEADINGS``."""
    sections: dict[str, list[tuple[str, str]]] = {heading: [] for heading in _HEADINGS}
    for parameter in sorted(command.get_params(ctx), key=lambda each: each.name in _LAST):
        record = parameter.get_help_record(ctx)
        if record is not None:
            argument = parameter.param_type_name == "argument"
            group = "Arguments" if argument else getattr(parameter, "rich_help_panel", None) or "Output"
            sections[group].append(record)
    for heading, records in sections.items():
        if records:
            with formatter.section(heading):
                formatter.write_dl(records)


def command(
    app: typer.Typer,
    name: str | None = None,
    *,
    short_help: str | None = None,
    default: bool = False,
    usual: Sequence[str] = (),
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register ``function(opts: Options, terminal: Terminal)`` as a command of ``app``.

    The fields of both options classes are the command's options. The function's docstring is its help. A further
    argument ``ctx: typer.Context`` gives the function its own help text.

    Args:
        app: A ``LazyApp(DefaultGroup)`` where a command has subcommands beside it.
        name: Of the command; the function's by default.
        short_help: Its line in the list of subcommands; the first of its help by default.
        default: Whether it is the command of ``app`` itself, beside which the subcommands are.
        usual: Fields whose options ``--help`` lists first, in this order, where a command has many.
    """

    def register(function: Callable[..., None]) -> Callable[..., None]:
        label = name or function.__name__.replace("_", "-")
        if default:
            app.callback()(_runner(function, usual))
        elif isinstance(app, LazyApp):
            line = short_help or (function.__doc__ or "").partition("\n")[0]
            app.subcommands[label] = Subcommand(line, lambda: _build(label, _runner(function, usual)))
        else:
            app.command(label, cls=GroupedCommand)(_runner(function, usual))
        return function

    return register


def _build(name: str, run: Callable[..., None]) -> Any:
    """Return the click command of ``_runner``'s function."""
    alone = typer.Typer(rich_markup_mode=None, add_completion=False)
    alone.command(name, cls=GroupedCommand)(run)
    return get_command(alone)


def _runner(function: Callable[..., None], usual: Sequence[str]) -> Callable[..., None]:
    """Return a function of all options, by name, that fills the options classes which ``function`` takes."""
    hints = get_type_hints(function)
    kinds = [hints[name] for name in inspect.signature(function).parameters]
    fields = [field for kind in kinds if kind is not typer.Context for field in declared(kind)]
    first = {name: place for place, name in enumerate(usual)}
    assert first.keys() <= {field.name for field, *_ in fields}, usual
    parameters = [_parameter(*field, usual=field[0].name in first) for field in fields]
    parameters.sort(key=lambda each: first.get(each.name, len(first)))
    if typer.Context in kinds:
        parameters.append(inspect.Parameter(_CONTEXT, inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context))

    @wraps(function)
    def run(**given: Any) -> None:
        from edgetune.workflows.output import begin_outputs

        gc.enable()
        begin_outputs(report_moved, force=bool(given.get("force")))
        function(*(given[_CONTEXT] if kind is typer.Context else _filled(kind, given) for kind in kinds))

    parameters.sort(key=lambda each: getattr(each.default, "default", ...) is not ...)
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {}  # typer evaluates them twice, and reads the signature
    del run.__wrapped__
    return run


def _parameter(field: Field[Any], inner: Any, shown: Option, *, usual: bool) -> inspect.Parameter:
    missing = field.default is MISSING and field.default_factory is MISSING
    default: Any = ... if missing else None if shown.repeatable else field.default
    names = shown.names or (f"--{field.name.replace('_', '-')}",)
    if shown.argument:
        made: Any = typer.Argument(
            default, metavar=shown.metavar, help=shown.help, show_default=False, autocompletion=_subcommands
        )
    else:
        made = typer.Option(
            default,
            *names,
            metavar=shown.metavar,
            help=shown.help,
            rich_help_panel=_USUAL if usual else shown.group,
            min=shown.least,
            max=shown.most,
        )
    kind = _words_type(inner, shown)
    return inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=made, annotation=kind)


def _subcommands(ctx: typer.Context) -> list[str]:
    """Return the subcommands of a command with arguments of its own, which a shell offers where either may follow."""
    return ctx.command.list_commands(ctx) if isinstance(ctx.command, DefaultGroup) else []


def _words_type(inner: Any, shown: Option) -> Any:
    """Return the type of a value on the command line: a flag or a number if it is only that, otherwise a word."""
    members = set(get_args(inner) or (inner,))
    if shown.repeatable:
        return list[str] | None
    plain = next((kind for kind in (bool, int, float) if members <= {kind, NoneType}), str)
    return plain | None if NoneType in members else plain


def _filled(kind: type, given: dict[str, Any]) -> Any:
    values = ((field.name, shown.repeatable, given[field.name]) for field, _, shown in declared(kind))
    return kind(**{name: tuple(value or ()) if repeats else value for name, repeats, value in values})

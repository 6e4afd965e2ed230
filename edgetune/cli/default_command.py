"""A command with subcommands beside it: ``edgetune search TABLE`` searches, ``edgetune search evaluate`` evaluates."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import Any

from edgetune.cli.app import LightGroup
from edgetune.errors import InputError

_NEAR = 0.75
"""Likeness above which a word that names no file is taken for a misspelt subcommand."""


class DefaultGroup(LightGroup):
    """A group that is itself a command: its callback with its options and arguments.

    What follows is a subcommand where the first word names one, else it is for the group itself. A file that has the
    name of a subcommand is given as ``./NAME``.
    """

    allow_extra_args = False
    allow_interspersed_args = True

    def get_params(self, ctx: Any) -> list[Any]:
        """Return options and arguments; only the options where a subcommand asks which words come before its own."""
        found: list[Any] = super().get_params(ctx)
        return found if ctx.command is self else [each for each in found if each.param_type_name == "option"]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Leave a subcommand's words in ``ctx.args``; parse all others as the group's own.

        Raises:
            InputError: the first word is nearly a subcommand and is no file.
        """
        if args and args[0] in self.list_commands(ctx):
            ctx.args = args
            return args
        if args and not args[0].startswith("-"):
            near = get_close_matches(args[0], self.list_commands(ctx), n=1, cutoff=_NEAR)
            if near and not Path(args[0]).exists():
                raise InputError(
                    f"there is neither a command nor a file called {args[0]!r}", f"did you mean {near[0]}?"
                )
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

"""Plug-ins by name: one table of them per kind, and what is said when a name is not in it."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import TypeVar

from edgetune.errors import InputError

Plugin = TypeVar("Plugin")


def table_of(plugins: Sequence[type[Plugin]], *, kinds: str) -> dict[str, type[Plugin]]:
    """Return classes by their ``name``, in the order given.

    Args:
        plugins: Each has a ``name``.
        kinds: What they are, in the plural, e.g. ``strategies``.

    Raises:
        ValueError: two share a name.
    """
    table: dict[str, type[Plugin]] = {}
    for plugin in plugins:
        name: str = plugin.name  # type: ignore[attr-defined]
        if name in table:
            raise ValueError(f"two {kinds} are called {name!r}")
        table[name] = plugin
    return table


def find(table: Mapping[str, type[Plugin]], name: str, *, kind: str, also: Sequence[str] = ()) -> type[Plugin]:
    """Return the plug-in of this name.

    Args:
        table: Of ``table_of``.
        name: As somebody wrote it.
        kind: What it is, e.g. ``strategy``.
        also: Names that are understood elsewhere, for the hint.

    Raises:
        InputError: there is none; the hint names the nearest.
    """
    if name in table:
        return table[name]
    near = difflib.get_close_matches(name, table, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    raise InputError(f"there is no {kind} {name!r}", f"{hint}known: {', '.join([*table, *also])}")

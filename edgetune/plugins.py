"""Plug-ins by name: one table per kind, to which installed packages add their own.

    STRATEGIES: Registry[type[Strategy]] = Registry(
        "strategy", {"gmd": "edgetune.stages.search.strategies.gmd:Gmd"}, group="edgetune.strategies", contract=Strategy
    )

A row is the plug-in itself or where it is, ``"module:attribute"``, which is imported when the plug-in is first used. A
package outside adds a row by an entry point:

    [project.entry-points."edgetune.strategies"]
    mine = "my_package.my_strategy:Mine"

Its metadata is read when a name is looked up, its code when the plug-in is used. An error in that code is reported with
the names of the plug-in and the package, see ``plugin_error``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from functools import cache
from importlib import import_module
from inspect import get_annotations
from traceback import walk_tb
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, TypeVar, cast

from edgetune.choices import nearest
from edgetune.errors import EdgetuneError, InputError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints

Plugin = TypeVar("Plugin")
_loaded: dict[str, tuple[EntryPoint, object]] = {}
"""The plug-ins of packages that were loaded, by kind and name."""
GROUPS = tuple(f"edgetune.{each}" for each in ("strategies", "policies", "devices", "workloads", "figures", "reports"))
"""The groups of entry points, one for each kind of plug-in that a package can add."""


class Registry(MutableMapping[str, Plugin]):
    """The plug-ins of one kind: a mapping from their names, edgetune's own in their order first.

    Assigning to a name adds a plug-in and ``del`` removes it again, as a test does; a name is never taken twice.

    Args:
        kind: What a plug-in is, for messages, e.g. ``strategy``.
        rows: edgetune's own plug-ins by name, each as an object or as ``"module:attribute"``.
        group: The entry points of packages outside, e.g. ``edgetune.strategies``; empty: no other package adds any.
        prefix: What their names begin with where several tables share a group, e.g. ``interleave.``.
        contract: A class or protocol whose public members a plug-in from outside must have.
        also: Names that are understood elsewhere, for the hint of an unknown name.
    """

    def __init__(
        self,
        kind: str,
        rows: Mapping[str, Plugin | str],
        *,
        group: str = "",
        prefix: str = "",
        contract: type = object,
        also: Sequence[str] = (),
    ) -> None:
        self.kind, self.group, self._prefix, self._contract, self._also = kind, group, prefix, contract, also
        self._rows: dict[str, Plugin | str] = dict(rows)

    def find(self, name: str) -> Plugin:
        """Return the plug-in of this name.

        Raises:
            InputError: there is none, and the hint names the nearest; its package is broken; or a package adds a name
                that is taken.
        """
        if name in self:
            return self[name]
        raise InputError(f"there is no {self.kind} {name!r}", nearest(name, [*self, *self._also]))

    def __getitem__(self, name: str) -> Plugin:
        row = self._rows.get(name)
        if row is None:
            return self._load(name, self._outside()[name])
        if isinstance(row, str):
            module, _, attribute = row.partition(":")
            row = self._rows[name] = cast("Plugin", getattr(import_module(module), attribute))
        return row

    def __iter__(self) -> Iterator[str]:
        yield from [*self._rows, *self._outside()]

    def __len__(self) -> int:
        return len(self._rows) + len(self._outside())

    def __contains__(self, name: object) -> bool:
        outside = self._outside()
        return name in self._rows or name in outside

    def __setitem__(self, name: str, plugin: Plugin | str) -> None:
        if name in self:
            raise ValueError(f"there is a {self.kind} {name!r} already")
        self._rows[name] = plugin

    def __delitem__(self, name: str) -> None:
        del self._rows[name]

    def _outside(self) -> dict[str, EntryPoint]:
        """Return the entry points of other packages by the plug-in's name.

        Raises:
            InputError: one has a name that is taken.
        """
        found: dict[str, EntryPoint] = {}
        for point in _entry_points(self.group) if self.group else ():
            if not point.name.startswith(self._prefix):
                continue
            name = point.name.removeprefix(self._prefix)
            if name in self._rows or name in found:
                other = _package(found[name]) if name in found else "edgetune"
                raise InputError(
                    f"the package {_package(point)} adds a {self.kind} {name!r}, which {other} has already",
                    f"uninstall {_package(point)}, or a release of it with another name",
                )
            found[name] = point
        return found

    def _load(self, name: str, point: EntryPoint) -> Plugin:
        """Return the plug-in of an entry point.

        Raises:
            InputError: it cannot be imported, or is not what its group promises.
        """
        try:
            plugin = point.load()
        except (Exception, SystemExit) as error:
            why = f"{type(error).__name__}: {error}".splitlines()[0]
        else:
            members = {name for base in self._contract.__mro__ for name in (*base.__dict__, *get_annotations(base))}
            missing = sorted(each for each in members if not each.startswith("_") and not hasattr(plugin, each))
            named = getattr(plugin, "name", name)
            if not missing and named == name:
                _loaded[f"{self.kind} {name!r}"] = (point, plugin)
                return cast("Plugin", plugin)
            why = f"it has no {', '.join(missing)}" if missing else f"its name is {named!r}"
        raise InputError(
            f"the {self.kind} {name!r} of the package {_package(point)} cannot be used: {why}",
            f"repair the package {_package(point)}, or uninstall it",
        )


def installed() -> list[tuple[str, str, str]]:
    """Return the group, name and package of every plug-in of an installed package, without importing any."""
    return [(group, point.name, _package(point)) for group in GROUPS for point in sorted(_entry_points(group))]


def _entry_points(group: str) -> EntryPoints:
    """Return the entry points of a group."""
    return _entry_points_on(tuple(sys.path), group)


@cache
def _entry_points_on(_path: tuple[str, ...], group: str) -> EntryPoints:
    """Return the entry points of a group, found once for a search path: that reads a file of every installed package.

    The module that finds them takes 4 MB, which a process that runs networks can spare.

    Raises:
        InputError: those of a package are damaged.
    """
    from importlib.metadata import distributions, entry_points

    unreadable = TypeError, ValueError
    try:
        return entry_points(group=group)
    except unreadable:
        for each in distributions():
            try:
                _ = each.entry_points
            except unreadable as error:
                message = f"the entry points of the package {each.name} cannot be read: {error}"
                raise InputError(message, f"repair the package {each.name}, or uninstall it") from None
        raise


def plugin_error(error: BaseException) -> EdgetuneError | None:
    """Return an error that names the plug-in whose code raised ``error``; ``None`` for the code of edgetune."""
    frames = [] if isinstance(error, EdgetuneError) else [frame for frame, _ in walk_tb(error.__traceback__)]
    for frame in reversed(frames):
        module = str(frame.f_globals.get("__name__")).partition(".")[0]
        found = {words: row for words, row in _loaded.items() if row[0].module.partition(".")[0] == module}
        if found:
            own = [words for words, (_, plugin) in found.items() if {each.f_code for each in frames} & _codes(plugin)]
            package = _package(next(iter(found.values()))[0])
            return EdgetuneError(
                f"the {' or the '.join(own or found)} of the package {package} failed: {type(error).__name__}: {error}",
                f"report it to the authors of {package}, with what --verbose prints; or uninstall it",
            )
    return None


def _codes(plugin: object) -> set[CodeType]:
    """Return the code of a plug-in that is a function, and of its attributes that are."""
    functions = (plugin, *(getattr(plugin, name, None) for name in dir(plugin) if not name.startswith("__")))
    return {each.__code__ for each in functions if isinstance(each, FunctionType)}


def _package(point: EntryPoint) -> str:
    """Return the name of the package that has an entry point."""
    return point.dist.name if point.dist is not None else point.value.partition(":")[0]

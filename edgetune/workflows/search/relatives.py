"""``--like``: profiles of other networks on this device, as prior knowledge of a search.

A relative is a network and task of a profile. One that says nothing about the points to choose from (few rows, other
knobs) is left out, and the reason is reported.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from edgetune.artifacts import io
from edgetune.artifacts.files import name_of
from edgetune.artifacts.header import DataWarning
from edgetune.artifacts.mode import KNOBS, Mode
from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import Profile, ProfileRow
from edgetune.artifacts.repeats import one_per_point
from edgetune.errors import InputError
from edgetune.stages.search.model.hypotheses import MOST_RELATED
from edgetune.stages.search.space import Space, offered_space, without_network
from edgetune.stages.search.strategy import LEAST_POINTS
from edgetune.units import counted
from edgetune.workflows.search.candidates import Candidates
from edgetune.workflows.search.options import SearchOptions

_DEVICE = ("device", "board", "module", "gpu", "cpu")
"""Conditions that tell two devices apart."""
_LISTED = 8
"""Most files that a message names."""

Network: TypeAlias = tuple[str, str]
"""A workload and its task."""


@dataclass(frozen=True, slots=True)
class Relatives:
    """The rows of relatives, one per point, a sentence on their files, and warnings."""

    rows: tuple[ProfileRow, ...] = ()
    described: str = ""
    data_warnings: tuple[DataWarning, ...] = ()


def read_relatives(candidates: Candidates, problem: Problem, opts: SearchOptions) -> Relatives:
    """Return the rows of ``--like`` that say something about the points to choose from.

    Raises:
        InputError: a file is unreadable, was measured on another device, or has rows of the searched network only.
    """
    if not opts.like:
        return Relatives()
    if "auto" in opts.like and not Path("auto").exists():
        raise InputError("--like auto was removed", "name each profile: --like FILE, repeated for several")
    space = offered_space(problem, candidates.points)
    spaces = [space] if space.background is None else [space, Space.of(map(space.partner, space.points))]
    known = {os.path.realpath(each) for each in (*opts.sources, opts.known, opts.points) if each}
    rows, used, left_out, versions = list[ProfileRow](), list[str](), list[str](), dict[Network, Any]()
    files: dict[str, str] = {}
    for name in opts.like:
        files.setdefault(os.path.realpath(name), name)
    profiles = [(path, name_of(file), io.read_profile(file)) for path, file in files.items()]
    for path, name, profile in profiles:
        _check_device(candidates, profile, name)
        networks = _by_network(profile)
        own = [network for network in networks if _is_searched(candidates, profile, *network)]
        if own and len(own) == len(networks):
            message = f"--like: {name} has only rows of {_names(own)}, which is the network to search for"
            raise InputError(message, f"--known {name} uses them as measurements")
        if own and path not in known:
            left_out.append(f"{_names(own)} of {name} (searched for; --known {name} uses it)")
        for network in (each for each in networks if each not in own):
            try:
                found = _aligned(spaces, networks[network])
            except InputError as error:
                left_out.append(f"{_names([network])} of {name} ({error.message})")
                continue
            version = _version(profile, network[0])
            if versions.setdefault(network, version) != version:  # another version of a network is another network
                found = [replace(row, workload=f"{row.workload} of {name}") for row in found]
            rows += found
            used.append(f"{_names([network])} ({counted(len(found), 'point')} of {name})")
    suspect = [
        replace(warning, advice=f"{name}: {warning.advice}")
        for _, name, profile in profiles for warning in profile.header.warnings if warning.code == "unit-suspect"
    ]  # fmt: skip
    told = DataWarning("relatives-left-out", _listed(left_out), {"count": len(left_out)})
    described = f"relatives: {_listed(used)}" if used else "no relatives are used"
    if len(used) > MOST_RELATED:
        described += f"; each step uses those {MOST_RELATED} of the {len(used)} that best fit the measurements"
    return Relatives(one_per_point(rows).rows, described, (*suspect, *([told] if left_out else [])))


def _by_network(profile: Profile) -> dict[Network, list[ProfileRow]]:
    """Return the measured rows of each network."""
    found: dict[Network, list[ProfileRow]] = {}
    for row in profile.rows:
        if row.status == "ok":
            found.setdefault((row.workload, row.task), []).append(row)
    return found


def _check_device(candidates: Candidates, profile: Profile, name: str) -> None:
    """Check that no other device measured a profile, as far as its conditions tell.

    Raises:
        InputError: another device measured it.
    """
    for condition in _DEVICE:
        here, there = candidates.conditions.get(condition), profile.header.conditions.get(condition)
        if None not in (here, there) and here != there:
            raise InputError(f"{name} was measured on {there}, not on {here}", "give profiles of this device")


def _is_searched(candidates: Candidates, profile: Profile, workload: str, task: str) -> bool:
    """Return whether a network is one to search for, in the same version where both versions are known."""
    if not any((point.workload, point.task) == (workload, task) for point in candidates.points):
        return False
    told = (candidates.inputs.get(role, {}) for role in ("workload", "background"))
    versions = {_version_in(each) for each in told if each.get("name") == workload} - {None}
    version = _version(profile, workload)
    return not versions or version is None or version in versions


def _version(profile: Profile, workload: str) -> tuple[str, ...] | None:
    """Return the version of a network in a profile; ``None`` if it is unknown."""
    told = profile.header.inputs.get("workload", {})
    return _version_in({**profile.header.options, **told}) if told.get("name") == workload else None


def _version_in(told: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return hash, dimensions and precision of a network; ``None`` without a hash."""
    if told.get("sha256") is None:
        return None
    precision = told.get("precision")
    return str(told["sha256"]), str(told.get("dimensions") or ""), "" if precision in (None, "fp32") else str(precision)


def _aligned(spaces: Sequence[Space], rows: Sequence[ProfileRow]) -> Sequence[ProfileRow]:
    """Return the rows with the names of a space's modes, and with their values of the knobs that are not varied.

    Args:
        spaces: The points of each network to search for.
        rows: The rows of a relative.

    Raises:
        InputError: the rows are too few or vary other knobs, so that they say nothing about any of the points.
    """
    points = {without_network(row.point) for row in rows}
    if len(points) < LEAST_POINTS:
        raise InputError(f"{counted(len(points), 'point')}, and {LEAST_POINTS} are needed", "")
    theirs = Space.of(points).names
    space = next((space for space in spaces if space.names == theirs), None)
    if space is None:
        if any({without_network(point) for point in space.points} <= points for space in spaces):
            return rows
        raise InputError(f"it varies {', '.join(theirs)}, the search {', '.join(spaces[0].names) or 'nothing'}", "")
    fixed = {knob: getattr(space.points[0].mode, knob) for knob in KNOBS if knob not in theirs}
    names = {_knobs(point.mode): point.mode.power_mode for point in space.points}
    rows = [replace(row, **fixed) for row in rows]
    return rows if space.named else [replace(row, power_mode=names.get(_knobs(row.mode))) for row in rows]


def _knobs(mode: Mode) -> tuple[Any, ...]:
    return tuple(getattr(mode, knob) for knob in KNOBS)


def _names(networks: Iterable[Network]) -> str:
    return " and ".join(f"{workload} {task}" for workload, task in networks)


def _listed(texts: Sequence[str]) -> str:
    more = f" and {len(texts) - _LISTED} more" if len(texts) > _LISTED else ""
    return f"{', '.join(texts[:_LISTED])}{more}"

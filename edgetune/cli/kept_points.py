"""Points measured earlier, and ``--points FILE``: what a search measured is kept, whatever became of the search.

A live search that found nothing, or was stopped, has still spent minutes of a board. Its rows are written as they are
measured, and the next search with the same file, or with ``--known FILE``, has them for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from edgetune.errors import EdgetuneError, InputError

if TYPE_CHECKING:
    from edgetune.artifacts.header import Caution
    from edgetune.artifacts.profile import Point, Profile, ProfileRow
    from edgetune.cli.offer import Offer
    from edgetune.cli.screen import Screen


@dataclass(frozen=True, slots=True)
class Known:
    """Rows measured earlier, one per point, and what there is to say about them."""

    rows: tuple[ProfileRow, ...] = ()
    cautions: tuple[Caution, ...] = ()


def read_known(offer: Offer, known: str | None, points: str | None) -> Known:
    """Return what was measured earlier: the rows of ``--known``, and those that ``--points`` has already.

    Raises:
        InputError: unreadable, or measured on another device.
    """
    from edgetune.artifacts import io
    from edgetune.artifacts.header import Caution
    from edgetune.devices.recorded import RecordedTable

    names = list(dict.fromkeys(name for name in (known, _existing(points)) if name is not None))
    profiles = [io.read_profile(name) for name in names]
    for name, profile in zip(names, profiles, strict=True):
        _refuse_other_device(offer, profile, name)
        if name == points:
            _refuse_other_networks(offer, profile, name)
    rows = [row for profile in profiles for row in profile.rows]
    if not rows:
        return Known()
    table = RecordedTable.of(rows, name=" and ".join(names))
    cautions = table.cautions
    if not {row.point for row in table.rows} & set(offer.points):
        advice = f"none of the {len(table.rows)} points of {' and '.join(names)} is offered here"
        cautions = (*cautions, Caution("known-unused", advice))
    return Known(table.rows, cautions)


def read_relatives(offer: Offer, names: Sequence[str]) -> tuple[ProfileRow, ...]:
    """Return the rows of ``--like``, one per point: other networks on this device, a first guess for this one.

    Raises:
        InputError: unreadable, or measured on another device.
    """
    from edgetune.artifacts import io
    from edgetune.artifacts.repeats import one_per_point

    profiles = [io.read_profile(name) for name in names]
    for name, profile in zip(names, profiles, strict=True):
        _refuse_other_device(offer, profile, name)
    return one_per_point(row for profile in profiles for row in profile.rows).rows


def _existing(path: str | None) -> str | None:
    return path if path is not None and Path(path).is_file() else None


def _refuse_other_device(offer: Offer, profile: Profile, name: str) -> None:
    """Refuse rows of another device, or of another version of the network: they would pass for measurements here."""
    here, there = offer.conditions.get("device"), profile.header.conditions.get("device")
    if here is not None and there is not None and here != there:
        raise InputError(f"{name} was measured on {there}, not on {here}", "give points of this device")
    ours, theirs = offer.inputs.get("workload", {}), profile.header.inputs.get("workload", {})
    hashes = {each.get("sha256") for each in (ours, theirs)}
    if ours.get("name") == theirs.get("name") and None not in hashes and len(hashes) > 1:
        raise InputError(f"{name} is of another {ours['name']}: the files differ", "measure this one afresh")


def _refuse_other_networks(offer: Offer, profile: Profile, name: str) -> None:
    """Refuse to add rows to a profile of other networks or tasks: it could not be searched any more."""
    here = {(point.workload, point.task) for point in offer.points}
    there = {(row.workload, row.task) for row in profile.rows}
    if not there <= here:
        listed = ", ".join(f"{workload} {task}" for workload, task in sorted(there - here))
        raise InputError(f"--points: {name} holds {listed}", "name another file; --known reads any")


def check_points(path: str) -> None:
    """Refuse a file for the points that cannot be written, or that holds something else than points.

    Raises:
        InputError: it is standard output, cannot be made, or is no profile.
    """
    from edgetune.artifacts import io
    from edgetune.cli.output import Target

    if path == "-":
        raise InputError("standard output carries the plan, not the points", "name a file with --points")
    Target(Path(path)).check()
    if Path(path).is_file():
        try:
            io.read_profile(path)
        except InputError as error:
            raise InputError(
                f"{path} exists, and what it holds would be lost: {error.message}", "name another file"
            ) from None


@contextmanager
def keeping(offer: Offer, path: str | None, screen: Screen) -> Iterator[Callable[[Point], ProfileRow]]:
    """Give the offer's ``measure``, and write what it returned to ``path``.

    A measurement that took a second or longer is written at once, so that not even SIGKILL loses it; the others when
    the context ends, however it ends.

    Args:
        offer: Measures.
        path: Where to; ``None`` keeps nothing. Rows that it has already stay, before the new ones.
        screen: Told where the points of an interrupted search are.
    """
    if path is None:
        yield offer.measure
        return
    from edgetune.artifacts import io

    before = io.read_profile(path) if Path(path).is_file() else None
    rows: list[ProfileRow] = []

    def measure(point: Point) -> ProfileRow:
        row = offer.measure(point)
        rows.append(row)
        if (row.duration_s or 0.0) >= 1.0 and not offer.free:
            _write(offer, rows, before, path)
        return row

    try:
        yield measure
    except BaseException as error:
        _write(offer, rows, before, path)
        if not isinstance(error, EdgetuneError) and rows:
            measured = "point measured is" if len(rows) == 1 else f"{len(rows)} points measured are"
            screen.say(f"stopped; the {measured} in {path}: the same command goes on from there")
        raise
    _write(offer, rows, before, path)
    screen.detail(f"wrote {path}")


def _write(offer: Offer, rows: Sequence[ProfileRow], before: Profile | None, path: str) -> None:
    """Write the rows as a profile; without any there is nothing to keep."""
    from edgetune.artifacts import io
    from edgetune.artifacts.header import Header
    from edgetune.artifacts.profile import KIND, VERSION, Profile

    if not rows:
        return
    earlier = () if before is None else before.rows
    simulated = offer.simulated or (before is not None and before.header.simulated)
    header = Header.new(
        KIND, VERSION, inputs=offer.inputs, conditions={**offer.conditions, "simulated": simulated},
        warnings=offer.warnings,
    )  # fmt: skip
    io.write(Profile(header, (*earlier, *rows)), path)

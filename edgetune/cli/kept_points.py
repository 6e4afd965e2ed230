"""``--points FILE``: what a search measured is kept as a profile, whatever became of the search.

A live search that found nothing, or was stopped, has still spent minutes of a board. Its rows are written when it
ends, in any way but SIGKILL, and ``--known FILE`` gives them to the next search for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from edgetune.errors import EdgetuneError, InputError

if TYPE_CHECKING:
    from edgetune.artifacts.profile import Point, Profile, ProfileRow
    from edgetune.cli.offer import Offer
    from edgetune.cli.screen import Screen


def check_points(path: str, known: str | None) -> None:
    """Refuse a file for the points that cannot be written, or that holds something to lose.

    Raises:
        InputError: it is standard output, cannot be made, or exists and is not the file of ``--known``.
    """
    from edgetune.cli.output import Target

    if path == "-":
        raise InputError("standard output carries the plan, not the points", "name a file with --points")
    Target(Path(path)).check()
    if Path(path).is_file() and not _same(path, known):
        hint = f"--known {path} uses and keeps them, or name another file"
        raise InputError(f"{path} exists, and what it holds would be lost", hint)


@contextmanager
def keeping(
    offer: Offer, path: str | None, known: str | None, known_profile: Profile | None, screen: Screen
) -> Iterator[Callable[[Point], ProfileRow]]:
    """Give the offer's ``measure``, and write what it returned to ``path`` when the context ends, however it ends.

    Args:
        offer: Measures.
        path: Where to; ``None`` keeps nothing.
        known: The file of ``--known``; when it is ``path`` itself, its rows stay, before the new ones.
        known_profile: What that file holds.
        screen: Told where the points of an interrupted search are.
    """
    if path is None:
        yield offer.measure
        return
    rows: list[ProfileRow] = []

    def measure(point: Point) -> ProfileRow:
        rows.append(offer.measure(point))
        return rows[-1]

    before = known_profile if known_profile is not None and _same(path, known) else None
    try:
        yield measure
    except BaseException as error:
        _write(offer, rows, before, path)
        if not isinstance(error, EdgetuneError) and rows:
            screen.say(f"stopped; the {len(rows)} points measured are in {path}: --known {path} uses them")
        raise
    _write(offer, rows, before, path)
    screen.detail(f"wrote {path}")


def _same(path: str, known: str | None) -> bool:
    return known is not None and known != "-" and Path(path).resolve() == Path(known).resolve()


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

"""``edgetune search MODEL --device fleet:ADDRESS``: several points at once, one on each board."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any

from edgetune.artifacts.mode import SETTINGS
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.artifacts.repeats import one_per_point
from edgetune.artifacts.yaml_document import plain
from edgetune.errors import InputError
from edgetune.stages.profiling.boards import scaled
from edgetune.stages.profiling.queue import Visit
from edgetune.stages.search.problem import PAIRS
from edgetune.workflows.fleet.client import connect
from edgetune.workflows.fleet.profile import asked_of, discard, sweep_of
from edgetune.workflows.fleet.sweep import FleetSweep
from edgetune.workflows.fleet.wire import parse_address
from edgetune.workflows.profile.options import ProfileCommandOptions
from edgetune.workflows.reporting import Reporter
from edgetune.workflows.search.candidates import Candidates
from edgetune.workflows.search.options import SearchOptions


@contextmanager
def fleet_candidates(opts: SearchOptions, task: str | None, note: Callable[[str], None]) -> Iterator[Candidates]:
    """Open the points of a network on all boards of a fleet; the anchors that each board measures are known points.

    Figures are those of the common board; the journals of the boards keep the measured ones.

    Raises:
        InputError: what is asked for needs one board.
        DeviceError: see ``connect`` and ``FleetSweep.open``.
    """
    if opts.kind in PAIRS or opts.root is not None:
        raise InputError("two networks and --root are for one board", "name a board with --device")
    shared = {each.name for each in fields(ProfileCommandOptions)} & {each.name for each in fields(opts)}
    given: dict[str, Any] = {name: getattr(opts, name) for name in shared - {"output", "force"}}
    words = ProfileCommandOptions(**{**given, "task": task or opts.task, "model": opts.sources[0]})
    with connect(parse_address(str(opts.device)), note) as fleet:
        sweep = sweep_of(fleet, words, asked_of(words), Reporter())
        sweep.note = note
        header = sweep.open()
        found = _OnFleet(sweep)
        known = found.begin()
        boards = sum(not each.out for each in sweep.boards.values())
        try:
            yield Candidates(
                points=sweep.points,
                measure=found.measure,
                kind=opts.kind or sweep.points[0].task,
                described=f"{sweep.points[0].workload} on {len(sweep.boards)} boards",
                simulated=header.simulated,
                free=False,
                inputs={key: value for key, value in header.inputs.items() if key != "request"},
                conditions={**header.conditions, "boards": sorted(sweep.boards)},
                warnings=header.warnings,
                known=known,
                at_once=boards,
                on_asked=found.ask,
            )
        except BaseException:
            sweep.stop()
            raise
        discard(fleet, sweep)


class _OnFleet:
    """Measures points on whichever board is free, and gives the figures of the common board."""

    def __init__(self, sweep: FleetSweep) -> None:
        self._sweep = sweep
        self._factors: dict[str, Any] = {}
        self._visits: Counter[Point] = Counter()
        self._asked: dict[Point, Visit] = {}

    def begin(self) -> list[ProfileRow]:
        """Measure the anchors; return them, and what the journals have besides."""
        rows = self._sweep.begin()
        self._factors = plain(self._sweep.factors())
        self._visits.update(row.point for row in rows)
        for board, factors in self._sweep.factors().items():
            self._sweep.note(factors.describe(board))
        common = [scaled(row, self._factors.get(str(row.board), {})) for row in rows if row.status == "ok"]
        return [replace(row, round=None) for row in one_per_point(common).rows]

    def ask(self, points: Sequence[Point]) -> None:
        """Have the boards begin to measure these points."""
        for point in points:
            number = self._visits[point]
            self._visits[point] += 1
            self._asked[point] = Visit(point, number + 1 if number else None)
        self._sweep.add([self._asked[point] for point in points])

    def measure(self, point: Point) -> ProfileRow:
        """Return the row of a point, with the settings of the point only, as a search knows it."""
        if point not in self._asked:
            self.ask([point])
        row = self._sweep.wait_for(self._asked.pop(point))
        row = scaled(row, self._factors.get(str(row.board), {}))
        return replace(row, **{name: getattr(point.mode, name) for name in SETTINGS}, round=None)

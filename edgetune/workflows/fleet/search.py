"""``edgetune search MODEL --device fleet:ADDRESS``: several points at once, one on each board.

``edgetune roofline --device fleet:ADDRESS``: the peaks of every board, at the same time.
"""

import base64
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from edgetune.artifacts.io import from_bytes, write
from edgetune.artifacts.mode import SETTINGS
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.artifacts.repeats import one_per_point
from edgetune.artifacts.roofline import Roof, Roofline
from edgetune.artifacts.yaml_document import plain
from edgetune.errors import InputError, PartialError
from edgetune.stages.profiling.boards import scaled
from edgetune.stages.profiling.queue import Visit
from edgetune.stages.search.problem import PAIRS
from edgetune.stats import median
from edgetune.units import format_si
from edgetune.workflows.fleet.client import connect, none_joined
from edgetune.workflows.fleet.profile import asked_of, discard, sweep_of
from edgetune.workflows.fleet.sweep import FleetSweep
from edgetune.workflows.fleet.wire import parse_address
from edgetune.workflows.output import Target, wrote
from edgetune.workflows.profile.options import ProfileCommandOptions
from edgetune.workflows.reporting import Reporter, SimulationLabel
from edgetune.workflows.roofline.options import RooflineOptions
from edgetune.workflows.search.candidates import Candidates
from edgetune.workflows.search.options import SearchOptions


@contextmanager
def fleet_candidates(
    opts: SearchOptions, task: str | None, note: Callable[[str], None], *, dry_run: bool
) -> Iterator[Candidates]:
    """Open the points of a network on all boards of a fleet; the anchors that each board measures are known points.

    Figures are those of the common board; the journals of the boards keep the measured ones.

    Raises:
        InputError: what is asked for needs one board.
        DeviceError: see ``connect`` and ``FleetSweep.open``.
    """
    if opts.kind in PAIRS or opts.soak is not None or opts.root is not None:
        raise InputError("two networks, --soak and --root are for one board", "name a board with --device")
    shared = {each.name for each in fields(ProfileCommandOptions)} & {each.name for each in fields(opts)}
    given: dict[str, Any] = {name: getattr(opts, name) for name in shared - {"output", "force"}}
    words = ProfileCommandOptions(**{**given, "task": task or opts.task, "model": opts.sources[0]})
    with connect(parse_address(str(opts.device)), note) as fleet:
        sweep = sweep_of(fleet, words, asked_of(words), Reporter(), estimate=dry_run)
        sweep.note = note
        header = sweep.open()
        found = _OnFleet(sweep)
        known = [] if dry_run else found.begin()
        boards = sum(not each.out for each in sweep.boards.values())
        cost = None if sweep.estimate is None else sweep.estimate.times(1 / boards)
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
                expect=None if cost is None else lambda: cost,
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


_TOLD = ("modes", "precision", "quick", "seed")


@dataclass(frozen=True, slots=True)
class BoardPeaks:
    """The peaks of one board.

    Args:
        board: Its name.
        roof: The roof of its first mode.
        compute, memory: Its peaks relative to the median of all boards.
    """

    board: str
    roof: Roof
    compute: float
    memory: float

    def __str__(self) -> str:
        """Return one line."""
        roof = self.roof
        peaks = f"{format_si(roof.flops_per_s, 'FLOP/s')} (x {self.compute:.3f}), {format_si(roof.bytes_per_s, 'B/s')}"
        return f"board {self.board}: {roof.precision} {peaks} (x {self.memory:.3f})"

    def plain(self) -> dict[str, Any]:
        """Return the figures for machines."""
        roof = self.roof
        figures = {"flops_per_s": roof.flops_per_s, "bytes_per_s": roof.bytes_per_s}
        return {
            "board": self.board,
            "precision": roof.precision,
            **figures,
            "compute": self.compute,
            "memory": self.memory,
        }


def peaks_of_boards(opts: RooflineOptions, reporter: Reporter, *, dry_run: bool = False) -> list[BoardPeaks]:
    """Measure the peaks of every board, and write a roofline of each beside ``-o``: peaks-BOARD.yaml.

    Raises:
        InputError: a network or another option is for one board.
        DeviceError: no scheduler, or no board has joined.
        PartialError: some boards failed.
    """
    others = [each.name for each in fields(opts) if each.name not in (*_TOLD, "device", "output", "force")]
    given = [f"--{name.replace('_', '-')}" for name in others if getattr(opts, name) != _default(opts, name)]
    if given or dry_run:
        what = "--dry-run" if dry_run else given[0].replace("--model", "a network")
        raise InputError(
            f"{what}: a fleet measures peaks alone", "--peaks FILE places a network beneath those of a board"
        )
    told = {name: value for name in _TOLD if (value := getattr(opts, name)) != _default(opts, name)}
    with connect(parse_address(str(opts.device)), reporter.info) as fleet:
        boards = sorted(fleet.present())
        if not boards:
            raise none_joined()
        targets = {board: _target(opts.output, board) for board in boards}
        for target in targets.values():
            target.check("roofline")
        reporter.info(f"measuring peaks of {len(boards)} boards: {', '.join(boards)}")
        for board in boards:
            fleet.ask(board, {"do": "peaks", "options": told, "about": "peaks"})
        found: dict[str, Roofline] = {}
        failed: list[str] = []
        with reporter.bar("measuring kernels", len(boards)) as advance:
            while len(found) + len(failed) < len(boards):
                for reply in fleet.replies(1.0):
                    if "error" in reply.value:
                        failed.append(f"board {reply.board}: {reply.value['error']}")
                    else:
                        found[reply.board] = _roofline(reply.board, reply.value)
                        if opts.output is not None:
                            write(found[reply.board], str(targets[reply.board].path))
                            reporter.info(wrote(str(targets[reply.board].path)))
                    if advance is not None:
                        advance(1, reply.board)
    SimulationLabel(any(each.header.simulated for each in found.values()), reporter).announce()
    for sentence in failed:
        reporter.info(sentence)
    if not found:
        raise PartialError(failed[0], "see edgetune fleet show")
    return _compared(found)


def _compared(found: Mapping[str, Roofline]) -> list[BoardPeaks]:
    roofs = {board: each.roofs[0] for board, each in sorted(found.items())}
    compute, memory = (
        median([getattr(roof, what) for roof in roofs.values()]) for what in ("flops_per_s", "bytes_per_s")
    )
    return [
        BoardPeaks(board, roof, roof.flops_per_s / compute, roof.bytes_per_s / memory) for board, roof in roofs.items()
    ]


def _roofline(board: str, value: Mapping[str, Any]) -> Roofline:
    return from_bytes(base64.b64decode(value["roofline"]), kind=Roofline, name=board)


def _target(output: str | None, board: str) -> Target:
    if output is None:
        return Target(None, discards=True)
    path = Path(output)
    return Target(path.with_stem(f"{path.stem}-{re.sub(r'[^A-Za-z0-9]+', '-', board)}"))


def _default(opts: RooflineOptions, name: str) -> Any:
    return next(each.default for each in fields(opts) if each.name == name)

"""``edgetune profile --device fleet:ADDRESS``: one sweep over all boards that have joined.

``edgetune search MODEL --device fleet:ADDRESS``: several points at once, one on each board.
"""

import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from edgetune.artifacts.files import file_hash
from edgetune.artifacts.header import Header
from edgetune.artifacts.io import read_profile
from edgetune.artifacts.mode import SETTINGS
from edgetune.artifacts.profile import Point, Profile, ProfileRow
from edgetune.artifacts.repeats import first_difference, one_per_point
from edgetune.artifacts.yaml_document import plain
from edgetune.errors import DeviceError, InputError
from edgetune.stages.profiling.boards import scaled, with_boards
from edgetune.stages.profiling.queue import Visit
from edgetune.stages.profiling.sweep import SweepProgress
from edgetune.stages.profiling.sweep_journal import grown, missing_points, points_sha256
from edgetune.stages.search.problem import PAIRS
from edgetune.units import parse_share
from edgetune.version import __version__
from edgetune.workflows.fleet.client import Fleet, LostSchedulerError, attempt_of, connect
from edgetune.workflows.fleet.sweep import GONE_S, FleetSweep, whole
from edgetune.workflows.fleet.task import BESIDE, FILES
from edgetune.workflows.fleet.wire import FleetAddress, parse_address
from edgetune.workflows.output import Target, choose_target
from edgetune.workflows.parse_options import profile_options
from edgetune.workflows.profile.options import ConvergenceOptions, ProfileCommandOptions
from edgetune.workflows.profile.profile import unfinished
from edgetune.workflows.reporting import OnProgress, Reporter, SimulationLabel, reporting_saved
from edgetune.workflows.search.candidates import Candidates
from edgetune.workflows.search.options import SearchOptions
from edgetune.workloads.model_storage import check_external
from edgetune.workloads.onnx_file import parse_model
from edgetune.workloads.resolve import names_path, resolve

_OWN = ("device", "root", "output", "fresh", "force", "shard", "anchors", "board", "board_tolerance")
"""Options that the boards are not told."""
_DISCARD_S = 60.0
"""How long boards may take to discard their journals; one that is away keeps its own."""
_EVERY_S = 0.5
"""Shortest time between two reports of all boards."""
_AGAIN_S = 600.0
"""How long a lost scheduler is waited for."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of every board.

    Args:
        options: The options that are not their defaults.
        files: Name and SHA-256 of each file, by its option; of files with weights, by ``task.BESIDE`` and their place.
        paths: Where a file is here, by its SHA-256.
    """

    options: Mapping[str, Any]
    files: Mapping[str, tuple[str, str]]
    paths: Mapping[str, Path]

    @property
    def request(self) -> dict[str, Any]:
        """What every request has."""
        text = json.dumps([__version__, self.options, self.files], sort_keys=True)
        sweep_id = hashlib.sha256(text.encode()).hexdigest()[:24]
        return {"options": self.options, "files": self.files, "sweep": sweep_id}


def profile(opts: ProfileCommandOptions, reporter: Reporter) -> tuple[Profile, Target]:
    """Measure every point that is missing in the file on the boards, and write the table; see ``profile.profile``.

    Raises:
        InputError: an option is invalid, the boards are of two kinds, or the file has other content.
        DeviceError: no scheduler, no board, or none that can measure this.
        PartialError: no board is left; the boards' journals have what they measured.
    """
    asked, address = asked_of(opts), parse_address(opts.device)
    kept = "the boards keep what they have measured, and the same command goes on"
    with reporting_saved(reporter, lambda: kept):
        patience_s = 0.0
        for fleet in connected(address, reporter):
            try:
                return _measure(fleet, opts, asked, reporter, patience_s)
            except LostSchedulerError as error:
                reporter.info(f"note: {error.message}; waiting for it")
                patience_s = GONE_S  # its boards look for it, too
        raise DeviceError(f"the scheduler at {address.url} has not come back", f"start it again; {kept}")


def connected(address: FleetAddress, reporter: Reporter) -> Iterator[Fleet]:
    """Yield a connection, and again one as often as the caller has lost its scheduler.

    Raises:
        DeviceError: none answers at first, or for ``_AGAIN_S`` after that.
    """
    give_up_s: float | None = None
    while True:
        try:
            with connect(address, reporter.info) as fleet:
                yield fleet
            give_up_s = time.monotonic() + _AGAIN_S
        except DeviceError:
            if give_up_s is None or time.monotonic() > give_up_s:
                raise
            reporter.detail(f"no scheduler answers at {address.url}")


def asked_of(opts: ProfileCommandOptions) -> Asked:
    """Return what is asked of every board.

    Raises:
        InputError: an option is invalid, or a file is missing.
    """
    profile_options(opts)
    if opts.shard is not None or opts.root is not None or "max" in str(opts.batch_sizes):
        raise InputError("--shard, --root and --batch-sizes max are for one board", "leave them out")
    training = [each.name for each in fields(ConvergenceOptions)]
    given: dict[str, Any] = {
        each.name: list(value) if isinstance(value := getattr(opts, each.name), tuple) else value
        for each in fields(opts)
        if each.name not in (*_OWN, *training) and getattr(opts, each.name) != each.default
    }
    files, paths = {}, {}
    for name in FILES:
        path = given.get(name)
        if path is None or (name == "model" and not names_path(path)):
            continue
        if not Path(path).is_file():
            resolve(path)  # says what is wrong with it
        sha256 = file_hash(Path(path)).hexdigest()
        files[name], paths[sha256] = (Path(path).name, sha256), Path(path)
        del given[name]
        for place, weights in _weights(Path(path)) if name == "model" else ():
            sha256 = file_hash(weights).hexdigest()
            files[BESIDE + place], paths[sha256] = (weights.name, sha256), weights
    return Asked(given, files, paths)


def _weights(model: Path) -> list[tuple[str, Path]]:
    """Return the files with weights of an ONNX model, each with its place relative to the model.

    Raises:
        InputError: the model cannot be read, or a file is missing or lies elsewhere.
    """
    if model.suffix.lower() != ".onnx":
        return []
    folder = model.parent.resolve()
    found = check_external(parse_model(model), model.parent)
    return [(each.relative_to(folder).as_posix(), each) for each in found]


def sweep_of(fleet: Fleet, opts: ProfileCommandOptions, asked: Asked, reporter: Reporter) -> FleetSweep:
    """Return the sweep of the options over a fleet."""
    options = profile_options(opts)
    return FleetSweep(
        fleet,
        asked.request,
        send=lambda board, sha256: fleet.send(board, sha256, asked.paths[sha256]),
        anchors=opts.anchors,
        rounds=options.interleave_repeats,
        seed=options.seed,
        tolerance=parse_share(opts.board_tolerance, what="--board-tolerance"),
        note=reporter.info,
    )


def missing(target: Target, sweep: FleetSweep, header: Header, *, fresh: bool) -> tuple[Profile | None, list[Point]]:
    """Return the table in the file, and the points that it lacks.

    Raises:
        InputError: the file has other content.
    """
    table = None if fresh else target.earlier(read_profile, "profile")
    if table is None:
        return None, sweep.points
    if table.header.inputs.get("request", {}).get("sha256") != sweep.identity:
        differs = first_difference(table.header, header) or "it was measured in another way"
        hint = "it is kept; name another file with -o"
        raise InputError(f"{target.path} exists and holds another profile: {differs}", hint)
    failed = {row.point for row in unfinished(table)}
    left = list(dict.fromkeys([*missing_points(table, sweep.points), *(p for p in sweep.points if p in failed)]))
    return replace(table, rows=tuple(row for row in table.rows if row.point not in failed)), left


def _measure(
    fleet: Fleet, opts: ProfileCommandOptions, asked: Asked, reporter: Reporter, patience_s: float
) -> tuple[Profile, Target]:
    sweep = sweep_of(fleet, opts, asked, reporter)
    header = sweep.open(patience_s)
    default = f"{sweep.points[0].workload}-{sweep.points[0].task}-fleet.parquet"
    target = choose_target(opts.output, default, resumes=True, stdout=reporter.stdout)
    label = SimulationLabel(header.simulated, reporter)
    target.check("profile")
    before, left = missing(target, sweep, header, fresh=opts.fresh)
    if before is not None and not left:
        label.announce()
        reporter.info(f"{target.path} has these points already; --fresh measures them again")
        return before, target
    reporter.info(f"{len(left)} points on {len(sweep.boards)} boards: {', '.join(sorted(sweep.boards))}")
    if opts.fresh:
        discard(fleet, sweep)
    with reporter.sweep(label) as on_progress, _stopping(sweep):
        sweep.on_done = _Progress(on_progress, len(left) * sweep.rounds).report
        tables = sweep.run(left)
    table = whole(tables, {"sha256": sweep.identity, "points_sha256": points_sha256(sweep.points)})
    table = table if before is None else grown(before, table)
    once = {attempt_of(row): row for row in table.rows}
    table = replace(table, rows=tuple(once.values()))  # a journal gives what the file has from earlier, too
    table, sentences = with_boards(table, sweep.tolerance)
    target.write(table)
    if not unfinished(table):
        discard(fleet, sweep)
    label.announce()
    for sentence in sentences:
        reporter.info(sentence)
    target.report(reporter)
    return table, target


@contextmanager
def _stopping(sweep: FleetSweep) -> Iterator[None]:
    try:
        yield
    except BaseException:
        sweep.stop()
        raise


def discard(fleet: Fleet, sweep: FleetSweep) -> None:
    """Discard the journals of the boards that are there."""
    left = sweep.boards.keys() & fleet.present().keys()
    for board in left:
        fleet.ask(board, {**sweep.request, "do": "discard"})
    give_up_s = time.monotonic() + _DISCARD_S
    while left and time.monotonic() < give_up_s:
        left -= {reply.board for reply in fleet.replies(1.0)}


class _Progress:
    """Reports rows as they come.

    Args:
        on_progress: Takes the progress.
        total: Visits to make, without the anchors.
    """

    def __init__(self, on_progress: OnProgress, total: int) -> None:
        self._on_progress, self._total = on_progress, total
        self._done: set[Any] = set()
        self._told_s = float("-inf")

    def report(self, sweep: FleetSweep, row: ProfileRow) -> None:
        """Report a row, and what each board does."""
        self._done.add((row.point, row.round))
        done = min(len(self._done), self._total)
        progress = SweepProgress(done, self._total, 0, row)
        self._on_progress(progress)
        if time.monotonic() - self._told_s > _EVERY_S:
            self._told_s = time.monotonic()
            self._on_progress(replace(progress, row=None, state="\n".join(map(str, sweep.boards.values()))))


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

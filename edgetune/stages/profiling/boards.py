"""Several boards in one table: the anchors that each of them measures, what they say of it, and the common board.

Boards of one kind differ by some per cent. Each measures the anchors first and again at the end: from these points
follow the factor of its times and powers relative to the common board, which is the median one, and its drift.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from edgetune.artifacts.header import DataWarning
from edgetune.artifacts.profile import RAW_COLUMNS, Point, Profile, ProfileRow
from edgetune.artifacts.repeats import SAME, mean_minibatch_s, rows_by_point, standing
from edgetune.artifacts.yaml_document import plain
from edgetune.stages.profiling.comparison import CANNOT_TELL, join, verdict
from edgetune.stages.profiling.ratio import Ratio

BOARDS = "boards"
"""Key of the boards among the conditions of a header."""
COMMON = "on_common_board"
"""Key that says that the figures of a table are those of the common board."""
DRIFTED = "its board drifted between the first and the last anchors"
_TIMES = ("minibatch_s", "minibatch_p95_s", "minibatch_ci95_low_s", "minibatch_ci95_high_s", "minibatch_mean_s")
_POWERS = ("power_w", "power_peak_w")
_ALONE = Ratio(1.0, 1.0, 1.0)


@dataclass(frozen=True, slots=True)
class BoardFactors:
    """How one board compares with the common one.

    Args:
        points: How many points it measured, the anchors included.
        time, power: Its figures at the anchors relative to the common board's; ``None`` where they share none.
        drift_time, drift_power: Its figures at the last anchors relative to the first; ``None`` without both.
        left_out: Whether its rows are left out.
    """

    points: int
    time: Ratio | None
    power: Ratio | None
    drift_time: float | None = None
    drift_power: float | None = None
    left_out: bool = False

    @property
    def drifted(self) -> bool:
        """Whether it changed by more than boards repeat to."""
        return any(ratio is not None and abs(ratio - 1) > SAME for ratio in (self.drift_time, self.drift_power))

    def is_off(self, tolerance: float) -> bool:
        """Return whether a factor certainly differs from 1, and by more than ``tolerance``."""
        return any(
            verdict(ratio, figure) != CANNOT_TELL and abs(ratio.ratio - 1) > tolerance
            for figure, ratio in (("time", self.time), ("power", self.power))
            if ratio is not None
        )

    def describe(self, board: str) -> str:
        """Return one sentence without a full stop."""
        said = (
            [f"time {_said(self.time)}", f"power {_said(self.power)}"] if self.time else ["no anchor to compare it by"]
        )
        if self.drifted:
            changes = (("time", self.drift_time), ("power", self.drift_power))
            said += [f"drifted by {', '.join(f'{ratio - 1:+.1%} in {what}' for what, ratio in changes if ratio)}"]
        points = "1 point" if self.points == 1 else f"{self.points} points"
        return f"board {board}: {points}, {', '.join(said)}{'; LEFT OUT' if self.left_out else ''}"


def share_of(points: Sequence[Point], number: int, count: int) -> list[Point]:
    """Return the points of shard ``number`` of ``count``: a random share of the modes, each with all its batch sizes.

    The shares are the same on every board, and none has only the low clocks.
    """
    modes = list(dict.fromkeys(point.mode for point in points))
    own = set(random.Random(0).sample(modes, len(modes))[number - 1 :: count])
    return [point for point in points if point.mode in own]


def choose_anchors(points: Sequence[Point], count: int) -> list[Point]:
    """Return the anchors: of the first batch size, modes evenly from the lowest to the highest, the middle ones first.

    Modes are ordered by the sum of their knobs, each as a share of its highest value.
    """
    of = (points[0].workload, points[0].batch_size)
    alike = [point for point in points if (point.workload, point.batch_size) == of]
    tops: dict[str, float] = {}
    for point in alike:
        tops |= {knob: max(value, tops.get(knob, value)) for knob, value in point.mode.knobs().items()}
    ordered = sorted(alike, key=lambda point: sum(value / tops[knob] for knob, value in point.mode.knobs().items()))
    last = len(ordered) - 1
    places = {round(last * place / (count - 1)) for place in range(count)} if count > 1 else {last // 2}
    return [ordered[place] for place in sorted(places, key=lambda place: (abs(place - last / 2), place))]


def measured_by(board: str, table: Profile) -> Profile:
    """Return a table with the name of the board that measured it in each row."""
    return replace(table, rows=tuple(replace(row, board=board) for row in table.rows))


def compare_boards(rows: Sequence[ProfileRow], tolerance: float) -> tuple[str, dict[str, BoardFactors]]:
    """Return the common board and the factors of each; the common one is the median in time, the faster of two.

    Args:
        rows: Of all boards.
        tolerance: Difference from the common board above which a board is left out.
    """
    of: dict[str, list[ProfileRow]] = {}
    for row in rows:
        if row.board is not None:
            of.setdefault(row.board, []).append(row)
    first = next(iter(of))
    times = {board: ratio.ratio for board in of if (ratio := join(of[first], of[board]).overall()) is not None}
    ordered = sorted(times, key=lambda board: times[board])
    common = ordered[(len(ordered) - 1) // 2] if ordered else first
    return common, {board: _factors(of[common], own, tolerance) for board, own in of.items()}


def with_boards(table: Profile, tolerance: float) -> tuple[Profile, list[str]]:
    """Return a table with its boards in the header, and one sentence on each; a table of one board stays as it is.

    Rows of boards beyond ``tolerance`` are left out. Those of a board that drifted say so in ``reason``.
    """
    if len({row.board for row in table.rows} - {None}) < 2:
        return table, []
    common, boards = compare_boards(table.rows, tolerance)
    told = {"common": common, "tolerance": tolerance, "of": plain(boards)}
    found = [w for w in table.header.warnings if w.code not in ("board-left-out", "board-drifted")]
    if out := [board for board, each in boards.items() if each.left_out]:
        advice = f"{', '.join(out)}: look at its cooling and power supply, or keep it with --board-tolerance"
        found.append(DataWarning("board-left-out", advice, {"boards": len(out), "tolerance": tolerance}))
    if drifted := [board for board, each in boards.items() if each.drifted and not each.left_out]:
        advice = f"{', '.join(drifted)}: let it warm up first or cool it (--cool-to); its rows say so"
        found.append(DataWarning("board-drifted", advice, {"boards": len(drifted)}))
    header = replace(
        table.header, conditions={**table.header.conditions, BOARDS: told}, warnings=tuple(found)
    )  # fmt: skip
    rows = tuple(_marked(row, row.board in drifted) for row in table.rows if row.board not in out)
    return Profile(header, rows), [each.describe(board) for board, each in boards.items()]


def on_common_board(table: Profile) -> Profile:
    """Return the table as the common board would have measured it, without raw samples.

    Times are divided by the time factor of their board, powers by its power factor, energies by both.
    """
    boards = table.header.conditions.get(BOARDS, {}).get("of", {})
    rows = tuple(scaled(row, boards.get(row.board, {})) for row in table.rows)
    return Profile(replace(table.header, conditions={**table.header.conditions, COMMON: True}), rows)


def scaled(row: ProfileRow, factors: Mapping[str, Any]) -> ProfileRow:
    """Return a row without raw samples, its figures divided by the factors of its board, as a header has them."""
    time, power = ((factors.get(what) or {}).get("ratio") or 1.0 for what in ("time", "power"))
    by = {**dict.fromkeys(_TIMES, time), **dict.fromkeys(_POWERS, power), "energy_j": time * power}
    figures: dict[str, Any] = dict.fromkeys((*RAW_COLUMNS, "power_from_s"))
    row = replace(row, minibatch_mean_s=mean_minibatch_s(row))
    figures |= {name: value / factor for name, factor in by.items() if (value := getattr(row, name)) is not None}
    return replace(row, **figures)


def _factors(common: Sequence[ProfileRow], own: Sequence[ProfileRow], tolerance: float) -> BoardFactors:
    joined, rounds = join(common, own), [standing(rows) for rows in rows_by_point(own).values()]
    twice = [rows for rows in rounds if len(rows) > 1]
    drift = (
        join([min(rows, key=_round) for rows in twice], [max(rows, key=_round) for rows in twice]) if twice else None
    )
    changes = [None if drift is None or (of := drift.overall(what)) is None else of.ratio for what in ("time", "power")]
    ratios = (_ALONE, _ALONE) if common is own else (joined.overall("time"), joined.overall("power"))
    found = BoardFactors(len(rounds), *ratios, drift_time=changes[0], drift_power=changes[1])
    return replace(found, left_out=found.is_off(tolerance))


def _round(row: ProfileRow) -> int:
    return row.round or 0


def _marked(row: ProfileRow, drifted: bool) -> ProfileRow:
    parts = [part for part in (row.reason or "").split("; ") if part and part != DRIFTED]
    reason = "; ".join([*parts, DRIFTED] if drifted else parts) or None
    return row if reason == row.reason else replace(row, reason=reason)


def _said(ratio: Ratio | None) -> str:
    if ratio is None:
        return "not compared"
    within = f" ({ratio.low:.3f} to {ratio.high:.3f})" if ratio.low and ratio.high and ratio is not _ALONE else ""
    return f"x {ratio.ratio:.3f}{within}"

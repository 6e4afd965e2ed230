"""``edgetune roofline --device fleet:ADDRESS``: the peaks of every board, at the same time."""

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from edgetune.artifacts.io import from_bytes, write
from edgetune.artifacts.roofline import Roof, Roofline
from edgetune.errors import InputError, PartialError
from edgetune.stats import median
from edgetune.units import format_si
from edgetune.workflows.fleet.client import connect, none_joined
from edgetune.workflows.fleet.wire import parse_address
from edgetune.workflows.output import Target, wrote
from edgetune.workflows.reporting import Reporter, SimulationLabel
from edgetune.workflows.roofline.options import RooflineOptions

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

"""A twin as a device: a virtual clock, power modes, a slow power sensor, and runners that compute instead of running.

``twin:orin-agx`` is exact and repeatable. Options follow a question mark: ``twin:orin-agx?noise=on&seed=3`` adds
seeded measurement noise.
"""

from __future__ import annotations

from collections import Counter
from urllib.parse import parse_qsl

import numpy as np

from edgetune.artifacts.layers import LayerTimes
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.ops import OpsTable
from edgetune.devices.capabilities import Absent, check_mode
from edgetune.devices.device import Device, Minibatches
from edgetune.devices.twin import timeline as noises
from edgetune.devices.twin.constants import TwinFile, list_boards, load_board
from edgetune.devices.twin.physics import Clocks, layer_times, predict, static_power
from edgetune.devices.twin.timeline import TwinPowerSensor, TwinTimeline
from edgetune.devices.twin.work import work_of
from edgetune.errors import InputError
from edgetune.units import format_duration

_NO_HEAT = "the twin has no thermal model"
_START = "MAXN"
_LONGEST_RUN_S = 1e6
"""Longest run, s of virtual time: every second adds a power reading."""


def open_twin(name: str, *, seed: int = 0) -> Device:
    """Open the twin called ``name``, in its highest mode, at virtual time zero.

    Args:
        name: ``twin:BOARD`` with options as above, which override the argument.
        seed: Seed of the noise, which ``?noise=on`` adds.

    Raises:
        InputError: the board or an option is unknown.
    """
    named, options = parse_twin(name)
    seed, noise = _seed(options.get("seed"), seed), _noise(options.get("noise", "off"))
    twin, digest = load_board(named)
    board = _Board(twin, seed=seed, noise=noise)
    return Device(
        name=f"twin:{twin.board}",
        description=f"Digital twin: {twin.description}",
        simulated=True,
        source=board,
        clock=board.timeline,
        power=TwinPowerSensor(board.timeline, twin.sensing),
        modes=_Modes(board),
        temperature=Absent(_NO_HEAT),
        throttle=Absent(_NO_HEAT),
        conditions=_conditions(twin, digest, seed=seed, noise=noise),
        contention=twin.contention,
    )


def parse_twin(name: str) -> tuple[str, dict[str, str]]:
    """Return the board and the options of ``twin:BOARD?option=value&...``."""
    board, _, query = name.removeprefix("twin").removeprefix(":").partition("?")
    if not board:
        raise InputError(f"{name!r} names no board", f"known: {', '.join(f'twin:{b}' for b in list_boards())}")
    options = dict(parse_qsl(query, keep_blank_values=True))
    unknown = ", ".join(sorted(set(options) - {"noise", "seed"}))
    if unknown or (query and not options):
        raise InputError(f"{name!r} has an unknown option {unknown or query}", "e.g. ?noise=on&seed=3")
    return board, options


def _seed(text: str | None, default: int) -> int:
    if text is None:
        return default
    try:
        return int(text)
    except ValueError:
        raise InputError(f"the twin's seed is not an integer: {text!r}", "e.g. twin:orin-agx?noise=on&seed=3") from None


def _noise(text: str) -> bool:
    if text not in ("on", "off"):
        raise InputError(f"the twin's noise is on or off, not {text!r}", "e.g. twin:orin-agx?noise=on&seed=3")
    return text == "on"


def _conditions(twin: TwinFile, digest: str, *, seed: int, noise: bool) -> dict[str, object]:
    sensing = twin.sensing
    return {
        "simulated": True,
        "board": twin.catalogue,
        "runtime": twin.runtime,
        "tf32_matmul": twin.tf32_matmul,
        "constants_sha256": digest,
        "constants_fitted": twin.fit.date,
        "noise": {"time": sensing.time_repeat, "power": sensing.power_repeat, "seed": seed} if noise else None,
        "extrapolations": list(twin.extrapolations),
        "claim": {
            "time_pct": twin.fit.claim_time_pct,
            "power_pct": twin.fit.claim_power_pct,
            "slowdown_points": twin.fit.claim_slowdown_points,
            "note": twin.fit.claim_note,
        },
    }


class _Board:
    """State shared by runner, modes, clock and sensor of one opened twin; also its ``ModelSource``."""

    def __init__(self, twin: TwinFile, *, seed: int, noise: bool) -> None:
        self.twin, self.constants, self.space = twin, twin.values, twin.space
        self._seed, self._noise = seed, noise
        self._visits: Counter[str] = Counter()
        self._round = 1
        self._point = ""
        self.visit = noises.SILENT
        self.mode = self.space.presets.get(_START) or Mode.of({knob: v[-1] for knob, v in self.space.knobs.items()})
        self.clocks = Clocks.of([self.mode])
        self.timeline = TwinTimeline(twin.sensing, self.idle_w())
        self.timeline.attach(idle_w=self.idle_w, read_noise=self._read_noise)

    def idle_w(self) -> float:
        """Return the power at rest in the present mode, W."""
        return float(static_power(self.constants, self.clocks)[0])

    def set_mode(self, mode: Mode) -> None:
        """Change the clocks, and with them the power, immediately; end the visit to the present point."""
        self.mode, self.clocks = mode, Clocks.of([mode])
        self.leave()

    def begin(self, point: str) -> bool:
        """Record that ``point`` runs now; return whether this starts a new visit to it."""
        if point == self._point:
            return False
        self._point = point
        self.timeline.rest()
        if self._noise:
            ordinal = max(self._visits[point], self._round - 1)
            self.visit = noises.visit(self.twin.sensing, self._seed, point, ordinal)
            self._visits[point] = ordinal + 1
        return True

    def begin_round(self, number: int) -> None:
        """Set the round of a sweep; its noise does not depend on the process that ran earlier rounds."""
        self._round = number

    def leave(self) -> None:
        """End the visit to the present point."""
        self._point, self.visit = "", noises.SILENT

    def _read_noise(self, index: int) -> float:
        return self.visit.reading_factor(index)

    def open(self, ops: OpsTable) -> _Runner:
        """Return a runner of ``ops`` on this board."""
        return _Runner(self, ops)

    def layer_times(self, ops: OpsTable) -> LayerTimes:
        """Return the GPU time of each row of ``ops`` in the present mode, without noise."""
        return layer_times(self.constants, ops, self.clocks, tf32_matmul=self.twin.tf32_matmul)


class _Runner:
    """One network at one batch size; a run moves the virtual clock."""

    def __init__(self, board: _Board, ops: OpsTable) -> None:
        self._board, self._work = board, work_of(ops)
        self._name = f"{ops.workload}|{ops.task}|{ops.batch_size}|{ops.precision}"
        self._mode: Mode | None = None
        self._minibatch_s = self._power_w = 0.0
        self._done = 0

    def _look_up(self) -> None:
        """Compute time and power in the board's present mode, once per mode."""
        board = self._board
        if self._mode != board.mode:
            result = predict(board.constants, self._work, board.clocks, tf32_matmul=board.twin.tf32_matmul)
            self._minibatch_s, self._power_w = float(result.minibatch_s[0]), float(result.power_w[0])
            self._mode = board.mode

    def run(self, minibatches: int) -> Minibatches:
        """Advance the virtual clock by the minibatches, back to back, and return their times."""
        if minibatches < 1:
            return Minibatches((), ())
        board = self._board
        self._look_up()
        if not minibatches * self._minibatch_s <= _LONGEST_RUN_S:
            raise InputError(
                f"a minibatch of {self._name.replace('|', ' ')} would take {format_duration(self._minibatch_s)} here",
                "use a smaller batch size, or smaller dimensions",
            )
        if board.begin(f"{self._name}|{board.mode}"):
            self._done = 0
        factors = board.visit.minibatch_factors(self._done, minibatches)
        self._done += minibatches
        start_ns = board.timeline.now_ns()
        ends_ns = start_ns + np.rint(np.cumsum(1e9 * self._minibatch_s * factors)).astype(np.int64)
        times_ns = [start_ns, *ends_ns.tolist()]
        board.timeline.advance(times_ns[-1], self._power_w * board.visit.power)
        return Minibatches(times_ns[:-1], times_ns[1:])

    def close(self) -> None:
        """End the visit: a later run of the same point is another measurement of it."""
        self._board.leave()


class _Modes:
    """Power modes of an opened twin; only values of the board's tables."""

    def __init__(self, board: _Board) -> None:
        self._board, self._found, self.space = board, board.mode, board.space

    def apply(self, mode: Mode) -> Mode:
        """Set ``mode``; knobs that it leaves out keep their value."""
        check_mode(mode.knobs(), self.space, f"twin:{self._board.twin.board}")
        wanted = Mode.of({**self._board.mode.knobs(), **mode.knobs()})
        if wanted != self._board.mode:
            self._board.set_mode(wanted)
        return self._board.mode

    def restore(self) -> None:
        """Return to the mode the twin was opened in."""
        self.apply(self._found)

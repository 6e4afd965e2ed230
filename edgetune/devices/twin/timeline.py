"""Virtual clock of a twin, its power sensor with the delays of the real one, and seeded measurement noise.

Power follows a change of load with a first-order lag; the sensor averages it over its refresh interval and
shows the mean after a delay:

    load     ____|~~~~~~~~~~~~~~~~~~~        work starts
    power    ____.-'"^^^^^^^^^^^^^^^^        first order, time constant ~0.4 s
    reading  o       o       o       o       one a second: the first is low, the one after settle_s represents the load

Power is computed in closed form from pieces of constant load; only pieces that a later reading needs are kept.

Two measurements of one point on a real board differ by one or two per cent as a whole (temperature, other processes),
and the minibatches within one measurement scatter around it. Every factor of the noise is a function of the
seed, the point, and its ordinal: the number of the visit to that point, and of the minibatch within the visit. It does
not depend on earlier measurements, nor on how a measurement was split into calls.
"""

import hashlib
import math
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from edgetune.devices.capabilities import PowerReading
from edgetune.devices.twin.constants import Sensing
from edgetune.devices.twin.work import Array

_S = 1_000_000_000
_RESOLUTION_DIGITS = 3
"""Readings are whole milliwatts, as the board's sensors give them."""


@dataclass(frozen=True, slots=True)
class Settling:
    """Response of power to the load: exponential, and equal to its target after ``end_s``.

    The cut-off (less than a thousandth of the step) makes a settled reading independent of the earlier load.
    """

    time_constant_s: float
    end_s: float

    def remaining(self, elapsed_s: float) -> float:
        """Return the remaining share of a step."""
        return math.exp(-elapsed_s / self.time_constant_s) if elapsed_s < self.end_s else 0.0

    def fading_s(self, elapsed_s: float) -> float:
        """Return the integral of ``remaining`` up to ``elapsed_s``."""
        return self.time_constant_s * (1 - math.exp(-min(elapsed_s, self.end_s) / self.time_constant_s))


@dataclass(slots=True)
class _Piece:
    """Constant load from ``start_ns`` to ``end_ns``: power moves from ``start_w`` towards ``target_w``."""

    start_ns: int
    end_ns: int
    start_w: float
    target_w: float

    def power_w(self, at_ns: int, settling: Settling) -> float:
        return self.target_w + (self.start_w - self.target_w) * settling.remaining((at_ns - self.start_ns) / _S)

    def energy_j(self, from_ns: int, to_ns: int, settling: Settling) -> float:
        """Return the energy of the part of [from, to] in this piece, J."""
        from_ns, to_ns = max(from_ns, self.start_ns), min(to_ns, self.end_ns)
        if to_ns <= from_ns:
            return 0.0
        from_s, to_s = (from_ns - self.start_ns) / _S, (to_ns - self.start_ns) / _S
        fading_s = settling.fading_s(to_s) - settling.fading_s(from_s)
        return self.target_w * (to_s - from_s) + (self.start_w - self.target_w) * fading_s


@dataclass(slots=True)
class TwinRecording:
    """Readings taken while it is open, oldest first, the first one refresh interval after ``start_ns``."""

    start_ns: int
    readings: list[PowerReading] = field(default_factory=list)
    failure: None = None


class TwinTimeline:
    """The virtual clock of one board and its power up to now.

    Args:
        sensing: The sensor's timing.
        idle_w: Power at rest when the clock starts.
    """

    def __init__(self, sensing: Sensing, idle_w: float) -> None:
        self._sensing = sensing
        self._settling = Settling(sensing.time_constant_s, sensing.settle_s - sensing.lag_s)
        self._now_ns = 0
        self._pieces: deque[_Piece] = deque([_Piece(-10 * _S, 0, idle_w, idle_w)])
        self._recordings: list[TwinRecording] = []
        self._idle_w: Callable[[], float] = lambda: idle_w
        self._read_noise: Callable[[int], float] = lambda _index: 1.0

    def attach(self, *, idle_w: Callable[[], float], read_noise: Callable[[int], float]) -> None:
        """Set the functions of the idle power, W, and of the noise factor of a recording's n-th reading."""
        self._idle_w, self._read_noise = idle_w, read_noise

    def now_ns(self) -> int:
        """Return virtual time, integer nanoseconds."""
        return self._now_ns

    def sleep_s(self, seconds: float) -> None:
        """Advance virtual time at idle power."""
        if seconds > 0:
            self.advance(self._now_ns + round(seconds * _S), self._idle_w())

    def advance(self, to_ns: int, load_w: float) -> None:
        """Move the clock to ``to_ns`` under a constant load that would settle at ``load_w``."""
        before_ns, last = self._now_ns, self._pieces[-1]
        if to_ns <= before_ns:
            return
        if last.target_w == load_w:
            last.end_ns = to_ns
        else:
            start_w = last.power_w(before_ns, self._settling)
            self._pieces.append(_Piece(before_ns, to_ns, start_w, load_w))
        self._now_ns = to_ns
        self._read()
        self._forget()

    def rest(self) -> None:
        """Replace the history by idle time, so that no reading depends on an earlier load."""
        idle_w = self._idle_w()
        self._pieces = deque([_Piece(self._now_ns - 10 * _S, self._now_ns, idle_w, idle_w)])

    def power_w(self) -> float:
        """Return the true present power, W, without the delays of the sensor."""
        return self._pieces[-1].power_w(self._now_ns, self._settling)

    def _read(self) -> None:
        """Append the readings that are due to every open recording.

        Sampling starts when a recording opens, so that readings of a point do not depend on the end of earlier points.
        """
        refresh_ns, lag_ns = round(self._sensing.refresh_s * _S), round(self._sensing.lag_s * _S)
        for recording in self._recordings:
            for index in range(len(recording.readings) + 1, (self._now_ns - recording.start_ns) // refresh_ns + 1):
                time_ns = recording.start_ns + index * refresh_ns
                mean_w = self._mean_w(time_ns - lag_ns - refresh_ns, time_ns - lag_ns)
                shown_w = round(mean_w * self._read_noise(index), _RESOLUTION_DIGITS)
                recording.readings.append(PowerReading(time_ns, shown_w))

    def _mean_w(self, from_ns: int, to_ns: int) -> float:
        energy_j = sum(piece.energy_j(from_ns, to_ns, self._settling) for piece in self._pieces)
        return energy_j / ((to_ns - from_ns) / _S)

    def _forget(self) -> None:
        """Drop pieces that no later reading averages over."""
        needed_ns = self._now_ns - round((2 * self._sensing.refresh_s + self._sensing.lag_s) * _S)
        while len(self._pieces) > 1 and self._pieces[0].end_ns < needed_ns:
            self._pieces.popleft()

    @contextmanager
    def record(self) -> Iterator[TwinRecording]:
        """Collect readings until the context closes."""
        recording = TwinRecording(self._now_ns)
        self._recordings.append(recording)
        try:
            yield recording
        finally:
            self._recordings = [other for other in self._recordings if other is not recording]


class TwinPowerSensor:
    """The twin's view of the board's total input power; times are s of virtual time."""

    source = "twin: board input, modelled"

    def __init__(self, timeline: TwinTimeline, sensing: Sensing) -> None:
        self.refresh_s = sensing.refresh_s
        self.settle_s = sensing.settle_s
        self.record = timeline.record


@dataclass(frozen=True, slots=True)
class NoiseFactors:
    """One measurement of a point: factors on its time and power, each with mean one."""

    time: float
    power: float
    key: int
    time_jitter: float
    power_jitter: float

    def minibatch_factors(self, first: int, count: int) -> Array:
        """Return the factor on the time of each minibatch ``first`` to ``first + count - 1`` of this visit."""
        if self.time_jitter == 0:
            return np.full(count, self.time)
        # One block of Philox counters gives four values and is skipped as a whole, so that splitting changes nothing.
        generator = np.random.Generator(np.random.Philox(key=self.key, counter=0).advance(first // 4))
        uniform = generator.random(count + first % 4)[first % 4 :]
        return self.time * _log_normal(_normal(uniform), self.time_jitter)

    def reading_factor(self, index: int) -> float:
        """Return the factor on the ``index``-th power reading of this visit."""
        if self.power_jitter == 0:
            return 1.0
        normal = np.random.Generator(np.random.Philox(key=self.key + 1, counter=index)).standard_normal(1)
        return float(_log_normal(normal, self.power_jitter)[0])


SILENT = NoiseFactors(1.0, 1.0, 0, 0.0, 0.0)


def visit(sensing: Sensing, seed: int, point: str, ordinal: int) -> NoiseFactors:
    """Return the noise of the ``ordinal``-th measurement of ``point`` under ``seed``."""
    digest = hashlib.sha256(f"{seed}|{point}|{ordinal}".encode()).digest()
    key = int.from_bytes(digest[:8], "little") & ~1
    normal = np.random.Generator(np.random.Philox(key=int.from_bytes(digest[8:16], "little"))).standard_normal(2)
    return NoiseFactors(
        time=float(_log_normal(normal[:1], sensing.time_repeat)[0]),
        power=float(_log_normal(normal[1:], sensing.power_repeat)[0]),
        key=key,
        time_jitter=sensing.time_jitter,
        power_jitter=sensing.power_jitter,
    )


def _log_normal(normal: Array, sigma: float) -> Array:
    result: Array = np.exp(sigma * normal - sigma * sigma / 2)
    return result


def _normal(uniform: Array) -> Array:
    """Return standard normal values from uniform ones by the inverse distribution, one for one."""
    from scipy.special import ndtri

    result: Array = ndtri(np.clip(uniform, 1e-16, 1 - 1e-16))
    return result

"""The power of a board: from its own sensor chips, read once per refresh interval, or from jetson-stats.

A chip averages for about 0.43 s and shows each mean until the next, without a time stamp. A reading therefore covers an
interval that ended up to one interval before the reading:

    chip      |--- mean k-1 ---|---- mean k ----|--- mean k+1 ---|
    reading            ^ k-2            ^ k-1            ^ k

So power represents steady work two intervals after the work began, and a measurement needs several seconds.

``jetson?source=jtop`` reads a running jetson-stats through its documented interface: the ``jtop`` context, ``ok()``,
which waits for the next update and is false once the service is gone, and ``power["tot"]["power"]`` in mW. jetson-stats
chooses the rails of that total; on AGX Orin it adds four, one more than edgetune (see ``rails.VDDQ``).
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from typing import Any, TypeAlias

from edgetune.devices.capabilities import Absent, Clock, PowerReading, PowerSensor
from edgetune.devices.jetson.rails import DEFAULT_REFRESH_S, VDDQ, Channel, Total, choose_total, find_channels, named
from edgetune.devices.sysfs import Sysfs, why
from edgetune.devices.telemetry import PolledRecording, SensorStoppedError, polled
from edgetune.errors import DeviceError

_FASTEST_S = 0.1
"""Shortest interval of readings, s: on AGX Orin eight registers of 554 us (board measurement) then take 5 % of it."""

_IN_A_ROW = 5
"""Consecutive lost readings that end a recording: the fewest readings that a mean needs."""

_STUCK_S, _STEADY_S = 30.0, 300.0
"""How long no rail may move by one step of 8 mV or 8 mA before the chip counts as stuck, s: where work began meanwhile,
and under work that goes on. An Orin Nano showed equal means for 10 s under a steady load (board measurement)."""

_TRIES = 3
"""Attempts of the first reading, because the bus may be busy."""

_Counts: TypeAlias = "dict[Channel, tuple[int, ...] | None]"
"""Register values of each rail; ``None`` where they did not answer."""


class ImplausibleReadingError(Exception):
    """A physically impossible reading, which is discarded and counted."""


class BoardPower:
    """Power sensor: the sum of the rails that make up the board's power.

    Args:
        sysfs: The board's files.
        clock: Clock of the time stamps.
        total: The rails to add up.
        channels: Every named rail, those of the total included.
        refresh_s: Interval between new values, s.

    Attributes:
        source: Chips and rails of the total, e.g. ``ina3221:VDD_IN``.
        note: What is uncertain about it, or empty.
        discarded: Number of impossible readings since the sensor was opened.
        errors: Number of failed readings.
    """

    def __init__(self, sysfs: Sysfs, clock: Clock, total: Total, channels: list[Channel], refresh_s: float) -> None:
        self._sysfs = sysfs
        self._clock = clock
        self._total = total
        self._channels = tuple(dict.fromkeys((*total.channels, *channels)))
        self._left_out = [each for each in self._channels if each.label == VDDQ and each not in total.channels]
        self._low_by: dict[str, float] = {}
        self._before: _Counts = {}
        self._since_ns = self._begun_ns = self._read_ns = 0
        self._equal_s = 0.0
        chips = dict.fromkeys(channel.chip for channel in total.channels)
        self.source = f"{'+'.join(chips)}:{total.name}"
        self.note = total.note
        self.refresh_s = refresh_s
        self.discarded = 0
        self.errors = 0

    @property
    def settle_s(self) -> float:
        """Two intervals, s: one that began before the work, and one until its mean is shown."""
        return 2 * self.refresh_s

    def conditions(self) -> dict[str, object]:
        """Return the conditions of the power figure, for the header of an artifact."""
        found: dict[str, object] = {
            "power_source": self.source,
            "power_rails": [channel.label for channel in self._channels],
            "power_refresh_s": self.refresh_s,
        }
        if self.note:
            found["power_note"] = self.note
        if self._total.others:
            found["power_alternatives"] = list(self._total.others)
        if self._left_out:
            found["power_left_out"] = {VDDQ: self._low_by}  # filled in by readings
        return found

    def record(self) -> AbstractContextManager[PolledRecording]:
        """Record readings while the context is open."""
        return polled(BoardMeter(self, self._clock).read, self.refresh_s)

    def rails(self) -> dict[str, float | None]:
        """Return the present power of every rail, W; ``None`` for a failed or impossible reading."""
        counts = {str(channel.label): (channel, self._maybe(channel)) for channel in self._channels}
        return {name: None if found is None else channel.power_w(found) for name, (channel, found) in counts.items()}

    def begin(self) -> None:
        """Note that other work begins now, which should move the readings."""
        self._begun_ns = self._clock.now_ns()

    def read(self) -> PowerReading:
        """Read every rail once.

        Raises:
            OSError, ValueError: a rail of the total does not answer.
            SensorStoppedError: the values have not changed for too long.
            ImplausibleReadingError: the values are physically impossible.
        """
        try:
            counts: _Counts = {channel: channel.counts(self._sysfs) for channel in self._total.channels}
        except (OSError, ValueError):
            self.errors += 1
            raise
        now_ns = self._clock.now_ns()
        for channel in self._channels:
            if channel not in counts:
                counts[channel] = self._maybe(channel)
        self._watch(counts, now_ns)
        total_w = self._sum_w(counts)
        for channel in self._left_out:
            if (values := counts[channel]) and (power_w := channel.power_w(values)) is not None:
                self._low_by["readings"] = count = self._low_by.get("readings", 0) + 1
                for name, value in (("mean_w", power_w), ("mean_share_of_total", power_w / total_w)):
                    before = self._low_by.get(name, 0.0)
                    self._low_by[name] = before + (value - before) / count
        return PowerReading(now_ns, total_w)

    def _maybe(self, channel: Channel) -> tuple[int, ...] | None:
        """Return the counts of a rail outside the total; ``None`` on an error."""
        try:
            return channel.counts(self._sysfs)
        except (OSError, ValueError):
            return None

    def _sum_w(self, counts: _Counts) -> float:
        """Return the total of one reading, W."""
        total_w = 0.0
        for channel in self._total.channels:
            values = counts[channel] or ()
            power_w = channel.power_w(values)
            if power_w is None:
                self.discarded += 1
                shown = " and ".join(map(str, values))
                raise ImplausibleReadingError(f"{channel.label} shows {shown}, which its chip cannot have measured")
            total_w += power_w
        if total_w <= 0:
            self.discarded += 1
            raise ImplausibleReadingError(f"{self._total.name} shows {total_w:g} W, which no running board draws")
        return total_w

    def _watch(self, counts: _Counts, now_ns: int) -> None:
        """Raise ``SensorStoppedError`` when no value has changed for too long, also across recordings."""
        read_ns, self._read_ns = self._read_ns, now_ns
        if counts != self._before:
            self._before, self._since_ns, self._equal_s = counts, now_ns, 0.0
            return
        self._equal_s += min((now_ns - read_ns) / 1e9, self.settle_s)  # between recordings nothing is read
        if self._equal_s >= (_STUCK_S if self._begun_ns >= self._since_ns else _STEADY_S):
            text = f"the power sensor is stuck: no rail has moved for {self._equal_s:.0f} s"
            raise SensorStoppedError(text, since_ns=self._since_ns)


class BoardMeter:
    """The readings of one recording: it skips single lost readings and ends after several in a row."""

    def __init__(self, board: BoardPower, clock: Clock) -> None:
        self._board = board
        self._board.begin()
        self._clock = clock
        self._before_ns: int | None = None
        self._lost = 0

    def read(self) -> PowerReading | None:
        """Return a fresh reading; ``None`` when the reading was lost or is not yet due.

        Raises:
            SensorStoppedError: the sensor is stuck, or too many readings in a row were lost.
        """
        soonest_ns = self._board.refresh_s * 1e9 / 2
        if self._before_ns is not None and self._clock.now_ns() - self._before_ns < soonest_ns:
            return None  # two polls at the end of a recording would read the same mean
        try:
            reading = self._board.read()
        except (OSError, ValueError, ImplausibleReadingError) as error:
            self._lost += 1
            if self._lost >= _IN_A_ROW:
                text = _said(error)
                raise SensorStoppedError(f"{self._lost} power readings in a row were lost: {text}") from error
            return None
        self._lost, self._before_ns = 0, reading.time_ns
        return reading


def _said(error: Exception) -> str:
    return f"{error.filename or 'the chip'}: {why(error)}" if isinstance(error, OSError) else str(error)


def open_board_power(sysfs: Sysfs, clock: Clock, soc: str, choice: str | None = None) -> BoardPower | Absent:
    """Return the board's power sensor, or the reason why there is none.

    Args:
        sysfs: The board's files.
        clock: Clock of the time stamps.
        soc: E.g. ``tegra234``.
        choice: Rails to add up, joined by ``+``, instead of the board's usual total.

    Raises:
        DeviceError: the choice does not fit the board.
    """
    try:
        channels = named(find_channels(sysfs), soc)
    except PermissionError as error:
        folder = str(error.filename).rpartition("/")[0]
        return Absent(
            f"permission denied for {error.filename}, to permit: sudo chmod a+r {folder}/*_input (until reboot)"
        )
    if not channels and choice is None:
        return Absent("this kernel shows no rails of a power monitor chip (INA3221 or INA238)")
    total = choose_total(channels, choice)
    if isinstance(total, Absent):
        return total
    refresh_s = max(_FASTEST_S, *(channel.refresh_s for channel in total.channels))
    return _tried(BoardPower(sysfs, clock, total, channels, refresh_s), clock)


def _tried(board: BoardPower, clock: Clock) -> BoardPower | Absent:
    """Return the sensor after a first successful reading; a slow driver lengthens the refresh interval."""
    for attempt in range(_TRIES):
        before_ns = clock.now_ns()
        try:
            board.read()
        except (OSError, ValueError, ImplausibleReadingError) as error:
            if attempt == _TRIES - 1:
                return Absent(f"the power sensor cannot be read: {_said(error)}")
            continue
        board.refresh_s = max(board.refresh_s, (clock.now_ns() - before_ns) / 1e9)
        break
    return board


_INTERVAL_S = 0.5
"""Update interval of jetson-stats by default, s: about the refresh interval of the chips."""

_PAUSE_S = 0.01
"""Pause between polls, s; ``ok()`` waits for the next update."""


class JtopPower:
    """Power sensor: the total power that the jtop service reports.

    Args:
        module: The ``jtop`` package.
        clock: Clock of the time stamps.
    """

    source = "jtop:tot"
    refresh_s = _INTERVAL_S
    settle_s = 2 * DEFAULT_REFRESH_S + _INTERVAL_S
    """Two intervals of the chips and one of the service, s."""

    def __init__(self, module: Any, clock: Clock) -> None:
        self._module = module
        self._clock = clock

    @contextmanager
    def record(self) -> Iterator[PolledRecording]:
        """Record every update of the service while the context is open."""
        with self._connected() as client, polled(lambda: self._read(client), _PAUSE_S) as recording:
            yield recording

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        """Open the service's client and close it at the end, also after an error."""
        client = self._module.jtop(interval=_INTERVAL_S)
        try:
            client.start()
        except Exception as error:  # jtop raises its own exceptions, which differ between versions
            raise DeviceError(
                f"the jtop service does not answer: {error}",
                "sudo systemctl restart jtop.service, and be in the group jtop; or leave out source=jtop",
            ) from error
        try:
            yield client
        finally:
            client.close()

    def _read(self, client: Any) -> PowerReading:
        """Wait for the next update and return it.

        Raises:
            SensorStoppedError: the service has ended, or reports no total.
        """
        try:
            if not client.ok():
                raise SensorStoppedError("the jtop service has stopped")
            milliwatts = client.power["tot"]["power"]
        except SensorStoppedError:
            raise
        except Exception as error:
            raise SensorStoppedError(f"jtop gives no total power: {type(error).__name__}: {error}") from error
        if not isinstance(milliwatts, (int, float)) or milliwatts <= 0:
            raise SensorStoppedError(f"jtop gives no total power but {milliwatts!r}")
        return PowerReading(self._clock.now_ns(), milliwatts / 1000)

    def check(self) -> None:
        """Read once.

        Raises:
            DeviceError: the service does not run, or reports no total.
        """
        with self._connected() as client:
            try:
                self._read(client)
            except SensorStoppedError as stopped:
                raise DeviceError(str(stopped), "leave out source=jtop: edgetune reads the board's sensors") from None


def open_jtop_power(sysfs: Sysfs, clock: Clock, soc: str = "", choice: str | None = None) -> PowerSensor:  # noqa: ARG001
    """Return the power sensor of a running jtop service.

    Args:
        sysfs, soc, choice: Ignored, because the service reads the chips; as in ``open_board_power``.
        clock: Clock of the time stamps.

    Raises:
        DeviceError: jetson-stats is not installed, its service does not run, denies access, or reports no total.
    """
    try:
        module = import_module("jtop")
    except ImportError:
        raise DeviceError(
            "jetson-stats is not installed", "sudo pip3 install -U jetson-stats, or leave out source=jtop"
        ) from None
    sensor = JtopPower(module, clock)
    sensor.check()
    return sensor

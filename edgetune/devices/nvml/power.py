"""Power of the board from NVML: differences of its energy counter, else its power readings.

    energy  mJ since the driver was loaded, Volta and newer (nvmlDeviceGetTotalEnergyConsumption)
    instant mW now (field NVML_FI_DEV_POWER_INSTANT)
    power   mW, on Ampere and newer except GA100 the mean of the last second (nvmlDeviceGetPowerUsage)

All three cover "this GPU and its associated circuitry (e.g. memory)", NVML API reference: the board, not the host. None
is documented to be renewed at any interval (pull request 18 of gpuopenanalytics/pynvml saw 10 ms; "Part-time Power
Measurements", arXiv 2312.02741, longer ones, and that A100 and H100 sample a quarter of the time), so the interval is
watched for when the sensor is opened. On an H100 the counter was renewed every 100 ms, and its energy within 2.3 % of
these readings and 3.5 % of the polled power (tests/benchmarks/nvml_energy.py).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import pairwise
from statistics import median

from edgetune.devices.clock import Clock
from edgetune.devices.device import Absent, PowerReading
from edgetune.devices.nvml.binding import GpuLostError
from edgetune.devices.nvml.gpu import POWER_INSTANT, Gpu
from edgetune.devices.polling import PolledRecording, polled
from edgetune.errors import DeviceError

_USUAL_REFRESH_S = 0.1
"""Taken where a steady value hides when it is renewed."""

_SHORTEST_READING_S = 0.05
"""A counter renewed more often is read over this long: the moment of a renewal is known to a tenth of it."""

_POLLS_PER_READING = 10
_WATCHED_CHANGES = 4
_LONGEST_WATCH_S = 1.0
_AVERAGED_S = 1.0
_NEARLY = 0.75
"""Of a refresh interval, so that polls a little early do not double it."""

_UNCHANGED = 1.1
"""Refresh intervals, one poll more than one, after which a value counts as renewed although it is the same."""


class EnergyMeter:
    """Turns an energy counter into mean power since the reading before.

    It begins when the counter first moves: until then nobody knows how old its value is.

    Args:
        read_mj: Returns the counter, mJ.
        clock: Stamps the readings.
        refresh_s: The length of a reading, s.
    """

    def __init__(self, read_mj: Callable[[], float], clock: Clock, refresh_s: float) -> None:
        self._read_mj = read_mj
        self._clock = clock
        self._least_ns = round(_NEARLY * refresh_s * 1e9)
        self._last_mj = read_mj()
        self._from: tuple[int, float] | None = None

    def read(self) -> PowerReading | None:
        """Return the mean power since the last reading; ``None`` while the counter stands still."""
        now_mj, now_ns = self._read_mj(), self._clock.now_ns()
        if now_mj == self._last_mj:
            return None
        backwards, self._last_mj = now_mj < self._last_mj, now_mj
        if self._from is None or backwards:  # it starts at zero again when the driver is reloaded
            self._from = (now_ns, now_mj)
            return None
        from_ns, from_mj = self._from
        if now_ns - from_ns < self._least_ns:
            return None
        self._from = (now_ns, now_mj)
        return PowerReading(now_ns, (now_mj - from_mj) * 1e6 / (now_ns - from_ns))  # 1 mJ/ns = 1e6 W


class GaugeMeter:
    """Gives a power reading whenever the gauge shows a new one, and at times although it shows the same.

    Args:
        read_mw: Returns the gauge, mW.
        clock: Stamps the readings.
        refresh_s: How often the gauge is renewed, s.
    """

    def __init__(self, read_mw: Callable[[], float], clock: Clock, refresh_s: float) -> None:
        self._read_mw = read_mw
        self._clock = clock
        self._longest_ns = round(_UNCHANGED * refresh_s * 1e9)
        self._last: tuple[int, float] = (clock.now_ns(), read_mw())

    def read(self) -> PowerReading | None:
        """Return the power, ``None`` while there is nothing new."""
        now_mw, now_ns = self._read_mw(), self._clock.now_ns()
        last_ns, last_mw = self._last
        if now_mw == last_mw and now_ns - last_ns < self._longest_ns:
            return None
        self._last = (now_ns, now_mw)
        return PowerReading(now_ns, now_mw / 1e3)


class NvmlPower:
    """Power of one GPU board.

    Args:
        source: Which of NVML's figures it is, e.g. ``nvml:energy``.
        meter: Makes what turns values into readings.
        refresh_s: Interval between readings, s.
        settle_s: Time until a reading no longer holds what was before the work, s.
        watch: Called at each reading: throttling is only seen while it lasts.
    """

    def __init__(
        self,
        source: str,
        meter: Callable[[], EnergyMeter | GaugeMeter],
        *,
        refresh_s: float,
        settle_s: float,
        watch: Callable[[], None],
    ) -> None:
        self.source = source
        self.refresh_s = refresh_s
        self.settle_s = settle_s
        self._meter = meter
        self._watch = watch

    def record(self) -> AbstractContextManager[PolledRecording]:
        """Take readings for as long as the context is open."""
        meter = self._meter()

        def read() -> PowerReading | None:
            try:
                reading = meter.read()
                if reading is not None:
                    self._watch()
                return reading
            except DeviceError as error:  # a GPU lost meanwhile ends the recording, not the thread that polls
                raise OSError(error.message) from None

        return polled(read, self.refresh_s / _POLLS_PER_READING)


def open_power(gpu: Gpu, clock: Clock, watch: Callable[[], None] = lambda: None) -> NvmlPower | Absent:
    """Return the best sensor that answers, or why there is none.

    Args:
        gpu: Whose.
        clock: Stamps the readings.
        watch: Called at each reading.
    """

    def energy_mj() -> float:
        return float(gpu.ask("nvmlDeviceGetTotalEnergyConsumption"))

    refresh_s = _watched_refresh_s(energy_mj, clock) if _answers(energy_mj) else None
    if refresh_s is not None:
        length_s = max(refresh_s, _SHORTEST_READING_S)
        return NvmlPower(
            "nvml:energy",
            lambda: EnergyMeter(energy_mj, clock, length_s),
            refresh_s=length_s,
            settle_s=length_s,  # an integral has no lag but that of its renewal
            watch=watch,
        )
    for source, read_mw, settle_s in (
        ("nvml:power-instant", lambda: gpu.field(POWER_INSTANT), _USUAL_REFRESH_S),
        ("nvml:power", lambda: float(gpu.ask("nvmlDeviceGetPowerUsage")), _AVERAGED_S),
    ):
        if _answers(read_mw):
            return _gauge(source, read_mw, clock, settle_s, watch)
    return Absent("the driver reports neither energy nor power of this GPU (virtual GPUs and some laptops have none)")


def _gauge(
    source: str, read_mw: Callable[[], float], clock: Clock, settle_s: float, watch: Callable[[], None]
) -> NvmlPower:
    length_s = max(_watched_refresh_s(read_mw, clock) or _USUAL_REFRESH_S, _SHORTEST_READING_S)
    return NvmlPower(
        source, lambda: GaugeMeter(read_mw, clock, length_s), refresh_s=length_s, settle_s=settle_s, watch=watch
    )


def _answers(read: Callable[[], float]) -> bool:
    try:
        read()
    except GpuLostError:
        raise
    except DeviceError:
        return False
    return True


def _watched_refresh_s(read: Callable[[], float], clock: Clock) -> float | None:
    """Return the interval at which a value is renewed, s; ``None`` when it stands still for too long to tell."""
    start_ns, before = clock.now_ns(), read()
    changes_ns: list[int] = []
    while len(changes_ns) < _WATCHED_CHANGES and clock.now_ns() - start_ns < _LONGEST_WATCH_S * 1e9:
        clock.sleep_s(0.001)
        now = read()
        if now != before:
            changes_ns.append(clock.now_ns())
            before = now
    if len(changes_ns) < 2:
        return None
    return median(later - earlier for earlier, later in pairwise(changes_ns)) / 1e9

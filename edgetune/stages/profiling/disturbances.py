"""Disturbances of a measurement: throttling, heat, another mode than requested, other processes on the CPUs.

    temperature   ~~~~\\___            the point before | waits to cool | the next point

A hot device throttles sooner and leaks more power, so every point starts alike. While a point runs, the device is read
between calls of the runner, at most once a second: a reading costs a board a few file reads.
"""

from collections.abc import Iterable

from edgetune.artifacts.header import DataWarning
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import THROTTLED_SHARE, ProfileRow
from edgetune.devices.capabilities import Absent, FanControl, ModeReader, SlightThrottleCounter
from edgetune.devices.cpu import BUSY_SHARE, CpuTimes, others_share, throttled_share
from edgetune.devices.device import Device, LiveSource
from edgetune.errors import InputError
from edgetune.stages.profiling.options import OnState, ProfileOptions, cooling


class ThrottleWatch:
    """Compares the throttle counters of a device with their values at the start."""

    def __init__(self, device: Device) -> None:
        self._throttle = device.throttle
        self._clock = device.clock
        self._begun_ns = self._clock.now_ns()
        self._slight, self._all = self._slight_counts(), self._counts()
        self._before = None if isinstance(self._throttle, Absent) else self._throttle.read()

    def throttled(self) -> bool | None:
        """Whether the device has throttled since; ``None`` where it has no counter."""
        if isinstance(self._throttle, Absent) or self._before is None:
            return None
        return self._throttle.read() > self._before

    def slight(self) -> str | None:
        """Return the rates of slight events since, to one digit because they come in batches; ``None`` without any."""
        elapsed_s = (self._clock.now_ns() - self._begun_ns) / 1e9
        now = self._slight_counts()
        more = {name: now.get(name, before) - before for name, before in self._slight.items()}
        rates = {name: count / elapsed_s for name, count in more.items() if count > 0 and elapsed_s > 0}
        told = ", ".join(f"{name} {float(f'{rate:.0e}'):g}/s" for name, rate in rates.items())
        return f"slight throttling while measured: {told}" if told else None

    def over_current(self) -> str | None:
        """Return the serious over-current events since, in words; ``None`` without any."""
        more = {name: count - self._all.get(name, count) for name, count in self._counts().items()}
        told = ", ".join(f"{name} {count}" for name, count in more.items() if count > 0 and name not in self._slight)
        return f"over-current events: {told}" if told else None

    def _counts(self) -> dict[str, int]:
        return dict(self._throttle.counts()) if isinstance(self._throttle, SlightThrottleCounter) else {}

    def _slight_counts(self) -> dict[str, int]:
        return dict(self._throttle.slight_counts()) if isinstance(self._throttle, SlightThrottleCounter) else {}


class ContentionWatch:
    """Compares the CPU times of all processes with those at the start of a point.

    Args:
        device: Where the point is measured; only a device on this machine has CPU times.
        mode: The requested mode, which gives the workload its cores.
    """

    def __init__(self, device: Device, mode: Mode) -> None:
        self._load = device.load
        self._cores = mode.cpu_cores
        self._looks: list[CpuTimes | None] = []
        self.begin()

    def begin(self) -> None:
        """Read the CPU times again: the measurement begins now."""
        self._looks.append(None if self._load is None else self._load.read())

    def share(self) -> float | None:
        """Return the share of the workload's CPUs that others used since the last (or, in a short run, first) reading.

        ``None`` where the CPU times are unknown or the run was too short.
        """
        after = None if self._load is None else self._load.read()
        first = next(filter(None, self._looks), None)
        if (
            self._load is None
            or after is None
            or first is None
            or others_share(first, after, list(after.total)) is None
        ):
            return None
        cpus = self._load.cpus(self._cores)
        shares = (others_share(before, after, cpus) for before in reversed(self._looks) if before is not None)
        return next((share for share in shares if share is not None), None)

    def throttled_share(self) -> float | None:
        """Return the share of the periods in which a CPU quota stopped the workload; ``None`` without a quota."""
        before = self._looks[-1]
        if before is None or self._load is None:
            return None
        return throttled_share(before.quota_periods, self._load.quota_periods())


def contention_warning(rows: Iterable[ProfileRow]) -> tuple[DataWarning, ...]:
    """Return warnings about the rows that other processes or a CPU quota disturbed; none where nothing did."""
    rows, found = list(rows), list[DataWarning]()
    if busy := [share for row in rows if (share := row.others_cpu_share or 0.0) >= BUSY_SHARE]:
        advice = f"other processes used up to {max(busy):.0%} of the CPUs: stop them and measure again"
        found.append(DataWarning("points-busy", advice, {"points": len(busy), "others_cpu_share_max": max(busy)}))
    if stopped := [row.cpu_throttled_share for row in rows if row.cpu_throttled_share]:
        advice = "a CPU quota stopped the workload: raise it (docker --cpus, systemd CPUQuota=) and measure again"
        found.append(DataWarning("points-cpu-throttled", advice,
                                 {"points": len(stopped), "cpu_throttled_share_max": max(stopped)}))  # fmt: skip
    return tuple(found)


def describe_contention(others_share: float | None, throttled_share: float | None = None) -> str | None:
    """Return a note on a point that other processes or a CPU quota disturbed; ``None`` where nothing did."""
    notes = []
    if (others_share or 0.0) >= BUSY_SHARE:
        notes.append(f"{OTHERS} {others_share:.0%} of its CPUs while it was measured")
    if throttled_share:
        mean = ", so that its time is the mean" if throttled_share >= THROTTLED_SHARE else ""
        notes.append(f"a CPU quota stopped it in {throttled_share:.1%} of the periods{mean}")
    return "; ".join(notes) or None


_EVERY_S = 1.0
"""A heat sink takes many seconds for a degree; more readings would only keep the processor awake."""


def check_possible(device: Device, options: ProfileOptions) -> None:
    """Refuse to wait for a temperature without a thermometer, a fan without one, and to soak a simulation.

    Raises:
        InputError: The device has no thermometer, no fan, or neither heat nor a governor.
    """
    if options.fan is not None and not isinstance(device.modes, FanControl):
        raise InputError(f"--fan: {device.name} has no fan that edgetune sets", "leave --fan out")
    if not isinstance(device.source, LiveSource) and (options.soak_s is not None or options.idle_gaps_s):
        raise InputError(
            f"--soak and --idle-gap: {device.name} has neither heat nor governors to show", "measure on a real device"
        )
    if options.cool_to_c is not None and isinstance(device.temperature, Absent):
        raise InputError(
            f"--cool-to: {device.name} has no thermometer: {device.temperature.reason}", "leave --cool-to out"
        )


def cool_down(device: Device, options: ProfileOptions, on_state: OnState | None = None) -> bool:
    """Wait until the device has cooled to ``cool_to_c``, if that is set; return whether it has.

    Args:
        device: With a thermometer, see ``check_possible``.
        options: The temperature, and the longest wait.
        on_state: Called about once a second.
    """
    if options.cool_to_c is None or isinstance(device.temperature, Absent):
        return True
    begun_ns = device.clock.now_ns()
    while True:
        now_c = device.temperature.read_c()
        if now_c is not None and now_c <= options.cool_to_c:
            return True
        left_s = options.cool_timeout_s - (device.clock.now_ns() - begun_ns) / 1e9
        if left_s <= 0:
            return False
        if on_state is not None:
            on_state(cooling(now_c, options.cool_to_c))
        device.clock.sleep_s(min(_EVERY_S, left_s))


_TOLERANCE = 0.02
"""A clock that reads back within this fraction is the requested clock: drivers round to their steps."""

OTHERS = "other processes used"
"""Beginning of the note on a point that other processes disturbed."""
LOOK_EVERY_S = 1.0
"""Temperature sensors move by a fraction of a degree in a second; a reading takes about a millisecond."""


class DeviceWatch:
    """Watches the temperature and the mode of a device while a point is measured on it.

    Args:
        device: The device, in the mode that was applied.
        asked: The requested mode.

    Attributes:
        temp_start_c: Temperature at the start, degrees Celsius; ``None`` without a thermometer.
        temp_max_c: The highest since.
        drift: How the mode differs from the requested one; empty while it does not.
    """

    def __init__(self, device: Device, asked: Mode) -> None:
        self._device = device
        self._asked = asked
        self._looked_ns = device.clock.now_ns()
        self.temp_start_c = self._temperature_c()
        self.temp_max_c = self.temp_start_c
        self.drift = ""

    @property
    def needed(self) -> bool:
        """Whether the device has a thermometer or a readable mode."""
        return isinstance(self._device.modes, ModeReader) or not isinstance(self._device.temperature, Absent)

    def poll(self) -> bool:
        """Read the device unless it was read within the last second; return whether it is still in its mode."""
        if self._device.clock.now_ns() - self._looked_ns >= LOOK_EVERY_S * 1e9:
            if not isinstance(self._device.throttle, Absent):
                self._device.throttle.read()  # a throttle flag shows only while it lasts; the counter keeps it
            self.poll_now()
        return not self.drift

    def poll_now(self) -> None:
        """Read the temperature and the mode."""
        now_c = self._temperature_c()
        if now_c is not None:
            self.temp_max_c = now_c if self.temp_max_c is None else max(self.temp_max_c, now_c)
        if not self.drift and isinstance(self._device.modes, ModeReader):
            self.drift = mode_difference(self._asked, self._device.modes.read())
        self._looked_ns = self._device.clock.now_ns()

    def _temperature_c(self) -> float | None:
        return None if isinstance(self._device.temperature, Absent) else self._device.temperature.read_c()


def mode_difference(asked: Mode, found: Mode) -> str:
    """Return which knobs differ from the requested mode, in words; empty where none does."""
    now = found.knobs()
    return ", ".join(
        f"{name} is {f'{now[name]:g}' if name in now else 'not fixed'}, not {value:g}"
        for name, value in asked.knobs().items()
        if name not in now or abs(now[name] - value) > _TOLERANCE * value
    )

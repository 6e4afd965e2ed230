"""Measures the time, power, energy and memory of a part of a program.

synchronise, read the clock | the program's own work | synchronise, read the clock
power readings       .   .   .   .   .   .   .   .   .   .        energy = mean power x time

Windows of one process share a meter, so that a window inside another costs two readings of the clock.
"""

from __future__ import annotations

import sys
import threading
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from edgetune.artifacts.mode import Mode
from edgetune.devices.capabilities import Absent, PowerReading, PowerRecording
from edgetune.devices.device import Device, LiveSource
from edgetune.errors import DeviceError
from edgetune.processes.families import gpu_peak_bytes, peak_bytes, reset_peaks
from edgetune.stages.profiling.disturbances import ContentionWatch, ThrottleWatch, describe_contention
from edgetune.stages.profiling.energy import PowerFigures, window_figures


class Window:
    """The figures of a window; each is ``None`` until the window is closed. Power is computed when it is read.

    Args:
        meter: The meter that measures it.
        name: Name, as the user gives it.

    Attributes:
        overlapped: Whether another window of the same meter was open meanwhile: energy is of the whole board.
        memory_bytes: Most memory that this process held at a time, bytes; ``None`` where the kernel does not report it,
            and in a window that joined another.
        gpu_memory_bytes: Most memory that PyTorch held on its GPU, bytes; ``None`` without CUDA and in a joined window.
        throttled: Whether the device throttled; ``None`` where it has no counter, and in a joined window.
    """

    __slots__ = (
        "_end_ns", "_meter", "_serial", "_start_ns", "gpu_memory_bytes", "memory_bytes", "name", "note", "overlapped",
        "throttled",
    )  # fmt: skip

    def __init__(self, meter: Meter, name: str | None = None) -> None:
        self.name = name
        self._meter = meter
        self._start_ns = self._end_ns = self._serial = 0
        self.overlapped = False
        self.memory_bytes: int | None = None
        self.gpu_memory_bytes: int | None = None
        self.throttled: bool | None = None
        self.note: str | None = None

    @property
    def time_s(self) -> float | None:
        """From begin to end, s."""
        return (self._end_ns - self._start_ns) / 1e9 if self._end_ns else None

    @property
    def power_w(self) -> float | None:
        """Mean power, W; ``None`` with a ``reason`` where there is no sensor or too few fresh readings."""
        return None if (figures := self._figures()) is None else figures.power_w

    @property
    def power_peak_w(self) -> float | None:
        """The highest reading, W."""
        return None if (figures := self._figures()) is None else figures.peak_w

    @property
    def energy_j(self) -> float | None:
        """Mean power times time, J."""
        power_w, time_s = self.power_w, self.time_s
        return None if power_w is None or time_s is None else power_w * time_s

    @property
    def power_samples(self) -> int | None:
        """Fresh readings inside the window."""
        return None if (figures := self._figures()) is None else figures.samples

    @property
    def power_source(self) -> str | None:
        """The sensor and what it covers, e.g. ``ina3221:VDD_IN``."""
        power = self._meter.device.power
        return None if isinstance(power, Absent) or not self._end_ns else power.source

    @property
    def reason(self) -> str | None:
        """The reason why a figure is missing or may be off."""
        if not self._end_ns:
            return None
        power, figures = self._meter.device.power, self._figures()
        reasons = [self.note, f"no power: {power.reason}" if isinstance(power, Absent) else None]
        if figures is not None and self._meter.recording is not None:
            shared = self.overlapped and figures.power_w is not None
            reasons += [figures.reason, self._meter.recording.failure]
            reasons += ["power and energy are of the whole board, shared with other windows open then"] * shared
        return "; ".join(filter(None, reasons)) or None

    def _figures(self) -> PowerFigures | None:
        return self._meter.figures(self._start_ns, self._end_ns) if self._end_ns else None

    def __repr__(self) -> str:
        names = ("name", "time_s", "power_w", "energy_j", "memory_bytes", "gpu_memory_bytes", "throttled", "reason")
        figures = {each: value for each in names if (value := getattr(self, each)) is not None}
        opened = [] if self._end_ns else ["open"]
        return f"Window({', '.join([f'{name}={value!r}' for name, value in figures.items()] + opened)})"


class Meter:
    """One recording of a device's power, which the windows of a process share, from any threads.

    Raises:
        DeviceError: the device is simulated or a table, so that nothing really runs on it.
    """

    def __init__(self, device: Device) -> None:
        if not isinstance(device.source, LiveSource) or device.simulated:
            raise DeviceError(
                f"{device.name} is simulated or a table, and a program does not run on it",
                "measure on host, jetson or nvidia:0",
            )
        self.device = device
        self.recording: PowerRecording | None = None
        self._stack = ExitStack()
        self._lock = threading.Lock()
        self._begun = self._open = 0

    def __enter__(self) -> Meter:
        if not isinstance(self.device.power, Absent):
            self.recording = self._stack.enter_context(self.device.power.record())
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def begin(self, window: Window) -> None:
        """Begin a window once the GPU has finished what was begun before it."""
        _synchronise()
        with self._lock:
            window.overlapped = self._open > 0
            self._begun += 1
            self._open += 1
            window._serial = self._begun
        window._start_ns = self.device.clock.now_ns()

    def end(self, window: Window) -> None:
        """End a window once the GPU has finished its work."""
        try:
            _synchronise()
        finally:
            window._end_ns = self.device.clock.now_ns()
            with self._lock:
                self._open -= 1
                window.overlapped |= self._begun > window._serial

    @contextmanager
    def whole(self, name: str | None = None) -> Iterator[Window]:
        """Measure a window that others may join, with its memory, throttling and other processes."""
        window = Window(self, name)
        throttling, others = ThrottleWatch(self.device), ContentionWatch(self.device, Mode())
        reset = reset_peaks()
        self.begin(window)
        try:
            yield window
        finally:
            self.end(window)
            window.memory_bytes = peak_bytes() if reset else None
            window.gpu_memory_bytes = gpu_peak_bytes()
            window.throttled = throttling.throttled()
            window.note = describe_contention(others.share(), others.throttled_share())

    def figures(self, start_ns: int, end_ns: int) -> PowerFigures | None:
        """Return the power between two readings of the clock; ``None`` without a sensor."""
        power = self.device.power
        if self.recording is None or isinstance(power, Absent):
            return None
        readings: Sequence[PowerReading] = self.recording.readings
        first = max(
            bisect_left(readings, start_ns, key=_time_ns) - 1, 0
        )  # a reading covers the time since the one before it
        inside = readings[first : bisect_right(readings, end_ns, key=_time_ns)]
        return window_figures(inside, start_ns=start_ns, end_ns=end_ns, refresh_s=power.refresh_s)


def _time_ns(reading: PowerReading) -> int:
    return reading.time_ns


def _synchronise() -> None:
    """Wait until PyTorch, if loaded, has finished its work on the GPU."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.synchronize()

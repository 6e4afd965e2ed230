"""Measures the time, power, energy and memory of a part of a program.

synchronise, read the clock | the program's own work | synchronise, read the clock
power readings       .   .   .   .   .   .   .   .   .   .        energy = mean power x time
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from edgetune.artifacts.mode import Mode
from edgetune.devices.capabilities import Absent
from edgetune.devices.device import Device, LiveSource
from edgetune.errors import DeviceError
from edgetune.stages.profiling.disturbances import ContentionWatch, ThrottleWatch, describe_contention
from edgetune.stages.profiling.energy import window_figures

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")
_RESET_PEAK = "5"
"""Written to ``clear_refs``, sets the peak of resident memory (VmHWM) to what is resident now (proc(5))."""


@dataclass(slots=True)
class Window:
    """The figures of a window; each is ``None`` until the window is closed.

    Args:
        time_s: From begin to end, s.
        power_w: Mean power, W; ``None`` with a ``reason`` where there is no sensor or too few fresh readings.
        power_peak_w: The highest reading, W.
        energy_j: Mean power times time, J.
        power_samples: Fresh readings inside the window.
        power_source: What the power covers, e.g. ``ina3221:VDD_IN``.
        memory_bytes: Most memory that this process held at a time, bytes; ``None`` where the kernel does not report it.
        gpu_memory_bytes: Most memory that PyTorch held on its GPU, bytes; ``None`` without CUDA.
        throttled: Whether the device throttled; ``None`` where it has no counter.
        reason: Why a figure is missing or may be off.
    """

    time_s: float | None = None
    power_w: float | None = None
    power_peak_w: float | None = None
    energy_j: float | None = None
    power_samples: int | None = None
    power_source: str | None = None
    memory_bytes: int | None = None
    gpu_memory_bytes: int | None = None
    throttled: bool | None = None
    reason: str | None = None


@contextmanager
def measured_window(device: Device) -> Iterator[Window]:
    """Measure the body of a ``with`` statement on a device.

    Raises:
        DeviceError: the device is simulated or a table, so that nothing really runs on it.
    """
    if not isinstance(device.source, LiveSource) or device.simulated:
        raise DeviceError(
            f"{device.name} cannot run a network: it simulates or looks up", "measure on host, jetson or nvidia:0"
        )
    window = Window()
    throttling, others = ThrottleWatch(device), ContentionWatch(device, Mode())
    with ExitStack() as stack:
        recording = None if isinstance(device.power, Absent) else stack.enter_context(device.power.record())
        _synchronise()
        reset = _reset_peaks()
        others.begin()
        start_ns = device.clock.now_ns()
        yield window
        _synchronise()
        end_ns = device.clock.now_ns()
    window.time_s = (end_ns - start_ns) / 1e9
    window.memory_bytes = _peak_bytes() if reset else None
    window.gpu_memory_bytes = _gpu_peak_bytes()
    window.throttled = throttling.throttled()
    reasons = [describe_contention(others.share())]
    if recording is None or isinstance(device.power, Absent):
        assert isinstance(device.power, Absent)
        reasons.append(f"no power: {device.power.reason}")
    else:
        figures = window_figures(recording.readings, start_ns=start_ns, end_ns=end_ns, refresh_s=device.power.refresh_s)
        window.power_w, window.power_peak_w = figures.power_w, figures.peak_w
        window.power_samples, window.power_source = figures.samples, device.power.source
        window.energy_j = None if figures.power_w is None else figures.power_w * window.time_s
        reasons += [figures.reason, recording.failure]
    window.reason = "; ".join(filter(None, reasons)) or None


def _synchronise() -> None:
    """Wait until PyTorch, if loaded, has finished its work on the GPU."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.synchronize()


def _reset_peaks() -> bool:
    """Reset the peaks of memory; return whether the kernel allowed it."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    try:
        _CLEAR.write_text(_RESET_PEAK)
    except OSError:
        return False
    return True


def _gpu_peak_bytes() -> int | None:
    torch = sys.modules.get("torch")
    return torch.cuda.max_memory_allocated() if torch is not None and torch.cuda.is_available() else None


def _peak_bytes() -> int | None:
    """Return the most memory that was resident since the peak was reset, bytes."""
    for line in _STATUS.read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return None

"""A fake of the kernel's small files, for tests: plain files in a folder, with the refusals of a real kernel.

Files keep written values. A real driver may clamp, refuse or ignore a value: a test requests this by file, and it holds
for root too, although plain files refuse root nothing.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

from edgetune.devices.sysfs import Sysfs


class FakeSysfs(Sysfs):
    """A ``Sysfs`` over an empty folder.

    Attributes:
        writes: Every successful write, in order.
    """

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.writes: list[tuple[str, str]] = []
        self._unreadable: dict[str, int] = {}
        self._unwritable: dict[str, int] = {}
        self._answers: dict[str, Callable[[str], str]] = {}
        self._silent: list[int] = []

    def put(self, path: str, text: str | int) -> None:
        """Make or change a file as the kernel itself does."""
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(f"{text}\n")

    def remove(self, path: str) -> None:
        """Remove a file, as when a driver is unloaded."""
        (self.root / path).unlink()

    def deny_reading(self, path: str, error: int = errno.EACCES) -> None:
        """Refuse to read a file."""
        self._unreadable[path] = error

    def deny_writing(self, path: str, error: int = errno.EACCES) -> None:
        """Refuse to write a file."""
        self._unwritable[path] = error

    def silence(self, path: str) -> None:
        """Give a file no answer, as a pipe whose writer says nothing: EAGAIN, or a wait for ever where reads wait."""
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).unlink(missing_ok=True)
        os.mkfifo(self.root / path)
        self._silent.append(os.open(self.root / path, os.O_RDWR | os.O_NONBLOCK))

    def speak(self) -> None:
        """End the silence of files, with an empty answer."""
        for descriptor in self._silent:
            os.close(descriptor)
        self._silent.clear()

    def answer(self, path: str, keep: Callable[[str], str]) -> None:
        """Keep ``keep(value)`` instead of the value written, as drivers that clamp do."""
        self._answers[path] = keep

    def read(self, path: str) -> str:
        """Return a file's text, unless reading it is denied."""
        self._refuse(self._unreadable, path)
        return super().read(path)

    def write(self, path: str, value: str) -> None:
        """Keep a value, unless writing it is denied."""
        self._refuse(self._unwritable, path)
        super().read(path)  # a knob that is not there cannot be written
        kept = self._answers.get(path, str)(value)
        self.writes.append((path, value))
        self.put(path, kept)

    def writable(self, path: str) -> bool:
        """Whether writing is not denied."""
        return (self.root / path).exists() and path not in self._unwritable

    @staticmethod
    def _refuse(denied: dict[str, int], path: str) -> None:
        if path in denied:
            raise OSError(denied[path], os.strerror(denied[path]), path)


def add_cpufreq(sysfs: FakeSysfs, *, policies: int = 1, khz: tuple[int, ...] = (800_000, 1_600_000, 2_400_000)) -> None:
    """Add cpufreq policies that list their frequencies and refuse, as the kernel does, to let minimum pass maximum."""
    for number in range(policies):
        folder = f"sys/devices/system/cpu/cpufreq/policy{number}"
        sysfs.put(f"{folder}/scaling_available_frequencies", " ".join(map(str, reversed(khz))))
        sysfs.put(f"{folder}/cpuinfo_min_freq", khz[0])
        sysfs.put(f"{folder}/cpuinfo_max_freq", khz[-1])
        sysfs.put(f"{folder}/scaling_min_freq", khz[0])
        sysfs.put(f"{folder}/scaling_max_freq", khz[-1])

        sysfs.answer(f"{folder}/scaling_min_freq", _bounded(sysfs, f"{folder}/scaling_max_freq", highest=True))
        sysfs.answer(f"{folder}/scaling_max_freq", _bounded(sysfs, f"{folder}/scaling_min_freq", highest=False))


def _bounded(sysfs: FakeSysfs, other: str, *, highest: bool) -> Callable[[str], str]:
    """Return an answer that refuses values beyond that of ``other``."""

    def answer(value: str) -> str:
        limit = int(sysfs.read(other))
        if (int(value) > limit) if highest else (int(value) < limit):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), other)
        return value

    return answer


def add_rapl(
    sysfs: FakeSysfs, *, energy_uj: int = 0, range_uj: int = 262_143_328_850, memory: bool = False
) -> list[str]:
    """Add a CPU package with its core domain and optional memory; return the folders that a sensor counts."""
    zones = {"intel-rapl:0": "package-0", "intel-rapl:0:0": "core"}
    if memory:
        zones["intel-rapl:0:1"] = "dram"
    for zone, name in zones.items():
        sysfs.put(f"sys/class/powercap/{zone}/name", name)
        sysfs.put(f"sys/class/powercap/{zone}/energy_uj", energy_uj)
        sysfs.put(f"sys/class/powercap/{zone}/max_energy_range_uj", range_uj)
    return [f"sys/class/powercap/{zone}" for zone, name in zones.items() if name != "core"]

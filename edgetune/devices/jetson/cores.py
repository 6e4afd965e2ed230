"""Which cores are there, which run, and switching them.

Cores that ran when the board was found come first, lowest number first, then those that were off: a preset that leaves
the Denver cluster of a TX2 off keeps it off while its other cores suffice. Elsewhere that means the lowest numbers.
Core 0 is never switched off, nor is one without an ``online`` file, which by that runs. Source: NVIDIA/skills,
jetson-customize-nvpmodel ("CORE_0 cannot be offlined"); Linux drivers/base/cpu.c.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from edgetune.devices.jetson.verified_write import BoardFiles
from edgetune.devices.sysfs import Sysfs, why
from edgetune.errors import DeviceError

FOLDER = "sys/devices/system/cpu"
PATIENCE_S = 1.0
"""How long a core may take to switch, or say that it is busy: a race with another hotplug ends well within."""


@dataclass(frozen=True, slots=True)
class Cores:
    """A board's cores.

    Args:
        numbers: All of them, ascending.
        switchable: Those that can be switched on and off; the others always run.
    """

    numbers: tuple[int, ...]
    switchable: tuple[int, ...]

    @property
    def fixed(self) -> frozenset[int]:
        """Cores that always run."""
        return frozenset(self.numbers) - frozenset(self.switchable)

    @property
    def counts(self) -> tuple[int, ...]:
        """Numbers of cores that can run, ascending."""
        return tuple(range(max(1, len(self.fixed)), len(self.numbers) + 1))

    @property
    def settable(self) -> tuple[str, ...]:
        """Files that switch cores."""
        return tuple(map(online_file, self.switchable))


def online_file(core: int) -> str:
    """Return the file that switches a core."""
    return f"{FOLDER}/cpu{core}/online"


def find_cores(sysfs: Sysfs) -> Cores:
    """Return the board's cores.

    Raises:
        DeviceError: the kernel does not list them.
    """
    try:
        numbers = parse_ranges(sysfs.read(f"{FOLDER}/present"))
    except (OSError, ValueError) as error:
        reason = why(error) if isinstance(error, OSError) else str(error)
        raise DeviceError(f"/{FOLDER}/present does not list the cores: {reason}", "is sysfs mounted at /sys?") from None
    files = set(sysfs.glob(f"{FOLDER}/cpu*/online"))
    return Cores(numbers, tuple(core for core in numbers if core and online_file(core) in files))


def parse_ranges(text: str) -> tuple[int, ...]:
    """Return the numbers of a list such as ``0-3,6`` or ``0 3 4``.

    Raises:
        ValueError: not such a list.
    """
    numbers: set[int] = set()
    for part in text.replace(",", " ").split():
        low, _, high = part.partition("-")
        numbers.update(range(int(low), int(high or low) + 1))
    return tuple(sorted(numbers))


def online(files: BoardFiles, cores: Cores) -> frozenset[int]:
    """Return the cores that run now.

    Raises:
        DeviceError: a core's file cannot be read.
    """
    return cores.fixed | {core for core in cores.switchable if files.read(online_file(core)) == "1"}


def choose(count: int, cores: Cores, found: Mapping[str, str]) -> frozenset[int]:
    """Return which ``count`` cores are to run, in the order that the module describes."""
    ran = {core for core in cores.switchable if found.get(online_file(core)) == "1"} | cores.fixed
    ordered = sorted(cores.numbers, key=lambda core: (core not in cores.fixed, core not in ran, core))
    return frozenset(ordered[:count])


def switch_on(files: BoardFiles, cores: Iterable[int]) -> None:
    """Switch cores on, lowest first.

    Raises:
        DeviceError: one does not come.
    """
    for core in sorted(cores):
        files.set(online_file(core), "1", PATIENCE_S)


def switch_off(files: BoardFiles, cores: Iterable[int]) -> None:
    """Switch cores off, highest first.

    Raises:
        DeviceError: one does not go.
    """
    for core in sorted(cores, reverse=True):
        files.set(online_file(core), "0", PATIENCE_S)

"""Where each generation of Jetsons has its memory clock (EMC), and the cap on it.

    T210               debugfs clk/override.emc: state and rate   cap: emc_iso_cap
    T186, T194, T234   debugfs bpmp clk/emc: lock and rate        cap: emc_iso_cap; from JetPack 6 nvpmodel_clk_cap/emc
    T264               devfreq bwmgr: equal limits                cap: nvpmodel_clk_cap/emc

In ``emc_iso_cap`` 0 is no cap. In ``nvpmodel_clk_cap/emc`` 0 would be the lowest rate; it is never written, nor is the
-1 of nvpmodel's files. Sources: NVIDIA's jetson_clocks; the nvpmodel drivers of Linux for Tegra.
"""

from __future__ import annotations

from dataclasses import dataclass

from edgetune.devices.jetson.emc_rate import LimitedRate, LockedRate
from edgetune.devices.jetson.gpu import CLASS, THOR, devfreq_limits, devfreq_table
from edgetune.devices.jetson.verified_write import BoardFiles
from edgetune.devices.sysfs import Sysfs, why
from edgetune.errors import DeviceError

_DEBUG = "sys/kernel/debug"
_BPMP = f"{_DEBUG}/bpmp/debug"
_T210 = f"{_DEBUG}/clk/override.emc"
_CLK_CAP = "sys/kernel/nvpmodel_clk_cap/emc"
_ISO_CAP = "sys/kernel/nvpmodel_emc_cap/emc_iso_cap"
_BWMGR = f"{CLASS}/bwmgr"
_LEAST_HZ = 10_000_000
"""No Jetson's memory runs at less than 10 MHz or more than 10 GHz: a smaller figure in a table of rates is in kHz."""


@dataclass(frozen=True, slots=True)
class Cap:
    """The file that holds the highest memory rate allowed, Hz; whether 0 in it means none."""

    path: str
    zero_is_none: bool

    def ceiling(self, value: int) -> float:
        """Return what a value of the file allows, Hz; one that is no rate tells nothing."""
        return float("inf") if value <= 0 else value

    def set(self, files: BoardFiles, value: int) -> None:
        """Set the cap unless it is in place.

        Raises:
            DeviceError: it was refused, ignored or changed, or is one that is never written.
        """
        if files.number(self.path) == value:
            return
        if value < 0 or (value == 0 and not self.zero_is_none):
            raise DeviceError(f"/{self.path} is never set to {value}", "it would clamp the memory to its lowest rate")
        files.set(self.path, str(value))


@dataclass(frozen=True, slots=True)
class EmcFiles:
    """Where the memory clock is set.

    Args:
        rate: What holds it.
        cap: What caps it; ``None`` where no file does.
        table_hz: Rates on offer, Hz, ascending.
    """

    rate: LockedRate | LimitedRate
    cap: Cap | None
    table_hz: tuple[int, ...]

    @property
    def settable(self) -> tuple[str, ...]:
        """Files that are written."""
        return (*self.rate.settable, *([] if self.cap is None else [self.cap.path]))


def find_emc(sysfs: Sysfs) -> EmcFiles | str:
    """Return where the memory clock is set, or why it cannot be."""
    cap = next((cap for cap in (Cap(_CLK_CAP, False), Cap(_ISO_CAP, True)) if _readable(sysfs, cap.path)), None)
    thor = bool(sysfs.glob(f"{CLASS}/{THOR}"))
    ways = (
        (_bwmgr, _bpmp) if thor else (_bpmp, _t210)
    )  # an Orin under JetPack 7 has a bwmgr too: the lock is better known
    found = next((found for way in ways if (found := way(sysfs)) is not None), None)
    return _absent(sysfs) if found is None else EmcFiles(found[0], cap, found[1])


def _bwmgr(sysfs: Sysfs) -> tuple[LimitedRate, tuple[int, ...]] | None:
    if not all(_readable(sysfs, f"{_BWMGR}/{name}") for name in ("min_freq", "max_freq", "cur_freq")):
        return None
    table = devfreq_table(sysfs, _BWMGR) or _dvfs_rates(sysfs)
    return (LimitedRate(devfreq_limits(_BWMGR), f"{_BWMGR}/cur_freq"), table) if table else None


def _bpmp(sysfs: Sysfs) -> tuple[LockedRate, tuple[int, ...]] | None:
    folder = f"{_BPMP}/clk/emc"
    lock, rate = f"{folder}/mrq_rate_locked", f"{folder}/rate"
    table = _rates(_words(sysfs, f"{_BPMP}/emc/possible_rates")) or _dvfs_rates(sysfs)
    if not table or not _readable(sysfs, lock) or not _readable(sysfs, rate):
        return None
    helpers = [path for path in (f"{folder}/state", f"{_BPMP}/bwmgr/bwmgr_halt") if _readable(sysfs, path)]
    return LockedRate(lock, rate, rate, tuple(helpers)), table


def _t210(sysfs: Sysfs) -> tuple[LockedRate, tuple[int, ...]] | None:
    """Return the override clock; of its rates the kernel tells only the ends."""
    ends = [_words(sysfs, f"{_DEBUG}/tegra_bwmgr/emc_{end}_rate") for end in ("min", "max")]
    table = _rates([word for words in ends for word in words])
    if not table or not _readable(sysfs, f"{_T210}/clk_state") or not _readable(sysfs, f"{_T210}/clk_rate"):
        return None
    return LockedRate(f"{_T210}/clk_state", f"{_T210}/clk_update_rate", f"{_T210}/clk_rate", ()), table


def _dvfs_rates(sysfs: Sysfs) -> tuple[int, ...]:
    """Return column 2 of the firmware's table; nothing else of its format is published."""
    try:
        lines = sysfs.read(f"{_BPMP}/clk/emc/dvfs").splitlines()
    except OSError:
        return ()
    return _rates([words[1] for line in lines if len(words := line.split()) > 1])


def _rates(words: list[str]) -> tuple[int, ...]:
    """Return the rates among words, Hz, ascending."""
    numbers = {int(word) for word in words if word.isdecimal() and int(word)}
    return tuple(sorted(number * (1000 if number < _LEAST_HZ else 1) for number in numbers))


def _words(sysfs: Sysfs, path: str) -> list[str]:
    try:
        return sysfs.read(path).split()
    except OSError:
        return []


def _readable(sysfs: Sysfs, path: str) -> bool:
    try:
        sysfs.read(path)
    except OSError:
        return False
    return True


def _absent(sysfs: Sysfs) -> str:
    """Say why no memory clock is found: debugfs is not mounted, hidden, or has none."""
    for path in (f"{_BPMP}/emc/possible_rates", f"{_BPMP}/clk/emc/dvfs", f"{_T210}/clk_state"):
        try:
            sysfs.read(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            return f"/{path}: {why(error)}; debugfs needs root, and a kernel that is not locked down"
    if not sysfs.glob(f"{_DEBUG}/*"):
        return f"/{_DEBUG} is empty: as root, mount -t debugfs none /{_DEBUG}"
    return f"/{_DEBUG} has no memory clock of a kind known here"

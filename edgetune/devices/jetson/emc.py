"""The memory clock (EMC): the files of each kernel that pin its rate, and the file of its cap.

A firmware lock or equal limits pin a rate. The rate is then observed for a second, because the firmware may ignore a
successful write and some boards drift off the rate later. Sources:
drivers/firmware/tegra/bpmp-debugfs.c of Linux; NVIDIA's jetson_clocks for the order of the writes.

    T210               debugfs clk/override.emc: state and rate   cap: emc_iso_cap
    T186, T194, T234   debugfs bpmp clk/emc: lock and rate        cap: emc_iso_cap; from JetPack 6 nvpmodel_clk_cap/emc
    T264               devfreq bwmgr: equal limits                cap: nvpmodel_clk_cap/emc

In ``emc_iso_cap`` 0 is no cap. In ``nvpmodel_clk_cap/emc`` 0 would be the lowest rate; it is never written, nor is the
-1 of nvpmodel's files. Sources: NVIDIA's jetson_clocks; the nvpmodel drivers of Linux for Tegra.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from edgetune.devices.board_files import BoardFiles, ClockLimits, LimitFiles, do_all, number_in
from edgetune.devices.control import Snapshot
from edgetune.devices.jetson.gpu import CLASS, THOR, devfreq_limits
from edgetune.devices.sysfs import Sysfs, why
from edgetune.errors import DeviceError

_LOOKS, _LOOK_S = 5, 0.2
"""Five reads in one second verify a rate: it settles in 50 to 200 ms, and drift was observed within the second."""
GRAIN_HZ = 1000
"""The firmware lists its rates in kHz."""
_ADVICE = "the firmware does not hold this rate: choose another; it has fewer under a device tree of another module"


@dataclass(frozen=True, slots=True)
class LockedRate:
    """A memory rate pinned by a lock.

    Args:
        lock: File; 1 pins the rate.
        rate: File that sets the rate, Hz.
        now: File that shows the present rate.
        helpers: Files set to 1, in this order, only where the lock alone does not hold the rate.
    """

    lock: str
    rate: str
    now: str
    helpers: tuple[str, ...]

    @property
    def settable(self) -> tuple[str, ...]:
        """Files that are written."""
        return (self.rate, self.lock, *self.helpers)

    def snapshot(self, files: BoardFiles) -> Snapshot:
        """Return the values of the lock and its helpers, and the rate only if locked, since an unlocked rate varies.

        Raises:
            DeviceError: a file cannot be read.
        """
        locked = files.read(self.lock)
        found: Snapshot = {self.rate: files.read(self.now)} if locked == "1" else {}
        helpers = reversed(self.helpers)
        return {**found, **{path: files.read(path) for path in helpers}, self.lock: locked}

    def held_hz(self, files: BoardFiles) -> int | None:
        """Return the rate, Hz, if it is locked."""
        return files.number(self.now) if files.read(self.lock) == "1" else None

    def hold(self, files: BoardFiles, hz: int) -> None:
        """Lock the rate and verify it for a second.

        Raises:
            DeviceError: a write was refused, or the rate was ignored or drifted off.
        """
        held = self.held_hz(files)
        if held is not None and abs(held - hz) < GRAIN_HZ:
            return
        files.set(self.lock, "1")
        files.write(self.rate, str(hz))
        trouble = _trouble(files, self.now, hz)
        if trouble and self.helpers:
            for helper in self.helpers:
                files.set(helper, "1")
            files.write(self.rate, str(hz))
            trouble = _trouble(files, self.now, hz)
        if trouble:
            raise DeviceError(f"/{self.rate} was set to {hz} but {trouble}", _ADVICE)

    def restore(self, files: BoardFiles, found: Mapping[str, str]) -> None:
        """Restore the rate if it was locked, then the helpers, then the lock.

        Raises:
            DeviceError: a write was refused, or the rate was ignored; everything else was restored.
        """
        steps: list[Callable[[], None]] = []
        if found.get(self.lock) == "1" and self.rate in found:
            steps.append(lambda: self.hold(files, number_in(found, self.rate)))
        for path in (*reversed(self.helpers), self.lock):
            if path in found:
                steps.append(partial(files.set, path, found[path]))
        do_all(*steps)


@dataclass(frozen=True, slots=True)
class LimitedRate:
    """A memory rate pinned by equal limits of a devfreq folder.

    Args:
        limits: Files of the lower and upper limit, Hz.
        now: File that shows the present rate.
    """

    limits: LimitFiles
    now: str

    @property
    def settable(self) -> tuple[str, ...]:
        """Files that are written."""
        return self.limits.paths

    def snapshot(self, files: BoardFiles) -> Snapshot:
        """Return the limits; errors as ``LimitFiles.snapshot``."""
        return self.limits.snapshot(files)

    def held_hz(self, files: BoardFiles) -> int | None:
        """Return the rate, Hz, that the limits pin; ``None`` when they leave a range."""
        return self.limits.pinned(files)

    def hold(self, files: BoardFiles, hz: int) -> None:
        """Set both limits to the rate and verify it for a second.

        Raises:
            DeviceError: a limit was refused, ignored or clamped, or the memory runs at another rate.
        """
        if self.held_hz(files) == hz:
            return
        self.limits.set(files, ClockLimits(hz, hz))
        if trouble := _trouble(files, self.now, hz):
            raise DeviceError(f"/{self.limits.high} was set to {hz} but {trouble}", _ADVICE)

    def restore(self, files: BoardFiles, found: Mapping[str, str]) -> None:
        """Restore the limits; errors as ``LimitFiles.set``."""
        limits = self.limits.in_snapshot(found)
        if limits is not None:
            self.limits.set(files, limits)


def _trouble(files: BoardFiles, path: str, hz: int) -> str:
    """Observe a rate for a second after it was set; return a description of the fault, empty when the rate holds."""
    for look in range(_LOOKS):
        files.sleep(_LOOK_S)
        now = files.number(path)
        if abs(now - hz) >= GRAIN_HZ:
            how = "ignored" if look == 0 else f"it drifted off after {look * _LOOK_S:.1f} s"
            return f"/{path} reads {now}: {how}"
    return ""


_DEBUG = "sys/kernel/debug"
_BPMP = f"{_DEBUG}/bpmp/debug"
_T210 = f"{_DEBUG}/clk/override.emc"
_CLK_CAP = "sys/kernel/nvpmodel_clk_cap/emc"
_ISO_CAP = "sys/kernel/nvpmodel_emc_cap/emc_iso_cap"
_BWMGR = f"{CLASS}/bwmgr"
_LIMITED = ("min_freq", "max_freq", "cur_freq")
_LEAST_HZ = 10_000_000
"""Smaller table entries are in kHz: every Jetson's memory runs between 10 MHz and 10 GHz."""


@dataclass(frozen=True, slots=True)
class Cap:
    """The file of the highest allowed memory rate, Hz, and whether 0 in it means no cap."""

    path: str
    zero_is_none: bool

    def ceiling(self, value: int) -> float:
        """Return the rate that a value of the file allows, Hz; infinity for a value that is not a rate."""
        return float("inf") if value <= 0 else value

    def set(self, files: BoardFiles, value: int) -> None:
        """Set the cap unless already set.

        Raises:
            DeviceError: the value was refused, ignored or changed, or is one that is never written.
        """
        if files.number(self.path) == value:
            return
        if value < 0 or (value == 0 and not self.zero_is_none):
            raise DeviceError(f"/{self.path} is never set to {value}", "it would clamp the memory to its lowest rate")
        files.set(self.path, str(value))


@dataclass(frozen=True, slots=True)
class EmcClock:
    """The memory clock and its cap.

    Args:
        rate: The files that pin the rate.
        cap: The file of the cap; ``None`` where there is none.
        table: Rates on offer, Hz, ascending.
    """

    per_mhz: ClassVar[int] = 1_000_000
    rate: LockedRate | LimitedRate
    cap: Cap | None
    table: tuple[int, ...]

    @property
    def settable(self) -> tuple[str, ...]:
        """Files that are written."""
        return (*self.rate.settable, *([] if self.cap is None else [self.cap.path]))

    def capped_hz(self, files: BoardFiles) -> float:
        """Return the highest rate that the cap allows now, Hz."""
        return float("inf") if self.cap is None else self.cap.ceiling(files.number(self.cap.path))

    def snapshot(self, files: BoardFiles) -> Snapshot:
        """Return the values that pin the rate, and the cap.

        Raises:
            DeviceError: a file cannot be read.
        """
        found = self.rate.snapshot(files)
        if self.cap is not None:
            found[self.cap.path] = files.read(self.cap.path)
        return found

    def restorable(self, found: Mapping[str, str]) -> Snapshot:
        """Return the snapshot without the rate if the snapshot says that the rate was unlocked.

        A snapshot merged from two may hold a rate that only the later one found locked.
        """
        if not isinstance(self.rate, LockedRate) or found.get(self.rate.lock) == "1":
            return dict(found)
        return {path: value for path, value in found.items() if path != self.rate.rate}

    def apply(self, files: BoardFiles, hz: int | None, found: Mapping[str, str]) -> None:
        """Pin the memory to a rate, with the cap as found or raised to the rate; or restore what was found.

        Args:
            files: The board's files.
            hz: Rate, Hz; ``None`` restores what was found.
            found: Snapshot.

        Raises:
            DeviceError: a write was refused, or the rate was ignored or drifted off; the lock is then restored.
        """
        if hz is None:
            self.restore(files, found)
            return
        self._raise_cap(files, hz)
        try:
            self.rate.hold(files, hz)
        except DeviceError:
            with suppress(DeviceError):  # report the first error only
                self.rate.restore(files, found)
            raise
        self._cap_as_found(files, found, at_least_hz=hz)

    def restore(self, files: BoardFiles, found: Mapping[str, str]) -> None:
        """Restore the rate's files, then the cap; a locked rate above the present cap needs the cap raised first.

        Raises:
            DeviceError: a write was refused, or a value ignored or clamped; everything else was restored.
        """
        do_all(
            partial(self._make_room, files, found),
            partial(self.rate.restore, files, found),
            partial(self._cap_as_found, files, found),
        )

    def _make_room(self, files: BoardFiles, found: Mapping[str, str]) -> None:
        if isinstance(self.rate, LockedRate) and self.rate.rate in found:
            self._raise_cap(files, number_in(found, self.rate.rate))

    def _raise_cap(self, files: BoardFiles, hz: int) -> None:
        if self.cap is not None and self.capped_hz(files) < hz:
            self.cap.set(files, hz)

    def _cap_as_found(self, files: BoardFiles, found: Mapping[str, str], at_least_hz: int = 0) -> None:
        if self.cap is not None and self.cap.path in found:
            value = number_in(found, self.cap.path)
            self.cap.set(files, at_least_hz if self.cap.ceiling(value) < at_least_hz else value)

    def now(self, files: BoardFiles, path: str, value: str) -> str:
        """Return the present text of a file; for a locked rate within 1 kHz of ``value``, return ``value``.

        Raises:
            DeviceError: the file cannot be read.
        """
        if not isinstance(self.rate, LockedRate) or path != self.rate.rate:
            return files.read(path)
        now = files.number(self.rate.now)
        return value if value.isdecimal() and abs(now - int(value)) < GRAIN_HZ else str(now)

    def read(self, files: BoardFiles) -> int | None:
        """Return the table rate that the memory is pinned to, Hz; ``None`` when it is not pinned; errors as ``now``."""
        held = self.rate.held_hz(files)
        near = (hz for hz in self.table if held is not None and abs(hz - held) < GRAIN_HZ)
        return next(near, held)


def find_emc(sysfs: Sysfs) -> EmcClock | str:
    """Return the memory clock, or the reason why it cannot be set."""
    cap = next((cap for cap in (Cap(_CLK_CAP, False), Cap(_ISO_CAP, True)) if _readable(sysfs, cap.path)), None)
    thor = bool(sysfs.glob(f"{CLASS}/{THOR}"))
    ways = (_bwmgr, _bpmp) if thor else (_bpmp, _t210)  # Orin on JetPack 7 has bwmgr too; prefer the lock
    found = next((found for way in ways if (found := way(sysfs)) is not None), None)
    return _absent(sysfs) if found is None else EmcClock(found[0], cap, found[1])


def _bwmgr(sysfs: Sysfs) -> tuple[LimitedRate, tuple[int, ...]] | None:
    if not all(_readable(sysfs, f"{_BWMGR}/{name}") for name in _LIMITED):
        return None
    table = sysfs.table(f"{_BWMGR}/available_frequencies") or _dvfs_rates(sysfs)
    return (LimitedRate(devfreq_limits(_BWMGR), f"{_BWMGR}/cur_freq"), table) if table else None


def _bpmp(sysfs: Sysfs) -> tuple[LockedRate, tuple[int, ...]] | None:
    folder = f"{_BPMP}/clk/emc"
    lock, rate = f"{folder}/mrq_rate_locked", f"{folder}/rate"
    table = _rates(sysfs.text(f"{_BPMP}/emc/possible_rates").split()) or _dvfs_rates(sysfs)
    if not table or not _readable(sysfs, lock) or not _readable(sysfs, rate):
        return None
    helpers = [path for path in (f"{folder}/state", f"{_BPMP}/bwmgr/bwmgr_halt") if _readable(sysfs, path)]
    return LockedRate(lock, rate, rate, tuple(helpers)), table


def _t210(sysfs: Sysfs) -> tuple[LockedRate, tuple[int, ...]] | None:
    """Return the override clock and its rates; the kernel lists only the lowest and the highest."""
    ends = [sysfs.text(f"{_DEBUG}/tegra_bwmgr/emc_{end}_rate").split() for end in ("min", "max")]
    table = _rates([word for words in ends for word in words])
    if not table or not _readable(sysfs, f"{_T210}/clk_state") or not _readable(sysfs, f"{_T210}/clk_rate"):
        return None
    return LockedRate(f"{_T210}/clk_state", f"{_T210}/clk_update_rate", f"{_T210}/clk_rate", ()), table


def _dvfs_rates(sysfs: Sysfs) -> tuple[int, ...]:
    """Return column 2 of the firmware's table, the rates; no other column is documented."""
    lines = (sysfs.text(f"{_BPMP}/clk/emc/dvfs") or sysfs.text(f"{_BPMP}/clk/emc/dvfs_table")).splitlines()
    return _rates([words[1] for line in lines if len(words := line.split()) > 1])


def _rates(words: list[str]) -> tuple[int, ...]:
    """Return the words that are rates, Hz, ascending."""
    numbers = {int(word) for word in words if word.isdecimal() and int(word)}
    return tuple(sorted(number * (1000 if number < _LEAST_HZ else 1) for number in numbers))


def _readable(sysfs: Sysfs, path: str) -> bool:
    with suppress(OSError):
        sysfs.read(path)
        return True
    return False


def _absent(sysfs: Sysfs) -> str:
    """Return the reason why no memory clock is found: debugfs is not mounted, is hidden, or lacks the clock."""
    if sysfs.glob(_BWMGR) and (missing := [name for name in _LIMITED if not _readable(sysfs, f"{_BWMGR}/{name}")]):
        return f"/{_BWMGR} lacks {' and '.join(missing)}"
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

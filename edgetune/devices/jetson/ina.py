"""Power monitor chips: where each kernel shows their channels, what these are called, and what they can measure.

An INA3221 watches three rails, an INA238 one: the voltage of the rail, and the current by the drop over a shunt.

    kernel >= 5.10   hwmon, chip told by its ``name`` (hwmon numbers change from boot to boot): in1..3 mV, curr1..3 mA
    kernel 4.9       iio, by the driver's folder: in_voltage0..2 mV, in_current0..2 mA, some with a unit in the text
    Thor's input     INA238 in hwmon: power1 in microwatts

Sources: kernel drivers/hwmon/ina3221.c and ina238.c; NVIDIA's ina3221x iio driver of L4T R32; Texas Instruments data
sheets SBOS576 (INA3221) and SBOSA20 (INA238). in4..7 are shunt voltages and curr4 is a sum that leaves rails out
(``ti,summation-disable``), so they never count as power. Limits, averaging and intervals are read, never written.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from dataclasses import dataclass

from edgetune.devices.sysfs import Sysfs

DEFAULT_REFRESH_S = 0.43
"""What L4T sets at boot where it sets anything: 2 x 140 us x 3 channels x 512 samples (NVIDIA nvpower.sh, R35)."""

_INA238_REFRESH_S = 0.0505
"""Three conversions of 1052 us, 16 averaged (kernel ina238.c, INA238_ADC_CONFIG_DEFAULT 0xfb6a)."""

_SMALLEST_SHUNT_UOHM = 2000
"""AGX Orin's (its device tree); for chips that do not tell theirs, as the bounds are widest with the smallest."""

_FULL_SCALE_NV = 163_800_000
"""Largest drop over a shunt, nV; a value that reaches it is cut off (SBOS576)."""

_OFFSET_NV = 160_000
"""What a rail without current may read, nV: 80 uV offset, 50 uV drift over 100 degrees, rounded up to steps of 40 uV
(SBOS576). Thor's idle GPU has been seen at one step, -0.4 W."""

_HIGHEST_MV = 26_000
"""Upper end of the bus voltage range (SBOS576)."""

_VOLTAGE_OFFSET_MV = 24
"""16 mV offset and 8 mV step of the bus voltage (SBOS576)."""

_INA238_HIGHEST_UW = 85 * _FULL_SCALE_NV * 1000 // _SMALLEST_SHUNT_UOHM
"""85 V times full scale over the smallest shunt (SBOSA20)."""

_UNCONNECTED = frozenset({"", "NC"})
"""Labels of channels without a rail, on BSPs that do not hide them."""

_GONE = frozenset({errno.ENODATA, errno.ENOENT, errno.ENODEV})
"""What a channel that is switched off or not there answers."""


@dataclass(frozen=True, slots=True)
class Register:
    """One number of a chip.

    Args:
        path: Its file.
        unit: SI units in one count: 1e-3 for mV and mA, 1e-6 for uW.
        lowest, highest: Counts that can be true: from ``lowest`` to just below ``highest``.
    """

    path: str
    unit: float
    lowest: int
    highest: int

    def read(self, sysfs: Sysfs) -> int:
        """Return the count.

        Raises:
            OSError: the chip does not answer.
            ValueError: the file does not begin with a number.
        """
        return int(sysfs.read(self.path).partition(" ")[0])

    def believable(self, count: int) -> bool:
        """Whether the chip can have measured this."""
        return self.lowest <= count < self.highest


@dataclass(frozen=True, slots=True)
class Channel:
    """One rail that a chip watches.

    Args:
        chip: ``ina3221`` or ``ina238``.
        label: The rail's name; ``None`` when the kernel does not tell.
        registers: Numbers whose product is power, in the order in which they are read, close together in time.
        refresh_s: How often the chip has a new average, s.
    """

    chip: str
    label: str | None
    registers: tuple[Register, ...]
    refresh_s: float

    def counts(self, sysfs: Sysfs) -> tuple[int, ...]:
        """Read every register.

        Raises:
            OSError, ValueError: one of them does not answer, or not with a number.
        """
        return tuple(register.read(sysfs) for register in self.registers)

    def power_w(self, counts: tuple[int, ...]) -> float | None:
        """Return the power that counts stand for, or ``None`` when the chip cannot have measured them."""
        power_w = 1.0
        for register, count in zip(self.registers, counts, strict=True):
            if not register.believable(count):
                return None
            power_w *= count * register.unit
        return power_w


def find_channels(sysfs: Sysfs) -> list[Channel]:
    """Return every connected channel of every chip, in the order of the chips' folders.

    Raises:
        PermissionError: there are chips, but this user may not read them.
    """
    folders = [path.rpartition("/")[0] for path in sysfs.glob("sys/class/hwmon/hwmon*/name")]
    chips = [(folder, _text(sysfs, f"{folder}/name")) for folder in folders]
    if not any(chip == "ina3221" for _, chip in chips):
        driver = "sys/bus/i2c/drivers/ina3221/*/hwmon/hwmon*/in1_input"
        chips += [(path.rpartition("/")[0], "ina3221") for path in sysfs.glob(driver)]
    channels: list[Channel] = []
    for folder, chip in chips:
        if chip == "ina3221":
            channels.extend(_hwmon(sysfs, folder))
        elif chip == "ina238":
            channels.append(_ina238(sysfs, folder))
    return channels or list(_iio(sysfs))


def _hwmon(sysfs: Sysfs, folder: str) -> Iterator[Channel]:
    """Yield the labelled channels of an INA3221 in hwmon."""
    refresh_s = _refresh_s(sysfs, folder, DEFAULT_REFRESH_S)
    for number in (1, 2, 3):
        label = _text(sysfs, f"{folder}/in{number}_label")
        shunt_uohm = sysfs.read_int(f"{folder}/shunt{number}_resistor")
        registers = _volts_and_amps(f"{folder}/in{number}_input", f"{folder}/curr{number}_input", shunt_uohm)
        if label not in _UNCONNECTED and _answers(sysfs, registers):
            yield Channel("ina3221", label, registers, refresh_s)


def _iio(sysfs: Sysfs) -> Iterator[Channel]:
    """Yield the named channels of the INA3221s of kernel 4.9; its ``*_trigger_input`` would start a conversion."""
    for path in sysfs.glob("sys/bus/i2c/drivers/ina3221x/*/iio:device*/rail_name_*"):
        folder, _, number = path.rpartition("/rail_name_")
        try:
            label = sysfs.read(path)
        except PermissionError:
            raise
        except OSError:  # a rail that does not tell its name is none that can be added up
            continue
        registers = _volts_and_amps(f"{folder}/in_voltage{number}_input", f"{folder}/in_current{number}_input", None)
        if label not in _UNCONNECTED and _answers(sysfs, registers):
            yield Channel("ina3221", label, registers, DEFAULT_REFRESH_S)


def _ina238(sysfs: Sysfs, folder: str) -> Channel:
    """Return the one channel of an INA238; mainline gives it no label."""
    labels = (_text(sysfs, f"{folder}/{name}") for name in ("power1_label", "in1_label", "label"))
    register = Register(f"{folder}/power1_input", 1e-6, 0, _INA238_HIGHEST_UW)
    refresh_s = _refresh_s(sysfs, folder, _INA238_REFRESH_S)
    return Channel("ina238", next(filter(None, labels), None), (register,), refresh_s)


def _volts_and_amps(volts: str, amps: str, shunt_uohm: int | None) -> tuple[Register, ...]:
    """Return the two registers of a rail with what they can hold: a shunt's drop in nV over uohm is a current in mA."""
    shunt = shunt_uohm if shunt_uohm and shunt_uohm > 0 else _SMALLEST_SHUNT_UOHM
    return (
        Register(volts, 1e-3, -_VOLTAGE_OFFSET_MV, _HIGHEST_MV + 1),
        Register(amps, 1e-3, -(_OFFSET_NV // shunt), _FULL_SCALE_NV // shunt),
    )


def _answers(sysfs: Sysfs, registers: tuple[Register, ...]) -> bool:
    """Whether a channel is switched on; one that fails for another reason may answer the next time."""
    for register in registers:
        try:
            register.read(sysfs)
        except PermissionError:
            raise
        except OSError as error:
            if error.errno in _GONE:
                return False
        except ValueError:
            continue
    return True


def _refresh_s(sysfs: Sysfs, folder: str, otherwise_s: float) -> float:
    """Return how often a chip has a new value; its driver works that out of averaging and conversion times."""
    interval_ms = sysfs.read_int(f"{folder}/update_interval")
    return interval_ms / 1000 if interval_ms and interval_ms > 0 else otherwise_s


def _text(sysfs: Sysfs, path: str) -> str:
    """Return the text of a file, empty when there is none."""
    try:
        return sysfs.read(path)
    except OSError:
        return ""

"""The power rails of a board: the chips that measure them, and the rails that add up to the board's power.

An INA3221 measures three rails, an INA238 one: the voltage of a rail, and its current as the drop across a shunt.

    kernel >= 5.10   hwmon, chip identified by ``name`` (hwmon numbers change from boot to boot): in1..3 mV, curr1..3 mA
    kernel 4.9       iio, by the driver's folder: in_voltage0..2 mV, in_current0..2 mA, some with a unit in the text
    Thor's input     INA238 in hwmon: power1 in microwatts

Sources: kernel drivers/hwmon/ina3221.c and ina238.c; NVIDIA's ina3221x iio driver of L4T R32; Texas Instruments data
sheets SBOS576 (INA3221) and SBOSA20 (INA238). in4..7 are shunt voltages and curr4 is a sum that leaves rails out
(``ti,summation-disable``), so they are not used. Limits, averaging and intervals are read, never written.

The power of a board is that of its input rail where measured, else the sum of the rails that feed it:

    Nano, TX2, Xavier NX, Orin NX, Orin Nano, Thor    one input rail that feeds all others
    AGX Xavier                                        six parallel rails
    AGX Orin                                          three or four: see ``VDDQ``

Rails are matched by their exact names, not by substring or chip address: ``VDD_CPU_GPU_CV`` is neither the CPU nor the
GPU. Where no rule matches, there is no total, and the user names the rails.
"""

import errno
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from edgetune.devices.capabilities import Absent
from edgetune.devices.sysfs import Sysfs
from edgetune.errors import DeviceError

DEFAULT_REFRESH_S = 0.43
"""Interval that L4T sets at boot on some boards, s: 2 x 140 us x 3 channels x 512 (NVIDIA nvpower.sh, R35)."""

_INA238_REFRESH_S = 0.0505
"""INA238: three conversions of 1052 us, 16 averaged (kernel ina238.c, INA238_ADC_CONFIG_DEFAULT 0xfb6a)."""

_SMALLEST_SHUNT_UOHM = 2000
"""AGX Orin's shunt (device tree), assumed where a chip's is unknown: the smallest gives the widest bounds."""

_FULL_SCALE_NV = 163_800_000
"""Full-scale drop across a shunt, nV; a value that reaches it is clipped (SBOS576)."""

_OFFSET_NV = 160_000
"""Largest reading without current, nV: 80 uV offset, 50 uV drift over 100 degrees, rounded up to steps of 40 uV
(SBOS576). Thor's idle GPU was observed at one step, -0.4 W."""

_HIGHEST_MV = 26_000
"""Upper end of the bus voltage range (SBOS576)."""

_VOLTAGE_OFFSET_MV = 24
"""16 mV offset and 8 mV step of the bus voltage (SBOS576)."""

_INA238_HIGHEST_UW = 85 * _FULL_SCALE_NV * 1000 // _SMALLEST_SHUNT_UOHM
"""Highest power of INA238, uW: 85 V times full scale over the smallest shunt (SBOSA20)."""

_UNCONNECTED = frozenset({"", "NC"})
"""Labels of unconnected channels, on BSPs that show them."""

_GONE = frozenset({errno.ENODATA, errno.ENOENT, errno.ENODEV})
"""Error numbers of a channel that is switched off or missing."""


@dataclass(frozen=True, slots=True)
class Register:
    """One measured number of a chip.

    Args:
        path: Its file.
        unit: SI units per count: 1e-3 for mV and mA, 1e-6 for uW.
        lowest, highest: Range of possible counts, ``highest`` excluded.
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


@dataclass(frozen=True, slots=True)
class Channel:
    """One rail that a chip watches.

    Args:
        chip: ``ina3221`` or ``ina238``.
        label: The rail's name; ``None`` when the kernel gives none.
        registers: Registers whose product is power, in the order of the reads.
        refresh_s: Interval between new averages of the chip, s.
    """

    chip: str
    label: str | None
    registers: tuple[Register, ...]
    refresh_s: float

    def counts(self, sysfs: Sysfs) -> tuple[int, ...]:
        """Read every register.

        Raises:
            OSError: a register does not answer.
            ValueError: a register's file does not begin with a number.
        """
        return tuple(register.read(sysfs) for register in self.registers)

    def power_w(self, counts: tuple[int, ...]) -> float | None:
        """Return the power of ``counts``, W; ``None`` when a count is impossible."""
        power_w = 1.0
        for register, count in zip(self.registers, counts, strict=True):
            if not register.lowest <= count < register.highest:
                return None
            power_w *= count * register.unit
        return power_w


def find_channels(sysfs: Sysfs) -> list[Channel]:
    """Return every connected channel of every chip, in the order of the chips' folders.

    Raises:
        PermissionError: this user may not read the chips.
    """
    folders = [path.rpartition("/")[0] for path in sysfs.glob("sys/class/hwmon/hwmon*/name")]
    chips = [(folder, sysfs.text(f"{folder}/name")) for folder in folders]
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
        label = sysfs.text(f"{folder}/in{number}_label")
        shunt_uohm = sysfs.read_int(f"{folder}/shunt{number}_resistor")
        registers = _volts_and_amps(f"{folder}/in{number}_input", f"{folder}/curr{number}_input", shunt_uohm)
        if label not in _UNCONNECTED and _answers(sysfs, registers):
            yield Channel("ina3221", label, registers, refresh_s)


def _iio(sysfs: Sysfs) -> Iterator[Channel]:
    """Yield the named channels of INA3221 on kernel 4.9; reading ``*_trigger_input`` would start a conversion."""
    for path in sysfs.glob("sys/bus/i2c/drivers/ina3221x/*/iio:device*/rail_name_*"):
        folder, _, number = path.rpartition("/rail_name_")
        try:
            label = sysfs.read(path)
        except PermissionError:
            raise
        except OSError:  # a rail without a readable name cannot be added up
            continue
        registers = _volts_and_amps(f"{folder}/in_voltage{number}_input", f"{folder}/in_current{number}_input", None)
        if label not in _UNCONNECTED and _answers(sysfs, registers):
            yield Channel("ina3221", label, registers, DEFAULT_REFRESH_S)


def _ina238(sysfs: Sysfs, folder: str) -> Channel:
    """Return the one channel of an INA238; mainline gives it no label."""
    labels = (sysfs.text(f"{folder}/{name}") for name in ("power1_label", "in1_label", "label"))
    register = Register(f"{folder}/power1_input", 1e-6, 0, _INA238_HIGHEST_UW)
    refresh_s = _refresh_s(sysfs, folder, _INA238_REFRESH_S)
    return Channel("ina238", next(filter(None, labels), None), (register,), refresh_s)


def _volts_and_amps(volts: str, amps: str, shunt_uohm: int | None) -> tuple[Register, ...]:
    """Return the two registers of a rail with their ranges: drop in nV / shunt in uohm = current in mA."""
    shunt = shunt_uohm if shunt_uohm and shunt_uohm > 0 else _SMALLEST_SHUNT_UOHM
    return (
        Register(volts, 1e-3, -_VOLTAGE_OFFSET_MV, _HIGHEST_MV + 1),
        Register(amps, 1e-3, -(_OFFSET_NV // shunt), _FULL_SCALE_NV // shunt),
    )


def _answers(sysfs: Sysfs, registers: tuple[Register, ...]) -> bool:
    """Whether a channel is switched on; other read errors count as temporary."""
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
    """Return the refresh interval of a chip, s, which its driver computes from averaging and conversion times."""
    interval_ms = sysfs.read_int(f"{folder}/update_interval")
    return interval_ms / 1000 if interval_ms and interval_ms > 0 else otherwise_s


INPUTS: tuple[str, ...] = ("VDD_IN", "POM_5V_IN", "VIN")
"""Rails that feed a whole module (VIN on Thor also feeds the carrier). Sources: board captures, jetson_stats."""

AGX_XAVIER: tuple[str, ...] = ("GPU", "CPU", "SOC", "CV", "VDDRQ", "SYS5V")
"""Parallel rails, all fed from the module's input (NVIDIA DG-09840-001, figure 5-14)."""

AGX_ORIN: tuple[str, ...] = ("VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0")

VDDQ = "VDDQ_VDD2_1V8AO"
"""Memory and always-on rail of AGX Orin. Whether VIN_SYS_5V0 already contains it is unverified: jetson_stats adds it,
other programs do not. It is left out by default: programs that list NVIDIA's channel descriptions quote "also included
in VIN_SYS_5V0", and boards show it at the voltage of that rail, as expected of a branch of it."""

_VDDQ_NOTE = f"whether VIN_SYS_5V0 already contains {VDDQ} is unverified"

_RULES: tuple[tuple[tuple[str, ...], str | None], ...] = (
    *(((name,), None) for name in INPUTS),
    (AGX_XAVIER, None),
    (AGX_ORIN, _VDDQ_NOTE),
    ((*AGX_ORIN, VDDQ), _VDDQ_NOTE),
)
"""Sums of rails in order of preference, each with a note for the user or ``None``."""


@dataclass(frozen=True, slots=True)
class Total:
    """The rails whose sum is reported as the board's power.

    Args:
        channels: One channel each.
        note: Caveat of the figure.
        others: Other defensible sums on this board, in the form of the ``rails`` option.
    """

    channels: tuple[Channel, ...]
    note: str | None = None
    others: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Labels joined by ``+``, e.g. ``VDD_GPU_SOC+VDD_CPU_CV+VIN_SYS_5V0``."""
        return "+".join(str(channel.label) for channel in self.channels)


def named(channels: Sequence[Channel], soc: str) -> list[Channel]:
    """Return the channels that have a name; name Thor's INA238, which the kernel leaves unnamed, ``VIN``.

    Args:
        channels: All channels of the board.
        soc: The chip, e.g. ``tegra264``.
    """
    nameless = [channel for channel in channels if channel.label is None]
    if soc == "tegra264" and len(nameless) == 1 and nameless[0].chip == "ina238":
        only = nameless[0]
        vin = Channel(only.chip, "VIN", only.registers, only.refresh_s)
        channels = [vin if channel is only else channel for channel in channels]
    return [channel for channel in channels if channel.label is not None]


def choose_total(channels: Sequence[Channel], choice: str | None = None) -> Total | Absent:
    """Return the rails to add up, or the reason why there is no total.

    Args:
        channels: Named channels of the board.
        choice: Rails to add up instead of the preferred ones, joined by ``+``.

    Raises:
        DeviceError: the choice names an unknown rail, a rail twice, or an input together with rails that it feeds.
    """
    by_name = {str(channel.label): channel for channel in channels}
    if choice is not None:
        return _chosen(by_name, choice)
    found = ", ".join(by_name) or "none"
    rules = [(names, note) for names, note in _RULES if set(names) <= set(by_name)]
    if not rules:
        return Absent(f"none of the power rails is known to be the board's input or a part of its sum: {found}")
    names, note = rules[0]
    if len(by_name) < len(channels):
        labels = [channel.label for channel in channels]
        if twice := [name for name in names if labels.count(name) > 1]:
            return Absent(f"two power rails are named {twice[0]}: {', '.join(map(str, labels))}")
    others = tuple("+".join(other) for other, _ in rules[1:]) if note else ()
    return Total(tuple(by_name[name] for name in names), note, others)


def _chosen(by_name: dict[str, Channel], choice: str) -> Total:
    """Return the sum of the rails in the user's choice."""
    names = [name.strip() for name in choice.split("+")]
    hint = f"name rails of this board, joined by +: {', '.join(by_name) or 'it has none'}"
    for name in names:
        if name not in by_name:
            raise DeviceError(f"there is no power rail {name!r} on this board", hint)
    if len(set(names)) < len(names):
        raise DeviceError(f"{choice} counts a power rail twice", hint)
    inputs = [name for name in names if name in INPUTS]
    if inputs and len(names) > 1:
        raise DeviceError(f"{inputs[0]} is the board's input and contains the other rails of {choice}", hint)
    return Total(tuple(by_name[name] for name in names), "rails chosen by the user")

"""Which rails make a board's power: its input where that is measured, else the sum of the rails that feed it.

    Nano, TX2, Xavier NX, Orin NX, Orin Nano, Thor    one input rail, and everything else behind it
    AGX Xavier                                        six rails side by side
    AGX Orin                                          three or four: see ``VDDQ``

Rails are matched by their exact names, as found on the board: ``VDD_CPU_GPU_CV`` is neither the CPU nor the GPU, and
the address of a chip says nothing. Where no rule fits, there is no total, and whoever knows the board names its rails.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edgetune.devices.device import Absent
from edgetune.devices.jetson.ina import Channel
from edgetune.errors import DeviceError

INPUTS: tuple[str, ...] = ("VDD_IN", "POM_5V_IN", "VIN")
"""Rails that feed a whole module (VIN on Thor: the carrier too). Sources: captures on boards, jetson_stats' totals."""

AGX_XAVIER: tuple[str, ...] = ("GPU", "CPU", "SOC", "CV", "VDDRQ", "SYS5V")
"""All fed from the module's input beside each other (NVIDIA DG-09840-001, figure 5-14)."""

AGX_ORIN: tuple[str, ...] = ("VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0")

VDDQ = "VDDQ_VDD2_1V8AO"
"""Memory and always-on rail of AGX Orin. Whether VIN_SYS_5V0 already contains it is unverified: jetson_stats adds it,
others do not. Left out by default: programs that list NVIDIA's channel descriptions quote "also included in
VIN_SYS_5V0", and boards show it at the voltage of that rail, as what hangs from it would be."""

_VDDQ_NOTE = f"whether VIN_SYS_5V0 already contains {VDDQ} is unverified"

_RULES: tuple[tuple[tuple[str, ...], str | None], ...] = (
    *(((name,), None) for name in INPUTS),
    (AGX_XAVIER, None),
    (AGX_ORIN, _VDDQ_NOTE),
    ((*AGX_ORIN, VDDQ), _VDDQ_NOTE),
)
"""Sums, the preferred first, each with what is to be known about it."""


@dataclass(frozen=True, slots=True)
class Total:
    """The rails whose sum is reported as the board's power.

    Args:
        channels: One channel each.
        note: What a reader of the figure should know.
        others: Further sums that would be defensible on this board, as they are asked for.
    """

    channels: tuple[Channel, ...]
    note: str | None = None
    others: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """E.g. ``VDD_GPU_SOC+VDD_CPU_CV+VIN_SYS_5V0``."""
        return "+".join(str(channel.label) for channel in self.channels)


def named(channels: Sequence[Channel], soc: str) -> list[Channel]:
    """Return the channels that have a name; Thor's INA238 is its input, though the kernel gives it none.

    Args:
        channels: As found on the board.
        soc: E.g. ``tegra264``.
    """
    nameless = [channel for channel in channels if channel.label is None]
    if soc == "tegra264" and len(nameless) == 1 and nameless[0].chip == "ina238":
        only = nameless[0]
        vin = Channel(only.chip, "VIN", only.registers, only.refresh_s)
        channels = [vin if channel is only else channel for channel in channels]
    return [channel for channel in channels if channel.label is not None]


def choose_total(channels: Sequence[Channel], choice: str | None = None) -> Total | Absent:
    """Return the rails to add up, or why none are.

    Args:
        channels: Named channels of the board.
        choice: Rails to add up instead of the preferred ones, joined by ``+``.

    Raises:
        DeviceError: the choice names a rail that is not there, one twice, or an input together with what it feeds.
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
    """Return the sum that the user asked for."""
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

"""A power mode: the settings of a board's knobs while a workload runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from edgetune.artifacts.columns import PositiveFloat, PositiveInt

KNOBS: tuple[str, ...] = ("cpu_cores", "cpu_mhz", "gpu_mhz", "mem_mhz", "power_limit_w")
"""Every knob with a number that a mode may set, in the order of profile columns."""
SETTINGS: tuple[str, ...] = (*KNOBS, "power_mode")
"""Everything that tells modes apart: the knobs with numbers, and the name that a table gives a mode."""


@dataclass(frozen=True, slots=True)
class Mode:
    """One setting of the knobs; a knob that the device lacks or that was not varied is ``None``.

    Args:
        cpu_cores: Number of CPU cores online (on a host: cores the workload may use).
        cpu_mhz: CPU clock, MHz.
        gpu_mhz: GPU clock, MHz.
        mem_mhz: Memory (EMC) clock, MHz.
        power_limit_w: Power cap enforced by the device, W.
        power_mode: Name of the mode, e.g. ``30W`` of ``nvpmodel``, where a table states it. A name has no order.
    """

    cpu_cores: PositiveInt | None = None
    cpu_mhz: PositiveFloat | None = None
    gpu_mhz: PositiveFloat | None = None
    mem_mhz: PositiveFloat | None = None
    power_limit_w: PositiveFloat | None = None
    power_mode: str | None = None

    def knobs(self) -> dict[str, float]:
        """Return the numeric knobs that are set, by name, in the order of ``KNOBS``."""
        values = ((name, getattr(self, name)) for name in KNOBS)
        return {name: value for name, value in values if value is not None}

    def settings(self) -> dict[str, Any]:
        """Return all settings by name, in the order of ``SETTINGS``: the knobs and the name of the mode."""
        return self.knobs() | ({} if self.power_mode is None else {"power_mode": self.power_mode})

    @classmethod
    def of(cls, settings: Mapping[str, float | str]) -> Mode:
        """Build a mode from its settings by name; ``cpu_cores`` becomes an integer.

        Raises:
            KeyError: for a name that is not in ``SETTINGS``.
        """
        unknown = set(settings) - set(SETTINGS)
        if unknown:
            raise KeyError(f"unknown knobs {sorted(unknown)}; known: {', '.join(SETTINGS)}")
        cores, named = settings.get("cpu_cores"), settings.get("power_mode")
        return cls(
            cpu_cores=None if cores is None else int(cores),
            **{name: float(value) for name, value in settings.items() if name not in ("cpu_cores", "power_mode")},
            power_mode=None if named is None else str(named),
        )

    def short(self) -> str:
        """Return the settings as beside a mark: ``8c 1036/726/2133``, cores and the clocks of CPU, GPU and memory."""
        clocks = {"CPU": self.cpu_mhz, "GPU": self.gpu_mhz, "mem": self.mem_mhz}
        known = {name: int(mhz) for name, mhz in clocks.items() if mhz is not None}
        parts = [] if self.power_mode is None else [self.power_mode]
        parts += [] if self.cpu_cores is None else [f"{self.cpu_cores}c"]
        parts += ["/".join(map(str, known.values()))] if len(known) == 3 else [f"{n} {mhz}" for n, mhz in known.items()]
        parts += [] if self.power_limit_w is None else [f"{self.power_limit_w:g}W"]
        return " ".join(parts)

    def __str__(self) -> str:
        def clock(mhz: float) -> str:
            return f"{mhz:g} MHz"

        words = {
            "cpu_cores": lambda v: f"{v:g} core{'' if v == 1 else 's'}",
            "cpu_mhz": lambda v: f"CPU {clock(v)}",
            "gpu_mhz": lambda v: f"GPU {clock(v)}",
            "mem_mhz": lambda v: f"memory {clock(v)}",
            "power_limit_w": lambda v: f"limit {v:g} W",
        }
        named = [] if self.power_mode is None else [f"mode {self.power_mode}"]
        return ", ".join(named + [words[name](value) for name, value in self.knobs().items()]) or "as found"

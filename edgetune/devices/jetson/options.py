"""Options of a ``jetson`` device name.

jetson?beyond-caps=on&rails=VDD_GPU_SOC+VDD_CPU_CV&source=jtop
"""

from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import unquote

from edgetune.devices.capabilities import Absent, Clock, PowerSensor
from edgetune.devices.sysfs import Sysfs
from edgetune.errors import InputError
from edgetune.plugins import Registry

POWER_SENSORS: Registry[Callable[[Sysfs, Clock, str, str | None], PowerSensor | Absent]] = Registry(
    "source of power",
    {
        "board": "edgetune.devices.jetson.power:open_board_power",
        "jtop": "edgetune.devices.jetson.power:open_jtop_power",
    },
)
"""Openers of a board's power sensor by the value of ``source=``; arguments: files, clock, SoC and chosen rails."""


_EXAMPLE = "e.g. jetson?beyond-caps=on or jetson?rails=VDD_GPU_SOC+VDD_CPU_CV"


@dataclass(frozen=True, slots=True)
class JetsonOptions:
    """Options of a ``jetson`` device name.

    Args:
        beyond_caps: Offer clocks and cores above what the active power mode allows: NVIDIA's qualified limits.
        rails: Power rails to add up instead of the board's usual total, joined by ``+``.
        source: Power sensor, one of ``POWER_SENSORS``: the board's own files, or a running jetson-stats.
    """

    beyond_caps: bool = False
    rails: str | None = None
    source: str = "board"


def parse_jetson_options(name: str) -> JetsonOptions:
    """Return the options in a Jetson's device name.

    Raises:
        InputError: ``name`` is not a Jetson, or has an unknown option.
    """
    kind, _, query = name.partition("?")
    if kind != "jetson":
        raise InputError(f"unknown device {name!r}", "write jetson")
    given: dict[str, str] = {}
    for part in filter(None, query.split("&")):  # a plus is a plus here: rails are joined by it
        option, _, value = part.partition("=")
        if option in given:
            raise InputError(f"{name!r} gives {option} twice", _EXAMPLE)
        given[option] = unquote(value)
    unknown = sorted(set(given) - {"beyond-caps", "rails", "source"})
    if unknown:
        raise InputError(f"{name!r} has an unknown option {unknown[0]!r}", _EXAMPLE)
    beyond, rails, source = given.get("beyond-caps", "off"), given.get("rails"), given.get("source", "board")
    if beyond not in ("on", "off"):
        raise InputError(f"beyond-caps is on or off, not {beyond!r}", _EXAMPLE)
    if source not in POWER_SENSORS:
        raise InputError(
            f"the source of power is {' or '.join(POWER_SENSORS)}, not {source!r}", "e.g. jetson?source=jtop"
        )
    if rails is not None and (source != "board" or not rails):
        why = f"{source} chooses its own" if rails else "none are named"
        raise InputError(f"rails cannot be chosen: {why}", _EXAMPLE)
    return JetsonOptions(beyond == "on", rails, source)

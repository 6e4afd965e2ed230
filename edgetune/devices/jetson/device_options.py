"""What may be chosen of a Jetson, in its name: ``jetson?beyond-caps=on&rails=VDD_GPU_SOC+VDD_CPU_CV&source=jtop``."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote

from edgetune.errors import InputError

_EXAMPLE = "e.g. jetson?beyond-caps=on or jetson?rails=VDD_GPU_SOC+VDD_CPU_CV"


@dataclass(frozen=True, slots=True)
class JetsonOptions:
    """What the user chose of the board.

    Args:
        beyond_caps: Offer clocks and cores above what the active power mode allows: NVIDIA's qualified limits.
        rails: Power rails to add up instead of the board's usual total, joined by ``+``.
        jtop: Take power from a running jetson-stats service instead of the board's own files.
    """

    beyond_caps: bool = False
    rails: str | None = None
    jtop: bool = False


def parse_jetson_options(name: str) -> JetsonOptions:
    """Return what a device name of this kind asks for.

    Raises:
        InputError: not the name of a Jetson, or an option that it does not have.
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
    if source not in ("board", "jtop"):
        raise InputError(f"the source of power is board or jtop, not {source!r}", "e.g. jetson?source=jtop")
    if rails is not None and (source == "jtop" or not rails):
        why = "jtop chooses its own" if rails else "none are named"
        raise InputError(f"rails cannot be chosen: {why}", _EXAMPLE)
    return JetsonOptions(beyond == "on", rails, source == "jtop")

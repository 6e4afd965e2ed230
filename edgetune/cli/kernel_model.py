"""``--assume host=20us``: numbers of the simulated GPU that no catalogue has, said on the command line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from edgetune.choices import choose
from edgetune.errors import InputError
from edgetune.units import parse_share, parse_time_s

if TYPE_CHECKING:
    from edgetune.elastic.gpu import Gpu
    from edgetune.elastic.model import GpuTimingModel

_TIMES = {"turn": "turn_s", "gap": "gap_s", "host": "host_s"}
_SHARES = {"bandwidth": "bandwidth_sms", "serial": "serial_cost"}
ASSUMED = ("launch", *_TIMES, *_SHARES, "saturating")
"""What can be said: times of the GPU and of the host, shares, and threads."""
_NOTHING = ("0", "0s")


def assumed(words: Sequence[str], gpu: Gpu) -> tuple[Gpu, GpuTimingModel]:
    """Return the GPU and the model with what is assumed of them.

    Args:
        words: Each ``NAME=VALUE``, or several of them with commas between.
        gpu: Of the catalogue.

    Raises:
        InputError: there is no such number, or it is no time, share or number of threads.
    """
    from edgetune.elastic.model import GpuTimingModel

    said: dict[str, Any] = {}
    for word in (each.strip() for listed in words for each in listed.split(",")):
        name, equals, value = word.partition("=")
        if not equals:
            raise InputError(f"--assume: {word!r} has no value", f"e.g. host=20us; known: {', '.join(ASSUMED)}")
        choose(name, ASSUMED, what="assumption")
        what = f"--assume: {name}"
        if name == "launch":
            gpu = replace(gpu, launch_s=_time_s(value, what), source=f"{gpu.source}; launch_s: --assume")
        elif name in _TIMES:
            said[_TIMES[name]] = _time_s(value, what)
        elif name in _SHARES:
            said[_SHARES[name]] = _share(value, what)
        else:
            said["saturating_threads"] = _threads(value, what)
    return gpu, GpuTimingModel(**said)


def _time_s(value: str, what: str) -> float:
    return 0.0 if value in _NOTHING else parse_time_s(value, what=what)


def _share(value: str, what: str) -> float:
    share = parse_share(value, what=what)
    if share == 0 and what.endswith("bandwidth"):
        raise InputError(f"{what} is {value}: no multiprocessor would draw anything", "e.g. bandwidth=50%")
    return share


def _threads(value: str, what: str) -> int:
    if not value.isascii() or not value.isdigit() or int(value) == 0:
        raise InputError(f"{what} is {value!r}", "a number of threads above zero, e.g. saturating=512")
    return int(value)

"""Tables of other programs: the meanings of their columns.

    power_w        as it is                     Power (mW)     power_w, divided by 1000
    latency_ms     minibatch_s, by 1000         gpu_freq_ghz   gpu_mhz, times 1000
    nvpmodel       power_mode                   latency        unknown: no unit says what the figures are

Only unambiguous names are recognised; for any other, ``--column theirs=ours`` states the meaning.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from edgetune.artifacts.columns import UNITS, columns_of
from edgetune.artifacts.profile import ProfileRow

_ALSO: Mapping[str, tuple[str, ...]] = {
    "minibatch_s": (
        "latency", "time", "batch_time", "batch_latency", "minibatch_time", "inference_time", "step_time",
        "latency_mean", "mean_latency", "latency_median", "median_latency",
    ),
    "minibatch_p95_s": ("latency_p95", "p95_latency", "p95"),
    "power_w": ("power_mean", "mean_power", "power_avg", "avg_power", "average_power"),
    "power_peak_w": ("peak_power", "power_max", "max_power"),
    "energy_j": ("energy_per_batch", "energy_per_minibatch"),
    "power_limit_w": ("power_cap",),
    **{
        f"{part}_mhz": tuple(f"{name}{of}" for name in names for of in ("", "_freq", "_frequency", "_clock", "_clk"))
        for part, names in (("cpu", ("cpu",)), ("gpu", ("gpu",)), ("mem", ("mem", "memory", "emc")))
    },
}  # fmt: skip
"""Other names of quantities; they need a unit, e.g. ``latency_ms``."""

_WITHOUT_UNIT: Mapping[str, tuple[str, ...]] = {
    "workload": ("model", "network"),
    "batch_size": ("batch", "bs", "batchsize"),
    "cpu_cores": ("cores", "num_cores", "n_cores"),
    "power_mode": ("mode", "nvpmodel", "nvp_model", "nvpmodel_mode"),
}

OURS: tuple[str, ...] = tuple(column.name for column in columns_of(ProfileRow))
"""Every column of a profile."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """A column of a profile, and the conversion to its unit: multiply by ``times``, then divide by ``over``."""

    column: str
    times: int = 1
    over: int = 1


def normal(name: str) -> str:
    """Return a column's name in normal form: ``Power (mW)`` is ``power_mw``."""
    lower = name.lower().replace("\u00b5", "u").replace("\u03bc", "u")  # micro sign and Greek letter
    return re.sub(r"[^a-z0-9]+", "_", lower).strip("_")


def meaning_of(name: str) -> Meaning | None:
    """Return the meaning of a column's name; ``None`` if it is unknown or ambiguous."""
    spelled = normal(name)
    if spelled in OURS:
        return Meaning(spelled)
    for ours, names in _WITHOUT_UNIT.items():
        if spelled in names:
            return Meaning(ours)
    stem, _, unit = spelled.rpartition("_")
    for ours in OURS:
        units = units_of(ours)
        if unit in units and stem in stems_of(ours):
            return Meaning(ours, *units[unit])
    return None


def stems_of(ours: str) -> tuple[str, ...]:
    """Return the names, without unit, of a profile's column in edgetune and in other programs."""
    return (ours.rpartition("_")[0], *_ALSO.get(ours, ()))


def units_of(ours: str) -> Mapping[str, tuple[int, int]]:
    """Return the accepted units of a profile's column; none for a column without a unit."""
    return next((units for suffix, units in UNITS.items() if ours.endswith(suffix)), {})


def unit_in(name: str, ours: str) -> tuple[int, int] | None:
    """Return the conversion of the unit at the end of a name to that of a profile's column; ``None`` without a unit."""
    return units_of(ours).get(normal(name).rpartition("_")[2])

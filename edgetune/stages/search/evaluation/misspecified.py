"""Twins that break the model of the strategy that is judged on them: tables whose figures follow other laws.

The strategy ``roofline`` fits the law by which the twin makes its figures. So these change each figure of a simulated
table by a factor, in ways that this law cannot express. r is a clock, or the number of cores, over its highest value.

    name        time                                              power
    exponents   x r_gpu^-0.4 r_cpu^-0.2                           x r_gpu^0.6 r_mem^-0.2
    loading     at least 3/8 of the median time over r_cpu^2:     -
                data come slower, and from few cores
    threshold   x 1.35 below 40 % of the memory clock             x 1.15 from 60 % of the GPU clock, x 1.1 from 70 % of
                                                                  the CPU clock: voltage in steps
    falling     -                                                 x 1.4 - 0.4 r_cpu: a core that hurries sleeps earlier

The constants are made up: large enough that a fit of the law is off by 10 to 40 %.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from statistics import median
from types import MappingProxyType

from edgetune.artifacts.profile import ProfileRow

Shares = Mapping[str, float]
"""Clocks and cores of a row over the highest values of its table; 1 where a knob does not vary."""
Law = Callable[[Shares, float], tuple[float, float]]
"""From the shares of a row, and its time over the median time of its batch size, to the factors of time and power."""


def _exponents(r: Shares, relative: float) -> tuple[float, float]:
    del relative
    time = r["gpu_mhz"] ** -0.4 * r["cpu_mhz"] ** -0.2
    return time, r["gpu_mhz"] ** 0.6 * r["mem_mhz"] ** -0.2


def _loading(r: Shares, relative: float) -> tuple[float, float]:
    return max(1.0, 0.375 / r["cpu_mhz"] ** 2 / relative), 1.0


def _threshold(r: Shares, relative: float) -> tuple[float, float]:
    del relative
    power = (1.15 if r["gpu_mhz"] >= 0.6 else 1.0) * (1.1 if r["cpu_mhz"] >= 0.7 else 1.0)
    return 1.35 if r["mem_mhz"] < 0.4 else 1.0, power


def _falling(r: Shares, relative: float) -> tuple[float, float]:
    del relative
    return 1.0, 1.4 - 0.4 * r["cpu_mhz"]


MISSPECIFIED: Mapping[str, Law] = MappingProxyType(
    {"exponents": _exponents, "loading": _loading, "threshold": _threshold, "falling": _falling}
)
"""The laws by name."""
_KNOBS = ("cpu_mhz", "gpu_mhz", "mem_mhz")


def misspecified(rows: Iterable[ProfileRow], name: str) -> tuple[ProfileRow, ...]:
    """Return the rows of one network and task with figures that follow another law; energy is power times time."""
    rows, law = tuple(rows), MISSPECIFIED[name]
    tops = {knob: max((getattr(row, knob) or 0.0 for row in rows), default=0.0) for knob in _KNOBS}
    times: dict[int, list[float]] = {}
    for row in rows:
        if row.minibatch_s is not None:
            times.setdefault(row.batch_size, []).append(row.minibatch_s)
    usual_s = {size: median(found) for size, found in times.items()}
    return tuple(_changed(row, law, tops, usual_s) for row in rows)


def _changed(row: ProfileRow, law: Law, tops: Mapping[str, float], usual_s: Mapping[int, float]) -> ProfileRow:
    if row.minibatch_s is None:
        return row
    shares = {knob: (getattr(row, knob) or top) / top if top else 1.0 for knob, top in tops.items()}
    time, power = law(shares, row.minibatch_s / usual_s[row.batch_size])
    minibatch_s = time * row.minibatch_s
    power_w = None if row.power_w is None else power * row.power_w
    energy_j = None if power_w is None else power_w * minibatch_s
    return replace(row, minibatch_s=minibatch_s, power_w=power_w, energy_j=energy_j)

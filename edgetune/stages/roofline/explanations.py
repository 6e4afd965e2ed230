"""Explanations of the time of a network in the reference mode, and how each part of it slows in other modes.

A network takes 10 ms where its layers at their roofs would take 4. The other 6 may be kernels below their roofs, or a
host that launches them one by one while the accelerator waits or works. In a mode with a slower CPU these differ.

    T(m) / T(ref) = (device(m)^p + host(m)^p)^(1/p)        p = 1: one after the other, p = 4: side by side
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.ops import OpsTable
from edgetune.artifacts.roofline import Roof

Array = NDArray[np.float64]

Follows = Literal["layers", "compute", "memory"]

OVERLAPS = (1.0, 4.0)
"""Powers ``p`` of the sum of two activities: 1 for one after the other; with 4 the longer nearly hides the shorter,
and where they are equal both together take 19 % longer than either."""
STEPS = 4
"""In how many steps the host's part of the time of the reference is thought possible."""
HOST = 0.1
"""The least part that is thought of: no network runs without a host, and one of which nothing is seen
would be thought to run as well at a twentieth of its clock."""
LEAST = 0.5
"""The least that the accelerator works, as a part of what layers take at their roofs, and the most that layers' bounds
are relied on by explanations that doubt them. Roofs are beaten where a runtime fuses layers or a cache keeps tensors,
which saves half of the bytes at most: a layer of which neither input nor output goes to memory is a rare one."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """One possible composition of the time of the reference.

    Args:
        device_share: Share of it in which the accelerator works.
        follows: What that slows with: each layer with its own bound, or most of it with one peak, since kernels are
            seldom at their roofs and a layer below its roof may wait for the other one.
        overlap: See ``OVERLAPS``.
        cores: Whether the host's work is spread over the cores beside the first (loading images), else the first's.
    """

    device_share: float
    follows: Follows
    overlap: float
    cores: bool


def possible_explanations(table: OpsTable, at_roofs_share: float) -> tuple[Explanation, ...]:
    """Return the possible explanations of the reference's time, of which layers at their roofs take a share."""
    kinds: tuple[Follows, ...] = ("layers", "compute", "memory")
    spreads = (False, True) if table.loads_images else (False,)
    return tuple(
        Explanation(share, follows, overlap, cores)
        for overlap in OVERLAPS
        for share in _shares(at_roofs_share * LEAST, overlap)
        for follows in kinds
        for cores in spreads
    )


def _shares(least: float, overlap: float) -> list[float]:
    """Return the accelerator's shares that leave the host so much of the time that it needs at most, and less."""
    longest = (1 - least**overlap) ** (1 / overlap)
    hosts = [max(longest * step / STEPS, HOST) for step in range(STEPS + 1)]
    return [_device(host, overlap) for host in dict.fromkeys(hosts)]


def _device(host_share: float, overlap: float) -> float:
    return float((1 - host_share**overlap) ** (1 / overlap))


def time_ratios(
    explanations: Sequence[Explanation], roofs: Sequence[Roof], here: Roof, at_roofs: Array, at_roofs_share: float
) -> Array:
    """Return the time of every mode as a multiple of the reference's, a row per explanation."""
    compute = here.flops_per_s / np.array([roof.flops_per_s for roof in roofs])
    memory = here.bytes_per_s / np.array([roof.bytes_per_s for roof in roofs])
    known = min(at_roofs_share, LEAST)
    slows = {
        "layers": at_roofs,
        "compute": known * at_roofs + (1 - known) * compute,
        "memory": known * at_roofs + (1 - known) * memory,
    }
    clock = np.array([_ratio(here.mode.cpu_mhz, roof.mode.cpu_mhz) for roof in roofs])
    cores = clock * np.array([_ratio(_others(here.mode), _others(roof.mode)) for roof in roofs])
    found = []
    for one in explanations:
        p = one.overlap
        device = one.device_share * slows[one.follows]
        host = (1 - one.device_share**p) ** (1 / p) * (cores if one.cores else clock)
        found.append((device**p + host**p) ** (1 / p))
    return np.array(found)


def _ratio(here: float | None, there: float | None) -> float:
    return here / there if here and there else 1.0


def _others(mode: Mode) -> float | None:
    """Return the number of cores besides the one that launches kernels."""
    return None if mode.cpu_cores is None else max(mode.cpu_cores - 1, 1)

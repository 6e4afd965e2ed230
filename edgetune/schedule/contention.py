"""What a machine was measured to be, as far as tasks get into each other's way: figures of a header, as a ``Machine``.

    "machine": {"base_bytes": 46e6, "dispatch_s": 3e-5, "load_beside_load": 2.0, "queue_s": 0.004, ...}

Written by ``contention_worker``; a figure that is missing was not measured, and nothing is assumed of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from edgetune.errors import InputError
from edgetune.schedule.simulated import Machine

FIGURES = (
    "base_bytes", "dispatch_s", "load_cpu", "load_beside_load", "queue_s", "load_beside_execute", "execute_beside_load",
    "execute_beside_execute",
)  # fmt: skip
"""Bytes of the process, seconds, the share of a load that computes, and times beside another task as multiples of those
alone."""


def checked_figures(told: object) -> dict[str, float]:
    """Return the figures of a header that are known here.

    Raises:
        InputError: one of them is no finite number of zero or more.
    """
    figures = dict(told) if isinstance(told, Mapping) else {}
    for name in FIGURES:
        value: Any = figures.get(name, 0.0)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
            raise InputError(
                f"the costs say that {name} of the machine is {value!r}",
                "measure it again with edgetune schedule profile",
            )
    return {name: float(figures[name]) for name in FIGURES if name in figures}


def machine_of(figures: Mapping[str, float], cores: int) -> Machine:
    """Return what tasks share on a machine that was measured.

    What two executions lose to each other where there are fewer than two cores is what sharing cores explains; only
    the rest is added to it. The same holds for a load, which computes a part of its time. No task is faster beside
    another: what is measured so is noise.

    Args:
        figures: From ``checked_figures``.
        cores: Of the machine.
    """
    load_cpu = min(figures.get("load_cpu", 0.0), 1.0)
    both, mixed = max(2 / cores, 1.0), max((1 + load_cpu) / cores, 1.0)
    return Machine(
        cores=cores,
        streams=2 / max(figures.get("load_beside_load", 2.0), 1.0),
        load_cpu=load_cpu,
        dispatch_s=figures.get("dispatch_s", 0.0),
        queue_s=figures.get("queue_s", 0.0),
        execute_beside_execute=max(figures.get("execute_beside_execute", 1.0) / both, 1.0),
        execute_beside_load=max(figures.get("execute_beside_load", 1.0) / mixed, 1.0),
        load_beside_execute=max(figures.get("load_beside_execute", 1.0) / mixed, 1.0),
    )

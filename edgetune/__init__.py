"""edgetune: power modes, batch sizes and schedules for neural networks on edge accelerators.

    import edgetune

    table = edgetune.profile("net.onnx", batch_sizes=[1, 4], device="jetson", modes="grid:441", output="net.parquet")
    plan = edgetune.search(table, power_budget="20W", latency_budget="80ms", arrival_rate="60/s")
    with edgetune.measure("jetson") as window:
        train_one_epoch()

What is listed in ``__all__`` is the public interface, see ``edgetune help python``; the rest may move. It is loaded
when it is used first.
"""

import sys
from typing import TYPE_CHECKING, Any

from edgetune.errors import EdgetuneError
from edgetune.version import __version__

if TYPE_CHECKING:
    from edgetune.interface import (
        compare,
        gradient_noise_scale,
        interleave,
        measure,
        profile,
        read,
        report,
        roofline,
        schedule,
        search,
    )

__all__ = [
    "EdgetuneError",
    "__version__",
    "compare",
    "gradient_noise_scale",
    "interleave",
    "measure",
    "profile",
    "read",
    "report",
    "roofline",
    "schedule",
    "search",
    "step",
]


def step() -> None:
    """Mark the end of a training step where ``edgetune profile`` runs the program; do nothing elsewhere.

    A call takes about a microsecond. Of several processes that call it one is timed: the program, else the first.
    """
    if (steps := sys.modules.get("_edgetune_steps")) is not None:
        steps.mark(b"c")


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'edgetune' has no attribute {name!r}")
    from edgetune import interface

    return getattr(interface, name)


def __dir__() -> list[str]:
    return __all__

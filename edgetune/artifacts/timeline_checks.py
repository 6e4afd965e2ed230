"""What holds for the rows of a timeline, beside the order of their times."""

from __future__ import annotations

from edgetune.artifacts.event_checks import EventRules

_NEEDED: dict[str, tuple[str, ...]] = {
    "load": ("network", "layer", "worker", "started_s"),
    "execute": ("network", "layer", "worker", "request", "started_s"),
    "unload": ("network", "layer"),
    "request": ("network", "request", "arrived_s"),
    "budget": ("budget_bytes",),
}

RULES = EventRules(
    above_zero=(),
    not_negative=(
        "turn", "request", "layer_index", "worker", "bytes", "held_bytes", "budget_bytes", "resident_bytes",
        "swap_bytes", "major_faults", "limit_hits", "peak_bytes",
    ),
    needed=tuple((event, column) for event, columns in _NEEDED.items() for column in columns),
)  # fmt: skip

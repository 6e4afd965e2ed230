"""What holds for the rows of a kernel timeline, beside the order of their times."""

from __future__ import annotations

from edgetune.artifacts.event_checks import EventRules

_NEEDED: dict[str, tuple[str, ...]] = {
    "launch": ("task", "request", "launch", "kernel", "count", "blocks", "started_s"),
    "request": ("task", "request", "arrived_s"),
    "residency": ("launch", "sm", "blocks", "started_s"),
}

RULES = EventRules(
    above_zero=("count", "per_thread", "blocks", "threads"),
    not_negative=("turn", "request", "launch", "call", "first", "sm", "launched_s"),
    needed=tuple((event, column) for event, columns in _NEEDED.items() for column in columns),
)

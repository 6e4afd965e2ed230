"""What holds for the rows of a run, beside the order of their times."""

from __future__ import annotations

from edgetune.artifacts.event_checks import EventRules
from edgetune.artifacts.mode import KNOBS

RULES = EventRules(
    above_zero=("batch_size", "power_budget_w", *KNOBS),
    not_negative=("turn", "minibatch", "samples", "power_w"),
    needed=(("request", "arrived_s"), ("request", "started_s"), ("train", "started_s"), ("power", "power_w")),
)

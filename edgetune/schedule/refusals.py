"""What a run refuses: a budget in which a network cannot run, and policies that choose what they must not."""

from __future__ import annotations

from collections.abc import Mapping

from edgetune.errors import EdgetuneError, InfeasibleError
from edgetune.schedule.state import State
from edgetune.schedule.view import LayerTask, SchedulePolicy
from edgetune.units import format_bytes


def check_budget(
    budget_bytes: int, least_bytes: Mapping[str, int], *, beside_bytes: int = 0, margin_bytes: int = 0
) -> None:
    """Check that every network runs in the budget, a layer at a time.

    Args:
        budget_bytes: What may be held for tasks.
        least_bytes: What each network needs at the least, by name.
        beside_bytes: What the process takes beside that: whoever names a memory limit has to add it.
        margin_bytes: By how much more that may be the next time, for the budget that is named.

    Raises:
        InfeasibleError: one does not; the smallest budget that works for all is named, rounded up.
    """
    hungriest = max(least_bytes, key=lambda name: (least_bytes[name], name), default=None)
    if hungriest is None or least_bytes[hungriest] <= budget_bytes:
        return
    needed = least_bytes[hungriest] + beside_bytes + margin_bytes
    unit, name = (2**20, "MiB") if needed >= 10 * 2**20 else (2**10, "KiB")
    beside = f", and {format_bytes(beside_bytes)} are taken before anything is loaded" if beside_bytes else ""
    raise InfeasibleError(
        f"the memory budget of {format_bytes(budget_bytes + beside_bytes)} is too small: network {hungriest} needs "
        f"{format_bytes(least_bytes[hungriest])} for its hungriest layer{beside}",
        f"the smallest budget that works for all networks here is {-(-needed // unit)}{name}",
    )


def illegal(policy: SchedulePolicy, choice: LayerTask, why: str) -> EdgetuneError:
    """Return the error of a policy that chose what cannot start now."""
    what = f"{choice.kind} layer {choice.layer} of {choice.copy} for request {choice.request}"
    return EdgetuneError(f"policy {policy.name} chose to {what}, {why}", "the policy is at fault: choose another")


def stuck(policy: SchedulePolicy, state: State) -> EdgetuneError:
    """Return the error of a policy that starts nothing although nothing else will happen."""
    waits = f"{len(state.requests)} requests wait, the first of them {next(iter(state.requests))}"
    free = f"{format_bytes(max(state.free_bytes, 0))} of {format_bytes(state.budget_bytes)} free"
    return EdgetuneError(
        f"policy {policy.name} starts nothing although nothing runs and {waits}; {free}",
        "the policy is at fault: choose another, or give it more memory",
    )

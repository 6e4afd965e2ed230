"""What a run refuses: a budget in which a network cannot run, and policies that choose what they must not."""

from __future__ import annotations

from edgetune.errors import EdgetuneError, InfeasibleError
from edgetune.schedule.state import State
from edgetune.schedule.view import Policy, Task
from edgetune.units import format_bytes


def check_budget(budget_bytes: int, state: State, networks: set[str]) -> None:
    """Check that every network runs in the budget, a layer at a time.

    Raises:
        InfeasibleError: one does not; the smallest budget that works for all is named, rounded up.
    """
    hungriest = max(networks, key=lambda name: (state.least(name), name), default=None)
    if hungriest is None or state.least(hungriest) <= budget_bytes:
        return
    least = state.least(hungriest)
    unit, name = (2**20, "MiB") if least >= 10 * 2**20 else (2**10, "KiB")
    raise InfeasibleError(
        f"the memory budget of {format_bytes(budget_bytes)} is too small: network {hungriest} needs "
        f"{format_bytes(least)} for its hungriest layer",
        f"the smallest budget that works for all networks here is {-(-least // unit)}{name}",
    )


def illegal(policy: Policy, choice: Task, why: str) -> EdgetuneError:
    """Return the error of a policy that chose what cannot start now."""
    what = f"{choice.kind} layer {choice.layer} of {choice.copy} for request {choice.request}"
    return EdgetuneError(f"policy {policy.name} chose to {what}, {why}", "the policy is at fault: choose another")


def stuck(policy: Policy, state: State) -> EdgetuneError:
    """Return the error of a policy that starts nothing although nothing else will happen."""
    waits = f"{len(state.requests)} requests wait, the first of them {next(iter(state.requests))}"
    free = f"{format_bytes(max(state.free_bytes, 0))} of {format_bytes(state.budget_bytes)} free"
    return EdgetuneError(
        f"policy {policy.name} starts nothing although nothing runs and {waits}; {free}",
        "the policy is at fault: choose another, or give it more memory",
    )

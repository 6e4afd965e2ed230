"""What ``edgetune schedule run --dry-run`` says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from edgetune.units import format_bytes, format_duration

if TYPE_CHECKING:
    from edgetune.cli.schedule_options import ScheduleOptions, ScheduleRun
    from edgetune.cli.schedule_policies import ChosenPolicy
    from edgetune.cli.screen import Screen
    from edgetune.schedule.requests import Request


def report_dry_run(opts: ScheduleOptions, plan: ScheduleRun, requests: Sequence[Request], screen: Screen) -> None:
    """Say what every network takes, what is to be answered, and by which policies."""
    from edgetune.schedule.network import least_budget_bytes

    for each in plan.known:
        network, least = each.network, least_budget_bytes(each.network)
        alone = f", {format_duration(network.service_s)} alone" if each.timed else ""
        screen.info(
            f"{network.name}: {len(network.layers)} layers, {format_bytes(network.weight_bytes)} of weights{alone}; "
            f"runs in {format_bytes(least)}, layer by layer"
        )
    last_s = max((request.arrival_ns for request in requests), default=0) / 1e9
    screen.info(f"{len(requests)} requests, the last after {format_duration(last_s)}; {format_bytes(plan.limit_bytes)}")
    turns = f", {opts.turns} turns each" if opts.turns > 1 else ""
    names = ", ".join(policy.words for policy in plan.policies)
    screen.info(f"{names}{turns}, {'simulated' if opts.simulate else 'for real'}")


def report_memory_taken(policy: ChosenPolicy, taken_bytes: int, limit_bytes: int, screen: Screen) -> None:
    """Say what the process takes that runs a policy, before anything is loaded, where that is known."""
    if taken_bytes:
        what = "ONNX Runtime and the sessions of all layers take" if policy.form == "layers" else "ONNX Runtime takes"
        taken, limit = format_bytes(taken_bytes), format_bytes(limit_bytes)
        screen.info(f"{policy.words}: {what} {taken} of {limit} before anything is loaded")

"""The timeline that ``edgetune schedule run`` writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgetune.artifacts.timeline import Timeline
    from edgetune.cli.schedule_networks import Scenario
    from edgetune.cli.schedule_options import ScheduleOptions, ScheduleRun
    from edgetune.cli.schedule_turns import ScheduleResult


def timeline_of(asked: ScheduleOptions, plan: ScheduleRun, outcome: ScheduleResult) -> Timeline:
    """Return what came of all turns, with what ran under which conditions."""
    from edgetune.artifacts import timeline as timelines
    from edgetune.artifacts.header import Header
    from edgetune.cli.schedule_live import enforced_by, host_conditions

    networks = [
        {
            "name": each.network.name,
            **each.origin,
            "layers": len(each.network.layers),
            "weight_bytes": each.network.weight_bytes,
            **({"service_s": each.network.service_s} if each.timed else {}),
        }
        for each in plan.known
    ]
    shared: Mapping[str, Any] = {
        "simulated": asked.simulate,
        **(_measured_on(plan.scenario) if asked.simulate else host_conditions()),
        "limit_bytes": plan.limit_bytes,
        "workers": plan.workers,
        "safety": plan.safety,
        "policies": outcome.conditions,
        **enforced_by(outcome.conditions.values()),
        "turns": asked.turns,
        "seed": plan.seed,
    }
    header = Header.new(
        timelines.KIND, timelines.VERSION, inputs={"jobs": asked.jobs, "networks": networks}, conditions=shared
    )
    return timelines.Timeline(header, tuple(outcome.rows))


def _measured_on(scenario: Scenario) -> dict[str, str]:
    return {} if scenario.device is None else {"device": scenario.device}

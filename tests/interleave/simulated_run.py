"""A run of the loop on a simulated device, whose minibatches take what their tenants say unless told otherwise."""

from collections.abc import Mapping, Sequence
from typing import Any

from edgetune.serving.arrivals import ArrivalSpec
from edgetune.serving.clock import EventClock
from edgetune.stages.interleave.loop import EngineTurn, InterleaveLoop
from edgetune.stages.interleave.policies.managed import Managed
from edgetune.stages.interleave.simulated import SimulatedDevice, SimulatedMinibatchBackend

NS, MS = 1_000_000_000, 1_000_000


def device_of(tenants: Sequence[Any], duration_ns: Any = None, **device: Any) -> SimulatedMinibatchBackend:
    """A simulated device that holds these tenants."""
    times_ns = {tenant.name: round(tenant.minibatch_s * NS) for tenant in tenants}
    simulated = SimulatedDevice(duration_ns or (lambda name, *_: times_ns[name]), **device)
    return SimulatedMinibatchBackend(EventClock(), tenants, simulated)


def evenly(rate_per_s: float, end_s: float) -> Any:
    """Requests at even distances."""
    return ArrivalSpec("uniform", (rate_per_s,)).source(0, round(end_s * NS))


def simulated(
    tenants: Sequence[Any], sources: Mapping[str, Any], end_s: float, policy: Any = None, *,
    watchers: Sequence[Any] = (), turn: Mapping[str, Any] | None = None, stage: Any = None, **device: Any,
) -> InterleaveLoop:  # fmt: skip
    """Run all of it, ``managed`` without a guard unless told otherwise."""
    turn = EngineTurn("simulated", round(end_s * NS), **(turn or {}))
    stage = stage or device_of(tenants, **device)
    loop = InterleaveLoop(turn, stage, policy or Managed(guard_ns=0), tenants, sources, watchers=watchers)
    loop.run()
    return loop


def of(loop: InterleaveLoop, event: str) -> list[Any]:
    """The rows of one event."""
    return [row for row in loop.rows if row.event == event]

"""The options of ``edgetune interleave``, and what it plans and sets up from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgetune.cli.screen import Screen
from edgetune.workflows.interleave.tenants import TenantOptions

if TYPE_CHECKING:
    from edgetune.artifacts.mode import Mode
    from edgetune.artifacts.run import Engine
    from edgetune.devices.device import Device
    from edgetune.interleave.cycle import Cycle, CycleGoals
    from edgetune.interleave.power import Budgets
    from edgetune.interleave.tenants import Tenant
    from edgetune.serving.arrivals import ArrivalSpec
    from edgetune.workflows.interleave.points import Measuring, TenantMeasurements


@dataclass(frozen=True, slots=True)
class InterleaveOptions:
    """What was asked for, as written on the command line."""

    plan: str | None
    said: TenantOptions
    device: str
    root: str | None
    engine: str | None
    turns: int
    duration: str
    power_budget: str | None
    modes: str | None
    profiles: tuple[str, ...]
    dimensions: tuple[str, ...]
    output: str | None
    plot: str | None
    view: str | None
    seed: int
    adapt: bool = False
    govern: bool = False
    best_effort: bool = False
    explain: bool = False
    dry_run: bool = False
    json: bool = False


@dataclass(frozen=True, slots=True)
class InterleaveJob:
    """What is to run.

    Args:
        tenants: With their batch sizes and times.
        known: The same, with all that was measured of them.
        mode: The power mode.
        specs: How requests arrive, by tenant.
        cycle: Where one workload answers and at most one trains.
        goals: What the cycle was planned for.
        budgets: Of power; ``None`` where there is none.
        tried: Modes that may be tried during the run.
    """

    tenants: tuple[Tenant, ...]
    known: tuple[TenantMeasurements, ...]
    mode: Mode
    specs: dict[str, ArrivalSpec]
    cycle: Cycle | None = None
    goals: CycleGoals | None = None
    budgets: Budgets | None = None
    tried: tuple[Mode, ...] = ()


@dataclass(frozen=True, slots=True)
class InterleaveSetup:
    """What was asked for, where, how the device is to be shared, and what measures there."""

    asked: InterleaveOptions
    device: Device
    engines: Sequence[Engine]
    measure: Measuring
    screen: Screen

    @property
    def simulated(self) -> bool:
        """Whether no figure will be of a device."""
        return self.device.simulated or all(engine == "simulated" for engine in self.engines)

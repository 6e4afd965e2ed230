"""What ``edgetune roofline`` is asked for, and what it tells of one precision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from edgetune.workflows.parse_options import parse_batch_sizes

if TYPE_CHECKING:
    from edgetune.artifacts.layers import Layers
    from edgetune.artifacts.ops import OpsTable
    from edgetune.artifacts.profile import ProfileRow
    from edgetune.artifacts.roofline import Roof, Roofline
    from edgetune.roofline.next_clocks import Change
    from edgetune.roofline.placement import Placement
    from edgetune.workloads.workload import Workload


@dataclass(frozen=True, slots=True)
class RooflineOptions:
    """What was asked for, as written on the command line."""

    model: str | None
    task: str
    device: str
    root: str | None
    modes: str | None
    batch_sizes: str | None
    precision: str | None
    dimensions: tuple[str, ...]
    peaks: str | None
    profile: str | None
    output: str | None
    plot: str | None
    view: str | None
    tune: str | None
    fused: bool
    layers: bool
    quick: bool
    force: bool
    no_measure: bool
    dry_run: bool
    json: bool
    seed: int
    phase: str | None = None
    context: str | None = None
    batch_axis: tuple[str, ...] = ()
    inputs: str | None = None

    @property
    def workload(self) -> Workload:
        """The network; there must be one."""
        from edgetune.workflows.batch_choice import parse_batch_axes
        from edgetune.workloads.resolve import resolve

        assert self.model is not None
        return resolve(self.model, parse_batch_axes(self.batch_axis))

    @property
    def sizes(self) -> tuple[int, ...]:
        """The batch sizes; 1 where none is said."""
        return parse_batch_sizes(self.batch_sizes or "1")


@dataclass(frozen=True, slots=True)
class Placed:
    """What is told of one precision: a device's rooflines, and where a network lies beneath one of them.

    ``tables``, ``placements`` and ``rows`` are one per batch size, and per pass of a language model; empty where there
    is no network. ``layers`` are of the first. ``memory_bytes`` is all that the device has, where that is known.
    ``elsewhere`` is the same network in the other modes asked for, where they are few. ``changes`` are what the next
    clocks change, by the index of the table.
    """

    roofline: Roofline
    roof: Roof
    tables: tuple[OpsTable, ...]
    placements: tuple[Placement, ...]
    rows: tuple[ProfileRow | None, ...]
    layers: Layers | None = None
    memory_bytes: int | None = None
    elsewhere: tuple[Placed, ...] = ()
    changes: Mapping[int, tuple[Change, ...]] = field(default_factory=dict)

    @property
    def measured_j(self) -> tuple[float | None, ...]:
        """Energy of one minibatch as measured, J, one per placement."""
        from edgetune.roofline.slowdown_forecast import energy_of

        return tuple(None if row is None else energy_of(row) for row in self.rows)

    @property
    def everywhere(self) -> tuple[Placed, ...]:
        """This and the network in other modes."""
        return (self, *self.elsewhere)

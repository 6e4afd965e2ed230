"""The result of one precision: the rooflines of a device, and a network beneath one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from edgetune.artifacts.layers import Layers
from edgetune.artifacts.ops import OpsTable
from edgetune.artifacts.profile import ProfileRow
from edgetune.artifacts.roofline import Roof, Roofline
from edgetune.artifacts.row_figures import energy_per_minibatch_j
from edgetune.stages.roofline.balance import sentences, statements
from edgetune.stages.roofline.next_clocks import Change
from edgetune.stages.roofline.placement import Placement


@dataclass(frozen=True, slots=True)
class Placed:
    """The result of one precision: the device's rooflines, and a network beneath one of them.

    Args:
        roofline: The roofline of the device.
        roof: The roof that the network is placed beneath.
        tables, placements, rows: One per batch size, and per pass of a language model; empty without a network.
        layers: The layers of the first table, if timed.
        memory_bytes: Total memory of the device, if known.
        elsewhere: The same network in the other requested modes, if these are few.
        changes: The effects of the next clocks, by the index of the table.
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
        """Measured energy of one minibatch, J, one per placement."""
        return tuple(None if row is None else energy_per_minibatch_j(row) for row in self.rows)

    @property
    def everywhere(self) -> tuple[Placed, ...]:
        """This result and those of other modes."""
        return (self, *self.elsewhere)


def firsts(placements: Sequence[Placement]) -> list[int]:
    """Return the indices of the tables to detail: the first, or for a language model the first of each phase."""
    phases = [None if each.point is None else each.point.phase for each in placements]
    return [phases.index(phase) for phase in dict.fromkeys(phases)]


def statements_of(found: Sequence[Placed]) -> list[str]:
    """Return sentences that hold in all modes of the roofline; none without energy."""
    told = []
    for placed in found:
        alike = [roof for roof in placed.roofline.roofs if roof.precision == placed.roof.precision]
        intensities = [each.flop_per_byte for each in placed.placements if each.flop_per_byte is not None]
        holds = statements(alike, intensities) if len(alike) > 1 else None
        told += [_of(placed, sentence, found) for sentence in (() if holds is None else sentences(holds))]
    return told


def _of(placed: Placed, sentence: str, found: Sequence[Placed]) -> str:
    """Return a sentence, prefixed by its precision if there are several."""
    return sentence if len(found) == 1 else f"{placed.roof.precision}: {sentence}"

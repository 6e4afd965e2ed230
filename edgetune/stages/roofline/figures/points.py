"""Positions of networks and layers in a roofline figure: intensity, and FLOP per second or per joule."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from edgetune.artifacts.layers import Layers
from edgetune.artifacts.roofline import Roof
from edgetune.stages.roofline.balance import costs_of, work_energy
from edgetune.stages.roofline.placement import OperatingPoint, Placement


@dataclass(frozen=True, slots=True)
class PlacedNetwork:
    """A network at one batch size beneath one roof, to be drawn.

    Args:
        placement: Where it lies; with ``measured_s`` its point is drawn as measured.
        layers: Measured times of its layers.
        measured_j: Energy of one minibatch as measured, J.
    """

    placement: Placement
    layers: Layers | None = None
    measured_j: float | None = None


@dataclass(frozen=True, slots=True)
class RooflinePoint:
    """A network or one of its layers as a point.

    Args:
        placement: Of the network.
        key: Of the mark, which the row of a table has too.
        layer: Of a layer its name, else ``None``.
        flop_per_byte: Intensity.
        flops_per_s: Rate reached, or predicted.
        flops_per_j: Efficiency reached, or predicted; ``None`` without energy.
        share: Of a layer its share of the minibatch's time.
        measured: Whether its time was measured; else it is predicted, a network's as the sum over layers.
        energy_measured: Whether its energy was; else it follows from the roof's energy constants and its time.
    """

    placement: Placement
    key: str
    layer: str | None
    flop_per_byte: float
    flops_per_s: float
    flops_per_j: float | None
    share: float | None = None
    measured: bool = True
    energy_measured: bool = False

    @property
    def point(self) -> OperatingPoint | None:
        """Of a language model, the pass."""
        return self.placement.point

    @property
    def network(self) -> str:
        """The name of the network; of a language model, with its pass."""
        return self.placement.workload if self.point is None else f"{self.placement.workload}, {self.point}"


@dataclass(frozen=True, slots=True)
class LayerPoints:
    """The layers of a network, and the number without a place on logarithmic axes: without FLOP, or without bytes.

    Args:
        points: The largest share of time first.
        without_place: How many layers have none, views of no cost not counted.
        without_place_share: Their share of the minibatch's time.
    """

    points: tuple[RooflinePoint, ...]
    without_place: int
    without_place_share: float


@dataclass(frozen=True, slots=True)
class PointSeries:
    """The points of one network beneath one roof, by ascending batch size, of a language model by ascending context.

    ``workload`` names a phase of a language model too, with several batch sizes the context as well.
    """

    workload: str
    roof: Roof
    points: tuple[RooflinePoint, ...]


def series_of(networks: Sequence[PlacedNetwork]) -> list[PointSeries]:
    """Return the points of networks, a series for each network and roof, in the order of their first points."""
    numbered = enumerate(networks)
    points = [point for number, each in numbered if (point := network_point(each, f"n{number}")) is not None]
    several = len({point.placement.batch_size for point in points}) > 1

    def key(point: RooflinePoint) -> tuple[str, Roof]:
        of = point.placement
        return point.network if several or of.point is None else f"{of.workload}, {of.point.phase}", of.roof

    first: dict[tuple[str, Roof], int] = {}
    for point in points:
        first.setdefault(key(point), len(first))
    points.sort(key=lambda p: (first[key(p)], p.placement.batch_size, p.point.context if p.point else 0))
    return [PointSeries(name, roof, tuple(found)) for (name, roof), found in groupby(points, key=key)]


def network_point(network: PlacedNetwork, key: str) -> RooflinePoint | None:
    """Return the point of a network; ``None`` if it computes or moves nothing, as logarithmic axes have no zero."""
    placed = network.placement
    seconds = placed.layers_s if placed.measured_s is None else placed.measured_s
    energy_j = network.measured_j
    if energy_j is None and (costs := costs_of(placed.roof)) is not None:
        energy_j = work_energy(costs, placed.flops, placed.bytes_moved, seconds)
    if not (placed.flops and placed.flop_per_byte and seconds):
        return None
    return RooflinePoint(
        placed, key, None, placed.flop_per_byte, placed.flops / seconds, placed.flops / energy_j if energy_j else None,
        measured=placed.measured_s is not None, energy_measured=network.measured_j is not None,
    )  # fmt: skip


def layer_points(network: PlacedNetwork) -> LayerPoints | None:
    """Return the layers of a network as measured; ``None`` where they were not."""
    if network.layers is None:
        return None
    points, unplaced = list[RooflinePoint](), list[float]()
    costs = costs_of(network.placement.roof)
    for layer in sorted(network.layers.layers, key=lambda layer: layer.seconds, reverse=True):
        flops, moved, seconds = layer.row.flops, layer.row.bytes_moved, layer.seconds
        if flops and moved and seconds:
            energy_j = 0.0 if costs is None else work_energy(costs, flops, moved, seconds)
            found = flops / moved, flops / seconds, flops / energy_j if energy_j else None, layer.share
            points.append(RooflinePoint(network.placement, f"l{len(points)}", layer.row.name, *found))
        elif moved or flops:
            unplaced.append(layer.share)
    return LayerPoints(tuple(points), len(unplaced), sum(unplaced))


def span(values: Sequence[float], pad: float) -> tuple[float, float]:
    """Return the ends of a logarithmic axis of ``values``, with a factor of ``pad`` at either end."""
    known = [value for value in values if value > 0 and math.isfinite(value)]
    return min(known) / pad, max(known) * pad

"""Positions of networks and layers in a roofline figure: intensity, and FLOP per second or per joule."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from edgetune.artifacts.layers import Layers
from edgetune.artifacts.ops import OpRow
from edgetune.artifacts.roofline import Roof
from edgetune.stages.roofline.balance import balance, costs_of, work_energy, work_time
from edgetune.stages.roofline.placement import NOTABLY, Bound, EnergyBound, OperatingPoint, PlacedRow, Placement


@dataclass(frozen=True, slots=True)
class PlacedNetwork:
    """A network at one batch size beneath one roof, to be drawn.

    Args:
        placement: Where it lies; with ``measured_s`` its point is drawn as measured.
        layers: Measured times of its layers; without, layers stand where the roof predicts them.
        measured_j: Energy of one minibatch as measured, J.
    """

    placement: Placement
    layers: Layers | None = None
    measured_j: float | None = None


@dataclass(frozen=True, slots=True)
class RooflinePoint:
    """A network or one of its layers as a point.

    Args:
        workload, batch_size, roof: Of the network.
        layer, op: Of a layer its name and operators, else ``None``.
        flop_per_byte: Intensity.
        flops_per_s: Rate reached, or predicted.
        flops_per_j: Efficiency reached, or predicted; ``None`` without energy.
        seconds: Time of a minibatch, or of this layer in it, s.
        share: Of a layer its share of the minibatch's time.
        bound: What bounds it in time; ``None`` where it was measured above its roof, which then is none.
        energy_bound: What bounds it in energy; ``None`` without energy, too.
        measured: Whether its time was measured; else it is predicted, a network's as the sum over layers.
        energy_measured: Whether its energy was; else it follows from the roof's energy constants and its time.
        point: Of a language model, the pass.
    """

    workload: str
    batch_size: int
    roof: Roof
    layer: str | None
    op: str | None
    flop_per_byte: float
    flops_per_s: float
    flops_per_j: float | None
    seconds: float
    share: float | None
    bound: Bound | None
    energy_bound: EnergyBound | None
    measured: bool
    energy_measured: bool
    point: OperatingPoint | None = None

    @property
    def network(self) -> str:
        """The name of the network; of a language model, with its pass."""
        return self.workload if self.point is None else f"{self.workload}, {self.point}"


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
    points = [point for network in networks if (point := network_point(network)) is not None]
    several = len({point.batch_size for point in points}) > 1

    def key(point: RooflinePoint) -> tuple[str, Roof]:
        return point.network if several or point.point is None else f"{point.workload}, {point.point.phase}", point.roof

    first: dict[tuple[str, Roof], int] = {}
    for point in points:
        first.setdefault(key(point), len(first))
    points.sort(key=lambda point: (first[key(point)], point.batch_size, point.point.context if point.point else 0))
    return [PointSeries(name, roof, tuple(found)) for (name, roof), found in groupby(points, key=key)]


def network_point(network: PlacedNetwork) -> RooflinePoint | None:
    """Return the point of a network; ``None`` if it computes or moves nothing, as logarithmic axes have no zero."""
    placed = network.placement
    seconds = placed.layers_s if placed.measured_s is None else placed.measured_s
    energy_j = network.measured_j
    if energy_j is None and (costs := costs_of(placed.roof)) is not None:
        energy_j = work_energy(costs, placed.flops, placed.bytes_moved, seconds)
    if not (placed.flops and placed.flop_per_byte and seconds):
        return None
    return RooflinePoint(
        workload=placed.workload, batch_size=placed.batch_size, roof=placed.roof, layer=None, op=None,
        flop_per_byte=placed.flop_per_byte, flops_per_s=placed.flops / seconds,
        flops_per_j=placed.flops / energy_j if energy_j else None, seconds=seconds, share=None,
        bound=None if placed.above else placed.bound,
        energy_bound=None if placed.above else placed.energy_bound, measured=placed.measured_s is not None,
        energy_measured=network.measured_j is not None, point=placed.point,
    )  # fmt: skip


def layer_points(network: PlacedNetwork) -> LayerPoints:
    """Return the layers of a network: as measured where their times are known, else as the roof predicts them."""
    points, unplaced = [], []
    for row, seconds, share in _layers(network):
        if row.flops and row.bytes_moved and seconds:
            points.append(_layer_point(network, row, seconds, share))
        elif row.bytes_moved or row.flops:
            unplaced.append(share)
    points.sort(key=lambda point: -(point.share or 0.0))
    return LayerPoints(tuple(points), len(unplaced), sum(unplaced))


def _layers(network: PlacedNetwork) -> list[tuple[OpRow | PlacedRow, float, float]]:
    """Return the work of each layer, its time, s, and its share of the minibatch's time."""
    if network.layers is not None:
        return [(layer.row, layer.seconds, layer.share) for layer in network.layers.layers]
    whole_s = network.placement.layers_s
    return [(row, row.seconds, row.seconds / whole_s) for row in network.placement.rows]


def _layer_point(network: PlacedNetwork, row: OpRow | PlacedRow, seconds: float, share: float) -> RooflinePoint:
    placed = network.placement
    found, costs = balance(placed.roof), costs_of(placed.roof)
    half = None if found.energy is None else found.energy.flop_per_byte
    energy_j = None if costs is None else work_energy(costs, row.flops, row.bytes_moved, seconds)
    flop_per_byte = row.flops / row.bytes_moved
    above = network.layers is not None and work_time(placed.roof, row.flops, row.bytes_moved) > NOTABLY * seconds
    return RooflinePoint(
        workload=placed.workload, batch_size=placed.batch_size, roof=placed.roof, layer=row.name, op=row.op,
        flop_per_byte=flop_per_byte, flops_per_s=row.flops / seconds,
        flops_per_j=row.flops / energy_j if energy_j else None, seconds=seconds, share=share,
        bound=None if above else "compute" if flop_per_byte > found.time else "memory",
        energy_bound=None if half is None or above else "compute" if flop_per_byte >= half else "memory",
        measured=network.layers is not None, energy_measured=False, point=placed.point,
    )  # fmt: skip


def span(values: Sequence[float], pad: float) -> tuple[float, float]:
    """Return the ends of a logarithmic axis of ``values``, with a factor of ``pad`` at either end."""
    known = [value for value in values if value > 0 and math.isfinite(value)]
    return min(known) / pad, max(known) * pad

"""Position of a network beneath a roofline: its bounds in time and in energy.

A network is a row of layers that run one after another. Seen as a whole it has one intensity, and one roof bounds it;
but some of its layers wait for memory and others for arithmetic, and none hides the other's wait. The sum over layers
of what bounds each is therefore never less than the bound of the whole, and nearer to what is measured.

Bounds of a language model by measured roofs: most tokens per second, least joules per token.

    prefill N   a prompt of N tokens at once: many FLOP for each weight read, and the time to the first token
    decode N    one token after N: every weight and the whole cache are read for it

    decode, bound by memory:    tokens/s <= samples * bytes_per_s / (weights + samples * cache of a sequence)

These are bounds, not measurements: a runtime also launches kernels, and few of its kernels reach a roof. A runtime that
fuses operators moves fewer bytes than the operators one by one, so that its activations may take less; weights and
cache, which are most of what decoding moves, are the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from edgetune.artifacts.ops import OpRow, OpsTable, ledger
from edgetune.artifacts.roofline import Roof
from edgetune.errors import InputError
from edgetune.stages.roofline.balance import balance, costs_of, work_energy, work_time


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """One pass of a language model.

    Args:
        phase: ``prefill``, ``decode``, or ``extend`` for several tokens on a cache.
        context: Tokens of a sequence at hand: those of a prefill, else those in the cache.
        tokens: New tokens of all sequences together.
        weights_bytes: What the weights take in memory.
        cache_bytes: What keys and values take after the pass.
    """

    phase: str
    context: int
    tokens: int
    weights_bytes: int
    cache_bytes: int

    def __str__(self) -> str:
        return f"{self.phase} {self.context}"


def operating_point(table: OpsTable) -> OperatingPoint | None:
    """Return the pass that a table costs; ``None`` for other networks and for tables of earlier versions."""
    found: dict[str, Any] = dict(table.header.conditions)
    if table.task != "infer" or "phase" not in found or not all(isinstance(found.get(key), int) for key in _FACTS):
        return None
    return OperatingPoint(str(found["phase"]), *(found[key] for key in _FACTS))


_FACTS = ("context", "tokens", "weights_bytes", "cache_bytes")


Bound = Literal["compute", "memory"]
EnergyBound = Literal["compute", "memory"]
EnergyTerm = Literal["compute", "memory", "static"]

NOTABLY = 1.05
"""Factor above the roof that needs words: peaks repeat to a few percent."""
_STORED_AS = {"tf32": "fp32"}
"""Precisions that compute in one type what is stored in another."""
_NEAREST = {"fp64": "fp32"}
"""Precisions that no kernel measures, and those whose roof stands for theirs."""


def beneath(precision: str) -> str:
    """Return the precision of the roof that arithmetic in ``precision`` is placed beneath."""
    return _STORED_AS.get(precision, _NEAREST.get(precision, precision))


@dataclass(frozen=True, slots=True)
class Roofs:
    """The roofs of one mode: that of a network, and those of the other precisions that some operators compute in.

    Args:
        main: Of the network's precision.
        others: Of the same mode; an operator whose precision has no roof here is judged by the main one.
    """

    main: Roof
    others: tuple[Roof, ...] = ()

    def of(self, row: OpRow) -> Roof:
        """Return the roof that an operator is judged by."""
        if row.precision is None:
            return self.main
        wanted = beneath(row.precision)
        return next((roof for roof in (self.main, *self.others) if beneath(roof.precision) == wanted), self.main)


@dataclass(frozen=True, slots=True)
class PlacedRow:
    """One operator beneath the roof.

    Args:
        name, op, phase: As in its row of the table.
        flops, bytes_moved: Its work.
        flop_per_byte: Intensity; ``None`` when it moves nothing.
        seconds: Least time, s.
        energy_j: Least energy, static power included, J; ``None`` without energy constants.
        bound: What takes most of the time; ``None`` for a view and for an operator of unknown cost.
        precision: Of the roof that it is judged by.
    """

    name: str
    op: str
    phase: str
    flops: int
    bytes_moved: int
    flop_per_byte: float | None
    seconds: float
    energy_j: float | None
    bound: Bound | None
    precision: str


@dataclass(frozen=True, slots=True)
class Placement:
    """A network beneath one roof.

    Args:
        workload, batch_size: Of the operator table.
        roof: The roof.
        flops, bytes_moved: Work of one minibatch; a lower bound when there are ``unmodelled`` operators.
        flop_per_byte: Intensity of the whole; ``None`` when it moves nothing.
        roof_s, roof_j: Least time and energy of the whole, as if it were one kernel; s and J.
        layers_s, layers_j: Sums over layers, each at its own bound: the better prediction.
        bound: What bounds the whole in time.
        energy_bound: In energy: ``compute`` at or above the balance point in energy, static power included.
        largest_energy: The largest term of ``roof_j``: FLOP, bytes, or static power while they are worked through.
        rows: The operators, in the order of the table.
        unmodelled: Types of operators of unknown cost, which no figure above holds.
        unmodelled_nodes: How many nodes they are.
        measured_s: Time of one minibatch as measured, s.
        point: Of a language model, the pass that is placed.
    """

    workload: str
    batch_size: int
    roof: Roof
    flops: int
    bytes_moved: int
    flop_per_byte: float | None
    roof_s: float
    roof_j: float | None
    layers_s: float
    layers_j: float | None
    bound: Bound
    energy_bound: EnergyBound | None
    largest_energy: EnergyTerm | None
    rows: tuple[PlacedRow, ...]
    unmodelled: tuple[str, ...]
    unmodelled_nodes: int
    measured_s: float | None = None
    point: OperatingPoint | None = None

    @property
    def above(self) -> bool:
        """Whether it was measured notably faster than its roof allows: what bounds it is then unknown."""
        return self.measured_s is not None and self.layers_s > NOTABLY * self.measured_s


def place(table: OpsTable, roof: Roof, *, others: Sequence[Roof] = (), measured_s: float | None = None) -> Placement:
    """Return the placement of a network, with each operator beneath the roof of the precision that it computes in.

    Args:
        table: What its operators cost.
        roof: The roof of a mode, in the precision of the table.
        others: Roofs of the same mode in other precisions, for operators that compute in them.
        measured_s: Time of one minibatch as measured, s.

    Raises:
        InputError: no operator has a known cost, or the roof is of another precision.
    """
    require_placeable(table, roof)
    flops, moved = table.flops, table.bytes_moved
    roofs = Roofs(roof, tuple(others))
    rows = tuple(_placed(row, roofs) for row in table.rows)
    compute_s = sum(of_roof / each.flops_per_s for each, of_roof in _flops_by_roof(table.rows, roofs))
    memory_s = moved / roof.bytes_per_s
    roof_s = max(compute_s, memory_s)
    unmodelled = next(entry for entry in ledger(table) if entry.ledger == "unmodelled")
    layers_s = sum(row.seconds for row in rows)
    return Placement(
        workload=table.workload, batch_size=table.batch_size, roof=roof, flops=flops, bytes_moved=moved,
        flop_per_byte=flops / moved if moved else None, roof_s=roof_s, roof_j=_energy(table, roofs, roof_s),
        layers_s=layers_s, layers_j=_energy(table, roofs, layers_s),
        bound="compute" if compute_s > memory_s else "memory", energy_bound=_energy_bound(flops, moved, roof),
        largest_energy=_largest_energy(flops, moved, roof), rows=rows, unmodelled=unmodelled.ops,
        unmodelled_nodes=unmodelled.nodes, measured_s=measured_s, point=operating_point(table),
    )  # fmt: skip


def layers_time(table: OpsTable, roof: Roof) -> float:
    """Return the least time of a network under one roof with each layer at its own bound, s."""
    roofs = Roofs(roof)
    return sum(work_time(roofs.of(row), row.flops, row.bytes_moved) for row in table.rows)


def _flops_by_roof(rows: Sequence[OpRow], roofs: Roofs) -> list[tuple[Roof, int]]:
    found: dict[str, tuple[Roof, int]] = {}
    for row in rows:
        roof = roofs.of(row)
        found[roof.precision] = (roof, found.get(roof.precision, (roof, 0))[1] + row.flops)
    return list(found.values())


def _energy(table: OpsTable, roofs: Roofs, seconds: float) -> float | None:
    """Return the energy of a network that takes ``seconds``, J; ``None`` without energy constants."""
    costs = costs_of(roofs.main)
    if costs is None:
        return None
    flops_j = 0.0
    for roof, flops in _flops_by_roof(table.rows, roofs):
        flops_j += (costs_of(roof) or costs).flop_j * flops
    return flops_j + costs.byte_j * table.bytes_moved + costs.static_w * seconds


def require_work(table: OpsTable) -> None:
    """Refuse a network without known work, which has no place beneath a roof.

    Raises:
        InputError: its operators are views, which do nothing, or none of them has a known cost.
    """
    if table.flops or table.bytes_moved:
        return
    unknown = sorted({row.op for row in table.rows if row.ledger == "unmodelled"})
    views = sorted({row.op for row in table.rows} - set(unknown))
    if unknown:
        why = f"has no operator with a known cost ({', '.join(unknown)})"
    else:
        why = f"computes nothing and moves nothing: it consists of {', '.join(views)}"
    raise InputError(
        f"{table.workload} {why}, so there is nothing to place on a roofline",
        "`edgetune roofline ops` with the same model lists its operators",
    )


def require_placeable(table: OpsTable, roof: Roof) -> None:
    """Refuse a network without known work, or of another precision than its roof.

    Raises:
        InputError: see ``place``.
    """
    require_work(table)
    if beneath(roof.precision) != beneath(table.precision):
        raise InputError(
            f"the operators of {table.workload} are costed in {table.precision}, and the roof is of {roof.precision}",
            "choose a roof of that precision, or cost the network in the other",
        )


def _placed(row: OpRow, roofs: Roofs) -> PlacedRow:
    roof = roofs.of(row)
    moved, seconds, costs = row.bytes_moved, work_time(roof, row.flops, row.bytes_moved), costs_of(roof)
    bound = time_bound(row.flops, moved, roof) if row.flops or moved else None
    return PlacedRow(
        name=row.name, op=row.op, phase=row.phase, flops=row.flops, bytes_moved=moved,
        flop_per_byte=row.flops / moved if moved else None, seconds=seconds,
        energy_j=None if costs is None else work_energy(costs, row.flops, moved, seconds), bound=bound,
        precision=roof.precision,
    )  # fmt: skip


def time_bound(flops: int, bytes_moved: int, roof: Roof) -> Bound:
    """Return which takes longer beneath a roof: computing, or moving the data."""
    return "compute" if flops / roof.flops_per_s > bytes_moved / roof.bytes_per_s else "memory"


def _energy_bound(flops: int, bytes_moved: int, roof: Roof) -> EnergyBound | None:
    found = balance(roof).energy
    if found is None:
        return None
    if found.flop_per_byte is None:
        return "memory"
    return "compute" if flops >= found.flop_per_byte * bytes_moved else "memory"


def _largest_energy(flops: int, bytes_moved: int, roof: Roof) -> EnergyTerm | None:
    costs = costs_of(roof)
    if costs is None:
        return None
    terms: dict[EnergyTerm, float] = {
        "compute": costs.flop_j * flops,
        "memory": costs.byte_j * bytes_moved,
        "static": costs.static_w * work_time(roof, flops, bytes_moved),
    }
    return max(terms, key=lambda term: terms[term])


@dataclass(frozen=True, slots=True)
class TokenBound:
    """The bounds of a roof at one operating point.

    Args:
        name: The point, e.g. ``decode 2048``.
        phase, context, tokens: See ``OperatingPoint``.
        batch_size: Sequences.
        pass_s: Least time of the pass, each layer at its own bound, s.
        first_token_s: The same where it is that of the first token, after a prefill; else ``None``.
        tokens_per_s: At most, of all sequences together.
        token_j: Energy of a token at least, J; ``None`` without energy constants.
        measured_tokens_per_s: As measured; ``None`` where the network was not run.
        weights_bytes, cache_bytes: See ``OperatingPoint``.
        memory_bytes: What the device has; ``None`` where that is not known.
        fits: Whether weights and cache fit into it, activations not counted; ``None`` where that is not known.
    """

    name: str
    phase: str
    context: int
    tokens: int
    batch_size: int
    pass_s: float
    first_token_s: float | None
    tokens_per_s: float
    token_j: float | None
    measured_tokens_per_s: float | None
    weights_bytes: int
    cache_bytes: int
    memory_bytes: int | None
    fits: bool | None


def token_bound(placement: Placement, *, memory_bytes: int | None = None) -> TokenBound | None:
    """Return the bounds by the roof of a placement; ``None`` for a network other than a language model.

    Args:
        placement: One pass beneath the roof.
        memory_bytes: Memory of the device, where that is known.
    """
    point = placement.point
    if point is None or not point.tokens or not placement.layers_s:
        return None
    needed = point.weights_bytes + point.cache_bytes
    return TokenBound(
        name=str(point), phase=point.phase, context=point.context, tokens=point.tokens,
        batch_size=placement.batch_size, pass_s=placement.layers_s,
        first_token_s=placement.layers_s if point.phase == "prefill" else None,
        tokens_per_s=point.tokens / placement.layers_s,
        token_j=None if placement.layers_j is None else placement.layers_j / point.tokens,
        measured_tokens_per_s=point.tokens / placement.measured_s if placement.measured_s else None,
        weights_bytes=point.weights_bytes, cache_bytes=point.cache_bytes, memory_bytes=memory_bytes,
        fits=None if memory_bytes is None else needed <= memory_bytes,
    )  # fmt: skip

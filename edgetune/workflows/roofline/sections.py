"""The answers of ``edgetune roofline`` as sections, on a page or on a terminal, and for machines.

The roofs of the device are the section of their artifact, see ``report.tables``; what follows is beneath them: the
network, the tokens of a language model, and the layers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from edgetune.artifacts.yaml_document import plain
from edgetune.plotting.page import Page, SectionWriter
from edgetune.plotting.style import Figure
from edgetune.stages.roofline.balance import balance, race_sentence, sentences, statements, work_time
from edgetune.stages.roofline.clocks import correlations
from edgetune.stages.roofline.figures.figure_data import brief_names
from edgetune.stages.roofline.figures.points import PlacedNetwork
from edgetune.stages.roofline.figures.roofs import roof_figure
from edgetune.stages.roofline.measure import LONGEST_RUN_S
from edgetune.stages.roofline.placement import NOTABLY, Placement, TokenBound, time_bound, token_bound
from edgetune.stages.roofline.tune import POINTS
from edgetune.units import counted, format_si
from edgetune.workflows.report.sections import cell, rows_of
from edgetune.workflows.report.tables import roofline_section, types_of

if TYPE_CHECKING:
    from edgetune.artifacts.layers import Layers
    from edgetune.artifacts.roofline import Roof
    from edgetune.stages.roofline.balance import Statements
    from edgetune.workflows.roofline.option_values import Placed
    from edgetune.workflows.roofline.request import RooflineEstimate

_HOST_BOUND = 10.0
"""Multiple of the least time from which launches and the host bound a network: kernels alone seldom miss their roofs
by so much."""
_BOUNDS = {"compute": "computing", "memory": "waiting for memory", "launch": "launching kernels"}
_EAGER = "bytes are of the device's eager framework; with a kernel each for GELU, attention and the like"
_ABOVE = (
    "layers above their roof: their data was still in a cache, their algorithm does less than is counted "
    "(Winograd's convolutions do), or peaks were measured on a busier device"
)


def plan_section(found: RooflineEstimate, out: SectionWriter) -> None:
    """Write the planned measurements and the most time that they take."""
    where = f"in {found.modes} modes, all sizes in the highest" if found.modes > 1 else "in 1 mode"
    out.answer(f"{len(found.kernels)} kernels in {', '.join(found.precisions)} on {found.device} {where}")
    if found.kernels:
        slow = f"were every kernel as slow as {LONGEST_RUN_S:g} s a run: most are not"
        out.note(f"at most {found.kernels_at_most_s / 60:.0f} min on a machine that is not busy, {slow}")
    if found.tuned_modes:
        out.note(f"then the network in the fastest of {found.tuned_modes} modes and in up to {POINTS} others")
    elif found.network_modes is not None:
        out.note(f"then the network in {counted(found.network_modes, 'mode')}")


def answer_of(found: Sequence[Placed]) -> dict[str, Any]:
    """Return the answer for machines: of several precisions what they share, and that of each."""
    answers = [_answer(placed) for placed in found]
    if len(answers) == 1:
        return answers[0]
    shared = ("device", "simulated", "warnings")
    apart = [{key: value for key, value in each.items() if key not in shared} for each in answers]
    return {**{key: answers[0][key] for key in shared}, "precisions": apart}


def _answer(placed: Placed) -> dict[str, Any]:
    header, layers, holds = placed.roofline.header, placed.layers, _statements(placed)
    return {
        "device": placed.roofline.device,
        "simulated": header.simulated,
        "roof": plain(placed.roof),
        "balance": plain(balance(placed.roof)),
        "statements": [] if holds is None else sentences(holds),
        "correlations": plain(correlations(placed.alike)),
        "warnings": plain(header.warnings),
        "placements": plain(placed.placements),
        "fused_runtime": _of_fused_runtimes(placed),
        "measured_j": list(placed.measured_j),
        "other_modes": [
            {"roof": plain(each.roof), "placements": plain(each.placements), "measured_j": list(each.measured_j)}
            for each in placed.elsewhere
        ],
        "tokens": plain(_token_bounds(placed)) or None,
        "layers": None if layers is None else plain(layers.layers),
        "layers_explained_share": None if layers is None else layers.explained_share,
    }


def _statements(placed: Placed) -> Statements | None:
    """Return what holds in all modes of the roofline, for the network; ``None`` for a single mode."""
    intensities = [each.flop_per_byte for each in placed.placements if each.flop_per_byte is not None]
    return statements(placed.alike, intensities) if len(placed.alike) > 1 else None


def network_section(found: Sequence[Placed], out: SectionWriter) -> None:
    """Write a row per roof and batch size, what bounds the network, its tokens and its layers."""
    everywhere = [each for placed in found for each in placed.everywhere]
    names, several = brief_names([each.roof for each in everywhere]), len(everywhere) > 1
    figures: dict[str, Callable[[tuple[Placed, Placement]], object]] = {
        "roof": lambda of: names[of[0].roof] if several else None,
        "pass": lambda of: of[1].point,
        "batch>": lambda of: str(of[1].batch_size),
        "FLOP>": lambda of: format_si(of[1].flops, ""),
        "bytes>": lambda of: None if several else format_si(of[1].bytes_moved, "B"),  # in 80 columns
        "FLOP/byte>": lambda of: cell(of[1].flop_per_byte, ".4g"),
        "least time>": lambda of: format_si(of[1].layers_s, "s"),
        "measured>": lambda of: cell(of[1].measured_s, lambda measured_s: format_si(measured_s, "s")),
        "reached>": lambda of: cell(of[1].measured_s, lambda measured_s: _of_roof(of[1].layers_s / measured_s)),
        "time": lambda of: _time_bound(of[1]),
        "energy": lambda of: _energy_bound(of[1]),
    }
    rows = [(each, placement) for each in everywhere for placement in each.placements]
    beneath = "its roofs" if several else f"{found[0].roof.precision} at {found[0].roof.mode}"
    out.heading(f"{rows[0][1].workload} beneath {beneath}")
    out.table(*rows_of(figures, rows), keys=[f"n{number}" for number in range(len(rows))])
    for placed in found:
        named = f"{names[placed.roof]}: " if several else ""
        for sentence in _sentences(placed):
            out.note(f"{named}{sentence}")
    out.figure(lambda: placed_figure(found), "the network beneath the roofs")
    _write_tokens(found, out)
    for placed in found:
        if placed.layers is not None:
            _write_layers(placed.layers, placed.roof, out)


def _sentences(placed: Placed) -> list[str]:
    """Return what bounds a network: the first batch size, or for a language model the first of each phase."""
    told = types_of(placed.tables[0])
    if fused := _of_fused_runtimes(placed):
        each = "batch {batch_size} {moved}, {flop_per_byte:.4g} FLOP/byte, {bound}-bound"
        told.append(
            f"{_EAGER}: {'; '.join(each.format(**of, moved=format_si(of['bytes_moved'], 'B')) for of in fused)}"
        )
    phases = [None if each.point is None else each.point.phase for each in placed.placements]
    for phase in dict.fromkeys(phases):
        placement = placed.placements[phases.index(phase)]
        named = "" if placement.point is None else f"{placement.point}: "
        told += [f"{named}{sentence}" for sentence in words(placement, placed.roof)]
    holds = _statements(placed)
    return told if holds is None else [*told, *map(race_sentence, holds.races)]


def placed_figure(found: Sequence[Placed]) -> Figure:
    """Return the figure of the network at every precision, mode and batch size, with its layers if timed.

    Raises:
        InputError: there is nothing to draw.
        DeviceError: matplotlib is missing.
    """
    everywhere, roofline = [each for one in found for each in one.everywhere], found[0].roofline
    networks = [
        PlacedNetwork(placement, None if index else each.layers, measured_j)
        for each in everywhere
        for index, (placement, measured_j) in enumerate(zip(each.placements, each.measured_j, strict=True))
    ]
    roofs = list(dict.fromkeys([*roofline.roofs, *(each.roof for each in everywhere)]))
    layered = next((network for network in networks if network.layers is not None), None)
    return roof_figure(roofs, networks, layers_of=layered, device=roofline.device, simulated=roofline.header.simulated)


def placed_page(found: Sequence[Placed]) -> bytes:
    """Return the page of the roofs and the network beneath them."""
    roofline = found[0].roofline
    page = Page(f"Roofline: {roofline.device}")
    section = page.section("Network beneath the roofs", simulated=roofline.header.simulated)
    placed_sections(found, section)
    return page.data()


def placed_sections(found: Sequence[Placed], out: SectionWriter) -> None:
    """Write the roofs of the device, and the network beneath them if there is one."""
    roofline_section(found[0].roofline, out)
    for warning in found[0].roofline.header.warnings:
        out.note(f"warning: {warning.code}: {warning.advice}")
    if found[0].placements:
        out.space()
        network_section(found, out)


def _of_fused_runtimes(placed: Placed) -> list[dict[str, Any]]:
    """Return what bounds a network of an eager framework in a runtime that has a kernel for each of its operators.

    Nothing where the parts of GELU, attention and the like move no bytes of their own.
    """
    found = []
    for of_network, placement in zip(placed.tables, placed.placements, strict=True):
        conditions: dict[str, Any] = dict(of_network.header.conditions)
        moved = conditions["unfused"]["bytes_moved"] if conditions.get("eager") else placement.bytes_moved
        if moved != placement.bytes_moved:
            bound, intensity = time_bound(placement.flops, moved, placed.roof), placement.flops / moved
            batch = placement.batch_size
            found.append({"batch_size": batch, "bytes_moved": moved, "flop_per_byte": intensity, "bound": bound})
    return found


def _is_host_bound(placement: Placement) -> bool:
    return placement.measured_s is not None and placement.measured_s >= _HOST_BOUND * placement.layers_s


def _time_bound(placement: Placement) -> str | None:
    """Return the bound of the time; ``None`` above the roof, which bounds nothing there."""
    if placement.above:
        return None
    return "host-bound" if _is_host_bound(placement) else f"{placement.bound}-bound"


def _energy_bound(placement: Placement) -> str | None:
    """Return the bound of the energy: static power if a host-bound network spends most energy on it."""
    if placement.energy_bound is None or placement.above:
        return None
    static_j = (placement.roof.static_w or 0.0) * (placement.measured_s or 0.0)
    if _is_host_bound(placement) and placement.layers_j is not None and static_j > placement.layers_j:
        return "static-bound"
    return f"{placement.energy_bound}-bound"


def _of_roof(reached: float) -> str:
    """Return a share of the roof in words; ``above`` where the roof is too low or does not hold."""
    if reached > NOTABLY:
        return "above"
    return f"{reached:.0%}" if reached >= 0.01 else f"{max(reached, 0.0001):.2%}"


def words(placement: Placement, roof: Roof) -> list[str]:
    """Return what bounds a network at one batch size, in sentences."""
    by_bound = {bound: sum(row.seconds for row in placement.rows if row.bound == bound) for bound in _BOUNDS}
    shares = [f"{seconds / placement.layers_s:.0%} {_BOUNDS[b]}" for b, seconds in by_bound.items() if seconds]
    found = [f"at batch {placement.batch_size}, of the least time of its layers {', '.join(shares)}"]
    if placement.unmodelled:
        count = placement.unmodelled_nodes
        have = "operator has no known cost and is" if count == 1 else "operators have no known cost and are"
        found.append(f"{count} {have} left out: {', '.join(placement.unmodelled)}")
    if placement.measured_s is not None:
        found.append(_distance(placement.measured_s / placement.layers_s))
    judged = dict.fromkeys(row.precision for row in placement.rows if row.flops)
    if len(judged) > 1:
        found.append(f"its operators are placed beneath the roofs of {', '.join(judged)}, each by what it computes in")
    if not roof.measured:
        found.append("this mode was not measured: its roof follows from others by their clocks")
    return found


def _distance(over: float) -> str:
    """Return the causes of the ratio of measured to least time, in words."""
    if over * NOTABLY < 1:
        return (
            "it is faster than its roof: peaks measured on a busy machine or by slower kernels are too low (measure "
            "them again without --peaks), or its data stay in caches and layers are fused; its distance to the roof "
            "is not known"
        )
    why = "it reaches its roof, which is known to a few percent"
    if over > NOTABLY:
        why = "the rest is launches, kernels below their roof, and waiting"
    if over >= _HOST_BOUND:
        why = "launching kernels and the host bound it, not its kernels"
    return f"it takes {over:.3g} times the least time: {why}"


def _write_layers(layers: Layers, roof: Roof, out: SectionWriter) -> None:
    """Write the layers, slowest first, and the share of the time that no layer explains."""
    rows, keys, above, placed = [], list[str | None](), False, 0
    for layer in sorted(layers.layers, key=lambda layer: layer.seconds, reverse=True):
        row, seconds = layer.row, layer.seconds
        least_s = work_time(roof, row.flops, row.bytes_moved)
        beaten = least_s > NOTABLY * seconds
        above |= beaten
        rows.append((
            row.name, row.op, f"{layer.share:.1%}", format_si(seconds, "s"),
            f"{layer.intensity:.4g}" if row.bytes_moved else None, _of_roof(least_s / seconds) if seconds else None,
            None if beaten else f"{time_bound(row.flops, row.bytes_moved, roof)}-bound",
        ))  # fmt: skip
        drawn = bool(row.flops and row.bytes_moved and seconds)
        keys.append(f"l{placed}" if drawn else None)
        placed += drawn
    out.space()
    out.note(f"{len(rows)} layers, the slowest first, by {layers.measured.source}")
    out.table(("layer", "operator", "share>", "time>", "FLOP/byte>", "of roof>", ""), rows, keys=keys)
    explained = f"{layers.explained_share:.1%} of the time has layers, {layers.unexplained_share:.1%} is unexplained"
    parts = f"{layers.between_share:.1%} between kernels, {layers.inserted_share:.1%} inserted by the runtime"
    for sentence in (f"{explained}: {parts}", *([_ABOVE] if above else []), *layers.measured.cautions):
        out.note(sentence)


def _token_bounds(placed: Placed) -> list[TokenBound]:
    """Return the bounds of a language model at each operating point; none for any other network."""
    found = (token_bound(each, memory_bytes=placed.memory_bytes) for each in placed.placements)
    return [each for each in found if each is not None]


def _write_tokens(found: Sequence[Placed], out: SectionWriter) -> None:
    """Write the bounds of a language model, and the points that do not fit into memory; nothing for other networks."""
    bounds = [(placed, bound) for placed in found for bound in _token_bounds(placed)]
    if not bounds:
        return
    figures: dict[str, Callable[[tuple[Placed, TokenBound]], str | None]] = {
        "roof": lambda of: of[0].roof.precision if len(found) > 1 else None,
        "pass": lambda of: of[1].name,
        "batch>": lambda of: str(of[1].batch_size),
        "tokens/s <=>": lambda of: _rate(of[1].tokens_per_s),
        "J/token >=>": lambda of: cell(of[1].token_j, lambda joules: format_si(joules, "J")),
        "first token >=>": lambda of: cell(of[1].first_token_s, lambda first_s: format_si(first_s, "s")),
        "measured/s>": lambda of: cell(of[1].measured_tokens_per_s, _rate),
        "cache>": lambda of: format_si(of[1].cache_bytes, "B"),
    }
    out.space()
    out.note("tokens, as the measured roofs bound them: what a runtime reaches is less")
    out.table(*rows_of(figures, bounds))
    weights = {f"weights in {each.roof.precision} take {format_si(bound.weights_bytes, 'B')}" for each, bound in bounds}
    out.note("; ".join(sorted(weights)))
    for bound in dict.fromkeys(bound for _, bound in bounds if bound.fits is False):
        needed, has = bound.weights_bytes + bound.cache_bytes, bound.memory_bytes or 0
        out.note(
            f"note: {bound.name} at batch {bound.batch_size} does not fit: weights and cache take "
            f"{format_si(needed, 'B')}, and the device has {format_si(has, 'B')}"
        )


def _rate(per_s: float) -> str:
    """Return tokens per second, without thousandths of a token."""
    return format_si(per_s, "") if per_s >= 1 else f"{per_s:.3g}"

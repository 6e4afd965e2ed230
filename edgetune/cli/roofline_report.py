"""Prints a roofline: the device, the network beneath it, and what bounds it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from edgetune.cli.roofline_tokens import machine_tokens, of_pass, show_tokens
from edgetune.cli.screen import answer, print_folded, print_lines, table
from edgetune.units import format_si
from edgetune.workflows.cells import cell
from edgetune.workflows.report.tables import types_of
from edgetune.workflows.roofline.network import firsts, statements_of

if TYPE_CHECKING:
    from edgetune.artifacts.layers import Layers
    from edgetune.artifacts.roofline import Roof
    from edgetune.stages.roofline.clocks import Correlation
    from edgetune.stages.roofline.next_clocks import Change, Share
    from edgetune.stages.roofline.placement import Placement
    from edgetune.workflows.roofline.network import Placed


def report(found: Sequence[Placed], *, json: bool) -> None:
    """Print the device's roof of each precision, the network beneath them, and what other clocks would change."""
    if json:
        answer(machine(found[0]) if len(found) == 1 else machine_of_several(found))
        return
    show_device(found)
    if found[0].placements:
        print_lines()
        show_network(found)
        show_tokens(found)
    for placed in found:
        if placed.layers is not None:
            print_lines()
            show_layers(placed.layers, placed.roof)


def machine(placed: Placed) -> dict[str, Any]:
    """Return the answer for machines."""
    from edgetune.artifacts.yaml_document import plain
    from edgetune.stages.roofline.balance import balance

    found = balance(placed.roof)
    return {
        "device": placed.roofline.device,
        "simulated": placed.roofline.header.simulated,
        "roof": plain(placed.roof),
        "balance": plain(found),
        "statements": statements_of([placed]),
        "correlations": [plain(one) for one in _correlations(placed)],
        "warnings": plain(placed.roofline.header.warnings),
        "placements": [plain(placement) for placement in placed.placements],
        "fused_runtime": _of_fused_runtimes(placed),
        "measured_j": list(placed.measured_j),
        "other_modes": [
            {
                "roof": plain(each.roof),
                "placements": [plain(placement) for placement in each.placements],
                "measured_j": list(each.measured_j),
            }
            for each in placed.elsewhere
        ],
        "next_clocks": [plain(change) for index in placed.changes for change in placed.changes[index]],
        "tokens": machine_tokens(placed),
        "layers": None if placed.layers is None else plain(placed.layers.layers),
        "layers_explained_share": None if placed.layers is None else placed.layers.explained_share,
    }


def machine_of_several(found: Sequence[Placed]) -> dict[str, Any]:
    """Return the answer for machines: what all precisions share, and that of each of them."""
    answers = [machine(placed) for placed in found]
    shared = ("device", "simulated", "warnings")
    apart = [{key: value for key, value in each.items() if key not in shared} for each in answers]
    return {**{key: answers[0][key] for key in shared}, "precisions": apart}


def show_device(found: Sequence[Placed]) -> None:
    """Print the roof of each precision, its balance points, and the statements over all measured modes."""
    roofline, roofs = found[0].roofline, [placed.roof for placed in found]
    if len({(roof.mode, roof.measured) for roof in roofs}) == 1:
        heads = [f"{roofline.device}, {', '.join(roof.precision for roof in roofs)}, {_mode(roofs[0])}"]
    else:
        heads = [f"{roofline.device}, {roof.precision}, {_mode(roof)}" for roof in roofs]
    for head in heads:
        print_folded(head)
    if len(roofs) == 1:
        table(("of the device", "value>", ""), _of_roof(roofs[0]))
    else:
        table(("of the device", *(f"{roof.precision}>" for roof in roofs)), _of_roofs(roofs))
    for sentence in statements_of(found):
        print_folded(sentence)
    _show_correlations(found)
    for data_warning in roofline.header.warnings:
        print_folded(f"warning: {data_warning.code}: {data_warning.advice}")


def _mode(roof: Roof) -> str:
    return f"{roof.mode}{'' if roof.measured else ' (inferred)'}"


def _of_roof(roof: Roof) -> list[tuple[str, str, str]]:
    """Return the rows about a roof: name, value, and its meaning or its uncertainty."""
    from edgetune.stages.roofline.balance import balance

    found = balance(roof)
    rows = [
        ("peak of computing", f"{format_si(roof.flops_per_s, 'FLOP/s')}", ""),
        ("peak of memory", f"{format_si(roof.bytes_per_s, 'B/s')}", ""),
        ("balance in time", f"{found.time:.4g} FLOP/byte", "below it memory bounds, above it computing"),
    ]
    if roof.static_w is not None and roof.flop_j is not None and roof.byte_j is not None:
        rows += [
            ("static power", format_si(roof.static_w, "W"), "flows whatever runs"),
            ("energy per FLOP", format_si(roof.flop_j, "J"), _error(roof.flop_j_error, roof.flop_j)),
            ("energy per byte", format_si(roof.byte_j, "J"), _error(roof.byte_j_error, roof.byte_j)),
        ]
    for what, energy in ((_BALANCE, found.energy), (_DYNAMIC, found.dynamic)):
        if energy is not None and energy.flop_per_byte is not None and energy.peak_flops_per_j is not None:
            best = f"at most {format_si(energy.peak_flops_per_j, 'FLOP/J')}"
            rows.append((what, f"{energy.flop_per_byte:.4g} FLOP/byte", best))
    return rows


_BALANCE, _DYNAMIC = "balance in energy", "... without static power"


def _of_roofs(roofs: Sequence[Roof]) -> list[tuple[str | None, ...]]:
    """Return the rows about several roofs, side by side."""
    columns: list[dict[str, str]] = []
    for roof in roofs:
        column: dict[str, str] = {}
        for what, value, note in _of_roof(roof):
            column[what] = f"{value} {note}" if note.startswith("+-") else value
            if what in (_BALANCE, _DYNAMIC):
                column[_EFFICIENCY[what]] = note.removeprefix("at most ")
        columns.append(column)
    order = dict.fromkeys(what for column in sorted(columns, key=len, reverse=True) for what in column)
    return [(what, *(column.get(what) for column in columns)) for what in order]


_EFFICIENCY = {_BALANCE: "at most", _DYNAMIC: "... without it, at most"}
"""Labels of the highest efficiency, by the label of the balance point."""


_FEWEST_MODES = 4
"""The fewest modes whose correlations are printed."""


_PEAKS = ("flops_per_s", "bytes_per_s")
_STILL = 0.95
"""A peak that stays above this share of its highest value counts as constant: it has no correlation."""


def _correlations(placed: Placed) -> list[Correlation]:
    """Return the correlations of a precision's measured peaks with the clocks; none for few modes."""
    from edgetune.stages.roofline.clocks import correlations

    alike = [r for r in placed.roofline.roofs if r.precision == placed.roof.precision and r.measured]
    return list(correlations(alike)) if len(alike) >= _FEWEST_MODES else []


def _show_correlations(found: Sequence[Placed]) -> None:
    """Print the correlation matrix of clocks and peaks, where several modes were measured."""
    for placed in found:
        rows: dict[str, dict[str, str | None]] = {}
        peaks = [(r.flops_per_s, r.bytes_per_s) for r in placed.roofline.roofs if r.precision == placed.roof.precision]
        moved = {name for name, of in zip(_PEAKS, zip(*peaks, strict=True), strict=True) if min(of) < _STILL * max(of)}
        for one in _correlations(placed):
            known = one.pearson is not None and one.peak in moved
            rows.setdefault(one.knob, {})[one.peak] = f"{one.pearson:+.2f}" if known else None
        if rows:
            head = f"correlation of the peaks in {placed.roof.precision} with each knob, 1 for a straight line upwards"
            print_folded(head)
            table(("knob", "computing>", "memory>"), [(knob, *peaks.values()) for knob, peaks in rows.items()])


def show_network(found: Sequence[Placed]) -> None:
    """Print a line per roof and batch size, then what bounds the network and what other clocks would change."""
    from edgetune.stages.roofline.figures.figure_data import brief_names

    columns = (
        "roof", "pass", "batch>", "FLOP>", "bytes>", "FLOP/byte>", "least time>", "measured>", "reached>", "time",
        "energy",
    )  # fmt: skip
    everywhere = [each for placed in found for each in placed.everywhere]
    roofs = brief_names([placed.roof for placed in everywhere])
    rows = [(roofs[placed.roof], each.point, *_row(each)) for placed in everywhere for each in placed.placements]
    hidden = {0} if len(everywhere) == 1 else {columns.index("bytes>")}
    hidden |= {columns.index("FLOP>")} if len({placed.roof.mode for placed in everywhere}) > 1 else set()
    hidden |= {1} if rows[0][1] is None else set()
    shown = [index for index in range(len(columns)) if index not in hidden]
    print_lines(f"{found[0].placements[0].workload} beneath {'it' if len(everywhere) == 1 else 'them'}")
    names, cells = [columns[index] for index in shown], [[row[index] for index in shown] for row in rows]
    if len(everywhere) == 1:
        table(names, cells)
    else:  # in 80 columns
        short = {"least time>": "least>", "time": "bound", "energy": "in energy"}
        bound = [[str(cell).removesuffix("-bound") if cell else cell for cell in row] for row in cells]
        table([short.get(name, name) for name in names], bound)
    for placed in found:
        fused = [
            f"batch {each['batch_size']} {format_si(each['bytes_moved'], 'B')}, {each['flop_per_byte']:.4g} FLOP/byte, "
            f"{each['bound']}-bound"
            for each in _of_fused_runtimes(placed)
        ]
        apart = f"{_EAGER}: {'; '.join(fused)}"
        for sentence in (*types_of(placed.tables[0]), *([apart] if fused else [])):
            print_folded(sentence if len(everywhere) == 1 else f"{roofs[placed.roof]}: {sentence}")
        for index in firsts(placed.placements):
            placement = placed.placements[index]
            for sentence in (*words(placement, placed.roof), *map(_change, placed.changes.get(index, ()))):
                named = of_pass(placement, sentence)
                print_folded(named if len(everywhere) == 1 else f"{roofs[placed.roof]}: {named}")


_EAGER = "bytes are of the device's eager framework; with a kernel each for GELU, attention and the like"


def _of_fused_runtimes(placed: Placed) -> list[dict[str, Any]]:
    """Return what bounds a network of an eager framework in a runtime that has a kernel for each of its operators.

    Nothing where the parts of GELU, attention and the like move no bytes of their own.
    """
    from edgetune.stages.roofline.placement import time_bound

    found = []
    for of_network, placement in zip(placed.tables, placed.placements, strict=True):
        conditions: dict[str, Any] = dict(of_network.header.conditions)
        moved = conditions["unfused"]["bytes_moved"] if conditions.get("eager") else placement.bytes_moved
        if moved != placement.bytes_moved:
            bound, intensity = time_bound(placement.flops, moved, placed.roof), placement.flops / moved
            batch = placement.batch_size
            found.append({"batch_size": batch, "bytes_moved": moved, "flop_per_byte": intensity, "bound": bound})
    return found


def _row(placement: Placement) -> tuple[str | None, ...]:
    """Return the cells about one batch size."""
    measured = placement.measured_s
    return (
        str(placement.batch_size), format_si(placement.flops, ""), format_si(placement.bytes_moved, "B"),
        cell(placement.flop_per_byte, ".4g"),
        format_si(placement.layers_s, "s"), cell(measured, lambda measured_s: format_si(measured_s, "s")),
        _reached(placement), _time_bound(placement), _energy_bound(placement),
    )  # fmt: skip


_HOST_BOUND = 10.0
"""Multiple of the least time from which launches and the host bound a network: kernels alone seldom miss their roofs
by so much."""


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


def _reached(placement: Placement) -> str | None:
    """Return the distance of a measured network to its roof."""
    return None if placement.measured_s is None else _of_roof_words(placement.layers_s / placement.measured_s)


def _of_roof_words(reached: float) -> str:
    """Return a share of the roof in words; ``above`` where the roof is too low or does not hold."""
    from edgetune.stages.roofline.placement import NOTABLY

    if reached > NOTABLY:
        return "above"
    return f"{reached:.0%}" if reached >= 0.01 else f"{max(reached, 0.0001):.2%}"


def words(placement: Placement, roof: Roof) -> list[str]:
    """Return what bounds a network, in sentences."""
    by_bound = {bound: sum(row.seconds for row in placement.rows if row.bound == bound) for bound in _BOUNDS}
    shares = [f"{seconds / placement.layers_s:.0%} {_BOUNDS[b]}" for b, seconds in by_bound.items() if seconds]
    found = [f"at batch {placement.batch_size}, of the least time of its layers {', '.join(shares)}"]
    if placement.unmodelled:
        names = ", ".join(placement.unmodelled)
        count = placement.unmodelled_nodes
        have = "operator has no known cost and is" if count == 1 else "operators have no known cost and are"
        found.append(f"{count} {have} left out: {names}")
    if placement.measured_s is not None:
        found.append(_distance_words(placement.measured_s / placement.layers_s))
    judged = dict.fromkeys(row.precision for row in placement.rows if row.flops)
    if len(judged) > 1:
        found.append(f"its operators are placed beneath the roofs of {', '.join(judged)}, each by what it computes in")
    if not roof.measured:
        found.append("this mode was not measured: its roof follows from others by their clocks")
    return found


def _distance_words(over: float) -> str:
    """Return the causes of the ratio of measured to least time, in words."""
    from edgetune.stages.roofline.placement import NOTABLY

    if over >= _HOST_BOUND:
        return f"it takes {over:.3g} times the least time: launching kernels and the host bound it, not its kernels"
    if over > NOTABLY:
        return f"it takes {over:.3g} times the least time: the rest is launches, kernels below their roof, and waiting"
    if over * NOTABLY >= 1:
        return f"it takes {over:.3g} times the least time: it reaches its roof, which is known to a few percent"
    return (
        "it is faster than its roof: peaks measured on a busy machine or by slower kernels are too low (measure them "
        "again without --peaks), or its data stay in caches and layers are fused; its distance to the roof is not known"
    )


_BOUNDS = {"compute": "computing", "memory": "waiting for memory", "launch": "launching kernels"}


_ABOVE = (
    "layers above their roof: their data was still in a cache, their algorithm does less than is counted "
    "(Winograd's convolutions do), or peaks were measured on a busier device"
)

_MOST_LAYERS = 15
"""The most layers printed, slowest first; they cover most of the time of every network of the zoo."""


def show_layers(layers: Layers, roof: Roof) -> None:
    """Print the slowest layers, and the share of the time that no layer explains."""
    from edgetune.stages.roofline.balance import work_time
    from edgetune.stages.roofline.placement import NOTABLY, time_bound

    slowest = sorted(layers.layers, key=lambda layer: layer.seconds, reverse=True)[:_MOST_LAYERS]
    rows, above = [], False
    for layer in slowest:
        moved = layer.row.bytes_moved
        least_s = work_time(roof, layer.row.flops, moved)
        bound = time_bound(layer.row.flops, moved, roof)
        intensity = f"{layer.intensity:.4g}" if moved else None
        reached = _of_roof_words(least_s / layer.seconds) if layer.seconds else None
        beaten = least_s > NOTABLY * layer.seconds
        above |= beaten
        bounded = None if beaten else f"{bound}-bound"
        cells = (f"{layer.share:.1%}", format_si(layer.seconds, "s"), intensity, reached, bounded)
        rows.append((layer.row.name, layer.row.op, *cells))
    shown = f"the slowest {len(slowest)} of {len(layers.layers)} layers, by {layers.measured.source}"
    print_folded(shown)
    table(("layer", "operator", "share>", "time>", "FLOP/byte>", "of roof>", ""), rows)
    explained = f"{layers.explained_share:.1%} of the time has layers, {layers.unexplained_share:.1%} is unexplained"
    parts = f"{layers.between_share:.1%} between kernels, {layers.inserted_share:.1%} inserted by the runtime"
    print_folded(f"{explained}: {parts}")
    if above:
        print_folded(_ABOVE)
    for data_warning in layers.measured.cautions:
        print_folded(f"note: {data_warning}")


def _change(change: Change) -> str:
    """Return the effect of a knob's next value in words: a figure if it was measured, otherwise a range."""
    energy = "" if change.energy is None else f", energy {_share(change.energy)}"
    how = "possible, not measured" if change.time.value is None else "measured"
    return f"with {change.knob} {change.value:g}: time {_share(change.time)}{energy} ({how})"


_WIDE = 0.001
"""Width of an interval, as a share, from which it is printed beside the figure."""


def _share(share: Share) -> str:
    if share.value is None:
        return f"{share.low:+.1%} to {share.high:+.1%}"
    interval = f" ({share.low:+.1%} to {share.high:+.1%})" if share.high - share.low >= _WIDE else ""
    return f"{share.value:+.1%}{interval}"


def _error(error: float | None, value: float) -> str:
    return "" if error is None or not value else f"+-{error / value:.0%}"

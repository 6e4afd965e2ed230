"""The graph of tasks that wait for each other: a column for each layer, loads over executions over unloads.

load       o--->o    o
           |    |    |
execute    o--->o--->o        arcs are branches: outputs that a later layer reads
           |    |    |
unload     o    o    o
          conv1 conv2 fc3
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from edgetune.plotting.captions import set_title
from edgetune.plotting.style import BLACK, BLUE, GREEN, GREY, VERMILLION, Figure, new_figure, panels_of
from edgetune.stages.schedule.dependencies import DependencyGraph, LinearExtensions, Mode
from edgetune.stages.schedule.network import LayeredNetwork

_HEIGHTS = {"load": 1.0, "execute": 0.0, "unload": -1.0}
_COLOURS = {"load": BLUE, "execute": VERMILLION, "unload": GREEN}
_NAMED = 40
"""Up to so many layers have names and letters; more are dots, every tenth with its number."""
_DIGITS = 15
"""Numbers of orders with more digits are written as powers of ten."""
_NAME_CHARACTERS = 18


def orders_text(orders: LinearExtensions) -> str:
    """Return in words how many orders there are."""
    if orders.least == orders.most:
        return "1 order" if orders.least == 1 else f"{_written(orders.least)} orders"
    return f"{_written(orders.least)} to {_written(orders.most)} orders (bounds)"


def _written(number: int) -> str:
    digits = _digits(number)
    if digits <= _DIGITS:
        return f"{number:,}"
    leading = number // 10 ** (digits - 3)
    return f"{leading / 100:.2f}e{digits - 1}"


def _digits(number: int) -> int:
    """Return how many digits a number has; writing out thousands of them is refused by Python."""
    digits = max(int((number.bit_length() - 1) * 0.30102999566398120), 0)  # log10(2), from below
    while 10**digits <= number:
        digits += 1
    return digits


def dependencies_figure(
    network: LayeredNetwork, graphs: Sequence[tuple[Mode, DependencyGraph, LinearExtensions]]
) -> Figure:
    """Return a panel for each mode, one under the other.

    Raises:
        DeviceError: matplotlib is missing.
    """
    named = len(network.layers) <= _NAMED
    width = 1.6 + len(network.layers) * (0.42 if named else 0.1)
    height = 2.2 if named else 1.8
    with new_figure((max(width, 5.0), height * len(graphs) + (1.0 if named else 0.3))) as figure:
        panels = panels_of(figure, len(graphs), 1, sharex=True)[:, 0]
        for axes, (mode, graph, orders) in zip(panels, graphs, strict=True):
            _draw(axes, graph, named=named)
            set_title(axes, f"{network.name}, {mode}: {orders_text(orders)}")
        _label(panels[-1], network, named=named)
    return figure


def _draw(axes: Any, graph: DependencyGraph, *, named: bool) -> None:
    places = [(node.layer, _HEIGHTS[node.kind]) for node in graph.nodes]
    gap = 8 if named else 1.5
    for index, leaders in enumerate(graph.before):
        for leader in leaders:
            (x0, y0), (x1, y1) = places[leader], places[index]
            bent = y0 == y1 and abs(x1 - x0) > 1
            style: dict[str, Any] = {
                "arrowstyle": "-|>,head_length=0.3,head_width=0.15" if named else "-",
                "color": BLACK if named else GREY,
                "linewidth": 0.8 if named else 0.5,
                "shrinkA": gap,
                "shrinkB": gap,
                "connectionstyle": f"arc3,rad={_bend(x1 - x0) if bent else 0.0:.4f}",
            }
            axes.annotate("", xy=(x1, y1), xytext=(x0, y0), arrowprops=style, zorder=1)
    for kind, height in _HEIGHTS.items():
        columns = [node.layer for node in graph.nodes if node.kind == kind]
        axes.scatter(columns, [height] * len(columns), s=180 if named else 8, color=_COLOURS[kind], zorder=3)
        for column in columns if named else ():
            axes.text(column, height, f"{kind[0].upper()}", color="white", ha="center", va="center", zorder=4)
    axes.set_yticks(list(_HEIGHTS.values()), list(_HEIGHTS))
    axes.set_ylim(-1.6, 1.6)
    axes.grid(False)
    axes.tick_params(length=0)
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)


def _bend(span: int) -> float:
    """Return how far an arc leaves its line, as a share of its length: the longer the flatter, all of a like height."""
    return -min(0.35, 1.2 / span)


def _label(axes: Any, network: LayeredNetwork, *, named: bool) -> None:
    layers = network.layers
    if named:
        names = [_cut(layer.name) for layer in layers]
        axes.set_xticks(range(len(layers)), names, rotation=60, ha="right", rotation_mode="anchor")
    else:
        axes.set_xticks(range(0, len(layers), 10))
        axes.set_xlabel("layer")
    axes.set_xlim(-0.7, len(layers) - 0.3)


def _cut(name: str) -> str:
    return name if len(name) <= _NAME_CHARACTERS else f"{name[: _NAME_CHARACTERS - 1]}…"

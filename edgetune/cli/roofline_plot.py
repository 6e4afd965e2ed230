"""``edgetune roofline --plot``: a network and its layers beneath the roofs of a device, as a figure or a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgetune.cli.run_roofline import Placed


def check_format(target: str) -> None:
    """Refuse a figure of no known format, before anything is measured for it.

    Raises:
        InputError: it is none.
    """
    from edgetune.cli.plot import is_page
    from edgetune.drawing import format_of

    if not is_page(target):
        format_of(target)


def draw_placed(placed: Placed, target: str) -> None:
    """Draw the rooflines with the network at every batch size, and its layers where they were timed.

    Raises:
        InputError: the file cannot be written.
        DeviceError: matplotlib is missing.
    """
    from edgetune.artifacts.files import write_atomically
    from edgetune.cli.plot import is_page
    from edgetune.cli.roofline_report import statements_of
    from edgetune.drawing import figure_bytes, format_of
    from edgetune.roofline.figures import Network, roof_figure, roofline_page

    networks = [Network(placement) for placement in placed.placements]
    if networks and placed.layers is not None:
        networks[0] = Network(placed.placements[0], placed.layers)
    layers_of = networks[0] if networks and placed.layers is not None else None
    roofs, device = placed.roofline.roofs, placed.roofline.device
    if placed.roof not in roofs:
        roofs = (*roofs, placed.roof)
    simulated = placed.roofline.header.simulated
    if is_page(target):
        notes = statements_of(placed)
        data = roofline_page(roofs, networks, layers_of=layers_of, device=device, simulated=simulated, notes=notes)
    else:
        figure = roof_figure(roofs, networks, layers_of=layers_of, device=device, simulated=simulated)
        data = figure_bytes(figure, format_of(target))
    write_atomically(data, target)

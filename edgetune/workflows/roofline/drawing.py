"""``edgetune roofline --plot``: a network and its layers beneath the roofs of a device, as a figure or a page."""

from __future__ import annotations

from collections.abc import Sequence

from edgetune.artifacts.roofline import Roof
from edgetune.plotting.page import Page, is_page
from edgetune.plotting.style import Figure
from edgetune.stages.roofline.figures import PlacedNetwork, roof_figure, write_rooflines
from edgetune.workflows.roofline.placed import Placed, statements_of


def placed_drawing(found: Sequence[Placed], target: str) -> Figure | bytes:
    """Return the figure or page of the network at every precision and batch size, with its layers if timed.

    Args:
        found: The results, one per precision.
        target: The file.

    Raises:
        InputError: there is nothing to draw.
        DeviceError: matplotlib is missing.
    """
    if is_page(target):
        roofline, networks = found[0].roofline, _networks(found)
        page, simulated = Page(f"Roofline: {roofline.device}"), roofline.header.simulated
        write_rooflines(
            page.section("Network beneath the roofs", simulated=simulated), _roofs(found), networks,
            layers_of=_layered(networks), device=roofline.device, simulated=simulated, notes=statements_of(found),
        )  # fmt: skip
        return page.data()
    roofline, networks = found[0].roofline, _networks(found)
    return roof_figure(
        _roofs(found), networks, layers_of=_layered(networks), device=roofline.device,
        simulated=roofline.header.simulated,
    )  # fmt: skip


def _networks(found: Sequence[Placed]) -> list[PlacedNetwork]:

    return [
        PlacedNetwork(placement, None if index else each.layers, measured_j)
        for one in found
        for each in one.everywhere
        for index, (placement, measured_j) in enumerate(zip(each.placements, each.measured_j, strict=True))
    ]


def _layered(networks: Sequence[PlacedNetwork]) -> PlacedNetwork | None:
    return next((network for network in networks if network.layers is not None), None)


def _roofs(found: Sequence[Placed]) -> list[Roof]:
    """Return all roofs: those in the file, and those inferred for the network."""
    return list(dict.fromkeys([*found[0].roofline.roofs, *(each.roof for one in found for each in one.everywhere)]))

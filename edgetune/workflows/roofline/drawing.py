"""``edgetune roofline --plot``: a network and its layers beneath the roofs of a device, as a figure or a page."""

from __future__ import annotations

from collections.abc import Sequence

from edgetune.artifacts.mode import KNOBS, Mode
from edgetune.artifacts.roofline import Roof
from edgetune.choices import choose
from edgetune.devices.capabilities import Absent
from edgetune.devices.device import Device
from edgetune.errors import InputError
from edgetune.plotting.page import Page, is_page, require_drawing
from edgetune.plotting.style import Figure
from edgetune.stages.roofline.figures import PlacedNetwork, batch_figure, clock_figure, roof_figure, write_rooflines
from edgetune.workflows.roofline.option_values import sizes_of
from edgetune.workflows.roofline.options import RooflineOptions
from edgetune.workflows.roofline.placed import Placed, statements_of

VIEWS = ("roofs", "batches", "clocks")


def check_figure(opts: RooflineOptions) -> None:
    """Check before a measurement that the requested figure can be drawn.

    Raises:
        InputError: the format or view is unknown, or a view lacks a figure or the data it shows.
    """
    if opts.view is not None:
        if opts.plot is None:
            raise InputError("--view chooses a figure, and --plot is not given", "add --plot FIGURE.svg")
        choose(opts.view, VIEWS, what="view")
    if opts.plot is None:
        return
    require_drawing(opts.plot)
    if is_page(opts.plot) and opts.view is not None:
        raise InputError("a page has every figure, and --view chooses between them", "leave it out")
    if opts.view == "batches":
        sizes = sizes_of(opts)
        if opts.model is None or len(sizes) == 1:
            lacks = "there is none" if opts.model is None else f"there is batch size {sizes[0]} alone"
            raise InputError(
                f"--view batches draws a network over batch sizes, and {lacks}",
                "e.g. edgetune roofline zoo:resnet18 --batch-sizes 1,4,16,64 --plot FIGURE.svg --view batches",
            )


def check_clocks(device: Device, modes: Sequence[Mode]) -> None:
    """Refuse a figure over clocks of only one mode.

    Raises:
        InputError: there is only one mode; the hint says how to measure several.
    """
    if len(set(modes)) > 1:
        return
    hint = "name --peaks of several modes"
    if not isinstance(device.modes, Absent):
        several = {knob: values for knob, values in device.modes.space.knobs.items() if len(values) > 1}
        examples = [f"{knob}={min(several[knob]):g}:{max(several[knob]):g}:3" for knob in KNOBS if knob in several]
        hint = f"e.g. --modes {examples[-1]}, or {hint}" if examples else hint
    raise InputError("--view clocks draws peaks over clocks, and there is one mode alone", hint)


def placed_drawing(found: Sequence[Placed], target: str, view: str) -> Figure | bytes:
    """Return the figure or page of the network at every precision and batch size, with its layers if timed.

    Args:
        found: The results, one per precision.
        target: The file.
        view: One of ``VIEWS``; a page has all of them.

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
    return _figure(found, view)


def _figure(found: Sequence[Placed], view: str) -> Figure:

    roofline, networks = found[0].roofline, _networks(found)
    device, simulated = roofline.device, roofline.header.simulated
    if view == "batches":
        return batch_figure(networks, device=device, simulated=simulated)
    if view == "clocks":
        return clock_figure(_asked_roofs(found), device=device, simulated=simulated)
    return roof_figure(_roofs(found), networks, layers_of=_layered(networks), device=device, simulated=simulated)


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


def _asked_roofs(found: Sequence[Placed]) -> list[Roof]:
    """Return the roofs of the requested precisions, in their order."""
    return [roof for each in found for roof in _roofs(found) if roof.precision == each.roof.precision]

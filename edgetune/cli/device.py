"""``edgetune device``: which devices are here, what each can do, and how far a twin is from what was published."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgetune.cli.default_command import DefaultGroup
from edgetune.cli.device_set import restore, set_mode
from edgetune.cli.device_units import units
from edgetune.cli.device_watch import watch
from edgetune.cli.options import Force, Json, Quiet, Root, Seed
from edgetune.cli.screen import SIMULATED, Screen, answer, print_folded, print_lines, table
from edgetune.workflows.output import begin_outputs

if TYPE_CHECKING:
    from edgetune.devices.device import Device

app = typer.Typer(cls=DefaultGroup, rich_markup_mode=None, add_completion=False)
NAME = Annotated[str, typer.Argument(metavar="DEVICE", help="Which one.")]


@app.callback(invoke_without_command=True)
def device(
    name: Annotated[str | None, typer.Argument(metavar="DEVICE", help="Which one. Default: list all.")] = None,
    *,
    root: Root = None,
    modes: Annotated[str | None, typer.Option("--modes", "-m", metavar="SPEC", help="Print these modes of it.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Print each published figure beside the twin's.")] = False,
    leave_one_out: Annotated[
        bool, typer.Option("--leave-one-out", help="With --check: calibrate without each network in turn (minutes).")
    ] = False,
    calibrate: Annotated[
        str | None, typer.Option(metavar="FILE", help="Fit the twin's constants again and write them there (minutes).")
    ] = None,
    seed: Seed = 0,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """List devices, what they can do and which modes they offer; set one, watch it, put it back."""
    from edgetune.errors import InputError

    begin_outputs(force=force)
    if name is None and root is not None:
        name = "jetson"
    if name is None:
        if modes or check or leave_one_out or calibrate:
            raise InputError("no device is named", "e.g. edgetune device twin:orin-agx --check")
        list_all(json=json)
    elif check or leave_one_out or calibrate:
        from edgetune.cli.twin import run_calibration, run_check

        screen = Screen(quiet)
        if calibrate:
            run_calibration(name, calibrate, screen)
        else:
            run_check(name, leave_out=leave_one_out, json=json, screen=screen)
    else:
        from edgetune.workflows.device_option import open_named

        opened = open_named(name, root, seed=seed)
        show_modes(opened, modes, json=json) if modes else show_device(opened, json=json)


@app.command(name="list", short_help="List the devices that are here.")
def list_command(*, json: Json = False) -> None:
    """List every device that can be named, and why one is not here."""
    list_all(json=json)


@app.command(short_help="What a device can do, and its knobs.")
def show(name: NAME = "auto", *, root: Root = None, json: Json = False) -> None:
    """Print what a device can do, its knobs with their values, and the modes it names."""
    from edgetune.workflows.device_option import open_named

    show_device(open_named(name, root), json=json)


@app.command(short_help="The modes of a device, one a line.")
def modes(
    name: NAME,
    spec: Annotated[str, typer.Argument(metavar="SPEC", help="Which modes, as for --modes.")] = "all",
    *,
    root: Root = None,
    json: Json = False,
) -> None:
    """Print the modes that SPEC names, one a line; by default all of them."""
    from edgetune.workflows.device_option import open_named

    show_modes(open_named(name, root), spec, json=json)


app.command(name="set", short_help="Set one mode, for a while or for one command.")(set_mode)
app.command(short_help="Put back what was found before.")(restore)
app.command(short_help="Units of systemd for the guardian.")(units)
app.command(short_help="Clocks, power and temperatures as they change.")(watch)


def list_all(*, json: bool) -> None:
    """Print every device, and why one is not here."""
    import dataclasses

    from edgetune.devices.discover import auto_name, list_devices

    listings = list_devices()
    if json:
        answer([dataclasses.asdict(listing) for listing in listings])
        return
    rows = [(item.name, "yes" if item.available else "no", item.reason or item.description) for item in listings]
    table(("name", "here", "what or why not"), rows)
    print_lines("", f"without --device: auto, here {auto_name()}")


def show_modes(opened: Device, text: str, *, json: bool) -> None:
    """Print the modes that ``text`` names, one a line."""
    from edgetune.workflows.parse_options import choose_modes

    chosen = [mode.settings() for mode in choose_modes(opened, text).modes]
    if json:
        answer(chosen)
        return
    names = list(dict.fromkeys(name for knobs in chosen for name in knobs))
    if not names:
        print_lines("as-found")
        return
    rows = [names, *([_word(knobs.get(name)) for name in names] for knobs in chosen)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:  # a board has 100 000 modes: too many to lay out as a table that folds
        print_lines("  ".join(map(str.rjust, row, widths)))


def show_device(opened: Device, *, json: bool) -> None:
    """Print what the device can do, its knobs and its named modes."""
    from edgetune.artifacts.plain import plain
    from edgetune.devices.device import Absent

    able = capabilities(opened)
    space = None if isinstance(opened.modes, Absent) else opened.modes.space
    if json:
        facts = {"name": opened.name, "description": opened.description, "simulated": opened.simulated}
        answer({**facts, "capabilities": able, "modes": plain(space), "conditions": plain(opened.conditions)})
        return
    print_folded(f"{opened.name}: {opened.description}")
    if opened.simulated:
        print_lines(SIMULATED)
    table(
        ("capability", "here", "what or why not"),
        [(what, state["here"], state["note"]) for what, state in able.items()],
    )
    if space is None:
        return
    print_lines("", "knobs")
    rows = [(name, len(values), " ".join(_number(v) or "" for v in values)) for name, values in space.knobs.items()]
    table(("name", "values>", "which"), rows + [(name, 1, f"fixed: {why}") for name, why in space.fixed.items()])
    named = {**{name: str(mode) for name, mode in space.presets.items()}}
    named |= {f"grid:{count}": f"{count} modes of a published study" for count in space.grids}
    if space.listed is not None:
        named["all"] = f"the {len(space.listed)} modes it lists"
    named |= {name: f"not now: {why}" for name, why in space.withheld.items()}
    if named:
        print_lines("", "modes by name")
        table(("name", "what"), list(named.items()))
    for knob, why in space.limited.items():
        print_folded(f"note: {knob}: {why}")
    for note in opened.conditions.get("board_notes", ()):
        print_folded(f"note: {note}")


def capabilities(opened: Device) -> dict[str, dict[str, Any]]:
    """Return for each capability whether it is here and what it is, or why it is absent."""
    from edgetune.devices.device import Absent

    found = {}
    for what in ("power", "modes", "temperature", "throttle"):
        capability = getattr(opened, what)
        absent = isinstance(capability, Absent)
        note = capability.reason if absent else getattr(capability, "source", "")
        found[what] = {"here": "no" if absent else "yes", "note": str(note)}
    return found


def _number(value: float | None) -> str | None:
    return None if value is None else f"{value:g}"


def _word(setting: float | str | None) -> str:
    """Return a knob's value or a mode's name for people; a dash where it is not set."""
    return setting if isinstance(setting, str) else _number(setting) or "-"

"""Prints the results of ``edgetune device``: devices, their abilities and modes."""

from dataclasses import asdict

from edgetune.artifacts.yaml_document import plain
from edgetune.cli.command import AnswerTerminal
from edgetune.cli.screen import SIMULATED, answer, print_folded, print_lines, table
from edgetune.devices.capabilities import Absent
from edgetune.devices.device import Device, auto_name, list_devices
from edgetune.devices.mode_grids import STUDIED_GRIDS, studied_grid
from edgetune.workflows.cells import cell
from edgetune.workflows.device.doctor import capabilities
from edgetune.workflows.parse_options import choose_modes


def report_list(terminal: AnswerTerminal) -> None:
    """Print every device, and the reason if one is absent."""
    listings = list_devices()
    if terminal.json:
        answer([asdict(listing) for listing in listings])
        return
    rows = [(item.name, "yes" if item.available else "no", item.reason or item.description) for item in listings]
    table(("name", "here", "what or why not"), rows)
    print_lines("", f"without --device: auto, here {auto_name()}")


def report_modes(opened: Device, text: str, terminal: AnswerTerminal) -> None:
    """Print the modes that ``text`` names, one a line."""
    chosen = [mode.settings() for mode in choose_modes(opened, text).modes]
    if terminal.json:
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


def report_device(opened: Device, terminal: AnswerTerminal) -> None:
    """Print a device's capabilities, its knobs and its named modes."""
    able = capabilities(opened)
    space = None if isinstance(opened.modes, Absent) else opened.modes.space
    if terminal.json:
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
    rows = [
        (name, len(values), " ".join(cell(value, "g") or "" for value in values))
        for name, values in space.knobs.items()
    ]
    table(("name", "values>", "which"), rows + [(name, 1, f"fixed: {why}") for name, why in space.fixed.items()])
    named = {name: str(mode) for name, mode in space.presets.items()}
    named |= {
        f"grid:{count}": f"{count} modes of a published study" for count in STUDIED_GRIDS if studied_grid(space, count)
    }
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


def _word(setting: float | str | None) -> str:
    """Return a knob's value or a mode's name for people; a dash where it is not set."""
    return setting if isinstance(setting, str) else cell(setting, "g") or "-"

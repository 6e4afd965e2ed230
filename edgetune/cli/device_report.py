"""Prints the results of ``edgetune device``: devices, their abilities and modes, a twin beside published figures."""

from __future__ import annotations

from dataclasses import asdict

from edgetune.artifacts.plain import plain
from edgetune.cli.command import AnswerTerminal, QuietTerminal
from edgetune.cli.screen import SIMULATED, answer, print_folded, print_lines, table
from edgetune.devices.capabilities import Absent
from edgetune.devices.device import Device
from edgetune.devices.discover import auto_name, list_devices
from edgetune.devices.twin.calibration import CheckRow
from edgetune.workflows.cells import cell
from edgetune.workflows.device.doctor import capabilities
from edgetune.workflows.device.twin import TwinCheck
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


def report_check(found: TwinCheck, terminal: QuietTerminal) -> bool:
    """Print every published figure beside the twin's, and return whether each is within its tolerance."""
    fit = found.fit
    if terminal.json:
        claim = {"time_pct": fit.claim_time_pct, "power_pct": fit.claim_power_pct, "note": fit.claim_note}
        answer({"figures": plain(found.figures), "leave_one_out": plain(found.left_out), "claim": claim})
    else:
        columns = ("figure", "published>", "twin>", "unit", "off by>", "allowed>", "ok", "note")
        table(columns, [_cells(row) for row in found.figures])
        if found.left_out:
            print_lines("", "calibrated without the network: mean absolute deviations")
            table(
                ("network", "time %>", "power %>", "note"),
                [(o.network, f"{o.time_pct:.1f}", f"{o.power_pct:.1f}", o.note) for o in found.left_out],
            )
        if fit.claim_time_pct is not None:
            claim_text = f"claimed: time within {fit.claim_time_pct:g} %, power within {fit.claim_power_pct:g} %,"
            print_folded("", f"{claim_text} {fit.claim_note}")
    promised = [row for row in found.figures if row.within is not None]
    held, others = sum(bool(row.within) for row in promised), len(found.figures) - len(promised)
    terminal.screen.info(f"{held} of {len(promised)} figures within what is allowed; {others} compared only")
    return held == len(promised)


def _cells(row: CheckRow) -> tuple[object, ...]:
    measure = "pt" if row.unit == "ratio" else "%"  # hundredths of a ratio are points, not per cent of it
    allowed = cell(row.tolerance_pct, lambda percent: f"{percent:g} {measure}")
    verdict = {True: "yes", False: "NO", None: None}[row.within]
    off_by = f"{row.deviation_pct:+.1f} {measure}"
    return row.name, f"{row.published:.4g}", f"{row.twin:.4g}", row.unit, off_by, allowed, verdict, row.note


def _word(setting: float | str | None) -> str:
    """Return a knob's value or a mode's name for people; a dash where it is not set."""
    return setting if isinstance(setting, str) else cell(setting, "g") or "-"

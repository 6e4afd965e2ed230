"""``edgetune device watch``: clocks, power, temperatures and throttling of a device, as they change."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from edgetune.cli.command import AnswerTerminal
from edgetune.cli.console import console, words
from edgetune.cli.screen import print_json_line
from edgetune.processes.streams import notice_lost_terminal

if TYPE_CHECKING:
    from rich.console import Console

    from edgetune.devices.device import Device
    from edgetune.devices.telemetry import Readings

Extremes = Mapping[tuple[str, str], tuple[float, float]]
"""Lowest and highest of each reading, by group and name."""


@dataclass(frozen=True, slots=True)
class DisplayUnit:
    """The display of one kind of reading.

    Args:
        name: Printed after the figure.
        decimals: Digits after the point; ``None`` for as many as the reading has.
        scale: Factor from a reading to its figure.
    """

    name: str
    decimals: int | None = None
    scale: float = 1.0


UNITS = {
    "_w": DisplayUnit("W", 2),  # sensors of a board resolve 8 mA: 0.04 W at 5 V
    "_c": DisplayUnit("°C", 1),  # thermal zones resolve 1/8 °C
    "_mhz": DisplayUnit("MHz"),
    "_rpm": DisplayUnit("rpm"),
    "_percent": DisplayUnit("%"),
    "_bytes": DisplayUnit("MiB", 0, 2**-20),
}
"""Units by the ending of a group's or a reading's name."""


def show_readings(device: Device, readings: Iterator[Readings], terminal: AnswerTerminal) -> None:
    """Print readings as they arrive: a live table on a terminal, otherwise a line of JSON each."""
    live = sys.stdout.isatty() and not terminal.json
    with _table(f"{device.name}: {device.description}") if live else _lines(device) as show:
        for reading in readings:
            show(reading)


@contextmanager
def _lines(device: Device) -> Iterator[Any]:
    """Print each reading as one line of JSON."""

    def show(readings: Readings) -> None:
        now = datetime.now().astimezone().isoformat(timespec="milliseconds")
        print_json_line({"time": now, "device": device.name, "simulated": device.simulated, **readings})

    yield show


@contextmanager
def _table(title: str) -> Iterator[Any]:
    """Show a live table: each reading, with its extremes since the start if the terminal is tall enough."""
    from rich.live import Live

    drawing = console(sys.stdout)
    extremes: dict[tuple[str, str], tuple[float, float]] = {}
    with Live(console=drawing, auto_refresh=False, vertical_overflow="ellipsis") as live:

        def show(readings: Readings) -> None:
            notice_lost_terminal()  # rich does not draw on a lost terminal
            note(extremes, readings)
            live.update(_drawn(title, readings, extremes, drawing), refresh=True)

        yield show


def note(extremes: dict[tuple[str, str], tuple[float, float]], readings: Readings) -> None:
    """Update the lowest and highest value of every reading."""
    for group, values in readings.items():
        for name, value in values.items():
            if isinstance(value, (int, float)):
                low, high = extremes.get((group, name), (value, value))
                extremes[group, name] = (min(low, value), max(high, value))


def _drawn(title: str, readings: Readings, extremes: Extremes, drawing: Console) -> Any:
    """Return all readings: one per line if they fit the terminal, otherwise side by side."""
    from rich.console import Group

    head = words(f"{title}  {datetime.now():%H:%M:%S}")
    whole = Group(head, _tall(readings, extremes))
    if len(drawing.render_lines(whole)) <= drawing.height:
        return whole
    return Group(head, _flat(readings))


def _tall(readings: Readings, extremes: Extremes) -> Any:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("reading")
    for column in ("now", "lowest", "highest"):
        table.add_column(column, justify="right")
    table.add_column("")
    for group, values in readings.items():
        table.add_row(words(heading(group), "bold"))
        for name, value in values.items():
            kind = unit(group, name)
            ends = [text(end, kind) for end in extremes.get((group, name), ())] or ["", ""]
            cells = (f"  {name}", shown(group, name, value), *ends, kind.name if ends[0] else "")
            table.add_row(*map(words, cells))
    return table


def _flat(readings: Readings) -> Any:
    from rich.columns import Columns
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    for group, values in readings.items():
        end = next((kind.name for end, kind in UNITS.items() if group.endswith(end)), "")
        cells = [
            words(name, "dim").append_text(words(f" {shown(group, name, value)}")) for name, value in values.items()
        ]
        table.add_row(words(f"{heading(group)} {end}".rstrip(), "bold"), Columns(cells, padding=(0, 2)))
    return table


def heading(group: str) -> str:
    """Return a group's name for people: ``power_w`` is Power."""
    end = next((end for end in UNITS if group.endswith(end)), "")
    return group.removesuffix(end).replace("_", " ").capitalize()


def unit(group: str, name: str) -> DisplayUnit:
    """Return the unit of a reading from the ending of its name or of its group's name."""
    return next((kind for end, kind in UNITS.items() if name.endswith(end) or group.endswith(end)), DisplayUnit(""))


def shown(group: str, name: str, value: float | str | None) -> str:
    """Return the text of a reading; a missing knob of the mode is ``not pinned``, any other missing value a dash."""
    if value is None:
        return "not pinned" if group == "mode" else "-"
    return value if isinstance(value, str) else text(value, unit(group, name))


def text(value: float, kind: DisplayUnit) -> str:
    """Return a figure for people, without its unit."""
    scaled = value * kind.scale
    return f"{scaled:.10g}" if kind.decimals is None else f"{scaled:.{kind.decimals}f}"

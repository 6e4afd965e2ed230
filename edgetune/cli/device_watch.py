"""``edgetune device watch``: clocks, power, temperatures and throttling of a device, as they change."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgetune.cli.options import Json
from edgetune.cli.where import Root

if TYPE_CHECKING:
    from edgetune.devices.telemetry import Readings

UNITS = {"_w": "W", "_c": "°C", "_mhz": "MHz", "_rpm": "rpm", "_share": "%", "_per_s": "per s"}
"""By the end of a group's or a reading's name."""


def watch(
    name: Annotated[str, typer.Argument(metavar="DEVICE", help="Which one.")] = "auto",
    *,
    interval: Annotated[str, typer.Option(metavar="TIME", help="Read this often.")] = "1s",
    count: Annotated[int | None, typer.Option(min=1, metavar="N", help="Stop after so many readings.")] = None,
    root: Root = None,
    json: Json = False,
) -> None:
    """Show clocks, power, temperatures and throttling as they change, until Ctrl-C.

    In a terminal a table that renews itself; in a pipe, or with --json, one JSON document a line for each reading.
    Nothing is set, and root is not needed for what every user may read.
    """
    from edgetune.cli.where import open_named
    from edgetune.devices.telemetry import telemetry_of
    from edgetune.errors import InputError
    from edgetune.units import parse_time_s

    every_s = parse_time_s(interval, what="the interval")
    device = open_named(name, root)
    from edgetune.devices.device import LiveSource

    if not isinstance(device.source, LiveSource):
        raise InputError(f"{device.name} has nothing to watch: it does not run by itself", "watch a real device")
    telemetry = telemetry_of(device)
    title = f"{device.name}: {device.description}"
    live = sys.stdout.isatty() and not json
    with _table(title) if live else _lines(device.name) as show:
        done = 0
        while count is None or done < count:
            if done:
                time.sleep(every_s)
            show(telemetry.read())
            done += 1


@contextmanager
def _lines(name: str) -> Iterator[Any]:
    """Print each reading as one line of JSON."""
    import json

    def show(readings: Readings) -> None:
        now = datetime.now().astimezone().isoformat(timespec="milliseconds")
        print(json.dumps({"time": now, "device": name, **readings}, ensure_ascii=False, allow_nan=False), flush=True)

    yield show


@contextmanager
def _table(title: str) -> Iterator[Any]:
    """Renew a table in the terminal: each reading with its lowest and highest since the start."""
    from rich.console import Console
    from rich.live import Live

    console = Console(highlight=False, no_color=bool(os.environ.get("NO_COLOR")))
    extremes: dict[tuple[str, str], tuple[float, float]] = {}
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:

        def show(readings: Readings) -> None:
            note(extremes, readings)
            live.update(_drawn(title, readings, extremes), refresh=True)

        yield show


def note(extremes: dict[tuple[str, str], tuple[float, float]], readings: Readings) -> None:
    """Widen the lowest and highest of every reading by a new one."""
    for group, values in readings.items():
        for name, value in values.items():
            if isinstance(value, (int, float)):
                low, high = extremes.get((group, name), (value, value))
                extremes[group, name] = (min(low, value), max(high, value))


def _drawn(title: str, readings: Readings, extremes: Mapping[tuple[str, str], tuple[float, float]]) -> Any:
    from rich.table import Table
    from rich.text import Text

    now = datetime.now().strftime("%H:%M:%S")
    table = Table(title=Text(f"{title}  {now}"), title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("reading")
    for column in ("now", "lowest", "highest"):
        table.add_column(column, justify="right")
    table.add_column("")
    for group, values in readings.items():
        table.add_row(Text(heading(group), style="bold"))
        for name, value in values.items():
            low, high = extremes.get((group, name), (None, None))
            cells = (f"  {name}", text(value), text(low), text(high), unit(group, name) if low is not None else "")
            table.add_row(*map(Text, cells))
    return table


def heading(group: str) -> str:
    """Return a group's name for people: ``power_w`` is Power."""
    end = next((end for end in UNITS if group.endswith(end)), "")
    return group.removesuffix(end).replace("_", " ").capitalize()


def unit(group: str, name: str) -> str:
    """Return the unit of a reading, told by the end of its name or of its group's."""
    return next((word for end, word in UNITS.items() if name.endswith(end) or group.endswith(end)), "")


def text(value: float | str | None) -> str:
    """Return a reading for people; one that does not answer is a dash."""
    if value is None:
        return "-"
    return value if isinstance(value, str) else f"{value:.5g}"

"""``edgetune device watch``: a live screen of a device and its machine in a terminal, otherwise lines of JSON."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING

from edgetune.cli.command import AnswerTerminal
from edgetune.cli.console import console
from edgetune.cli.history import History
from edgetune.cli.screen import SIMULATED, print_json_line
from edgetune.cli.watch_layout import WatchScreen
from edgetune.processes.streams import notice_lost_terminal

if TYPE_CHECKING:
    from rich.console import Console

    from edgetune.workflows.device.watch import Snapshot, WatchedDevice

_RESIZED_S = 0.2
"""How often the size of the terminal is looked at between readings, s."""


def show_readings(watched: WatchedDevice, terminal: AnswerTerminal) -> None:
    """Show readings as they arrive: on a screen in a terminal, otherwise a line of JSON each."""
    if terminal.json or not sys.stdout.isatty():
        for snapshot in watched.snapshots():
            print_json_line(document(watched, snapshot))
        return
    drawing = console(sys.stdout)
    screen = WatchScreen(_head(watched), History(time.monotonic), unicode=_draws_blocks(drawing))
    if drawing.is_dumb_terminal:
        for snapshot in watched.snapshots():
            screen.note(snapshot)
            drawing.print(screen.drawn(drawing.width, drawing.height))
        return
    with _shown(screen, drawing) as (show, wait):
        for snapshot in watched.snapshots(wait):
            screen.note(snapshot)
            show()


def document(watched: WatchedDevice, snapshot: Snapshot) -> dict[str, object]:
    """Return the readings as a JSON document; a fake board, which has no processes, has no such field."""
    now = datetime.now().astimezone().isoformat(timespec="milliseconds")
    processes = [asdict(each) for each in snapshot.processes]
    device = watched.device
    head = {"time": now, "device": device.name, "simulated": device.simulated, **snapshot.groups}
    return {**head, "processes": processes} if processes else head


def _head(watched: WatchedDevice) -> list[str]:
    device = watched.device
    return [f"{device.name}: {device.description}", *([SIMULATED] if device.simulated else [])]


def _draws_blocks(drawing: Console) -> bool:
    import os

    return drawing.encoding.startswith("utf") and os.environ.get("TERM") not in ("dumb", "linux")


@contextmanager
def _shown(screen: WatchScreen, drawing: Console) -> Iterator[tuple[Callable[[], None], Callable[[float], None]]]:
    """Open the terminal's other screen; yield what draws on it, and a wait that draws again when it is resized.

    The last screen is left standing on the usual one.
    """
    from rich.live import Live

    try:
        with Live(console=drawing, auto_refresh=False, screen=True) as live:
            size = drawing.size

            def show() -> None:
                nonlocal size
                notice_lost_terminal()  # rich does not draw on a lost terminal
                size = drawing.size
                live.update(screen.drawn(*size), refresh=True)

            def wait(seconds: float) -> None:
                end_s = time.monotonic() + seconds
                while (left_s := end_s - time.monotonic()) > 0:
                    time.sleep(min(left_s, _RESIZED_S))
                    if drawing.size != size and screen.noted:
                        show()

            yield show, wait
    finally:
        if screen.noted:
            drawing.print(screen.drawn(*drawing.size))

"""The screen of ``edgetune device watch``: every reading with its last minute, or, in a small terminal, side by side.

    wide or tall   Load                          | Power
                     gpu     97 %    ▁▂▅████     |   VDD_IN   11.26 W  ▁▂▅▆▇▇
    small          gpu  97 %  ▁▂▅████   VDD_IN  11.26 W ▁▂▅▆▇▇        (the chief readings)
                   Temperature °C  cpu 48.1  gpu 50.2  tj 50.6        (all others)

Loads are drawn from 0 to 100 %, temperatures over at least ten degrees, all else from zero to its highest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise, zip_longest
from typing import TYPE_CHECKING, TypeAlias

from edgetune.cli.console import words
from edgetune.cli.history import ASCII_BLOCKS, BLOCKS, History, block, drawn
from edgetune.visible import visible

if TYPE_CHECKING:
    from rich.text import Text

    from edgetune.workflows.device.watch import Snapshot

Value: TypeAlias = "float | str | None"


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

_COLUMN = 52
"""Least width of a column of readings, characters."""

_NAME, _FIGURE, _UNIT = 18, 8, 4
"""Widths of the parts of a reading, characters."""

_PROCESSES = 4
"""Lines that are kept for processes."""

_LEAST_SPAN_C = 10.0
_STEADY = ("mode", "total", "limit")
"""Groups, and ends of names, of readings whose minute is not drawn."""
_EVENTS, _THROTTLING = "throttling_events", "throttling_now"
_CHIEF_POWERS = 4


class WatchScreen:
    """Draws the last snapshot and the minute before it.

    Args:
        head: Lines above the readings; the first one gets the time.
        history: Keeps the minute.
        unicode: Whether the terminal shows blocks.
    """

    def __init__(self, head: Sequence[str], history: History, *, unicode: bool = True) -> None:
        self._head = head
        self._history = history
        self._unicode = unicode
        self._last: Snapshot | None = None

    @property
    def noted(self) -> bool:
        """Whether there is anything to draw."""
        return self._last is not None

    def note(self, snapshot: Snapshot) -> None:
        """Take over new readings."""
        self._last = snapshot
        self._history.note(snapshot.groups)

    def drawn(self, width: int, height: int) -> Text:
        """Return the lines of the screen, at most ``height`` less one for the prompt that follows them."""
        assert self._last is not None
        title = words(_cut(f"{self._head[0]}", width - 10).ljust(width - 10) + f"{datetime.now():  %H:%M:%S}", "bold")
        head = [title, *(words(_cut(line, width), "yellow") for line in self._head[1:])]
        left = height - 1 - len(head)
        kept = min(_PROCESSES, 1 + len(self._last.processes)) if self._last.processes else 0
        lines = self._columns(width, left - kept) or [*self._side_by_side(width)]
        lines = lines[:left]
        shown = [*head, *lines, *self._processes(width, left - len(lines))]
        for line in shown:
            line.truncate(width)
        from rich.text import Text

        return Text("\n").join(shown)

    def _columns(self, width: int, height: int) -> list[Text] | None:
        """Return every reading with its minute, in as few columns as fit; ``None`` where not even the most do."""
        for count in range(1, max(width // _COLUMN, 1) + 1):
            each = (width - 2 * (count - 1)) // count
            lines = [*self._rows(each, extremes=count == 1)]
            for tallest in range(-(-len(lines) // count), height + 1):
                columns = _flowed(lines, tallest)
                if len(columns) <= count:
                    return [_beside(row, each) for row in zip_longest(*columns)]
        return None

    def _rows(self, width: int, *, extremes: bool) -> Iterator[tuple[bool, Text]]:
        """Yield each heading (marked) and each reading in a line of its own."""
        ends = f"{'lowest':>8} {'highest':>8}" if extremes else ""
        for group, values in self._groups():
            yield True, words(f"{heading(group):{max(width - len(ends), 0)}}{ends}".rstrip(), "bold")
            ends = ""
            for name, value in values.items():
                yield False, self._row(group, name, value, width, extremes=extremes)

    def _row(self, group: str, name: str, value: Value, width: int, *, extremes: bool) -> Text:
        kind = unit(group, name)
        figure = shown(group, name, value)
        if not isinstance(value, (int, float)):
            return self._styled(group, name, value, f"  {_cut(name, _NAME):{_NAME}} {figure}", width)
        cells = f"  {_fit(name, _NAME)} {figure:>{_FIGURE}} {self._plain(kind.name):{_UNIT}}"
        ends = ""
        if extremes and (kept := [*self._history.of(group, name).values()]) and not _steady(group, name):
            ends = f" {text(min(kept), kind):>8} {text(max(kept), kind):>8}"
        cells += self._minute(group, name, max(width - len(cells) - len(ends), 0)) + ends
        return self._styled(group, name, value, cells, width)

    def _minute(self, group: str, name: str, width: int) -> str:
        """Return the last minute of a reading in so many characters."""
        if _steady(group, name):
            return " " * width
        cells = self._history.cells(group, name, width)
        if group == _EVENTS:
            cells = [None if now is None else now - (before or now) for before, now in pairwise([None, *cells])]
        known = [cell for cell in cells if cell is not None]
        low, high = 0.0, max(known, default=0.0)
        if unit(group, name).name == "%":
            high = 100.0
        elif unit(group, name).name == "°C" and known:
            low = min(known) - max(_LEAST_SPAN_C - (high - min(known)), 0.0) / 2
            high = max(high, low + _LEAST_SPAN_C)
        elif name.endswith("used") and self._last is not None:
            whole = self._last.groups[group].get(name.replace("used", "total"))
            high = whole if isinstance(whole, (int, float)) else high
        return drawn(cells, low, high, self._blocks)

    def _side_by_side(self, width: int) -> Iterator[Text]:
        """Yield the chief readings with their minute, the load of each CPU as a block, and the others as words."""
        chief = [*self._chief()]
        count = 2 if width > _COLUMN else 1
        each = (width - 2 * (count - 1)) // count
        cells = [self._chart(group, name, each) for group, name in chief]
        yield from (_beside(row, each) for row in zip_longest(*(cells[place::count] for place in range(count))))
        for group, values in self._groups():
            left = {name: value for name, value in values.items() if (group, name) not in chief}
            if group == "load_percent":
                left = dict(self._cpus(left))
            if left:
                yield from self._words(group, left, width)

    def _chief(self) -> Iterator[tuple[str, str]]:
        """Yield the readings that are drawn even in a small terminal."""
        groups = dict(self._groups())
        yield from (("load_percent", name) for name in ("gpu", "cpu") if name in groups.get("load_percent", {}))
        powers = [name for name, value in groups.get("power_w", {}).items() if not _steady("power_w", name)]
        yield from (("power_w", name) for name in powers[:_CHIEF_POWERS])
        known_c = {name: value for name, value in groups.get("temperature_c", {}).items() if isinstance(value, float)}
        if known_c:
            yield "temperature_c", max(known_c, key=known_c.__getitem__)
        if "used" in groups.get("machine_memory_bytes", {}):
            yield "machine_memory_bytes", "used"

    def _chart(self, group: str, name: str, width: int) -> Text:
        value = dict(self._groups())[group][name]
        kind = unit(group, name)
        title = "memory" if group == "machine_memory_bytes" else name
        cells = f"{_fit(title, 12)} {shown(group, name, value):>7} {self._plain(kind.name):3} "
        return words(cells + self._minute(group, name, max(width - len(cells), 0)))

    def _cpus(self, values: dict[str, Value]) -> Iterator[tuple[str, Value]]:
        """Yield loads with those of the single CPUs as one word, a block each."""
        single = {name: value for name, value in values.items() if name[3:].isdigit() and isinstance(value, float)}
        yield from ((name, value) for name, value in values.items() if name not in single)
        if single:
            blocks = "".join(block(value, 0, 100, self._blocks) for value in single.values())
            yield f"{next(iter(single))}-{[*single][-1][3:]}", blocks

    def _words(self, group: str, values: dict[str, Value], width: int) -> Iterator[Text]:
        """Yield a group's readings as words, folded after its heading."""
        from rich.text import Text

        ends = next((kind.name for end, kind in UNITS.items() if group.endswith(end)), "")
        title = f"{heading(group)} {self._plain(ends)}".rstrip() + "  "
        line, used, indent = words(title, "bold"), len(title), " " * min(len(title), 17)
        for name, value in values.items():
            cell = f"{name} {shown(group, name, value)}"
            if more := self._more(group, name):
                cell += f" (+{more:g})"
            cell = _cut(visible(cell), width - len(indent))
            if used + len(cell) > width and used > len(indent):
                yield line
                line, used = Text(indent), len(indent)
            line.append_text(self._styled(group, name, value, cell, len(cell)))
            line.append("  ")
            used += len(cell) + 2
        yield line

    def _processes(self, width: int, height: int) -> Iterator[Text]:
        """Yield the processes in at most so many lines, those of edgetune first."""
        assert self._last is not None
        if height > 1 and self._last.processes:
            yield words(f"{'Process':>9} {'CPU %':>7} {'memory':>10}  program", "bold")
            for each in self._last.processes[: height - 1]:
                cells = f"{each.pid:>9} {each.cpu_percent:>7.1f} {each.memory_bytes / 2**20:>6.0f} MiB  {each.name}"
                yield words(_cut(cells, width), "cyan" if each.edgetune else "")

    def _groups(self) -> Iterator[tuple[str, dict[str, Value]]]:
        assert self._last is not None
        yield from ((group, dict(values)) for group, values in self._last.groups.items())

    def _more(self, group: str, name: str) -> float:
        return self._history.increase(group, name) if group == _EVENTS else 0.0

    def _styled(self, group: str, name: str, value: Value, cells: str, width: int) -> Text:
        """Return a reading, conspicuous while it says that the device throttles."""
        throttles = (group == _THROTTLING and value != "none") or self._more(group, name) > 0
        return words(_cut(cells, width), "bold red" if throttles else "")

    @property
    def _blocks(self) -> str:
        return BLOCKS if self._unicode else ASCII_BLOCKS

    def _plain(self, name: str) -> str:
        return name if self._unicode else name.replace("°", "")


def _flowed(lines: Sequence[tuple[bool, Text]], height: int) -> list[list[Text]]:
    """Return lines in columns of at most that height; no heading ends a column."""
    columns: list[list[Text]] = [[]]
    for place, (is_heading, line) in enumerate(lines):
        last = is_heading and place + 1 < len(lines) and len(columns[-1]) + 1 == height
        if len(columns[-1]) == height or (last and height > 1):
            columns.append([])
        columns[-1].append(line)
    return columns


def _beside(row: Sequence[Text | None], width: int) -> Text:
    """Return the lines of several columns as one."""
    from rich.text import Text

    whole = Text()
    for place, line in enumerate(row):
        cell = Text() if line is None else line
        whole.append_text(cell)
        if place + 1 < len(row):
            whole.append(" " * (width - cell.cell_len + 2))
    return whole


def _fit(name: str, width: int) -> str:
    """Return a name in exactly so many columns of the terminal."""
    from rich.cells import set_cell_size

    return set_cell_size(visible(name), width)


def _cut(line: str, width: int) -> str:
    """Return a line in at most so many columns of the terminal."""
    from rich.cells import cell_len

    return _fit(line, max(width, 0)) if cell_len(visible(line)) > width else line


def _steady(group: str, name: str) -> bool:
    return group in _STEADY or name.endswith(_STEADY)


def heading(group: str) -> str:
    """Return a group's name for people: ``power_w`` is Power."""
    end = next((end for end in UNITS if group.endswith(end)), "")
    return group.removesuffix(end).replace("_", " ").capitalize()


def unit(group: str, name: str) -> DisplayUnit:
    """Return the unit of a reading from the ending of its name or of its group's name."""
    return next((kind for end, kind in UNITS.items() if name.endswith(end) or group.endswith(end)), DisplayUnit(""))


def shown(group: str, name: str, value: Value) -> str:
    """Return the text of a reading; a missing knob of the mode is ``not pinned``, any other missing value a dash."""
    if value is None:
        return "not pinned" if group == "mode" else "-"
    return value if isinstance(value, str) else text(value, unit(group, name))


def text(value: float, kind: DisplayUnit) -> str:
    """Return a figure for people, without its unit."""
    scaled = value * kind.scale
    return f"{scaled:.10g}" if kind.decimals is None else f"{scaled:.{kind.decimals}f}"

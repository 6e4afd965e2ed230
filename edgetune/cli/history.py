"""A minute of readings, and their drawing as a line of blocks: ▁▂▅█."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from edgetune.devices.telemetry import Readings

LENGTH_S = 60
BLOCKS = "▁▂▃▄▅▆▇█"
ASCII_BLOCKS = "_.:-=+*#"
"""For a terminal without Unicode, lowest first."""


class History:
    """Readings of the last minute: the last one of each second.

    Args:
        clock_s: Returns the time, s.
    """

    def __init__(self, clock_s: Callable[[], float]) -> None:
        self._clock_s = clock_s
        self._kept: deque[tuple[int, Readings]] = deque()

    def note(self, readings: Readings) -> None:
        """Keep readings, and drop those that are older than a minute."""
        now_s = math.floor(self._clock_s())
        if self._kept and self._kept[-1][0] == now_s:
            self._kept.pop()
        self._kept.append((now_s, readings))
        while self._kept[0][0] <= now_s - LENGTH_S:
            self._kept.popleft()

    def of(self, group: str, name: str) -> Mapping[int, float]:
        """Return the numbers of a reading by their age in seconds, oldest first."""
        now_s = self._kept[-1][0] if self._kept else 0
        found = ((now_s - then_s, readings.get(group, {}).get(name)) for then_s, readings in self._kept)
        return {age_s: value for age_s, value in found if isinstance(value, (int, float))}

    def increase(self, group: str, name: str) -> float:
        """Return by how much a counter has grown within the minute."""
        values = [*self.of(group, name).values()]
        return values[-1] - values[0] if values else 0.0

    def cells(self, group: str, name: str, width: int) -> list[float | None]:
        """Return the minute in so many equal parts, oldest first: the highest number of each.

        A part without one repeats the part before, as readings may be rarer; before the first there is none.
        """
        parts: list[float | None] = [None] * width
        for age_s, value in self.of(group, name).items() if width else ():
            place = width - 1 - age_s * width // LENGTH_S
            before = parts[place]
            parts[place] = value if before is None else max(before, value)
        for place in range(1, width):
            parts[place] = parts[place - 1] if parts[place] is None else parts[place]
        return parts


def drawn(values: Sequence[float | None], low: float, high: float, blocks: str = BLOCKS) -> str:
    """Return a block for each value, spaces where there is none; ``low`` and below is the lowest block."""
    return "".join(" " if value is None else block(value, low, high, blocks) for value in values)


def block(value: float, low: float, high: float, blocks: str = BLOCKS) -> str:
    """Return the block of a value between ``low`` and ``high``."""
    share = (value - low) / (high - low) if high > low else 0.0
    return blocks[min(max(math.floor(share * len(blocks)), 0), len(blocks) - 1)]

"""A signal that ends long work in order, and a second one that ends it at once."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from edgetune.cli.screen import Screen


def _nothing() -> None:
    pass


@dataclass(slots=True)
class Stopping:
    """Whether somebody asked to stop.

    Args:
        number: Of the signal that did; ``None`` as long as none has come.
        act: Called when it comes; whoever works meanwhile puts here what makes it stop soon.
    """

    number: int | None = None
    act: Callable[[], None] = _nothing


@contextmanager
def noting_signals(screen: Screen, what: str) -> Iterator[Stopping]:
    """Note the first signal; the second one does what it does anywhere else.

    Args:
        screen: For telling that it was heard.
        what: After which it stops, e.g. ``the minibatch that runs``.
    """
    stopping = Stopping()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}

    def note(number: int, frame: FrameType | None) -> None:
        handler = before[signal.Signals(number)]
        if stopping.number is not None:
            if callable(handler):
                handler(number, frame)
            raise SystemExit(128 + number)  # what there is to clean up is, unlike by the signal itself
        stopping.number = number
        screen.say(f"stopping after {what}; once more to stop at once")
        stopping.act()

    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, note)
    try:
        yield stopping
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

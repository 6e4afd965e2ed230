"""A signal that ends long work in order, and a second one that ends it at once."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from edgetune.cli.screen import Screen


@contextmanager
def noting_signals(screen: Screen, what: str) -> Iterator[list[int]]:
    """Note signals in a list; the second one does what it does anywhere else.

    Args:
        screen: For telling that it was heard.
        what: After which it stops, e.g. ``the minibatch that runs``.
    """
    noted: list[int] = []
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}

    def note(number: int, frame: FrameType | None) -> None:
        noted.append(number)
        handler = before[signal.Signals(number)]
        if len(noted) > 1 and callable(handler):
            handler(number, frame)
        else:
            screen.say(f"stopping after {what}; once more to stop at once")

    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, note)
    try:
        yield noted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

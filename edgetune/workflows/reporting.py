"""How a workflow reports to the person who waits for it: notes, progress, and the label of simulated figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from edgetune.profiling.sweep import SweepProgress

OnProgress = Callable[["SweepProgress"], None]
OnAdvance = Callable[[float, str], None]
"""Takes how much more is done, in the unit of the total, and what is being done."""

Stdout = Literal["bytes", "terminal", "answer", "none"]
"""What standard output is for: an artifact's bytes, a person's reading, an answer in JSON, or nothing."""


class Reporter:
    """Receives what a workflow reports; this one discards it. The terminal's is ``edgetune.cli.screen.Screen``."""

    __slots__ = ()

    @property
    def quiet(self) -> bool:
        """Whether notes are discarded, so that a workflow need not prepare them."""
        return True

    @property
    def verbose(self) -> bool:
        """Whether details are wanted too."""
        return False

    @property
    def watched(self) -> bool:
        """Whether notes appear on a terminal, where a person follows them."""
        return False

    @property
    def stdout(self) -> Stdout:
        """What standard output is for."""
        return "none"

    def info(self, text: str) -> None:
        """Report a note, one sentence without a full stop."""

    def detail(self, text: str) -> None:
        """Report a note that only the curious want to read."""

    def simulated(self) -> None:
        """Report that the figures that follow come from a model; shown even when quiet."""

    def sweep(self, label: SimulationLabel) -> AbstractContextManager[OnProgress]:
        """Return a context that shows the progress of a sweep; it announces ``label`` before the first figure."""
        del label
        return _discarded()

    def bar(self, what: str, total: float) -> AbstractContextManager[OnAdvance | None]:
        """Return a context that shows how much of ``total`` is done; it gives ``None`` where nobody watches."""
        del what, total
        return _unwatched()


@contextmanager
def _discarded() -> Iterator[OnProgress]:
    yield lambda _: None


@contextmanager
def _unwatched() -> Iterator[OnAdvance | None]:
    yield None


@dataclass(slots=True)
class SimulationLabel:
    """Announces once, before the first figure, that figures are simulated; an error that comes before needs no label.

    Args:
        is_simulated: Whether a model produces the figures.
        reporter: Receives the announcement.
    """

    is_simulated: bool
    reporter: Reporter

    def announce(self) -> None:
        """Announce it, unless it was announced or nothing is simulated."""
        if self.is_simulated:
            self.is_simulated = False
            self.reporter.simulated()

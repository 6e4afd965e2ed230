"""How a caller watches and stops the loop of a run. It imports only the standard library, as ``serving.requests``."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

Recorded = TypeVar("Recorded")


@dataclass(frozen=True, slots=True)
class Supervision(Generic[Recorded]):
    """What a loop asks its caller, and what it reports, while it runs.

    Args:
        stopped: Asked between events; once true, the loop ends early.
        poll_interval_ns: Longest time between two such questions; ``None`` where everything that changes is an event of
            the backend.
        on_record: Called with every record as it is made.
    """

    stopped: Callable[[], bool] = lambda: False
    poll_interval_ns: int | None = None
    on_record: Callable[[Recorded], None] = lambda _: None


UNSUPERVISED: Supervision[Any] = Supervision()
"""The run goes on to its end, and nobody looks on."""

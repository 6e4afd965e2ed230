"""A request: one sample for one network, when it came and when it is due."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Request:
    """One sample for one network. Times are ns on the clock of the run, which begins at 0.

    Args:
        number: Unique in a run, ascending with arrival.
        network: Name of the network.
        arrival_ns: When it comes.
        deadline_ns: When it is due; ``None`` where it is not.
        after: Numbers of requests that must have been answered before it may begin (a job that depends on others).
        job: Name of the job that it belongs to, as the user calls it.
    """

    number: int
    network: str
    arrival_ns: int
    deadline_ns: int | None = None
    after: tuple[int, ...] = ()
    job: str = ""

"""The options of ``edgetune search evaluate``."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TrafficOptions:
    """Requests of the ``dynamic`` family, as written on the command line."""

    arrivals: str | None
    scale: str | None
    power: str
    latency: str


@dataclass(frozen=True, slots=True)
class EvaluationOptions:
    """What to evaluate and where it goes, as written on the command line."""

    tables: tuple[str, ...]
    family: str | None
    strategies: str
    grid: str | None
    sample: int | None
    everything: bool
    seeds: int
    noise: str
    tie: str
    by: str
    convergence: tuple[str, ...]
    traffic: TrafficOptions
    jobs: int | None
    output: str | None
    plot: str | None
    json: bool

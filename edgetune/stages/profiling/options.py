"""The options of measuring points, with their defaults and bounds.

The state of the point that is measured now, for people who wait for it: cooling, loading, sampling.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from edgetune.artifacts.profile import Point
from edgetune.errors import InputError
from edgetune.stats import StoppingRule, is_positive, median, median_interval
from edgetune.units import format_duration, format_si
from edgetune.workloads.engines import EngineOptions
from edgetune.workloads.observed import Feed

_REPEATS = (3, 10)
_GAP_BUDGET_S = 60.0
"""A gap is repeated as often as fits this time, within ``_REPEATS``: a median of three takes out one interruption."""


def gap_repeats(gap_s: float) -> int:
    """Return how many times a gap is waited."""
    return min(max(math.floor(_GAP_BUDGET_S / gap_s), _REPEATS[0]), _REPEATS[1])


@dataclass(frozen=True, slots=True)
class ProfileOptions:
    """Choices that hold for every point of a sweep or search.

    Args:
        target_ci: Sampling stops when half the 95 % confidence interval of the median is this fraction of the median.
        minibatches: Time exactly this many steady minibatches instead.
        least_minibatches: Fewest steady minibatches of a point.
        max_minibatches: Most minibatches of a point, whatever the interval.
        max_sampling_s: Longest time to sample a point for, s; the loading of the network is not counted.
        point_timeout_s: A point that has not finished after this is given up, its process killed, s.
        retries: How often a point that throttled, drifted or swapped is measured again.
        cool_to_c: Wait before each point until the device is no hotter than this, degrees Celsius.
        fan: ``max`` for the fan's highest speed while points are measured.
        cool_timeout_s: Measure the point anyway after waiting for so long, s.
        interleave_repeats: Visit all points so many times, each round in an order of its own.
        soak_s: Sample for so long whatever the interval, s, and keep what the device reads meanwhile; see ``soak``.
        idle_gaps_s: Gaps without work, after each of which the first minibatch is timed, s.
        inputs: ``.npz`` file of inputs; random ones without it.
        dimensions: Values of symbolic dimensions besides the batch, by name.
        precision: What a simulated device is to compute in; without it the types of the network's own tensors.
        seed: Seed of random inputs and weights.
        step_pattern, steps: How a command marks its steps, see ``RunOptions``; without, a run is a minibatch.
        start: Command that starts a server for each point.
        engine: Name of what infers an ONNX network, see ``engines.ENGINES``.
        dla_core, allow_gpu_fallback: See ``engines.EngineOptions``.
        python: Another Python that runs the workload, see ``workloads.foreign_python``.
    """

    target_ci: float = 0.02
    minibatches: int | None = None
    least_minibatches: int = 10
    max_minibatches: int = 1000
    max_sampling_s: float = 60.0
    point_timeout_s: float = 600.0
    retries: int = 2
    cool_to_c: float | None = None
    cool_timeout_s: float = 300.0
    fan: str | None = None
    interleave_repeats: int = 1
    soak_s: float | None = None
    idle_gaps_s: tuple[float, ...] = ()
    inputs: str | None = None
    dimensions: Mapping[str, int] = field(default_factory=dict)
    precision: str | None = None
    seed: int = 0
    step_pattern: str | None = None
    steps: bool = False
    start: str | None = None
    engine: str = "ort"
    dla_core: int | None = None
    allow_gpu_fallback: bool = False
    python: str | None = None

    @property
    def engine_options(self) -> EngineOptions:
        """The engine and its options."""
        return EngineOptions(self.engine, self.precision, self.dla_core, self.allow_gpu_fallback)

    @property
    def idling_s(self) -> float:
        """Time that a point idles, s."""
        return sum(gap_s * gap_repeats(gap_s) for gap_s in self.idle_gaps_s)

    @property
    def long_s(self) -> float:
        """Time of a soak and of idling, s, by which the limit of a point is extended."""
        return (self.soak_s or 0.0) + self.idling_s

    def probing(self, minibatches: int) -> ProfileOptions:
        """Return the options of a quick try: a few minibatches, without repeats, waits or a soak."""
        return replace(self, minibatches=minibatches, retries=0, cool_to_c=None, soak_s=None, idle_gaps_s=())

    @property
    def feed(self) -> Feed:
        """The inputs of the network."""
        return Feed(self.inputs, self.seed)

    def __post_init__(self) -> None:
        bounds = {
            "the target interval": (self.target_ci, 0 < self.target_ci < 1, "a fraction, e.g. 0.02 for 2 %"),
            "the number of minibatches": (
                self.minibatches,
                self.minibatches is None or self.minibatches >= 1,
                "e.g. 40",
            ),
            "the most minibatches": (self.max_minibatches, self.max_minibatches >= 10, "10 or more"),
            "the longest sampling time": (self.max_sampling_s, is_positive(self.max_sampling_s), "seconds, e.g. 60"),
            "the point timeout": (self.point_timeout_s, is_positive(self.point_timeout_s), "seconds, e.g. 600"),
            "the number of retries": (self.retries, self.retries >= 0, "0 or more"),
            "the temperature to cool to": (
                self.cool_to_c,
                self.cool_to_c is None or math.isfinite(self.cool_to_c),
                "degrees Celsius, e.g. 50",
            ),
            "the longest time to cool": (self.cool_timeout_s, is_positive(self.cool_timeout_s), "seconds, e.g. 300"),
            "the soak": (self.soak_s, self.soak_s is None or is_positive(self.soak_s), "seconds, e.g. 1800"),
            "the number of rounds": (self.interleave_repeats, self.interleave_repeats >= 1, "1 or more"),
        }
        for what, (value, good, example) in bounds.items():
            if not good:
                raise InputError(f"{what} cannot be {value}", f"give {example}")

    @property
    def rule(self) -> StoppingRule:
        """When sampling of a point stops."""
        return StoppingRule(self.target_ci, self.least_minibatches, self.max_minibatches, self.minibatches)

    def plain(self) -> dict[str, Any]:
        """Return the options as plain data, for headers and hashes."""
        return {**asdict(self), "idle_gaps_s": list(self.idle_gaps_s)}


_EVERY_S = 0.4
"""Shortest time between two reports of one point, s."""

_MOST = 1000
"""Most minibatches of a running median, the last ones: it then takes a millisecond."""


OnState = Callable[[str], None]
"""Takes what is done now, in words."""
COOLING = "cooling: "
"""Beginning of the state of a wait."""


def cooling(now_c: float | None, to_c: float) -> str:
    """Describe a wait: degrees Celsius now (``None``: no sensor answers) and the target."""
    return f"{COOLING}{'temperature unknown' if now_c is None else f'{now_c:.0f} C'}, to {to_c:g} C"


@dataclass(slots=True)
class SamplingReport:
    """Reports the sampling of a point between calls of its runner, at most every ``_EVERY_S``.

    Args:
        on_state: Takes the state.
        point: What is measured.
        options: How long it may take.
        clock_s: Returns the time, s.
    """

    on_state: OnState
    point: Point
    options: ProfileOptions
    clock_s: Callable[[], float] = time.monotonic
    _last_s: float = float("-inf")

    def note(self, start_ns: Sequence[int], end_ns: Sequence[int]) -> None:
        """Report minibatches by their start and end, unless the last report is recent."""
        if self.clock_s() - self._last_s < _EVERY_S:
            return
        count = len(end_ns)
        first = max(count // 2, count - _MOST)
        times_s = [(end - start) / 1e9 for start, end in zip(start_ns[first:], end_ns[first:], strict=True)]
        left_s = self._left_s(count, (end_ns[-1] - start_ns[0]) / 1e9)
        interval_s = median_interval(times_s)
        ends = "" if interval_s is None else " ({}, {})".format(*(format_si(end, "s") for end in interval_s))
        left = f", at most {format_duration(round(left_s))} left" if left_s >= 1 else ""
        self.on_state(f"{format_si(median(times_s), 's')}{ends}, {count} minibatches{left}: {self.point}")
        self._last_s = self.clock_s()

    def _left_s(self, count: int, elapsed_s: float) -> float:
        """Return the longest time that sampling can still take, s."""
        options = self.options
        if options.minibatches is not None and options.soak_s is None:
            return (options.minibatches - count) * elapsed_s / count
        return (options.soak_s or options.max_sampling_s) - elapsed_s

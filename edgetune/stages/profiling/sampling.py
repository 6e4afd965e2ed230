"""Sampling of a point: minibatches in growing chunks until times are certain and the power sensor has settled."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from edgetune.artifacts.profile import THROTTLED_SHARE
from edgetune.devices.capabilities import Absent, PowerReading, PowerRecording, PowerSensor
from edgetune.devices.device import Device, Runner
from edgetune.stages.profiling.disturbances import LOOK_EVERY_S, ContentionWatch, DeviceWatch
from edgetune.stages.profiling.energy import MINIMUM_SAMPLES, SPARE_READINGS, measurable_s, power_figures, settling_s
from edgetune.stages.profiling.options import ProfileOptions, SamplingReport
from edgetune.stats import find_warmup, median

_SHORTEST_CHUNK_S = 0.02
"""A call of the runner costs a fraction of a millisecond; after the first, calls are made long enough to hide it."""

_SILENT_INTERVALS = 3
"""A sensor without a new reading for so many refresh intervals is not waited for: one may be late, another lost."""

_GROWTH = 0.5
"""By how much the window grows before power is judged again; as for times, judging seldom avoids luck."""

_FIRST_CALL = 10
"""Minibatches of the first call where there is something to look after: as many as the stopping rule asks for first."""


_THROTTLED_S = 3.0
"""Thirty periods of the usual 100 ms: the mean over parts of the first and last one is wrong by 2 % at most."""

_SOAK_CHUNK_S = 10.0
"""The time left of a soak is asked again after so long: minibatches may become slower."""


@dataclass(slots=True)
class Samples:
    """Start and end of each minibatch of a point, on the device's clock, ns."""

    start_ns: list[int] = field(default_factory=list)
    end_ns: list[int] = field(default_factory=list)
    columns: Mapping[str, Any] = field(default_factory=dict)
    """Further columns of the row."""

    @property
    def times_s(self) -> list[float]:
        """Duration of each minibatch, s."""
        return [(end - start) / 1e9 for start, end in zip(self.start_ns, self.end_ns, strict=True)]

    @property
    def elapsed_s(self) -> float:
        """Time from the start of the first minibatch to the end of the last, s."""
        return (self.end_ns[-1] - self.start_ns[0]) / 1e9 if self.end_ns else 0.0

    @property
    def overhead(self) -> float:
        """Fraction of that time spent between minibatches: the overhead of measuring."""
        if not self.end_ns or self.end_ns[-1] == self.start_ns[0]:
            return 0.0
        window_ns = self.end_ns[-1] - self.start_ns[0]
        return (window_ns - (sum(self.end_ns) - sum(self.start_ns))) / window_ns

    def power_window_start_ns(self, warmups: int, settle_s: float) -> int:
        """Return when readings begin to represent steady work: after the warm-up and the sensor's settling time."""
        first_steady_ns = self.start_ns[min(warmups, len(self.start_ns) - 1)]
        return max(first_steady_ns, self.start_ns[0] + round(settle_s * 1e9))


def collect(
    device: Device, runner: Runner, options: ProfileOptions, recording: PowerRecording, watch: DeviceWatch,
    *, others: ContentionWatch | None = None, report: SamplingReport | None = None,
) -> Samples:  # fmt: skip
    """Run minibatches until the stopping rule and the power sensor have enough, a bound is reached, or the mode drifts.

    Args:
        device: What it runs on.
        runner: The workload.
        options: How sure to be, and for how long at most.
        recording: Of the power sensor, open.
        watch: Asked between calls, which are so made that it is asked about once a second.
        others: Says whether a CPU quota stops the workload, whose mean time then needs many periods of the quota.
        report: Gets the samples between calls, which then take about a second, too.

    Raises:
        EdgetuneError: the workload failed.
    """
    samples = Samples()
    while not watch.drift and (
        more := _more(device, samples, options, recording.readings) or _more_periods(samples, options, others)
    ):
        _run(runner, more, samples, watch, report)
    return samples


def _run(runner: Runner, minibatches: int, samples: Samples, watch: DeviceWatch, report: SamplingReport | None) -> None:
    """Run that many minibatches, in calls of about a second where there is something to look after in between.

    The stopping rule is not asked between these calls: looking more often would end on samples that look good by luck.
    """
    left = minibatches
    while left > 0:
        now = min(left, _per_look(samples)) if watch.needed or report is not None else left
        batch = runner.run(now)
        samples.start_ns.extend(batch.start_ns)
        samples.end_ns.extend(batch.end_ns)
        samples.columns = batch.columns
        left -= now
        if report is not None:
            report.note(samples.start_ns, samples.end_ns)
        if not watch.poll():
            return


def _per_look(samples: Samples) -> int:
    """Return how many minibatches take about a second; before anything is known, few."""
    if not samples.end_ns:
        return _FIRST_CALL
    typical_s = max(samples.elapsed_s / len(samples.end_ns), 1e-9)
    return max(1, math.floor(LOOK_EVERY_S / typical_s))


def _more(device: Device, samples: Samples, options: ProfileOptions, readings: Sequence[PowerReading]) -> int:
    """Return how many minibatches to run next; 0 when done."""
    if options.soak_s is not None and samples.end_ns:
        left_s = options.soak_s - samples.elapsed_s
        per_s = len(samples.end_ns) / samples.elapsed_s
        return math.ceil(min(left_s, _SOAK_CHUNK_S) * per_s) if left_s > 0 else 0
    rule, times_s = options.rule, samples.times_s
    more = rule.more(times_s)
    if not times_s:
        return more
    typical_s = max(median(times_s), 1e-9)
    left_s = options.max_sampling_s - samples.elapsed_s
    if more and rule.fixed is not None:
        return more
    if more and (left_s > 0 or len(times_s) < rule.minimum):
        more = max(more, math.ceil(_SHORTEST_CHUNK_S / typical_s))
        return max(1, min(more, math.ceil(left_s / typical_s)))
    wait_s = min(_power_wait_s(device.power, samples, readings), left_s)
    return math.ceil(wait_s / typical_s) if wait_s > 0 else 0


def _more_periods(samples: Samples, options: ProfileOptions, others: ContentionWatch | None) -> int:
    """Return how many minibatches the mean still needs where a CPU quota stops the workload; 0 where none does."""
    left_s = min(_THROTTLED_S, options.max_sampling_s) - samples.elapsed_s
    share = None if others is None or left_s <= 0 or options.minibatches is not None else others.throttled_share()
    if share is None or share < THROTTLED_SHARE:
        return 0
    return math.ceil(left_s * len(samples.end_ns) / samples.elapsed_s)


def _power_wait_s(power: PowerSensor | Absent, samples: Samples, readings: Sequence[PowerReading]) -> float:
    """Return the time until there are enough readings of settled power, s."""
    if isinstance(power, Absent):
        return 0.0
    start_ns = samples.power_window_start_ns(find_warmup(samples.times_s).length, settling_s(power))
    end_ns = samples.end_ns[-1]
    needed_s = (MINIMUM_SAMPLES + SPARE_READINGS) * power.refresh_s - (end_ns - start_ns) / 1e9
    if needed_s > 0:
        return needed_s
    figures = power_figures(readings, start_ns=start_ns, end_ns=end_ns, refresh_s=power.refresh_s)
    if figures.settled and figures.power_w is not None:
        return 0.0
    if not readings or end_ns - readings[-1].time_ns > _SILENT_INTERVALS * power.refresh_s * 1e9:
        return 0.0
    return max(SPARE_READINGS, math.ceil(_GROWTH * (end_ns - start_ns) / 1e9 / power.refresh_s)) * power.refresh_s


def typical_sampling_s(power: PowerSensor | Absent, minibatch_s: float, options: ProfileOptions) -> float:
    """Return the sampling time of a steady workload, s, given its minibatch time."""
    if options.soak_s is not None:
        return options.soak_s
    rule = options.rule
    needed_s = (rule.fixed or 1.5 * rule.minimum) * minibatch_s
    if isinstance(power, Absent):
        return needed_s
    return max(needed_s, measurable_s(power))

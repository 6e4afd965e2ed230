"""How long to run a point: minibatches in growing chunks until the times are sure and the power sensor has settled."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from edgetune.devices.device import Absent, Device, PowerSensor, Runner
from edgetune.profiling.energy import MINIMUM_SAMPLES
from edgetune.profiling.options import ProfileOptions
from edgetune.stats import find_warmup, median

_SHORTEST_CHUNK_S = 0.02
"""A call of the runner costs a fraction of a millisecond; after the first, calls are made long enough to hide it."""

_SPARE_READINGS = 2
"""One reading straddles the start of the window and one its end."""


@dataclass(slots=True)
class Samples:
    """What was collected while a point ran; times on the device's clock, ns, temperature in degrees Celsius."""

    start_ns: list[int] = field(default_factory=list)
    end_ns: list[int] = field(default_factory=list)
    temp_max_c: float | None = None

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
        """Fraction of that time which was spent between minibatches: what measuring costs the workload."""
        if not self.end_ns or self.end_ns[-1] == self.start_ns[0]:
            return 0.0
        window_ns = self.end_ns[-1] - self.start_ns[0]
        return (window_ns - (sum(self.end_ns) - sum(self.start_ns))) / window_ns

    def power_window_start_ns(self, warmups: int, settle_s: float) -> int:
        """Return when readings begin to represent steady work: after the warm-up and the sensor's settling time."""
        first_steady_ns = self.start_ns[min(warmups, len(self.start_ns) - 1)]
        return max(first_steady_ns, self.start_ns[0] + round(settle_s * 1e9))


def collect(device: Device, runner: Runner, options: ProfileOptions) -> Samples:
    """Run minibatches until the stopping rule and the power sensor have enough, or a bound is reached.

    Raises:
        EdgetuneError: the workload failed.
    """
    samples = Samples()
    while more := _more(device, samples, options):
        batch = runner.run(more)
        samples.start_ns.extend(batch.start_ns)
        samples.end_ns.extend(batch.end_ns)
        _note_temperature(device, samples)
    return samples


def _more(device: Device, samples: Samples, options: ProfileOptions) -> int:
    """Return how many minibatches to run next; 0 when done."""
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
    wait_s = min(_power_wait_s(device, samples), left_s)
    return math.ceil(wait_s / typical_s) if wait_s > 0 else 0


def _power_wait_s(device: Device, samples: Samples) -> float:
    """Return for how much longer work must go on until there are enough readings of steady work, s."""
    if isinstance(device.power, Absent):
        return 0.0
    start_ns = samples.power_window_start_ns(find_warmup(samples.times_s).length, device.power.settle_s)
    needed_s = (MINIMUM_SAMPLES + _SPARE_READINGS) * device.power.refresh_s
    return needed_s - (samples.end_ns[-1] - start_ns) / 1e9


def _note_temperature(device: Device, samples: Samples) -> None:
    if isinstance(device.temperature, Absent):
        return
    now_c = device.temperature.read_c()
    if now_c is not None:
        samples.temp_max_c = now_c if samples.temp_max_c is None else max(samples.temp_max_c, now_c)


def typical_sampling_s(power: PowerSensor | Absent, minibatch_s: float, options: ProfileOptions) -> float:
    """Return for how long a steady workload is sampled, s, given its minibatch time."""
    rule = options.rule
    needed_s = (rule.fixed or 1.5 * rule.minimum) * minibatch_s
    if isinstance(power, Absent):
        return needed_s
    return max(needed_s, power.settle_s + (MINIMUM_SAMPLES + _SPARE_READINGS) * power.refresh_s)

"""Estimates a sweep before it begins: points, time, energy, and the basis of the estimate."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.artifacts.repeats import mean_minibatch_s
from edgetune.devices.capabilities import Absent
from edgetune.devices.device import Device, LiveSource, TableSource
from edgetune.errors import InputError
from edgetune.stages.profiling.disturbances import check_possible
from edgetune.stages.profiling.measure import measure_point
from edgetune.stages.profiling.options import ProfileOptions
from edgetune.stages.profiling.profiler import Profiler
from edgetune.stages.profiling.queue import loading_order
from edgetune.stages.profiling.sampling import typical_sampling_s
from edgetune.stages.profiling.supervisor import Supervisor
from edgetune.units import format_duration
from edgetune.workloads.resolve import KINDS
from edgetune.workloads.workload import Workload

_PROBED_MINIBATCHES = 3
_SIMULATED_POINTS = 500


@dataclass(frozen=True, slots=True)
class SweepEstimate:
    """The estimate of a sweep.

    Args:
        points: Points to measure.
        duration_s: Time on the device, s; ``None`` when unknown.
        energy_j: Energy the device will use meanwhile, J; ``None`` when unknown.
        basis: How the figures were found, in words.
        rounds: How often each point is visited; the figures cover all visits.
        cooling_at_most_s: What waiting for the device to cool may add to the duration, s.
    """

    points: int
    duration_s: float | None
    energy_j: float | None
    basis: str
    rounds: int = 1
    cooling_at_most_s: float = 0.0

    def times(self, share: float) -> SweepEstimate:
        """Return the estimate of so many times the work."""
        duration_s, energy_j = (None if each is None else share * each for each in (self.duration_s, self.energy_j))
        return replace(self, duration_s=duration_s, energy_j=energy_j)


def estimate(
    device: Device, workload: Workload, points: Sequence[Point], options: ProfileOptions, *, run_code: bool = True,
    measured: Sequence[ProfileRow] = (),
) -> SweepEstimate:  # fmt: skip
    """Return the time and energy of measuring ``points``; no power mode of a real device is changed.

    A simulated device predicts itself exactly, in its own virtual time. On a real one, the workload is loaded once in
    the mode the device is in, a few minibatches are run at the smallest batch size, and their time is taken in
    proportion to the batch size; where points are measured already, as long as those took is expected of the others.

    Args:
        device: Where they would be measured.
        workload: The network.
        points: What would be measured.
        options: How.
        run_code: Whether a Python file is run for the estimate; without running it its time is unknown.
        measured: Points of the same sweep.

    Raises:
        InputError: The options do not fit the device.
        EdgetuneError: The workload cannot run.
    """
    check_possible(device, options)
    points = tuple(dict.fromkeys(points))
    if not points:
        return SweepEstimate(0, 0.0, 0.0, "nothing to measure")
    if isinstance(device.source, TableSource):
        return SweepEstimate(len(points), 0.0, 0.0, "looked up in the recorded table")
    kind = KINDS.get(workload.kind)
    live = isinstance(device.source, LiveSource)
    if live and measured:
        once = _paced(points, measured)
    elif live and options.engine_options.builds and not run_code:
        basis = "only building its engine would tell, which this does not do"
        once = SweepEstimate(len(points), None, None, basis)
    elif live and kind is not None and kind.runs_code and not run_code:
        code = workload.reference.removeprefix("command:")
        basis = f"only running {code} would tell, and its code is not run for this"
        once = SweepEstimate(len(points), None, None, basis)
    elif isinstance(device.source, LiveSource):
        once = _probed(device, device.source, workload, points, options)
    else:
        once = _simulated(device, workload, points, options)
    return _with_waits(once, options)


def _with_waits(once: SweepEstimate, options: ProfileOptions) -> SweepEstimate:
    """Return the estimate of all rounds from that of one, with the time that cooling may add."""
    rounds, basis, waits_s = options.interleave_repeats, once.basis, 0.0
    if rounds > 1:
        basis += f"; {rounds} rounds"
    if options.cool_to_c is not None:
        waits_s = once.points * rounds * options.cool_timeout_s
        basis += f"; cooling to {options.cool_to_c:g} C may add up to {format_duration(waits_s)}"
    return replace(
        once, duration_s=None if once.duration_s is None else rounds * once.duration_s,
        energy_j=None if once.energy_j is None else rounds * once.energy_j, basis=basis, rounds=rounds,
        cooling_at_most_s=waits_s,
    )  # fmt: skip


def _simulated(device: Device, workload: Workload, points: Sequence[Point], options: ProfileOptions) -> SweepEstimate:
    """Measure points on the twin, which takes seconds: of many an even share, in proportion."""
    duration_s, energy_j, failed = 0.0, 0.0, 0
    taken = loading_order(points)[:: -(-len(points) // _SIMULATED_POINTS)]
    with Profiler(device, workload, points[0].task, options) as profiler:
        for point in taken:
            row = profiler.measure(point)
            duration_s += row.duration_s or 0.0
            energy_j += (row.duration_s or 0.0) * (row.power_w or 0.0)
            failed += row.status == "failed"
        if failed == len(taken) and profiler.last_error is not None:
            raise profiler.last_error
    basis = f"predicted by {device.name}, in the board's own time"
    if len(taken) < len(points):
        basis += f"; from {len(taken)} of the points"
    if failed:
        basis += f"; {failed} of them cannot be measured"
    share = len(points) / len(taken)
    return SweepEstimate(len(points), share * duration_s, share * energy_j, basis)


def _paced(points: Sequence[Point], measured: Sequence[ProfileRow]) -> SweepEstimate:
    """Expect of each point what the measured ones of the nearest batch size took."""
    duration_s, energy_j = 0.0, 0.0
    for point in points:
        nearest = min((abs(row.batch_size - point.batch_size), row.batch_size) for row in measured)[1]
        alike = [row for row in measured if row.batch_size == nearest]
        duration_s += fmean(row.duration_s or 0.0 for row in alike)
        energy_j += fmean((row.duration_s or 0.0) * (row.power_w or math.nan) for row in alike)
    done = "the point" if len(measured) == 1 else f"the {len(measured)} points"
    known_j = None if math.isnan(energy_j) else energy_j
    return SweepEstimate(len(points), duration_s, known_j, f"from {done} measured already")


def _probed(
    device: Device, source: LiveSource, workload: Workload, points: Sequence[Point], options: ProfileOptions
) -> SweepEstimate:
    """Run a few minibatches and extrapolate from them."""
    first = min(points, key=lambda point: point.batch_size)
    probe = replace(first, mode=Mode())
    as_found = replace(device, modes=Absent("an estimate sets no power mode"))
    few = options.probing(_PROBED_MINIBATCHES)
    begun_s = time.monotonic()
    with contextlib.closing(Supervisor(source, workload, options)) as supervisor:
        supervisor.open(probe)
        loading_s = time.monotonic() - begun_s
        attempt = measure_point(as_found, supervisor.open, probe, few)[-1]
    row = attempt.row
    time_s = mean_minibatch_s(row)
    if time_s is None:
        raise attempt.error or InputError(f"{probe} cannot be measured: {row.reason}", "see --verbose")
    per_sample_s = time_s / probe.batch_size
    loadings = len({(point.batch_size, point.mode.cpu_cores) for point in points})
    sampling_s = sum(typical_sampling_s(device.power, per_sample_s * point.batch_size, options) for point in points)
    duration_s = loadings * loading_s + sampling_s + len(points) * options.idling_s
    energy_j = None if row.power_w is None else row.power_w * duration_s
    basis = f"from {_PROBED_MINIBATCHES} minibatches at batch size {probe.batch_size}; lower power modes take longer"
    if options.rule.fixed is None and options.soak_s is None:
        most = [min(options.rule.maximum * per_sample_s * point.batch_size, options.max_sampling_s) for point in points]
        basis += f"; up to {format_duration(duration_s - sampling_s + max(sum(most), sampling_s))} where times scatter"
    if row.power_w is None:
        basis += f"; {row.reason}"
    return SweepEstimate(len(points), duration_s, energy_j, basis)

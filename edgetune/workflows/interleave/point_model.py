"""What a simulation of the tenants is made of: the times that were measured of each, and what the device then drew."""

from __future__ import annotations

from collections.abc import Sequence

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.devices.device import Device, ModelSource
from edgetune.errors import InputError
from edgetune.roofline.measure import idle_run
from edgetune.units import NS
from edgetune.workflows.interleave.planning import InterleaveJob
from edgetune.workflows.interleave.points import Measuring


class PointModel:
    """What is known of every point, and measured when asked for where the device is simulated itself.

    Args:
        device: Where it was measured.
        planned: The tenants and their rows.
        measure: Measures a point of a device that is simulated.
    """

    def __init__(self, device: Device, planned: InterleaveJob, measure: Measuring) -> None:
        self._device, self._planned, self._measure = device, planned, measure
        self._idle_w: dict[Mode, float] = {}

    @property
    def knows_power(self) -> bool:
        """Whether power was measured of every tenant as planned."""
        planned = self._planned
        return all(self._row(t.name, t.batch_size, planned.mode).power_w is not None for t in planned.tenants)

    def times_ns(self, name: str, batch_size: int, mode: Mode) -> Sequence[int]:
        """Return what minibatches took, ns: each that was recorded, else the median.

        Raises:
            InputError: the point was not measured, or cannot be.
        """
        row = self._row(name, batch_size, mode)
        steady = (row.times_s or ())[row.warmups or 0 :] or (row.minibatch_s or 0.0,)
        return [round(time_s * NS) for time_s in steady]

    def power_w(self, name: str | None, batch_size: int, mode: Mode) -> float:
        """Return what the device draws while a tenant runs, W; of none, what it draws at rest.

        Raises:
            InputError: power was not measured at that point.
        """
        if name is None:
            if mode not in self._idle_w:
                self._idle_w[mode] = self._at_rest_w(mode)
            return self._idle_w[mode]
        power_w = self._row(name, batch_size, mode).power_w
        if power_w is None:
            raise InputError(f"the power of {name} at batch {batch_size} [{mode}] was not measured", "measure it first")
        return power_w

    def _row(self, name: str, batch_size: int, mode: Mode) -> ProfileRow:
        known = next(known for known in self._planned.known if known.asked.name == name)
        point = Point(known.workload.name, known.asked.task, batch_size, mode)
        for row in known.rows:
            if row.point == point:
                return row
        measured = self._measure(point) if self._device.simulated else None
        if measured is None or measured.minibatch_s is None:
            raise InputError(f"{point} was not measured", "simulate what was measured, or name it with --profile")
        return measured

    def _at_rest_w(self, mode: Mode) -> float:
        """Return what the device draws at rest, W: measured on a twin, else the least that any workload draws."""
        if isinstance(self._device.source, ModelSource):
            run = idle_run(self._device, mode)
            if run is not None and run.power_w is not None:
                return run.power_w
        return min(row.power_w for known in self._planned.known for row in known.rows if row.power_w is not None)

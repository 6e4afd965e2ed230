"""Takes the present readings of a device and of the machine around it, once per interval."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

from edgetune.devices.device import Device, LiveSource
from edgetune.devices.machine import Machine, ProcessReading
from edgetune.devices.sysfs import Sysfs
from edgetune.devices.telemetry import Readings, read_telemetry
from edgetune.errors import InputError
from edgetune.units import parse_time_s
from edgetune.workflows.device.options import WatchOptions
from edgetune.workflows.device_option import open_named

_FIRST_LOAD_S = 0.2
"""Interval of the first load of the CPUs, s."""

_ORDER = ("load_percent", "clocks_mhz", "power_w", "temperature_c", "memory_bytes", "machine_memory_bytes")
"""Groups of readings that come first; the others follow in the device's order."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The readings at one moment.

    Args:
        groups: Readings by group and name.
        processes: Those of edgetune, then the busiest others.
    """

    groups: Readings
    processes: Sequence[ProcessReading]


@dataclass(frozen=True, slots=True)
class WatchedDevice:
    """A device and the machine around it.

    Args:
        device: The device.
        machine: Of a fake board it shows nothing.
        interval_s: Time between readings, s.
        count: Number of readings; ``None`` for no end.
    """

    device: Device
    machine: Machine
    interval_s: float
    count: int | None

    def read(self) -> Snapshot:
        """Return the present readings; a group without any is left out."""
        of_machine, own = self.machine.read(), read_telemetry(self.device)
        names = dict.fromkeys((*_ORDER, *own))
        merged = {name: {**own.get(name, {}), **of_machine.get(name, {})} for name in names}
        return Snapshot({name: values for name, values in merged.items() if values}, self.machine.processes())

    def settle(self) -> None:
        """Wait until the first load of the CPUs can be computed."""
        if self.machine.counts:
            time.sleep(_FIRST_LOAD_S)

    def document(self, snapshot: Snapshot) -> dict[str, object]:
        """Return the readings as a JSON document; a fake board, which has no processes, has no such field."""
        now = datetime.now().astimezone().isoformat(timespec="milliseconds")
        processes = [asdict(each) for each in snapshot.processes]
        head = {"time": now, "device": self.device.name, "simulated": self.device.simulated, **snapshot.groups}
        return {**head, "processes": processes} if processes else head

    def snapshots(self) -> Iterator[Snapshot]:
        """Yield readings, one per interval."""
        self.settle()
        done = 0
        while self.count is None or done < self.count:
            if done:
                time.sleep(self.interval_s)
            yield self.read()
            done += 1


def open_watched(opts: WatchOptions) -> WatchedDevice:
    """Open the device to watch.

    Raises:
        InputError: the device has no live readings, or the interval is not a time.
    """
    every_s = parse_time_s(opts.interval, what="the interval")
    device = open_named(opts.name, opts.root)
    if not isinstance(device.source, LiveSource):
        raise InputError(f"{device.name} has nothing to watch: it does not run by itself", "watch a real device")
    return WatchedDevice(device, Machine(Sysfs(Path(opts.root or "/"))), every_s, opts.count)

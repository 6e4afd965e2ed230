"""Takes the present readings of a device and of the machine around it, once per interval.

Serves the present readings of a device to Prometheus, in its text format 0.0.4, on the loopback address only.

Names follow https://prometheus.io/docs/practices/naming: base SI units, shares from 0 to 1, ``_total`` for counters.
A reading is taken when it is asked for, so the server costs nothing in between.
"""

import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

from edgetune.devices.device import Device, LiveSource
from edgetune.devices.sysfs import Sysfs
from edgetune.devices.telemetry import Machine, Readings, read_telemetry
from edgetune.errors import InputError
from edgetune.units import parse_time_s
from edgetune.version import __version__
from edgetune.visible import visible
from edgetune.workflows.device.options import WatchOptions
from edgetune.workflows.device_option import open_named
from edgetune.workflows.reporting import Reporter

_FIRST_LOAD_S = 0.2
"""Interval of the first load of the CPUs, s."""

_ORDER = ("load_percent", "clocks_mhz", "power_w", "temperature_c", "memory_bytes", "machine_memory_bytes")
"""Groups of readings that come first; the others follow in the device's order."""


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

    def read(self) -> Readings:
        """Return the present readings; a group without any is left out."""
        of_machine, own = self.machine.read(), read_telemetry(self.device)
        names = dict.fromkeys((*_ORDER, *own))
        merged = {name: {**own.get(name, {}), **of_machine.get(name, {})} for name in names}
        return {name: values for name, values in merged.items() if values}

    def settle(self) -> None:
        """Wait until the first load of the CPUs can be computed."""
        if self.machine.counts:
            time.sleep(_FIRST_LOAD_S)

    def document(self, readings: Readings) -> dict[str, object]:
        """Return the readings as a JSON document."""
        now = datetime.now().astimezone().isoformat(timespec="milliseconds")
        return {"time": now, "device": self.device.name, "simulated": self.device.simulated, **readings}

    def readings(self) -> Iterator[Readings]:
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


ADDRESS = "127.0.0.1"
_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Metric:
    """How the readings of one group are served.

    Args:
        name: Name of the metric.
        label: Label that carries the name of a reading.
        help: What it is.
        scale: Factor from a reading to its base unit.
        kind: Of Prometheus.
    """

    name: str
    label: str
    help: str
    scale: float = 1.0
    kind: str = "gauge"


METRICS = {
    "load_percent": Metric("edgetune_load_ratio", "part", "Share of the time that a part was busy.", 0.01),
    "clocks_mhz": Metric("edgetune_clock_hertz", "clock", "Present clock.", 1e6),
    "power_w": Metric("edgetune_power_watts", "rail", "Present power of a rail."),
    "temperature_c": Metric("edgetune_temperature_celsius", "sensor", "Present temperature."),
    "memory_bytes": Metric("edgetune_device_memory_bytes", "kind", "Memory of the accelerator."),
    "machine_memory_bytes": Metric("edgetune_machine_memory_bytes", "kind", "Memory and swap of the machine."),
    "throttling_events": Metric(
        "edgetune_throttling_events_total", "counter", "Throttling events since boot.", kind="counter"
    ),
}
"""How each group of numbers is served."""

_THROTTLED = Metric("edgetune_throttled", "", "Whether something slows the device now.")
_FAN = {
    "speed_rpm": Metric("edgetune_fan_rpm", "", "Measured speed of the fan, revolutions per minute."),
    "pwm": Metric("edgetune_fan_duty_ratio", "", "Drive of the fan, from 0 to 1.", 1 / 255),
}

Sample = tuple[Metric, Mapping[str, object], float]


def exposition(watched: WatchedDevice, readings: Readings) -> str:
    """Return readings in Prometheus' text format; a missing reading has no sample, a simulated one a label."""
    device = watched.device
    common: dict[str, object] = {"device": device.name, **({"simulated": "true"} if device.simulated else {})}
    info = Metric("edgetune_device_info", "", "The device that is watched.")
    about = {"description": device.description, "version": __version__}
    lines, told = [], set[str]()
    for metric, labels, value in ((info, about, 1.0), *sorted(_samples(readings), key=lambda each: each[0].name)):
        if metric.name not in told:
            told.add(metric.name)
            lines += [f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} {metric.kind}"]
        escaped = {
            n: visible(str(t)).replace("\\", "\\\\").replace('"', '\\"') for n, t in {**labels, **common}.items()
        }
        named = ",".join(f'{name}="{text}"' for name, text in escaped.items())
        lines.append(f"{metric.name}{{{named}}} {float(f'{value * metric.scale:.12g}')!r}")
    return "\n".join(lines) + "\n"


def _samples(readings: Readings) -> Iterator[Sample]:
    for group, values in readings.items():
        for name, value in values.items():
            metric = METRICS.get(group) or (_FAN.get(name) if group == "fan" else None)
            if metric is not None and isinstance(value, (int, float)):
                yield metric, ({metric.label: name} if metric.label else {}), value
            elif group == "throttling_now" and isinstance(value, str):
                yield _THROTTLED, {}, float(value != "none")


def serve(watched: WatchedDevice, port: int, reporter: Reporter) -> None:
    """Answer ``GET /metrics`` until interrupted, or as many times as readings were asked for.

    Raises:
        InputError: the port is in use, or only root may take it.
    """
    watched.settle()
    try:
        server = _Server(watched, port)
    except PermissionError:
        raise InputError(f"--prometheus {port}: only root may take this port", "name one above 1023") from None
    except OSError as error:
        raise InputError(f"--prometheus {port}: {error.strerror}", "name another port, or 0 for a free one") from None
    with server:
        reporter.info(f"serving {watched.device.name} at http://{ADDRESS}:{server.server_port}/metrics until Ctrl-C")
        while watched.count is None or server.answered < watched.count:
            server.handle_request()


class _Server(HTTPServer):
    """Counts the answered requests; one at a time, because sensors are slow and readings one state."""

    def __init__(self, watched: WatchedDevice, port: int) -> None:
        self.watched = watched
        self.answered = 0
        super().__init__((ADDRESS, port), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a client that is gone; a device that is gone ends the server."""
        del request, client_address
        error = sys.exc_info()[1]
        if error is not None and not isinstance(error, OSError):
            raise error


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = 5
    """Seconds that a client may take for its request: another one waits meanwhile."""

    def do_GET(self) -> None:
        """Send the present readings."""
        if self.path.partition("?")[0] != "/metrics":
            self.send_error(404, "the readings are at /metrics")
            return
        body = exposition(self.server.watched, self.server.watched.read()).encode()
        self.send_response(200)
        self.send_header("Content-Type", _TYPE)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.server.answered += 1

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""

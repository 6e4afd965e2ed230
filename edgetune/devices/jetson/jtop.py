"""Power from jetson-stats, for those who have it running and ask for it: ``jetson?source=jtop``.

Only what its documentation shows is used: the ``jtop`` context, ``ok()`` that waits for the next update and is false
once the service is gone, and ``power["tot"]["power"]`` in mW. Which rails that adds up is jetson-stats' own choice;
on AGX Orin it is four, one more than edgetune adds (see ``rails.VDDQ``).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from edgetune.devices.clock import Clock
from edgetune.devices.device import PowerReading, PowerSensor
from edgetune.devices.jetson.ina import DEFAULT_REFRESH_S
from edgetune.devices.polling import PolledRecording, SensorStoppedError, polled
from edgetune.errors import DeviceError

_INTERVAL_S = 0.5
"""jetson-stats' default: about as often as the chips below it have something new."""

_PAUSE_S = 0.01
"""Between an update and waiting for the next; ``ok()`` does the waiting."""


class JtopPower:
    """The total power that the jtop service shows.

    Args:
        module: The ``jtop`` package.
        clock: Stamps the readings.
    """

    source = "jtop:tot"
    refresh_s = _INTERVAL_S
    settle_s = 2 * DEFAULT_REFRESH_S + _INTERVAL_S
    """The chips' own two intervals, and then the service's."""

    def __init__(self, module: Any, clock: Clock) -> None:
        self._module = module
        self._clock = clock

    @contextmanager
    def record(self) -> Iterator[PolledRecording]:
        """Take every update of the service for as long as the context is open."""
        with self._connected() as client, polled(lambda: self._read(client), _PAUSE_S) as recording:
            yield recording

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        """Open the service's client and close it whatever happens."""
        client = self._module.jtop(interval=_INTERVAL_S)
        try:
            client.start()
        except Exception as error:  # its exceptions are its own, and differ between versions
            raise DeviceError(
                f"the jtop service does not answer: {error}",
                "sudo systemctl restart jtop.service, and be in the group jtop; or leave out source=jtop",
            ) from error
        try:
            yield client
        finally:
            client.close()

    def _read(self, client: Any) -> PowerReading:
        """Wait for the next update and return it.

        Raises:
            SensorStoppedError: the service is gone, or shows no total.
        """
        try:
            if not client.ok():
                raise SensorStoppedError("the jtop service has stopped")
            milliwatts = client.power["tot"]["power"]
        except SensorStoppedError:
            raise
        except Exception as error:
            raise SensorStoppedError(f"jtop gives no total power: {type(error).__name__}: {error}") from error
        if not isinstance(milliwatts, (int, float)) or milliwatts <= 0:
            raise SensorStoppedError(f"jtop gives no total power but {milliwatts!r}")
        return PowerReading(self._clock.now_ns(), milliwatts / 1000)

    def check(self) -> None:
        """Read once.

        Raises:
            DeviceError: the service is not there, or shows no total.
        """
        with self._connected() as client:
            try:
                self._read(client)
            except SensorStoppedError as stopped:
                raise DeviceError(str(stopped), "leave out source=jtop: edgetune reads the board's sensors") from None


def open_jtop_power(clock: Clock) -> PowerSensor:
    """Return the power sensor of a running jtop service.

    Args:
        clock: Stamps the readings.

    Raises:
        DeviceError: jetson-stats is not installed, its service does not run or may not be asked, or shows no total.
    """
    try:
        module = import_module("jtop")
    except ImportError:
        raise DeviceError(
            "jetson-stats is not installed", "sudo pip3 install -U jetson-stats, or leave out source=jtop"
        ) from None
    sensor = JtopPower(module, clock)
    sensor.check()
    return sensor

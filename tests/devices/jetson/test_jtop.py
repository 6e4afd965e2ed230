"""Power from jetson-stats, against a module of ours with the attributes that its documentation shows."""

import sys
from types import ModuleType

import pytest

from edgetune.devices.capabilities import MonotonicClock
from edgetune.devices.jetson.power import open_jtop_power
from edgetune.devices.sysfs import Sysfs
from edgetune.errors import DeviceError


class FakeService:
    """What a service would say; no code of jetson-stats is in it.

    Args:
        totals_mw: Total of each update; after the last one the service is gone.
    """

    def __init__(self, totals_mw, refuses=None, ends_with=None):
        self.totals_mw = totals_mw
        self.refuses = refuses
        self.ends_with = ends_with
        self.updates = self.opened = self.closed = 0

    def client(self, interval):
        service = self

        class Client:
            def start(self):
                service.opened += 1
                if service.refuses:
                    raise service.refuses

            def ok(self):
                service.updates += 1
                if service.updates > len(service.totals_mw) and service.ends_with:
                    raise service.ends_with
                return service.updates <= len(service.totals_mw)

            @property
            def power(self):
                total = service.totals_mw[service.updates - 1]
                return {"rail": {"VDD_IN": {"power": total}}, "tot": {"volt": 5000, "power": total, "avg": total}}

            def close(self):
                service.closed += 1

        return Client()


@pytest.fixture
def service(monkeypatch):
    def install(*totals_mw, **answers):
        service = FakeService(totals_mw, **answers)
        module = ModuleType("jtop")
        module.jtop = service.client
        monkeypatch.setitem(sys.modules, "jtop", module)
        return service

    return install


def recorded(sensor, *, until=lambda recording: recording.failure):
    clock = MonotonicClock()
    with sensor.record() as recording:
        while not until(recording):
            clock.sleep_s(0.001)
    return recording


def test_each_update_is_a_reading_in_watts(service):
    running = service(7000, 7100, 7300)
    sensor = open_jtop_power(Sysfs(), MonotonicClock())  # takes the first update
    recording = recorded(sensor)
    assert [reading.power_w for reading in recording.readings] == [7.1, 7.3]
    assert "stopped" in recording.failure
    assert sensor.source == "jtop:tot"
    assert running.opened == running.closed == 2


def test_a_client_that_raises_when_the_service_dies_ends_the_recording(service):
    service(7000, 7100, ends_with=RuntimeError("lost connection"))
    recording = recorded(open_jtop_power(Sysfs(), MonotonicClock()))
    assert len(recording.readings) == 1
    assert "lost connection" in recording.failure


@pytest.mark.parametrize("total", [None, "offline", 0])
def test_no_total_is_an_error_and_never_zero(service, total):
    running = service(total)
    with pytest.raises(DeviceError, match="no total power"):
        open_jtop_power(Sysfs(), MonotonicClock())
    assert running.closed == 1


def test_a_service_that_does_not_answer_is_an_error_with_the_remedy(service):
    service(refuses=RuntimeError("the jtop.service is not active"))
    with pytest.raises(DeviceError, match="not active") as caught:
        open_jtop_power(Sysfs(), MonotonicClock())
    assert "systemctl" in caught.value.hint


def test_jetson_stats_that_is_not_installed_is_an_error_with_the_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "jtop", None)
    with pytest.raises(DeviceError, match="not installed") as caught:
        open_jtop_power(Sysfs(), MonotonicClock())
    assert "pip3 install" in caught.value.hint
    assert "\n" not in caught.value.hint

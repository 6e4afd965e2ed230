"""`edgetune.measure` nests, runs in many threads and tasks, decorates, and leaves nothing open."""

import asyncio
import os
import threading
from contextlib import contextmanager
from dataclasses import replace

import pytest

import edgetune
from edgetune.devices.device import LiveSource
from edgetune.stages.profiling.window import Meter, Window
from edgetune.testing.fake_jetson import FakeClock
from edgetune.workflows import measure as module
from fakes.device import FakePower, FakeSource, fake_device


@pytest.fixture(autouse=True)
def nothing_stays_open():
    yield
    assert not module._open_meters
    assert not [thread for thread in threading.enumerate() if thread.name == "edgetune-power"]


def test_nested_windows_open_the_device_once(monkeypatch):
    opened = []
    real = module.open_named
    monkeypatch.setattr(module, "open_named", lambda *a: opened.append(a) or real(*a))
    with edgetune.measure("host", name="all") as outer, edgetune.measure("host", name="part") as inner:
        pass
    assert len(opened) == 1
    assert outer.time_s >= inner.time_s > 0
    assert outer.memory_bytes
    assert inner.memory_bytes is None
    assert (outer.overlapped, inner.overlapped, inner.name) == (True, True, "part")


def test_threads_share_it_and_the_last_closes_it():
    begun, end = threading.Barrier(5), threading.Event()
    windows = []

    def work():
        with edgetune.measure("host") as window:
            begun.wait(120)
            end.wait(120)
        windows.append(window)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    begun.wait(120)
    assert len(module._open_meters) == 1
    end.set()
    for thread in threads:
        thread.join()
    assert all(window.time_s > 0 and window.overlapped for window in windows)


def test_a_decorated_function_keeps_its_windows_after_an_error_too():
    @edgetune.measure("host")
    def halve(x, fail=False):
        """Halve."""
        if fail:
            raise KeyError(x)
        return x / 2

    assert halve(3) == 1.5
    with pytest.raises(KeyError):
        halve(1, fail=True)
    assert (halve.__name__, halve.__doc__) == ("halve", "Halve.")
    assert [(window.name, window.time_s > 0) for window in halve.windows] == [("halve", True)] * 2


def test_a_decorated_coroutine_is_measured_until_it_ends():
    @edgetune.measure("host", name="wait")
    async def wait():
        await asyncio.sleep(0.05)
        return 7

    async def both():
        return await asyncio.gather(wait(), wait())

    assert asyncio.run(both()) == [7, 7]
    assert all(window.time_s >= 0.05 and window.overlapped for window in wait.windows)


def test_misuse_is_told():
    with pytest.raises(edgetune.EdgetuneError, match="generator"):

        @edgetune.measure("host")
        def numbers():
            yield 1

    with pytest.raises(edgetune.EdgetuneError, match="device is missing"):
        edgetune.measure(len)
    again = edgetune.measure("host")
    with again, pytest.raises(edgetune.EdgetuneError, match="open already"), again:
        pass
    with (
        edgetune.measure("host"),
        pytest.raises(edgetune.EdgetuneError, match="the mode found"),
        edgetune.measure("host", mode="MAXN"),
    ):
        pass


def test_a_forked_process_leaves_the_window_of_its_parent_open_and_measures_its_own():
    measurement = edgetune.measure("host")
    with measurement as window:
        if (child := os.fork()) == 0:
            measurement.__exit__(None, None, None)
            with edgetune.measure("host") as own:
                pass
            os._exit(0 if window.time_s is None and own.time_s else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert window.time_s > 0


def device(clock, power):
    return replace(fake_device(clock, FakeSource(clock)), source=LiveSource((), "cpu"), simulated=False, power=power)


@contextmanager
def measured_window(on):
    with Meter(on) as meter, meter.whole() as window:
        yield window


def test_energy_is_the_mean_power_times_the_time():
    clock = FakeClock(start_ns=7)
    with measured_window(device(clock, FakePower(clock, energy_j=lambda t_s: 5 * t_s))) as window:
        clock.sleep_s(2.0)
    assert window.time_s == pytest.approx(2.0)
    assert window.power_w == pytest.approx(5.0)
    assert window.energy_j == pytest.approx(10.0)
    assert window.power_samples == 20
    assert window.power_source == "fake"


def test_too_few_readings_give_no_energy_and_the_reason():
    clock = FakeClock()
    with measured_window(device(clock, FakePower(clock, energy_j=lambda t_s: 5 * t_s))) as window:
        clock.sleep_s(0.3)
    assert window.energy_j is None
    assert window.power_w is None
    assert "too few power samples" in window.reason


def test_inner_windows_share_the_recording_and_say_so():
    clock = FakeClock()
    power = FakePower(clock, energy_j=lambda t_s: 5 * t_s)
    with Meter(device(clock, power)) as meter, meter.whole("all") as outer:
        clock.sleep_s(1.0)
        inner = Window(meter, "part")
        meter.begin(inner)
        assert inner.time_s is None
        clock.sleep_s(1.0)
        meter.end(inner)
    assert (outer.time_s, inner.time_s) == (pytest.approx(2.0), pytest.approx(1.0))
    assert inner.energy_j == pytest.approx(5.0)
    assert inner.overlapped
    assert "whole board" in inner.reason
    assert (inner.memory_bytes, inner.throttled) == (None, None)

"""Contention: what is measured of real tenants, and what a simulation makes of it and of a device's parameter."""

from types import SimpleNamespace

import pytest

from edgetune.devices.contention import Contention
from edgetune.devices.twin.device import open_twin
from edgetune.stages.interleave.backend import FinishedMinibatch
from edgetune.stages.interleave.tenants import Inference, Training
from edgetune.workflows.interleave import contention
from edgetune.workflows.interleave.contention import MeasuredContention, measure_contention, slowdown_of

CAMERA, NIGHT, DAY = Inference("camera", 2, 0.1, 10.0, 0.01), Training("night", 4, 0.02), Training("day", 4, 0.02)
MS = 1_000_000


def test_a_device_s_parameter_is_of_answers_beside_work_without_a_deadline():
    slowdown = slowdown_of(Contention((3.0,), (1.5,), "made up"), [CAMERA, NIGHT, DAY], 0)
    assert (slowdown("camera", "night"), slowdown("night", "camera"), slowdown("night", "day")) == (3.0, 1.5, 2.0)
    assert slowdown_of(None, [CAMERA, NIGHT], 0)("camera", "night") == 2.0


def test_each_of_several_values_is_drawn_by_the_seed():
    pair = Contention((2.0, 3.0), (1.0,), "made up")
    draws = [[slowdown_of(pair, [CAMERA, NIGHT], 7)("camera", "night") for _ in range(1)] for _ in range(3)]
    assert draws[0] == draws[1] == draws[2]
    slowdown = slowdown_of(pair, [CAMERA, NIGHT], 7)
    assert {slowdown("camera", "night") for _ in range(50)} == {2.0, 3.0}


def test_measured_among_three_the_excess_is_that_of_both_others():
    measured = MeasuredContention({"a": [3.0], "b": [2.0], "c": [1.0]}, {})
    slowdown = measured.slowdown(0)
    assert (slowdown("a", "b"), slowdown("a", "c"), slowdown("b", "a"), slowdown("c", "a")) == (2.0, 2.0, 1.5, 1.0)
    assert measured.summary()["a"] == {"median": 3.0, "minibatches": 1}


def test_the_twin_has_both_ways_of_sharing_with_their_sources():
    found = open_twin("twin:orin-agx").contention
    assert set(found) == {"native", "streams"}
    assert all(each.source for each in found.values())
    assert max(found["streams"].urgent) < min(found["native"].urgent)  # Fulcrum: the median of streams is lower


class Shared:
    """A backend on a clock of its own: camera takes 10 ms and night 20; together 30 and 25."""

    def __init__(self, engine, device, tenants, *, seed):
        self._now_ns, self._running = 0, {}

    def now_ns(self):
        return self._now_ns

    def start(self, minibatch):
        self._running[minibatch.tenant] = (minibatch, self._now_ns)

    def wait(self, _):
        both = len(self._running) > 1
        takes = {"camera": 30 if both else 10, "night": 25 if both else 20}
        ends = {name: begun_ns + takes[name] * MS for name, (_, begun_ns) in self._running.items()}
        first = min(ends, key=ends.get)
        minibatch, begun_ns = self._running.pop(first)
        self._now_ns = max(ends[first], self._now_ns)
        return [FinishedMinibatch(minibatch, begun_ns, ends[first])]

    def close(self):
        pass


def test_slowdowns_are_durations_together_by_the_median_alone(monkeypatch):
    monkeypatch.setattr(contention, "LiveMinibatchBackend", Shared)
    monkeypatch.setattr(contention, "apply_mode", lambda *_: None)
    tenants = [SimpleNamespace(tenant=CAMERA), SimpleNamespace(tenant=NIGHT)]
    found = measure_contention("native", None, tenants, None, seed=0)
    assert list(found.slowdowns["camera"]) == pytest.approx([3.0] * len(found.slowdowns["camera"]))
    assert list(found.slowdowns["night"]) == pytest.approx([1.25] * len(found.slowdowns["night"]))
    assert set(found.alone_ns["camera"]) == {10 * MS}
    assert len(found.slowdowns["camera"]) == pytest.approx(3 * 1000 / 30, abs=6)

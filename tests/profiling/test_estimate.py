"""Estimates before a sweep: exact on a simulated device, reckoned from a few minibatches on a real one."""

import pytest

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import Point
from edgetune.devices.host import open_host
from edgetune.stages.profiling import estimate as estimates
from edgetune.stages.profiling import profiler as profilers
from edgetune.stages.profiling.estimate import estimate
from edgetune.stages.profiling.options import ProfileOptions
from edgetune.stages.profiling.sweep import sweep
from edgetune.testing.fake_jetson import FakeClock
from edgetune.workloads.workload import Workload
from fakes.device import FakeModes, FakePower, FakeRunner, FakeSource, FakeThermometer, fake_device

NET = Workload("net.onnx", "net", "onnx", None, "0" * 64)
POINTS = [Point("net", "infer", size, Mode(gpu_mhz=300)) for size in (1, 4)]


def test_simulated_device_predicts_itself(monkeypatch, tmp_path):
    monkeypatch.setattr(profilers.Profiler, "_table", lambda _, batch_size: batch_size)
    monkeypatch.setattr(profilers.Profiler, "data_warnings", lambda _, batch_size: ())
    clock = FakeClock()
    device = fake_device(
        clock,
        FakeSource(lambda size: FakeRunner(clock, lambda _: size * 100_000_000)),
        modes=FakeModes(),
        power=FakePower(clock, lambda t: 8 * t, 0.1),
    )
    expected = estimate(device, NET, POINTS, ProfileOptions())
    rows = sweep(device, NET, POINTS, ProfileOptions(), tmp_path / "journal").rows
    assert expected.points == 2
    assert expected.duration_s == pytest.approx(sum(row.duration_s for row in rows))
    assert expected.energy_j == pytest.approx(8 * expected.duration_s)
    assert "fake" in expected.basis


def test_of_many_points_an_even_share_is_simulated(monkeypatch):
    monkeypatch.setattr(profilers.Profiler, "_table", lambda _, batch_size: batch_size)
    monkeypatch.setattr(profilers.Profiler, "data_warnings", lambda _, batch_size: ())
    monkeypatch.setattr(estimates, "_SIMULATED_POINTS", 10)
    clock = FakeClock()
    device = fake_device(
        clock,
        FakeSource(lambda size: FakeRunner(clock, lambda _: 100_000_000)),
        modes=FakeModes(),
        power=FakePower(clock, lambda t: 8 * t, 0.1),
    )
    points = [Point("net", "infer", 1, Mode(gpu_mhz=300 + number)) for number in range(95)]
    one, many = (estimate(device, NET, each, ProfileOptions()) for each in (points[:1], points))
    assert many.points == 95
    assert many.duration_s == pytest.approx(95 * one.duration_s)
    assert many.basis.endswith("from 10 of the points")


def test_real_device_is_probed_at_the_smallest_batch_size(training):
    source = "import time\ndef make(size):\n    assert size == 2\n    return lambda: time.sleep(0.01 * size)\n"
    points = [Point("train", "train", size, Mode(cpu_cores=1)) for size in (4, 2)]
    found = estimate(open_host(), training(source), points, ProfileOptions())
    assert found.points == 2
    assert found.duration_s >= 15 * (0.02 + 0.04)
    assert "batch size 2" in found.basis


def test_rounds_and_cooling_are_reckoned_in(monkeypatch):
    monkeypatch.setattr(profilers.Profiler, "_table", lambda _, batch_size: batch_size)
    clock = FakeClock()
    device = fake_device(
        clock,
        FakeSource(lambda size: FakeRunner(clock, lambda _: size * 100_000_000)),
        modes=FakeModes(),
        power=FakePower(clock, lambda t: 8 * t, 0.1),
        temperature=FakeThermometer([45.0]),
    )
    once = estimate(device, NET, POINTS, ProfileOptions())
    more = estimate(device, NET, POINTS, ProfileOptions(interleave_repeats=3, cool_to_c=50.0, cool_timeout_s=60.0))
    assert (once.rounds, once.cooling_at_most_s) == (1, 0.0)
    assert more.points == 2
    assert more.duration_s == pytest.approx(3 * once.duration_s)
    assert more.energy_j == pytest.approx(3 * once.energy_j)
    assert more.cooling_at_most_s == 2 * 3 * 60
    assert "3 rounds; cooling to 50 C may add up to 6 m" in more.basis

"""Building of engines is reported while it lasts; nothing is built here."""

import pytest

from edgetune.devices.device import LiveSource
from edgetune.stages.profiling import building
from edgetune.stages.profiling.options import ProfileOptions
from edgetune.workflows.profile.engines import build_engines
from edgetune.workflows.reporting import Reporter
from edgetune.workloads.engines import BuiltEngine


class Told(Reporter):
    def __init__(self):
        self.lines = []

    def info(self, text):
        self.lines.append(text)


class Named:
    def __init__(self, **facts):
        self.__dict__.update(facts)


@pytest.mark.parametrize("cached", [False, True])
def test_a_long_build_says_so_every_minute(monkeypatch, cached):
    def build(source, workload, options, point, on_wait):
        for waited_s in (1.0, 9.0, 10.5, 30.0, 69.0, 71.0, 130.0, 131.5):
            on_wait(waited_s)
        return BuiltEngine(140.0, 12_000_000, cached=cached, note="1 of 9 layers run on the GPU: a")

    monkeypatch.setattr(building, "build", build)
    told = Told()
    device = Named(source=LiveSource(("CUDAExecutionProvider",), "cuda:0"))
    points = [Named(batch_size=1), Named(batch_size=1)]
    build_engines(device, Named(name="net"), points, ProfileOptions(engine="tensorrt"), told)
    *waits, built, note = told.lines
    assert [line.partition(" for ")[2].partition(";")[0] for line in waits] == ["10 s", "1 m 11 s", "2 m 12 s"]
    assert ("was built earlier in" in built) is cached
    assert "2 m 20 s" in built
    assert note == "1 of 9 layers run on the GPU: a"
    build_engines(device, Named(name="net"), points, ProfileOptions(), told)
    assert len(told.lines) == 5, "ONNX Runtime builds nothing"

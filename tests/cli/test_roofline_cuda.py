"""``edgetune roofline --device nvidia:0`` where the GPU is a fake: from the command line down to PyTorch's operators.

NVML is a fake too. The child process that runs kernels is this process, so that the fakes are in it, and its clock is
theirs: times, peaks and energies are exact.
"""

import gc
import json
import os
from dataclasses import replace
from types import SimpleNamespace

import pytest
from command_line import assert_two_lines

from edgetune.artifacts.io import read
from edgetune.artifacts.roofline import Roofline
from edgetune.devices.capabilities import Absent
from edgetune.devices.nvml.device import open_nvml_device
from edgetune.stages.profiling import supervisor, worker
from edgetune.testing.fake_clock import FakeClock
from fakes.device import FakePower
from fakes.nvml import FakeGpu, FakeNvml

pytest.importorskip("torch")

from fakes.torch_cuda import FakeCuda

ASKED = ("roofline", "--device", "nvidia:0", "--quick")


class HereChild:
    """The worker in this process; what it is asked is JSON, as in the pipe."""

    alive = True
    pid = os.getpid()

    def __init__(self, module, *, environment):
        assert module == worker.__name__
        assert environment["CUDA_VISIBLE_DEVICES"]
        self._session = worker._Session()

    def ask(self, command, *, deadline_s):
        assert deadline_s > 0
        asked = json.loads(json.dumps(command))
        if asked["command"] == "prepare":
            return self._session.prepare(asked)
        return self._session.run(asked["minibatches"])

    def log_tail(self):
        return ""

    def close(self):
        self._session._step = None


@pytest.fixture
def on_gpu(edgetune, monkeypatch):
    """Run a command where ``nvidia:0`` is a fake."""
    gc.freeze()  # the worker collects garbage before each kernel, here in a process that has loaded PyTorch

    def invoke(*argv, power=True, memory_bytes=8 << 30, **fake):
        clock = FakeClock(1_000_000_000)
        with FakeCuda(clock=clock, computes=False, memory_bytes=memory_bytes, **fake) as cuda:
            device = open_nvml_device(0, FakeNvml([FakeGpu()], clock), may_set=True, clock=clock)
            sensor = FakePower(clock, cuda.energy_until_j, refresh_s=0.02) if power else Absent("scripted away")
            device = replace(device, simulated=True, power=sensor)
            monkeypatch.setattr("edgetune.devices.nvml.device.open_nvidia", lambda _name: device)
            monkeypatch.setattr(supervisor, "Child", HereChild)
            monkeypatch.setattr(worker, "time", SimpleNamespace(monotonic_ns=clock.now_ns))
            return edgetune(*argv), cuda

    return invoke


@pytest.mark.parametrize(("asked", "precision"), [("fp32", "tf32"), ("int8", "int8")])
def test_the_peaks_of_every_precision_are_the_devices(on_gpu, tmp_path, asked, precision):
    file = tmp_path / "r.yaml"
    ended, cuda = on_gpu(*ASKED, "--precision", asked, "-o", str(file))
    assert ended.code == 0, ended.err
    assert "SIMULATED" in ended.err
    roofline = read(Roofline, str(file))
    (roof,) = roofline.roofs
    assert roof.precision == precision
    assert roof.flops_per_s == pytest.approx(cuda.roofs.flops_per_s[precision], rel=1e-3)
    assert roof.bytes_per_s == pytest.approx(cuda.roofs.bytes_per_s, rel=1e-3)
    assert roof.static_w == pytest.approx(cuda.roofs.static_w, rel=1e-3)
    assert roof.flop_j == pytest.approx(cuda.roofs.flop_j, rel=0.01)
    assert roof.byte_j == pytest.approx(cuda.roofs.byte_j, rel=0.01)
    assert roofline.header.warnings == ()


def test_sizes_go_up_to_what_fits_and_the_device_is_empty_after_each(on_gpu, tmp_path):
    file = tmp_path / "r.yaml"
    ended, cuda = on_gpu("roofline", "--device", "nvidia:0", "--precision", "fp16", "-o", str(file))
    assert ended.code == 0, ended.err
    sizes = [run.size for run in read(Roofline, str(file)).runs if run.kernel == "matmul"]
    assert sorted(set(sizes)) == [1024, 2048, 4096, 8192, 16384]  # 1.5 GiB; the next would need 6 of the 4 GiB
    assert cuda.most_bytes <= 4 << 30
    assert cuda.held_bytes == 0


def test_a_precision_that_the_gpu_lacks_is_an_error_and_no_zero(on_gpu, tmp_path):
    file = tmp_path / "r.yaml"
    ended, cuda = on_gpu(*ASKED, "--precision", "fp8", "-o", str(file), "--quiet", capability=(8, 7))
    assert_two_lines(ended, 4)
    assert cuda.launches == []
    assert not file.exists()


def test_precisions_of_the_gpu_are_measured_and_missing_ones_reported(on_gpu, tmp_path):
    """An Orin has no FP8; FP32 beside TF32 is FP32 without it."""
    file = tmp_path / "r.yaml"
    several = ("--precision", "fp32,tf32,fp8,fp16")
    ended, cuda = on_gpu(*ASKED, *several, "-o", str(file), capability=(8, 7))
    assert ended.code == 0, ended.err
    roofline = read(Roofline, str(file))
    assert [roof.precision for roof in roofline.roofs] == ["fp32", "tf32", "fp16"]
    for roof in roofline.roofs:
        assert roof.flops_per_s == pytest.approx(cuda.roofs.flops_per_s[roof.precision], rel=1e-3)
    (note,) = (note for note in roofline.header.warnings if note.code == "precision-missing")
    assert note.advice == "fp8 is left out: cuda:0 has compute capability 8.7; fp8 needs 8.9"
    assert note.advice in ended.out


def test_a_network_is_placed_beneath_what_was_measured(on_gpu, tmp_path):
    ended, _ = on_gpu(*ASKED, "zoo:squeezenet", "--precision", "fp32,fp16", "--no-measure", "--json")
    assert ended.code == 0, ended.err
    answer = json.loads(ended.out)
    assert answer["simulated"]
    assert [part["roof"]["precision"] for part in answer["precisions"]] == ["tf32", "fp16"]
    assert [part["placements"][0]["bound"] for part in answer["precisions"]] == ["memory", "memory"]

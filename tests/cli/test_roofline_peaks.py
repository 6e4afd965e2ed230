"""Peaks: measured again where a machine was busy; and of a GPU that is a fake, from the command to PyTorch."""

import gc
import json
import os
from dataclasses import replace
from types import SimpleNamespace

import pytest
from command_line import assert_two_lines

from edgetune.artifacts.header import Header
from edgetune.artifacts.io import read
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.ops import OpRow, OpsTable
from edgetune.artifacts.profile import ProfileRow
from edgetune.artifacts.roofline import Roof, Roofline
from edgetune.devices.capabilities import Absent
from edgetune.devices.host import open_host
from edgetune.devices.nvml.device import open_nvml_device
from edgetune.stages.profiling import supervisor, worker
from edgetune.stages.profiling.disturbances import ContentionWatch
from edgetune.stages.roofline.placement import place
from edgetune.testing.fake_jetson import FakeClock
from edgetune.workflows import device_option
from edgetune.workflows.reporting import Reporter
from edgetune.workflows.roofline.option_values import Placed
from edgetune.workflows.roofline.peaks import KernelBench
from edgetune.workflows.roofline.roofline import _warned
from fakes.device import FakePower
from fakes.nvml import FakeGpu, FakeNvml

# Peaks


class ScriptedBench(KernelBench):
    """A bench whose kernels take the times, with the shares of others, of a list; then the last of it."""

    def __init__(self, *visits):
        super().__init__(open_host(), Reporter())
        self.visits, self.count = list(visits), 0

    def _once(self, workload, mode):
        self.count += 1
        seconds, share = self.visits.pop(0) if len(self.visits) > 1 else self.visits[0]
        return ProfileRow(workload.name, "infer", 1, seconds, others_cpu_share=share)


def test_a_disturbed_kernel_is_measured_again_and_the_undisturbed_one_counts():
    bench = ScriptedBench((3.0, 0.8), (1.0, 0.5), (1.2, 0.01))
    assert bench.measure(parse_or("copy"), Mode()).minibatch_s == 1.2
    assert (bench.count, bench.data_warnings) == (3, ())


def test_the_fastest_of_only_disturbed_measurements_counts_with_a_warning():
    bench = ScriptedBench((3.0, 0.8), (1.0, 0.5), (1.2, 0.6))
    assert bench.measure(parse_or("copy"), Mode()).minibatch_s == 1.0
    (caution,) = bench.data_warnings
    assert (caution.code, caution.numbers) == ("peaks-busy", {"kernels": 1, "others_cpu_share_max": 0.5})


def test_a_machine_that_stays_busy_does_not_make_it_thrice_as_long():
    bench = ScriptedBench((1.0, 0.9))
    for _ in range(30):
        bench.measure(parse_or("copy"), Mode())
    assert bench.count == 30 + 12
    assert bench.data_warnings[0].numbers["kernels"] == 30


def parse_or(name):
    from edgetune.workloads.kernels import resolve_kernel

    return resolve_kernel(f"kernel:{name}:1024:fp32")


ROW = OpRow("conv", "Conv", "conv", "forward", "modelled", (), (), "float32", 10**9, 2 * 10**9, 0, 10**8, 0, 0)
TABLE = OpsTable(Header("ops", 1, "", ""), "net", "infer", 1, "fp32", 0, False, (ROW,))


@pytest.mark.parametrize(("measured_s", "codes"), [(0.1, ["peaks-beaten"]), (0.4, [])])
def test_a_network_that_beats_its_peaks_is_warned_of(measured_s, codes):
    """Spoilt peaks put the least time at 0.4 s."""
    roof = Roof(Mode(), "fp32", 5e9, 1e9)
    roofline = Roofline(Header("roofline", 1, "", ""), "host", (roof,), ())
    row, beneath = ProfileRow("net", "infer", 1, measured_s), place(TABLE, roof, measured_s=measured_s)
    (found,) = _warned([Placed(roofline, roof, (TABLE,), (beneath,), (row,))])
    assert [warning.code for warning in found.roofline.header.warnings] == codes


def test_a_note_says_where_edgetune_runs_as_root(monkeypatch):
    said = []
    monkeypatch.setattr(Reporter, "info", lambda _, text: said.append(text))
    monkeypatch.setattr(device_option, "_as_root", lambda: True)
    device_option.warn_of_host_load(Reporter())
    assert said == ["note: edgetune runs as root, and with it the networks and scripts that it runs"]


def test_a_sweep_on_a_busy_machine_warns_once(edgetune, monkeypatch, tmp_path):
    shares = iter((0.5, 0.4, 0.3))
    monkeypatch.setattr(ContentionWatch, "share", lambda watch: next(shares))
    asked = ("profile", "zoo:squeezenet", "--task", "infer", "--device", "twin:orin-agx", "--batch-sizes", "1,2,4")
    ended = edgetune(*asked, "--modes", "MAXN", "-o", str(tmp_path / "p.parquet"))
    assert ended.code == 0, ended.err
    (told,) = [line for line in ended.err.splitlines() if "other processes" in line]
    assert told.startswith("warning: points-busy: other processes used up to 50% of the CPUs")


# A GPU that is a fake. The child process that runs kernels is this process, so that the fakes are in it, and its clock
# is theirs: times, peaks and energies are exact

ASKED = ("roofline", "--device", "nvidia:0", "--quick")


class HereChild:
    """The worker in this process; what it is asked is JSON, as in the pipe."""

    alive = True
    pid = os.getpid()

    def __init__(self, module, *, environment):
        assert module == f"{worker.__name__}:Session"
        assert environment["CUDA_VISIBLE_DEVICES"]
        self._session = worker.Session()

    def ask(self, command, *, deadline_s):
        assert deadline_s > 0
        return self._session(json.loads(json.dumps(command)))

    def log_tail(self):
        return ""

    def close(self):
        self._session._step = None


@pytest.fixture
def on_gpu(edgetune, monkeypatch):
    """Run a command where ``nvidia:0`` is a fake; what the worker asks of PyTorch, NVML and the clock is theirs."""
    pytest.importorskip("torch")
    from fakes.torch_cuda import FakeCuda

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

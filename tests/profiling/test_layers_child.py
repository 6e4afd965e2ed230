"""Times of layers on a device: from the child process, from a twin's model, and from nothing else."""

from dataclasses import replace

import pytest

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import Point
from edgetune.devices.device import LiveSource, Minibatches
from edgetune.devices.host import open_host
from edgetune.devices.twin.device import open_twin
from edgetune.devices.twin.physics import predict
from edgetune.devices.twin.work import work_of
from edgetune.stages.profiling import supervisor as layers_module
from edgetune.stages.profiling.options import ProfileOptions
from edgetune.stages.profiling.supervisor import Supervisor, layer_times
from edgetune.stages.roofline.layers import join
from edgetune.workloads.costs import operator_table
from edgetune.workloads.resolve import resolve
from edgetune.workloads.workload import LayerSampling

SQUEEZENET = resolve("zoo:squeezenet")


def at(batch_size=1, task="infer", **knobs):
    return Point("squeezenet", task, batch_size, Mode.of(knobs))


def test_layers_are_measured_in_the_child():
    times = layer_times(open_host(), SQUEEZENET, at(), how=LayerSampling(3, 1))
    assert "optimisation all" in times.source
    assert (times.simulated, times.minibatches) == (False, 3)
    assert times.undisturbed_s > 0
    joined = join(operator_table(SQUEEZENET, "infer", 1), times)
    assert {time.how for time in joined.unexplained} <= {"inserted"}
    assert joined.untimed == ()


def test_the_supervisor_loads_the_workload_again_after_a_profile():
    source = LiveSource(("CPUExecutionProvider",), "cpu")
    supervisor = Supervisor(source, SQUEEZENET, ProfileOptions())
    try:
        supervisor.open(at()).run(1)
        supervisor.layers(at(), LayerSampling(1, 0))
        assert len(supervisor.open(at()).run(2).start_ns) == 2
    finally:
        supervisor.close()


class _Recorder:
    """Stands for a supervisor; remembers how it was opened."""

    opened: list

    def __init__(self, source, workload, options):
        self.opened.append(dict(source.environment))

    def layers(self, point, how):
        return {"source": "x", "simulated": False, "minibatches": 1, "minibatch_s": 1.0, "times": (), "cautions": ()}

    def open(self, point):
        return self

    def run(self, minibatches):
        return Minibatches([0], [10**9])

    def close(self):
        pass


@pytest.mark.parametrize(("task", "waits"), [("infer", True), ("train", False)])
def test_cuda_kernels_of_onnx_runtime_are_waited_for_while_profiled_only(monkeypatch, task, waits):
    monkeypatch.setattr(_Recorder, "opened", [], raising=False)
    monkeypatch.setattr(layers_module, "Supervisor", _Recorder)
    source = LiveSource(("CUDAExecutionProvider",), "cuda:0", {"CUDA_VISIBLE_DEVICES": "0"})
    times = layer_times(replace(open_host(), source=source), SQUEEZENET, at(task=task))
    alone, profiled = _Recorder.opened
    assert ("CUDA_LAUNCH_BLOCKING" in profiled, "CUDA_LAUNCH_BLOCKING" in alone) == (waits, False)
    assert profiled["CUDA_VISIBLE_DEVICES"] == "0"
    assert times.undisturbed_s == 1.0
    assert bool(times.cautions) == waits


@pytest.mark.parametrize("task", ["infer", "train"])
def test_layers_of_a_twin_add_up_to_its_gpu_time(task):
    twin = open_twin("twin:orin-agx")
    ops = operator_table(SQUEEZENET, task, 4)
    times = layer_times(twin, SQUEEZENET, at(4, task))
    minibatch = twin.source.open(ops).run(1)
    assert times.simulated
    assert times.minibatch_s == pytest.approx(1e-9 * (minibatch.end_ns[0] - minibatch.start_ns[0]), abs=2e-9)
    layers = join(ops, times)
    assert {layer.how for layer in layers.layers} == {"simulated"}
    assert layers.untimed == ()
    assert layers.unexplained_share - layers.inserted_share - layers.between_share == pytest.approx(0, abs=1e-9)
    board = twin.source
    whole = predict(board.constants, work_of(ops), board.clocks, tf32_matmul=board.twin.tf32_matmul)
    assert sum(time.seconds for time in times.times) == pytest.approx(float(whole.gpu_s[0]))

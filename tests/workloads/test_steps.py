"""Steps: what runs an ONNX file or a training file, on what was asked for, with inputs that fit."""

import time

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgetune.errors import DeviceError, InputError
from edgetune.workloads import ort_session
from edgetune.workloads.kernel_steps import fastest, open_host_product
from edgetune.workloads.kernels import BenchmarkKernel
from edgetune.workloads.ort_session import open_session
from edgetune.workloads.resolve import resolve
from edgetune.workloads.steps import open_step
from edgetune.workloads.workload import RunOptions


def linear(batch="batch"):
    """A network y = x W with W of ones, 3 inputs and 2 outputs."""
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "linear",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, 2])],
        [numpy_helper.from_array(np.ones((3, 2), np.float32), "w")],
    )
    return finish(graph)


def finish(graph):
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture
def save(tmp_path):
    def saved(model, name="net.onnx", **how):
        onnx.save_model(model, tmp_path / name, **how)
        return resolve(str(tmp_path / name))

    return saved


@pytest.mark.parametrize("batch_size", [1, 5])
def test_dynamic_batch_runs_at_every_size(save, batch_size):
    (y,) = open_step(save(linear()), "infer", batch_size, RunOptions(threads=1))()
    assert y.shape == (batch_size, 2)


def test_the_session_is_the_one_that_an_application_opens(save):
    """Told the sizes, ONNX Runtime optimises otherwise, and what is measured is another session."""
    session, _ = open_session(save(linear()), 5, RunOptions())
    assert session.get_inputs()[0].shape[0] == "batch"


def test_dynamic_batch_is_opened_by_its_path_without_reading_the_weights(save, monkeypatch):
    workload = save(linear(), save_as_external_data=True, location="weights.bin", size_threshold=0)
    real, asked = ort_session.load_model, []

    def noted(workload, *, weights):
        asked.append(weights)
        return real(workload, weights=weights)

    monkeypatch.setattr(ort_session, "load_model", noted)
    open_step(workload, "infer", 2, RunOptions(threads=1))
    assert asked == [False]


def test_inputs_from_a_file(save, tmp_path):
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.savez(tmp_path / "in.npz", x=x)
    (y,) = open_step(save(linear()), "infer", 2, RunOptions(threads=1, inputs=str(tmp_path / "in.npz")))()
    assert y[:, 0].tolist() == x.sum(axis=1).tolist()


def test_samples_are_taken_in_turn_for_other_batch_sizes(save, tmp_path):
    np.savez(tmp_path / "in.npz", x=np.array([[1, 1, 1], [2, 2, 2]], np.float32))
    (y,) = open_step(save(linear()), "infer", 5, RunOptions(threads=1, inputs=str(tmp_path / "in.npz")))()
    assert y[:, 0].tolist() == [3, 6, 3, 6, 3]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({}, "lacks x"),
        ({"x": np.ones((2, 3), np.float32), "z": np.ones(1)}, "has unknown z"),
        ({"z": np.ones(1)}, "lacks x and has unknown z"),
        ({"x": np.ones((2, 4), np.float32)}, "x is float32 2x4, the network wants float32 2x3"),
        ({"x": np.ones(3, np.float32)}, "x is float32 3, the network wants float32 2x3"),
        ({"x": np.ones((2, 3), complex)}, "x is complex128 2x3"),
        ({"x": np.array([["a"] * 3] * 2)}, "x is <U1 2x3"),
    ],
)
def test_inputs_that_do_not_fit(save, tmp_path, arrays, message):
    np.savez(tmp_path / "in.npz", **arrays)
    with pytest.raises(InputError) as caught:
        open_step(save(linear()), "infer", 2, RunOptions(threads=1, inputs=str(tmp_path / "in.npz")))
    assert message in caught.value.message


@pytest.mark.filterwarnings("ignore:Specified provider")
def test_an_unrequested_fallback_is_refused(save, monkeypatch):
    required = ort_session.require_onnxruntime
    monkeypatch.setattr(ort_session, "require_onnxruntime", lambda _: required(()))
    how = RunOptions(ort_providers=("CUDAExecutionProvider", "CPUExecutionProvider"))
    with pytest.raises(DeviceError, match="was to run on CUDAExecutionProvider, but ONNX Runtime chose CPU"):
        open_session(save(linear()), 1, how)


KERNEL = BenchmarkKernel("matmul", 96, 64, 32, "fp32")


def test_the_product_runs_with_onnx_runtime():
    pytest.importorskip("onnxruntime")
    run = open_host_product(KERNEL, 1, 0)
    assert run is not None
    run()
    a, b, c = (each.numpy() for each in run.__defaults__[0])
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)


def test_the_fastest_run_is_taken():
    runs = [lambda: time.sleep(0.03), lambda: None]
    assert fastest(runs) is runs[1]
    assert fastest(runs[:1]) is runs[0]

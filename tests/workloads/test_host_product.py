"""A product by ONNX Runtime, and the choice of the fastest library."""

import time

import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from edgetune.errors import DeviceError
from edgetune.workloads import kernel_steps, ort_session
from edgetune.workloads.kernel_steps import fastest, open_host_product
from edgetune.workloads.kernels import BenchmarkKernel

KERNEL = BenchmarkKernel("matmul", 96, 64, 32, "fp32")


def test_the_graph_multiplies_the_kernel_s_operands():
    import numpy as np

    a, b = np.ones((96, 32), np.float32), np.full((32, 64), 2, np.float32)
    model = onnx.load_from_string(kernel_steps._graph(KERNEL))
    (c,) = ReferenceEvaluator(model).run(None, {"a": a, "b": b})
    assert c.shape == (96, 64)
    assert (c == 64).all()


def test_the_product_runs_with_onnx_runtime():
    pytest.importorskip("onnxruntime")
    run = open_host_product(KERNEL, 1, 0)
    assert run is not None
    run()


def test_the_fastest_run_is_taken():
    runs = [lambda: time.sleep(0.03), lambda: None]
    assert fastest(runs) is runs[1]
    assert fastest(runs[:1]) is runs[0]


def test_without_onnx_runtime_there_is_none(monkeypatch):
    def missing(_):
        raise DeviceError("inference needs ONNX Runtime", "pip install it")

    monkeypatch.setattr(ort_session, "require_onnxruntime", missing)
    assert open_host_product(KERNEL, 1, 0) is None

"""A matrix product on the CPU by ONNX Runtime, whose own kernels are at times twice as fast as a BLAS library's.

A BLAS library may not use what the processor has: Intel's leaves out AVX-512 on other makers' processors (seen on an
AMD EPYC: 215 GFLOP/s by PyTorch, 434 by ONNX Runtime). Networks run on ONNX Runtime, so that is a rate they can reach.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from edgetune.errors import DeviceError
from edgetune.workloads.kernels import BenchmarkKernel

Run = Callable[[], object]
_OPSET = 13
"""Of MatMul for FP32, known to every ONNX Runtime of these ten years' Python."""
_IR_VERSION = 8


def open_host_product(kernel: BenchmarkKernel, threads: int | None, seed: int) -> Run | None:
    """Return one run of a product in FP32, its result written in place; ``None`` where ONNX Runtime is missing."""
    from edgetune.workloads.ort_session import require_onnxruntime

    try:
        ort = require_onnxruntime(("CPUExecutionProvider",))
    except DeviceError:
        return None
    import numpy as np

    options = ort.SessionOptions()
    if threads is not None:
        options.intra_op_num_threads = threads
    session = ort.InferenceSession(_graph(kernel), options, providers=["CPUExecutionProvider"])
    draw = np.random.default_rng(seed)
    shapes = {"a": (kernel.rows, kernel.inner), "b": (kernel.inner, kernel.columns)}
    binding: Any = session.io_binding()
    for name, shape in shapes.items():
        binding.bind_cpu_input(name, draw.standard_normal(shape, dtype=np.float32))
    result = ort.OrtValue.ortvalue_from_numpy(np.zeros((kernel.rows, kernel.columns), np.float32))
    binding.bind_ortvalue_output("c", result)
    return lambda: session.run_with_iobinding(binding)


def _graph(kernel: BenchmarkKernel) -> bytes:
    from onnx import TensorProto, helper

    shapes = {
        "a": (kernel.rows, kernel.inner), "b": (kernel.inner, kernel.columns), "c": (kernel.rows, kernel.columns),
    }  # fmt: skip
    a, b, c = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items())
    graph = helper.make_graph([helper.make_node("MatMul", ["a", "b"], ["c"])], "product", [a, b], [c])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR_VERSION)
    return bytes(model.SerializeToString())


def fastest(runs: Sequence[Run]) -> Run:
    """Return the run that takes least time, each tried twice and timed the second time."""
    if len(runs) == 1:
        return runs[0]
    taken_s = []
    for run in runs:
        run()
        begun_s = time.perf_counter()
        run()
        taken_s.append(time.perf_counter() - begun_s)
    return runs[taken_s.index(min(taken_s))]

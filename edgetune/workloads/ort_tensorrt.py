"""Inference of an ONNX network by ONNX Runtime's TensorRT provider, wholly on the GPU, with its engines kept.

The provider compiles parts of the graph to TensorRT engines when the session is created, or at the first run. Both
happen before anything is timed. What TensorRT does not support runs on CUDA; an operator on the CPU is an error.

Source: https://onnxruntime.ai/docs/execution-providers/TensorRT-ExecutionProvider.html (``trt_engine_cache_enable``,
``trt_engine_cache_path``, ``trt_timing_cache_enable``, ``trt_fp16_enable``); ``session.disable_cpu_ep_fallback``, since
ONNX Runtime 1.16: https://github.com/microsoft/onnxruntime/pull/16016.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from edgetune.artifacts.profile import Task
from edgetune.errors import DeviceError, InputError
from edgetune.workloads.engines import BuiltEngine, BuiltStep, engine_folder
from edgetune.workloads.onnx_file import is_quantized
from edgetune.workloads.ort_session import open_session, require_onnxruntime, running
from edgetune.workloads.workload import RunOptions, Workload

PROVIDER = "TensorrtExecutionProvider"
INSTALL = (
    "pip install onnxruntime-gpu and tensorrt in the versions that fit together (on a Jetson: NVIDIA's onnxruntime-gpu "
    "wheel for its JetPack, and sudo apt install tensorrt)"
)
_PRECISION_OPTIONS = {"fp16": "trt_fp16_enable", "bf16": "trt_bf16_enable", "int8": "trt_int8_enable"}
_OLDEST = (1, 16)
_ON_CPU = ("assigned to the default CPU EP", "explicitly added the CPU EP")
"""Words of ONNX Runtime's refusals: of a network, and of its own second attempt on the CPU."""
_BUILT = "built.json"


def open_step(workload: Workload, task: Task, batch_size: int, options: RunOptions) -> BuiltStep:  # noqa: ARG001
    """Return a step that runs one minibatch, its engines built or read from the cache; see ``steps.open_step``.

    Raises:
        InputError: the network cannot be loaded, or has operators that run on the CPU only.
        DeviceError: ONNX Runtime is missing, too old, lacks the provider or cannot load its libraries.
    """
    ort = require_onnxruntime(())
    if PROVIDER not in ort.get_available_providers():
        raise DeviceError(f"this ONNX Runtime has no {PROVIDER}", INSTALL)
    if tuple(int(part) for part in ort.__version__.split(".")[:2]) < _OLDEST:
        raise DeviceError(f"ONNX Runtime {ort.__version__} cannot refuse the CPU for a part of a network", INSTALL)
    if options.engine.precision == "int8" and not is_quantized(workload):
        raise InputError(
            f"{workload.reference} has no scales for INT8 (QuantizeLinear)",
            "quantise it: onnxruntime.quantization.quantize_static(..., quant_format=QuantFormat.QDQ)",
        )
    folder = _folder(ort, workload, batch_size, options)
    begun_s = time.monotonic()
    earlier = _engines(folder)
    how = replace(options, ort_providers=(PROVIDER, "CUDAExecutionProvider"))
    try:
        session, feed = open_session(
            workload,
            batch_size,
            how,
            configure=_refuse_cpu,
            provider_options=_provider_options(folder, options),
            fixed=True,
        )
    except InputError as error:
        if any(words in error.message for words in _ON_CPU):
            raise InputError(
                f"ONNX Runtime would run operators of {workload.reference} on the CPU: neither TensorRT nor CUDA has "
                "them, or their libraries cannot be loaded",
                f"edgetune profile --verbose shows ONNX Runtime's reason; {INSTALL}",
            ) from None
        raise
    step = running(session, feed, workload, batch_size)
    step()  # builds engines of shapes that are known only now
    return BuiltStep(step, _built(folder, time.monotonic() - begun_s, earlier))


def _refuse_cpu(options: Any) -> None:
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")


def _provider_options(folder: Path, options: RunOptions) -> dict[str, str]:
    precision = options.engine.precision
    return {
        "trt_engine_cache_enable": "1",
        "trt_engine_cache_path": str(folder),
        "trt_timing_cache_enable": "1",
        "trt_timing_cache_path": str(folder.parent),
        **({_PRECISION_OPTIONS[precision]: "1"} if precision in _PRECISION_OPTIONS else {}),
    }


def _folder(ort: Any, workload: Workload, batch_size: int, options: RunOptions) -> Path:
    """Return the folder of the engines of this network, batch size, precision and version of ONNX Runtime.

    The provider itself tells engines of other GPUs and versions of TensorRT apart, in the names of its files.
    """
    facts = [workload.sha256, batch_size, workload.batch_axes, dict(options.dimensions), options.engine.precision]
    digest = hashlib.sha256(json.dumps([ort.__version__, *facts]).encode()).hexdigest()[:16]
    return engine_folder("ort-tensorrt", f"{workload.name}-{digest}")


def _engines(folder: Path) -> dict[str, int]:
    """Return the sizes of the engines in a folder by name, bytes."""
    return {file.name: file.stat().st_size for file in folder.glob("*.engine")}


def _built(folder: Path, elapsed_s: float, earlier: Mapping[str, int]) -> BuiltEngine:
    """Return how long building took, now or when the engines were built, and note it beside them."""
    engines = _engines(folder)
    note, cached = folder / _BUILT, engines.keys() == earlier.keys()
    build_s: float | None = None if cached else elapsed_s
    try:
        if cached:
            build_s = float(json.loads(note.read_text(encoding="utf-8"))["build_s"])
        else:
            note.write_text(json.dumps({"build_s": elapsed_s}))
    except (OSError, ValueError, KeyError, TypeError):
        pass  # the time of building is then unknown
    return BuiltEngine(build_s, sum(engines.values()), cached)

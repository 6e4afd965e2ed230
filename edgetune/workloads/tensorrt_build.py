"""Builds a TensorRT engine from an ONNX network at a batch size, and keeps it for the next time.

An engine has one fixed shape. Its file is named after what it depends on: network, TensorRT, GPU, precision, DLA and
shapes. Beside it lies a note of how long building took.

Source: https://docs.nvidia.com/deeplearning/tensorrt/latest/_static/python-api/infer/Core/BuilderConfig.html
(``set_flag``, ``can_run_on_DLA``), .../infer/Core/Builder.html, .../parsers/Onnx/pyOnnx.html. Why
a DLA needs the flag GPU_FALLBACK even if it runs every layer: https://github.com/NVIDIA/TensorRT/issues/3438.
"""

import hashlib
import json
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgetune.artifacts.files import write_atomically
from edgetune.errors import InputError
from edgetune.workloads.engines import BuiltEngine, EngineOptions, engine_folder
from edgetune.workloads.onnx_file import is_quantized, stored_precisions
from edgetune.workloads.ort_session import model_source
from edgetune.workloads.tensorrt_library import Messages, started
from edgetune.workloads.workload import RunOptions, Workload

_ON_DLA = ("fp16", "int8")
_LISTED = 5
_SWITCHED = re.compile(r"Layer '?([^']+?)'? \(\w+\): Unsupported on DLA\. Switching|layer (.+) is not supported on DLA")


@dataclass(frozen=True, slots=True)
class EngineRequest:
    """An engine to build.

    Args:
        trt: The module ``tensorrt``.
        gpu: Name of the GPU.
        workload: An ONNX network.
        batch_size: Samples per minibatch.
        shapes: The shape of each input.
        options: The options of the run.
    """

    trt: Any
    gpu: str
    workload: Workload
    batch_size: int
    shapes: Mapping[str, tuple[int, ...]]
    options: RunOptions

    @property
    def precision(self) -> str:
        """What TensorRT may compute in: as asked for, or as the network is stored."""
        return self.options.engine.precision or self.own_precision

    @property
    def own_precision(self) -> str:
        """The precision that the network is stored in."""
        stored = (each for each in stored_precisions(self.workload) if each in ("fp16", "bf16"))
        return next(stored, "int8" if is_quantized(self.workload) else "fp32")

    @property
    def digest(self) -> str:
        """Hash of all that the engine depends on."""
        engine, version = self.options.engine, self.trt.__version__
        facts = [self.workload.sha256, version, self.gpu, self.precision, engine.dla_core, engine.allow_gpu_fallback]
        return hashlib.sha256(json.dumps([*facts, sorted(self.shapes.items())]).encode()).hexdigest()[:16]


def build_engine(request: EngineRequest) -> tuple[bytes, BuiltEngine]:
    """Return the serialised engine of a network, built now or earlier, and how it was built.

    Raises:
        InputError: TensorRT cannot parse or build the network, or the options do not fit it.
        DeviceError: the folder of engines cannot be created.
    """
    _check(request.workload, request.options.engine, request.precision)
    file = engine_folder("tensorrt") / f"{request.workload.name}-{request.digest}.engine"
    note = file.with_suffix(".json")
    try:
        plan, noted = file.read_bytes(), json.loads(note.read_text(encoding="utf-8"))
        if noted["engine_bytes"] == len(plan):
            return plan, BuiltEngine(noted["build_s"], len(plan), cached=True, note=noted["note"])
    except (OSError, ValueError, KeyError, TypeError):
        pass  # not built yet, or damaged
    begun_s = time.monotonic()
    plan, said = _built(request)
    built = BuiltEngine(time.monotonic() - begun_s, len(plan), cached=False, note=said)
    origin = {"gpu": request.gpu, "tensorrt": request.trt.__version__, "precision": request.precision}
    _write(file, plan)
    _write(note, json.dumps({"build_s": built.build_s, "engine_bytes": len(plan), "note": said, **origin}).encode())
    return plan, built


def _check(workload: Workload, engine: EngineOptions, precision: str) -> None:
    """Check the options against the network.

    Raises:
        InputError: INT8 without scales, or a DLA in a precision that it lacks.
    """
    if precision == "int8" and not is_quantized(workload):
        raise InputError(
            f"{workload.reference} has no scales for INT8 (QuantizeLinear)",
            "quantise it: onnxruntime.quantization.quantize_static(..., quant_format=QuantFormat.QDQ)",
        )
    if engine.dla_core is not None and precision not in _ON_DLA:
        raise InputError(f"--dla-core: a DLA does not compute in {precision}", "--precision fp16, or int8")


def _write(path: Path, content: bytes) -> None:
    """Write a file as a whole or not at all; without space the engine is built again the next time."""
    with suppress(InputError):
        write_atomically(content, path)


def _built(request: EngineRequest) -> tuple[bytes, str]:
    """Build an engine; return it serialised, and what runs on the GPU in place of the DLA."""
    trt, workload, batch_size, options = request.trt, request.workload, request.batch_size, request.options
    messages = Messages(trt)
    builder = started(trt.Builder, messages)
    trt.init_libnvinfer_plugins(messages.logger, "")
    explicit = getattr(trt.NetworkDefinitionCreationFlag, "EXPLICIT_BATCH", None)  # the only kind since TensorRT 10
    network = builder.create_network(0 if explicit is None else 1 << int(explicit))
    parser = trt.OnnxParser(network, messages.logger)
    source, _ = model_source(workload, batch_size, options.dimensions)
    if not (parser.parse_from_file(source) if isinstance(source, str) else parser.parse(source)):
        said = parser.get_error(0).desc() if parser.num_errors else messages.reason()
        raise InputError(
            f"TensorRT {trt.__version__} cannot parse {workload.reference}: {' '.join(str(said).split())[:300]}",
            "--device nvidia:0 without --engine runs it by ONNX Runtime on CUDA",
        )
    for index in range(network.num_inputs):
        tensor = network.get_input(index)
        tensor.shape = request.shapes[tensor.name]
    config = builder.create_builder_config()
    _set_precision(config, request)
    note = _set_dla(trt, builder, network, config, options.engine)
    plan = builder.build_serialized_network(network, config)
    if plan is None:
        raise InputError(
            f"TensorRT {trt.__version__} cannot build {workload.reference} at batch size {batch_size}: "
            f"{messages.reason()}",
            "without --engine, ONNX Runtime runs what TensorRT lacks; a smaller batch size needs less memory",
        )
    if options.engine.dla_core is not None and not options.engine.allow_gpu_fallback:
        switched = [found[1] or found[2] for line in messages.lines if (found := _SWITCHED.search(line))]
        _refuse_fallback(switched, network.num_layers)
    return bytes(plan), note


def _set_precision(config: Any, request: EngineRequest) -> None:
    """Let TensorRT compute in a precision; TensorRT 11 has no flags, it computes in the network's own.

    Raises:
        InputError: this TensorRT cannot be asked for it.
    """
    trt, precision = request.trt, request.precision
    flag = getattr(trt.BuilderFlag, precision.upper(), None)
    settable = flag is not None or (precision == "fp32" and hasattr(trt.BuilderFlag, "FP16"))
    if not settable and precision != request.own_precision:
        raise InputError(
            f"TensorRT {trt.__version__} cannot be asked for {precision}: {request.workload.reference} is stored in "
            f"{request.own_precision}",
            "export the network in that precision (quantised: QDQ), and leave --precision out",
        )
    if flag is not None:
        config.set_flag(flag)


def _set_dla(trt: Any, builder: Any, network: Any, config: Any, engine: EngineOptions) -> str:
    """Choose the DLA, if one is asked for; return what runs on the GPU in its place.

    Raises:
        InputError: there is no such core, or layers would run on the GPU without consent.
    """
    if engine.dla_core is None:
        return ""
    if engine.dla_core >= builder.num_DLA_cores:
        raise InputError(
            f"--dla-core {engine.dla_core}: this machine has {builder.num_DLA_cores} DLA cores", "name one, from 0"
        )
    config.default_device_type = trt.DeviceType.DLA
    config.DLA_core = engine.dla_core
    config.set_flag(trt.BuilderFlag.GPU_FALLBACK)  # also needed where only inputs and outputs are reordered
    layers = [network.get_layer(index) for index in range(network.num_layers)]
    left = [str(layer.name) for layer in layers if not config.can_run_on_DLA(layer)]
    if not engine.allow_gpu_fallback:
        _refuse_fallback(left, len(layers))
    return f"{len(left)} of {len(layers)} layers run on the GPU: {_listed(left)}" if left else ""


def _refuse_fallback(left: list[str], layers: int) -> None:
    if left:
        raise InputError(
            f"{len(left)} of {layers} layers do not run on the DLA: {_listed(left)}",
            "--allow-gpu-fallback runs them on the GPU, or replace them",
        )


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more

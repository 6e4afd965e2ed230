"""Builds a TensorRT engine from an ONNX network at a batch size, and keeps it for the next time.

An engine has one fixed shape. Its file is named after what it depends on: network, TensorRT, GPU, precision, DLA and
shapes. Beside it lies a note of how long building took.

Source: https://docs.nvidia.com/deeplearning/tensorrt/latest/_static/python-api/infer/Core/BuilderConfig.html
(``set_flag``, ``can_run_on_DLA``), .../infer/Core/Builder.html, .../parsers/Onnx/pyOnnx.html. Why
a DLA needs the flag GPU_FALLBACK even if it runs every layer: https://github.com/NVIDIA/TensorRT/issues/3438.

TensorRT's Python library: loaded, its messages kept, and its refusals of an engine explained.

Source: https://docs.nvidia.com/deeplearning/tensorrt/latest/_static/python-api/ (``ILogger``, ``Runtime``), TensorRT
8.6 to 11; the words of its refusals from https://github.com/NVIDIA/TensorRT/issues/2176, /574 and /2195, and
https://github.com/deepinsight/insightface/issues/2882.
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
from edgetune.errors import DeviceError, InputError
from edgetune.workloads.engines import BuiltEngine, EngineOptions, engine_folder
from edgetune.workloads.onnx_file import is_quantized, stored_precisions
from edgetune.workloads.ort_session import model_source
from edgetune.workloads.workload import RunOptions, Workload

_OLDEST = (8, 6)
_ON_JETSON = Path("/etc/nv_tegra_release")
_VERSIONS = re.compile(r"expecting library version ([\d.]*\d) got ([\d.]*\d)?")
_TAGS = re.compile(r"Current Version: (\d+), Serialized Engine Version: (\d+)")
_COMPUTE = re.compile(r"expecting compute ([\d.]*\d) got compute ([\d.]*\d)")
_OTHER_MODEL = "across different models of devices"
_REBUILD = "build it on this machine, or name the ONNX file: edgetune profile net.onnx --engine tensorrt"
_KEPT = 200


def require_tensorrt() -> Any:
    """Return the module ``tensorrt``.

    Raises:
        DeviceError: it is missing, cannot be loaded, or is older than 8.6.
    """
    try:
        import tensorrt  # type: ignore[import-not-found]
    except (ImportError, OSError) as error:
        hint = "pip install 'edgetune[tensorrt]' (on a Jetson: sudo apt install python3-libnvinfer)"
        if _ON_JETSON.exists():
            hint = "sudo apt install python3-libnvinfer (in a virtual environment: --system-site-packages)"
        raise DeviceError(f"TensorRT cannot be loaded: {error}", hint) from None
    found = tuple(int(part) for part in re.findall(r"\d+", tensorrt.__version__)[:2])
    if found < _OLDEST:
        raise DeviceError(f"TensorRT {tensorrt.__version__} is older than 8.6", "edgetune needs 8.6 (JetPack 5.1.2)")
    return tensorrt


class Messages:
    """The last messages of a logger of TensorRT."""

    def __init__(self, trt: Any) -> None:
        self.lines: list[str] = []
        self.errors: list[str] = []
        kept, severities = self, (trt.ILogger.Severity.INTERNAL_ERROR, trt.ILogger.Severity.ERROR)

        class Logger(trt.ILogger):  # type: ignore[misc]
            def __init__(self) -> None:
                trt.ILogger.__init__(self)  # without it, TensorRT refuses the object

            def log(self, severity: Any, msg: str) -> None:
                line = " ".join(str(msg).split())
                if severity in (*severities, trt.ILogger.Severity.WARNING):
                    kept.lines = [*kept.lines, line][-_KEPT:]
                if severity in severities:
                    kept.errors = [*kept.errors, line][-_KEPT:]

        self.logger = Logger()

    def reason(self, *, last: bool = False) -> str:
        """Return the first or the last error, shortened."""
        return self.errors[-1 if last else 0][:300] if self.errors else "it gives no reason"


@dataclass(frozen=True, slots=True)
class LoadedEngine:
    """An engine, the runtime that must live as long, and what TensorRT says while it runs."""

    engine: Any
    runtime: Any
    messages: Messages


def started(kind: Any, messages: Messages) -> Any:
    """Return a builder or a runtime of TensorRT, which needs a GPU.

    Raises:
        DeviceError: TensorRT does not start, for example because the driver is older than it needs.
    """
    try:
        return kind(messages.logger)
    except (TypeError, RuntimeError):  # TypeError: "factory function returned nullptr"
        raise DeviceError(f"TensorRT does not start: {messages.reason()}", "update the NVIDIA driver") from None


def deserialize(trt: Any, plan: bytes, reference: str, gpu: str, dla_core: int | None) -> LoadedEngine:
    """Return an engine.

    Args:
        trt: The module.
        plan: The serialised engine.
        reference: The file, for messages.
        gpu: Name of the GPU.
        dla_core: Core of the DLA that runs it; ``None`` for the GPU.

    Raises:
        InputError: it was built for another GPU or by another version, is cut short, or no engine.
    """
    messages = Messages(trt)
    runtime = started(trt.Runtime, messages)
    trt.init_libnvinfer_plugins(messages.logger, "")
    if dla_core is not None:
        if dla_core >= runtime.num_DLA_cores:
            raise InputError(
                f"--dla-core {dla_core}: this machine has {runtime.num_DLA_cores} DLA cores", "name one, from 0"
            )
        runtime.DLA_core = dla_core
    engine = runtime.deserialize_cuda_engine(plan)
    if engine is None:
        raise _refusal(trt, messages, reference, gpu)
    if any(_OTHER_MODEL in line for line in messages.lines):
        raise InputError(f"{reference} was built on another model of GPU than this {gpu}", _REBUILD)
    return LoadedEngine(engine, runtime, messages)


def _refusal(trt: Any, messages: Messages, reference: str, gpu: str) -> InputError:
    """Return the error of an engine that TensorRT does not take."""
    said = " ".join(messages.lines)
    if found := _COMPUTE.search(said):
        return InputError(
            f"{reference} was built for a GPU of compute capability {found[2]}; this is {gpu}, {found[1]}", _REBUILD
        )
    if (found := _VERSIONS.search(said)) and found[2]:
        return InputError(f"{reference} was built by TensorRT {found[2]}; this is TensorRT {found[1]}", _REBUILD)
    if found := _TAGS.search(said):
        return InputError(
            f"{reference} was built by another TensorRT (serialisation {found[2]}); this is TensorRT "
            f"{trt.__version__} (serialisation {found[1]})",
            _REBUILD,
        )
    return InputError(
        f"TensorRT {trt.__version__} cannot read {reference}: it is cut short, or no engine: {messages.reason()}",
        _REBUILD,
    )


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
        InputError: TensorRT cannot parse or build the network; INT8 without scales, or a DLA in a precision it lacks.
        DeviceError: the folder of engines cannot be created.
    """
    if request.precision == "int8" and not is_quantized(request.workload):
        raise InputError(
            f"{request.workload.reference} has no scales for INT8 (QuantizeLinear)",
            "quantise it: onnxruntime.quantization.quantize_static(..., quant_format=QuantFormat.QDQ)",
        )
    if request.options.engine.dla_core is not None and request.precision not in _ON_DLA:
        raise InputError(f"--dla-core: a DLA does not compute in {request.precision}", "--precision fp16, or int8")
    file = engine_folder() / f"{request.workload.name}-{request.digest}.engine"
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
    noted = {"build_s": built.build_s, "engine_bytes": len(plan), "note": said, **origin}
    with suppress(InputError):  # without space the engine is built again the next time
        write_atomically(plan, file)
        write_atomically(json.dumps(noted).encode(), note)
    return plan, built


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

"""TensorRT's Python library: loaded, its messages kept, and its refusals of an engine explained.

Source: https://docs.nvidia.com/deeplearning/tensorrt/latest/_static/python-api/ (``ILogger``, ``Runtime``), TensorRT
8.6 to 11; the words of its refusals from https://github.com/NVIDIA/TensorRT/issues/2176, /574 and /2195, and
https://github.com/deepinsight/insightface/issues/2882.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgetune.errors import DeviceError, InputError

_OLDEST = (8, 6)
_ON_JETSON = Path("/etc/nv_tegra_release")
_VERSIONS = re.compile(r"expecting library version ([\d.]*\d) got ([\d.]*\d)?")
_TAGS = re.compile(r"Current Version: (\d+), Serialized Engine Version: (\d+)")
_COMPUTE = re.compile(r"expecting compute ([\d.]*\d) got compute ([\d.]*\d)")
_OTHER_MODEL = "across different models of devices"
_REBUILD = "build it on this machine, or name the ONNX file: edgetune profile net.onnx --engine tensorrt"
_KEPT = 200


def install_hint() -> str:
    """Return how to install TensorRT on this machine."""
    if _ON_JETSON.exists():
        return "sudo apt install python3-libnvinfer (in a virtual environment: --system-site-packages)"
    return "pip install 'edgetune[tensorrt]' (on a Jetson: sudo apt install python3-libnvinfer)"


def require_tensorrt() -> Any:
    """Return the module ``tensorrt``.

    Raises:
        DeviceError: it is missing, cannot be loaded, or is older than 8.6.
    """
    try:
        import tensorrt  # type: ignore[import-not-found]
    except (ImportError, OSError) as error:
        raise DeviceError(f"TensorRT cannot be loaded: {error}", install_hint()) from None
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
                if severity in (*severities, trt.ILogger.Severity.WARNING):
                    kept.add(str(msg), error=severity in severities)

        self.logger = Logger()

    def add(self, text: str, *, error: bool) -> None:
        """Keep a message."""
        line = " ".join(text.split())
        self.lines = [*self.lines, line][-_KEPT:]
        if error:
            self.errors = [*self.errors, line][-_KEPT:]

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

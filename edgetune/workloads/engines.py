"""The engines that infer an ONNX network, the options of each, and the folder of built TensorRT engines."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgetune.errors import DeviceError, InputError
from edgetune.processes.user_folders import user_folder

ENGINES: Mapping[str, str] = {"ort": "edgetune.workloads.ort_session", "tensorrt": "edgetune.workloads.tensorrt_engine"}
"""Module of each engine, whose ``open_step`` runs a network; see ``steps``."""

PRECISIONS = ("fp32", "fp16", "bf16", "int8")
"""Precisions that TensorRT may be allowed to compute in, beside FP32."""


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """The engine of a network and its options.

    Args:
        name: One of ``ENGINES``.
        precision: What TensorRT may compute in, one of ``PRECISIONS``; ``None`` for the network's own types.
        dla_core: Core of the DLA that runs the network; ``None`` for the GPU.
        allow_gpu_fallback: Whether layers that the DLA lacks may run on the GPU.
    """

    name: str = "ort"
    precision: str | None = None
    dla_core: int | None = None
    allow_gpu_fallback: bool = False

    @property
    def builds(self) -> bool:
        """Whether a network is compiled before it runs, for minutes."""
        return self.name != "ort"

    def check(self) -> None:
        """Check that the options fit the engine.

        Raises:
            InputError: they do not.
        """
        if self.builds and self.precision not in (None, *PRECISIONS):
            raise InputError(
                f"--precision {self.precision}: --engine {self.name} computes in {', '.join(PRECISIONS)}",
                "name one of these, or leave it out for the network's own types",
            )
        own = {"--dla-core": self.dla_core is not None, "--allow-gpu-fallback": self.allow_gpu_fallback}
        given = [option for option, is_given in own.items() if is_given]
        if given and self.name != "tensorrt":
            raise InputError(f"{' and '.join(given)}: for --engine tensorrt", "--engine tensorrt, or leave it out")
        if self.allow_gpu_fallback and self.dla_core is None:
            raise InputError("--allow-gpu-fallback: nothing falls back without a DLA", "--dla-core 0, or leave it out")


@dataclass(frozen=True, slots=True)
class BuiltEngine:
    """A TensorRT engine that is ready to run.

    Args:
        build_s: Time that building it took, s; ``None`` if it is unknown.
        engine_bytes: Size of its file, bytes.
        cached: Whether it was built earlier.
        note: What runs elsewhere than asked, with the user's consent; empty for nothing.
    """

    build_s: float | None
    engine_bytes: int
    cached: bool
    note: str = ""


class BuiltStep:
    """A step whose engine was built before it; ``columns`` tells how long that took."""

    def __init__(self, step: Callable[[], object], built: BuiltEngine) -> None:
        self._step = step
        self.built = built

    def __call__(self) -> object:
        """Run one minibatch."""
        return self._step()

    def columns(self) -> dict[str, Any]:
        """Return further columns of a profile's row."""
        return {"build_s": self.built.build_s, "engine_bytes": self.built.engine_bytes}


def engine_folder() -> Path:
    """Return a folder for built engines after creating it.

    Raises:
        DeviceError: it cannot be created.
    """
    folder = user_folder("cache", "engines", "tensorrt")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DeviceError(
            f"cannot create {folder} for built engines: {error.strerror or error}", "set XDG_CACHE_HOME to a folder"
        ) from None
    return folder

"""NVIDIA's management library (NVML) through nvidia-ml-py, with translated errors, and one GPU behind it.

The library is any object with the functions of ``pynvml``: that module, or ``tests/fakes/nvml.py``.
Error codes are those of ``nvml.h``, enumeration ``nvmlReturn_t``.

On a Jetson NVML initialises, counts one GPU named ``Orin (nvgpu)`` and answers "not supported" to nearly everything
(spec: NVIDIA/skills, skills/jetson-diagnostic, runtime_probes.sh; HazyResearch/intelligence-per-watt issue 40). So the
usability of a GPU is tested by a reading.
"""

import os
from collections.abc import Mapping
from typing import Any

from edgetune.errors import DeviceError

REMEDY = "pip install 'edgetune[nvidia]'"

NOT_SUPPORTED = 3
NO_PERMISSION = 4
DRIVER_NOT_LOADED = 9
LIBRARY_NOT_FOUND = 12
FUNCTION_NOT_FOUND = 13
GPU_IS_LOST = 15
RESET_REQUIRED = 16
VERSION_MISMATCH = 18
ARGUMENT_VERSION_MISMATCH = 25
DEPRECATED = 26


class NotSupportedError(DeviceError):
    """This GPU, its driver or this version of the library does not offer a function."""


class NoPermissionError(DeviceError):
    """Only root may call this function."""


class GpuLostError(DeviceError):
    """The GPU has fallen off its bus or waits for a reset."""


_KNOWN: dict[int, tuple[type[DeviceError], str, str]] = {
    **dict.fromkeys(
        (NOT_SUPPORTED, FUNCTION_NOT_FOUND, ARGUMENT_VERSION_MISMATCH, DEPRECATED),
        (NotSupportedError, "{function}: this GPU or its driver does not offer it", "leave out what needs it"),
    ),
    NO_PERMISSION: (NoPermissionError, "the driver refused: permission denied", "run it as root; see edgetune doctor"),
    GPU_IS_LOST: (GpuLostError, "the GPU is lost: the driver cannot reach it", "dmesg says why; it needs a reboot"),
    RESET_REQUIRED: (GpuLostError, "the GPU needs a reset", "nvidia-smi --gpu-reset, or a reboot"),
    DRIVER_NOT_LOADED: (DeviceError, "the NVIDIA driver is not loaded", "check `nvidia-smi`"),
    LIBRARY_NOT_FOUND: (DeviceError, "there is no NVIDIA driver: libnvidia-ml.so.1 is missing", "install the driver"),
    VERSION_MISMATCH: (DeviceError, "the NVIDIA driver was updated while an older one is loaded", "reboot"),
}


class Nvml:
    """The initialised library; it is never shut down, because other parts of the process may use it.

    Args:
        module: The module ``pynvml``, or a fake of it.
    """

    def __init__(self, module: Any) -> None:
        self._module = module
        self.call("nvmlInit")

    def maybe(self, function: str, *arguments: Any) -> Any | None:
        """Call a function and return ``None`` where nothing answers.

        Raises:
            GpuLostError: the GPU is lost.
        """
        try:
            return self.call(function, *arguments)
        except GpuLostError:
            raise
        except DeviceError:
            return None

    def call(self, function: str, *arguments: Any) -> Any:
        """Call a function by its name.

        Raises:
            NotSupportedError: the GPU, the driver or the library lacks it.
            NoPermissionError: only root may call it.
            GpuLostError: the GPU no longer answers.
            DeviceError: any other NVML error.
        """
        found = getattr(self._module, function, None)
        if found is None:
            raise NotSupportedError(f"{function} is missing from this nvidia-ml-py", f"{REMEDY} --upgrade")
        try:
            return found(*arguments)
        except self._module.NVMLError as error:
            unknown = (DeviceError, f"{function}: {error}", "see what nvidia-smi says of this GPU")
            kind, message, hint = _KNOWN.get(int(error.value), unknown)
            raise kind(message.format(function=function), hint) from None


def load_nvml(module: Any = None) -> Nvml:
    """Load and initialise NVML.

    Args:
        module: Used in place of ``pynvml``.

    Raises:
        DeviceError: nvidia-ml-py is not installed, or the driver does not work.
    """
    if module is not None:
        return Nvml(module)
    try:
        import pynvml
    except ImportError:
        raise DeviceError("NVIDIA GPUs are read through nvidia-ml-py, which is not installed", REMEDY) from None
    return Nvml(pynvml)


VOLTA, TURING, AMPERE = 5, 6, 7
"""``NVML_DEVICE_ARCH_*`` of nvml.h; later architectures have higher numbers."""

POWER_INSTANT = 186
MEMORY_TEMPERATURE = 82
SW_THERMAL_SLOWDOWN_NS, HW_THERMAL_SLOWDOWN_NS, HW_POWER_BRAKE_NS = 269, 270, 271
"""Field identifiers ``NVML_FI_DEV_*`` of nvml.h."""

_VALUE_OF_TYPE = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
"""Members of the union ``nvmlValue_t``, by ``nvmlValueType_t``."""


class Gpu:
    """One GPU, by its number in nvidia-smi, which is the order on the PCI bus.

    Raises:
        DeviceError: no GPU has this number, or the GPU does not answer.
    """

    def __init__(self, nvml: Nvml, index: int) -> None:
        count = gpu_count(nvml)
        if index >= count:
            hint = "GPUs are counted from nvidia:0"
            raise DeviceError(f"there is no NVIDIA GPU {index}: this machine has {count}", hint)
        self.index = index
        self.nvml = nvml
        self._handle = nvml.call("nvmlDeviceGetHandleByIndex", index)

    @property
    def name(self) -> str:
        """E.g. ``NVIDIA GeForce RTX 4090``."""
        return text(self.ask("nvmlDeviceGetName"))

    @property
    def architecture(self) -> int | None:
        """Architecture number, see ``VOLTA``; ``None`` when the driver gives none."""
        found = self.maybe("nvmlDeviceGetArchitecture")
        return None if found is None else int(found)

    @property
    def mig(self) -> bool:
        """Whether it is divided into instances (MIG), which share its clocks and its power."""
        modes = self.maybe("nvmlDeviceGetMigMode")
        return bool(modes and modes[0])

    def ask(self, function: str, *arguments: Any) -> Any:
        """Call a function of NVML on this GPU; errors as ``Nvml.call``."""
        return self.nvml.call(function, self._handle, *arguments)

    def ask_either(self, newer: str, older: str, *arguments: Any) -> Any:
        """Call a function by its new name, or by its old name where the driver or the library lacks the new."""
        try:
            return self.ask(newer, *arguments)
        except NotSupportedError:
            return self.ask(older, *arguments)

    def maybe(self, function: str, *arguments: Any) -> Any | None:
        """Call a function and return ``None`` where this GPU does not offer it or does not answer.

        Raises:
            GpuLostError: the GPU is lost.
        """
        return self.nvml.maybe(function, self._handle, *arguments)

    def field(self, identifier: int) -> float:
        """Return a field value by its ``NVML_FI_DEV_*`` number.

        Raises:
            NotSupportedError: this GPU lacks the field.
        """
        (value,) = self.ask("nvmlDeviceGetFieldValues", [identifier])
        if value.nvmlReturn != 0:
            hint = "leave out the option that needs it"
            raise NotSupportedError(f"this GPU does not report field {identifier}", hint)
        return float(getattr(value.value, _VALUE_OF_TYPE[value.valueType]))


def gpu_count(nvml: Nvml) -> int:
    """Return the number of GPUs that NVML lists."""
    return int(nvml.call("nvmlDeviceGetCount"))


def gpu_load(module: Any = None) -> float | None:
    """Return the load of the first GPU, per cent; ``None`` where NVML tells none. For ``module`` see ``load_nvml``."""
    try:
        rates = Gpu(load_nvml(module), 0).maybe("nvmlDeviceGetUtilizationRates")
    except DeviceError:
        return None
    return None if rates is None else float(rates.gpu)


def text(value: str | bytes) -> str:
    """Decode a string, which older releases of nvidia-ml-py return as bytes."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def unusable(gpu: Gpu, *, on_jetson: bool, environment: Mapping[str, str] = os.environ) -> DeviceError | None:
    """Return the reason why a GPU cannot be measured through NVML, or ``None``.

    Args:
        gpu: The GPU.
        on_jetson: Whether this machine is a Jetson; its own GPU need not carry ``(nvgpu)`` in its name (Thor).
        environment: Environment variables; batch systems hide GPUs by CUDA_VISIBLE_DEVICES.
    """
    power = ("nvmlDeviceGetTotalEnergyConsumption", "nvmlDeviceGetPowerUsage")
    if "(nvgpu)" in gpu.name or (on_jetson and all(gpu.maybe(function) is None for function in power)):
        return DeviceError(f"{gpu.name} is the GPU of a Jetson, which NVML cannot measure", "use the device jetson")
    shown, uuid = environment.get("CUDA_VISIBLE_DEVICES"), text(gpu.maybe("nvmlDeviceGetUUID") or "")
    words = [str(gpu.index)] if shown is None else [word.strip() for word in shown.split(",")]
    instance = gpu.mig and any(word.startswith("MIG-") for word in words)
    named = any(word.startswith("GPU-") and uuid.startswith(word) for word in words)
    if str(gpu.index) in words or instance or named:
        return None
    hint = "name a GPU that it shows, or unset it; GPUs are counted as nvidia-smi counts them"
    return DeviceError(f"nvidia:{gpu.index} is hidden from CUDA by CUDA_VISIBLE_DEVICES={shown}", hint)


GRAPHICS_CLOCK, MEMORY_CLOCK = 0, 2
"""``nvmlClockType_t``."""

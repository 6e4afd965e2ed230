"""NVIDIA's management library (NVML) through nvidia-ml-py: loaded in one place, its errors translated in one place.

Whatever has the functions of the module ``pynvml`` will do: the module itself, or ``tests/fakes/nvml.py``.
Error codes are those of ``nvml.h``, enumeration ``nvmlReturn_t``. Nothing here was ever run on a GPU.
"""

from __future__ import annotations

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
    """Only root may do that."""


class GpuLostError(DeviceError):
    """The GPU has fallen off its bus or waits for a reset."""


_UNSUPPORTED = (NOT_SUPPORTED, FUNCTION_NOT_FOUND, ARGUMENT_VERSION_MISMATCH, DEPRECATED)
_KNOWN: dict[int, tuple[type[DeviceError], str, str]] = {
    NO_PERMISSION: (NoPermissionError, "the driver refused: permission denied", "run it as root; see edgetune doctor"),
    GPU_IS_LOST: (GpuLostError, "the GPU is lost: the driver cannot reach it", "dmesg says why; it needs a reboot"),
    RESET_REQUIRED: (GpuLostError, "the GPU needs a reset", "nvidia-smi --gpu-reset, or a reboot"),
    DRIVER_NOT_LOADED: (DeviceError, "the NVIDIA driver is not loaded", "check `nvidia-smi`"),
    LIBRARY_NOT_FOUND: (DeviceError, "there is no NVIDIA driver: libnvidia-ml.so.1 is missing", "install the driver"),
    VERSION_MISMATCH: (DeviceError, "the NVIDIA driver was updated while an older one is loaded", "reboot"),
}


class Nvml:
    """The library, initialised; it stays so until the process ends, as other parts of the process may use it too.

    Args:
        module: The module ``pynvml``, or a fake of it.
    """

    def __init__(self, module: Any) -> None:
        self._module = module
        self.call("nvmlInit")

    def call(self, function: str, *arguments: Any) -> Any:
        """Call a function by its name.

        Raises:
            NotSupportedError: the GPU, the driver or the library lacks it.
            NoPermissionError: only root may.
            GpuLostError: the GPU no longer answers.
            DeviceError: anything else that NVML reports.
        """
        found = getattr(self._module, function, None)
        if found is None:
            raise NotSupportedError(f"{function} is missing from this nvidia-ml-py", f"{REMEDY} --upgrade")
        try:
            return found(*arguments)
        except self._module.NVMLError as error:
            raise _translated(function, error) from None


def _translated(function: str, error: Any) -> DeviceError:
    code = int(error.value)
    if code in _UNSUPPORTED:
        return NotSupportedError(f"{function}: this GPU or its driver does not offer it", "leave out what needs it")
    if code in _KNOWN:
        kind, message, hint = _KNOWN[code]
        return kind(message, hint)
    return DeviceError(f"{function}: {error}", "see what nvidia-smi says of this GPU")


def load_nvml(module: Any = None) -> Nvml:
    """Return the library.

    Args:
        module: Used in place of ``pynvml``.

    Raises:
        DeviceError: nvidia-ml-py is not installed, or there is no working driver.
    """
    if module is not None:
        return Nvml(module)
    try:
        import pynvml
    except ImportError:
        raise DeviceError("NVIDIA GPUs are read through nvidia-ml-py, which is not installed", REMEDY) from None
    return Nvml(pynvml)

"""Requirements of PyTorch workloads: PyTorch itself, and the requested accelerator."""

import sys
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from edgetune.errors import DeviceError

INSTALL_TORCH = "pip install 'edgetune[torch]' (on a Jetson: NVIDIA's wheel)"


def require_accelerator(torch_device: str) -> None:
    """Check that PyTorch can use the device; the CPU is always available.

    Raises:
        DeviceError: PyTorch cannot use the device.
    """
    if torch_device.startswith("cuda") and not require_torch().cuda.is_available():
        raise DeviceError(
            f"this PyTorch cannot use {torch_device}", "install a CUDA build of torch; edgetune doctor says which"
        )


def require_torch() -> Any:
    """Return the torch module.

    Raises:
        DeviceError: PyTorch is not installed or cannot be loaded.
    """
    if "torch" in sys.modules:
        return sys.modules["torch"]
    try:
        import torch
    except ImportError as error:
        raise DeviceError(f"training and CUDA need PyTorch: {error}", INSTALL_TORCH) from None
    return torch


Step = Callable[[], object]
"""Runs one minibatch."""


@runtime_checkable
class TimedSteps(Protocol):
    """Minibatches that take their own times, because they run in another process."""

    def times_ns(self, minibatches: int) -> tuple[list[int], list[int]]:
        """Return when each of the next minibatches started and ended, CLOCK_MONOTONIC, ns.

        Raises:
            EdgetuneError: the workload failed.
        """
        ...

    def columns(self) -> dict[str, Any]:
        """Return further columns of a profile's row, over all minibatches so far."""
        ...

    def close(self) -> None:
        """End what runs."""
        ...

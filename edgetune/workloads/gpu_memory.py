"""Memory and a stream on a GPU for TensorRT, through CUDA's Python bindings or PyTorch, whichever is installed.

Source: https://nvidia.github.io/cuda-python/cuda-bindings/latest/module/runtime.html (every function returns a tuple
that begins with its error code); PyTorch, ``torch.cuda.Stream.cuda_stream``, ``Tensor.data_ptr``.
"""

import importlib
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from edgetune.errors import DeviceError, InputError

INSTALL = "pip install cuda-python (on a Jetson: the version of its CUDA, e.g. 'cuda-python~=12.6'), or PyTorch"
_MODULES = ("cuda.bindings.runtime", "cuda.cudart")
"""The bindings of the CUDA runtime since 12.6, and before."""
_OUT_OF_MEMORY = 2


class GpuMemory(Protocol):
    """Memory and a stream on one GPU.

    Attributes:
        gpu: Name of the GPU.
        stream: Handle of the stream.
    """

    gpu: str
    stream: int

    def allocate(self, size_bytes: int) -> int:
        """Return the address of new memory, kept until this object goes."""
        ...

    def upload(self, array: np.ndarray[Any, Any]) -> int:
        """Return the address of a copy of an array."""
        ...

    def synchronize(self) -> None:
        """Wait for the work on the stream."""
        ...


def open_gpu(index: int = 0) -> GpuMemory:
    """Return memory of a GPU.

    Raises:
        DeviceError: neither library is installed, or there is no usable GPU.
    """
    for name in _MODULES:
        try:
            return CudaRuntime(importlib.import_module(name), index)
        except (ImportError, RuntimeError):  # RuntimeError: libcudart or libcuda is missing
            continue
    try:
        import torch
    except ImportError:
        raise DeviceError("TensorRT needs memory of the GPU, and no library for that is installed", INSTALL) from None
    if not torch.cuda.is_available():
        raise DeviceError("there is no GPU that CUDA's Python bindings or PyTorch can use", INSTALL)
    return TorchMemory(torch, index)


class CudaRuntime:
    """Memory through the bindings of the CUDA runtime."""

    def __init__(self, module: Any, index: int) -> None:
        self._cudart = module
        self._addresses: list[int] = []
        self.stream = 0
        self._call("cudaSetDevice", index)
        name = self._call("cudaGetDeviceProperties", index).name
        self.gpu = name.decode().rstrip("\0") if isinstance(name, bytes) else str(name)
        self.stream = int(self._call("cudaStreamCreate"))

    def _call(self, function: str, *arguments: Any) -> Any:
        """Return the result of a function behind its error code.

        Raises:
            InputError: the memory does not suffice.
            DeviceError: CUDA reports another error.
        """
        code, *values = getattr(self._cudart, function)(*arguments)
        if int(code) == _OUT_OF_MEMORY:
            raise InputError("the GPU has no memory left", "use a smaller batch size, or free memory")
        if int(code):
            text = self._cudart.cudaGetErrorString(code)[1]
            said = text.decode() if isinstance(text, bytes) else str(text)
            raise DeviceError(f"CUDA cannot be used: {function}: {said}", "edgetune doctor says what is missing")
        return values[0] if values else None

    def allocate(self, size_bytes: int) -> int:
        """See ``GpuMemory``."""
        address = int(self._call("cudaMalloc", max(size_bytes, 1)))
        self._addresses.append(address)
        return address

    def upload(self, array: np.ndarray[Any, Any]) -> int:
        """See ``GpuMemory``."""
        array = np.ascontiguousarray(array)
        address = self.allocate(array.nbytes)
        to_gpu = self._cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
        self._call("cudaMemcpy", address, array.ctypes.data, array.nbytes, to_gpu)
        return address

    def synchronize(self) -> None:
        """See ``GpuMemory``."""
        self._call("cudaStreamSynchronize", self.stream)

    def __del__(self) -> None:
        for address in self._addresses:
            self._cudart.cudaFree(address)
        if self.stream:
            self._cudart.cudaStreamDestroy(self.stream)


class TorchMemory:
    """Memory through PyTorch."""

    def __init__(self, torch: Any, index: int) -> None:
        self._torch = torch
        self._device = f"cuda:{index}"
        self._kept: list[Any] = []
        self.gpu = str(torch.cuda.get_device_name(index))
        self._stream = torch.cuda.Stream(self._device)
        self.stream = int(self._stream.cuda_stream)

    def allocate(self, size_bytes: int) -> int:
        """See ``GpuMemory``."""
        try:
            self._kept.append(self._torch.empty(max(size_bytes, 1), dtype=self._torch.uint8, device=self._device))
        except self._torch.cuda.OutOfMemoryError:
            raise InputError("the GPU has no memory left", "use a smaller batch size, or free memory") from None
        return int(self._kept[-1].data_ptr())

    def upload(self, array: np.ndarray[Any, Any]) -> int:
        """See ``GpuMemory``."""
        address = self.allocate(array.nbytes)
        if array.nbytes:
            raw = np.frombuffer(bytearray(np.ascontiguousarray(array).tobytes()), np.uint8)
            self._kept[-1].copy_(self._torch.from_numpy(raw))
            self._torch.cuda.synchronize(self._device)
        return address

    def synchronize(self) -> None:
        """See ``GpuMemory``."""
        self._stream.synchronize()


def volume(shape: Sequence[int]) -> int:
    """Return the number of elements of a shape."""
    return int(np.prod(shape, dtype=np.int64))

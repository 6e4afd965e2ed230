"""A fake of CUDA's runtime bindings (``cuda.bindings.runtime``), as far as edgetune uses them: memory and one stream.

There is no GPU: addresses are made up, and copies into them are kept as bytes. As the real functions do, each returns a
tuple that begins with an error code; a copy outside of allocated memory and an unknown stream are errors.
"""

import ctypes
from enum import IntEnum
from types import SimpleNamespace

STREAM = 77
NAME = b"Orin\0\0"


class cudaError_t(IntEnum):
    cudaSuccess = 0
    cudaErrorInvalidValue = 1
    cudaErrorMemoryAllocation = 2
    cudaErrorNoDevice = 100
    cudaErrorInvalidResourceHandle = 400


class cudaMemcpyKind(IntEnum):
    cudaMemcpyHostToDevice = 1


class Gpu:
    """The memory of the GPU: sizes and contents of allocations by address."""

    def __init__(self):
        self.sizes, self.contents = {}, {}
        self.limit_bytes, self.devices = 1 << 40, 1


gpu = Gpu()


def cudaSetDevice(device):
    return (cudaError_t(0 if device < gpu.devices else 100),)


def cudaGetDeviceProperties(device):
    return cudaError_t(0 if device < gpu.devices else 100), SimpleNamespace(name=NAME, major=8, minor=7)


def cudaGetErrorString(error):
    return cudaError_t.cudaSuccess, cudaError_t(error).name.encode()


def cudaStreamCreate():
    return cudaError_t.cudaSuccess, STREAM


def cudaStreamSynchronize(stream):
    return (cudaError_t(0 if stream == STREAM else 400),)


def cudaStreamDestroy(stream):
    return cudaStreamSynchronize(stream)


def cudaMalloc(size):
    if sum(gpu.sizes.values()) + size > gpu.limit_bytes:
        return cudaError_t.cudaErrorMemoryAllocation, 0
    address = 4096 * (1 + max(gpu.sizes, default=0) // 4096 + max(gpu.sizes.values(), default=0) // 4096)
    gpu.sizes[address] = size
    return cudaError_t.cudaSuccess, address


def cudaFree(address):
    gpu.contents.pop(address, None)
    return (cudaError_t(1 if gpu.sizes.pop(address, None) is None else 0),)


def cudaMemcpy(to, source, count, kind):
    if kind != cudaMemcpyKind.cudaMemcpyHostToDevice or gpu.sizes.get(to, -1) < count:
        return (cudaError_t.cudaErrorInvalidValue,)
    gpu.contents[to] = ctypes.string_at(source, count)
    return (cudaError_t.cudaSuccess,)

"""Handles, codes and attributes of the fake of CUDA's driver."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from types import SimpleNamespace
from typing import Any, Literal

from fakes.cuda_gpu import FakeCudaKernel, FakeWork

Kind = Literal["device", "context", "stream", "event", "module", "function", "memory", "green", "description"]


class CUresult(IntEnum):
    """Codes that the fake returns."""

    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_NOT_INITIALIZED = 3
    CUDA_ERROR_STUB_LIBRARY = 34
    CUDA_ERROR_NO_DEVICE = 100
    CUDA_ERROR_INVALID_DEVICE = 101
    CUDA_ERROR_INVALID_IMAGE = 200
    CUDA_ERROR_INVALID_CONTEXT = 201
    CUDA_ERROR_NO_BINARY_FOR_GPU = 209
    CUDA_ERROR_INVALID_HANDLE = 400
    CUDA_ERROR_NOT_FOUND = 500
    CUDA_ERROR_NOT_READY = 600
    CUDA_ERROR_ILLEGAL_ADDRESS = 700
    CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701
    CUDA_ERROR_LAUNCH_TIMEOUT = 702
    CUDA_ERROR_ASSERT = 710
    CUDA_ERROR_MISALIGNED_ADDRESS = 716
    CUDA_ERROR_LAUNCH_FAILED = 719
    CUDA_ERROR_NOT_PERMITTED = 800
    CUDA_ERROR_NOT_SUPPORTED = 801
    CUDA_ERROR_SYSTEM_DRIVER_MISMATCH = 803
    CUDA_ERROR_INVALID_RESOURCE_TYPE = 914
    CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION = 915
    CUDA_ERROR_UNKNOWN = 999


codes = SimpleNamespace(**{each.name.removeprefix("CUDA_ERROR_"): int(each) for each in CUresult})
"""By their names without what all begin with."""


class CUdevice_attribute(IntEnum):
    """Attributes of a device, numbered as in ``cuda.h``."""

    CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1
    CU_DEVICE_ATTRIBUTE_CLOCK_RATE = 13
    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16
    CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE = 36
    CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH = 37
    CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR = 39
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR = 81
    CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR = 82
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97
    CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR = 106


class CUfunction_attribute(IntEnum):
    """Attributes of a kernel, numbered as in ``cuda.h``."""

    CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0
    CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1
    CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES = 3
    CU_FUNC_ATTRIBUTE_NUM_REGS = 4
    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8


class CUdevResourceType(IntEnum):
    """Resources that green contexts split, numbered as in ``cuda.h``."""

    CU_DEV_RESOURCE_TYPE_INVALID = 0
    CU_DEV_RESOURCE_TYPE_SM = 1


@dataclass(slots=True, eq=False)
class Handle:
    """A handle of any kind."""

    kind: Kind
    what: Any
    context: Handle | None = None
    alive: bool = True

    def __int__(self) -> int:
        return int(self.what) if self.kind == "memory" else id(self)


@dataclass(slots=True)
class FakeContext:
    """A primary context, or a green one."""

    work: FakeWork
    sm_count: int
    retained: int = 0


@dataclass(slots=True)
class FakeFunction:
    """A kernel of a loaded module."""

    symbol: str
    kernel: FakeCudaKernel | None
    most_dynamic_bytes: int
    module: Handle


class RefusedError(Exception):
    """A call for which the driver returns a code of failure."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def refuse(code: int, *, when: bool) -> None:
    if when:
        raise RefusedError(code)


def handle_of(handle: Handle, kind: Kind) -> Any:
    check_type(handle, Handle)
    if handle.kind != kind or not handle.alive or (handle.context is not None and not handle.context.alive):
        raise RefusedError(codes.INVALID_HANDLE)
    return handle.what


def check_type(value: object, kind: type) -> None:
    if not isinstance(value, kind):
        raise TypeError(f"expected {kind.__name__}, got {type(value).__name__}")

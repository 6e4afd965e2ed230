"""Handles, codes and attributes of the fake of CUDA's driver."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from types import SimpleNamespace
from typing import Any, Literal

from fakes.cuda_gpu import FakeCudaKernel, FakeWork

Kind = Literal["device", "context", "stream", "event", "module", "function", "memory", "green", "description"]


codes = SimpleNamespace(
    SUCCESS=0, INVALID_VALUE=1, OUT_OF_MEMORY=2, NOT_INITIALIZED=3, STUB_LIBRARY=34, NO_DEVICE=100, INVALID_DEVICE=101,
    INVALID_IMAGE=200, INVALID_CONTEXT=201, NO_BINARY_FOR_GPU=209, INVALID_HANDLE=400, NOT_FOUND=500, NOT_READY=600,
    ILLEGAL_ADDRESS=700, LAUNCH_OUT_OF_RESOURCES=701, LAUNCH_TIMEOUT=702, ASSERT=710, MISALIGNED_ADDRESS=716,
    LAUNCH_FAILED=719, NOT_PERMITTED=800, NOT_SUPPORTED=801, SYSTEM_DRIVER_MISMATCH=803, INVALID_RESOURCE_TYPE=914,
    INVALID_RESOURCE_CONFIGURATION=915, UNKNOWN=999,
)  # fmt: skip
"""Codes that the fake returns, by their names without what all begin with."""
CUresult = IntEnum(
    "CUresult", {"CUDA_SUCCESS": 0} | {f"CUDA_ERROR_{name}": code for name, code in vars(codes).items() if code}
)  # type: ignore[misc]


def _numbered(kind: str, prefix: str, numbers: dict[str, int]) -> type[IntEnum]:
    """Return an enumeration as in ``cuda.h``."""
    return IntEnum(kind, {f"{prefix}_{name}": number for name, number in numbers.items()})  # type: ignore[return-value]


CUdevice_attribute = _numbered("CUdevice_attribute", "CU_DEVICE_ATTRIBUTE", {
    "MAX_THREADS_PER_BLOCK": 1, "CLOCK_RATE": 13, "MULTIPROCESSOR_COUNT": 16, "MEMORY_CLOCK_RATE": 36,
    "GLOBAL_MEMORY_BUS_WIDTH": 37, "MAX_THREADS_PER_MULTIPROCESSOR": 39, "COMPUTE_CAPABILITY_MAJOR": 75,
    "COMPUTE_CAPABILITY_MINOR": 76, "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": 81,
    "MAX_REGISTERS_PER_MULTIPROCESSOR": 82, "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 97,
    "MAX_BLOCKS_PER_MULTIPROCESSOR": 106,
})  # fmt: skip
CUfunction_attribute = _numbered("CUfunction_attribute", "CU_FUNC_ATTRIBUTE", {
    "MAX_THREADS_PER_BLOCK": 0, "SHARED_SIZE_BYTES": 1, "LOCAL_SIZE_BYTES": 3, "NUM_REGS": 4,
    "MAX_DYNAMIC_SHARED_SIZE_BYTES": 8,
})  # fmt: skip
CUdevResourceType = _numbered("CUdevResourceType", "CU_DEV_RESOURCE_TYPE", {"INVALID": 0, "SM": 1})


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

"""A fake of CUDA's driver for tests: scripted GPUs behind the function names of ``cuda.bindings.driver``.

    cuda = FakeCuda([FakeCudaGpu()], clock, kernels={"vadd": FakeCudaKernel((8, 8, 8, 4), duration_ns=5000, run=add)})
    driver = load_driver(cuda)

No GPU is used, and a test gives the times. The following behaviour is documented by NVIDIA (CUDA Driver API reference,
and the signatures of cuda-bindings 12.8 to 13): results are tuples that begin with a code, names are bytes, attributes
are members of their enumeration, arguments are copied at the launch, streams are ordered and independent of each other,
a copy happens in the order of its stream, freeing memory waits for all work, an event that was never recorded counts as
complete, and after a failed kernel every call fails. Where the real driver would wait forever, the fake raises
``WouldWaitForeverError``. ``torch_cuda`` is the fake of PyTorch on a GPU.
"""

from collections.abc import Sequence
from enum import IntEnum
from types import SimpleNamespace
from typing import Any

from fakes.cuda_handles import (
    CUdevice_attribute,
    CUdevResourceType,
    CUresult,
    FakeContext,
    Handle,
    check_type,
    codes,
    handle_of,
    refuse,
)
from fakes.cuda_state import answers
from fakes.cuda_work import ELF, CudaWork


def fake_image(*symbols: str) -> bytes:
    """Return an image that takes the place of a module with these kernels; a real cubin works too."""
    return ELF + b"".join(b"\0" + symbol.encode() for symbol in symbols) + b"\0"


class FakeCuda(CudaWork):
    """Takes the place of the module ``cuda.bindings.driver``."""

    # --- the driver and its devices

    def cuGetErrorName(self, error: int) -> tuple[Any, ...]:
        return CUresult.CUDA_SUCCESS, CUresult(error).name.encode()

    @answers(0)
    def cuInit(self, Flags: int) -> None:
        if self._fails_with is None:
            raise RuntimeError("Failed to dlopen libcuda.so.1")
        refuse(self._fails_with, when=self._fails_with != 0)
        refuse(codes.NO_DEVICE, when=not self.works)
        refuse(codes.INVALID_VALUE, when=Flags != 0)
        self._state.initialised = True

    @answers(1)
    def cuDriverGetVersion(self) -> tuple[Any, ...]:
        return (self.version,)

    @answers(1)
    def cuDeviceGet(self, ordinal: int) -> tuple[Any, ...]:
        refuse(codes.INVALID_DEVICE, when=not 0 <= ordinal < len(self._devices))
        return (self._devices[ordinal],)

    @answers(1)
    def cuDeviceGetName(self, length: int, dev: Handle) -> tuple[Any, ...]:
        return ((handle_of(dev, "device").gpu.name.encode()[: length - 1] + b"\0").ljust(length, b" "),)

    @answers(1)
    def cuDeviceGetUuid(self, dev: Handle) -> tuple[Any, ...]:
        return (SimpleNamespace(bytes=handle_of(dev, "device").gpu.uuid),)

    @answers(1)
    def cuDeviceGetAttribute(self, attrib: IntEnum, dev: Handle) -> tuple[Any, ...]:
        check_type(attrib, CUdevice_attribute)
        gpu = handle_of(dev, "device").gpu
        table = {
            "MAX_THREADS_PER_BLOCK": gpu.threads_per_block, "CLOCK_RATE": gpu.clock_khz,
            "MULTIPROCESSOR_COUNT": gpu.sm_count, "MEMORY_CLOCK_RATE": gpu.memory_clock_khz,
            "GLOBAL_MEMORY_BUS_WIDTH": gpu.memory_bits, "MAX_THREADS_PER_MULTIPROCESSOR": gpu.threads_per_sm,
            "COMPUTE_CAPABILITY_MAJOR": gpu.capability[0], "COMPUTE_CAPABILITY_MINOR": gpu.capability[1],
            "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": gpu.shared_bytes_per_sm,
            "MAX_REGISTERS_PER_MULTIPROCESSOR": gpu.registers_per_sm,
            "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": gpu.shared_bytes_per_block,
            "MAX_BLOCKS_PER_MULTIPROCESSOR": gpu.blocks_per_sm,
        }  # fmt: skip
        return (table[attrib.name.removeprefix("CU_DEVICE_ATTRIBUTE_")],)

    # --- contexts

    @answers(1)
    def cuDevicePrimaryCtxRetain(self, dev: Handle) -> tuple[Any, ...]:
        primary = self._primaries[self._devices.index(dev)]
        primary.alive = True
        primary.what.retained += 1
        return (primary,)

    @answers(0)
    def cuDevicePrimaryCtxRelease(self, dev: Handle) -> None:
        primary = self._primaries[self._devices.index(dev)]
        refuse(codes.INVALID_CONTEXT, when=not primary.alive)
        primary.what.retained -= 1
        if not primary.what.retained:
            self._wait(primary.what.work.busy_until_ns)
            primary.alive = False

    @answers(0)
    def cuCtxPushCurrent(self, ctx: Handle) -> None:
        refuse(codes.INVALID_CONTEXT, when=ctx.kind != "context" or not ctx.alive)
        self._state.current.append(ctx)

    @answers(1)
    def cuCtxPopCurrent(self) -> tuple[Any, ...]:
        refuse(codes.INVALID_CONTEXT, when=not self._state.current)
        return (self._state.current.pop(),)

    @answers(2)
    def cuCtxGetStreamPriorityRange(self) -> tuple[Any, ...]:
        return self._context().work.gpu.priorities

    # --- green contexts

    @answers(1)
    def cuDeviceGetDevResource(self, device: Handle, typename: IntEnum) -> tuple[Any, ...]:
        check_type(typename, CUdevResourceType)
        gpu = handle_of(device, "device").gpu
        refuse(codes.NOT_SUPPORTED, when=not gpu.green)
        return (_multiprocessors(gpu.sm_count),)

    @answers(1)
    def cuGreenCtxGetDevResource(self, hCtx: Handle, typename: IntEnum) -> tuple[Any, ...]:
        check_type(typename, CUdevResourceType)
        return (_multiprocessors(handle_of(hCtx, "green").sm_count),)

    @answers(3)
    def cuDevSmResourceSplitByCount(self, nbGroups: int, input_: Any, flags: int, minCount: int) -> tuple[Any, ...]:
        gpu = self._context().work.gpu
        size = -(-max(minCount, gpu.green_least) // gpu.green_step) * gpu.green_step
        groups = min(nbGroups, input_.sm.smCount // size)
        refuse(codes.INVALID_RESOURCE_CONFIGURATION, when=not groups or flags != 0)
        return [_multiprocessors(size)] * groups, groups, _multiprocessors(input_.sm.smCount - groups * size)

    @answers(1)
    def cuDevResourceGenerateDesc(self, resources: Sequence[Any], nbResources: int) -> tuple[Any, ...]:
        refuse(codes.INVALID_VALUE, when=nbResources != len(resources))
        return (Handle("description", sum(each.sm.smCount for each in resources)),)

    @answers(1)
    def cuGreenCtxCreate(self, desc: Handle, dev: Handle, flags: int) -> tuple[Any, ...]:
        refuse(codes.INVALID_VALUE, when=flags != 1)
        return (self._made("green", FakeContext(handle_of(dev, "device"), desc.what)),)

    @answers(1)
    def cuGreenCtxStreamCreate(self, greenCtx: Handle, flags: int, priority: int) -> tuple[Any, ...]:
        refuse(codes.INVALID_CONTEXT, when=greenCtx.kind != "green" or not greenCtx.alive)
        refuse(codes.INVALID_VALUE, when=flags != 1)
        (made,) = self.cuStreamCreateWithPriority(flags, priority)[1:]
        made.what.sm_count = greenCtx.what.sm_count
        return (made,)

    @answers(0)
    def cuGreenCtxDestroy(self, hCtx: Handle) -> None:
        self._wait(hCtx.what.work.busy_until_ns)
        refuse(codes.INVALID_CONTEXT, when=hCtx.kind != "green" or not hCtx.alive)
        hCtx.alive = False


def _multiprocessors(count: int) -> Any:
    return SimpleNamespace(sm=SimpleNamespace(smCount=count))

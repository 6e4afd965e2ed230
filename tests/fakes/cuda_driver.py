"""A fake of CUDA's driver for tests: scripted GPUs behind the function names of ``cuda.bindings.driver``.

    cuda = FakeCuda([FakeCudaGpu()], clock, kernels={"vadd": FakeKernel((8, 8, 8, 4), duration_ns=5000, run=add)})
    driver = load_driver(cuda)

It is a fake: no GPU is used, and times are those that a test gives. What it holds to is what NVIDIA documents (CUDA
Driver API reference, and the signatures of cuda-bindings 12.8 to 13): results come as tuples behind a code, names are
bytes, attributes are members of their enumeration, arguments are copied at the launch, streams are ordered and do not
wait for each other, bytes are moved when their stream comes to it, freeing memory waits for all, an event that never
was recorded counts as over, after a kernel that failed every call fails. Where the real driver would wait for ever it
raises ``WouldWaitForeverError``. ``fake_cuda`` is another fake: that of PyTorch on a GPU.
"""

# ruff: noqa: PLR0917  (names and signatures are those of cuda.bindings.driver)

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from types import SimpleNamespace
from typing import Any, Literal, Protocol, TypeVar

from edgetune.elastic.cuda import driver as codes
from fakes.cuda_gpu import (
    NEVER_NS,
    FakeCudaGpu,
    FakeCudaKernel,
    FakeEvent,
    FakeLaunch,
    FakeMemory,
    FakeStream,
    FakeWork,
    IllegalAddressError,
    WouldWaitForeverError,
)

_ELF = b"\x7fELF"
_POINTER_BYTES = 8
_USUAL_SHARED_BYTES = 48 << 10
_MOST_GRID = (2**31 - 1, 65535, 65535)
"""CUDA C++ Programming Guide, technical specifications per compute capability."""
_TIMING_DISABLED = 2
_EVENT_NS = 1000
"""From an event's record on an empty stream until it is over; invented."""

_MOVE_NS = 1000
"""What moving any number of bytes takes; invented."""

_Method = TypeVar("_Method", bound=Callable[..., Any])
Kind = Literal["device", "context", "stream", "event", "module", "function", "memory", "green", "description"]


class FakeTime(Protocol):
    """A clock that stands still until it is moved; see ``edgetune.testing.fake_clock.FakeClock``."""

    def now_ns(self) -> int:
        """Return its time, ns."""
        ...

    def advance_ns(self, duration_ns: int) -> None:
        """Move it."""
        ...


def ticking(clock: FakeTime, tick_ns: int = 20) -> Callable[[], int]:
    """Return what reads a clock and moves it a little each time, as whoever waits by asking for the time needs it."""

    def now_ns() -> int:
        clock.advance_ns(tick_ns)
        return clock.now_ns()

    return now_ns


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
    CU_FUNC_ATTRIBUTE_NUM_REGS = 4
    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8


class CUdevResourceType(IntEnum):
    """What can be split between green contexts, numbered as in ``cuda.h``."""

    CU_DEV_RESOURCE_TYPE_INVALID = 0
    CU_DEV_RESOURCE_TYPE_SM = 1


@dataclass(slots=True, eq=False)
class Handle:
    """A handle of any kind.

    Args:
        kind: Of what.
        what: That.
        context: In which it was made; ``None`` for what needs none.
        alive: Until it is destroyed.
    """

    kind: Kind
    what: Any
    context: Handle | None = None
    alive: bool = True

    def __int__(self) -> int:
        return int(self.what) if self.kind == "memory" else id(self)


@dataclass(slots=True)
class FakeContext:
    """A primary context, or a green one.

    Args:
        work: What runs on its GPU.
        sm_count: Multiprocessors it may use.
        retained: How often it was retained.
    """

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


class _RefusedError(Exception):
    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def fake_image(*symbols: str) -> bytes:
    """Return what stands for a compiled module with these kernels; a real cubin will do too."""
    return _ELF + b"".join(b"\0" + symbol.encode() for symbol in symbols) + b"\0"


def _answers(values: int) -> Callable[[_Method], _Method]:
    """Answer as cuda-bindings do: a tuple of the code and so many values, which are ``None`` where it failed."""

    def decorate(method: _Method) -> _Method:
        name = method.__name__

        @functools.wraps(method)
        def call(self: FakeCuda, *arguments: Any) -> tuple[Any, ...]:
            if name in self.missing:
                raise RuntimeError(f'Function "{name}" not found')
            self.clock.advance_ns(self.call_ns.get(name, self.other_ns))
            self.calls.append(name)
            code = self._standing_code(name)
            if not code:
                try:
                    found = method(self, *arguments)
                    return (CUresult.CUDA_SUCCESS, *(() if found is None else found))
                except _RefusedError as refused:
                    code = refused.code
            return (CUresult(code), *(None,) * values)

        return call  # type: ignore[return-value]

    return decorate


@dataclass(slots=True)
class _State:
    initialised: bool = False
    current: list[Handle] = field(default_factory=list)


class FakeCuda:
    """Stands for the module ``cuda.bindings.driver``.

    Args:
        gpus: What the machine has.
        clock: Moves with every call, and on where a call waits; give the stage the same.
        kernels: What symbols do on every GPU.
        version: Of CUDA, e.g. 12060.
        call_ns: What a call of each function takes on the clock, ns; the others take ``other_ns``.
        other_ns: See there. Neither is that of any machine.
        missing: Functions that the driver is too old for.
        fails_with: The code of ``cuInit``; ``None``: there is no driver at all.
    """

    CUresult, CUdevice_attribute, CUfunction_attribute = CUresult, CUdevice_attribute, CUfunction_attribute
    CUdevResourceType = CUdevResourceType

    def __init__(
        self,
        gpus: Sequence[FakeCudaGpu],
        clock: FakeTime,
        *,
        kernels: Mapping[str, FakeCudaKernel] | None = None,
        version: int = 12060,
        call_ns: Mapping[str, int] | None = None,
        other_ns: int = 1000,
        missing: Sequence[str] = (),
        fails_with: int | None = 0,
    ) -> None:
        self.clock, self.version = clock, version
        self.call_ns, self.other_ns = dict(call_ns or {}), other_ns
        self.missing, self._fails_with = set(missing), fails_with
        self.works = [FakeWork(gpu, FakeMemory(gpu.memory_bytes), dict(kernels or {})) for gpu in gpus]
        self._devices = [Handle("device", work) for work in self.works]
        self._primaries = [Handle("context", FakeContext(work, work.gpu.sm_count), alive=False) for work in self.works]
        self._state = _State()
        self.calls: list[str] = []
        """Names of all functions that were called, in order."""
        self.handles: list[Handle] = []
        """All that was made in contexts, what was destroyed too."""

    @property
    def launches(self) -> list[FakeLaunch]:
        """Launches of the first GPU."""
        return self.works[0].launches

    def leaked(self) -> list[Kind]:
        """Return what was made and not destroyed; functions go with their module."""
        return [handle.kind for handle in self.handles if handle.alive and handle.kind != "function"]

    # --- the driver and its devices

    def cuGetErrorName(self, error: int) -> tuple[Any, ...]:
        """Return the name of a code."""
        return CUresult.CUDA_SUCCESS, CUresult(error).name.encode()

    @_answers(0)
    def cuInit(self, Flags: int) -> None:
        """Initialise, or fail as scripted."""
        if self._fails_with is None:
            raise RuntimeError("Failed to dlopen libcuda.so.1")
        _refuse(self._fails_with, when=self._fails_with != 0)
        _refuse(codes.NO_DEVICE, when=not self.works)
        _refuse(codes.INVALID_VALUE, when=Flags != 0)
        self._state.initialised = True

    @_answers(1)
    def cuDriverGetVersion(self) -> tuple[Any, ...]:
        """Return the version of CUDA."""
        return (self.version,)

    @_answers(1)
    def cuDeviceGetCount(self) -> tuple[Any, ...]:
        """Return how many GPUs there are."""
        return (len(self.works),)

    @_answers(1)
    def cuDeviceGet(self, ordinal: int) -> tuple[Any, ...]:
        """Return one of them."""
        _refuse(codes.INVALID_DEVICE, when=not 0 <= ordinal < len(self._devices))
        return (self._devices[ordinal],)

    @_answers(1)
    def cuDeviceGetName(self, length: int, dev: Handle) -> tuple[Any, ...]:
        """Return its name, padded to a length, as the bindings do."""
        return ((_of(dev, "device").gpu.name.encode()[: length - 1] + b"\0").ljust(length, b" "),)

    @_answers(1)
    def cuDeviceGetUuid(self, dev: Handle) -> tuple[Any, ...]:
        """Return its UUID."""
        return (SimpleNamespace(bytes=_of(dev, "device").gpu.uuid),)

    @_answers(1)
    def cuDeviceGetAttribute(self, attrib: IntEnum, dev: Handle) -> tuple[Any, ...]:
        """Return one of its attributes."""
        _check_type(attrib, CUdevice_attribute)
        gpu = _of(dev, "device").gpu
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

    @_answers(1)
    def cuDevicePrimaryCtxRetain(self, dev: Handle) -> tuple[Any, ...]:
        """Make the primary context, or count it once more."""
        primary = self._primaries[self._devices.index(dev)]
        primary.alive = True
        primary.what.retained += 1
        return (primary,)

    @_answers(0)
    def cuDevicePrimaryCtxRelease(self, dev: Handle) -> None:
        """Count it down; the last release destroys it and waits for what runs."""
        primary = self._primaries[self._devices.index(dev)]
        _refuse(codes.INVALID_CONTEXT, when=not primary.alive)
        primary.what.retained -= 1
        if not primary.what.retained:
            self._wait(primary.what.work.busy_until_ns)
            primary.alive = False

    @_answers(0)
    def cuCtxPushCurrent(self, ctx: Handle) -> None:
        """Make a context current."""
        _refuse(codes.INVALID_CONTEXT, when=ctx.kind != "context" or not ctx.alive)
        self._state.current.append(ctx)

    @_answers(1)
    def cuCtxPopCurrent(self) -> tuple[Any, ...]:
        """Make the one before it current."""
        _refuse(codes.INVALID_CONTEXT, when=not self._state.current)
        return (self._state.current.pop(),)

    @_answers(2)
    def cuCtxGetStreamPriorityRange(self) -> tuple[Any, ...]:
        """Return the lowest and the highest priority."""
        return self._context().work.gpu.priorities

    # --- memory

    @_answers(1)
    def cuMemAlloc(self, bytesize: int) -> tuple[Any, ...]:
        """Allocate."""
        memory = self._context().work.memory
        _refuse(codes.INVALID_VALUE, when=bytesize <= 0)
        address = memory.allocate(bytesize)
        _refuse(codes.OUT_OF_MEMORY, when=address is None)
        return (self._made("memory", address),)

    @_answers(0)
    def cuMemFree(self, dptr: Any) -> None:
        """Free memory; waits until the GPU is idle."""
        work = self._context().work
        self._wait(work.busy_until_ns)
        _refuse(codes.INVALID_VALUE, when=not work.memory.free(int(dptr)))
        for handle in self.handles:
            if handle.kind == "memory" and int(handle) == int(dptr):
                handle.alive = False

    @_answers(0)
    def cuMemcpyHtoDAsync(self, dstDevice: Any, srcHost: bytes, ByteCount: int, hStream: Handle) -> None:
        """Copy to the GPU: pageable bytes are read now, and are there when the stream has come to it."""
        target = self._memory(dstDevice, ByteCount)
        _refuse(codes.INVALID_VALUE, when=len(memoryview(srcHost).cast("B")) < ByteCount)
        self._moves(hStream, target, bytearray(memoryview(srcHost).cast("B")[:ByteCount]))

    @_answers(0)
    def cuMemcpyDtoHAsync(self, dstHost: bytearray, srcDevice: Any, ByteCount: int, hStream: Handle) -> None:
        """Copy from the GPU to pageable memory: waits for its stream, and for no other."""
        source = self._memory(srcDevice, ByteCount)
        self._wait(self._of(hStream, "stream").tail_ns)
        memoryview(dstHost).cast("B")[:ByteCount] = source.tobytes()

    @_answers(0)
    def cuMemsetD8Async(self, dstDevice: Any, uc: int, N: int, hStream: Handle) -> None:
        """Set bytes, when the stream has come to it."""
        self._moves(hStream, self._memory(dstDevice, N), uc)

    # --- modules and kernels

    @_answers(1)
    def cuModuleLoadData(self, image: bytes) -> tuple[Any, ...]:
        """Load an image that begins as a cubin does."""
        data = bytes(image)
        _refuse(codes.INVALID_IMAGE, when=not data.startswith(_ELF))
        return (self._made("module", data),)

    @_answers(0)
    def cuModuleUnload(self, hmod: Handle) -> None:
        """Unload it; waits for what runs."""
        self._wait(self._context().work.busy_until_ns)
        self._destroy(hmod, "module")

    @_answers(1)
    def cuModuleGetFunction(self, hmod: Handle, name: bytes) -> tuple[Any, ...]:
        """Return a kernel of a module."""
        _check_type(name, bytes)
        image = self._of(hmod, "module")
        _refuse(codes.NOT_FOUND, when=name + b"\0" not in image)
        symbol = name.decode()
        for handle in self.handles:  # asked again, the driver returns the same one: its attributes are shared
            if handle.kind == "function" and handle.what.module is hmod and handle.what.symbol == symbol:
                return (handle,)
        kernel = self._context().work.kernels.get(symbol)
        usual_bytes = max(0, _USUAL_SHARED_BYTES - (kernel or FakeCudaKernel()).static_shared_bytes)
        return (self._made("function", FakeFunction(symbol, kernel, usual_bytes, hmod)),)

    @_answers(1)
    def cuFuncGetAttribute(self, attrib: IntEnum, hfunc: Handle) -> tuple[Any, ...]:
        """Return an attribute of a kernel."""
        _check_type(attrib, CUfunction_attribute)
        function, gpu = self._of(hfunc, "function"), self._context().work.gpu
        kernel = function.kernel or FakeCudaKernel()
        table = {
            CUfunction_attribute.CU_FUNC_ATTRIBUTE_NUM_REGS: kernel.registers,
            CUfunction_attribute.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: kernel.static_shared_bytes,
            CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: function.most_dynamic_bytes,
            CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: _most_threads(gpu, kernel),
        }
        return (table[CUfunction_attribute(attrib)],)

    @_answers(0)
    def cuFuncSetAttribute(self, hfunc: Handle, attrib: IntEnum, value: int) -> None:
        """Permit more dynamic shared memory than usual."""
        _check_type(attrib, CUfunction_attribute)
        function, gpu = self._of(hfunc, "function"), self._context().work.gpu
        static_bytes = (function.kernel or FakeCudaKernel()).static_shared_bytes
        _refuse(codes.INVALID_VALUE, when=value + static_bytes > gpu.shared_bytes_per_block)
        function.most_dynamic_bytes = value

    @_answers(2)
    def cuFuncGetParamInfo(self, func: Handle, paramIndex: int) -> tuple[Any, ...]:
        """Return where a parameter of a kernel lies and its size."""
        kernel = self._of(func, "function").kernel
        _refuse(codes.NOT_SUPPORTED, when=kernel is None)  # of a kernel that was not scripted nothing is known
        _refuse(codes.INVALID_VALUE, when=paramIndex >= len(kernel.sizes))
        return sum(kernel.sizes[:paramIndex]), kernel.sizes[paramIndex]

    @_answers(0)
    def cuLaunchKernel(
        self, f: Handle, gridDimX: int, gridDimY: int, gridDimZ: int, blockDimX: int, blockDimY: int, blockDimZ: int,
        sharedMemBytes: int, hStream: Handle, kernelParams: int, extra: int,
    ) -> None:  # fmt: skip
        """Launch; the arguments are read now, from an array of addresses."""
        function, stream = self._of(f, "function"), self._of(hStream, "stream")
        _refuse(codes.INVALID_HANDLE, when=f.context is not hStream.context)
        assert hStream.context is not None
        context: FakeContext = hStream.context.what
        gpu, kernel = context.work.gpu, function.kernel or FakeCudaKernel()
        grid, block = (gridDimX, gridDimY, gridDimZ), (blockDimX, blockDimY, blockDimZ)
        threads = blockDimX * blockDimY * blockDimZ
        outside = any(not 0 < size <= most for size, most in zip(grid, _MOST_GRID, strict=True))
        _refuse(codes.INVALID_VALUE, when=outside or not 0 < threads <= gpu.threads_per_block or extra != 0)
        _refuse(codes.INVALID_VALUE, when=sharedMemBytes > function.most_dynamic_bytes)
        _refuse(codes.LAUNCH_OUT_OF_RESOURCES, when=threads > _most_threads(gpu, kernel))
        pointers = (ctypes.c_uint64 * len(kernel.sizes)).from_address(kernelParams) if kernel.sizes else ()
        arguments = tuple(ctypes.string_at(at, size) for at, size in zip(pointers, kernel.sizes, strict=True))
        context.work.launch(
            kernel,
            FakeLaunch(
                symbol=function.symbol,
                grid=grid,
                block=block,
                shared_bytes=sharedMemBytes,
                arguments=arguments,
                priority=stream.priority,
                sm_count=context.sm_count,
                queued_ns=self.clock.now_ns(),
            ),
            stream,
        )

    # --- streams and events

    @_answers(1)
    def cuStreamCreateWithPriority(self, flags: int, priority: int) -> tuple[Any, ...]:
        """Make a stream; a priority outside the range is clamped, as documented."""
        low, high = self._context().work.gpu.priorities
        return (self._made("stream", FakeStream(max(high, min(low, priority)))),)

    @_answers(0)
    def cuStreamDestroy(self, hStream: Handle) -> None:
        """Destroy a stream; what is on it goes on."""
        self._destroy(hStream, "stream")

    @_answers(0)
    def cuStreamSynchronize(self, hStream: Handle) -> None:
        """Wait until a stream is empty."""
        self._wait(self._of(hStream, "stream").tail_ns)
        _refuse(self._context().work.failed, when=self._context().work.failed != 0)

    @_answers(0)
    def cuStreamWaitEvent(self, hStream: Handle, hEvent: Handle, Flags: int) -> None:
        """Have what comes next on a stream wait for an event as it is recorded now."""
        stream, event = self._of(hStream, "stream"), self._of(hEvent, "event")
        _refuse(codes.INVALID_VALUE, when=Flags != 0)
        stream.tail_ns = max(stream.tail_ns, event.at_ns or 0)

    @_answers(1)
    def cuEventCreate(self, Flags: int) -> tuple[Any, ...]:
        """Make an event, with timing alone."""
        _refuse(codes.INVALID_VALUE, when=Flags not in (0, 1))
        return (self._made("event", FakeEvent()),)

    @_answers(0)
    def cuEventDestroy(self, hEvent: Handle) -> None:
        """Destroy an event."""
        self._destroy(hEvent, "event")

    @_answers(0)
    def cuEventRecord(self, hEvent: Handle, hStream: Handle) -> None:
        """Record an event behind what is on a stream."""
        event, stream = self._of(hEvent, "event"), self._of(hStream, "stream")
        _refuse(codes.INVALID_HANDLE, when=hEvent.context is not hStream.context)
        event.at_ns = max(stream.tail_ns, self.clock.now_ns() + _EVENT_NS)

    @_answers(0)
    def cuEventQuery(self, hEvent: Handle) -> None:
        """Say whether an event is over; one that was never recorded is."""
        at_ns = self._of(hEvent, "event").at_ns
        _refuse(codes.NOT_READY, when=at_ns is not None and at_ns > self.clock.now_ns())

    @_answers(1)
    def cuEventElapsedTime(self, hStart: Handle, hEnd: Handle) -> tuple[Any, ...]:
        """Return the milliseconds between two events in single precision."""
        start_ns, end_ns = self._of(hStart, "event").at_ns, self._of(hEnd, "event").at_ns
        _refuse(codes.INVALID_HANDLE, when=start_ns is None or end_ns is None)
        _refuse(codes.NOT_READY, when=max(start_ns, end_ns) > self.clock.now_ns())
        return (ctypes.c_float((end_ns - start_ns) / 1e6).value,)

    # --- green contexts

    @_answers(1)
    def cuDeviceGetDevResource(self, device: Handle, typename: IntEnum) -> tuple[Any, ...]:
        """Return a device's multiprocessors."""
        _check_type(typename, CUdevResourceType)
        gpu = _of(device, "device").gpu
        _refuse(codes.NOT_SUPPORTED, when=not gpu.green)
        return (_multiprocessors(gpu.sm_count),)

    @_answers(3)
    def cuDevSmResourceSplitByCount(self, nbGroups: int, input_: Any, flags: int, minCount: int) -> tuple[Any, ...]:
        """Split multiprocessors into groups of a size that the GPU can do, at least as large as asked."""
        gpu = self._context().work.gpu
        size = -(-max(minCount, gpu.green_least) // gpu.green_step) * gpu.green_step
        groups = min(nbGroups, input_.sm.smCount // size)
        _refuse(codes.INVALID_RESOURCE_CONFIGURATION, when=not groups or flags != 0)
        return [_multiprocessors(size)] * groups, groups, _multiprocessors(input_.sm.smCount - groups * size)

    @_answers(1)
    def cuDevResourceGenerateDesc(self, resources: Sequence[Any], nbResources: int) -> tuple[Any, ...]:
        """Describe what a green context gets."""
        _refuse(codes.INVALID_VALUE, when=nbResources != len(resources))
        return (Handle("description", sum(each.sm.smCount for each in resources)),)

    @_answers(1)
    def cuGreenCtxCreate(self, desc: Handle, dev: Handle, flags: int) -> tuple[Any, ...]:
        """Make a green context."""
        _refuse(codes.INVALID_VALUE, when=flags != 1)
        return (self._made("green", FakeContext(_of(dev, "device"), desc.what)),)

    @_answers(1)
    def cuCtxFromGreenCtx(self, hCtx: Handle) -> tuple[Any, ...]:
        """Return it as a context that can be made current; it lives as long as the green one."""
        _refuse(codes.INVALID_CONTEXT, when=hCtx.kind != "green" or not hCtx.alive)
        return (Handle("context", hCtx.what),)

    @_answers(0)
    def cuGreenCtxDestroy(self, hCtx: Handle) -> None:
        """Destroy it; waits for what runs."""
        self._wait(hCtx.what.work.busy_until_ns)
        _refuse(codes.INVALID_CONTEXT, when=hCtx.kind != "green" or not hCtx.alive)
        hCtx.alive = False

    # --- how it works

    def _standing_code(self, name: str) -> int:
        """Let what is due happen; return the code with which every call is answered now."""
        if name in ("cuInit", "cuDriverGetVersion"):
            return 0
        if not self._state.initialised:
            return codes.NOT_INITIALIZED
        for work in self.works:
            work.catch_up(self.clock.now_ns())
        return next((work.failed for work in self.works if work.failed), 0)

    def _context(self) -> FakeContext:
        _refuse(codes.INVALID_CONTEXT, when=not self._state.current)
        found: FakeContext = self._state.current[-1].what
        return found

    def _made(self, kind: Kind, what: Any) -> Handle:
        handle = Handle(kind, what, self._state.current[-1] if self._state.current else None)
        self.handles.append(handle)
        return handle

    def _of(self, handle: Handle, kind: Kind) -> Any:
        self._context()
        return _of(handle, kind)

    def _destroy(self, handle: Handle, kind: Kind) -> None:
        _of(handle, kind)
        handle.alive = False

    def _memory(self, address: Any, size_bytes: int) -> Any:
        try:
            return self._context().work.memory.view(int(address), "uint8", size_bytes)
        except IllegalAddressError:
            raise _RefusedError(codes.INVALID_VALUE) from None

    def _moves(self, stream: Handle, target: Any, data: Any) -> None:
        def move() -> int:
            target[:] = data
            return 0

        self._context().work.put(self._of(stream, "stream"), self.clock.now_ns(), _MOVE_NS, move)

    def _wait(self, until_ns: int) -> None:
        if until_ns >= NEVER_NS:
            raise WouldWaitForeverError("a kernel on the GPU never ends")
        self.clock.advance_ns(max(0, until_ns - self.clock.now_ns()))
        for work in self.works:
            work.catch_up(self.clock.now_ns())


def _refuse(code: int, *, when: bool) -> None:
    if when:
        raise _RefusedError(code)


def _of(handle: Handle, kind: Kind) -> Any:
    """Return what a handle stands for; one that was destroyed is refused."""
    _check_type(handle, Handle)
    if handle.kind != kind or not handle.alive or (handle.context is not None and not handle.context.alive):
        raise _RefusedError(codes.INVALID_HANDLE)
    return handle.what


def _check_type(value: object, kind: type) -> None:
    """Refuse what cuda-bindings refuse before the driver sees it."""
    if not isinstance(value, kind):
        raise TypeError(f"expected {kind.__name__}, got {type(value).__name__}")


def _most_threads(gpu: FakeCudaGpu, kernel: FakeCudaKernel) -> int:
    return min(gpu.threads_per_block, gpu.registers_per_sm // max(kernel.registers, 1) // 32 * 32)


def _multiprocessors(count: int) -> Any:
    return SimpleNamespace(sm=SimpleNamespace(smCount=count))

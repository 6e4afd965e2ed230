"""The calls of the fake of CUDA's driver that work on a GPU: memory, modules and kernels, streams and events."""

# ruff: noqa: PLR0917  (names and signatures are those of cuda.bindings.driver)

import ctypes
import re
from enum import IntEnum
from typing import Any

from fakes.cuda_gpu import NEVER_NS, FakeCudaGpu, FakeCudaKernel, FakeEvent, FakeLaunch, FakeStream
from fakes.cuda_handles import CUfunction_attribute, FakeContext, FakeFunction, Handle, check_type, codes, refuse
from fakes.cuda_state import CudaState, answers

ELF = b"\x7fELF"
_PTX_HEAD_BYTES = 4096
_USUAL_SHARED_BYTES = 48 << 10
_MOST_GRID = (2**31 - 1, 65535, 65535)
"""CUDA C++ Programming Guide, technical specifications per compute capability."""
_EVENT_NS = 1000
"""From an event's record on an empty stream until it is over; invented."""


class CudaWork(CudaState):
    """The calls on memory, modules, kernels, streams and events."""

    # --- memory

    @answers(1)
    def cuMemAlloc(self, bytesize: int) -> tuple[Any, ...]:
        memory = self._context().work.memory
        refuse(codes.INVALID_VALUE, when=bytesize <= 0)
        address = memory.allocate(bytesize)
        refuse(codes.OUT_OF_MEMORY, when=address is None)
        return (self._made("memory", address),)

    @answers(0)
    def cuMemFree(self, dptr: Any) -> None:
        work = self._context().work
        self._wait(work.busy_until_ns)
        refuse(codes.INVALID_VALUE, when=not work.memory.free(int(dptr)))
        for handle in self.handles:
            if handle.kind == "memory" and int(handle) == int(dptr):
                handle.alive = False

    @answers(0)
    def cuMemcpyHtoD(self, dstDevice: Any, srcHost: int, ByteCount: int) -> None:
        self._memory(dstDevice, ByteCount)[:] = bytearray(ctypes.string_at(srcHost, ByteCount))

    @answers(0)
    def cuMemcpyHtoDAsync(self, dstDevice: Any, srcHost: bytes, ByteCount: int, hStream: Handle) -> None:
        target = self._memory(dstDevice, ByteCount)
        refuse(codes.INVALID_VALUE, when=len(memoryview(srcHost).cast("B")) < ByteCount)
        self._moves(hStream, target, bytearray(memoryview(srcHost).cast("B")[:ByteCount]))

    @answers(0)
    def cuMemcpyDtoHAsync(self, dstHost: bytearray, srcDevice: Any, ByteCount: int, hStream: Handle) -> None:
        source = self._memory(srcDevice, ByteCount)
        self._wait(self._of(hStream, "stream").tail_ns)
        memoryview(dstHost).cast("B")[:ByteCount] = source.tobytes()

    @answers(0)
    def cuMemsetD8Async(self, dstDevice: Any, uc: int, N: int, hStream: Handle) -> None:
        self._moves(hStream, self._memory(dstDevice, N), uc)

    @answers(0)
    def cuMemsetD32Async(self, dstDevice: Any, ui: int, N: int, hStream: Handle) -> None:
        refuse(codes.INVALID_VALUE, when=int(dstDevice) % 4 != 0)
        self._moves(hStream, self._memory(dstDevice, 4 * N).view("uint32"), ui)

    @answers(0)
    def cuMemsetD2D32Async(
        self, dstDevice: Any, dstPitch: int, ui: int, Width: int, Height: int, hStream: Handle
    ) -> None:
        refuse(codes.INVALID_VALUE, when=int(dstDevice) % 4 != 0 or dstPitch % 4 != 0 or Width * 4 > dstPitch)
        words = self._memory(dstDevice, (Height - 1) * dstPitch + 4 * Width).view("uint32")
        for row in range(Height):
            self._moves(hStream, words[row * dstPitch // 4 :][:Width], ui)

    # --- modules and kernels

    @answers(1)
    def cuModuleLoadData(self, image: bytes) -> tuple[Any, ...]:
        data = bytes(image)
        if b"\n.version " in data[:_PTX_HEAD_BYTES] and data.endswith(b"\0"):
            symbols = re.findall(rb"\.entry\s+([\w$]+)", data)
            return (self._made("module", b"".join(b"\0" + symbol for symbol in symbols) + b"\0"),)
        refuse(codes.INVALID_IMAGE, when=not data.startswith(ELF))
        return (self._made("module", data),)

    @answers(0)
    def cuModuleUnload(self, hmod: Handle) -> None:
        self._wait(self._context().work.busy_until_ns)
        self._destroy(hmod, "module")

    @answers(1)
    def cuModuleGetFunction(self, hmod: Handle, name: bytes) -> tuple[Any, ...]:
        check_type(name, bytes)
        image = self._of(hmod, "module")
        refuse(codes.NOT_FOUND, when=name + b"\0" not in image)
        symbol = name.decode()
        for handle in self.handles:  # asked again, the driver returns the same one: its attributes are shared
            if handle.kind == "function" and handle.what.module is hmod and handle.what.symbol == symbol:
                return (handle,)
        kernel = self._context().work.kernels.get(symbol)
        usual_bytes = max(0, _USUAL_SHARED_BYTES - (kernel or FakeCudaKernel()).static_shared_bytes)
        return (self._made("function", FakeFunction(symbol, kernel, usual_bytes, hmod)),)

    @answers(1)
    def cuFuncGetAttribute(self, attrib: IntEnum, hfunc: Handle) -> tuple[Any, ...]:
        check_type(attrib, CUfunction_attribute)
        function, gpu = self._of(hfunc, "function"), self._context().work.gpu
        kernel = function.kernel or FakeCudaKernel()
        table = {
            CUfunction_attribute.CU_FUNC_ATTRIBUTE_NUM_REGS: kernel.registers,
            CUfunction_attribute.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: kernel.static_shared_bytes,
            CUfunction_attribute.CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: 0,
            CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: function.most_dynamic_bytes,
            CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: _most_threads(gpu, kernel),
        }
        return (table[CUfunction_attribute(attrib)],)

    @answers(0)
    def cuFuncSetAttribute(self, hfunc: Handle, attrib: IntEnum, value: int) -> None:
        check_type(attrib, CUfunction_attribute)
        function, gpu = self._of(hfunc, "function"), self._context().work.gpu
        static_bytes = (function.kernel or FakeCudaKernel()).static_shared_bytes
        refuse(codes.INVALID_VALUE, when=value + static_bytes > gpu.shared_bytes_per_block)
        function.most_dynamic_bytes = value

    @answers(0)
    def cuLaunchKernel(
        self, f: Handle, gridDimX: int, gridDimY: int, gridDimZ: int, blockDimX: int, blockDimY: int, blockDimZ: int,
        sharedMemBytes: int, hStream: Handle, kernelParams: int, extra: int,
    ) -> None:  # fmt: skip
        function, stream = self._of(f, "function"), self._of(hStream, "stream")
        refuse(codes.INVALID_HANDLE, when=f.context is not hStream.context)
        assert hStream.context is not None
        context: FakeContext = hStream.context.what
        gpu, kernel = context.work.gpu, function.kernel or FakeCudaKernel()
        grid, block = (gridDimX, gridDimY, gridDimZ), (blockDimX, blockDimY, blockDimZ)
        threads = blockDimX * blockDimY * blockDimZ
        outside = any(not 0 < size <= most for size, most in zip(grid, _MOST_GRID, strict=True))
        refuse(codes.INVALID_VALUE, when=outside or not 0 < threads <= gpu.threads_per_block or extra != 0)
        refuse(codes.INVALID_VALUE, when=sharedMemBytes > function.most_dynamic_bytes)
        refuse(codes.LAUNCH_OUT_OF_RESOURCES, when=threads > _most_threads(gpu, kernel))
        pointers = (ctypes.c_uint64 * len(kernel.sizes)).from_address(kernelParams) if kernel.sizes else ()
        arguments = tuple(ctypes.string_at(at, size) for at, size in zip(pointers, kernel.sizes, strict=True))
        launch = FakeLaunch(
            symbol=function.symbol,
            grid=grid,
            block=block,
            shared_bytes=sharedMemBytes,
            arguments=arguments,
            priority=stream.priority,
            sm_count=stream.sm_count or context.sm_count,
            queued_ns=self.clock.now_ns(),
        )
        context.work.queue(stream, lambda: context.work.launch(kernel, launch, stream))

    # --- streams and events

    @answers(1)
    def cuStreamCreateWithPriority(self, flags: int, priority: int) -> tuple[Any, ...]:
        low, high = self._context().work.gpu.priorities
        return (self._made("stream", FakeStream(max(high, min(low, priority)))),)

    @answers(0)
    def cuStreamDestroy(self, hStream: Handle) -> None:
        self._destroy(hStream, "stream")

    @answers(0)
    def cuStreamSynchronize(self, hStream: Handle) -> None:
        self._wait(self._of(hStream, "stream").tail_ns)

    @answers(0)
    def cuStreamWaitEvent(self, hStream: Handle, hEvent: Handle, Flags: int) -> None:
        stream, event = self._of(hStream, "stream"), self._of(hEvent, "event")
        refuse(codes.INVALID_VALUE, when=Flags != 0)

        def wait() -> None:
            stream.tail_ns = max(stream.tail_ns, event.at_ns or 0)

        self._context().work.queue(stream, wait)

    @answers(0)
    def cuStreamWaitValue32(self, stream: Handle, addr: Any, value: int, flags: int) -> None:
        self._memory(addr, 4)
        line, work = self._of(stream, "stream"), self._context().work
        refuse(codes.INVALID_VALUE, when=flags != 0 or int(addr) % 4 != 0)
        work.queue(line, lambda: work.hold(line, int(addr), value))

    @answers(1)
    def cuEventCreate(self, Flags: int) -> tuple[Any, ...]:
        refuse(codes.INVALID_VALUE, when=Flags not in (0, 1))
        return (self._made("event", FakeEvent()),)

    @answers(0)
    def cuEventDestroy(self, hEvent: Handle) -> None:
        self._destroy(hEvent, "event")

    @answers(0)
    def cuEventRecord(self, hEvent: Handle, hStream: Handle) -> None:
        event, stream = self._of(hEvent, "event"), self._of(hStream, "stream")
        refuse(codes.INVALID_HANDLE, when=hEvent.context is not hStream.context)
        called_ns, event.at_ns = self.clock.now_ns(), NEVER_NS

        def record() -> None:
            event.at_ns = max(stream.tail_ns, called_ns + _EVENT_NS)

        self._context().work.queue(stream, record)

    @answers(0)
    def cuEventQuery(self, hEvent: Handle) -> None:
        at_ns = self._of(hEvent, "event").at_ns
        refuse(codes.NOT_READY, when=at_ns is not None and at_ns > self.clock.now_ns())

    @answers(1)
    def cuEventElapsedTime(self, hStart: Handle, hEnd: Handle) -> tuple[Any, ...]:
        start_ns, end_ns = self._of(hStart, "event").at_ns, self._of(hEnd, "event").at_ns
        refuse(codes.INVALID_HANDLE, when=start_ns is None or end_ns is None)
        refuse(codes.NOT_READY, when=max(start_ns, end_ns) > self.clock.now_ns())
        return (ctypes.c_float((end_ns - start_ns) / 1e6).value,)


def _most_threads(gpu: FakeCudaGpu, kernel: FakeCudaKernel) -> int:
    return min(gpu.threads_per_block, gpu.registers_per_sm // max(kernel.registers, 1) // 32 * 32)

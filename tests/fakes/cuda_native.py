"""The fake of CUDA's driver in C++ (``cuda_native.cpp``), behind the function names of ``cuda.bindings.driver``.

    with native_cuda({"scale": NativeKernel(block_ns=20_000)}) as cuda:
        driver, library = load_driver(cuda), cuda.libcuda          for Python, and for code that calls the library

Streams, events, graphs, launches and words of the host are those of the library, in real time; devices, contexts,
memory and modules those of ``cuda_driver.FakeCuda``. Both sides see the same streams.
"""

from __future__ import annotations

import ctypes
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from fakes.cuda_driver import FakeCuda
from fakes.cuda_gpu import FakeCudaGpu, FakeCudaKernel, FakeStream
from fakes.cuda_handles import CUresult, Handle, refuse
from fakes.cuda_state import answers

SOURCE = Path(__file__).with_suffix(".cpp")
_POINTER, _LOGGED_AT_ONCE = ctypes.c_void_p, 4096


class CUstreamCaptureMode(IntEnum):
    """How much else is forbidden during a capture, numbered as in ``cuda.h``."""

    CU_STREAM_CAPTURE_MODE_GLOBAL = 0
    CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1
    CU_STREAM_CAPTURE_MODE_RELAXED = 2


@dataclass(frozen=True, slots=True)
class NativeKernel:
    """The behaviour of a kernel.

    Args:
        sizes: Sizes of its parameters, bytes.
        block_ns: Time of a wave of blocks; below zero for a kernel that never ends.
        wave: Blocks that run at once.
        argument: Place of the argument that says which logical blocks are to run; ``None``: all of the grid.
        fails: Code of its failure.
    """

    sizes: tuple[int, ...] = ()
    block_ns: int = 1000
    wave: int = 1
    argument: int | None = None
    fails: int = 0


@dataclass(frozen=True, slots=True)
class NativeLaunch:
    """A kernel that ended: its symbol, times of the host's clock, logical blocks, physical ones, and priority."""

    symbol: str
    launched_ns: int
    started_ns: int
    ended_ns: int
    first: int
    count: int
    blocks: int
    priority: int


class _RealTime:
    """The host's clock, which nothing moves."""

    now_ns = staticmethod(time.monotonic_ns)

    def advance_ns(self, duration_ns: int) -> None:
        """Do nothing."""


class NativeCuda(FakeCuda):
    """Takes the place of the module ``cuda.bindings.driver``; see above. Unknown kernels take a microsecond a block."""

    CUstreamCaptureMode = CUstreamCaptureMode

    def __init__(self, kernels: Mapping[str, NativeKernel], gpu: FakeCudaGpu | None = None) -> None:
        known = {name: FakeCudaKernel(each.sizes) for name, each in kernels.items()}
        super().__init__([gpu or FakeCudaGpu()], _RealTime(), kernels=known)
        self.libcuda = ctypes.CDLL(str(_built()))
        self._symbols: list[str] = []
        self._at: dict[str, int] = {}
        self.libcuda.fake_function.restype = _POINTER
        self.libcuda.fake_open()
        for name, each in kernels.items():
            self._add(name, each)

    def _add(self, symbol: str, kernel: NativeKernel) -> None:
        argument, number = -1 if kernel.argument is None else kernel.argument, ctypes.c_int64(len(self._symbols))
        self._symbols.append(symbol)
        block_ns = ctypes.c_int64(kernel.block_ns)
        self._at[symbol] = self.libcuda.fake_function(number, block_ns, kernel.wave, argument, kernel.fails)

    def close(self) -> None:
        """Stop the thread of the GPU."""
        self.libcuda.fake_close()
        for address in self._at.values():
            self.libcuda.fake_free_function(_POINTER(address))

    def log(self) -> list[NativeLaunch]:
        """Return the kernels that have ended since the last time, in order."""
        found, to = [], (ctypes.c_int64 * 8 * _LOGGED_AT_ONCE)()
        while count := self.libcuda.fake_log(to, ctypes.c_size_t(_LOGGED_AT_ONCE)):
            found += [NativeLaunch(self._symbols[row[0]], *row[1:]) for row in to[:count]]
        return found

    def _native(self, function: str, *arguments: Any) -> None:
        given = [_POINTER(int(each)) if isinstance(each, Handle) else each for each in arguments]
        code = getattr(self.libcuda, function)(*given)
        refuse(code, when=code != 0)

    def _new(self, kind: Any, what: Any, function: str, *arguments: Any) -> tuple[Any, ...]:
        address = _POINTER()
        self._native(function, ctypes.byref(address), *arguments)
        made = NativeHandle(kind, what, self._state.current[-1], address=address.value or 0)
        self.handles.append(made)
        return (made,)

    # --- streams and events

    @answers(1)
    def cuStreamCreateWithPriority(self, flags: int, priority: int) -> tuple[Any, ...]:
        """Make a stream."""
        return self._new("stream", FakeStream(priority), "cuStreamCreateWithPriority", flags, priority)

    @answers(0)
    def cuStreamDestroy(self, hStream: Handle) -> None:
        """Destroy a stream that is empty."""
        self._destroy(hStream, "stream")
        self._native("cuStreamDestroy_v2", hStream)

    @answers(0)
    def cuStreamWaitEvent(self, hStream: Handle, hEvent: Handle, Flags: int) -> None:
        """Let later work of a stream wait for an event."""
        self._native("cuStreamWaitEvent", hStream, hEvent, Flags)

    @answers(1)
    def cuEventCreate(self, Flags: int) -> tuple[Any, ...]:
        """Make an event."""
        return self._new("event", None, "cuEventCreate", Flags)

    @answers(0)
    def cuEventDestroy(self, hEvent: Handle) -> None:
        """Destroy an event."""
        self._destroy(hEvent, "event")
        self._native("cuEventDestroy_v2", hEvent)

    @answers(0)
    def cuEventRecord(self, hEvent: Handle, hStream: Handle) -> None:
        """Record an event after the present work of a stream."""
        self._native("cuEventRecord", hEvent, hStream)

    def cuEventQuery(self, hEvent: Handle) -> tuple[Any, ...]:
        """Return whether an event is complete."""
        return (CUresult(self.libcuda.cuEventQuery(_POINTER(int(hEvent)))),)

    @answers(1)
    def cuEventElapsedTime(self, hStart: Handle, hEnd: Handle) -> tuple[Any, ...]:
        """Return the milliseconds between two events."""
        found = ctypes.c_float()
        self._native("cuEventElapsedTime", ctypes.byref(found), hStart, hEnd)
        return (found.value,)

    # --- kernels and graphs

    @answers(1)
    def cuModuleGetFunction(self, hmod: Handle, name: bytes) -> tuple[Any, ...]:
        """Return a kernel of a module."""
        code, found = super().cuModuleGetFunction(hmod, name)
        refuse(int(code), when=code != 0)
        if name.decode() not in self._at:
            self._add(name.decode(), NativeKernel())
        made = NativeHandle("function", found.what, found.context, address=self._at[name.decode()])
        return (made,)

    def cuLaunchKernel(self, function: Handle, *arguments: Any) -> tuple[Any, ...]:
        """Launch a kernel: the library copies its arguments."""
        *numbers, stream, packed, extra = arguments
        pointers = _POINTER(int(stream)), _POINTER(packed), _POINTER(extra)
        return (CUresult(self.libcuda.cuLaunchKernel(_POINTER(int(function)), *numbers, *pointers)),)

    @answers(0)
    def cuMemsetD32Async(self, dstDevice: int, ui: int, N: int, hStream: Handle) -> None:
        """Set words in the order of the stream."""
        self._native("cuMemsetD32Async", ctypes.c_uint64(dstDevice), ui, ctypes.c_size_t(N), hStream)

    @answers(0)
    def cuStreamWriteValue32(self, stream: Handle, addr: int, value: int, flags: int) -> None:
        """Write a word in the order of the stream."""
        self._native("cuStreamWriteValue32_v2", stream, ctypes.c_uint64(addr), value, flags)

    @answers(0)
    def cuStreamBeginCapture(self, hStream: Handle, mode: CUstreamCaptureMode) -> None:
        """Begin to capture a stream."""
        self._native("cuStreamBeginCapture_v2", hStream, int(mode))

    @answers(1)
    def cuStreamEndCapture(self, hStream: Handle) -> tuple[Any, ...]:
        """End the capture, and return the graph."""
        address = _POINTER()
        self._native("cuStreamEndCapture", hStream, ctypes.byref(address))
        made = NativeHandle("graph", None, hStream.context, address=address.value or 0)  # type: ignore[arg-type]
        self.handles.append(made)
        return (made,)

    @answers(1)
    def cuGraphInstantiate(self, hGraph: Handle, flags: int) -> tuple[Any, ...]:
        """Return a graph that can be launched."""
        return self._new("exec", None, "cuGraphInstantiateWithFlags", hGraph, ctypes.c_ulonglong(flags))

    @answers(0)
    def cuGraphLaunch(self, hGraphExec: Handle, hStream: Handle) -> None:
        """Launch a graph."""
        self._native("cuGraphLaunch", hGraphExec, hStream)

    @answers(0)
    def cuGraphDestroy(self, hGraph: Handle) -> None:
        """Destroy a graph; what was instantiated of it stays."""
        self._destroy(hGraph, "graph")  # type: ignore[arg-type]
        self._native("cuGraphDestroy", hGraph)

    @answers(0)
    def cuGraphExecDestroy(self, hGraphExec: Handle) -> None:
        """Destroy a graph that can be launched."""
        self._destroy(hGraphExec, "exec")  # type: ignore[arg-type]
        self._native("cuGraphExecDestroy", hGraphExec)

    # --- the host's words

    @answers(1)
    def cuCtxGetCurrent(self) -> tuple[Any, ...]:
        """Return the current context."""
        return (self._state.current[-1],)

    @answers(1)
    def cuMemHostAlloc(self, bytesize: int, Flags: int) -> tuple[Any, ...]:
        """Allocate memory of the host that the GPU can write."""
        (made,) = self._new("words", None, "cuMemHostAlloc", ctypes.c_size_t(bytesize), Flags)
        return (int(made),)

    @answers(1)
    def cuMemHostGetDevicePointer(self, p: int, Flags: int) -> tuple[Any, ...]:
        """Return the GPU's address of it."""
        address = ctypes.c_uint64()
        self._native("cuMemHostGetDevicePointer_v2", ctypes.byref(address), _POINTER(p), Flags)
        return (address.value,)

    @answers(0)
    def cuMemFreeHost(self, p: int) -> None:
        """Free memory of the host."""
        for handle in self.handles:
            if isinstance(handle, NativeHandle) and handle.address == p and handle.alive:
                handle.alive = False
        self._native("cuMemFreeHost", _POINTER(p))


@dataclass(slots=True, eq=False)
class NativeHandle(Handle):
    """A handle whose number is the library's."""

    address: int = 0

    def __int__(self) -> int:
        return self.address


@cache
def _built() -> Path:
    return compiled([SOURCE], "libcuda-fake.so", "-shared", "-fPIC")


def compiled(sources: Sequence[Path], name: str, *flags: str) -> Path:
    """Compile C++ of the tests, and return what was made."""
    made = Path(mkdtemp(prefix="edgetune-fake-")) / name
    command = ["g++", "-std=gnu++17", "-O2", "-g1", "-Wall", "-Wextra", "-Werror", "-pthread", *flags]
    subprocess.run([*command, *map(str, sources), "-o", str(made)], check=True)
    return made


@contextmanager
def native_cuda(kernels: Mapping[str, NativeKernel], gpu: FakeCudaGpu | None = None) -> Iterator[NativeCuda]:
    """Open a machine with one fake GPU."""
    cuda = NativeCuda(kernels, gpu)
    try:
        yield cuda
    finally:
        cuda.close()

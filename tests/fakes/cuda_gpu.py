"""The GPUs beneath the fake of CUDA's driver: memory in bytes, streams in order, kernels that are Python functions.

    stream 1   [k1      ][k2 ]          a kernel begins at the end of the previous kernel of its stream, and of the
    stream 2      [k3           ]       events that its stream waits for; kernels of different streams run in parallel,
                                        each as fast as alone: there is no contention

A test gives all times; none is that of hardware.
"""

from __future__ import annotations

import heapq
import itertools
from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

NEVER_NS = 1 << 62
ILLEGAL_ADDRESS = 700
_FIRST_ADDRESS = 0x7F00_0000_0000
_ALIGNMENT_BYTES = 256
"""Of what ``cuMemAlloc`` returns (CUDA C++ Programming Guide, device memory accesses)."""
_UNWRITTEN = 0xCD


class WouldWaitForeverError(Exception):
    """The real driver would never return from this call, which waits for a kernel without an end."""


class IllegalAddressError(Exception):
    """A kernel touched memory that was not allocated."""


@dataclass(slots=True)
class FakeCudaGpu:
    """One scripted GPU with made-up properties.

    Args:
        name, uuid: As CUDA returns them.
        capability: Compute capability.
        sm_count, threads_per_sm, blocks_per_sm, registers_per_sm, shared_bytes_per_sm: Limits of multiprocessors.
        threads_per_block, shared_bytes_per_block: Limits of blocks, the latter after an explicit request.
        clock_khz, memory_clock_khz, memory_bits: Clocks, and width of the memory.
        memory_bytes: Size of the memory.
        priorities: Lowest and highest priority of streams.
        start_ns: Time from a launch on an empty stream to its first block.
        green: Whether it supports green contexts.
        green_least, green_step: Smallest number of multiprocessors of a green context, and the step above it.
    """

    name: str = "Fake CUDA GPU (not hardware)"
    uuid: bytes = bytes(range(16))
    capability: tuple[int, int] = (8, 7)
    sm_count: int = 16
    threads_per_sm: int = 1536
    blocks_per_sm: int = 16
    registers_per_sm: int = 65536
    shared_bytes_per_sm: int = 164 << 10
    threads_per_block: int = 1024
    shared_bytes_per_block: int = 163 << 10
    clock_khz: int = 1_000_000
    memory_clock_khz: int = 3_000_000
    memory_bits: int = 256
    memory_bytes: int = 1 << 30
    priorities: tuple[int, int] = (0, -5)
    start_ns: int = 4000
    green: bool = True
    green_least: int = 4
    green_step: int = 2


@dataclass(frozen=True, slots=True)
class FakeLaunch:
    """One launch.

    Args:
        symbol: Symbol of the kernel.
        grid, block: Their dimensions.
        shared_bytes: Dynamic shared memory.
        arguments: Bytes of each argument, copied at the launch.
        priority: Priority of its stream.
        sm_count: Multiprocessors that its context may use.
        queued_ns, start_ns, end_ns: Times of the launch, its start and its end; ``NEVER_NS`` for no end.
    """

    symbol: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    arguments: tuple[bytes, ...]
    priority: int
    sm_count: int
    queued_ns: int
    start_ns: int = 0
    end_ns: int = 0


@dataclass(frozen=True, slots=True)
class FakeCudaKernel:
    """The behaviour of a kernel.

    Args:
        sizes: Sizes of its parameters, bytes.
        duration_ns: Its duration, by grid and arguments; ``None`` for a kernel that never ends.
        run: Does its work, called at its end.
        fails: Code of its failure, which every later call returns too.
        registers: Registers of a thread.
        static_shared_bytes: Static shared memory of a block.
    """

    sizes: tuple[int, ...] = ()
    duration_ns: int | Callable[[tuple[int, int, int], tuple[bytes, ...]], int | None] | None = 1000
    run: Callable[[FakeMemory, FakeLaunch], None] | None = None
    fails: int = 0
    registers: int = 32
    static_shared_bytes: int = 0

    def lasts_ns(self, grid: tuple[int, int, int], arguments: tuple[bytes, ...]) -> int | None:
        return self.duration_ns(grid, arguments) if callable(self.duration_ns) else self.duration_ns


class FakeMemory:
    """Device memory: allocations of bytes, with gaps between them.

    Args:
        size_bytes: Size of the memory.
    """

    def __init__(self, size_bytes: int) -> None:
        self._size_bytes = size_bytes
        self._parts: dict[int, np.ndarray[Any, np.dtype[np.uint8]]] = {}
        self._bases: list[int] = []
        self._next = _FIRST_ADDRESS

    @property
    def used_bytes(self) -> int:
        return sum(part.size for part in self._parts.values())

    def allocations(self) -> list[tuple[int, int]]:
        return [(base, part.size) for base, part in self._parts.items()]

    def allocate(self, size_bytes: int) -> int | None:
        if size_bytes + self.used_bytes > self._size_bytes:
            return None
        address = self._next
        self._next += (size_bytes // _ALIGNMENT_BYTES + 2) * _ALIGNMENT_BYTES
        self._parts[address] = np.full(size_bytes, _UNWRITTEN, np.uint8)
        self._bases.append(address)
        return address

    def free(self, address: int) -> bool:
        """Free an allocation; return false for an address without one."""
        if self._parts.pop(address, None) is None:
            return False
        self._bases.remove(address)
        return True

    def view(self, address: int, dtype: Any, count: int) -> np.ndarray[Any, np.dtype[Any]]:
        """Return memory as an array that can be read and written.

        Raises:
            IllegalAddressError: a part of it is not allocated.
        """
        size_bytes = np.dtype(dtype).itemsize * count
        place = bisect_right(self._bases, address) - 1
        base = self._bases[place] if place >= 0 else 0
        if place < 0 or address - base + size_bytes > self._parts[base].size:
            raise IllegalAddressError(f"{size_bytes} bytes at {address:#x}")
        return self._parts[base][address - base : address - base + size_bytes].view(dtype)


@dataclass(slots=True)
class FakeStream:
    """A stream and the time at which its last work ends; what is queued behind a wait for a value is held back.

    Kernels of a stream of a green context use only ``sm_count`` multiprocessors.
    """

    priority: int
    tail_ns: int = 0
    held: deque[Callable[[], None]] | None = None
    sm_count: int | None = None


@dataclass(slots=True)
class FakeEvent:
    """An event and the time for which it was recorded; ``None`` before its first recording."""

    at_ns: int | None = None


@dataclass(slots=True)
class FakeWork:
    """The work of one GPU.

    Args:
        gpu: Its limits.
        memory: Its memory.
        kernels: Kernels by symbol; an unknown one takes a microsecond and does nothing.
        launches: All launches so far, in order.
    """

    gpu: FakeCudaGpu
    memory: FakeMemory
    kernels: dict[str, FakeCudaKernel]
    launches: list[FakeLaunch] = field(default_factory=list)
    _pending: list[tuple[int, int, Callable[[], int]]] = field(default_factory=list)
    _numbers: Any = field(default_factory=itertools.count)
    failed: int = 0
    """The code with which everything fails from now on."""
    busy_until_ns: int = 0
    _holds: list[tuple[FakeStream, int, int]] = field(default_factory=list)
    """Streams that wait for a value: the address of a word, and what it has to be at least."""

    def queue(self, stream: FakeStream, action: Callable[[], None]) -> None:
        """Do what puts work on a stream now, or once nothing before it is waited for."""
        if stream.held is None:
            action()
        else:
            stream.held.append(action)

    def hold(self, stream: FakeStream, address: int, least: int) -> None:
        stream.held = deque()
        self._holds.append((stream, address, least))

    def _release(self, now_ns: int) -> None:
        for each in list(self._holds):
            stream, address, least = each
            if stream.tail_ns <= now_ns and int(self.memory.view(address, np.uint32, 1)[0]) >= least:
                self._holds.remove(each)
                stream.tail_ns = max(stream.tail_ns, now_ns)
                held, stream.held = stream.held or deque(), None
                while held and stream.held is None:
                    held.popleft()()
                if stream.held is not None:
                    stream.held.extend(held)

    def launch(self, kernel: FakeCudaKernel, launch: FakeLaunch, stream: FakeStream) -> None:
        lasts_ns = kernel.lasts_ns(launch.grid, launch.arguments)
        start_ns = max(launch.queued_ns + self.gpu.start_ns, stream.tail_ns)
        end_ns = NEVER_NS if lasts_ns is None or start_ns >= NEVER_NS else start_ns + lasts_ns
        timed = replace(launch, start_ns=start_ns, end_ns=end_ns)
        self.launches.append(timed)

        def end() -> int:
            if kernel.fails or kernel.run is None:
                return kernel.fails
            try:
                kernel.run(self.memory, timed)
            except IllegalAddressError:
                return ILLEGAL_ADDRESS
            return 0

        self._put(stream, end_ns, end)

    def put(self, stream: FakeStream, now_ns: int, lasts_ns: int, end: Callable[[], int]) -> None:
        """Queue other work on a stream.

        Args:
            stream: The stream.
            now_ns: The present time.
            lasts_ns: Duration of the work.
            end: Does the work, called at its end; returns the code of its failure, or 0.
        """
        self._put(stream, min(NEVER_NS, max(now_ns, stream.tail_ns) + lasts_ns), end)

    def catch_up(self, now_ns: int) -> None:
        """Complete all work that ends until now; after a failed kernel, none."""
        while not self.failed:
            while not self.failed and self._pending and self._pending[0][0] <= now_ns:
                at_ns, _, end = heapq.heappop(self._pending)
                self.failed = end()
                self._release(at_ns)
            self._release(now_ns)
            if not self._pending or self._pending[0][0] > now_ns:
                break

    def _put(self, stream: FakeStream, end_ns: int, end: Callable[[], int]) -> None:
        stream.tail_ns = end_ns
        self.busy_until_ns = max(self.busy_until_ns, end_ns)
        heapq.heappush(self._pending, (end_ns, next(self._numbers), end))

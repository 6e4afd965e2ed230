"""CUDA on one GPU for one run.

    with open_context(driver, 0) as context:        cuDevicePrimaryCtxRetain, cuCtxPushCurrent
        context.allocate(...) context.stream(...)   noted as they are made
                                                    freed, the last first; the primary context is released

A context belongs to the thread that opened it; ``building`` has it use a part of the GPU. Source: CUDA Driver API.

    pointers  [ . ][ . ][ . ][ . ]           arguments of a launch as ``cuLaunchKernel`` reads them, packed once
                |    |    |    +--> {grid, block, first, count}     only these two numbers change from shard to shard
                |    |    +-------> 7
                |    +------------> address of a buffer
                +-----------------> address of a buffer
"""

import math
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from edgetune.errors import DeviceError
from edgetune.stages.elastic import kernel
from edgetune.stages.elastic.gpu import Gpu, Logical
from edgetune.units import NS
from edgetune.workloads.cuda_driver import NON_BLOCKING, Driver, KernelFailedError

WITHOUT = "`edgetune schedule kernels simulate`, and `bench` without --device, need no GPU"
HANG_S = 30.0
"""A kernel that takes longer counts as hanging: kernels of edge networks take milliseconds."""
_SPIN_NS, _NAP_S = 2_000_000, 0.0001

CORES_PER_SM = {(6, 0): 64, (7, 0): 64, (7, 2): 64, (7, 5): 64, (8, 0): 64}
"""Single-precision multiply-adds per clock of a multiprocessor, where it is not ``MOST_CORES`` (CUDA C++ Programming
Guide, table of arithmetic throughput)."""
MOST_CORES = 128


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """The facts that CUDA reports of a GPU and its software.

    Args:
        index: Its number, as in ``nvidia:0``.
        uuid: As nvidia-smi prints it.
        driver: The CUDA version that the driver offers, e.g. ``12.6``; the driver's own version is NVML's.
        gpu: Its limits. Peaks are computed from clocks and widths, not measured.
    """

    index: int
    uuid: str
    driver: str
    gpu: Gpu


class Context:
    """A current context, and everything that was made in it.

    Args:
        driver: The driver.
        facts: Of the GPU; its multiprocessors are those that this context may use.
        now_ns, sleep_s: The clock of everything in it.
    """

    def __init__(
        self, driver: Driver, facts: GpuFacts, now_ns: Callable[[], int], sleep_s: Callable[[float], object]
    ) -> None:
        self.driver, self.facts = driver, facts
        self.now_ns, self.sleep_s = now_ns, sleep_s
        self.hung = False
        """Whether a kernel hangs: then nothing is freed, as freeing would wait for it."""
        self.part: Any = None
        """The green context of streams that are given no other; ``None`` for the whole GPU."""
        self._made: list[tuple[Any, ...]] = []

    def allocate(self, size_bytes: int) -> int:
        """Return the address of device memory, aligned to 256 bytes; at least one byte is allocated.

        Raises:
            DeviceError: memory is short.
        """
        try:
            address = self.driver.call("cuMemAlloc", max(size_bytes, 1))
        except DeviceError as error:
            raise DeviceError(f"{size_bytes / (1 << 20):.1f} MiB of GPU memory: {error.message}", error.hint) from None
        return int(self.noted("cuMemFree", address))

    def upload(self, address: int, data: bytes) -> None:
        """Copy bytes to the GPU; they are there on return."""
        self._moved("cuMemcpyHtoDAsync", address, data, len(data))

    def download(self, address: int, size_bytes: int) -> bytes:
        """Return bytes of the GPU's memory; does not wait for other streams."""
        found = bytearray(size_bytes)
        self._moved("cuMemcpyDtoHAsync", found, address, size_bytes)
        return bytes(found)

    def fill(self, address: int, byte: int, size_bytes: int) -> None:
        """Set bytes of the GPU's memory; they are set on return."""
        self._moved("cuMemsetD8Async", address, byte, size_bytes)

    def _moved(self, function: str, to: Any, what: Any, size_bytes: int) -> None:
        """Copy bytes on a stream and wait for it.

        Functions without a stream return before bytes are set, and may before they are copied, and non-blocking streams
        would not wait for them (CUDA Driver API, API synchronization behavior).
        """
        if not size_bytes:
            return
        with self.scope():
            stream = self.stream()
            self.driver.call(function, to, what, size_bytes, stream)
            self.synchronise(stream)

    def stream(self, priority: int = 0, part: Any = None) -> Any:
        """Return a stream that waits for no other; a lower number is a higher priority.

        Args:
            priority: Its priority.
            part: A green context, on whose multiprocessors alone its kernels run; see ``building.part_of``.
        """
        part = part or self.part
        if part is None:
            made = self.driver.call("cuStreamCreateWithPriority", NON_BLOCKING, priority)
        else:
            made = self.driver.call("cuGreenCtxStreamCreate", part, NON_BLOCKING, priority)
        return self.noted("cuStreamDestroy", made)

    def priorities(self) -> tuple[int, int]:
        """Return the lowest and the highest priority of streams, e.g. 0 and -5."""
        lowest, highest = self.driver.call("cuCtxGetStreamPriorityRange")
        return int(lowest), int(highest)

    def event(self) -> Any:
        """Return an event that keeps the time."""
        return self.noted("cuEventDestroy", self.driver.call("cuEventCreate", 0))

    def load(self, image: bytes) -> Any:
        """Load PTX or machine code and return the module."""
        return self.noted("cuModuleUnload", self.driver.call("cuModuleLoadData", image))

    def function(self, module: Any, symbol: str, dynamic_shared_bytes: int = 0) -> Any:
        """Return a kernel of a module, permitted to be launched with so much dynamic shared memory."""
        function = self.driver.call("cuModuleGetFunction", module, symbol.encode())
        if dynamic_shared_bytes:  # what is usual is 48 KiB less what the kernel declares (CUDA Driver API, attributes)
            most = self.driver.api.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            if dynamic_shared_bytes > self.driver.call("cuFuncGetAttribute", most, function):  # calls may need more
                self.driver.call("cuFuncSetAttribute", function, most, dynamic_shared_bytes)
        return function

    def synchronise(self, stream: Any, hang_s: float = HANG_S) -> None:
        """Wait until a stream is empty.

        Raises:
            KernelFailedError: a kernel failed, or does not end.
        """
        with self.scope():
            event = self.event()
            self.driver.call("cuEventRecord", event, stream)
            self.await_event(event, hang_s)

    def await_event(self, event: Any, hang_s: float = HANG_S) -> None:
        """Wait until an event is over, by queries: a call that waits would not return from a kernel that hangs.

        Raises:
            KernelFailedError: a kernel failed, or does not end.
        """
        begin_ns = self.now_ns()
        while not self.driver.is_over(event):
            waited_ns = self.now_ns() - begin_ns
            if waited_ns > hang_s * NS:
                raise self.hangs(f"a kernel has not ended for {hang_s:g} s")
            if waited_ns > _SPIN_NS:
                self.sleep_s(_NAP_S)

    def hangs(self, message: str) -> KernelFailedError:
        """Return the error for a kernel that does not end; from now on nothing is freed."""
        self.hung = True
        return KernelFailedError(message, "CUDA cannot stop a kernel, only the end of the process can: check its loops")

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Free at the end of the block what was made in it, the last first.

        After a failed kernel CUDA refuses to, and has nothing left to free; beside one that hangs it would wait.
        """
        before = len(self._made)
        try:
            yield
        except (KeyboardInterrupt, SystemExit):  # the process ends: freeing would wait for a kernel that may hang
            self.hung = True
            raise
        finally:
            while len(self._made) > before and not self.hung:
                function, *handles = self._made.pop()
                with suppress(DeviceError):
                    self.driver.call(function, *handles)

    def noted(self, function: str, *handle: Any) -> Any:
        """Return a handle, to which this function is applied at the end of the scope."""
        self._made.append((function, *handle))
        return handle[0] if handle else None


@contextmanager
def open_context(
    driver: Driver,
    index: int,
    *,
    now_ns: Callable[[], int] = time.monotonic_ns,
    sleep_s: Callable[[float], object] = time.sleep,
) -> Iterator[Context]:
    """Make a GPU's primary context current while the block runs.

    Args:
        driver: The driver.
        index: Number of the GPU.
        now_ns, sleep_s: The clock of everything that runs on it.

    Raises:
        DeviceError: there is no such GPU, or CUDA cannot use it.
    """
    device = driver.call("cuDeviceGet", index)
    context = Context(driver, read_facts(driver, device, index), now_ns, sleep_s)
    with context.scope():
        handle = driver.call("cuDevicePrimaryCtxRetain", device)
        context.noted("cuDevicePrimaryCtxRelease", device)
        driver.call("cuCtxPushCurrent", handle)
        context.noted("cuCtxPopCurrent")
        yield context


def read_facts(driver: Driver, device: Any, index: int) -> GpuFacts:
    """Return the facts that CUDA reports of a GPU; needs no context."""
    attributes = driver.api.CUdevice_attribute

    def read(name: str) -> int:
        return int(driver.call("cuDeviceGetAttribute", getattr(attributes, f"CU_DEVICE_ATTRIBUTE_{name}"), device))

    capability = read("COMPUTE_CAPABILITY_MAJOR"), read("COMPUTE_CAPABILITY_MINOR")
    sm_count = read("MULTIPROCESSOR_COUNT")
    cores = CORES_PER_SM.get(capability, MOST_CORES)
    version = int(driver.call("cuDriverGetVersion"))  # 1000 x major + 10 x minor
    gpu = Gpu(
        name=driver.name_of(device),
        sm_count=sm_count,
        compute_capability="{}.{}".format(*capability),
        threads_per_sm=read("MAX_THREADS_PER_MULTIPROCESSOR"),
        blocks_per_sm=read("MAX_BLOCKS_PER_MULTIPROCESSOR"),
        threads_per_block=read("MAX_THREADS_PER_BLOCK"),
        registers_per_sm=read("MAX_REGISTERS_PER_MULTIPROCESSOR"),
        shared_bytes_per_sm=read("MAX_SHARED_MEMORY_PER_MULTIPROCESSOR"),
        shared_bytes_per_block=read("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
        flop_per_s=2.0 * cores * sm_count * read("CLOCK_RATE") * 1e3,
        bandwidth_bytes_per_s=2.0 * read("MEMORY_CLOCK_RATE") * 1e3 * read("GLOBAL_MEMORY_BUS_WIDTH") / 8,
        launch_s=math.nan,  # which a session measures
        source=f"CUDA device attributes, driver for CUDA {version // 1000}.{version % 1000 // 10}",
    )
    identifier = uuid.UUID(bytes=bytes(driver.call("cuDeviceGetUuid", device).bytes))
    return GpuFacts(index, f"GPU-{identifier}", f"{version // 1000}.{version % 1000 // 10}", gpu)


_ALIGNED_BYTES = 16
"""No parameter needs more (CUDA C++ Programming Guide, built-in vector types)."""
_WORD_BYTES = 4
_ADDRESS_BYTES = 8


class Packed:
    """Arguments of one form of one call.

    Args:
        values: The bytes of its own arguments.
        logical: Of an elastic form, which takes its part of it; ``None`` of the original.
        control: The address of the control words of a persistent form.
        recorded: Whether it takes the address of block records behind everything else.
    """

    def __init__(
        self, values: Sequence[bytes], logical: Logical | None, *, control: int | None = None, recorded: bool = False
    ) -> None:
        whole = list(values)
        if logical is not None:
            whole.append(kernel.packed(logical.grid, logical.block, 0, 0))
        if control is not None:
            whole.append(control.to_bytes(_ADDRESS_BYTES, "little"))
        if recorded:
            whole.append(bytes(_ADDRESS_BYTES))
        aligned = [value + bytes(-len(value) % _ALIGNED_BYTES) for value in whole]
        offsets = [0, *accumulate(map(len, aligned))]
        self._bytes = np.frombuffer(b"".join(aligned), np.uint8).copy()
        self._pointers = np.array([self._bytes.ctypes.data + offset for offset in offsets[:-1]], np.uint64)
        self.address = int(self._pointers.ctypes.data)
        """The address of the arguments for ``cuLaunchKernel``."""
        part = offsets[len(values)]
        self._part = None if logical is None else self._bytes[part : part + kernel.SIZE_BYTES].view(np.uint32)
        self._records = self._bytes[offsets[-2] : offsets[-1]].view(np.uint64)[:1] if recorded else None

    def place(self, first: int, count: int, records: int) -> None:
        """Set the logical blocks, of which the original takes all, and the address of block records, 0 for none."""
        if self._part is not None:
            self._part[kernel.FIRST_OFFSET_BYTES // _WORD_BYTES] = first
            self._part[kernel.COUNT_OFFSET_BYTES // _WORD_BYTES] = count
        if self._records is not None:
            self._records[0] = records

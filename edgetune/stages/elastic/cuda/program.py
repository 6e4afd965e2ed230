"""A network on the GPU: its kernels loaded, its buffers allocated and filled, its arguments packed.

network --building--> PTX --cuModuleLoadData--> functions
buffers --cuMemAlloc--> addresses --packed once--> arguments of every form of every call
Launch --two numbers rewritten--> cuLaunchKernel

The control words of persistent forms on a GPU: counters of logical blocks, and the quota of physical ones.

    stream of the task   [next = done = 0][kernel, 64 blocks   ][wait until done is 196]           [next kernel ...
    stream of the words                       [quota = 3]          [quota = 64]
    more blocks                                                    [kernel, 61 blocks    ]

The words are in device memory, as every block reads the quota before each logical block. The host changes the quota by
a stream of its own of the highest priority, which waits for no kernel. What is launched behind a persistent kernel
waits for the GPU's own count of its blocks, not for the host: by then all are done, whoever has done them. Blocks that
are brought too early or too late find nothing left in the counter.
"""

import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from edgetune.errors import DeviceError, EdgetuneError, InputError, blaming
from edgetune.stages.elastic.cuda.building import Build, fitting
from edgetune.stages.elastic.cuda.context import Context, Packed
from edgetune.stages.elastic.gpu import Call, KernelSequence, Pointer
from edgetune.stages.elastic.kernel import (
    CONTROL_BYTES,
    DONE_OFFSET_BYTES,
    NO_QUOTA,
    PERSISTENT,
    QUOTA_OFFSET_BYTES,
    Dim,
    symbol_of,
)
from edgetune.stages.elastic.view import Launch

_STRIDE_BYTES = 16
_AT_LEAST = 0
"""``CU_STREAM_WAIT_VALUE_GEQ``."""


class ControlWords:
    """Control words of each call of a network, and one quota for all.

    Args:
        context: The GPU.
        blocks: Logical blocks of each call.

    Raises:
        DeviceError: memory is short, or streams of this GPU cannot wait for a word (stream memory operations).
    """

    def __init__(self, context: Context, blocks: Sequence[int]) -> None:
        assert CONTROL_BYTES <= _STRIDE_BYTES
        self._driver, self._blocks = context.driver, blocks
        self._base = context.allocate(_STRIDE_BYTES * len(blocks))
        _, highest = context.priorities()
        self._stream = context.stream(highest)
        for call, count in enumerate(blocks):  # nothing is left before the first request
            self.begin(call, count, self._stream)
            self.await_done(call, self._stream)
        self.set_quota(NO_QUOTA)
        context.synchronise(self._stream)

    def address(self, call: int) -> int:
        """Return the address of a call's words: the parameter of its persistent form."""
        return self._base + call * _STRIDE_BYTES

    def set_quota(self, quota: int) -> None:
        """Let physical blocks with ranks below ``quota`` go on, and the others leave; returns at once."""
        first = self._base + QUOTA_OFFSET_BYTES
        self._driver.call("cuMemsetD2D32Async", first, _STRIDE_BYTES, quota, 1, len(self._blocks), self._stream)

    def begin(self, call: int, first: int, stream: Any) -> None:
        """Let blocks take the logical blocks of a call, from ``first`` on, once a stream has come so far."""
        self._driver.call("cuMemsetD32Async", self.address(call), first, 2, stream)

    def await_done(self, call: int, stream: Any) -> None:
        """Let a stream wait until all logical blocks of a call are done."""
        address = self.address(call) + DONE_OFFSET_BYTES
        self._driver.call("cuStreamWaitValue32", stream, address, self._blocks[call], _AT_LEAST)


_UNWRITTEN = 0xFF
"""Fill of scratch and outputs: as floating point, not a number."""


@dataclass(frozen=True, slots=True)
class _Ready:
    """A form of a call, ready to be launched.

    Args:
        function: Of the module.
        block: Physical block.
        shared_bytes: Dynamic shared memory.
        turns: Its arguments, twice and in turns: those of the launch before stay as they are until the next but one.
            The reference says that arguments are copied from these addresses, not when.
    """

    function: Any
    block: Dim
    shared_bytes: int
    turns: Iterator[Packed]


class Program:
    """A network that can be launched, with buffers of its own.

    Args:
        context: The GPU.
        network: The network.
        built: Its kernels.

    Raises:
        InputError: a kernel is missing, its arguments do not suit it, or a launch does not fit the GPU.
        DeviceError: memory is short, or the GPU cannot load the kernels.
    """

    def __init__(self, context: Context, network: KernelSequence, built: Build) -> None:
        self.network = network
        self._context, self._built = context, built
        self._buffers = {each.name: each for each in network.buffers}
        self._sizes_bytes = {
            name: math.prod(each.shape) * np.dtype(each.dtype).itemsize for name, each in self._buffers.items()
        }
        self._addresses = {name: context.allocate(size_bytes) for name, size_bytes in self._sizes_bytes.items()}
        for name in self._addresses:
            self.clear(name)
        module = context.load(built.image)
        persistent = any(PERSISTENT in each for each in built.forms.values())
        blocks = [call.logical.blocks for call in network.calls]
        self.control = ControlWords(context, blocks) if persistent else None
        """Control words of persistent forms; ``None`` where no kernel has one."""
        self._calls = [self._ready(module, place, call) for place, call in enumerate(network.calls)]

    def write(self, values: Mapping[str, npt.NDArray[Any]]) -> None:
        """Fill buffers, with arrays of their shapes and types."""
        for name, value in values.items():
            self._context.upload(self._addresses[name], np.ascontiguousarray(value).tobytes())

    def read(self, name: str) -> npt.NDArray[Any]:
        """Return a buffer; every launch has to be over."""
        buffer = self._buffers[name]
        data = self._context.download(self._addresses[name], self._sizes_bytes[name])
        return np.frombuffer(data, buffer.dtype).reshape(buffer.shape)

    def clear(self, name: str) -> None:
        """Fill a buffer as if it had never been written."""
        self._context.fill(self._addresses[name], _UNWRITTEN, self._sizes_bytes[name])

    def forms(self, call: int) -> Collection[int | None]:
        """Return the forms of a call by logical threads in a physical one, as ``Build``'s: those that fit the GPU."""
        return self._calls[call].keys()

    def launch(self, launch: Launch, stream: Any, records: int = 0) -> None:
        """Put a launch on a stream and return at once.

        Args:
            launch: Of one of the network's calls.
            stream: The stream.
            records: Address of its block records; 0 for none.

        Raises:
            EdgetuneError: its kernel has no such form.
            DeviceError: CUDA refuses it.
        """
        key = None if launch.blocks is None else PERSISTENT if launch.persistent else launch.per_thread
        ready = self._calls[launch.call].get(key)
        if ready is None:
            message = f"kernel {launch.what.kernel} has no form {symbol_of(launch.what.kernel, key)} on this GPU"
            raise EdgetuneError(message, "the policy is at fault: choose another")
        grid = launch.what.logical.grid if launch.blocks is None else (launch.blocks, 1, 1)
        if not launch.persistent or self.control is None:
            self._put(ready, (launch.first, launch.count), grid, stream, records)
            return
        self.control.begin(launch.call, launch.first, stream)
        self._put(ready, (0, launch.what.logical.blocks), grid, stream, records)
        self.control.await_done(launch.call, stream)

    def bring_back(self, launch: Launch, rank: int, stream: Any) -> None:
        """Launch the blocks of a persistent launch from a rank on once more, for those that have left.

        Args:
            launch: In flight.
            rank: The old quota.
            stream: A stream that does not wait for the launch.

        Raises:
            DeviceError: CUDA refuses it.
        """
        ready = self._calls[launch.call][PERSISTENT]
        self._put(ready, (rank, launch.what.logical.blocks), (launch.physical_blocks - rank, 1, 1), stream)

    def _put(self, ready: _Ready, part: tuple[int, int], grid: Dim, stream: Any, records: int = 0) -> None:
        packed = next(ready.turns)
        packed.place(*part, records)
        self._context.driver.call(
            "cuLaunchKernel", ready.function, *grid, *ready.block, ready.shared_bytes, stream, packed.address, 0
        )

    def warm_up(self, stream: Any) -> None:
        """Run every form once, so that none is loaded during a run: originals in order, others with no blocks.

        CUDA loads kernels when they are first launched, and may wait for the GPU to do so (CUDA C++ Programming Guide,
        lazy loading).

        Raises:
            DeviceError: a kernel cannot be launched, or fails.
        """
        for place, call in enumerate(self.network.calls):
            whole = call.logical.blocks
            for key in self._calls[place]:
                first, count = (0, whole) if key is None else (whole if key == PERSISTENT else 0, 0)
                shape = key or 1, None if key is None else 1
                launch = Launch(0, "", 0, place, call, first, count, *shape, persistent=key == PERSISTENT)
                try:
                    self.launch(launch, stream)
                except DeviceError as error:
                    raise type(error)(f"kernel {symbol_of(call.kernel, key)}: {error.message}", error.hint) from None
        self._context.synchronise(stream)

    def _ready(self, module: Any, place: int, call: Call) -> dict[int | None, _Ready]:
        """Return the forms of a call by logical threads in a physical one; ``None`` is the original.

        ``PERSISTENT`` is the form of one logical thread that takes from the counter.
        """
        with blaming(f"network {self.network.name}"):
            there = fitting(call, self._built, self._context.facts.gpu)
        values = [
            self._addresses[each.buffer].to_bytes(8, "little") if isinstance(each, Pointer) else each.value
            for each in call.arguments
        ]
        given_bytes = [len(each) for each in values]
        kernel = self._built.kernels.get(call.kernel)
        takes_bytes = given_bytes if kernel is None else [each.size_bytes for each in kernel.parameters]
        if takes_bytes != given_bytes:
            message = f"kernel {call.kernel} takes arguments of {takes_bytes} bytes, and is given {given_bytes}"
            raise InputError(message, f"check the arguments of {call.kernel} in network {self.network.name}")
        logical, found = call.logical, dict[int | None, _Ready]()
        for key in there:
            block = logical.block if (key or 1) == 1 else (logical.threads // (key or 1), 1, 1)
            function = self._context.function(module, symbol_of(call.kernel, key), logical.dynamic_shared_bytes)
            control = self.control.address(place) if self.control is not None and key == PERSISTENT else None
            part = None if key is None else logical
            turns = [Packed(values, part, control=control, recorded=self._built.recorded) for _ in range(2)]
            found[key] = _Ready(function, block, logical.dynamic_shared_bytes, itertools.cycle(turns))
        return found

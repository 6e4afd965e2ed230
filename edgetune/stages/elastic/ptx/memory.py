"""The memory of kernels that run in the interpreter: one array of bytes, whose indices are the addresses.

    | nothing | variables of the module | buffers | parameters | other copies | shared of blocks | local of threads |

Sequences of launches that run side by side have a copy of the memory each; in all of them addresses are those of the
first. Addresses of shared and local memory count from the start of the window of a block or thread, generic ones
through all of the array. Between buffers there are gaps that no access may touch.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from edgetune.errors import InputError
from edgetune.stages.elastic.gpu import Pointer
from edgetune.stages.elastic.ptx.formats import Array
from edgetune.stages.elastic.ptx.parse import Entry, Module, Variable
from edgetune.stages.elastic.sample_launches import Buffers, CpuLaunch, Status

_GAP = 256
_START = 4096
_PARAMETER_BYTES = 4096
_MOST_BYTES = 1 << 30
_MOST_SHARED_BYTES = 1 << 20
_ALIGNMENT = 256
_SHIFT = {1: 0, 2: 1, 4: 2, 8: 3}
"""From an address to the place among numbers of so many bytes."""
AT_ONCE = {"add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
           "xor": np.bitwise_xor}  # fmt: skip
"""Operations that NumPy makes one after the other in memory, where nobody asks what was there before."""
_NUMBERS = {"f32": "f4", "f64": "f8", "u32": "u4", "b32": "u4", "s32": "i4", "u64": "u8", "b64": "u8", "s64": "i8"}
"""Types of variables as numpy names them; of others the bytes are compared."""

Unit: TypeAlias = tuple[int, CpuLaunch, Array]
"""The number of a copy of the memory, a launch, and numbers of blocks of it, the first to run first."""


class StoppedError(Exception):
    """Threads did not come to their end.

    Attributes:
        status: How they ended.
        message: What happened, one line.
        line: Of the text, where it is known.
    """

    def __init__(self, status: Status, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.line = status, message, line


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the variables and parameters of a kernel are.

    Args:
        symbols: Address of each in its own state space.
        shared_bytes: Of a block, besides what a launch adds.
        local_bytes: Of a thread.
    """

    symbols: Mapping[str, int]
    shared_bytes: int
    local_bytes: int


def layout(module: Module, entry: Entry) -> Layout:
    """Return where the variables and parameters of a kernel are."""
    symbols = dict(_outside(module))
    _placed(entry.parameters, symbols)
    shared = [each for each in (*entry.variables, *module.variables.values()) if each.space == "shared"]
    own = sorted((each for each in entry.variables if each.space in ("local", "param")), key=lambda one: one.size_bytes)
    largest = {each.name: each for each in own}
    return Layout(symbols, _placed(shared, symbols), _placed([*largest.values()], symbols))


def _outside(module: Module) -> Mapping[str, int]:
    """Return the addresses of a module's variables in global and constant memory."""
    symbols, at = dict[str, int](), _START
    for each in module.variables.values():
        if each.space in ("global", "const"):
            symbols[each.name] = at
            at = _behind(at, each.size_bytes)
    return symbols


def _placed(variables: Sequence[Variable], symbols: dict[str, int]) -> int:
    """Give variables their addresses, those sized by the launch behind all others; return the size of the rest."""
    at = 0
    for each in sorted(variables, key=lambda one: one.size_bytes == 0):
        at = -(-at // each.align_bytes) * each.align_bytes
        symbols[each.name] = at
        at += each.size_bytes
    return at


class Memory:
    """The memory of sequences of launches that run side by side.

    Args:
        module: The text.
        buffers: Contents before the first launch.
        copies: How many sequences there are.

    Attributes:
        starts: Index of each copy.
        limit: Of shared and local memory, bytes.
        copies: Asynchronous copies under way: threads, where to, where from, bytes to read, bytes to write.
    """

    def __init__(self, module: Module, buffers: Buffers, copies: int = 1) -> None:
        self._module = module
        self._buffers = {name: np.ascontiguousarray(array) for name, array in buffers.items()}
        self._symbols = _outside(module)
        self.address: dict[str, int] = {}
        spans = [(self._symbols[each.name], each.value.ljust(each.size_bytes, b"\0"))
                 for each in module.variables.values() if each.name in self._symbols]  # fmt: skip
        at = _behind(spans[-1][0], len(spans[-1][1])) if spans else _START
        for name, array in self._buffers.items():
            self.address[name] = at
            spans.append((at, array.tobytes()))
            at = _behind(at, array.nbytes)
        self._parameters = at
        spans.append((at, bytes(_PARAMETER_BYTES)))
        self._size = _behind(at, _PARAMETER_BYTES)
        if self._size * copies > _MOST_BYTES:
            raise InputError(f"{at >> 20} MiB of memory are too much to check with", "launch a smaller grid")
        first = np.zeros(self._size, np.uint8)
        for start, contents in spans:
            first[start : start + len(contents)] = np.frombuffer(contents, np.uint8)
        self._bytes = np.tile(first, copies)
        self.starts = np.arange(copies) * self._size
        self._window = copies * self._size
        self._begins, self._ends = [each for each, _ in spans], [each + len(contents) for each, contents in spans]

    def contents(self, copy: int = 0) -> Mapping[str, Array]:
        """Return the buffers, and behind them the variables of the module that kernels write, as they are now."""
        found, memory = {}, self._bytes[self.starts[copy] :][: self._size]
        for name, array in self._buffers.items():
            found[name] = memory[self.address[name] :][: array.nbytes].copy().view(array.dtype).reshape(array.shape)
        for each in self._module.variables.values():
            if each.space == "global":
                raw = memory[self._symbols[each.name] :][: each.size_bytes].copy()
                name = each.name if each.name not in found else f"__device__ {each.name}"
                found[name] = raw.view(_NUMBERS.get(each.type, "u1"))
        return found

    def place(self, buffer: str, copy: int) -> int:
        """Return the index of a buffer."""
        return int(self.starts[copy]) + self.address[buffer]

    def words(self, buffer: str, copy: int) -> Array:
        """Return a buffer as 32-bit words that can be changed."""
        return self._bytes[self.place(buffer, copy) :][: self._buffers[buffer].nbytes].view(np.uint32)

    def enter(self, entry: Entry, placed: Layout, launches: Mapping[int, CpuLaunch]) -> None:
        """Place the parameters of launches of one kernel.

        Args:
            entry: The kernel.
            placed: Where they are.
            launches: By the number of a copy.

        Raises:
            InputError: the arguments are not those that the kernel takes, or no GPU has so much shared memory.
        """
        for copy, launch in launches.items():
            packed = self._packed(entry, placed, launch)
            self._bytes[int(self.starts[copy]) + self._parameters :][: len(packed)] = packed
        some = next(iter(launches.values()))
        self.limit = {"shared": placed.shared_bytes + some.dynamic_shared_bytes, "local": placed.local_bytes}
        for space, size in self.limit.items():
            if size > _MOST_SHARED_BYTES:
                raise InputError(f"{entry.name}: {size} bytes of {space} memory, and no GPU has so much", "use less")

    def _packed(self, entry: Entry, placed: Layout, launch: CpuLaunch) -> Array:
        """Return the bytes of the parameters of a launch."""
        if len(launch.arguments) != len(entry.parameters):
            message = f"{entry.name} takes {len(entry.parameters)} arguments, and is given {len(launch.arguments)}"
            raise InputError(message, "give all parameters of the .entry, in their order")
        found = bytearray(_PARAMETER_BYTES)
        for place, (argument, parameter) in enumerate(zip(launch.arguments, entry.parameters, strict=True)):
            if isinstance(argument, Pointer):
                value = self.address[argument.buffer].to_bytes(8, "little")
            else:
                value = argument.value
            if len(value) != parameter.size_bytes:
                message = f"{entry.name}: argument {place} has {len(value)} bytes, and the kernel takes"
                raise InputError(f"{message} {parameter.size_bytes}", "see the types of its .param")
            at = placed.symbols[parameter.name]
            found[at : at + len(value)] = value
        return np.frombuffer(bytes(found), np.uint8)

    def window(self, blocks: int, threads: int, fill: int) -> tuple[Array, Array]:
        """Make room for the shared memory of blocks and the local memory of threads, and fill it with a byte.

        Returns:
            The index at which that of each block begins, and that of each thread.
        """
        self._strides = {space: -(-size // 16) * 16 + 16 for space, size in self.limit.items()}
        local = self._window + blocks * self._strides["shared"]
        total = -(-(local + threads * self._strides["local"]) // _ALIGNMENT) * _ALIGNMENT
        if total > len(self._bytes):
            self._bytes = np.concatenate([self._bytes, np.empty(total - len(self._bytes), np.uint8)])
        self._bytes[self._window :] = fill
        self.copies: list[tuple[Array, Array, Array, Array, int]] = []
        self._local, self._total = local, total
        shared = self._window + np.arange(blocks) * self._strides["shared"]
        return shared, local + np.arange(threads) * self._strides["local"]

    def places(self, threads: Any, space: str, address: Array, size_bytes: int, what: str) -> Array:
        """Return the indices of an access, checked.

        Args:
            threads: Those that make it.
            space: State space; empty for generic addresses.
            address: Of each thread in it.
            size_bytes: Of the access.
            what: Of the access, for messages.

        Raises:
            StoppedError: a thread would touch memory that is not its own, or at an address that is no multiple of the
                size.
        """
        if size_bytes > 1 and int(np.bitwise_or.reduce(address)) & (size_bytes - 1):
            raise StoppedError("crash", f"{what} at an address that is no multiple of {size_bytes}")
        at: Array = address if address.itemsize < 8 else address.view(np.int64)
        unsigned = address if address.dtype.kind == "u" else address.view(np.uint64)  # below 0 is above all others
        high = int(np.maximum.reduce(unsigned)) + size_bytes
        if space in self.limit:
            if high > self.limit[space]:
                raise StoppedError("crash", f"{what} outside of the {self.limit[space]} bytes of {space} memory")
            return np.asarray(at + threads.of(space))
        at, low = at.astype(np.int64, copy=False), int(np.minimum.reduce(unsigned))
        if space == "param":
            at, low, high = at + self._parameters, low + self._parameters, high + self._parameters
        span = bisect_right(self._begins, low) - 1
        if span < 0 or high > self._ends[span]:
            self._check(at, size_bytes, f"{what} outside of all buffers")
        if high > self._size:
            return np.where(at < self._size, at + threads.of(""), at)
        return np.asarray(at + threads.of(""))

    def _check(self, at: Array, size_bytes: int, message: str) -> None:
        """Check generic addresses one by one.

        Raises:
            StoppedError: one is beside all buffers and windows.
        """
        span = np.searchsorted(self._begins, at, "right") - 1
        held = (span >= 0) & (at + size_bytes <= np.asarray(self._ends)[span])
        for space, begin, end in (("shared", self._window, self._local), ("local", self._local, self._total)):
            within = (at - begin) % self._strides[space] + size_bytes <= self.limit[space]
            held |= (at >= begin) & (at + size_bytes <= end) & within
        if not held.all():
            raise StoppedError("crash", message)

    def load(self, at: Array, size_bytes: int) -> Array:
        """Return the values at checked indices."""
        return self._bytes.view(f"u{size_bytes}").take(at >> _SHIFT[size_bytes])

    def store(self, at: Array, value: Array) -> None:
        """Write values at checked indices; of several at one place the last remains."""
        size_bytes = value.dtype.itemsize
        bits = value.view(f"u{size_bytes}")
        self._bytes.view(bits.dtype)[at >> _SHIFT[size_bytes]] = bits if len(at) > 1 else bits[-1:]

    def change(self, operation: np.ufunc, at: Array, value: Array) -> None:
        """Apply an operation to checked places, one after the other."""
        operation.at(self._bytes.view(value.dtype), at >> _SHIFT[value.itemsize], value)

    def copy(self, of: Array) -> None:
        """Make the asynchronous copies of some threads."""
        rest = []
        for threads, to, start, count, size_bytes in self.copies:
            now = np.isin(threads, of)
            for byte in range(size_bytes if now.any() else 0):
                read = byte < count[now]
                value = np.zeros(len(read), np.uint8)
                value[read] = self.load(start[now][read] + byte, 1)
                self.store(to[now] + byte, value)
            if not now.all():
                rest.append((threads[~now], to[~now], start[~now], count[~now], size_bytes))
        self.copies = rest

    def text(self, at: int) -> str:
        """Return the text that begins at an address of the first copy."""
        raw = self._bytes[at : at + _GAP].tobytes()
        return raw.partition(b"\0")[0].decode(errors="replace")


def _behind(at: int, size_bytes: int) -> int:
    return -(-(at + size_bytes + _GAP) // _GAP) * _GAP

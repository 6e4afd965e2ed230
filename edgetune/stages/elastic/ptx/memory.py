"""The memory of kernels that run in the interpreter: one array of bytes, whose indices are the addresses.

    | nothing | variables of the module | buffers | parameters | shared memory of each block | local of each thread |

Addresses of shared and local memory count from the start of the window of a block or thread, generic ones through all
of the array. Between buffers there are gaps that no access may touch.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from edgetune.errors import InputError
from edgetune.stages.elastic.ptx.arithmetic import Array
from edgetune.stages.elastic.ptx.parse import Entry, Module, Variable
from edgetune.stages.elastic.shim.run import Buffers, ShimLaunch, Status
from edgetune.stages.elastic.work import Pointer

_GAP = 256
_START = 4096
_PARAMETER_BYTES = 4096
_UNWRITTEN = 0xFF
_MOST_BYTES = 1 << 30
_MOST_SHARED_BYTES = 1 << 20
_NUMBERS = {"f32": "f4", "f64": "f8", "u32": "u4", "b32": "u4", "s32": "i4", "u64": "u8", "b64": "u8", "s64": "i8"}
"""Types of variables as numpy names them; of others the bytes are compared."""


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


class Memory:
    """The memory of a sequence of launches.

    Attributes:
        symbols: Address of each variable and parameter, in its own state space.
        bases: Index at which a state space begins, for each thread in windows of blocks and threads.
    """

    def __init__(self, module: Module, buffers: Buffers) -> None:
        self._module = module
        self._buffers = {name: np.ascontiguousarray(array) for name, array in buffers.items()}
        self._places: dict[str, int] = {}
        self.symbols: dict[str, int] = {}
        spans, at = [], _START
        for each in module.variables.values():
            if each.space in ("global", "const"):
                self.symbols[each.name] = at
                spans.append((at, each.value.ljust(each.size_bytes, b"\0")))
                at = _behind(at, each.size_bytes)
        for name, array in self._buffers.items():
            self._places[name] = at
            spans.append((at, array.tobytes()))
            at = _behind(at, array.nbytes)
        if at > _MOST_BYTES:
            raise InputError(f"{at >> 20} MiB of memory are too much to check with", "launch a smaller grid")
        self._parameters = at
        self._shared_start = _behind(at, _PARAMETER_BYTES)
        self._bytes = np.zeros(self._shared_start, np.uint8)
        self._allowed = np.zeros(self._shared_start, bool)
        for start, contents in spans:
            self._bytes[start : start + len(contents)] = np.frombuffer(contents, np.uint8)
            self._allowed[start : start + len(contents)] = True
        self._allowed[at : at + _PARAMETER_BYTES] = True
        self._sizes = {"shared": 0, "local": 0}
        self.bases: dict[str, Array | int] = {}
        self._views: dict[int, Array] = {}

    def contents(self) -> Mapping[str, Array]:
        """Return the buffers, and behind them the variables of the module that kernels write, as they are now."""
        found = {}
        for name, array in self._buffers.items():
            raw = self._bytes[self._places[name] : self._places[name] + array.nbytes]
            found[name] = raw.copy().view(array.dtype).reshape(array.shape)
        for each in self._module.variables.values():
            if each.space == "global":
                raw = self._bytes[self.symbols[each.name] : self.symbols[each.name] + each.size_bytes].copy()
                name = each.name if each.name not in found else f"__device__ {each.name}"
                found[name] = raw.view(_NUMBERS.get(each.type, "u1"))
        return found

    def enter(self, entry: Entry, launch: ShimLaunch) -> None:
        """Place the parameters of a launch and the variables of its kernel.

        Raises:
            InputError: the arguments are not those that the kernel takes, or name a buffer that is not there; or no GPU
                has so much shared memory.
        """
        if len(launch.arguments) != len(entry.parameters):
            message = f"{entry.name} takes {len(entry.parameters)} arguments, and is given {len(launch.arguments)}"
            raise InputError(message, "give all parameters of the .entry, in their order")
        at = self._parameters
        for place, (argument, parameter) in enumerate(zip(launch.arguments, entry.parameters, strict=True)):
            if isinstance(argument, Pointer):
                if argument.buffer not in self._places:
                    known = ", ".join(self._places)
                    raise InputError(f"{entry.name}: no buffer {argument.buffer!r}", f"there are {known}")
                value = self._places[argument.buffer].to_bytes(8, "little")
            else:
                value = argument.value
            if len(value) != parameter.size_bytes:
                message = f"{entry.name}: argument {place} has {len(value)} bytes, and the kernel takes"
                raise InputError(f"{message} {parameter.size_bytes}", "see the types of its .param")
            at = -(-at // parameter.align_bytes) * parameter.align_bytes
            self.symbols[parameter.name] = at - self._parameters
            self._bytes[at : at + len(value)] = np.frombuffer(value, np.uint8)
            at += len(value)
        outside = [each for each in self._module.variables.values() if each.space == "shared"]
        for space in ("shared", "local"):
            own = [each for each in (*entry.variables, *outside) if each.space == space]
            size = self._laid_out(own)
            dynamic = launch.dynamic_shared_bytes if space == "shared" else 0
            self._sizes[space] = size + dynamic
            if size + dynamic > _MOST_SHARED_BYTES:
                raise InputError(
                    f"{entry.name}: {size + dynamic} bytes of {space} memory, and no GPU has so much", "use less"
                )

    def _laid_out(self, variables: list[Variable]) -> int:
        """Give variables their addresses, those sized by the launch behind all others; return the size of the rest."""
        at = 0
        for each in sorted(variables, key=lambda one: one.size_bytes == 0):
            at = -(-at // each.align_bytes) * each.align_bytes
            self.symbols[each.name] = at
            at += each.size_bytes
        return at

    def window(self, blocks: int, threads: int) -> None:
        """Make room for the shared memory of blocks and the local memory of threads; its contents are undefined."""
        stride = {space: -(-size // 16) * 16 + 16 for space, size in self._sizes.items()}
        local = self._shared_start + blocks * stride["shared"]
        total = -(-(local + threads * stride["local"]) // 16) * 16
        fixed, allowed = self._bytes[: self._shared_start], self._allowed[: self._shared_start]
        self._bytes = np.full(total, _UNWRITTEN, np.uint8)
        self._bytes[: self._shared_start] = fixed
        self._allowed = np.zeros(total, bool)
        self._allowed[: self._shared_start] = allowed
        starts = np.repeat(np.arange(blocks), threads // blocks) * stride["shared"] + self._shared_start
        locals_ = np.arange(threads) * stride["local"] + local
        for space, begins in (("shared", np.unique(starts)), ("local", locals_)):
            inside = begins[:, None] + np.arange(self._sizes[space])
            self._allowed[inside.ravel()] = True
        self.bases = {"shared": starts, "local": locals_, "param": self._parameters}
        self._views = {each: self._bytes.view(f"u{each}") for each in (1, 2, 4, 8)}

    def places(self, space: str, address: Array, threads: Array, size_bytes: int, what: str) -> Array:
        """Return the indices of an access, checked.

        Args:
            space: State space; empty for generic addresses.
            address: Of each thread in it.
            threads: Their numbers.
            size_bytes: Of the access.
            what: Of the access, for messages.

        Raises:
            StoppedError: a thread would touch memory that is not its own, or at an address that is no multiple of the
                size.
        """
        at = address.astype(np.int64)
        if space in self._sizes:
            if ((at < 0) | (at + size_bytes > self._sizes[space])).any():
                raise StoppedError("crash", f"{what} outside of the {self._sizes[space]} bytes of {space} memory")
            at = at + np.asarray(self.bases[space])[threads]
        elif space == "param":
            at = at + self._parameters
        end = at + (size_bytes - 1)
        if ((at < 0) | (end >= self._allowed.size)).any() or not (self._allowed[at].all() and self._allowed[end].all()):
            raise StoppedError("crash", f"{what} outside of all buffers")
        if (at % size_bytes).any():
            raise StoppedError("crash", f"{what} at an address that is no multiple of {size_bytes}")
        return at

    def load(self, at: Array, size_bytes: int) -> Array:
        """Return the values at checked indices."""
        return np.asarray(self._views[size_bytes][at // size_bytes])

    def store(self, at: Array, value: Array) -> None:
        """Write values at checked indices; of several at one place the last remains."""
        size_bytes = value.dtype.itemsize
        self._views[size_bytes][at // size_bytes] = value.view(f"u{size_bytes}")


def _behind(at: int, size_bytes: int) -> int:
    return -(-(at + size_bytes + _GAP) // _GAP) * _GAP

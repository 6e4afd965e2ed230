"""The state of the fake of CUDA's driver, and the form of its results."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from fakes.cuda_gpu import (
    NEVER_NS,
    FakeCudaGpu,
    FakeCudaKernel,
    FakeLaunch,
    FakeMemory,
    FakeWork,
    IllegalAddressError,
    WouldWaitForeverError,
)
from fakes.cuda_handles import (
    CUdevice_attribute,
    CUdevResourceType,
    CUfunction_attribute,
    CUresult,
    FakeContext,
    Handle,
    Kind,
    RefusedError,
    codes,
    handle_of,
    refuse,
)

_MOVE_NS = 1000
"""What moving any number of bytes takes; invented."""

_Method = TypeVar("_Method", bound=Callable[..., Any])


class FakeTime(Protocol):
    """A clock that only a call advances; see ``edgetune.testing.fake_jetson.FakeClock``."""

    def now_ns(self) -> int:
        """Return its time, ns."""
        ...

    def advance_ns(self, duration_ns: int) -> None:
        """Move it."""
        ...


def ticking(clock: FakeTime, tick_ns: int = 20) -> Callable[[], int]:

    def now_ns() -> int:
        clock.advance_ns(tick_ns)
        return clock.now_ns()

    return now_ns


def answers(values: int) -> Callable[[_Method], _Method]:

    def decorate(method: _Method) -> _Method:
        name = method.__name__

        @functools.wraps(method)
        def call(self: CudaState, *arguments: Any) -> tuple[Any, ...]:
            if name in self.missing:
                raise RuntimeError(f'Function "{name}" not found')
            self.clock.advance_ns(self.call_ns.get(name, self.other_ns))
            self.calls.append(name)
            code = self._pending_code(name)
            if not code:
                try:
                    found = method(self, *arguments)
                    return (CUresult.CUDA_SUCCESS, *(() if found is None else found))
                except RefusedError as refused:
                    code = refused.code
            return (CUresult(code), *(None,) * values)

        return call  # type: ignore[return-value]

    return decorate


@dataclass(slots=True)
class _State:
    initialised: bool = False
    current: list[Handle] = field(default_factory=list)


class CudaState:
    """State that the calls of a fake driver share; arguments as ``cuda_driver.FakeCuda``."""

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
        """Every handle made in a context, destroyed ones included."""

    @property
    def launches(self) -> list[FakeLaunch]:
        return self.works[0].launches

    def leaked(self) -> list[Kind]:
        return [handle.kind for handle in self.handles if handle.alive and handle.kind != "function"]

    def _pending_code(self, name: str) -> int:
        """Complete the work that is due; return the code that every call now returns."""
        if name in ("cuInit", "cuDriverGetVersion"):
            return 0
        if not self._state.initialised:
            return codes.NOT_INITIALIZED
        for work in self.works:
            work.catch_up(self.clock.now_ns())
        return next((work.failed for work in self.works if work.failed), 0)

    def _context(self) -> FakeContext:
        refuse(codes.INVALID_CONTEXT, when=not self._state.current)
        found: FakeContext = self._state.current[-1].what
        return found

    def _made(self, kind: Kind, what: Any) -> Handle:
        handle = Handle(kind, what, self._state.current[-1] if self._state.current else None)
        self.handles.append(handle)
        return handle

    def _of(self, handle: Handle, kind: Kind) -> Any:
        self._context()
        return handle_of(handle, kind)

    def _destroy(self, handle: Handle, kind: Kind) -> None:
        handle_of(handle, kind)
        handle.alive = False

    def _memory(self, address: Any, size_bytes: int) -> Any:
        try:
            return self._context().work.memory.view(int(address), "uint8", size_bytes)
        except IllegalAddressError:
            raise RefusedError(codes.INVALID_VALUE) from None

    def _moves(self, stream: Handle, target: Any, data: Any) -> None:
        def move() -> int:
            target[:] = data
            return 0

        work, line, now_ns = self._context().work, self._of(stream, "stream"), self.clock.now_ns()
        work.queue(line, lambda: work.put(line, now_ns, _MOVE_NS, move))

    def _wait(self, until_ns: int) -> None:
        if until_ns >= NEVER_NS:
            raise WouldWaitForeverError("a kernel on the GPU never ends")
        self.clock.advance_ns(max(0, until_ns - self.clock.now_ns()))
        for work in self.works:
            work.catch_up(self.clock.now_ns())

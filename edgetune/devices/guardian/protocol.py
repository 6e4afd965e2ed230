"""The guardian's protocol: one JSON request per line, one JSON reply per line.

    {"id": 1, "request": "hello"}                            -> {"id": 1, "ok": true, "protocol": 1, "space": ..., ...}
    {"id": 2, "request": "apply", "mode": {"gpu_mhz": 306.0}} -> {"id": 2, "ok": true, "mode": {...}}: as read back
    {"id": 3, "request": "read"}                             -> {"id": 3, "ok": true, "mode": {...}}
    {"id": 4, "request": "restore"}                          -> {"id": 4, "ok": true}
    {"id": 5, "request": "keep"}                             -> {"id": 5, "ok": true}: the mode stays until `undo`
    {"id": 6, "request": "undo"}                             -> {"id": 6, "ok": true, "recovered": [...]}: sentences
    {"id": 7, "request": "left"}                             -> the same: what `hello` and `undo` would put back
    {"id": 8, "request": "forget"}                           -> the same: put back where possible, journals removed
    anything that fails            -> {"id": 2, "ok": false, "type": "DeviceError", "message": "...", "hint": "..."}

Requests come from an unprivileged process, so anything that is not exactly one of these is refused. No request names a
file, and a mode contains only values of the tables that the device advertises.

The client may close the pipes, flood them or never read. A signal that asks the guardian to end takes effect at once
while it waits, and after the present write while it sets a mode. Every other signal that would kill or stop the
guardian is ignored.
"""

from __future__ import annotations

import json
import os
import select
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from edgetune.artifacts.mode import Mode
from edgetune.devices.capabilities import ModeSpace
from edgetune.errors import EdgetuneError, InputError
from edgetune.visible import one_line

PROTOCOL = 1
"""Version of the protocol; both ends belong to one installation, so older versions are not supported."""

HEARTBEAT_S, SILENCE_S = 20.0, 300.0
"""Time between the empty lines by which a measuring process shows that it goes on, and the time without one after which
its guardian puts the board back, s: a process that is stopped (SIGSTOP, Ctrl-Z) leaves its mode in place until then."""
LONGEST_LINE_BYTES = 64 * 1024
"""Length limit of a line: the capacity of a Linux pipe; the longest request has five numbers, some 200 bytes."""

_DEFECT = "this is a defect of edgetune: please report it"


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, frozen=True)

    id: int = Field(ge=0, le=2**53)  # the largest range in which every JSON reader has integers


class Plain(_Strict):
    """A request without arguments."""

    request: Literal["hello", "read", "restore", "keep", "undo", "left", "forget"]


class Apply(_Strict):
    """Set a mode; knobs that it leaves out get the value that was found. With ``fan``, set the fan to its maximum."""

    request: Literal["apply"]
    mode: dict[str, float]
    fan: bool = False


Request: TypeAlias = Plain | Apply
_REQUESTS: TypeAdapter[Request] = TypeAdapter(Annotated[Request, Field(discriminator="request")])


def parse_request(line: bytes) -> Request:
    """Parse a line as a request.

    Raises:
        InputError: the line is not a valid request.
    """
    try:
        return _REQUESTS.validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        what = f"{where}: {first['msg']}" if where else first["msg"]
        raise InputError(f"not a request: {shortened(what)}", _DEFECT) from None


def success(number: int, **facts: Any) -> dict[str, Any]:
    """Return the reply to a request that succeeded."""
    return {"id": number, "ok": True, **facts}


def failure(number: int | None, error: EdgetuneError) -> dict[str, Any]:
    """Return the reply to a request that failed; ``number`` is ``None`` when the request could not be parsed."""
    kind, message, hint = type(error).__name__, error.message, error.hint
    return {"id": number, "ok": False, "type": kind, "message": message, "hint": hint}


def space_to_plain(space: ModeSpace) -> dict[str, Any]:
    """Return a space as data that JSON can hold."""
    return {
        "knobs": dict(space.knobs),
        "presets": {name: mode.knobs() for name, mode in space.presets.items()},
        "fixed": dict(space.fixed),
        "listed": None if space.listed is None else [mode.knobs() for mode in space.listed],
        "withheld": dict(space.withheld),
        "limited": dict(space.limited),
    }


def space_from_plain(data: Mapping[str, Any]) -> ModeSpace:
    """Return the space of plain data from ``space_to_plain``."""
    return ModeSpace(
        knobs={knob: tuple(values) for knob, values in data["knobs"].items()},
        presets={name: Mode.of(knobs) for name, knobs in data["presets"].items()},
        fixed=data["fixed"],
        listed=None if data["listed"] is None else tuple(Mode.of(knobs) for knobs in data["listed"]),
        withheld=data["withheld"],
        limited=data["limited"],
    )


def shortened(text: str) -> str:
    """Return untrusted text as one short line without control characters."""
    return one_line(text, 200)


class LineChannel:
    """Requests from one descriptor, replies to another.

    Args:
        requests: Descriptor of the requests.
        replies: Descriptor of the replies.
        stop: Signals that end a wait.
        silence_s: How long a wait for a request or a heartbeat (an empty line) may take, s.
    """

    def __init__(self, requests: int, replies: int, stop: StopSignals, silence_s: float) -> None:
        self.silent = False
        """Whether nothing was heard for that long, which ends the input: the sender is stopped."""
        self._silence_s = silence_s
        self._requests = requests
        self._replies = replies
        self._stop = stop
        self._pending = b""
        self._too_long = False

    def read(self) -> bytes | None:
        """Return the next line, or ``None`` at the end of input or of patience; an incomplete last line is dropped.

        Raises:
            InputError: a line is too long; it is dropped without being stored.
            Stopped: a signal arrived.
        """
        while b"\n" not in self._pending:
            if len(self._pending) > LONGEST_LINE_BYTES:
                self._pending, self._too_long = b"", True
            if not self._wait(self._requests, select.POLLIN, self._silence_s):
                self.silent = True
                return None
            try:
                block = os.read(self._requests, LONGEST_LINE_BYTES)
            except OSError:  # the terminal is gone
                return None
            if not block:
                return None
            self._pending += block
        line, _, self._pending = self._pending.partition(b"\n")
        if self._too_long or len(line) > LONGEST_LINE_BYTES:
            self._too_long = False
            raise InputError(f"a request is longer than {LONGEST_LINE_BYTES} bytes", "send one short line at a time")
        return line

    def write(self, reply: Mapping[str, Any]) -> None:
        """Write a reply.

        Raises:
            BrokenPipeError: the reader has closed its end.
            Stopped: a signal arrived while the reader did not read.
        """
        left = json.dumps(reply).encode() + b"\n"
        while left:
            self._wait(self._replies, select.POLLOUT)
            left = left[os.write(self._replies, left[: select.PIPE_BUF]) :]  # a ready pipe accepts PIPE_BUF bytes

    def _wait(self, descriptor: int, event: int, patience_s: float | None = None) -> bool:
        """Wait until the descriptor is ready and return whether it is; one poll of both misses no signal.

        Raises:
            Stopped: a signal arrived.
        """
        poll = select.poll()
        poll.register(descriptor, event)
        poll.register(self._stop.wakeup, select.POLLIN)
        while not self._stop.received:
            ready = {number for number, _ in poll.poll(None if patience_s is None else 1e3 * patience_s)}
            if self._stop.wakeup in ready:
                os.read(self._stop.wakeup, 1)  # an unrelated signal; a stop signal is recorded by its handler
            else:
                return descriptor in ready
        raise Stopped


_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_FAULTS = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL}
"""Ignored when sent by a process; the kernel still ends a process on a real fault, where a handler would hang."""
_HARMLESS = {signal.SIGCHLD, signal.SIGCONT, signal.SIGWINCH, signal.SIGURG}
_UNHEARD = signal.valid_signals() - {*_SIGNALS, *_HARMLESS, signal.SIGKILL, signal.SIGSTOP}
"""Ignored: terminal (Ctrl-\\, Ctrl-Z), timers, limits and real-time. Source: signal(7), default actions."""


class Stopped(BaseException):
    """A signal asked the guardian to end; raised inside ``interruptible`` only, and only once."""


class StopSignals:
    """Replaces Python's signal handlers while open; signals that were ignored (``nohup``) stay ignored.

    The first signal is recorded and wakes a ``poll`` on ``wakeup``. Later signals have no effect, so that a restore is
    never interrupted. Opened in the main thread.
    """

    def __init__(self) -> None:
        self.received = False
        self._interruptible = False
        self._handlers: dict[int, Any] = {}
        self.wakeup, self._waker = -1, -1

    def __enter__(self) -> StopSignals:
        self.wakeup, self._waker = os.pipe()
        os.set_blocking(self._waker, False)
        self._old_waker = signal.set_wakeup_fd(self._waker, warn_on_full_buffer=False)
        for number in (*_SIGNALS, *_UNHEARD):
            if signal.getsignal(number) in (None, signal.SIG_IGN):
                continue  # a handler not set by Python could not be restored
            heard = self._note if number in _SIGNALS else signal.SIG_IGN if number in _FAULTS else _nothing
            self._handlers[number] = signal.signal(number, heard)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._old_waker)
        os.close(self.wakeup)
        os.close(self._waker)

    def _note(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - what a handler is given
        first, self.received = not self.received, True
        if first and self._interruptible:
            raise Stopped

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Let a signal raise ``Stopped`` inside the block.

        Raises:
            Stopped: a signal arrived, possibly before the block.
        """
        self._interruptible = True
        try:
            if self.received:
                raise Stopped
            yield
        finally:
            self._interruptible = False


def _nothing(number: int, frame: FrameType | None) -> None:
    """Do nothing; unlike SIG_IGN, a handler is not inherited by child programs."""

"""The client's side of a guardian process: start it, exchange requests and replies over pipes, and end it."""

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from edgetune.devices.guardian.protocol import HEARTBEAT_S, PROTOCOL, shortened
from edgetune.errors import DeviceError, EdgetuneError, ExitCode, InputError, NotRestoredError
from edgetune.processes.messages import ReplyLines, signal_name
from edgetune.processes.privilege import ask_root

_KINDS: tuple[type[EdgetuneError], ...] = (InputError, DeviceError, NotRestoredError)
_ERRORS = {kind.__name__: kind for kind in _KINDS}
_BY_CODE = {int(kind.exit_code): kind for kind in _KINDS}
_LONGEST_LOG_BYTES = 1 << 16
_ENDS_WITHIN_S = 30.0
"""Timeout of a restore, s: some 50 writes, of which switching a core takes longest, some 0.1 s each (estimate)."""


@contextmanager
def _no_interrupt() -> Iterator[None]:
    """Start processes in this context with Ctrl-C ignored; the end of their input ends them.

    Otherwise the guardian would restore the board while this process is still finishing or saving.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _out_of_reach(command: Sequence[str]) -> dict[str, Any]:
    """Return ``Popen`` options that shield a process from terminal signals and from the loss of the terminal.

    The process gets its own session. ``sudo`` only gets its own process group, because it caches passwords per session;
    the guardian below it then makes its own session.
    """
    if Path(command[0]).name != "sudo":
        return {"start_new_session": True}
    return {"process_group": 0} if sys.version_info >= (3, 11) else {"preexec_fn": os.setpgrp}


class RootCommand(list[str]):
    """The command line of a guardian that only the process of root can start; the last word is its device."""


class RootProcess:
    """A guardian that the process of root has started, as ``subprocess.Popen`` shows one.

    Args:
        device: Name of its device.
        log: Takes its standard error.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self, device: str, log: BinaryIO) -> None:
        (asked, ask), (tell, told), (self._ended, end) = os.pipe(), os.pipe(), os.pipe()
        self.stdin, self.stdout = open(ask, "wb", buffering=0), open(tell, "rb", buffering=0)  # noqa: SIM115
        try:
            self.pid = int(ask_root("guard", device, descriptors=(asked, told, log.fileno(), end)))
        finally:
            for descriptor in (asked, told, end):
                os.close(descriptor)
        self._code: int | None = None

    def wait(self, timeout: float) -> int:
        """Return its exit code; errors as of ``subprocess.Popen.wait``."""
        if self._code is None:
            if not select.select([self._ended], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("edgetune-guardian", timeout)
            self._code = int(os.read(self._ended, 16) or -signal.SIGKILL)
            os.close(self._ended)
        return self._code


class GuardianProcess:
    """One guardian process, started by the constructor.

    No other child inherits its pipes (Python's default), so that its input ends with this process, however that ends.
    Its standard error goes to a temporary file.

    Args:
        command: Its command line.
        patience_s: How long it may take to answer, s.

    Raises:
        DeviceError: the guardian cannot be started.
    """

    def __init__(self, command: Sequence[str], patience_s: float) -> None:
        self._command = command
        self._patience_s = patience_s
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 -- closed in end()
        try:
            self._process: subprocess.Popen[bytes] | RootProcess
            if isinstance(command, RootCommand):
                self._process = RootProcess(command[-1], self._log)
            else:
                with _no_interrupt():
                    self._process = subprocess.Popen(
                        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, bufsize=0,
                        **_out_of_reach(command),
                    )  # fmt: skip
        except OSError as error:
            self._log.close()
            message = f"the guardian, which sets modes, cannot be started: {command[0]}: {error.strerror or error}"
            raise DeviceError(message, "run edgetune as root, or leave the mode as found") from None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests, self._replies = self._process.stdin, self._process.stdout
        self._lines = ReplyLines(self._replies.fileno())
        self._number = 0
        self._code: int | None = None
        self._said: list[str] = []
        self._ending = threading.Event()
        self._heart = threading.Thread(target=self._beat, name="edgetune-heartbeat", daemon=True)
        self._heart.start()

    def _beat(self) -> None:
        with suppress(OSError):  # it has ended, which the next request reports
            while not self._ending.wait(HEARTBEAT_S):
                self._requests.write(b"\n")

    @property
    def pid(self) -> int:
        """Process id; that of ``sudo`` where the guardian runs below it."""
        return self._process.pid

    @property
    def ended(self) -> bool:
        """Whether it is known to have ended."""
        return self._code is not None

    def hello(self) -> dict[str, Any]:
        """Return the facts that the guardian reports about itself and the device.

        Raises:
            DeviceError: the guardian has another protocol version.
            EdgetuneError: see ``ask``.
        """
        facts = self.ask("hello")
        if facts["protocol"] != PROTOCOL:
            raise DeviceError("the guardian is of another version of edgetune", "install one version only")
        return facts

    def ask(self, request: str, **arguments: Any) -> dict[str, Any]:
        """Send a request and return the reply.

        Raises:
            InputError, DeviceError, NotRestoredError: the guardian's error, the reason of its end, or no answer in
                time.
        """
        self._number += 1
        line = json.dumps({"id": self._number, "request": request, **arguments}).encode() + b"\n"
        try:
            self._requests.write(line)
            reply = self._reply(self._number)
        except (BrokenPipeError, EOFError):
            raise self.explain(self.end()) from None
        if not reply["ok"]:
            raise _ERRORS.get(reply["type"], DeviceError)(reply["message"], reply["hint"])
        return reply

    def _reply(self, number: int) -> dict[str, Any]:
        """Return the reply with this number; skip replies to earlier requests that were interrupted."""
        deadline_s = time.monotonic() + self._patience_s
        while True:
            try:
                reply: dict[str, Any] = json.loads(self._lines.next(deadline_s))
            except TimeoutError:
                message = f"the guardian, process {self.pid}, has not answered for {self._patience_s:g} s"
                raise DeviceError(message, "a driver hangs: restart the machine, which undoes every setting") from None
            if reply["id"] in (number, None):
                return reply

    def end(self) -> int:
        """Close its input, wait until it has restored the board, and return its exit code; idempotent.

        Raises:
            NotRestoredError: the guardian has not ended in time; it continues to run.
        """
        if self._code is None:
            self._ending.set()
            self._heart.join()
            self._requests.close()
            try:
                self._code = self._process.wait(timeout=_ENDS_WITHIN_S)
            except subprocess.TimeoutExpired:
                raise NotRestoredError(
                    f"the guardian, process {self.pid}, has not put the board back within {_ENDS_WITHIN_S:g} s",
                    "it goes on trying; if it hangs in a driver, restart the machine, which undoes every setting",
                ) from None
            self._replies.close()
            self._said = self._read_log()
            self._log.close()
        return self._code

    def _read_log(self) -> list[str]:
        text = os.pread(self._log.fileno(), _LONGEST_LOG_BYTES, 0).decode(errors="replace")
        return [line.strip() for line in text.splitlines() if line.strip()]

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences that it printed at its end, errors excluded."""
        return tuple(line.removeprefix("note: ") for line in self._said if line.startswith("note: "))

    def explain(self, code: int) -> EdgetuneError:
        """Return the reason of the guardian's end: its own message, that of ``sudo``, or its exit code."""
        own = [line.removeprefix("error: ") for line in self._said if line.startswith("error: ")]
        hints = [line.removeprefix("hint: ") for line in self._said if line.startswith("hint: ")]
        if own and hints:
            return _BY_CODE.get(code, DeviceError)(own[-1], hints[-1])
        last = shortened(self._said[-1]) if self._said else ""
        if "No module named" in last:
            return DeviceError(
                f"the guardian, which sets modes as root, cannot be started: {last}",
                "install edgetune in a virtual environment or for all users: root sees no --user installation",
            )
        if Path(self._command[0]).name == "sudo" and code == ExitCode.UNEXPECTED:
            message = f"setting modes needs root, and sudo refused: {last.removeprefix('sudo: ')}"
            return DeviceError(message, "`edgetune doctor` prints the line that allows it; or leave the mode as found")
        hint = "the board is as it was found: run the command again"
        if code == ExitCode.DONE:
            return DeviceError("a signal ended the guardian, which sets modes", hint)
        how = f"was killed by {signal_name(-code)}" if code < 0 else f"ended with exit code {code}"
        return DeviceError(f"the guardian, which sets modes, {how}" + (f": {last}" if last else ""), hint)

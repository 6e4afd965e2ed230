"""One child process and its pipes: send commands, wait for replies with a deadline, and report its end."""

import contextlib
import itertools
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from edgetune import errors, limits
from edgetune.errors import DeviceError, EdgetuneError, InputError
from edgetune.processes.families import descendants, kills, why_killed
from edgetune.processes.messages import ReplyLines, decoded, encoded, signal_name
from edgetune.processes.start import python_command
from edgetune.visible import visible

_RUNNER = "edgetune.processes.messages"
_LOG_LIMIT_BYTES = 1 << 20
_TAIL_BYTES = 4096
_LAST_WORDS = 200
_FAULTHANDLER = ("Fatal Python error", "Traceback (most recent call first)", "Current thread", "Thread 0x")
_GRACE_S = 2.0
_KILLED_WITHIN_S = 10.0


class Child:
    """A worker process, started by the constructor.

    Its standard output and error go to an unnamed temporary file, of which
    ``log_tail`` returns the end. It dies with the thread that starts it.

    Args:
        target: What takes the commands, ``MODULE:NAME``, see ``messages``; or a module that answers them itself; with
            ``python`` a file that does.
        python: Another Python than this one, to run the file.
        environment: Environment variables in addition to those of this process.
        descriptors: Descriptors that the child inherits under the same numbers.
    """

    def __init__(
        self,
        target: str,
        *,
        python: str | None = None,
        environment: Mapping[str, str] = MappingProxyType({}),
        descriptors: Sequence[int] = (),
    ) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 -- closed in close()
        commands_read, self._commands = os.pipe()
        self._replies, replies_write = os.pipe()
        os.set_blocking(self._replies, False)
        arguments = [str(commands_read), str(replies_write), str(os.getpid()), *limits.raised()]
        words = (_RUNNER, target) if ":" in target else (target,)
        try:
            self._process = subprocess.Popen(
                python_command(*words, *arguments) if python is None else [python, target, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                pass_fds=(commands_read, replies_write, *descriptors),
                start_new_session=True,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
            )
        except OSError as error:
            os.close(self._commands)
            os.close(self._replies)
            self._log.close()
            message = f"cannot start a process for the workload: {error.strerror or error}"
            raise DeviceError(message, "free memory or processes, and run the same command again") from None
        finally:
            os.close(commands_read)
            os.close(replies_write)
        self._lines = ReplyLines(self._replies)
        self._kills_before = kills()

    @property
    def pid(self) -> int:
        """Process id, which is also the id of its process group."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the process still accepts commands."""
        return self._process.poll() is None

    def ask(self, command: Mapping[str, Any], *, deadline_s: float) -> dict[str, Any]:
        """Send a command and return the reply.

        Args:
            command: Plain data with a ``command`` key; the target defines the commands.
            deadline_s: Deadline on ``time.monotonic``.

        Raises:
            TimeoutError: no reply before the deadline.
            InputError: the workload failed, crashed or was killed.
            DeviceError: the workload needs something that this machine lacks.
        """
        self.send(command)
        try:
            return _answer(self._lines.next(deadline_s))
        except EOFError:
            raise self._obituary() from None

    def send(self, command: Mapping[str, Any]) -> None:
        """Send a command without waiting for its reply, which ``received`` returns.

        Raises:
            InputError: the process has ended.
        """
        try:
            os.write(self._commands, encoded(command))
        except BrokenPipeError:
            raise self._obituary() from None
        if os.fstat(self._log.fileno()).st_size > _LOG_LIMIT_BYTES:  # after the command, so as not to delay it
            os.ftruncate(self._log.fileno(), 0)
            os.lseek(self._log.fileno(), 0, os.SEEK_SET)  # the child shares this offset and continues from here

    def fileno(self) -> int:
        """Return the descriptor that becomes readable with a reply, for ``select``."""
        return self._replies

    def received(self) -> Iterator[dict[str, Any]]:
        """Yield the replies that have arrived, without waiting.

        Raises:
            InputError, DeviceError: see ``ask``.
        """
        try:
            for line in self._lines.arrived():
                yield _answer(line)
        except EOFError:
            raise self._obituary() from None

    def _obituary(self) -> EdgetuneError:
        """Wait for the process that closed its pipes and return an error that describes its end."""
        try:
            code = self._process.wait(timeout=_GRACE_S)
        except subprocess.TimeoutExpired:
            return InputError("the workload closed edgetune's pipes", "do not close file descriptors you did not open")
        if code == -signal.SIGKILL:
            why = why_killed(self._kills_before)
            said = "as the kernel does when memory runs out" if why is None else f"by the kernel: {why}"
            hint = "use a smaller batch size, or free memory"
            return InputError(f"the workload was killed (SIGKILL), {said}", hint)
        said = "".join(f"; its last output: {words[:_LAST_WORDS]}" for words in self._last_words())
        if code < 0:
            return InputError(f"the workload crashed: {signal_name(-code)}{said}", "see --verbose for its output")
        return InputError(f"the workload ended its process with exit code {code}{said}", "see --verbose for its output")

    def _last_words(self) -> list[str]:
        """Return the last line of the log, without the interpreter frames of Python's fault handler."""
        lines = self.log_tail(200).splitlines()
        return list(itertools.takewhile(lambda line: not line.startswith(_FAULTHANDLER), lines))[-1:]

    def log_tail(self, lines: int = 20) -> str:
        """Return the last lines of the log, without control characters."""
        descriptor = self._log.fileno()
        size = os.fstat(descriptor).st_size
        text = os.pread(descriptor, _TAIL_BYTES, max(0, size - _TAIL_BYTES)).decode(errors="replace")
        shown = map(visible, text.expandtabs().splitlines())
        return "\n".join([line for line in shown if line.strip()][-lines:])

    def kill(self) -> None:
        """Kill the child and its group, from any thread; a pending ``ask`` then reports its end."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Kill the child, its process group, and all its descendants; idempotent."""
        if self._log.closed:
            return
        strays = descendants(self._process.pid)
        self.kill()
        for pid in strays:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):  # a driver may delay the end of a killed process
            self._process.wait(timeout=_KILLED_WITHIN_S)
        os.close(self._commands)
        os.close(self._replies)
        self._log.close()


def _answer(line: bytes) -> dict[str, Any]:
    """Return the contents of a reply.

    Raises:
        InputError, DeviceError: the reply reports a failed command.
    """
    reply = _reply(line)
    if not reply["ok"]:
        kind: type[EdgetuneError] = getattr(errors, reply["type"], InputError)
        raise kind(reply["message"], reply["hint"])
    return reply


def _reply(line: bytes) -> dict[str, Any]:
    """Parse a line as a reply.

    Raises:
        InputError: the line is not a reply, because the workload wrote to the pipe.
    """
    with contextlib.suppress(ValueError):
        reply = decoded(line)
        if isinstance(reply, dict) and "ok" in reply:
            return reply
    raise InputError("the workload wrote into edgetune's pipes", "do not write to file descriptors you did not open")

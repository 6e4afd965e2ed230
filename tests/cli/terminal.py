"""A command on a terminal of its own: a pseudo-terminal of any size, which may be lost at any time."""

import contextlib
import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import time

_PATIENCE_S = 60.0


class Terminal:
    """A terminal of a size, on which a command is run.

    Args:
        columns, rows: Its size; zero is what some programs leave it at.
    """

    def __init__(self, columns: int, rows: int = 24) -> None:
        self._ours, self._theirs = pty.openpty()
        fcntl.ioctl(self._theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def start(self, *argv, cwd, controlling=True, ignoring=False, env=None):
        """Start a command; a process that the terminal does not control is sent no signal when it is lost."""

        def prepare():
            os.setsid()
            if controlling:
                fcntl.ioctl(0, termios.TIOCSCTTY, 0)
            signal.signal(signal.SIGHUP, signal.SIG_IGN if ignoring else signal.SIG_DFL)

        environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "edgetune", *argv], cwd=cwd, stdin=self._theirs, stdout=self._theirs,
            stderr=self._theirs, preexec_fn=prepare,  # noqa: PLW1509 -- the tests have one thread
            env={**environment, "TERM": "xterm", **(env or {})},
        )  # fmt: skip
        os.close(self._theirs)

    def read_until(self, marker: bytes | None) -> bytes:
        """Return what is shown until a marker, or until the command ends."""
        shown, give_up_s = b"", time.monotonic() + _PATIENCE_S
        while marker is None or marker not in shown:
            assert time.monotonic() < give_up_s, shown
            try:
                block = os.read(self._ours, 1 << 16)
            except OSError:  # the other end is closed
                block = b""
            if not block:
                assert marker is None, shown
                break
            shown += block
        return shown

    def type(self, keys: bytes) -> None:
        """Press keys."""
        os.write(self._ours, keys)

    def hang_up(self) -> int:
        """Take the terminal away and return the exit code of the command."""
        os.close(self._ours)
        try:
            return self.process.wait(_PATIENCE_S)
        finally:
            with contextlib.suppress(OSError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def run(self, *argv, cwd, env=None) -> tuple[int, bytes]:
        """Run a command to its end; return its exit code and what was shown."""
        self.start(*argv, cwd=cwd, env=env)
        shown = self.read_until(None)
        os.close(self._ours)
        return self.process.wait(_PATIENCE_S), shown

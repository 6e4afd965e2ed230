"""A pipe that ends a ``select`` when a signal arrives; ``select`` itself resumes after one (PEP 475)."""

from __future__ import annotations

import contextlib
import os
import signal


class SignalPipe:
    """A pipe that becomes readable after a signal if created in the main thread, otherwise never."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)
        self._before: int | None = None
        with contextlib.suppress(ValueError):  # only the main thread may set it
            self._before = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        self._closed = False

    def fileno(self) -> int:
        """Return the descriptor to ``select`` on."""
        return self._read

    def clear(self) -> None:
        """Discard the signals so far."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._read, 1 << 10)

    def close(self) -> None:
        """Restore the previous wake-up descriptor; idempotent."""
        if self._closed:
            return
        self._closed = True
        with contextlib.suppress(ValueError, OSError):  # another thread; or the previous descriptor is closed
            installed = signal.set_wakeup_fd(-1)
            signal.set_wakeup_fd(self._before if installed == self._write and self._before is not None else installed)
        os.close(self._read)
        os.close(self._write)

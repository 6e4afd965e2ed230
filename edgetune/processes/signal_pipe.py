"""What ends a wait when a signal comes: ``select`` by itself goes on sleeping after one (PEP 475)."""

from __future__ import annotations

import contextlib
import os
import signal


class SignalPipe:
    """Readable once a signal was handled; made in the main thread, elsewhere it never is."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)
        self._before: int | None = None
        with contextlib.suppress(ValueError):  # only the main thread may ask for it
            self._before = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        self._closed = False

    def fileno(self) -> int:
        """Return the descriptor to ``select`` on."""
        return self._read

    def clear(self) -> None:
        """Forget the signals so far."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._read, 1 << 10)

    def close(self) -> None:
        """Put back what was there before; harmless when repeated."""
        if self._closed:
            return
        self._closed = True
        with contextlib.suppress(ValueError, OSError):  # another thread; what was there before is closed as well
            installed = signal.set_wakeup_fd(-1)
            signal.set_wakeup_fd(self._before if installed == self._write and self._before is not None else installed)
        os.close(self._read)
        os.close(self._write)

"""A device that one edgetune at a time may have: entered as often as need be, taken once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from edgetune.devices.guardian.lock import hold


class Exclusive:
    """The right to a device, held from the first entry until the last exit; two networks share it within a process.

    Args:
        device: As the user names it, e.g. ``jetson``.
        root: Where the file system starts.
    """

    def __init__(self, device: str, root: Path = Path("/")) -> None:
        self._device = device
        self._root = root
        self._stack = ExitStack()
        self._depth = 0

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Have the device to this process.

        Raises:
            DeviceError: another edgetune has it; the message says which, and since when.
        """
        if self._depth == 0:
            self._stack.enter_context(hold(self._device, self._root))
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if self._depth == 0:
                self._stack.close()

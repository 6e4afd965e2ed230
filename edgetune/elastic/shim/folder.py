"""Where a program lies for as long as somebody may run it."""

from __future__ import annotations

import weakref
from contextlib import ExitStack

from edgetune.artifacts.scratch_folder import scratch_folder


class Folder:
    """A folder of temporary files that goes with the last reference to it, at the latest with this process."""

    def __init__(self) -> None:
        opened = ExitStack()
        self.path = opened.enter_context(scratch_folder())
        self.remove = weakref.finalize(self, opened.close)

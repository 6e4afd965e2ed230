"""Where a program lies for as long as somebody may run it."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path


class Folder:
    """A folder of temporary files that goes with the last reference to it, at the latest with this process."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="edgetune-shim-"))
        self.remove = weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)

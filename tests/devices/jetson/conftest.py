"""Boards for the tests of what sets them: fakes, in memory where the system has a folder there."""

import tempfile
from pathlib import Path

import pytest

from edgetune.devices.jetson.control import JetsonControl
from edgetune.testing.fake_board import make_board
from edgetune.testing.fake_jetson import FakeClock

MEMORY = Path("/dev/shm")


class Bench:
    """A fake board, what sets it, the settings it had, and what was found."""

    def __init__(self, folder, board, beyond_caps=True, **options):
        self.clock = FakeClock(start_ns=10**18)
        self.kernel = make_board(folder, board, clock=self.clock, **options)
        self.beyond_caps = beyond_caps
        self.before = self.kernel.settings()
        self.control = self.open()

    def open(self, **options):
        options = {"beyond_caps": self.beyond_caps, "sleep": self.clock.sleep_s, **options}
        return JetsonControl(self.kernel, **options)

    def put(self, path, value):
        """Change a setting as somebody else would have before us."""
        self.kernel.write(path, str(value))
        self.before = self.kernel.settings()

    def put_back(self, found, control=None):
        """Restore, and check that all is as found."""
        assert (control or self.control).restore(found) == []
        assert self.differences() == {}

    def differences(self):
        now = self.kernel.settings()
        return {
            path: (self.before.get(path), now.get(path))
            for path in self.before | now
            if self.before.get(path) != now.get(path)
        }


@pytest.fixture
def bench(tmp_path):
    folders = []

    def build(board="jetson-orin-nano-8gb", **options):
        folders.append(tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else tmp_path))
        return Bench(Path(folders[-1].name), board, **options)

    yield build
    for folder in folders:
        folder.cleanup()

"""Training files for the child process to run, and the workload and points that name them."""

from pathlib import Path

import pytest

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import Point
from edgetune.workloads.workload import Workload

QUICK = "def make(batch_size):\n    return lambda: None\n"


@pytest.fixture
def training(tmp_path):
    """Return a function that writes a training file and names it as a workload."""

    def write(source: str = QUICK, name: str = "train.py") -> Workload:
        path = Path(tmp_path) / name
        path.write_text(source)
        return Workload(str(path), path.stem, "python", path, sha256=str(hash(source)))

    return write


@pytest.fixture
def point():
    """Return a function that makes a training point."""

    def make(batch_size: int = 1, *, workload: str = "train", **knobs: float) -> Point:
        return Point(workload, "train", batch_size, Mode.of(knobs))

    return make

"""What the process that runs networks takes before it runs any, beside ONNX Runtime itself.

    python tests/benchmarks/schedule_idle.py [PREPARED ...]

Prepared folders add the sessions of their layers, which are made before the clock starts and kept.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from pathlib import Path

from edgetune.stages.schedule.costs import network_of
from edgetune.stages.schedule.live_run import _QUIET, LiveNetwork, LiveOptions, LiveRun
from edgetune.stages.schedule.verification import Verification
from edgetune.workloads.prepared import open_prepared

REPEATS = 5
MIB = 1 << 20
BASE = "import numpy, onnxruntime; print(open('/proc/self/statm').read())"


def base_bytes() -> int:
    """Return what Python with numpy and ONNX Runtime takes."""
    said = subprocess.run([sys.executable, "-c", BASE], env=_QUIET, capture_output=True, check=True, text=True).stdout
    return int(said.split()[1]) * 4096


def idle_bytes(folders: list[Path]) -> int:
    """Return what the process takes when it is ready to run the networks of some folders."""
    networks = []
    for folder in folders:
        prepared = open_prepared(folder)
        networks.append(LiveNetwork(network_of(prepared), prepared))
    with Verification() as verification:
        run = LiveRun(networks, [], LiveOptions("reuse", 1 << 30, enforce=False), verification)
        list(run.records())
        assert run.figures.base_bytes is not None
        return run.figures.base_bytes


def main(arguments: list[str]) -> None:
    """Print a table of medians."""
    base = statistics.median(base_bytes() for _ in range(REPEATS)) / MIB
    print(f"{'what':44}{'MiB':>8}{'more':>8}")
    print(f"{'Python with numpy and ONNX Runtime':44}{base:8.1f}")
    idle = statistics.median(idle_bytes([]) for _ in range(REPEATS)) / MIB
    print(f"{'ready, no networks':44}{idle:8.1f}{idle - base:+8.1f}")
    for folder in map(Path, arguments):
        ready = statistics.median(idle_bytes([folder]) for _ in range(REPEATS)) / MIB
        layers = len(open_prepared(folder).layers)
        print(f"{f'ready, {folder.name} with {layers} layers':44}{ready:8.1f}{ready - base:+8.1f}")


if __name__ == "__main__":
    main(sys.argv[1:])

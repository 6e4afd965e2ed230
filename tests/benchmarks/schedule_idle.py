"""What the process that runs networks takes before it runs any, and what of that is edgetune's own.

    python tests/benchmarks/schedule_idle.py [PREPARED ...]

Prepared folders add the sessions of their layers, which are made before the clock starts and kept. ``own`` is what is
no page of a file: pages of libraries are shared with every program that has them mapped, and can leave. The thesis
(section 7.5.2) has 4.8 MB for EdgeCaffe with idle workers, as valgrind counts its heap: a process of C++, without pages
of libraries. ``more`` is beside Python with numpy and ONNX Runtime, which bring no scheduler.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from edgetune.stages.schedule.costs import network_of
from edgetune.stages.schedule.executor import _QUIET
from edgetune.stages.schedule.live_run import LiveNetwork, LiveOptions, LiveRun
from edgetune.stages.schedule.run_inputs import RunInputs
from edgetune.workloads.prepared import open_prepared

REPEATS = 5
MIB = 1 << 20
READ = (
    "print(*(line.split()[1] for line in open('/proc/self/smaps_rollup') if line.startswith(('Rss:', 'Anonymous:'))))"
)
STEPS = {
    "Python": "",
    "Python with numpy": "import numpy; ",
    "Python with numpy and ONNX Runtime": "import onnxruntime; ",
}

Taken = tuple[float, float]
"""Resident, and of that no page of a file, MiB."""


def interpreter(imports: str) -> Taken:
    """Return what Python takes after some imports."""
    program = [sys.executable, "-c", imports + READ]
    said = subprocess.run(program, env=_QUIET, capture_output=True, check=True, text=True).stdout
    resident, own = (int(kib) / 1024 for kib in said.split())
    return resident, own


def idle(folders: list[Path]) -> Taken:
    """Return what the process takes when it is ready to run the networks of some folders."""
    networks = []
    for folder in folders:
        prepared = open_prepared(folder)
        networks.append(LiveNetwork(network_of(prepared), prepared))
    with tempfile.TemporaryDirectory() as folder:
        run = LiveRun(networks, [], LiveOptions("reuse", 1 << 30, enforce=False), RunInputs(Path(folder)))
        list(run.records())
        assert run.figures.base_bytes is not None
        return run.figures.base_bytes / MIB, (run.figures.base_anonymous_bytes or 0) / MIB


def tell(what: str, taken: list[Taken], base: Taken | None = None) -> Taken:
    """Print a line of medians and return them."""
    resident, own = (statistics.median(each) for each in zip(*taken, strict=True))
    more = "" if base is None else f"{resident - base[0]:+10.1f}{own - base[1]:+8.1f}"
    print(f"{what:44}{resident:10.1f}{own:8.1f}{more}", flush=True)
    return resident, own


def main(arguments: list[str]) -> None:
    """Print a table of medians."""
    print(f"{'MiB':44}{'resident':>10}{'own':>8}{'more':>10}{'own':>8}")
    for what, imports in STEPS.items():
        base = tell(what, [interpreter(imports) for _ in range(REPEATS)])
    tell("ready, no networks", [idle([]) for _ in range(REPEATS)], base)
    for folder in map(Path, arguments):
        layers = len(open_prepared(folder).layers)
        tell(f"ready, {folder.name} with {layers} layers", [idle([folder]) for _ in range(REPEATS)], base)
    print(f"{'EdgeCaffe with idle workers (thesis, heap)':44}{'':10}{4.8e6 / MIB:8.1f}")


if __name__ == "__main__":
    main(sys.argv[1:])

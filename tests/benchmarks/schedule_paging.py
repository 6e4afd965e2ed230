"""What paging costs on this machine: whole networks under limits that are below what they need, and swap beside it.

    python tests/benchmarks/schedule_paging.py --prepared FOLDER --costs FILE [--networks facenet,emotionnet]
                                               [--shares 0.9,0.8,0.7,0.6] [--requests 2] [-o FOLDER]

FOLDER is made by ``edgetune schedule prepare``, FILE by ``edgetune schedule profile FOLDER --cold --whole``. Each
network is run alone, whole and as ONNX Runtime opens it by default (``bulk:default``), which copies its weights, so
that it is anonymous memory that leaves; the kernel enforces shares of what loading it takes at the most. Every load and
execution is an observation: what was held, what it goes through, what it takes where everything fits (from FILE), and
what it took. Printed are the observations, the fit (``paging_fit``) and what it says of each. Swap must be on,
and other work on the machine shows.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from paging_fit import Observation, fit_paging

from edgetune.artifacts import io
from edgetune.artifacts.layer_costs import LayerCosts
from edgetune.artifacts.timeline import Timeline
from edgetune.stages.schedule.costs import Host, host_of
from edgetune.stages.schedule.network import Layer

JOBS = """kind: jobs
version: 1
memory: {limit}
networks:
  {name}: {folder}
jobs:
- name: images
  networks: [{name}]
  arrivals: batch
  count: {requests}
"""
_MIB = 1 << 20


def run(name: str, limit_mib: int, asked: argparse.Namespace, folder: Path) -> Timeline | None:
    """Run one network under a limit; nothing where the kernel killed it."""
    jobs, output = folder / f"{name}.yaml", folder / f"{name}-{limit_mib}.parquet"
    prepared = Path(asked.prepared).absolute() / name
    jobs.write_text(JOBS.format(name=name, folder=prepared, limit=f"{limit_mib}MiB", requests=asked.requests))
    command = [sys.executable, "-m", "edgetune", "schedule", "run", str(jobs), "--policy", "bulk:default", "--quiet"]
    command += ["--costs", asked.costs, "--limit", "cgroup", "-o", str(output)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{name} in {limit_mib} MiB: {done.stderr.strip()}")
        return None
    return io.read(Timeline, str(output))


def observations(timeline: Timeline, layer: Layer, limit_bytes: int) -> Iterator[tuple[str, Observation]]:
    """Yield what loads and executions took, and of what."""
    (turn,) = timeline.header.conditions["policies"]["bulk:default"]
    left_bytes = limit_bytes - turn["base_bytes"]
    for row in timeline.rows:
        if row.event in ("load", "execute") and row.started_s is not None:
            load = row.event == "load"
            held = layer.weight_bytes + (layer.load_scratch_bytes if load else layer.output_bytes)
            alone_s = layer.load_s if load else layer.execute_s
            yield row.event, Observation(held, left_bytes, held, alone_s, row.finished_s - row.started_s)


def measured(host: Host, asked: argparse.Namespace, folder: Path) -> Iterator[tuple[str, Observation]]:
    """Run every network under every limit and yield observations with what they are of."""
    for name in asked.networks.split(","):
        (layer,) = host.wholes["default"][name].layers
        peak_bytes = layer.weight_bytes + layer.load_scratch_bytes + (host.base_bytes or 0)
        for share in map(float, asked.shares.split(",")):
            limit_mib = round(share * peak_bytes / _MIB)
            timeline = run(name, limit_mib, asked, folder)
            if timeline is not None:
                for event, seen in observations(timeline, layer, limit_mib * _MIB):
                    yield f"{name} {event}", seen


def main() -> None:
    """Measure, fit and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prepared", required=True)
    parser.add_argument("--costs", required=True)
    parser.add_argument("--networks", default="facenet,scenenet,emotionnet")
    parser.add_argument("--shares", default="0.9,0.8,0.7,0.6")
    parser.add_argument("--requests", type=int, default=2)
    parser.add_argument("-o", "--output", default=None)
    asked = parser.parse_args()
    folder = Path(asked.output or tempfile.mkdtemp(prefix="paging-"))
    folder.mkdir(parents=True, exist_ok=True)
    host = host_of(io.read(LayerCosts, asked.costs))
    seen = list(measured(host, asked, folder))
    paging = fit_paging([observation for _, observation in seen])
    print(f"{'what':20} {'held MiB':>9} {'limit MiB':>9} {'alone ms':>9} {'took ms':>9} {'model ms':>9}")
    for what, each in seen:
        model_s = each.alone_s + paging.extra_s(each.touched_bytes, each.held_bytes, each.limit_bytes)
        sizes = f"{each.held_bytes / _MIB:9.0f} {each.limit_bytes / _MIB:9.0f}"
        print(f"{what:20} {sizes} {1e3 * each.alone_s:9.1f} {1e3 * each.took_s:9.1f} {1e3 * model_s:9.1f}")
    rate_mb = 1e-6 / paging.s_per_byte if paging.s_per_byte else float("inf")
    print(f"fit: {1e9 * paging.s_per_byte:.2f} ns per byte ({rate_mb:.0f} MB/s), thrash {paging.thrash:g}")
    print(f"timelines are in {folder}")


if __name__ == "__main__":
    main()

"""What measuring costs: edgetune's medians against a bare loop over the same ONNX Runtime session.

    python tests/benchmarks/profile_overhead.py [--network mobilenet_v3_large] [--batch-sizes 1,4,16] [--rounds 5]

For each batch size a bare loop (its own process, a dozen lines, nothing of edgetune in it) and edgetune's profiler
take turns of forty minibatches, A B A B, both loaded all the while, so that what else the machine does hits both
alike. Both start anew every round, because where a process happens to lie in memory is worth a percent. Printed are
the median over all turns of the ratio of medians, edgetune's time outside the workload, and how many minibatches
adaptive stopping took to an interval of 2 %, beside the interval that forty give. Nothing is asserted: a busy machine
shows in the turns.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import Point
from edgetune.devices.cpu import usable_cpus
from edgetune.devices.host import open_host
from edgetune.stages.profiling.options import ProfileOptions
from edgetune.stages.profiling.profiler import open_profiler
from edgetune.stats import summarise
from edgetune.workloads import zoo
from edgetune.workloads.resolve import resolve

BARE_LOOP = """
import json, sys, time
import numpy, onnxruntime
path, batch_size, threads = sys.argv[1], *map(int, sys.argv[2:])
options = onnxruntime.SessionOptions()
options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
options.add_free_dimension_override_by_name("batch", batch_size)
session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
wanted = session.get_inputs()[0]
feed = {wanted.name: numpy.random.default_rng(0).random([batch_size, *wanted.shape[1:]], dtype=numpy.float32)}
for line in sys.stdin:
    times = []
    for _ in range(int(line)):
        begun = time.perf_counter()
        session.run(None, feed)
        times.append(time.perf_counter() - begun)
    print(json.dumps(times), flush=True)
"""
TURN = 40
TURNS = 2


class BareLoop:
    """A plain loop in its own process, run for as many minibatches as asked."""

    def __init__(self, path: Path, batch_size: int) -> None:
        arguments = [str(path), str(batch_size), str(len(usable_cpus()))]
        self._process = subprocess.Popen(
            [sys.executable, "-c", BARE_LOOP, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, minibatches: int) -> list[float]:
        """Return the time of each minibatch, s."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(minibatches, file=self._process.stdin, flush=True)
        times: list[float] = json.loads(self._process.stdout.readline())
        return times

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def compare(path: Path, batch_size: int, rounds: int) -> None:
    """Measure one batch size in turns and print what came of it."""
    device, workload = open_host(), resolve(str(path))
    point = Point(workload.name, "infer", batch_size, Mode(cpu_cores=len(usable_cpus())))
    ratios: list[float] = []
    overheads: list[float] = []
    for _ in range(rounds):
        with (
            contextlib.closing(BareLoop(path, batch_size)) as loop,
            open_profiler(device, workload, "infer", ProfileOptions(minibatches=TURN)) as profiler,
        ):
            loop.run(TURN)  # warm-up; edgetune finds its own
            for _ in range(TURNS):
                bare_s = statistics.median(loop.run(TURN))
                attempt = profiler.attempts(point)[-1]
                ours = summarise((attempt.row.times_s or ())[-TURN:])
                ratios.append(ours.median / bare_s)
                overheads.append(attempt.overhead or 0.0)
                print(
                    f"  bare {bare_s * 1e3:8.3f} ms   edgetune {ours.median * 1e3:8.3f} ms   ratio {ratios[-1]:.4f}"
                    f"   overhead {overheads[-1]:.2%}   interval of {TURN}: ±{ours.half_width:.2%}"
                )
    with open_profiler(device, workload, "infer", ProfileOptions()) as profiler:
        rows = [profiler.measure(point) for _ in range(rounds)]
    taken = [f"{row.minibatches}+{row.warmups}" for row in rows]
    typical = statistics.median((row.minibatches or 0) + (row.warmups or 0) for row in rows)
    print(
        f"batch {batch_size}: ratio of medians {statistics.median(ratios):.4f}, "
        f"overhead {statistics.median(overheads):.2%}, "
        f"adaptive stopping took (steady+warm-up) {', '.join(taken)} minibatches, "
        f"in the median {typical / TURN:.2f} of {TURN}\n"
    )


def main() -> None:
    """Run the comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", default="mobilenet_v3_large")
    parser.add_argument("--batch-sizes", default="1,4,16")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.onnx"
        zoo.export(arguments.network, path, batch_size=None)
        for batch_size in map(int, arguments.batch_sizes.split(",")):
            compare(path, batch_size, arguments.rounds)


if __name__ == "__main__":
    main()

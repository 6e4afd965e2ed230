"""Peaks that edgetune measures on this host against bare loops of libraries over the same kernels.

    python tests/benchmarks/peaks.py [--kernels matmul:2048,relu:8192,copy:8192,transpose:8192] [--rounds 2]

For each kernel a bare loop of each library (its own process, a dozen lines, nothing of edgetune in it) and edgetune's
profiler take turns, so that what else the machine does hits all of them alike. Printed are the median rate of each,
in operations for products and in bytes for everything else, and edgetune's divided by the bare one: 1.00 is as fast as
a bare loop, more is faster. Products are compared with ONNX Runtime too, which edgetune takes where it is the fastest.
NumPy copies and compares on one thread, so that its ratio shows how many there are. Nothing is asserted: a busy machine
shows in the turns.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import subprocess
import sys

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import Point
from edgetune.devices.cpu import usable_cpus
from edgetune.devices.host import open_host
from edgetune.stages.profiling.options import ProfileOptions
from edgetune.stages.profiling.profiler import open_profiler
from edgetune.stages.roofline.kernel_plan import REPETITIONS
from edgetune.workloads.kernels import PREFIX, parse_kernel
from edgetune.workloads.resolve import resolve

BARE_LOOP = """
import json, sys, time
library, kernel, n, threads = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
if library == "torch":
    import torch
    torch.set_num_threads(threads)
    x, b, y = torch.randn(n, n), torch.randn(n, n), torch.empty(n, n)
    runs = {
        "matmul": lambda: torch.mm(x, b, out=y), "relu": lambda: torch.clamp_min(x, 0, out=y),
        "transpose": lambda: y.copy_(x.t()), "copy": lambda: y.copy_(x),
    }
elif library == "onnxruntime":
    import numpy, onnxruntime
    from onnx import helper
    node = helper.make_node("MatMul", ["x", "b"], ["y"])
    values = [helper.make_tensor_value_info(name, 1, [n, n]) for name in "xby"]
    graph = helper.make_graph([node], "product", values[:2], values[2:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    feed = {name: numpy.random.default_rng(0).standard_normal((n, n), dtype=numpy.float32) for name in "xb"}
    runs = {"matmul": lambda: session.run(None, feed)}
else:
    import numpy
    x, b = (numpy.random.default_rng(seed).standard_normal((n, n), dtype=numpy.float32) for seed in (0, 1))
    y = numpy.zeros_like(x)
    runs = {
        "matmul": lambda: numpy.matmul(x, b, out=y), "relu": lambda: numpy.maximum(x, 0, out=y),
        "transpose": lambda: numpy.copyto(y, x.T), "copy": lambda: numpy.copyto(y, x),
    }
run = runs[kernel]
run()
for line in sys.stdin:
    times = []
    for _ in range(int(line)):
        begun = time.perf_counter()
        run()
        times.append(time.perf_counter() - begun)
    print(json.dumps(times), flush=True)
"""


TURNS = 8


class BareLoop:
    """A plain loop of one library in its own process, run for as many repetitions as asked."""

    def __init__(self, library: str, kernel: str, size: int) -> None:
        arguments = [library, kernel, str(size), str(len(usable_cpus()))]
        self._process = subprocess.Popen(
            [sys.executable, "-c", BARE_LOOP, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, repetitions: int) -> list[float]:
        """Return the time of each repetition, s."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(repetitions, file=self._process.stdin, flush=True)
        times: list[float] = json.loads(self._process.stdout.readline())
        return times

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def compare(reference: str, rounds: int) -> None:
    """Measure one kernel in turns and print what came of it."""
    device, workload, kernel = open_host(), resolve(reference), parse_kernel(reference)
    point = Point(workload.name, "infer", 1, Mode(cpu_cores=len(usable_cpus())))
    work, unit = (kernel.flops, "GFLOP/s") if kernel.inner else (kernel.bytes_moved, "GB/s")
    libraries = ("torch", "numpy", "onnxruntime") if kernel.inner else ("torch", "numpy")
    rates: dict[str, list[float]] = {name: [] for name in ("edgetune", *libraries)}
    for _ in range(rounds):
        with contextlib.ExitStack() as stack:
            loops = {name: BareLoop(name, kernel.name, kernel.rows) for name in libraries}
            for loop in loops.values():
                stack.enter_context(contextlib.closing(loop))
            options = ProfileOptions(minibatches=REPETITIONS)
            profiler = stack.enter_context(open_profiler(device, workload, "infer", options))
            for _ in range(TURNS):
                for name, loop in loops.items():
                    rates[name].append(work / statistics.median(loop.run(REPETITIONS)) / 1e9)
                run_s = (profiler.measure(point).minibatch_s or float("nan")) / kernel.repeats
                rates["edgetune"].append(work / run_s / 1e9)
    ours = statistics.median(rates["edgetune"])
    print(f"{reference}: edgetune {ours:.1f} {unit}")
    for name in libraries:
        turns = [mine / bare for mine, bare in zip(rates["edgetune"], rates[name], strict=True)]
        low, middle, high = statistics.quantiles(turns, n=4)
        bare = statistics.median(rates[name])
        print(f"  bare {name} {bare:.1f} {unit}, ratio {middle:.3f} (half of the turns within {low:.2f} to {high:.2f})")


def main() -> None:
    """Run the comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", default="matmul:2048,relu:8192,copy:8192,transpose:8192")
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args()
    for name in arguments.kernels.split(","):
        compare(PREFIX + name, arguments.rounds)


if __name__ == "__main__":
    main()

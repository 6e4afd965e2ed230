"""What edgetune costs, and whether ``edgetune measure`` agrees with other tools.

    python tests/benchmarks/overhead.py [--only help,times,memory,points]

help      each ``--help`` beside ``import typer``, both from bytecode, as where pip installed them
times     medians of ten commands from 2 ms to 5 s beside those of hyperfine, which runs without a shell (-N) too
memory    peaks of five commands beside those of GNU time, which has the largest process of a command, where edgetune
          has the sum of its processes if that is more
points    for each batch size of a network the medians of a bare loop over the same ONNX Runtime session (its own
          process, a dozen lines, nothing of edgetune in it) and of edgetune's profiler, both loaded all the while and
          started anew every round, because where a process lies in memory is worth a percent; edgetune's time outside
          the workload, and how many minibatches adaptive stopping took beside forty

Those compared take turns. hyperfine and GNU time are Debian's packages ``hyperfine`` and ``time``; where one is
missing, its part says so. ``times`` and ``points`` need a quiet machine and about five minutes each. Nothing is
asserted.
"""

import argparse
import contextlib
import json
import os
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import Point
from edgetune.cli.app import COMMANDS
from edgetune.devices.cpu import usable_cpus
from edgetune.devices.host import open_host
from edgetune.stages.profiling.options import ProfileOptions
from edgetune.stages.profiling.profiler import Profiler
from edgetune.stats import summarise
from edgetune.workloads import zoo
from edgetune.workloads.resolve import resolve

ROUNDS, RUNS = 15, 10
TIMED = [
    "true", "sleep 0.005", "sleep 0.02", "python3 -S -c pass", "python3 -c 'sum(range(10**6))'",
    "python3 -c 'import json, decimal'", "sh -c 'head -c 50000000 /dev/zero | sha256sum'", "sleep 0.3", "sleep 1",
    "sleep 5",
]  # fmt: skip
FILLING = [
    "python3 -c 'bytearray(100 << 20)'",
    "python3 -c 'x = bytearray(800 << 20); del x; bytearray(50 << 20)'",
    "python3 -c 'import time; x = [bytes(1000) for _ in range(300000)]; time.sleep(1)'",
    f"{shlex.quote(sys.executable)} -c 'import torch; torch.randn(2000, 2000) @ torch.randn(2000, 2000)'",
    "sh -c 'head -c 300000000 /dev/zero | tail > /dev/null'",
]


def of_help() -> None:
    """Print the median time of each ``--help``, and its ratio to ``import typer``."""
    lines = {"import typer": ["-c", "import typer"], "edgetune --help": ["-m", "edgetune", "--help"]}
    lines |= {f"edgetune {name} --help": ["-m", "edgetune", name, "--help"] for name in COMMANDS}
    times_s: dict[str, list[float]] = {name: [] for name in lines}
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory() as bytecode:
        environment["PYTHONPYCACHEPREFIX"] = bytecode
        for turn in range(1 + ROUNDS):
            for name, argv in lines.items():
                started_s = time.perf_counter()
                subprocess.run([sys.executable, *argv], check=True, stdout=subprocess.DEVNULL, env=environment)
                if turn:  # the first writes the bytecode
                    times_s[name].append(time.perf_counter() - started_s)
    base_s = statistics.median(times_s["import typer"])
    for name, values in times_s.items():
        median_s = statistics.median(values)
        print(f"{name:24} {1e3 * median_s:6.1f} ms   {median_s / base_s:.2f} x import typer")


def of_times() -> None:
    """Print the medians of commands by edgetune and by hyperfine."""
    if shutil.which("hyperfine") is None:
        print("times: hyperfine is not installed")
        return
    for command in TIMED:
        both = [(measured(command, RUNS)["minibatch_s"], by_hyperfine(command)) for _ in range(2)]
        ours_s, theirs_s = (statistics.median(each) for each in zip(*both, strict=True))
        told = f"{ours_s * 1e3:8.2f} ms {theirs_s * 1e3:8.2f} ms   {(ours_s - theirs_s) * 1e3:+6.2f} ms"
        print(f"{command[:44]:44} {told}", flush=True)


def of_memory() -> None:
    """Print the peak memory of commands by edgetune and by GNU time."""
    if shutil.which("/usr/bin/time") is None:
        print("memory: GNU time is not installed")
        return
    for command in FILLING:
        ours, theirs = measured(command, 5)["memory_peak_bytes"], max(by_gnu_time(command) for _ in range(5))
        shown = command.replace(sys.executable, "python3")[:44]
        print(f"{shown:44} {int(ours) >> 20:6} MiB {theirs >> 20:6} MiB   {ours / theirs - 1:+.1%}", flush=True)


def measured(command: str, runs: int) -> dict[str, float]:
    """Return the row of ``edgetune measure``."""
    words = [sys.executable, "-m", "edgetune", "measure", "--device", "host", "--json", "--runs", str(runs), command]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    row: dict[str, float] = json.loads(done.stdout)["rows"][0]
    return row


def by_hyperfine(command: str) -> float:
    """Return the median of hyperfine, s."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "times.json"
        words = ["hyperfine", "-N", "--warmup", "2", "--runs", str(RUNS), "--export-json", str(file), command]
        subprocess.run(words, check=True, capture_output=True)
        return float(json.loads(file.read_text())["results"][0]["median"])


def by_gnu_time(command: str) -> int:
    """Return the peak of GNU time, bytes."""
    words = ["/usr/bin/time", "-v", *shlex.split(command)]
    said = subprocess.run(words, check=True, capture_output=True, text=True).stderr
    found = re.search(r"Maximum resident set size \(kbytes\): (\d+)", said)
    assert found is not None
    return int(found[1]) << 10


BARE_LOOP = """
import json, sys, time
import numpy, onnxruntime
path, batch_size, threads = sys.argv[1], *map(int, sys.argv[2:])
options = onnxruntime.SessionOptions()
options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
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


def compare_points(path: Path, batch_size: int, rounds: int) -> None:
    """Measure one batch size in turns and print what came of it."""
    device, workload = open_host(), resolve(str(path))
    point = Point(workload.name, "infer", batch_size, Mode(cpu_cores=len(usable_cpus())))
    ratios: list[float] = []
    overheads: list[float] = []
    for _ in range(rounds):
        with (
            contextlib.closing(BareLoop(path, batch_size)) as loop,
            Profiler(device, workload, "infer", ProfileOptions(minibatches=TURN)) as profiler,
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
    with Profiler(device, workload, "infer", ProfileOptions()) as profiler:
        rows = [profiler.measure(point) for _ in range(rounds)]
    taken = [f"{row.minibatches}+{row.warmups}" for row in rows]
    typical = statistics.median((row.minibatches or 0) + (row.warmups or 0) for row in rows)
    print(
        f"batch {batch_size}: ratio of medians {statistics.median(ratios):.4f}, "
        f"overhead {statistics.median(overheads):.2%}, "
        f"adaptive stopping took (steady+warm-up) {', '.join(taken)} minibatches, "
        f"in the median {typical / TURN:.2f} of {TURN}\n"
    )


def of_points() -> None:
    """Print what measuring a network costs, by batch size."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.onnx"
        zoo.export("mobilenet_v3_large", path, batch_size=None)
        for batch_size in (1, 4, 16):
            compare_points(path, batch_size, rounds=5)


PARTS = {"help": of_help, "times": of_times, "memory": of_memory, "points": of_points}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(PARTS))
    for part in parser.parse_args().only.split(","):
        PARTS[part]()


if __name__ == "__main__":
    main()

"""Start-up of ``edgetune``, and the times and memory that ``edgetune measure`` says commands take.

    python tests/benchmarks/startup.py [--only help,times,memory]

help      each ``--help`` beside ``import typer``, both from bytecode, as where pip installed them
times     medians of ten commands from 2 ms to 5 s beside those of hyperfine, which runs without a shell (-N) too
memory    peaks of five commands beside those of GNU time, which has the largest process of a command, where edgetune
          has the sum of its processes if that is more

Those compared take turns. hyperfine and GNU time are Debian's packages ``hyperfine`` and ``time``; where one is
missing, its part says so. ``times`` needs a quiet machine and about five minutes.
"""

from __future__ import annotations

import argparse
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

from edgetune.cli.app import COMMANDS

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


PARTS = {"help": of_help, "times": of_times, "memory": of_memory}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(PARTS))
    for part in parser.parse_args().only.split(","):
        PARTS[part]()


if __name__ == "__main__":
    main()

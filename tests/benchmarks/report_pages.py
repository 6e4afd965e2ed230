"""Size, time and memory of pages: of profiles of 50, 2,000 and 20,000 points, and of a run of a million requests.

    python tests/benchmarks/report_pages.py [--requests 1000000]

Each page is made by the command, in a process of its own: its time and peak memory include the start of Python.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from edgetune.artifacts import io
from edgetune.artifacts.header import Header
from edgetune.artifacts.profile import Profile, ProfileRow
from edgetune.artifacts.run import Run, RunRow


def profile(points: int) -> Profile:
    """Return a profile of that many modes, with random times and powers."""
    chance = random.Random(0)
    rows = []
    for number in range(points):
        speed = chance.uniform(0.1, 1.0)
        time_s, power_w = 0.05 / speed * chance.uniform(1, 1.2), 8 + 30 * speed**2 * chance.uniform(1, 1.2)
        rows.append(
            ProfileRow(
                "resnet18", "infer", 1, gpu_mhz=100.0 + number, device="board", minibatch_s=time_s, power_w=power_w,
                minibatch_ci95_low_s=0.99 * time_s, minibatch_ci95_high_s=1.01 * time_s, minibatches=20,
            )
        )  # fmt: skip
    return Profile(_header("profile", 2), tuple(rows))


def run(requests: int) -> Run:
    """Return a run of that many requests, a thousand a second, four in a minibatch."""
    chance, rows = random.Random(0), []
    for number in range(requests):
        arrived_s = number / 1000
        finished_s = arrived_s + 0.002 + chance.expovariate(100)
        rows.append(
            RunRow(
                "managed", "request", finished_s, "net", arrived_s=arrived_s, started_s=arrived_s + 0.002,
                deadline_s=arrived_s + 0.05, met=finished_s < arrived_s + 0.05, minibatch=number // 4, batch_size=4,
                samples=4,
            )
        )  # fmt: skip
    return Run(_header("run", 1), tuple(rows))


def _header(kind: str, version: int) -> Header:
    return Header(kind, version, "2026-01-01T00:00:00Z", "edgetune", {}, {"device": "board"})


def measured(file: Path) -> tuple[float, int, int]:
    """Make the page of a file; return its time, s, peak memory, bytes, and size, bytes."""
    page = file.with_suffix(".html")
    begun_s = time.monotonic()
    words = [sys.executable, "-m", "edgetune", "report", str(file), "-o", str(page), "--quiet"]
    process = subprocess.Popen(words, start_new_session=True)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return time.monotonic() - begun_s, usage.ru_maxrss << 10, page.stat().st_size


def main() -> None:
    """Print a row for each page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=1_000_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        files = {f"profile of {points:,} points": Path(name) / f"{points}.parquet" for points in (50, 2_000, 20_000)}
        for file in files.values():
            io.write(profile(int(file.stem)), file)
        last = Path(name) / "run.parquet"
        # In a process of its own: a child inherits the peak of its parent.
        code = "from report_pages import run; from edgetune.artifacts import io; "
        code += f"io.write(run({options.requests}), {str(last)!r})"
        subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parent)
        files[f"run of {options.requests:,} requests"] = last
        for what, file in files.items():
            took_s, peak_bytes, size_bytes = measured(file)
            print(
                f"{what:28} {took_s:6.2f} s  {peak_bytes / 1e6:5.0f} MB of memory  {size_bytes / 1e6:6.2f} MB of page"
            )


if __name__ == "__main__":
    main()

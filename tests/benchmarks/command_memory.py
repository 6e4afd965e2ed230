"""Compares the peak memory that ``edgetune measure`` reports with that of GNU time on five commands.

    python tests/benchmarks/command_memory.py

Prints both and by how much they are apart; GNU time (Debian's package ``time``) gives the largest process of a command,
edgetune the sum of its processes where that is more. Load on the machine does not matter.
"""

import json
import re
import shlex
import shutil
import subprocess
import sys

COMMANDS = [
    "python3 -c 'bytearray(100 << 20)'",
    "python3 -c 'x = bytearray(800 << 20); del x; bytearray(50 << 20)'",
    "python3 -c 'import time; x = [bytes(1000) for _ in range(300000)]; time.sleep(1)'",
    f"{shlex.quote(sys.executable)} -c 'import torch; torch.randn(2000, 2000) @ torch.randn(2000, 2000)'",
    "sh -c 'head -c 300000000 /dev/zero | tail > /dev/null'",
]
RUNS = 5


def by_edgetune(command: str) -> int:
    """Return the peak of edgetune, bytes."""
    words = [sys.executable, "-m", "edgetune", "measure", "--device", "host", "--json", "--runs", str(RUNS), command]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    return int(json.loads(done.stdout)["rows"][0]["memory_peak_bytes"])


def by_gnu_time(command: str) -> int:
    """Return the peak of GNU time, bytes: the most of as many runs."""
    peaks = []
    for _ in range(RUNS):
        done = subprocess.run(
            ["/usr/bin/time", "-v", *shlex.split(command)], check=True, capture_output=True, text=True
        )
        peaks.append(int(re.search(r"Maximum resident set size \(kbytes\): (\d+)", done.stderr)[1]) << 10)
    return max(peaks)


def main() -> None:
    """Measure and print."""
    if shutil.which("/usr/bin/time") is None:
        sys.exit("GNU time is not installed: apt-get install time")
    print(f"{'command':76} {'edgetune':>10} {'GNU time':>10} {'apart':>7}")
    missed = 0
    for command in COMMANDS:
        ours, theirs = by_edgetune(command), by_gnu_time(command)
        good = abs(ours / theirs - 1) <= 0.05
        missed += not good
        shown = command.replace(sys.executable, "python3")
        note = "" if good else "  NOT within 5 %"
        print(f"{shown[:76]:76} {ours >> 20:6} MiB {theirs >> 20:6} MiB {ours / theirs - 1:+7.1%}{note}", flush=True)
    print(f"{len(COMMANDS) - missed} of {len(COMMANDS)} within 5 %")


if __name__ == "__main__":
    main()

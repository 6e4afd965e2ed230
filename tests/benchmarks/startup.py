"""Print how long ``edgetune --help`` takes, as a ratio to ``import typer`` measured in the same run.

python tests/benchmarks/startup.py

Both run from bytecode, as where pip installed them: without it Python compiles each module of edgetune anew, which
takes 15 to 30 ms.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time

from edgetune.cli.app import COMMANDS

ROUNDS = 15


def took_s(argv: list[str], environment: dict[str, str]) -> float:
    """Return the time one process takes, s."""
    started_s = time.perf_counter()
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, env=environment)
    return time.perf_counter() - started_s


def main() -> None:
    """Measure in turns, so that a slow spell of the machine meets all alike, and print medians."""
    lines = {"import typer": ["-c", "import typer"], "edgetune --help": ["-m", "edgetune", "--help"]}
    lines |= {f"edgetune {name} --help": ["-m", "edgetune", name, "--help"] for name in COMMANDS}
    times_s: dict[str, list[float]] = {name: [] for name in lines}
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory() as bytecode:
        environment["PYTHONPYCACHEPREFIX"] = bytecode
        for turn in range(1 + ROUNDS):
            for name, argv in lines.items():
                time_s = took_s([sys.executable, *argv], environment)
                if turn:  # the first writes the bytecode
                    times_s[name].append(time_s)
    base_s = statistics.median(times_s["import typer"])
    for name, values in times_s.items():
        median_s = statistics.median(values)
        print(f"{name:24} {1e3 * median_s:6.1f} ms   {median_s / base_s:.2f} x import typer")


if __name__ == "__main__":
    main()

"""What a window of `edgetune.measure` costs: by itself, inside another one, and there in several threads at once.

    python tests/benchmarks/windows.py [--device host] [--windows 5000] [--threads 4]

Printed are the median and 95th percentile of an empty window, from one run, and their ratio to 50 us, the goal for
windows inside another.
Nothing is asserted: a busy machine shows in them.
"""

from __future__ import annotations

import argparse
import statistics
import threading
import time

import edgetune

GOAL_S = 50e-6


def costs_s(device: str, windows: int) -> list[float]:
    """Return the time of each of many empty windows, s."""
    found = []
    for _ in range(windows):
        begun_s = time.perf_counter()
        with edgetune.measure(device):
            pass
        found.append(time.perf_counter() - begun_s)
    return found


def show(what: str, found: list[float]) -> None:
    """Print one row."""
    median, high = statistics.median(found), statistics.quantiles(found, n=20)[-1]
    told = f"median {median * 1e6:6.1f} us ({median / GOAL_S:.2f} of the goal)"
    print(f"{what:12} {told}, 95 % below {high * 1e6:6.1f} us ({high / GOAL_S:.2f})")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="host")
    parser.add_argument("--windows", type=int, default=5000)
    parser.add_argument("--threads", type=int, default=4)
    words = parser.parse_args()
    together: list[float] = []
    show("by itself", costs_s(words.device, words.windows // 10))
    with edgetune.measure(words.device):
        show("nested", costs_s(words.device, words.windows))
        each = words.windows // words.threads
        threads = [
            threading.Thread(target=lambda: together.extend(costs_s(words.device, each))) for _ in range(words.threads)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    show(f"{words.threads} threads", together)


if __name__ == "__main__":
    main()

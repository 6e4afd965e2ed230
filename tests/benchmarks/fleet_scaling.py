"""How a sweep scales with its boards: real processes that sleep, and the dispatcher alone with up to 1,000 boards.

    python tests/benchmarks/fleet_scaling.py [--boards 2,4,8] [--point 60] [--simulated 10,100,1000]

A real board is a fake Jetson whose workload sleeps for as long as a point is said to take, so that two cores suffice
for eight boards. The efficiency is the time that all points took, divided by the time of the sweep and by the boards.
The dispatcher alone hands out modes that take milliseconds of a virtual clock; its cost is the time of this process.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from edgetune.artifacts.io import read_profile
from edgetune.testing.fake_board import make_board
from edgetune.workflows.fleet.sweep import FleetSweep
from fakes.local_fleet import LocalFleet, words_of
from fakes.simulated_boards import SimulatedBoards, points_of

WORKLOAD = """
import time

def make(batch_size):
    return lambda: time.sleep(batch_size)
"""
POINTS_PER_BOARD = 3


def real(count: int, point_s: int) -> str:
    """Return the efficiency of a sweep on so many boards."""
    with tempfile.TemporaryDirectory() as name, LocalFleet(Path(name)) as fleet:
        folder = Path(name)
        (folder / "load.py").write_text(WORKLOAD)
        for board in range(count):
            make_board(folder / f"board-{board}")
            fleet.join(
                f"b{board}", "--device", "jetson", "--root", str(folder / f"board-{board}"), "--allow-code",
                XDG_STATE_HOME=str(folder / f"state-{board}"),
            )  # fmt: skip
        words = words_of(fleet.device, f"gpu_mhz=114:1300:{POINTS_PER_BOARD},cpu_cores=1:12:{count}", (1,))
        began_s = time.monotonic()
        how = ("--minibatches", str(point_s), "--anchors", "0", "-q", "-o", "s.parquet")
        sweep = fleet.run("profile", "load.py", *words, *how, name="sweep")
        if sweep.wait() != 0:
            raise RuntimeError(fleet.log("sweep"))
        wall_s = time.monotonic() - began_s
        rows = read_profile(folder / "s.parquet").rows
        spent_s = sum(row.duration_s or 0.0 for row in rows)
    share = spent_s / wall_s / count
    return f"{count} boards: {len(rows)} points of {spent_s / len(rows):.1f} s in {wall_s:.0f} s: {share:.3f} of linear"


def simulated(count: int, modes_per_board: int) -> str:
    """Return what the dispatcher costs with so many boards."""
    boards = SimulatedBoards(
        {f"b{n}": 1 + n / count / 100 for n in range(count)}, points_of(count * modes_per_board), table=False
    )
    sweep = FleetSweep(boards, {"sweep": "s", "options": {}, "files": {}}, anchors=0, now_s=boards.clock_s)
    sweep.open()
    began_s = time.perf_counter()
    sweep.run(sweep.points)
    cost_s = time.perf_counter() - began_s
    points = len(sweep.points)
    ideal_s = sum(100 / point.mode.gpu_mhz for point in sweep.points) / count
    share = f"{ideal_s / boards.now_s:.2f} of linear in virtual time"
    return f"{count} boards, {points} points: {cost_s / points * 1e6:.0f} us a point; {share}"


def main() -> None:
    """Print one line for each number of boards."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--boards", default="2,4,8")
    parser.add_argument("--point", type=int, default=60)
    parser.add_argument("--simulated", default="1,10,100,1000")
    asked = parser.parse_args()
    for count in filter(None, asked.simulated.split(",")):
        print(simulated(int(count), 20), flush=True)
    for count in filter(None, asked.boards.split(",")):
        print(real(int(count), asked.point), flush=True)


if __name__ == "__main__":
    main()

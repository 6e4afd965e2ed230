"""Kill, freeze and starve a fleet of three fake boards that may differ, through real processes of Dask here.

    python tests/benchmarks/fleet_faults.py [--kills 30] [--scheduler-kills 5] [--only NAME] [--seed 0]
    python tests/benchmarks/fleet_faults.py --scaling [--boards 2,4,8] [--point 60] [--simulated 1,10,100,1000]

Each board is a fake Jetson with a guardian of its own. The workload notes when each of its processes works. After each
fault: every point is in the table, none twice from one board; no two processes worked on one board at one time; every
file of every board is as before.

``--scaling`` shows how a sweep scales with its boards. The workload then sleeps for as long as a point is said to take,
so that two cores suffice for eight boards. The efficiency is the time that all points took, divided by the time of the
sweep and by the boards. The dispatcher alone hands out modes that take milliseconds of a virtual clock to up to 1,000
boards; its cost is the time of this process.
"""

import argparse
import random
import re
import signal
import sys
import tempfile
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from edgetune.artifacts.io import read_profile
from edgetune.stages.profiling.boards import on_common_board
from edgetune.testing.fake_board import make_board
from edgetune.workflows.fleet.sweep import FleetSweep
from fakes.local_fleet import LocalFleet, until, words_of
from fakes.simulated_boards import SimulatedBoards, points_of

BOARDS = ("a", "b", "c")
WORKLOAD = """
import os, time

board, differ = os.environ["FLEET_BOARD"], "FLEET_DIFFER" in os.environ

def make(batch_size):
    def step():
        begin = time.monotonic()
        slower = 1.06 if board == "b" else 1.1 if board == "c" and os.path.exists("DRIFT") else 1.0
        time.sleep(0.03 * slower if differ else 0.01)
        if batch_size == 7:  # a mode that crashes its board: end the worker, the parent's parent
            parent = int(open(f"/proc/{os.getppid()}/stat").read().rpartition(")")[2].split()[1])
            os.kill(parent, 9)
        try:
            with open(os.environ["FLEET_LOG"], "a") as log:
                log.write(f"{board} {os.getpid()} {begin} {time.monotonic()}\\n")
        except OSError:
            pass  # the disk of the board is full
    return step
"""
MODES = "gpu_mhz=306:1300:{0},mem_mhz=2133:3199:2"


class Case:
    """A fleet with a workload on three fake boards, and what must hold of it."""

    def __init__(self, folder: Path, fleet: LocalFleet) -> None:
        self.folder, self.fleet = folder, fleet
        (folder / "load.py").write_text(WORKLOAD.replace("DRIFT", str(folder / "drift")))
        self.before = {}
        for board in BOARDS:
            make_board(folder / f"board-{board}")
            self.before[board] = settings(folder / f"board-{board}")

    def join(self, board: str, **how: object) -> None:
        log = {"FLEET_LOG": str(self.folder / "work.log"), "FLEET_BOARD": board}
        where = ("--device", "jetson", "--root", str(self.folder / f"board-{board}"))
        self.fleet.join(board, *where, "--allow-code", **how, **log)

    def sweep(self, output: str, modes: str, sizes: tuple[int, ...] = (1,)) -> object:
        words = words_of(self.fleet.device, modes, sizes)
        how = ("--minibatches", "20", "--anchors", "1", "--board-tolerance", "90%", "-o", output)
        return self.fleet.run("profile", "load.py", *words, *how, name=f"sweep-{output}")

    def check(self, output: str, *, failed: int = 0) -> str:
        """Return what the table has.

        Raises:
            AssertionError: a point is missing, or there twice from one board; or two processes worked at once.
        """
        rows, log = read_profile(self.folder / output).rows, self.fleet.log(f"sweep-{output}")
        points = int(re.findall(r"([0-9]+) points on", log)[0])
        measured = Counter((row.board, row.point, row.round) for row in rows if row.status == "ok")
        assert max(measured.values()) == 1, f"twice: {measured.most_common(1)}"
        found = {point for _, point, _ in measured}
        assert len(found) == points - failed, f"{len(found)} of {points} points: {log}"
        overlaps = self.overlaps()
        assert not overlaps, f"two processes at once: {overlaps[:3]}"
        repeats = len({(board, point) for board, point, number in measured if number is None}) - len(
            {point for _, point, number in measured if number is None}
        )
        by = Counter(board for board, _, _ in measured)
        return f"{len(found)} points, {dict(sorted(by.items()))} by board, {repeats} repeats of another board"

    def overlaps(self) -> list[tuple[str, ...]]:
        """Return the pairs of processes that worked on one board at one time."""
        found = []
        lines = [line.split() for line in (self.folder / "work.log").read_text().splitlines()]
        for board in BOARDS:
            spans: dict[str, list[float]] = {}
            for _, pid, begin, end in (line for line in lines if line[0] == board):
                spans.setdefault(pid, [float(begin), float(end)])[1] = float(end)
            ordered = sorted(spans.items(), key=lambda item: item[1])
            found += [(board, a, b) for (a, first), (b, second) in pairwise(ordered) if second[0] < first[1]]
        return found

    def restored(self) -> None:
        """Check that every board is as before.

        Raises:
            AssertionError: a file differs.
        """
        for board in BOARDS:
            root, before = self.folder / f"board-{board}", self.before[board]
            until(
                lambda root=root, before=before: settings(root) == before,
                f"{board} is changed: {settings(root).items() - before.items()}; {self.fleet.log(board)}",
                30,
            )


def settings(root: Path) -> dict[str, bytes]:
    """Return the limits of clocks of a fake board, and which cores are on."""
    kept = [*root.rglob("*min_freq"), *root.rglob("*max_freq"), *root.rglob("online"), *root.rglob("*mrq_rate_locked")]
    return {str(path): path.read_bytes().strip() for path in sorted(kept) if path.is_file()}


def kill_workers(case: Case, chance: random.Random, kills: int) -> str:
    """Kill a worker at random moments, through as many sweeps as it takes."""
    done, said = 0, []
    while done < kills:
        output = f"kills-{len(said)}.parquet"
        sweep = case.sweep(output, MODES.format(8))
        while sweep.poll() is None:
            time.sleep(chance.uniform(0.5, 8.0))
            if sweep.poll() is None and done < kills:
                done += case.fleet.signal_worker(chance.choice(BOARDS), signal.SIGKILL)
        if sweep.returncode == 5:  # a mode was killed on two boards: the same command tries it again
            assert case.sweep(output, MODES.format(8)).wait() == 0
        said.append(case.check(output))
    return f"{done} kills; " + "; ".join(said)


def kill_scheduler(case: Case, chance: random.Random, kills: int) -> str:
    """Kill the scheduler at random moments and start it again."""
    sweep, done = case.sweep("scheduler.parquet", MODES.format(12)), 0
    while sweep.poll() is None:
        time.sleep(chance.uniform(8.0, 20.0))
        if done < kills and sweep.poll() is None:
            case.fleet.scheduler.kill()
            case.fleet.scheduler.wait()
            time.sleep(chance.uniform(0.0, 3.0))
            case.fleet.start()
            done += 1
    assert sweep.returncode == 0, (sweep.returncode, case.fleet.log("sweep-scheduler.parquet"))
    return f"{done} kills; {case.check('scheduler.parquet')}"


def freeze_worker(case: Case, chance: random.Random, _: int) -> str:
    """Freeze a worker for longer than the scheduler waits for it."""
    sweep = case.sweep("frozen.parquet", MODES.format(12))
    until(lambda: "a " in (case.folder / "work.log").read_text(), "a measures", 120)
    time.sleep(chance.uniform(5.0, 15.0))
    case.fleet.signal_worker("a", signal.SIGSTOP)
    pid = case.fleet.worker("a")
    time.sleep(75)
    if case.fleet.worker("a") == pid:
        case.fleet.signal_worker("a", signal.SIGCONT)
    sweep.wait()
    return f"exit code {sweep.returncode}; {case.check('frozen.parquet')}"


def fill_disk(case: Case, *_: object) -> str:
    """Give one board no room for its journal beyond its first points."""
    case.fleet.end(case.fleet.boards["c"])
    (case.folder / "c.log").write_text("")
    case.join("c", limit_kib=24)
    sweep = case.sweep("full.parquet", MODES.format(8))
    sweep.wait()
    log = case.fleet.log("sweep-full.parquet")
    case.fleet.end(case.fleet.boards["c"])
    (case.folder / "c.log").write_text("")
    case.join("c")
    assert "board c is left out: cannot write the journal" in log, log
    return f"exit code {sweep.returncode}; {case.check('full.parquet')}"


def crash_boards(case: Case, *_: object) -> str:
    """Measure a batch size that ends the worker of any board."""
    sweep = case.sweep("crash.parquet", "gpu_mhz=306:1300:2", (1, 7))
    sweep.wait()
    assert sweep.returncode == 5, case.fleet.log("sweep-crash.parquet")
    rows = read_profile(case.folder / "crash.parquet").rows
    failed = [row for row in rows if row.status == "failed"]
    assert {row.batch_size for row in failed} == {7}, failed
    return f"exit code {sweep.returncode}; {case.check('crash.parquet', failed=2)}; {failed[0].reason}"


def differ(case: Case, *_: object) -> str:
    """Make a board 6 % slower and have one drift by 10 %: the factors say so, and divided by them tables are one."""
    for board in BOARDS:
        case.fleet.end(case.fleet.boards[board])
        (case.folder / f"{board}.log").write_text("")
        case.join(board, FLEET_DIFFER="1")
    sweep = case.sweep("differ.parquet", MODES.format(8))
    state = case.folder / "state-c"
    until(lambda: any(b"minibatch_s" in each.read_bytes() for each in state.rglob("*.j*") if each.is_file()), "c", 300)
    (case.folder / "drift").touch()
    assert sweep.wait() == 0, case.fleet.log("sweep-differ.parquet")
    table = read_profile(case.folder / "differ.parquet")
    of = table.header.conditions["boards"]["of"]
    slower = of["b"]["time"]["ratio"] / of["a"]["time"]["ratio"]
    assert abs(slower / 1.06 - 1) < 0.015, of
    assert of["c"]["drift_time"] > 1.05, of
    common = [row.minibatch_s for row in on_common_board(table).rows if row.board in ("a", "b")]
    spread = max(common) / min(common)
    assert spread < 1.05, spread
    said = f"b is {slower:.3f} times a, c drifted by {of['c']['drift_time'] - 1:+.1%}"
    return f"{said}; divided by the factors the times of a and b differ by at most {spread - 1:.1%}"


FAULTS = {
    "worker killed": kill_workers,
    "scheduler killed": kill_scheduler,
    "worker frozen": freeze_worker,
    "disk full": fill_disk,
    "mode crashes": crash_boards,
    "boards differ": differ,
}


SLEEP = """
import time

def make(batch_size):
    return lambda: time.sleep(batch_size)
"""
POINTS_PER_BOARD = 3


def real(count: int, point_s: int) -> str:
    """Return the efficiency of a sweep on so many boards."""
    with tempfile.TemporaryDirectory() as name, LocalFleet(Path(name)) as fleet:
        folder = Path(name)
        (folder / "load.py").write_text(SLEEP)
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
    """Run the faults one after the other, or print one line for each number of boards."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--scheduler-kills", type=int, default=5)
    parser.add_argument("--only", choices=FAULTS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scaling", action="store_true")
    parser.add_argument("--boards", default="2,4,8")
    parser.add_argument("--point", type=int, default=60)
    parser.add_argument("--simulated", default="1,10,100,1000")
    asked = parser.parse_args()
    if asked.scaling:
        for count in filter(None, asked.simulated.split(",")):
            print(simulated(int(count), 20), flush=True)
        for count in filter(None, asked.boards.split(",")):
            print(real(int(count), asked.point), flush=True)
        return
    for name, fault in FAULTS.items():
        if asked.only not in (None, name):
            continue
        began_s = time.monotonic()
        with tempfile.TemporaryDirectory() as folder, LocalFleet(Path(folder)) as fleet:
            case = Case(Path(folder), fleet)
            (Path(folder) / "work.log").touch()
            for board in BOARDS:
                case.join(board)
            kills = asked.scheduler_kills if "scheduler" in name else asked.kills
            said = fault(case, random.Random(asked.seed), kills)
            for process in fleet.boards.values():
                fleet.end(process)
            case.restored()
        print(f"{name}: {said}; every board put back; {time.monotonic() - began_s:.0f} s", flush=True)


if __name__ == "__main__":
    main()

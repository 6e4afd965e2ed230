"""Every board, every write of setting two modes and putting them back, every fault: is the board as it was found?

    python tests/benchmarks/guardian_matrix.py                     all boards, kernels and faults; prints the size
    python tests/benchmarks/guardian_matrix.py jetson-nano

A fault either kills the guardian (before or after the write takes effect, or with the power of the whole board), is a
signal, or makes the write fail, do nothing or end at another value; ``stuck`` makes every write from there on fail.
After it one guardian more is started, as the next command would; then every setting must be as found and the journal
gone.
"""

import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from edgetune.devices.guardian.controls import open_jetson_control
from edgetune.devices.jetson.catalog import board_names, load_board
from edgetune.testing.fake_board import make_board
from edgetune.testing.fake_device import FakeClock
from edgetune.testing.fake_guardian import Outcome, apply_line, guard
from edgetune.testing.fake_kernel import FakeKernel, Killed

KILLS = ("kill-before", "kill-after", "power-cut")
SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")
MISHAPS = ("EINVAL", "EBUSY", "EACCES", "ignored", "clamped", "stuck")
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
"""Where files need no disk: a case writes some hundred."""
_MOST_WRITES = 400  # more than any run has, retries included
FAULTS = KILLS + SIGNALS + MISHAPS


@dataclass(frozen=True)
class Case:
    """One fault at one write of one board."""

    board: str
    kernel: str
    write: int
    fault: str


class Bench:
    """One fake board on which case after case is tried; a case that leaves it otherwise than found is told."""

    def __init__(self, root: Path, board: str, kernel: str, **behaviour: object) -> None:
        self.root = root
        self.clock = FakeClock()
        self.kernel: FakeKernel = make_board(root, board, kernel=kernel, clock=self.clock, **behaviour)
        self.found = self.kernel.settings()
        tables = self.control().space.knobs
        low = {knob: values[0] for knob, values in tables.items()}
        middle = {knob: values[len(values) // 2] for knob, values in tables.items()}
        self.lines = (apply_line(1, **middle), apply_line(2, **low))
        self.settable = self.control().settable
        self.kernel.forget_writes()
        outcome = self.guard(*self.lines)
        assert (outcome.code, [reply["ok"] for reply in outcome.replies]) == (0, [True, True]), outcome
        self.size = len(self.kernel.writes)

    def control(self):
        return open_jetson_control(self.kernel, sleep=self.clock.sleep_s)

    def guard(self, *lines: bytes) -> Outcome:
        return guard(self.control(), self.root, *lines)

    def journalled(self) -> bool:
        return (self.root / "var/lib/edgetune/jetson.run.json").exists()

    def as_found(self) -> bool:
        return self.kernel.settings() == self.found and not self.journalled()

    def attempt(self, write: int, fault: str) -> str:
        """Meet a fault, start another guardian, and say how it ended: ``killed``, ``ended 0`` or ``ended 6``.

        Raises:
            AssertionError: something is not as it should be.
        """
        self.kernel.forget_writes()
        self._plan(write, fault)
        try:
            outcome = self.guard(*self.lines)
        except Killed:
            self.kernel.revive()
            how = "killed"
            assert fault in KILLS
        else:
            how = f"ended {outcome.code}"
            assert fault not in KILLS
            assert (outcome.code, self.as_found()) in ((0, True), (6, False)), outcome
            assert self.journalled() == (outcome.code == 6)
            assert outcome.code == 0 or outcome.errors.startswith("error: jetson is not as it was found: /sys/")
        (self.root / ".fake-kernel/faults").unlink(missing_ok=True)
        again = self.guard()
        assert (again.code, again.errors) == (0, "")
        assert self.as_found(), differences(self.found, self.kernel.settings())
        assert {path for path, _ in self.kernel.writes} <= self.settable
        return how

    def _plan(self, write: int, fault: str) -> None:
        if fault == "stuck":
            for later in range(write, _MOST_WRITES):
                self.kernel.fail_at(later, "EBUSY")
        else:
            number = getattr(signal, fault, None)
            self.kernel.fail_at(write, fault if number is None else lambda *_: os.kill(os.getpid(), number))


def differences(before: dict, after: dict) -> dict:
    return {path: (before.get(path), after.get(path)) for path in before | after if before.get(path) != after.get(path)}


def cases(bench: Bench, board: str, kernel: str, faults: tuple[str, ...]) -> Iterator[Case]:
    for write in range(1, bench.size + 1):
        for fault in faults:
            yield Case(board, kernel, write, fault)


def run(boards: list[str]) -> int:
    total, failed = Counter(), 0
    for board in boards:
        for kernel in load_board(board).kernels:
            begun_s = time.monotonic()
            with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
                root = Path(folder) / "root"
                bench = Bench(root, board, kernel)
                ended = Counter()
                for case in cases(bench, board, kernel, FAULTS):
                    try:
                        ended[bench.attempt(case.write, case.fault)] += 1
                    except AssertionError as error:
                        failed += 1
                        print(f"FAILED {case}: {error}")
                        shutil.rmtree(root)
                        bench = Bench(root, board, kernel)
            total += ended
            took_s = time.monotonic() - begun_s
            print(
                f"{board} {kernel}: {bench.size} writes x {len(FAULTS)} faults: {dict(ended)}, {took_s:.0f} s",
                flush=True,
            )
    print(f"{total.total() + failed} cases, {failed} left a board otherwise than found; {dict(total)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:] or board_names()))

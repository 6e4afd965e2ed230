"""Every board, every write of setting two modes and putting them back, every fault: is the board as it was found?

    python tests/benchmarks/guardian_matrix.py                     all boards, kernels and faults; prints the size
    python tests/benchmarks/guardian_matrix.py jetson-nano

    python tests/benchmarks/guardian_matrix.py --modes             the same with a second power mode chosen meanwhile
    python tests/benchmarks/guardian_matrix.py --signals           every signal at every write of one board each kernel
    python tests/benchmarks/guardian_matrix.py --requests 100000   whatever may be sent, to one board each kernel

A fault either kills the guardian (before or after the write takes effect, or with the power of the whole board), is a
signal, or makes the write fail, do nothing or end at another value; ``stuck`` makes every write from there on fail.
After it one guardian more is started, as the next command would; then every setting must be as found and the journal
gone. Where another nvpmodel mode is chosen at any step, every setting must be as that choice alone would have left it.

Requests are valid ones, valid ones with bytes changed, cut or doubled, values beside the table, huge, negative or no
numbers, keys and paths that do not belong, deep nesting, lines of 70 kB, and noise. The guardian is then a process of
its own. Nothing may be written but values of the board's tables; when its input ends, and a mode that was kept is
undone, every setting must be as found.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from edgetune.devices.guardian.controls import open_jetson_control
from edgetune.devices.jetson.catalog import board_names, load_board
from edgetune.testing import fake_nvpmodel
from edgetune.testing.fake_board import make_board
from edgetune.testing.fake_cpu import policies
from edgetune.testing.fake_jetson import FakeClock, fake_guardian_command
from edgetune.testing.fake_kernel import FakeKernel, Killed
from fakes.guardian_calls import GuardianResult, apply_line, guard, request_line

KILLS = ("kill-before", "kill-after", "power-cut")
SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")
MISHAPS = ("EINVAL", "EBUSY", "EACCES", "ignored", "clamped", "stuck")
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
"""Where files need no disk: a case writes some hundred."""
_MOST_WRITES = 400  # more than any run has, retries included
FAULTS = KILLS + SIGNALS + MISHAPS
EVERY_SIGNAL = tuple(
    int(number)
    for number in sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})
    if number != signal.SIGCONT
)
ONE_OF_EACH_KERNEL = {
    "4.9": "jetson-xavier-nx",
    "5.10": "jetson-orin-nano-8gb",
    "5.15": "jetson-agx-orin-64gb",
    "6.8": "jetson-agx-thor",
}


Case = tuple[str, Callable[[], object]]
"""What is tried, and what tries it: raises ``AssertionError`` where the board is otherwise than it should be."""


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

    def guard(self, *lines: bytes) -> GuardianResult:
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


class ModeBench(Bench):
    """A board on which another nvpmodel mode is chosen, at any write, by somebody who knows nothing of the run."""

    def __init__(self, root: Path, board: str, kernel: str, **behaviour: object) -> None:
        super().__init__(root, board, kernel, **behaviour)
        self.first = str(self._active().id)
        self.others = [str(preset.id) for preset in self.kernel.board.presets.modes if str(preset.id) != self.first]
        self.expected = {}
        self._spent = set()  # series whose next guardian has no write of that number any more
        for other in self.others:
            if self.kernel.nvpmodel(other) == 0:
                self.expected[other] = self.kernel.settings()
            self._back()

    def _active(self):
        return fake_nvpmodel.active(self.kernel, self.kernel.board)

    def _back(self) -> None:
        """Start the board anew in its first mode."""
        shutil.rmtree(self.root / "var/lib/edgetune", ignore_errors=True)
        fake_nvpmodel.choose(self.kernel, self.kernel.board, self.first)
        self.kernel.power_cut()
        assert self.kernel.settings() == self.found

    def _choose_at(self, write: int, other: str) -> list[int]:
        """Let the mode be chosen before the write of that number; the list that is returned then has an entry."""
        done = []
        self.kernel.fail_at(write, lambda *_: done.append(self.kernel.nvpmodel(other)))
        return done

    def _require(self, other: str) -> None:
        wrong = differences(self.expected[other], self.kernel.settings())
        assert not self.journalled()
        wrong = {path: pair for path, pair in wrong.items() if not self._of_a_cluster_that_is_off(path)}
        assert not wrong, wrong

    def _of_a_cluster_that_is_off(self, path: str) -> bool:
        """Whether a limit is of a cluster that the mode leaves off: nvpmodel may have found it off, and set nothing."""
        return "scaling_m" in path and not any(
            path.startswith(policy.folder) for policy in policies(self.kernel, self.kernel.board) if policy.cores_on
        )

    def live(self, write: int, other: str) -> None:
        """Choose the mode at a write of a run that goes on and ends of itself."""
        done = self._choose_at(write, other)
        outcome = self.guard(*self.lines)
        assert (outcome.code, done) == (0, [0]), outcome
        self._require(other)
        self._back()

    def killed(self, write: int, other: str, later: int = 0) -> bool:
        """Kill a run, choose the mode before the next guardian, or at its write ``later``: false if it has fewer."""
        if (write, other) in self._spent:
            return False
        self.kernel.fail_at(write, "kill-after")
        try:
            self.guard(*self.lines)
        except Killed:
            self.kernel.revive()
        done = self._choose_at(later, other) if later else [self.kernel.nvpmodel(other)]
        outcome = self.guard()
        assert (outcome.code, outcome.errors.startswith("error")) == (0, False), outcome
        return self._end(write, other, reached=bool(done))

    def _end(self, write: int, other: str, *, reached: bool) -> bool:
        if reached:
            self._require(other)
        else:
            self._spent.add((write, other))
        self.kernel.forget_faults()
        self._back()
        return reached

    def kept(self, other: str, later: int = 0) -> bool:
        """The same after a mode was kept, and ``undo`` asked for."""
        if (0, other) in self._spent:
            return False
        assert self.guard(self.lines[-1], request_line(2, "keep")).code == 0
        done = self._choose_at(later, other) if later else [self.kernel.nvpmodel(other)]
        outcome = self.guard(request_line(1, "undo"))
        assert (outcome.code, outcome.replies[0]["ok"]) == (0, True), outcome
        return self._end(0, other, reached=bool(done))

    def steps(self) -> Iterator[tuple[str, int, str, Callable[[], object]]]:
        """Yield every case: what it is, at which write, to which mode, and what tries it."""
        for other in self.expected:
            for write in range(1, self.size + 1):
                yield "live", write, other, partial(self.live, write, other)
                yield "killed", write, other, partial(self.killed, write, other)
                if write % (self.size // 3) == 0:
                    for later in range(1, self.size + 1):
                        yield f"restoring {later}", write, other, partial(self.killed, write, other, later)
            for later in range(self.size + 1):
                yield "kept", later, other, partial(self.kept, other, later)


def differences(before: dict, after: dict) -> dict:
    return {path: (before.get(path), after.get(path)) for path in before | after if before.get(path) != after.get(path)}


def signalled(bench: Bench, write: int, number: int) -> None:
    """Send the guardian a signal at a write, and require that it ends with 0 and the board as found."""
    bench.kernel.fail_at(write, lambda *_: os.kill(os.getpid(), number))
    outcome = bench.guard(*bench.lines)
    assert (outcome.code, outcome.errors) == (0, ""), outcome
    assert bench.as_found(), differences(bench.found, bench.kernel.settings())
    ends = number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    assert ends or [reply["ok"] for reply in outcome.replies] == [True, True], outcome


def every_signal(bench: Bench) -> Iterator[Case]:
    """Yield each signal at each write."""
    for write in range(1, bench.size + 1):
        for number in EVERY_SIGNAL:
            yield f"signal {number} at write {write}", partial(signalled, bench, write, number)


def every_fault(bench: Bench) -> Iterator[Case]:
    """Yield each fault at each write."""
    for write in range(1, bench.size + 1):
        for fault in FAULTS:
            yield f"{fault} at write {write}", partial(bench.attempt, write, fault)


def every_mode(bench: Bench) -> Iterator[Case]:
    """Yield each other mode chosen at each step."""
    assert isinstance(bench, ModeBench)
    for what, write, other, attempt in bench.steps():
        yield f"{what}, write {write}, mode {other}", attempt


def run(
    boards: list[tuple[str, str]],
    make: Callable[..., Bench],
    cases: Callable[[Bench], Iterator[Case]],
    every: int,
    **behaviour,
) -> int:
    """Try one case in ``every`` of every board, print how they ended, and return the exit code."""
    total, failed = Counter(), 0
    for board, kernel in boards:
        begun_s, ended = time.monotonic(), Counter()
        with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
            root = Path(folder) / "root"
            bench = make(root, board, kernel, **behaviour)
            for place in range(0, len(list(cases(bench))), every):
                what, attempt = next(islice(cases(bench), place, None))
                try:
                    told = attempt()
                    ended[told if isinstance(told, str) else "not reached" if told is False else "done"] += 1
                except AssertionError as error:
                    failed += 1
                    print(f"FAILED {board} {kernel}, {what}: {error}")
                    shutil.rmtree(root)
                    bench = make(root, board, kernel, **behaviour)
        total += ended
        took_s = time.monotonic() - begun_s
        print(
            f"{board} {kernel}: {bench.size} writes, {ended.total()} cases: {dict(ended)}, {took_s:.0f} s", flush=True
        )
    print(f"{total.total() + failed} cases, {failed} left a board otherwise than it should be; {dict(total)}")
    return 1 if failed else 0


SWITCHES = {"0", "1", "on", "auto"}
"""What is written to files that are no clocks: cores, locks, and whether the GPU may sleep."""
NASTY = [0, -1, 1e308, -0.0, 2**63, 10**30, 0.1, True, None, "200", "NaN", [], {}, "/etc/passwd", "\u0000", "\ud800"]
REQUESTS = ["hello", "read", "restore", "keep", "undo", "left", "forget"]
WORDS = ["path", "value", "root", "file", "write", "mode", "id", "request", "__class__", "../../etc/passwd", "cpu_mhz"]


class Sender:
    """Makes requests for a board, the same ones for the same seed."""

    def __init__(self, knobs: dict, seed: int) -> None:
        self.knobs = {knob: list(values) for knob, values in knobs.items()}
        self.random = random.Random(seed)
        self.kinds = [
            (self.mode, 3),
            (self.plain, 10),
            (self.changed, 40),
            (self.beside, 20),
            (self.strange, 15),
            (self.noise, 10),
            (self.deep, 1.5),
            (self.long, 0.5),
        ]

    def line(self) -> bytes:
        make = self.random.choices([kind for kind, _ in self.kinds], [weight for _, weight in self.kinds])[0]
        return make().replace(b"\n", b" ") + b"\n"

    def _request(self, request: str, **more: object) -> dict:
        return {"id": self.random.randrange(1000), "request": request, **more}

    def _subset(self) -> dict:
        chosen = self.random.sample(sorted(self.knobs), self.random.randint(0, len(self.knobs)))
        return {knob: self.random.choice(self.knobs[knob]) for knob in chosen}

    def mode(self) -> bytes:
        return json.dumps(self._request("apply", mode=self._subset())).encode()

    def plain(self) -> bytes:
        return json.dumps(self._request(self.random.choice(REQUESTS))).encode()

    def changed(self) -> bytes:
        line = bytearray(self.mode())
        for _ in range(self.random.randint(1, 4)):
            at = self.random.randrange(len(line))
            line[at : at + self.random.randint(0, 3)] = self.random.randbytes(self.random.randint(0, 3))
        return bytes(line)

    def beside(self) -> bytes:
        knob = self.random.choice([*self.knobs, "power_limit_w", *WORDS])
        near = self.random.choice(self.knobs.get(knob, [1.0]))
        value = self.random.choice([near + 1, near * 2, near + 1e-9, -near, near * 1000, *NASTY])
        return json.dumps(self._request("apply", mode={**self._subset(), knob: value})).encode()

    def strange(self) -> bytes:
        more = {self.random.choice(WORDS): self.random.choice(NASTY) for _ in range(self.random.randint(1, 3))}
        value: object = {
            **self._request(self.random.choice(["apply", "hello", "write", ""]), mode=self._subset()),
            **more,
        }
        return json.dumps(value if self.random.random() < 0.9 else [value]).encode()

    def noise(self) -> bytes:
        return self.random.randbytes(self.random.randint(1, 200))  # an empty line is a heartbeat

    def deep(self) -> bytes:
        return self.random.choice([b"[", b'{"mode":', b'{"a":[']) * self.random.randint(1, 8000)

    def long(self) -> bytes:
        return self.mode() + b" " * 70_000


def flood(root: Path, board: str, requests: int, seed: int) -> Counter:
    """Send requests to the guardian of a fake board and return how many it carried out and refused, by reason.

    Raises:
        AssertionError: it wrote what it may not, lost a reply, or left the board otherwise than found.
    """
    kernel = make_board(root, board)
    control = open_jetson_control(kernel)
    found, snapshot, knobs = kernel.settings(), control.snapshot(), control.space.knobs
    sender = Sender(dict(knobs), seed)
    guardian = subprocess.Popen(
        fake_guardian_command(root, "--hurried"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )

    def send() -> None:
        with guardian.stdin:
            for _ in range(requests):
                guardian.stdin.write(sender.line())

    thread = threading.Thread(target=send)
    thread.start()
    told = Counter(_outcome(json.loads(line)) for line in guardian.stdout)
    thread.join()
    errors = guardian.stderr.read()
    guardian.stdout.close()
    guardian.stderr.close()
    assert (guardian.wait(), errors) == (0, b"")
    assert told.total() == requests
    undone = subprocess.run(fake_guardian_command(root, "--restore", "--hurried"), capture_output=True, check=False)
    assert (undone.returncode, undone.stderr) == (0, b"")
    assert kernel.settings() == found, differences(found, kernel.settings())
    clocks = {
        str(round(value * scale)) for values in knobs.values() for value in values for scale in (1_000, 1_000_000)
    }
    for path, value in kernel.writes:
        assert path in control.settable, path
        assert value in clocks | SWITCHES | {snapshot.get(path)}, (path, value)
    told["writes"] = len(kernel.writes)
    return told


def _outcome(reply: dict) -> str:
    return "carried out" if reply["ok"] else reply["type"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("boards", nargs="*", help="all by default")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--modes", action="store_true", help="choose another nvpmodel mode at every step")
    what.add_argument("--signals", action="store_true", help="send every signal at every write")
    what.add_argument("--requests", type=int, metavar="N", help="send N requests of all kinds to each board")
    parser.add_argument("--seed", type=int, default=0, help="of the requests")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="try one case in N")
    asked = parser.parse_args()
    if asked.requests:
        for board in asked.boards or ONE_OF_EACH_KERNEL.values():
            with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
                told = flood(Path(folder) / "root", board, asked.requests, asked.seed)
            print(f"{asked.requests} requests to {board}, seed {asked.seed}: {dict(told)}; as found", flush=True)
        return 0
    boards = [(board, kernel) for board in asked.boards or board_names() for kernel in load_board(board).kernels]
    if asked.signals:
        return run([(board, kernel) for kernel, board in ONE_OF_EACH_KERNEL.items()], Bench, every_signal, asked.every)
    if asked.modes:  # no GPU context yet: nvpmodel then asks for no reboot
        return run(boards, ModeBench, every_mode, asked.every, golden_context=False)
    return run(boards, Bench, every_fault, asked.every)


if __name__ == "__main__":
    sys.exit(main())

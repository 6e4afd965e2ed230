"""Whatever is sent to the guardian of a board: nothing is written but values of its tables, and it ends as found.

    python tests/benchmarks/guardian_fuzz.py                     100,000 requests
    python tests/benchmarks/guardian_fuzz.py --requests 5000 --seed 7 --board jetson-nano

Requests are valid ones, valid ones with bytes changed, cut or doubled, values beside the table, huge, negative or no
numbers, keys and paths that do not belong, deep nesting, lines of 70 kB, and noise. The guardian is a process of its
own over a fake board. When its input ends, and a mode that was kept is undone, every setting must be as found.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from guardian_matrix import MEMORY, differences

from edgetune.devices.guardian.controls import open_jetson_control
from edgetune.testing.fake_board import make_board
from edgetune.testing.fake_jetson import fake_guardian_command

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
        return self.random.randbytes(self.random.randint(0, 200))

    def deep(self) -> bytes:
        return self.random.choice([b"[", b'{"mode":', b'{"a":[']) * self.random.randint(1, 8000)

    def long(self) -> bytes:
        return self.mode() + b" " * 70_000


def fuzz(root: Path, board: str, requests: int, seed: int) -> Counter:
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--board", default="jetson-agx-orin-64gb")
    asked = parser.parse_args()
    begun_s = time.monotonic()
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        told = fuzz(Path(folder) / "root", asked.board, asked.requests, asked.seed)
    took_s = time.monotonic() - begun_s
    print(f"{asked.requests} requests to {asked.board}, seed {asked.seed}: {dict(told)}; {took_s:.0f} s")
    print("every write was a value of the tables, or one that was found; the board is as it was found")


if __name__ == "__main__":
    sys.exit(main())

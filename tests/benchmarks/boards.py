"""Every board of the catalogue, on every kernel and with every table of clocks that is published for it: found,
listed, set and put back, on a fake kernel.

    python tests/benchmarks/boards.py                               all boards, 50 random modes of each
    python tests/benchmarks/boards.py jetson-agx-orin-64gb --modes 200

Exit code 1 when a board is taken for another, a knob is missing, a mode reads back otherwise than set, or one setting
is not as it was found. No board is behind any of it.
"""

import argparse
import itertools
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from pathlib import Path

from guardian_matrix import MEMORY, differences

from edgetune.artifacts.mode import KNOBS, Mode
from edgetune.devices.guardian.controls import open_jetson_control
from edgetune.devices.jetson.catalog import board_names, board_of_module, load_board
from edgetune.devices.jetson.detect import detect_jetson
from edgetune.devices.modes import parse_modes
from edgetune.errors import DeviceError
from edgetune.testing.fake_board import make_board
from edgetune.testing.fake_clock import FakeClock
from edgetune.testing.fake_description import describe
from edgetune.testing.fake_jetson import open_fake_jetson

WORDS = {"cpu_cores": "cores", "cpu_mhz": "CPU", "gpu_mhz": "GPU", "mem_mhz": "memory"}


@dataclass(frozen=True)
class Build:
    """One board as it may be met: its kernel, and which of its published tables."""

    board: str
    kernel: str
    tables: tuple[int, int, int]
    super_dt: bool = False

    @property
    def options(self) -> dict[str, object]:
        cpu, gpu, emc = self.tables
        return {
            "kernel": self.kernel, "cpu_table": cpu, "gpu_table": gpu, "emc_table": emc, "super_dt": self.super_dt
        }  # fmt: skip

    def __str__(self) -> str:
        cpu, gpu, emc = self.tables
        variant = " super" if self.super_dt else ""
        return f"{self.board}{variant}, kernel {self.kernel}, tables {cpu} {gpu} {emc}"


@dataclass
class Found:
    """What came of a build."""

    offered: dict[str, int]
    modes: int
    tried: int = 0
    wrong: list[str] = field(default_factory=list)


def builds(board: str) -> Iterator[Build]:
    """Yield every build of a board that differs from the ones before."""
    entry = load_board(board)
    seen = set()
    variants = sorted({False, *(file.needs_super for file in entry.presets)})
    for kernel, super_dt in itertools.product(entry.kernels, variants):
        for tables in itertools.product(*(range(len(each)) for each in (entry.cpu, entry.gpu, entry.emc))):
            build = Build(board, kernel, tables, super_dt)
            made = describe(board, **build.options)
            key = (kernel, super_dt, made.cpu_khz, made.gpu_khz, made.emc_khz)
            if key not in seen:
                seen.add(key)
                yield build


def examine(build: Build, modes: int, seed: int = 0) -> Found:
    """Make the board, look at it as the command does, and set and put back random modes, those above its caps too."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        clock = FakeClock(10**18)
        kernel = make_board(Path(folder), build.board, clock=clock, **build.options)
        space = open_fake_jetson(Path(folder), clock=clock).modes.space
        knobs = {knob: len(space.knobs[knob]) for knob in KNOBS if knob in space.knobs}
        found = Found(knobs, len(parse_modes("all", space)))
        if found.modes != prod(knobs.values()):
            found.wrong.append(f"{found.modes} modes are listed of {prod(knobs.values())}")
        found.wrong += [f"{knob} is fixed: {why}" for knob, why in space.fixed.items()]
        entry = board_of_module(detect_jetson(kernel).module or "")
        if entry is None or entry.name != build.board:
            found.wrong.append(f"taken for {entry and entry.name}")
        before, control = kernel.settings(), open_jetson_control(kernel, beyond_caps=True, sleep=clock.sleep_s)
        rng = random.Random(f"{seed} {build}")
        for _ in range(modes):
            mode = Mode.of({knob: rng.choice(values) for knob, values in control.space.knobs.items()})
            found.wrong += set_and_put_back(control, mode)
            found.wrong += [
                f"{mode}: /{path} was {old!r}, is {new!r}"
                for path, (old, new) in differences(before, kernel.settings()).items()
            ]
            found.tried += 1
        if before == {} or (modes and not kernel.writes):
            found.wrong.append("nothing was written")
        return found


def set_and_put_back(control, mode: Mode) -> list[str]:
    """Set a mode and put back what was found; return what went wrong, a sentence each."""
    found, wrong = control.snapshot(), []
    try:
        back = control.apply(mode, found)
        if back != mode:
            wrong.append(f"{mode} reads back as {back}")
    except DeviceError as error:
        wrong.append(f"{mode}: {error.message}")
    return [*wrong, *control.restore(found)]


def told(build: Build, found: Found, took_s: float) -> str:
    sizes = " x ".join(f"{count} {WORDS[knob]}" for knob, count in found.offered.items())
    return (
        f"{build}: {sizes} = {found.modes} modes; {found.tried} set and put back, "
        f"{len(found.wrong)} differences, {took_s:.1f} s"
    )


def run(boards: list[str], modes: int, seed: int = 0) -> int:
    print("FAKE boards: a fake kernel answers as the catalogue and the kernel's sources say; no board is behind it.")
    count = tried = wrong = 0
    for build in itertools.chain.from_iterable(map(builds, boards)):
        begun_s = time.monotonic()
        found = examine(build, modes, seed)
        print(told(build, found, time.monotonic() - begun_s), flush=True)
        for sentence in found.wrong:
            print(f"  WRONG {sentence}")
        count, tried, wrong = count + 1, tried + found.tried, wrong + len(found.wrong)
    print(f"boards: {len(boards)}, builds: {count}, modes set and put back: {tried}, differences: {wrong}")
    return 1 if wrong else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("boards", nargs="*", metavar="BOARD", help="names of the catalogue; all by default")
    parser.add_argument("--modes", type=int, default=50, metavar="N", help="random modes of each")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    sys.exit(run(asked.boards or list(board_names()), asked.modes, asked.seed))

"""A board of three settings for the guardian's tests; run as a program its guardian: toy_board.py ROOT [--restore]."""

import argparse
import errno
import sys
from functools import partial
from pathlib import Path

from edgetune.artifacts.mode import Mode
from edgetune.devices.capabilities import ModeSpace
from edgetune.devices.control import BoardControl
from edgetune.devices.guardian.program import run
from edgetune.devices.sysfs import why
from edgetune.errors import DeviceError
from edgetune.testing.fake_files import Answer, KernelFiles, refuse

LOW, HIGH, MEMORY = "sys/toy/gpu/min_freq", "sys/toy/gpu/max_freq", "sys/toy/emc/rate"
CLOCKS = (100, 200, 300, 400)
FOUND = {LOW: "100", HIGH: "400", MEMORY: "800"}
TABLES = {LOW: {str(clock) for clock in CLOCKS}, HIGH: {str(clock) for clock in CLOCKS}, MEMORY: {"800", "1600"}}


class ToyKernel(KernelFiles):
    """Three files, of which the lower limit may never pass the upper one, as on kernel 4.9."""

    def __init__(self, root):
        super().__init__(root)
        self.answers = {path: Answer(write=partial(self._keep, path)) for path in (LOW, HIGH)}

    def settings(self):
        return {path: self.raw(path) for path in FOUND}

    def _keep(self, path, value):
        low, high = (int(value if path == end else self.raw(end)) for end in (LOW, HIGH))
        if low > high:
            refuse(errno.EINVAL, path)
        self.put(path, value)


def make_toy(root):
    kernel = ToyKernel(root)
    for path, value in {**FOUND, "proc/sys/kernel/random/boot_id": "boot-1"}.items():
        kernel.put(path, value)
    for folder in ("run", "var/lib"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    return kernel


def power_cut(root):
    """Everything volatile as a start of the machine leaves it, which is not what was found."""
    for path, value in {LOW: "100", HIGH: "300", MEMORY: "800", "proc/sys/kernel/random/boot_id": "boot-2"}.items():
        (root / path).write_text(value + "\n")


class ToyControl(BoardControl):
    name = "toy"

    def __init__(self, kernel):
        self._kernel = kernel
        self.space = ModeSpace(
            knobs={"gpu_mhz": tuple(map(float, CLOCKS)), "mem_mhz": (800.0, 1600.0)},
            presets={"MAXN": Mode(gpu_mhz=400.0, mem_mhz=1600.0)},
            fixed={"cpu_mhz": "a toy has no CPU"},
        )

    def snapshot(self):
        return {path: self._kernel.read(path) for path in FOUND}

    def apply(self, mode, found):
        gpu = (found[LOW], found[HIGH]) if mode.gpu_mhz is None else (f"{mode.gpu_mhz:g}",) * 2
        memory = found[MEMORY] if mode.mem_mhz is None else f"{mode.mem_mhz:g}"
        try:
            self._set(*gpu, memory)
        except OSError as error:
            raise DeviceError(f"{error.filename}: {why(error)}", "try another mode") from None
        read = self.read()
        if any(read.knobs().get(knob) != value for knob, value in mode.knobs().items()):
            raise DeviceError(f"asked for {mode}, reads back as {read}", "try another mode")
        return read

    def _set(self, low, high, memory):
        self._write(LOW, str(CLOCKS[0]))
        self._write(HIGH, high)
        self._write(LOW, low)
        self._write(MEMORY, memory)

    def _write(self, path, value):
        if self._kernel.read(path) != value:
            self._kernel.write(path, value)

    def read(self):
        low, high, memory = (float(self._kernel.read(path)) for path in (LOW, HIGH, MEMORY))
        return Mode(gpu_mhz=low if low == high else None, mem_mhz=memory)

    def restore(self, found):
        if set(found) != set(FOUND):
            return ["what was found is not of this board"]
        errors = []
        for path, value in (
            (HIGH, str(CLOCKS[-1])),
            (LOW, str(CLOCKS[0])),
            (HIGH, found[HIGH]),
            (LOW, found[LOW]),
            (MEMORY, found[MEMORY]),
        ):
            try:
                self._write(path, value)
            except OSError as error:
                errors.append(f"/{path}: {why(error)}")
        now = {path: self._kernel.read(path) for path in found}
        return [f"/{path} is {now[path]}, was {found[path]}" for path in found if now[path] != found[path]]


def toy_command(root, *arguments):
    return [sys.executable, __file__, str(root), *arguments]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("root", type=Path)
    parser.add_argument("--restore", action="store_true")
    asked = parser.parse_args()
    return run("toy", lambda _, root: ToyControl(ToyKernel(root)), asked.root, only_restore=asked.restore)


if __name__ == "__main__":
    sys.exit(main())

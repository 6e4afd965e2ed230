"""A board of three settings for the guardian's tests; run as a program its guardian: toy_board.py ROOT [--restore].

``plan_fault`` lets the N-th write of the next such process fail.
"""

import argparse
import errno
import os
import signal
import sys
from pathlib import Path

from edgetune.artifacts.mode import Mode
from edgetune.devices.capabilities import ModeSpace
from edgetune.devices.control import BoardControl
from edgetune.devices.guardian.program import run
from edgetune.devices.sysfs import Sysfs, why
from edgetune.errors import DeviceError

LOW, HIGH, MEMORY = "sys/toy/gpu/min_freq", "sys/toy/gpu/max_freq", "sys/toy/emc/rate"
FAULTS = "faults"
CLOCKS = (100, 200, 300, 400)
FOUND = {LOW: "100", HIGH: "400", MEMORY: "800"}
TABLES = {LOW: {str(clock) for clock in CLOCKS}, HIGH: {str(clock) for clock in CLOCKS}, MEMORY: {"800", "1600"}}


class Killed(BaseException):
    """The process was killed."""


class ToyKernel(Sysfs):
    """Three files, of which the lower limit may never pass the upper one, as on kernel 4.9."""

    def __init__(self, root):
        super().__init__(root)
        self.writes = []
        self._faults = {}
        self._dead = False

    def fail_at(self, number, fault):
        """Let the ``number``-th write from now on (1, 2, ...) meet an error's name, "ignored", or a call."""
        self._faults[len(self.writes) + number] = fault

    def revive(self):
        self._dead = False
        self._faults.clear()

    def settings(self):
        return {path: super(ToyKernel, self).read(path) for path in FOUND}

    def read(self, path):
        if self._dead:
            raise Killed
        return super().read(path)

    def write(self, path, value):
        if self._dead:
            raise Killed
        self.writes.append((path, value))
        fault = self._faults.pop(len(self.writes), None)
        if fault == "kill-before":
            self._die()
        if isinstance(fault, str) and fault.startswith("E"):
            raise OSError(getattr(errno, fault), os.strerror(getattr(errno, fault)), path)
        if fault != "ignored":
            self._keep(path, value)
        if fault == "kill-after":
            self._die()
        if callable(fault):
            fault()

    def _die(self):
        self._dead = True
        raise Killed

    def _keep(self, path, value):
        low, high = (int(value) if path == end else int(super(ToyKernel, self).read(end)) for end in (LOW, HIGH))
        if low > high:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)
        (self.root / path).write_text(value + "\n")


def make_toy(root):
    for path, value in {**FOUND, "proc/sys/kernel/random/boot_id": "boot-1"}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(value + "\n")
    for folder in ("run", "var/lib"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    return ToyKernel(root)


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
            grids={4: {"gpu_mhz": (100.0, 400.0), "mem_mhz": (800.0, 1600.0)}},
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


def plan_fault(root, number, fault):
    """Let the ``number``-th write of the next guardian meet ``fault``; also the name of a signal it sends itself."""
    with (root / FAULTS).open("a") as planned:
        planned.write(f"{number} {fault}\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("root", type=Path)
    parser.add_argument("--restore", action="store_true")
    asked = parser.parse_args()
    kernel = ToyKernel(asked.root)
    planned = asked.root / FAULTS
    lines = planned.read_text().splitlines() if planned.exists() else []
    planned.unlink(missing_ok=True)
    for line in lines:
        number, _, fault = line.partition(" ")
        number_of = getattr(signal, fault, None)
        kernel.fail_at(int(number), fault if number_of is None else lambda sent=number_of: os.kill(os.getpid(), sent))
    return run("toy", lambda name, root: ToyControl(kernel), asked.root, only_restore=asked.restore)


if __name__ == "__main__":
    sys.exit(main())

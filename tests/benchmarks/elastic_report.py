"""What ``elastic_gpu.py`` measures with, whatever part it is: its time, what it writes, and the power of the GPU."""

from __future__ import annotations

import json
import math
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from edgetune.artifacts.files import write_atomically
from edgetune.artifacts.json_format import json_document
from edgetune.devices.capabilities import Absent, PowerReading, PowerSensor
from edgetune.devices.clock import MonotonicClock
from edgetune.devices.nvml.gpu import Gpu, gpu_count, load_nvml, text
from edgetune.devices.nvml.sensors import open_power
from edgetune.errors import DeviceError
from edgetune.stages.profiling.energy import MINIMUM_SAMPLES
from edgetune.units import NS

FIXED = 0.4
"""Share of the time after which no more networks are compared or timed, so that enough is left for the policies."""
RESERVE = 0.05
"""Share of the time that is kept for what no plan knows: closing contexts, and the last files."""

OPENING_S = 20.0
"""So long the process that reads power may take to begin, s: it imports, and watches how often values are renewed."""


class Budget:
    """The time of the command.

    Args:
        within_s: All of it, s; ``None`` for as long as it takes.
        now_s: The clock, s.
    """

    def __init__(self, within_s: float | None, now_s: Callable[[], float] = time.monotonic) -> None:
        self.within_s, self.now_s = math.inf if within_s is None else within_s, now_s
        self._begin_s = now_s()

    @property
    def used_s(self) -> float:
        """Time since the begin, s."""
        return self.now_s() - self._begin_s

    @property
    def left_s(self) -> float:
        """Time that can still be planned, s."""
        return self.within_s * (1 - RESERVE) - self.used_s

    @property
    def fixed(self) -> bool:
        """Whether there is time for another fixed part."""
        return self.used_s < FIXED * self.within_s


@dataclass(frozen=True, slots=True)
class Plan:
    """How the rest of the time is divided.

    Args:
        groups: So many of the workloads to come are measured, the first ones.
        turns: Of each of them.
        duration_s: Of a run, s.
    """

    groups: int
    turns: int
    duration_s: float


def plan(
    left_s: float, runs: Sequence[int], *, turns: int, longest_s: float, smallest_s: float, group_s: float, run_s: float
) -> Plan:
    """Divide time over runs: all have one duration, as long as may be; then turns are given up, then last workloads.

    Args:
        left_s: The time, s.
        runs: In a turn of each workload, in order.
        turns: At most; at least two, of which there is an interval, unless one is asked for.
        longest_s, smallest_s: Of a run, s.
        group_s: It takes to make a workload ready, s; the first one is.
        run_s: What a run takes longer than its duration, s.
    """
    for groups in range(len(runs), 0, -1):
        rest_s = left_s - (groups - 1) * group_s
        for fewer in range(turns, min(2, turns) - 1, -1):
            duration_s = rest_s / (sum(runs[:groups]) * fewer) - run_s
            if duration_s >= smallest_s:
                return Plan(groups, fewer, min(duration_s, longest_s))
    return Plan(0, 0, 0.0)


class Report:
    """What is printed and written, as it goes: a crash loses nothing.

    Args:
        folder: Gets ``elastic_gpu.json`` and ``elastic_gpu.txt``.
        facts: That come first.
    """

    def __init__(self, folder: Path, facts: dict[str, Any]) -> None:
        self.folder, self.found = folder, facts
        self.found["left_out"] = []
        folder.mkdir(parents=True, exist_ok=True)
        self._lines = folder / "elastic_gpu.txt"
        self._lines.write_text("")
        self.write()

    def say(self, line: str) -> None:
        """Print a line, and keep it."""
        print(line, flush=True)
        with self._lines.open("a") as lines:
            lines.write(line + "\n")

    def leave_out(self, what: str, why: str) -> None:
        """Note that something was asked for and is not measured."""
        self.found["left_out"].append({"what": what, "why": why})
        self.say(f"left out   {what}: {why}")
        self.write()

    def write(self) -> None:
        """Write all figures so far."""
        write_atomically(json_document(self.found), self.folder / "elastic_gpu.json")


@dataclass(frozen=True, slots=True)
class PowerMeter:
    """The power of a GPU.

    Args:
        source: Where readings come from; or why there are none.
        refresh_s: Each is the mean of so long a time before it, s; ``None`` where there are none.
        readings: Returns all so far, oldest first, on the clock of ``time.monotonic_ns``.
    """

    source: str
    refresh_s: float | None = None
    readings: Callable[[], Sequence[PowerReading]] = tuple

    def between_w(self, from_ns: int, until_ns: int) -> list[float]:
        """Return the readings that lie wholly between two times, W."""
        if self.refresh_s is None:
            return []
        first_ns = from_ns + self.refresh_s * NS
        return [each.power_w for each in self.readings() if first_ns <= each.time_ns <= until_ns]


def mean_w(readings_w: Sequence[float]) -> float | None:
    """Return the mean power, W; ``None`` of too few readings."""
    return fmean(readings_w) if len(readings_w) >= MINIMUM_SAMPLES else None


def sensor_of(uuid: str, module: Any = None) -> PowerSensor | Absent:
    """Return the sensor of the GPU with this UUID: CUDA may number GPUs otherwise than NVML.

    Args:
        uuid: As nvidia-smi prints it.
        module: In place of ``pynvml``.
    """
    try:
        nvml = load_nvml(module)
        gpus = [Gpu(nvml, index) for index in range(gpu_count(nvml))]
        found = next((each for each in gpus if text(each.maybe("nvmlDeviceGetUUID") or "") == uuid), None)
        return Absent(f"NVML lists no GPU {uuid}") if found is None else open_power(found, MonotonicClock())
    except DeviceError as error:
        return Absent(error.message)


def watch(sensor: PowerSensor | Absent) -> None:
    """Print what a sensor is, and its readings as they come, until standard input ends."""
    if isinstance(sensor, Absent):
        print(json.dumps({"source": f"not read: {sensor.reason}", "refresh_s": None}))
        return
    print(json.dumps({"source": f"{sensor.source}, of the whole board", "refresh_s": sensor.refresh_s}), flush=True)
    with sensor.record() as recording:
        said = 0
        while not select.select([sys.stdin], [], [], sensor.refresh_s)[0]:
            for each in recording.readings[said:]:
                print(each.time_ns, each.power_w, flush=True)
                said += 1


@contextmanager
def power_meter(uuid: str) -> Iterator[PowerMeter]:
    """Read the power of a GPU in another process while the block runs: a thread here would hold up the loop."""
    command = [sys.executable, __file__, uuid]
    with tempfile.TemporaryFile("w+") as lines:
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=lines, stderr=subprocess.DEVNULL)
        said: list[str] = []
        seen: list[PowerReading] = []
        read_bytes = 0

        def more() -> list[str]:
            """Return all whole lines so far."""
            nonlocal read_bytes
            new = os.pread(lines.fileno(), 1 << 24, read_bytes).decode()
            new = new[: new.rfind("\n") + 1]
            read_bytes += len(new)
            said.extend(new.splitlines())
            return said

        def readings() -> Sequence[PowerReading]:
            for line in more()[len(seen) + 1 :]:
                time_ns, power_w = line.split()
                seen.append(PowerReading(int(time_ns), float(power_w)))
            return seen

        try:
            begin_s = time.monotonic()
            while not more() and child.poll() is None and time.monotonic() - begin_s < OPENING_S:
                time.sleep(0.02)
            if more():
                yield PowerMeter(**json.loads(said[0]), readings=readings)
            else:
                yield PowerMeter("not read: the process that reads it does not answer")
        finally:
            child.communicate()  # its input ends


if __name__ == "__main__":
    watch(sensor_of(sys.argv[1]))

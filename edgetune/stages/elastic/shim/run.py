"""Runs the program that ``build`` made: sequences of launches in, results and buffers out.

    sequences -> JOB file -> program: a process for each sequence -> RESULTS file -> outcomes

A process starts in about a millisecond, so many sequences can be tried, and none affects another.
"""

from __future__ import annotations

import math
import re
import shutil
import struct
import subprocess
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from edgetune.artifacts.scratch_folder import scratch_folder
from edgetune.errors import DeviceError, InputError
from edgetune.stages.elastic.abi import Dim
from edgetune.stages.elastic.shim.variables import DeviceVariable
from edgetune.stages.elastic.work import Argument, Pointer

Order = Literal["forward", "reverse", "random"]
Status = Literal["ok", "deadlock", "mismatched-barrier", "hang", "crash"]


@dataclass(frozen=True, slots=True)
class ExecutionOrder:
    """The order in which the blocks of a grid, and between barriers the threads of a block, run.

    Args:
        order: By number, ascending or descending, or random at each round of turns.
        seed: Of the random order, and of the turns of blocks of persistent forms.
    """

    order: Order = "forward"
    seed: int = 0

    def __str__(self) -> str:
        return f"{self.order} order {self.seed}" if self.order == "random" or self.seed else f"{self.order} order"


FORWARD = ExecutionOrder("forward")
REVERSE = ExecutionOrder("reverse")


def chance(seed: int) -> ExecutionOrder:
    """Return the random order with this seed."""
    return ExecutionOrder("random", seed)


@dataclass(frozen=True, slots=True)
class Taking:
    """How the blocks of a persistent form take logical blocks: a few of them run in turns.

    Args:
        control: The buffer of the control words (see ``abi``), of which only atomic operations may change the counter.
        rank: Of the first physical block.
        quota_changes: Whether the quota changes at random moments; afterwards it is what it was.
    """

    control: str
    rank: int = 0
    quota_changes: bool = False


@dataclass(frozen=True, slots=True)
class ShimLaunch:
    """A physical launch of a kernel or of one of its forms.

    Args:
        symbol: Of the kernel.
        grid: Blocks along x, y, z.
        block: Threads along x, y, z.
        arguments: In the order of the kernel's parameters; pointers name buffers of the run.
        dynamic_shared_bytes: Of each block.
        taking: Of a persistent form.
    """

    symbol: str
    grid: Dim
    block: Dim
    arguments: tuple[Argument, ...] = ()
    dynamic_shared_bytes: int = 0
    taking: Taking | None = None


@dataclass(frozen=True, slots=True)
class ShimResult:
    """The outcome of a sequence of launches.

    Args:
        status: ``ok``; ``deadlock``: threads wait for others that never come; ``mismatched-barrier``: they wait at
            different ones; ``hang``: it did not end in time; ``crash``: it touched memory that is not its own, divided
            an integer by zero, trapped.
        message: What happened and where, one line; empty after success.
        line: Of the source, from 1, where it is known.
        buffers: Their contents after the last launch, and those of variables of the source in device memory; empty
            unless all went well.
    """

    status: Status
    message: str
    line: int | None
    buffers: Mapping[str, np.ndarray[Any, Any]]


class Folder:
    """A folder of temporary files that is removed with the last reference to it, at the latest with this process."""

    def __init__(self) -> None:
        opened = ExitStack()
        self.path = opened.enter_context(scratch_folder())
        self.remove = weakref.finalize(self, opened.close)


Buffers = Mapping[str, np.ndarray[Any, Any]]
Sequenced = tuple[Sequence[ShimLaunch], ExecutionOrder]

LIMIT_S = 10
"""CPU time of one sequence of launches before it counts as endless, s."""

_ORDERS = {"forward": 0, "reverse": 1, "random": 2}
_STATUSES: tuple[Status, ...] = ("ok", "deadlock", "mismatched-barrier", "hang", "crash")
_UNFINISHED, _BAD_LAUNCH = 0, 6
_RECORD = struct.Struct("<iiQii488s")  # struct Record of program.cpp
_NO_BUFFER = 2**32 - 1
_MOST_RESULT_BYTES = 64 << 20
"""Of one RESULTS file: more sequences run in several batches."""
_START_S = 60.0
_MOST_THREADS = 1024
_IN_TURNS = 3
"""Blocks of persistent forms that run in turns: ``most_resident`` of runtime.hpp."""


@dataclass(frozen=True, slots=True)
class Built:
    """Kernels compiled for the CPU.

    Args:
        name: Of the source, as in messages.
        program: The program that runs them.
        kernels: Their symbols.
        folder: Of the program; its files are removed with the last reference to it.
        variables: Of the source in device memory.
    """

    name: str
    program: Path
    kernels: tuple[str, ...]
    folder: Folder
    variables: tuple[DeviceVariable, ...] = ()

    def run(
        self,
        launches: Sequence[ShimLaunch],
        buffers: Buffers,
        schedule: ExecutionOrder = FORWARD,
        limit_s: int = LIMIT_S,
    ) -> ShimResult:
        """Run launches one after another.

        Args:
            launches: In order.
            buffers: Device memory by name before the first launch; not changed.
            schedule: Order of threads and blocks.
            limit_s: CPU time after which the launches count as endless, s.

        Raises:
            InputError: no device would take a launch: an unknown kernel or buffer, arguments of the wrong number or
                size, a block of too many threads.
        """
        return next(self.run_all([(launches, schedule)], buffers, limit_s))

    def run_all(self, sequences: Sequence[Sequenced], buffers: Buffers, limit_s: int = LIMIT_S) -> Iterator[ShimResult]:
        """Run sequences of launches, each from the same buffers; yield their outcomes up to the first endless one.

        Args:
            sequences: Launches and their schedule.
            buffers: As for ``run``.
            limit_s: Of each sequence, s.

        Raises:
            InputError: as ``run``.
        """
        arrays = {name: np.ascontiguousarray(array) for name, array in buffers.items()}
        each = self._result_bytes(arrays)
        at_once = max(1, _MOST_RESULT_BYTES // each)
        for start in range(0, len(sequences), at_once):
            for outcome in self._go(sequences[start : start + at_once], arrays, limit_s):
                yield outcome
                if outcome.status == "hang":
                    return

    def _go(self, sequences: Sequence[Sequenced], arrays: Buffers, limit_s: int) -> Iterator[ShimResult]:
        with scratch_folder() as folder:
            job, results = Path(folder, "job"), Path(folder, "results")
            job.write_bytes(self._job(sequences, arrays, limit_s))
            results.touch()
            try:
                done = subprocess.run(
                    [self.program, job, results],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,  # of printf in kernels
                    stderr=subprocess.PIPE,
                    timeout=_START_S + limit_s * len(sequences),
                    check=False,
                )
            except subprocess.TimeoutExpired:
                message = f"{self.name} did not end and used no CPU time"
                yield ShimResult("hang", message, None, {})
                return
            if done.returncode:
                last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
                raise DeviceError(f"cannot run kernels on the CPU: {' '.join(last)}", "free memory or disk space")
            answer = memoryview(results.read_bytes())
        each = self._result_bytes(arrays)
        for start in range(0, len(sequences) * each, each):
            yield self._outcome(answer[start : start + each], arrays)

    def _outcome(self, answer: memoryview, arrays: Buffers) -> ShimResult:
        status, line, program_counter, _, _, message = _RECORD.unpack_from(answer)
        text = message.split(b"\0", 1)[0].decode(errors="replace")
        names = list(arrays)
        text = re.sub(r"of buffer (\d+)", lambda found: f"of buffer {names[int(found[1])]}", text)
        if status == _BAD_LAUNCH:
            raise InputError(f"cannot launch: {text}", "correct the grid, block or arguments of the launch")
        if status != _STATUSES.index("ok") + 1:
            if program_counter:
                line = self._line(program_counter)
            return ShimResult(_STATUSES[status - 1], text, line or None, {})
        buffers, offset = {}, _RECORD.size
        for name, array in arrays.items():
            flat = np.frombuffer(answer, array.dtype, array.size, offset)
            buffers[name] = flat.reshape(array.shape)
            offset += array.nbytes
        for each in self._compared:
            name = each.name if each.name not in arrays else f"__device__ {each.name}"
            buffers[name] = np.frombuffer(answer, each.dtype, each.count, offset)
            offset += each.nbytes
        return ShimResult("ok", "", None, buffers)

    @property
    def _compared(self) -> list[DeviceVariable]:
        return [each for each in self.variables if not each.constant]

    def _result_bytes(self, arrays: Buffers) -> int:
        """Return the size of one sequence's record, buffers and variables, rounded up to a multiple of eight."""
        contents = sum(each.nbytes for each in arrays.values()) + sum(each.nbytes for each in self._compared)
        return -(-(_RECORD.size + contents) // 8) * 8

    def _job(self, sequences: Sequence[Sequenced], arrays: Buffers, limit_s: int) -> bytes:
        numbers = {name: number for number, name in enumerate(arrays)}
        blocks = [math.prod(launch.block) for launches, _ in sequences for launch in launches]
        threads = min(max(blocks, default=1), _MOST_THREADS)  # a launch of more is refused there
        in_turns = any(launch.taking for launches, _ in sequences for launch in launches)
        resident = _IN_TURNS if in_turns else 1
        parts = [struct.pack("<IIIII", limit_s, threads, resident, len(sequences), len(arrays))]
        for array in arrays.values():
            parts += [struct.pack("<Q", array.nbytes), array.tobytes()]
        for some in (self._compared, filled := [each for each in self.variables if each.filled is not None]):
            parts.append(struct.pack("<I", len(some)))
            parts += [struct.pack("<QQ", each.address, each.nbytes) for each in some]
        parts += [each.filled.tobytes() for each in filled if each.filled is not None]
        for launches, schedule in sequences:
            body = [struct.pack("<III", _ORDERS[schedule.order], schedule.seed, len(launches))]
            body += [_packed(launch, self.kernels, numbers) for launch in launches]
            packed = b"".join(body)
            parts += [struct.pack("<I", len(packed)), packed]
        return b"".join(parts)

    def _line(self, program_counter: int) -> int:
        """Return the line of the source that an instruction comes from; 0 where that is not known."""
        finder = shutil.which("addr2line")
        if finder is None:
            return 0
        found = subprocess.run(
            [finder, "-i", "-e", self.program, hex(program_counter)], capture_output=True, text=True, check=False
        )
        for place in found.stdout.splitlines():  # the innermost of functions compiled into each other comes first
            file, _, line = place.split(" (")[0].rpartition(":")
            if Path(file).name == self.name and line.isdigit():
                return int(line)
        return 0


def _packed(launch: ShimLaunch, kernels: Sequence[str], buffers: Mapping[str, int]) -> bytes:
    if launch.symbol not in kernels:
        raise InputError(f"no kernel {launch.symbol!r} in the source", f"it has {', '.join(kernels) or 'none'}")
    named = [argument.buffer for argument in launch.arguments if isinstance(argument, Pointer)]
    for name in [*named, *([launch.taking.control] if launch.taking else [])]:
        if name not in buffers:
            raise InputError(f"{launch.symbol}: no buffer {name!r}", f"there are {', '.join(buffers)}")
    taking = launch.taking
    control = (_NO_BUFFER, 0, 0) if taking is None else (buffers[taking.control], taking.rank, taking.quota_changes)
    head = (*launch.grid, *launch.block, launch.dynamic_shared_bytes, *control, len(launch.arguments))
    parts = [struct.pack("<12I", kernels.index(launch.symbol), *head)]
    for argument in launch.arguments:
        if isinstance(argument, Pointer):
            parts.append(struct.pack("<II", buffers[argument.buffer], 8))
        else:
            parts.append(struct.pack("<II", _NO_BUFFER, len(argument.value)) + argument.value)
    return b"".join(parts)

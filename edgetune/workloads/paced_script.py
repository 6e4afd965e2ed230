"""A training script as it is, one step at a time: at the end of each it waits until the next one is asked for.

    edgetune   go ------------> go ------------>
    script        step | waits     step | waits       a step has all that the script does, its data loader included

Processes that only load data go on while it waits, as far as their queues reach.
"""

from __future__ import annotations

import contextlib
import os
import select
from collections.abc import Collection, Iterator, Sequence

from edgetune.errors import InputError
from edgetune.processes.families import end_descendants, family, keep_descendants, kills
from edgetune.processes.start import pin
from edgetune.workloads.command import filled, split
from edgetune.workloads.markers import RECORD
from edgetune.workloads.rounds import OptimiserStep, TrainingRounds, failed, program_name, started
from edgetune.workloads.script_hook import hook_environment
from edgetune.workloads.workload import Workload

_LOOK_EVERY_S = 0.2
OTHERWISE = "give it make(batch_size): see edgetune help your-training"
"""What else to do with a script, for hints."""


def open_script(workload: Workload, batch_size: int, threads: int) -> PacedScript:
    """Start the script of a workload; see ``PacedScript``."""
    return PacedScript([filled(word, {"batch": batch_size}) for word in split(workload.reference)], threads)


class PacedScript:
    """A running script; the constructor returns after the steps that show which of them make a minibatch.

    Args:
        words: The command, whose batch size is filled in.
        threads: Threads that its libraries may use.

    Raises:
        InputError: it cannot be started, ends early, takes no steps, or cannot be paused at each minibatch.
    """

    def __init__(self, words: Sequence[str], threads: int) -> None:
        self._words = words
        self._steps, steps_write = os.pipe()
        pace_read, self._pace = os.pipe()
        environment = hook_environment({**os.environ, "OMP_NUM_THREADS": str(threads)}, steps_write, pace_read)
        self._kills_before, self._taken, self._program, self._calls = kills(), 0, 0, False
        keep_descendants()
        try:
            self._process = started(words, env=environment, pass_fds=(steps_write, pace_read))
        finally:
            os.close(steps_write)
            os.close(pace_read)
        self._reports = self._read()
        try:
            self._length = self._begin()
        except BaseException:
            end_descendants()
            self._process.wait()
            raise

    def _begin(self) -> int:
        """Let the script take steps until these show how many make a minibatch; return how many."""
        rounds = TrainingRounds()
        while not self._calls and not rounds.length:
            step = self._next()
            if step is not None:
                rounds.add(step)
        if not self._calls and rounds.usual[0] > 1:
            raise InputError(
                f"{program_name(self._words)}: {rounds.note()}, and it would pause only after all of them",
                "call edgetune.step() after each backward pass",
            )
        return rounds.length

    def step(self) -> None:
        """Let the script go on to the end of its next minibatch.

        Raises:
            InputError: it has ended.
        """
        left = self._length
        while left or self._calls:
            if self._next() is None:
                return
            left -= 1

    def pin(self, cpus: Collection[int]) -> None:
        """Bind the script and the processes that it started to CPUs."""
        for process in family(self._process.pid):
            with contextlib.suppress(FileNotFoundError):  # it has just ended
                pin(cpus, process)

    def _next(self) -> OptimiserStep | None:
        """Let the script go on to its next report: a step of an optimiser, or ``None`` for a call."""
        if self._taken:
            with contextlib.suppress(BrokenPipeError):  # it has ended, which reading tells
                os.write(self._pace, b".")
        self._taken += 1
        call, step = next(self._reports)
        self._calls = self._calls or call
        return None if call else step

    def _read(self) -> Iterator[tuple[bool, OptimiserStep]]:
        """Yield the reports of the script.

        Raises:
            InputError: it has ended, or another process of it reports.
        """
        data = b""
        while True:
            while len(data) >= RECORD.size:
                kind, time_ns, process, *numbers = RECORD.unpack_from(data)
                data = data[RECORD.size :]
                if kind == b"p":
                    self._program = self._program or process
                elif process != self._program:
                    raise InputError(
                        f"{program_name(self._words)} trains in a process that it starts, which cannot be paused",
                        OTHERWISE,
                    )
                else:
                    yield kind == b"c", OptimiserStep(time_ns, *numbers)
            ready, _, _ = select.select([self._steps], [], [], _LOOK_EVERY_S)
            more = os.read(self._steps, 1 << 16) if ready else b""
            data += more
            if (ready and not more) or (not ready and self._process.poll() is not None):
                raise self._ended()

    def _ended(self) -> InputError:
        code = self._process.wait()
        if code != 0:
            return failed(self._words, code, b"", self._kills_before)
        name = program_name(self._words)
        if self._taken < 2:
            return InputError(
                f"{name} ended, and neither called edgetune.step() nor had an optimiser of PyTorch step twice",
                "call edgetune.step() at the end of each step; python -I, -S and -E hide steps from edgetune",
            )
        return InputError(f"{name} ended after {self._taken - 1} steps", "let it train for more epochs")

"""Steps of a running command, told apart by markers: lines of its output, or what ``edgetune.step()`` sends.

The command writes to a terminal of its own, so that programs flush each line as they do for people; its lines are read
by a thread and get the time of their arrival. A command that ends with exit code 0 before enough steps is started
again, and the gap is no step.
"""

import contextlib
import os
import pty
import re
import select
import struct
import subprocess
import termios
import threading
import time
import tty
from collections.abc import Sequence
from typing import Any

import psutil

from edgetune.errors import InputError
from edgetune.processes.families import end_descendants, kills
from edgetune.stats import median
from edgetune.units import counted
from edgetune.workloads.rounds import OptimiserStep, TrainingRounds, check_none_left, failed, program_name, started
from edgetune.workloads.script_hook import hook_environment

_READ_BYTES = 1 << 16
_TAIL_BYTES = 4096
_LONGEST_LINE = 1 << 16
"""A longer line is cut: its beginning is matched, and a program without line ends does not fill the memory."""
_ESCAPES = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")
_ENDS = re.compile(rb"[\r\n]+")
RECORD = struct.Struct("=cqIHHH")
"""A record of the step pipe: ``c`` for a call of ``edgetune.step``, ``o`` for an optimiser, ``p`` for the beginning of
the program; the time, ns; the process; the optimiser, the number of optimisers, and backward passes before."""
_BUNCHED_NS = 200_000
"""Lines closer than this, and than ``_BUNCHED_SHARE`` of the mean step, arrived together."""
_BUNCHED_SHARE = 0.05
_JUDGED = 10
_CLOSED_WITHIN_S = 2.0
_AFTER_END_NS = 500_000_000
"""How long what a command left running is read after its end."""
_UNIT = re.compile(r"\s*([A-Za-zµ/%]{1,12})")


class MarkedRuns:
    """Runs a command, and times its steps from one marker to the next.

    Args:
        words: The command.
        marker: A regular expression that marks lines; ``None`` for markers that the command sends through a pipe: calls
            of ``edgetune.step``, or the steps of its optimisers.
    """

    def __init__(self, words: Sequence[str], marker: str | None) -> None:
        self._words = words
        self._pattern = None if marker is None else re.compile(marker)
        self._spans_ns: list[tuple[int, int]] = []
        self._best = False, False
        self.calls = False
        """Whether calls of ``edgetune.step`` mark steps."""
        self._notes: list[str] = []
        self._own: list[float] = []
        self._own_unit: str | None = None
        self._condition = threading.Condition()
        self._error: InputError | None = None
        self._closed = False
        self._taken = 0
        self._reader = threading.Thread(target=self._read_all, name="edgetune-markers", daemon=True)
        self._reader.start()

    def times_ns(self, minibatches: int) -> tuple[list[int], list[int]]:
        """Wait for so many further steps; return when each started and ended, CLOCK_MONOTONIC, ns.

        Raises:
            InputError: the command cannot be started, failed, marked no step, or its markers arrive in bunches.
        """
        end = self._taken + minibatches
        with self._condition:
            self._condition.wait_for(lambda: self._error is not None or len(self._spans_ns) >= end)
            if self._error is not None and len(self._spans_ns) < end:
                raise self._error
            spans_ns = self._spans_ns[self._taken : end]
            self._taken = end
        self._check_bunched()
        return [start for start, _ in spans_ns], [stop for _, stop in spans_ns]

    def columns(self) -> dict[str, Any]:
        """Return the columns of the program's own figure: the median of the group ``value``, and its unit."""
        with self._condition:
            own = list(self._own)
            notes = "; ".join(self._notes)
        columns = {"own_value": median(own), "own_unit": self._own_unit} if own else {}
        return {**columns, "reason": notes} if notes else columns

    def close(self) -> None:
        """End the command and all that it started."""
        self._closed = True
        end_descendants()
        self._reader.join(_CLOSED_WITHIN_S)
        end_descendants()  # a run that began meanwhile

    def _check_bunched(self) -> None:
        """Refuse markers that arrive together because the program buffers its output."""
        times_ns = [stop - start for start, stop in self._spans_ns[: self._taken]]
        if self._pattern is None or len(times_ns) < _JUDGED:  # what the program sends has times of its own
            return
        least_ns = min(_BUNCHED_NS, _BUNCHED_SHARE * sum(times_ns) / len(times_ns))
        together = sum(time_ns <= least_ns for time_ns in times_ns)
        if 2 * together > len(times_ns):
            raise InputError(
                f"{together} of {len(times_ns)} lines of --step-pattern arrived together with another: "
                "the program buffers its output",
                "make it flush each line: stdbuf -oL COMMAND, or python -u",
            )

    def _read_all(self) -> None:
        """Run the command again and again until it is closed or fails."""
        try:
            while not self._closed:
                self._read_one()
        except InputError as error:
            with self._condition:
                self._error = error
                self._condition.notify_all()

    def _read_one(self) -> None:
        """Run the command once, from start to exit."""
        terminal, theirs = pty.openpty()
        tty.setraw(theirs, termios.TCSANOW)
        steps, steps_write = os.pipe()
        environment = {**os.environ, "TERM": "dumb", "NO_COLOR": "1", "PYTHONUNBUFFERED": "1"}
        if self._pattern is None:
            environment = hook_environment(environment, steps_write)
        kills_before = kills()
        try:
            try:
                passed = () if self._pattern is not None else (steps_write,)
                process = started(self._words, stdout=theirs, stderr=theirs, env=environment, pass_fds=passed)
            finally:
                os.close(theirs)
                os.close(steps_write)
            run = _Run(self, process)
            run.read(terminal, steps)
        finally:
            os.close(terminal)
            os.close(steps)
        if self._closed:
            return
        code = process.wait()
        if code != 0:
            raise failed(self._words, code, run.tail, kills_before)
        if not run.spans:
            raise _no_steps(self._words, run, self._pattern)
        check_none_left(self._words)

    def add(self, spans_ns: Sequence[tuple[int, int]]) -> None:
        """Add steps."""
        with self._condition:
            self._spans_ns += spans_ns
            self._condition.notify_all()

    def note(self, notes: list[str]) -> None:
        """Keep what a minibatch is, for the row."""
        with self._condition:
            self._notes = notes

    def prefers(self, source: tuple[bool, bool]) -> bool | None:
        """Return whether steps of a source count, ``None`` if from now on: those before are then forgotten.

        Args:
            source: Whether it calls ``edgetune.step``, and whether it is the program itself.
        """
        with self._condition:
            if source <= self._best:
                return source == self._best
            self._best = source
            self.calls = source[0]
            del self._spans_ns[self._taken :]
        return None

    def match(self, line: str) -> bool:
        """Return whether a line is a marker, and keep the program's own figure in it."""
        found = None if self._pattern is None else self._pattern.search(line)
        if found is None:
            return False
        groups = found.groupdict()
        if groups.get("value") is not None:
            with contextlib.suppress(ValueError), self._condition:
                self._own.append(float(groups["value"]))
                after = _UNIT.match(line, found.end("value"))
                self._own_unit = groups.get("unit") or (after[1] if after else None)
        return True


class _Run:
    """One run of the command: the markers of its output and of its pipe."""

    def __init__(self, runs: MarkedRuns, process: subprocess.Popen[bytes]) -> None:
        self._runs = runs
        self._process = process
        self._line = b""
        self._records = b""
        self._last_ns: int | None = None
        self._programs: set[int] = set()
        self._process_followed: int | None = None
        self._reporting: set[int] = set()
        """Processes that report steps as the one that is followed does."""
        self._rounds = TrainingRounds()
        self._backwards: list[int] = []
        self._between: list[int] = []
        """Backward passes before each step of an optimiser, since the last call and between the two before."""
        self.markers = 0
        self.spans = 0
        self.tail = b""

    def read(self, terminal: int, steps: int) -> None:
        """Read until both ends are closed, or the process has ended and nothing is left to read."""
        open_ends, ended_ns = {terminal, steps}, 0
        while open_ends:
            ready, _, _ = select.select(list(open_ends), [], [], 0.2)
            arrived_ns = time.monotonic_ns()
            for end in ready:
                try:
                    data = os.read(end, _READ_BYTES)
                except OSError:  # EIO: the last process that had the terminal has ended
                    data = b""
                if not data:
                    open_ends.discard(end)
                elif end == terminal:
                    self._text(data, arrived_ns)
                else:
                    self._sent(data)
            if self._process.poll() is not None:  # what it started may still hold the terminal, and print
                ended_ns = ended_ns or arrived_ns
                if not ready or arrived_ns - ended_ns > _AFTER_END_NS:
                    break
        self._add(self._rounds.end())

    def _text(self, data: bytes, arrived_ns: int) -> None:
        self.tail = (self.tail + data)[-_TAIL_BYTES:]
        *lines, rest = _ENDS.split(self._line + data)
        self._line = rest[:_LONGEST_LINE]
        for line in lines:
            if self._runs.match(_ESCAPES.sub(b"", line[:_LONGEST_LINE]).decode(errors="replace")):
                self._mark(arrived_ns)

    def _sent(self, data: bytes) -> None:
        data = self._records + data
        whole = len(data) // RECORD.size * RECORD.size
        self._records = data[whole:]
        for kind, time_ns, process, *numbers in RECORD.iter_unpack(data[:whole]):
            if kind == b"p":
                self._programs.add(process)
            elif self._follows(kind == b"c", process):
                self._stepped(kind == b"c", OptimiserStep(time_ns, *numbers))
        self._runs.note(self._notes())

    def _follows(self, call: bool, process: int) -> bool:
        """Return whether a report counts: of the best source so far, and of the first process that sent one."""
        preferred = self._runs.prefers((call, process in self._programs))
        if preferred is False:  # steps of optimisers tell what is between calls
            return self._runs.calls and process == self._process_followed
        if preferred is None or (
            process != self._process_followed and not psutil.pid_exists(self._process_followed or 0)
        ):
            self._last_ns, self.markers, self.spans, self._rounds = None, 0, 0, TrainingRounds()
            self._process_followed, self._reporting = process, set()
        self._reporting.add(process)
        return process == self._process_followed

    def _stepped(self, call: bool, step: OptimiserStep) -> None:
        if not self._runs.calls:
            self.markers += 1
            self._add(self._rounds.add(step))
            return
        self._backwards += [step.backwards] * (step.backwards > 0)
        if call:
            self._between, self._backwards = self._backwards, []
            self._mark(step.time_ns)

    def _notes(self) -> list[str]:
        """Return what a minibatch is, where it is not the samples of one step of one process."""
        notes = [] if (said := self._rounds.note()) is None else [said]
        if len(self._between) == 1 and self._between[0] > 1:
            notes.append(f"{self._between[0]} backward passes between calls of edgetune.step() count as one minibatch")
        if len(self._reporting) > 1:
            notes.append(f"{len(self._reporting)} processes train, and time and batch size are of one of them")
        return notes

    def _mark(self, time_ns: int) -> None:
        self.markers += 1
        if self._last_ns is not None:
            self._add([(self._last_ns, time_ns)])
        self._last_ns = time_ns

    def _add(self, spans_ns: Sequence[tuple[int, int]]) -> None:
        self.spans += len(spans_ns)
        self._runs.add(spans_ns)


def _no_steps(words: Sequence[str], run: _Run, pattern: re.Pattern[str] | None) -> InputError:
    """Return the error of a run with no step between two markers."""
    if pattern is None:
        return InputError(
            f"{program_name(words)} ended after {counted(run.markers, 'step')}: "
            "neither edgetune.step() was called nor an optimiser of PyTorch stepped often enough",
            "call edgetune.step() at the end of each step; python -I, -S and -E, and launchers that clear the "
            "environment or start processes on other machines, hide steps from edgetune",
        )
    lines = run.tail.decode(errors="replace").split()
    said = f"; its last output: {' '.join(lines)[-120:]}" if lines else "; it printed nothing"
    return InputError(
        f"{counted(run.markers, 'line')} matched --step-pattern {pattern.pattern!r}, and a step lies between two{said}",
        "try the pattern on the output: COMMAND | grep -E PATTERN",
    )

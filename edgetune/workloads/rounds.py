"""Minibatches of a training loop, from the steps of its optimisers and the backward passes before each.

    backward backward adam | backward backward adam |         two minibatches a step: gradients accumulate
    backward adam  backward adam  backward sgd |              one round of the loop, a minibatch

The loop repeats the same steps: its round is the shortest repetition at the end of the series that has every optimiser.

The start of commands, and their errors: not started, and ended in another way than with exit code 0.
"""

import os
import re
import shlex
import signal
import subprocess
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from edgetune.errors import InputError
from edgetune.processes.families import still_running, why_killed
from edgetune.processes.messages import signal_name
from edgetune.visible import visible

_WAITED = 24
"""Steps in which a loop that repeats itself has done so; afterwards the optimiser that steps least ends a round."""


@dataclass(frozen=True, slots=True)
class OptimiserStep:
    """A step of an optimiser.

    Args:
        time_ns: When it had ended.
        optimiser: Its number in the program.
        optimisers: Optimisers that the program has.
        backwards: Backward passes since the step before, of any optimiser.
    """

    time_ns: int
    optimiser: int
    optimisers: int = 1
    backwards: int = 1


class TrainingRounds:
    """Finds the rounds of a loop and divides each into minibatches."""

    def __init__(self) -> None:
        self._waiting: list[OptimiserStep] = []
        self.length = 0
        """Steps of a round; 0 while it is not known."""
        self._begun_ns: int | None = None
        self._round: list[OptimiserStep] = []
        self._seen: Counter[tuple[int, tuple[int, ...]]] = Counter()
        """Rounds by the minibatches of each and the steps of its optimisers."""

    def add(self, step: OptimiserStep) -> list[tuple[int, int]]:
        """Return when each minibatch that a step completes started and ended, ns."""
        if self.length:
            return self._passed(step)
        self._waiting.append(step)
        self.length = _repetition(self._waiting)
        return self.end() if self.length or len(self._waiting) >= _WAITED else []

    def end(self) -> list[tuple[int, int]]:
        """Return the minibatches of the steps so far, where the loop has not repeated itself yet."""
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return []
        rarest = min(Counter(step.optimiser for step in waiting).values())
        self.length = self.length or max(1, round(len(waiting) / rarest))
        before = (len(waiting) - 1) % self.length + 1  # the last step ends a round
        self._begun_ns = waiting[before - 1].time_ns
        return [span for step in waiting[before:] for span in self._passed(step)]

    def _passed(self, step: OptimiserStep) -> list[tuple[int, int]]:
        self._round.append(step)
        if len(self._round) < self.length:
            return []
        passed, self._round = self._round, []
        begun_ns, self._begun_ns = self._begun_ns, step.time_ns
        if begun_ns is None:
            return []
        before = [each.backwards for each in passed if each.backwards]
        parts = before[0] if len(before) == 1 else 1
        self._seen[parts, tuple(Counter(each.optimiser for each in passed).values())] += 1
        ends_ns = [begun_ns + (step.time_ns - begun_ns) * part // parts for part in range(parts + 1)]
        return list(pairwise(ends_ns))

    @property
    def usual(self) -> tuple[int, tuple[int, ...]]:
        """Minibatches of most rounds, and how often each optimiser steps in them."""
        ((usual, _),) = self._seen.most_common(1) or [((1, (1,)), 0)]
        return usual

    def note(self) -> str | None:
        """Return what a minibatch is, unless it is the step of one optimiser after one backward pass."""
        parts, times = self.usual
        words = []
        if len(times) > 1:
            each = f"{', '.join(map(str, times[:-1]))} and {times[-1]} times"
            words.append(f"a round of the loop, in which {len(times)} optimisers step {each}, is one minibatch")
        if parts > 1:
            what = "a round" if words else "a step of the optimiser"
            words.append(f"{what} after {parts} backward passes is {parts} minibatches")
        return ", but ".join(words) or None


def _repetition(steps: Sequence[OptimiserStep]) -> int:
    """Return the length of the shortest series of steps that ends the given one twice; 0 if an optimiser is missing."""
    numbers, optimisers = [step.optimiser for step in steps], steps[-1].optimisers
    for length in range(optimisers, len(numbers) // 2 + 1):
        last = numbers[-length:]
        if len(set(last)) >= optimisers and last == numbers[-2 * length : -length]:
            return length
    return 0


_LAST_WORDS = 200
_INTERPRETER = re.compile(r"python[\d.]*|sh|bash|env|nice|taskset|sudo|stdbuf")
_ARGUMENT = re.compile(r"-.*|[\d,]+|\w+=.*")


def program_name(words: Sequence[str]) -> str:
    """Return the name of the program, or of the script that an interpreter runs."""
    others = (word for word in words if not _INTERPRETER.fullmatch(Path(word).name) and not _ARGUMENT.fullmatch(word))
    first = next(others, words[0])
    return Path(words[0] if re.search(r"\s", first) else first).name


def check_none_left(words: Sequence[str]) -> None:
    """Check that a command has ended with all that it started.

    Raises:
        InputError: some of its processes run on.
    """
    if left := still_running():
        raise InputError(
            f"{program_name(words)} ended and left {len(left)} of its processes running",
            "run it in the foreground: the time of its start is not that of its work",
        )


def started(words: Sequence[str], **how: Any) -> subprocess.Popen[bytes]:
    """Start a command without input and return its process; ``how`` is for ``Popen``.

    Raises:
        InputError: it cannot be started.
    """
    try:
        return subprocess.Popen(words, stdin=subprocess.DEVNULL, **how)
    except OSError as error:
        message = f"cannot run {words[0]!r}: {error.strerror or error}"
        raise InputError(message, start_advice(words[0])) from None


def failed(words: Sequence[str], code: int, output: bytes, kills_before: int | None) -> InputError:
    """Return the error of a command that ended with an exit code, or a signal where it is negative.

    Args:
        words: The command.
        code: As ``Popen.returncode``.
        output: The end of its output.
        kills_before: ``memory.kills()`` before it ran.
    """
    how = f"was ended by {signal_name(-code)}" if code < 0 else f"ended with exit code {code}"
    why = why_killed(kills_before) if code == -signal.SIGKILL else None
    message = f"{program_name(words)} {how}{f': {why}' if why else ''}{last_line(output)}"
    return InputError(message, f"run it by itself: {shlex.join(words)[:_LAST_WORDS]}")


def last_line(output: bytes) -> str:
    """Return the last line of an output, as the end of a message; empty without one."""
    lines = [line for line in map(visible, output.decode(errors="replace").expandtabs().splitlines()) if line.strip()]
    return f"; its last output: {lines[-1][:_LAST_WORDS]}" if lines else ""


def start_advice(program: str) -> str:
    """Return advice on a program that cannot be run."""
    if os.path.isdir(program):
        return f"{program} is a folder"
    if os.path.isfile(program):
        return f"make it executable: chmod +x {program}"
    return "check the path, e.g. ./app for a program in this folder"

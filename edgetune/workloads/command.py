"""Any command as a workload: ``command:./app --batch {batch}``, written ``edgetune profile -- ./app --batch {batch}``.

    without markers   |--- a run ---|--- a run ---|      a minibatch is a whole run, from start to exit
    with markers      |  start  |step|step|step|step|    a minibatch is from one marker to the next, see ``markers``

The command runs below the child process of the profiler, so that it runs as the calling user and dies with edgetune.
``{batch}``, ``{mode}`` and the names of knobs (``{gpu_mhz}``) are filled in; ``{{`` is a brace.
"""

import hashlib
import os
import re
import shlex
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from edgetune.artifacts.files import file_hash, storable
from edgetune.artifacts.mode import SETTINGS, Mode
from edgetune.artifacts.profile import Task
from edgetune.choices import nearest
from edgetune.errors import InputError
from edgetune.processes.families import end_descendants, ended_peak_bytes, keep_descendants, kills
from edgetune.workloads.markers import MarkedRuns
from edgetune.workloads.rounds import check_none_left, failed, program_name, start_advice, started
from edgetune.workloads.torch_required import TimedSteps
from edgetune.workloads.workload import RunOptions, Workload, WorkloadKind

PREFIX = "command:"
_PLACEHOLDER = re.compile(r"\{\{|\}\}|\{(\w*)\}")
_OPERATOR = re.compile(r"""'[^']*'|\\.|"(?:\\.|[^"\\])*"|(&&|\|\||\$\(|[<>|;&`])""", re.DOTALL)
"""A quoted part, or, as group 1, an operator that only a shell reads."""
KNOWN = ("batch", "mode", *SETTINGS)
_TAIL_BYTES = 4096


def load(reference: str) -> Workload:
    """Return the workload of a command, which is not run.

    Its name is that of the program, or of the script that an interpreter runs. Its hash covers the words, the program
    and the files that the words name.

    Raises:
        InputError: the words cannot be split, there are none, or the program does not exist.
    """
    words = split(reference)
    program = shutil.which(words[0])
    if program is None:
        raise InputError(f"there is no program {words[0]!r} to run", start_advice(words[0]))
    digest = hashlib.sha256("\0".join(words).encode(errors="surrogateescape"))
    for name in (program, *words[1:]):
        if os.path.isfile(name):  # also of a word too long for a name
            digest.update(file_hash(Path(name)).digest())
    return Workload(reference, storable(Path(program_name(words)).stem), "command", None, digest.hexdigest())


def split(reference: str, known: Sequence[str] = KNOWN) -> list[str]:
    """Return the words of a command.

    Raises:
        InputError: a quote is open, there is no word, a placeholder is unknown, or an operator of a shell is unquoted.
    """
    text = reference.removeprefix(PREFIX)
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise InputError(f"{text[:80]!r} is not a command: {error}", "quote it as for a shell") from None
    if not words:
        raise InputError("there is no command to run", "e.g. edgetune profile -- ./app {batch}")
    operators = [found[1] for found in _OPERATOR.finditer(text) if found[1]]
    if operators:
        message = f"{text[:80]!r} has {operators[0]} outside quotes, and no shell reads the command"
        raise InputError(message, f'have a shell read it: "sh -c {shlex.quote(text)}"; or quote the word')
    for word in words:
        filled(word, dict.fromkeys(known, ""), known)
    return words


def takes_batch(reference: str) -> bool:
    """Return whether a command has the placeholder ``{batch}``."""
    return "batch" in placeholders(split(reference))


def placeholders(words: Sequence[str]) -> set[str]:
    """Return the names of the placeholders in words."""
    return {found[1] for word in words for found in _PLACEHOLDER.finditer(word) if found[1]}


def filled(word: str, values: Mapping[str, Any], known: Sequence[str] = KNOWN) -> str:
    """Return a word with the values of its placeholders.

    Raises:
        InputError: a placeholder is unknown, or has no value because the point leaves the knob as found.
    """

    def value(found: re.Match[str]) -> str:
        if found[1] is None:
            return found[0][0]
        if found[1] not in known:
            raise InputError(
                f"{word!r}: there is no placeholder {found[0]}", f"{nearest(found[1], known)}; {{{{ writes a brace"
            )
        if found[1] not in values:
            raise InputError(f"{word!r}: the point leaves {found[1]} as found", f"name it: --modes {found[1]}=...")
        given = values[found[1]]
        return f"{given:g}" if isinstance(given, float) else str(given)

    return _PLACEHOLDER.sub(value, word)


def open_step(workload: Workload, task: Task, batch_size: int, options: RunOptions) -> TimedSteps:
    """Return the steps of a command in the mode of ``options``; see ``steps.open_step``.

    Raises:
        InputError: the command cannot be filled in or started.
    """
    del task
    mode = Mode(**dict(options.mode))
    values = {"batch": batch_size, "mode": str(mode), **mode.settings()}
    words = [filled(word, values) for word in split(workload.reference)]
    keep_descendants()
    if options.step_pattern is None and not options.steps:
        return WholeRuns(words)
    return MarkedRuns(words, options.step_pattern)


class WholeRuns:
    """Runs a command from start to exit; its output goes to a temporary file, of which the end is told on failure."""

    def __init__(self, words: Sequence[str]) -> None:
        self._words = words
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 -- closed in close()
        self._kills_before = kills()
        self._peak_bytes: int | None = 0

    def times_ns(self, minibatches: int) -> tuple[list[int], list[int]]:
        """Run the command so many times; return when each run started and ended, CLOCK_MONOTONIC, ns.

        Raises:
            InputError: it cannot be started, ended with another exit code than 0, or left processes behind.
        """
        spans_ns = [self._run() for _ in range(minibatches)]
        check_none_left(self._words)
        return [start for start, _ in spans_ns], [end for _, end in spans_ns]

    def _run(self) -> tuple[int, int]:
        self._log.seek(0)
        self._log.truncate()
        start_ns = time.monotonic_ns()
        process = started(self._words, stdout=self._log, stderr=self._log)
        _, status, usage = os.wait4(process.pid, 0)
        end_ns = time.monotonic_ns()
        process.returncode = code = os.waitstatus_to_exitcode(status)
        peak_bytes = ended_peak_bytes(usage)
        self._peak_bytes = None if peak_bytes is None or self._peak_bytes is None else max(peak_bytes, self._peak_bytes)
        if code != 0:
            size = self._log.seek(0, os.SEEK_END)
            self._log.seek(max(0, size - _TAIL_BYTES))
            raise failed(self._words, code, self._log.read(), self._kills_before)
        return start_ns, end_ns

    def columns(self) -> dict[str, Any]:
        """Return the peak of memory, of the largest process of all runs, where it is known."""
        return {"memory_peak_bytes": self._peak_bytes} if self._peak_bytes else {}

    def close(self) -> None:
        """End what the command left running."""
        end_descendants()
        self._log.close()


KIND = WorkloadKind(
    load, prefixes=(PREFIX,), task="infer", runtime="edgetune.workloads.command", runs_code=True, per_mode=True
)

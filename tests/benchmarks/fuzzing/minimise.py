"""Making a failing input small: fewer words, fewer files, fewer bytes, as long as it fails in the same way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path

from fuzzing.execution import execute
from fuzzing.inputs import Input

_MOST_RUNS, _MOST_BYTES = 1500, 4000


def minimised(given: Input, folder: Path) -> Input:
    """Return the smallest input found that has the first fault of ``given``; ``given`` itself where it has none."""
    numbers = count()
    ended = execute(given, folder / str(next(numbers)))
    if not ended.faults:
        return given
    wanted = ended.faults[0]

    def fails(candidate: Input) -> bool:
        number = next(numbers)
        return number < _MOST_RUNS and wanted in execute(candidate, folder / str(number)).faults

    for name in list(given.files):
        without = replace(given, files={each: data for each, data in given.files.items() if each != name})
        given = without if fails(without) else given
    given = _fewer_words(given, fails)
    for name in list(given.files):
        given = _fewer_bytes(given, name, fails)
    return given


def _fewer_words(given: Input, fails: Callable[[Input], bool]) -> Input:
    start = len(given.command.split())

    def made(words: Sequence[str]) -> Input:
        return replace(given, argv=(*given.argv[:start], *words))

    return made(_ddmin(list(given.argv[start:]), lambda words: fails(made(words))))


def _fewer_bytes(given: Input, name: str, fails: Callable[[Input], bool]) -> Input:
    """Leave out lines of a file, then bytes of it."""

    def made(parts: Sequence[bytes]) -> Input:
        return replace(given, files={**given.files, name: b"".join(parts)})

    lines = _ddmin(given.files[name].splitlines(keepends=True), lambda parts: fails(made(parts)))
    rest = [bytes((byte,)) for byte in b"".join(lines)]
    return made(_ddmin(rest, lambda parts: fails(made(parts))) if len(rest) <= _MOST_BYTES else lines)


def _ddmin(parts: list, fails: Callable[[list], bool]) -> list:
    """Return a part of ``parts`` that still fails and of which no single chunk can be left out (Zeller's ddmin)."""
    chunks = 2
    while len(parts) > 1:
        size = max(1, len(parts) // chunks)
        for start in range(0, len(parts), size):
            kept = parts[:start] + parts[start + size :]
            if fails(kept):
                parts, chunks = kept, max(chunks - 1, 2)
                break
        else:
            if size == 1:
                break
            chunks = min(len(parts), chunks * 2)
    return parts

"""Every command with damaged, foreign and hostile files: no traceback, no exit 1, nothing over 10 s or 500 MB.

    python tests/benchmarks/fuzz.py                           20,000 inputs
    python tests/benchmarks/fuzz.py --seed 7 --inputs 500     others, fewer; --first 500 goes on behind them
    python tests/benchmarks/fuzz.py --only show --only merge  these commands, or kinds of files, alone
    python tests/benchmarks/fuzz.py --replay 7:123 --into F   writes input 123 into F and says how it ends
    python tests/benchmarks/fuzz.py --minimise 7:123          the same, made as small as it still fails so

Input N of a seed is a function of both numbers. The first few thousand of every seed pair each command with each kind
of file; those after them are drawn. Commands come from the command line's own tree, kinds from ``fuzzing/seeds.py``.
Everything runs in processes forked from this one, within folders that are removed. Time is that of the processor, so
that other work on the machine does not count.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import shlex
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fuzzing.corpus import COMMAND, STDIN
from fuzzing.execution import Ended, execute, execute_all, preload
from fuzzing.inputs import Input, make_input
from fuzzing.minimise import minimised
from fuzzing.seeds import put
from guardian_matrix import MEMORY

_BATCH = 20
"""Inputs to a process, as long as none ends it."""


@dataclass
class Tally:
    """What is counted over all inputs."""

    codes: Counter[int] = field(default_factory=Counter)
    commands: Counter[str] = field(default_factory=Counter)
    cpu_s: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    groups: dict[str, list[int]] = field(default_factory=dict)
    escapes: list[int] = field(default_factory=list)
    slowest: list[tuple[float, int, str]] = field(default_factory=list)
    largest: list[tuple[float, int, str]] = field(default_factory=list)

    def add(self, number: int, command: str, kinds: tuple[str, ...], ended: Ended) -> None:
        """Count one input."""
        self.codes[ended.code] += 1
        self.commands[command] += 1
        self.cpu_s[command] += ended.cpu_s  # type: ignore[assignment]
        self.kinds.update(kinds)
        for fault in ended.faults:
            self.groups.setdefault(fault, []).append(number)
        if ended.escapes:
            self.escapes.append(number)
        self.slowest = sorted([*self.slowest, (ended.cpu_s, number, command)], reverse=True)[:5]
        self.largest = sorted([*self.largest, (ended.rss_bytes / 1e6, number, command)], reverse=True)[:5]

    def tell(self, seed: int) -> None:
        """Print the counts, the worst, and the failures by group."""
        print(f"exit codes: {dict(sorted(self.codes.items()))}")
        counts = (
            f"{name or 'edgetune'} {count} in {self.cpu_s[name]:.1f} s" for name, count in sorted(self.commands.items())
        )
        print("commands: " + ", ".join(counts))
        print("kinds: " + ", ".join(f"{name} {count}" for name, count in sorted(self.kinds.items())))
        print(
            "slowest: "
            + ", ".join(f"{cpu_s:.1f} s {seed}:{number} {command}" for cpu_s, number, command in self.slowest)
        )
        print(
            "largest: "
            + ", ".join(f"{size:.0f} MB {seed}:{number} {command}" for size, number, command in self.largest)
        )
        print(
            f"control letters in the output: {len(self.escapes)} {[f'{seed}:{number}' for number in self.escapes[:5]]}"
        )
        for fault, numbers in sorted(self.groups.items(), key=lambda group: -len(group[1])):
            print(f"FAILED {len(numbers):5}  {fault}   {' '.join(f'{seed}:{number}' for number in numbers[:3])}")


def main() -> int:
    """Run the fuzzer and return 1 where an input failed."""
    asked = _arguments()
    if asked.replay or asked.minimise:
        return _one(asked.replay or asked.minimise, asked.into, smaller=bool(asked.minimise))
    begun_s = time.monotonic()
    make_input(asked.seed, 0)
    preload()
    numbers = list(range(asked.first, asked.first + asked.inputs))
    tally = Tally()
    print(f"seed {asked.seed}, inputs {asked.first} to {asked.first + asked.inputs - 1}", flush=True)
    told_s = time.monotonic()
    for number, command, kinds, ended in _all(asked.seed, numbers, tuple(asked.only), asked.jobs):
        tally.add(number, command, kinds, ended)
        for fault in ended.faults:
            if len(tally.groups[fault]) == 1:
                print(f"  {asked.seed}:{number} {command}: {fault}", flush=True)
        if time.monotonic() - told_s > 60:
            told_s = time.monotonic()
            print(f"  {tally.codes.total()} inputs in {told_s - begun_s:.0f} s", flush=True)
    tally.tell(asked.seed)
    failed = {number for numbers in tally.groups.values() for number in numbers}
    took_s = time.monotonic() - begun_s
    groups = f"{len(failed)} failed, in {len(tally.groups)} groups"
    print(f"{tally.codes.total()} inputs, seed {asked.seed}: {groups}; {took_s:.0f} s")
    return int(bool(failed))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--inputs", type=int, default=20_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    parser.add_argument("--only", action="append", default=[], metavar="COMMAND|KIND")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--replay", metavar="SEED:N")
    parser.add_argument("--minimise", metavar="SEED:N")
    parser.add_argument("--into", type=Path, default=Path("fuzz-input"), help="folder for --replay and --minimise")
    return parser.parse_args()


def _all(
    seed: int, numbers: list[int], only: tuple[str, ...], jobs: int
) -> Iterator[tuple[int, str, tuple[str, ...], Ended]]:
    """Run inputs in several processes and yield how each ended."""
    with tempfile.TemporaryDirectory(dir=MEMORY, prefix="edgetune-fuzz-") as folder:
        context = multiprocessing.get_context("fork")
        results = context.Queue()
        workers = [
            context.Process(target=_work, args=(seed, numbers[place::jobs], only, Path(folder) / str(place), results))
            for place in range(jobs)
        ]
        for worker in workers:
            worker.start()
        left = jobs
        while left:
            found = results.get()
            if found is None:
                left -= 1
            else:
                yield found
        for worker in workers:
            worker.join()
            if worker.exitcode:
                raise RuntimeError("the fuzzer itself failed: not all inputs were run")


def _work(seed: int, numbers: list[int], only: tuple[str, ...], folder: Path, results: Any) -> None:
    """Run every input of these numbers, a batch to a process, and put how each ended into a queue."""
    try:
        for start in range(0, len(numbers), _BATCH):
            batch = [(number, make_input(seed, number)) for number in numbers[start : start + _BATCH]]
            batch = [
                (number, given) for number, given in batch if not only or {given.command, *given.kinds} & set(only)
            ]
            endings = execute_all([given for _, given in batch], folder / str(start))
            for (number, given), ended in zip(batch, endings, strict=True):
                results.put(
                    (number, given.command, given.kinds, replace(ended, code=int(ended.code), out=b"", err=b""))
                )
    finally:
        results.put(None)


def _one(which: str, into: Path, *, smaller: bool) -> int:
    """Write one input into a folder, run it, and say its command and how it ended."""
    seed, _, number = which.partition(":")
    given = make_input(int(seed), int(number))
    preload()
    with tempfile.TemporaryDirectory(dir=MEMORY, prefix="edgetune-fuzz-") as folder:
        if smaller:
            given = minimised(given, Path(folder))
        ended = execute(given, Path(folder) / "last")
    _write(given, into)
    print(f"cd {shlex.quote(str(into))} && edgetune {shlex.join(given.argv)}{' < stdin' if given.stdin else ''}")
    print(f"exit {ended.code}, {ended.cpu_s:.2f} s, {ended.rss_bytes / 1e6:.0f} MB")
    sys.stdout.write(ended.err.decode(errors="backslashreplace")[-3000:])
    for fault in ended.faults:
        print(f"FAILED {fault}")
    return int(bool(ended.faults))


def _write(given: Input, into: Path) -> None:
    """Write the files of an input and its command line, as a case of the regression corpus is kept."""
    into.mkdir(parents=True, exist_ok=True)
    put(into, given.files)
    (into / COMMAND).write_text(f"{shlex.join(given.argv)}\n")
    if given.stdin:
        (into / STDIN).write_bytes(given.stdin)


if __name__ == "__main__":
    sys.exit(main())

"""Print in how many ways elastic kernels were run and found equal: python tests/benchmarks/elastic_equality.py.

All kernels of tests/elastic/kernels and some made by chance, compiled to PTX and made elastic, in the interpreter:
forms x shards in orders of chance x physical blocks x orders of threads and blocks; persistent forms x quotas that
change at moments of chance x launches until all is done.

With --time, the CPU time of the interpreter per sequence of launches of the form whose grid is elastic, by class of
kernel.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from edgetune.errors import EdgetuneError
from edgetune.stages.elastic.cpu_equivalence import Matrix, Verdict, check, launches_of, ways, with_control
from edgetune.stages.elastic.kernel import CudaKernel, ElasticKernel
from edgetune.stages.elastic.ptx.interpreter import PtxProgram
from edgetune.stages.elastic.sample_launches import SampleLaunch, sample_launches_in

sys.path.insert(0, str(Path(__file__).parents[1] / "elastic"))
import kernel_corpus
import ptx_corpus
import random_kernels

KERNELS_A_FILE = 6


def sources(files: int) -> list[tuple[str, str]]:
    """Return the names and texts of the corpus and of so many files made by chance."""
    corpus = [(name, kernel_corpus.source(name)) for name in kernel_corpus.NAMES]
    seeds = range(100, 100 + files)
    return corpus + [(f"chance-{seed}", random_kernels.source(seed, KERNELS_A_FILE)) for seed in seeds]


def checked(name: str, text: str, cuts: int) -> tuple[str, tuple[Verdict, ...], int, float]:
    """Return a source's name, its verdicts, the sequences of persistent forms, and how long they took, s."""
    began, matrix = time.perf_counter(), Matrix(cuts=cuts)
    made, trials = ptx_corpus.made(text, persistent=True), sample_launches_in(text, name)
    found = check(made, trials, name=name, matrix=matrix)
    elastic = {each.kernel.name: each for each in made.kernels if each.variants}
    tried = (trial.call for trial in trials if trial.call.kernel in elastic)
    persistent = sum(way.persistent for call in tried for way in ways(elastic[call.kernel], call.logical, matrix))
    return name, found, persistent, time.perf_counter() - began


def table(cuts: int, files: int) -> int:
    """Print a line for each source and the sum; return how many trials were not equal."""
    began = time.perf_counter()
    print("source               kernels  forms  equal  sequences  seconds")
    tried, sequences, persistent, unequal = 0, 0, 0, 0
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for future in [pool.submit(checked, *each, cuts) for each in sources(files)]:
            name, verdicts, taking, taken_s = future.result()
            equal = sum(verdict.answer == "equal" for verdict in verdicts)
            ran = sum(verdict.sequences for verdict in verdicts)
            forms = max((verdict.forms for verdict in verdicts), default=0)
            kernels = len({verdict.kernel for verdict in verdicts if verdict.forms})
            print(f"{name:<20} {kernels:>7} {forms:>6} {equal:>6} {ran:>10} {taken_s:>8.2f}", flush=True)
            for verdict in verdicts:
                if verdict.reason:
                    print(f"    {verdict.kernel}: {verdict.reason}")
            persistent += taking
            tried, sequences, unequal = tried + kernels, sequences + ran, unequal + len(verdicts) - equal
    forms_told = f"{persistent} of them of persistent forms"
    print(f"{tried} kernels, {sequences} sequences of launches, {forms_told}, {unequal} not equal")
    print(f"in {time.perf_counter() - began:.1f} s")
    return unequal


def kernel_class(kernel: CudaKernel, instructions: set[str]) -> str:
    """Return what the speed of the interpreter depends on most."""
    found = {"tensor cores": {"mma", "wmma"}, "atomic operations": {"atom", "red"}}
    first = next((name for name, words in found.items() if words & instructions), None)
    return first or ("warps" if kernel.warp else "barriers" if kernel.barriers else "single threads")


def per_sequence_s(program: PtxProgram, elastic: ElasticKernel, trial: SampleLaunch) -> float:
    """Return the CPU time of one sequence of launches of the form whose grid is elastic, s."""
    form = next(each for each in elastic.variants if each.level == "grid")
    tried = list(ways(ElasticKernel(elastic.kernel, (form,), ()), trial.call.logical, Matrix()))
    sequences = [(launches_of(trial.call, way), way.schedule) for way in tried]
    began = time.process_time()
    outcomes = list(program.run_all(sequences, with_control(trial).buffers, 60))
    assert {each.status for each in outcomes} == {"ok"}, trial.call.kernel
    return (time.process_time() - began) / len(sequences)


def times(names: list[str]) -> None:
    """Print the time of a sequence in the interpreter, and the median of each class."""
    found: dict[str, list[float]] = {}
    print("source               class             ms")
    for name in names:
        done = ptx_corpus.transformed(name)
        elastic = {each.kernel.name: each for each in done.kernels if each.variants}
        program = PtxProgram.of(done.source, name)
        words = {one.name: {each.op[0] for each in one.instructions} for one in program.module.entries}
        for trial in ptx_corpus.trials(name):
            if (one := elastic.get(trial.call.kernel)) is not None:
                kind, taken_s = kernel_class(one.kernel, words[one.kernel.name]), per_sequence_s(program, one, trial)
                found.setdefault(kind, []).append(taken_s)
                print(f"{name:<20} {kind:<17} {1000 * taken_s:.2f}", flush=True)
    for kind, all_of in found.items():
        print(f"{kind:<17} {len(all_of)} launches: {1000 * statistics.median(all_of):.2f} ms in the median")


def main() -> int:
    """Print what was tried; return 1 where a form is not equal."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--cuts", type=int, default=6, help="slicings at places of chance, for each physical block")
    parser.add_argument("--random", type=int, default=4, help="files of kernels made by chance, six in each")
    parser.add_argument("--time", nargs="*", metavar="NAME", help="the interpreter's time, of these files or all")
    asked = parser.parse_args()
    if asked.time is not None:
        times(asked.time or [*ptx_corpus.NAMES, *ptx_corpus.BENCHMARK])
        return 0
    return 1 if table(asked.cuts, asked.random) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except EdgetuneError as error:
        sys.exit(f"error: {error.message}\nhint: {error.hint}")

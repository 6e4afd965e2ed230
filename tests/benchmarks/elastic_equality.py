"""Print in how many ways elastic kernels were run and found equal: python tests/benchmarks/elastic_equality.py.

All kernels of tests/elastic/kernels, and some made by chance, each as the generator makes it, through the CPU shim:
forms x logical threads in a physical one x shards in orders of chance x physical blocks x orders of threads and blocks;
persistent forms x quotas that change at moments of chance x launches until all is done.
Then mutants of generated code, each of which must be found out, and the shim's own speed.

With --interpreter, the CPU time of the interpreter of PTX beside that of the shim: the same launches of the form whose
grid is elastic, in the same orders, per sequence, by class of kernel.
"""

from __future__ import annotations

import argparse
import math
import os
import resource
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from edgetune.errors import EdgetuneError
from edgetune.stages.elastic.cpu_equivalence import Matrix, Runner, Verdict, check, launches_of, ways, with_control
from edgetune.stages.elastic.kernel import CudaKernel, ElasticKernel
from edgetune.stages.elastic.ptx.interpreter import PtxProgram
from edgetune.stages.elastic.sample_launches import SampleLaunch, sample_launches_in
from edgetune.stages.elastic.shim.build import build
from edgetune.stages.elastic.shim.run import ShimLaunch
from edgetune.stages.elastic.source.transform import transform
from edgetune.stages.elastic.work import Pointer, Scalar

sys.path.insert(0, str(Path(__file__).parents[1] / "elastic"))
import kernel_corpus
import kernel_mutants
import ptx_corpus
import random_kernels

KERNELS_A_FILE = 6
SIDE, TILE = 256, 16
MATMUL = """
__global__ void matmul(float *c, const float *a, const float *b, int n) {
    __shared__ float left[16][16], right[16][16];
    int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    float sum = 0.0f;
    for (int start = 0; start < n; start += 16) {
        left[threadIdx.y][threadIdx.x] = a[row * n + start + threadIdx.x];
        right[threadIdx.y][threadIdx.x] = b[(start + threadIdx.y) * n + column];
        __syncthreads();
        for (int t = 0; t < 16; ++t) sum += left[threadIdx.y][t] * right[t][threadIdx.x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}
"""


def sources(files: int) -> list[tuple[str, str]]:
    """Return the names and texts of the corpus and of so many files made by chance."""
    corpus = [(name, kernel_corpus.source(name)) for name in kernel_corpus.NAMES]
    seeds = range(100, 100 + files)
    return corpus + [(f"chance-{seed}", random_kernels.source(seed, KERNELS_A_FILE)) for seed in seeds]


def checked(name: str, text: str, cuts: int) -> tuple[str, tuple[Verdict, ...], int, float]:
    """Return a source's name, its verdicts, the sequences of persistent forms, and how long they took, s."""
    began = time.perf_counter()
    file, matrix = f"{name}.cu", Matrix(cuts=cuts)
    made, trials = transform(text, file, persistent=True), sample_launches_in(text, file)
    found = check(made, trials, name=file, matrix=matrix)
    elastic = {each.kernel.name: each for each in made.kernels if each.variants}
    tried = (trial.call for trial in trials if trial.call.kernel in elastic)
    persistent = sum(way.persistent for call in tried for way in ways(elastic[call.kernel], call.logical, matrix))
    return name, found, persistent, time.perf_counter() - began


def matmul_s(repeats: int = 5) -> float:
    """Return how long the shim takes for one tiled product of 256 x 256 matrices: the best of some, s."""
    built = build(MATMUL)
    random = np.random.default_rng(0)
    arrays = {name: random.uniform(-1, 1, (SIDE, SIDE)).astype(np.float32) for name in "cab"}
    arguments = (*(Pointer(name) for name in "cab"), Scalar(SIDE.to_bytes(4, "little")))
    launch = ShimLaunch("matmul", (SIDE // TILE, SIDE // TILE, 1), (TILE, TILE, 1), arguments)
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        outcome = built.run([launch], arrays)
        times.append(time.perf_counter() - began)
    np.testing.assert_allclose(outcome.buffers["c"], arrays["a"] @ arrays["b"], atol=1e-4)
    return min(times)


def table(pool: ThreadPoolExecutor, cuts: int, files: int) -> int:
    """Print a line for each source and the sum; return how many trials were not equal."""
    began = time.perf_counter()
    print("source               kernels  forms  equal  sequences  seconds")
    tried, sequences, persistent, unequal = 0, 0, 0, 0
    for name, verdicts, taking, taken_s in pool.map(lambda each: checked(*each, cuts), sources(files)):
        equal = sum(verdict.answer == "equal" for verdict in verdicts)
        ran = sum(verdict.sequences for verdict in verdicts)
        forms = max((verdict.forms for verdict in verdicts), default=0)
        kernels = len({verdict.kernel for verdict in verdicts if verdict.forms})
        print(f"{name:<20} {kernels:>7} {forms:>6} {equal:>6} {ran:>10} {taken_s:>8.2f}")
        for verdict in verdicts:
            if verdict.reason:
                print(f"    {verdict.kernel}: {verdict.reason}")
        persistent += taking
        tried, sequences, unequal = tried + kernels, sequences + ran, unequal + len(verdicts) - equal
    forms = f"{persistent} of them of persistent forms"
    print(f"{tried} kernels, {sequences} sequences of launches, {forms}, {unequal} not equal")
    print(f"in {time.perf_counter() - began:.1f} s")
    return unequal


def kernel_class(kernel: CudaKernel, instructions: set[str]) -> str:
    """Return what the speed of the interpreter depends on most."""
    found = {"tensor cores": {"mma", "wmma"}, "atomic operations": {"atom", "red"}}
    first = next((name for name, words in found.items() if words & instructions), None)
    return first or ("warps" if kernel.warp else "barriers" if kernel.barriers else "single threads")


def cpu_s() -> float:
    """Return the CPU time of this process and of those that it waited for, s."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def per_sequence_s(runner: Runner, elastic: ElasticKernel, trial: SampleLaunch, matrix: Matrix) -> float:
    """Return the CPU time of one sequence of launches of the form whose grid is elastic, s."""
    form = next(each for each in elastic.variants if each.level == "grid")
    tried = list(ways(ElasticKernel(elastic.kernel, (form,), ()), trial.call.logical, matrix))
    sequences = [(launches_of(trial.call, way), way.schedule) for way in tried]
    began = cpu_s()
    outcomes = list(runner.run_all(sequences, with_control(trial).buffers, 60))
    assert {each.status for each in outcomes} == {"ok"}, trial.call.kernel
    return (cpu_s() - began) / len(sequences)


def ratios(names: list[str]) -> None:
    """Print the time of a sequence on the shim and in the interpreter, and the mean ratio of each class."""
    found: dict[str, list[float]] = {}
    print("source               class              shim ms  PTX ms  ratio")
    for name in names:
        done, file = transform(ptx_corpus.source(name), f"{name.rpartition('/')[2]}.cu"), name.rpartition("/")[2]
        by_ptx = {each.kernel.name: each for each in ptx_corpus.transformed(name).kernels if each.variants}
        pairs = zip(sample_launches_in(ptx_corpus.source(name), name), ptx_corpus.trials(name), strict=True)
        by_name = {each.kernel.name: each for each in done.kernels if each.variants}
        program = PtxProgram.of(ptx_corpus.transformed(name).source, name)
        words = {one.name: {each.op[0] for each in one.instructions} for one in program.module.entries}
        for by_source, trial in pairs:
            if by_source.call.kernel not in by_name or trial.call.kernel not in by_ptx:
                continue
            elastic, form = by_name[by_source.call.kernel], by_ptx[trial.call.kernel]
            symbols = (elastic.kernel.name, *(each.symbol for each in elastic.variants))
            shim_s = per_sequence_s(build(done.compiled, f"{file}.cu", symbols), elastic, by_source, Matrix())
            ptx_s = per_sequence_s(program, form, trial, Matrix())
            kind = kernel_class(form.kernel, words[form.kernel.name])
            found.setdefault(kind, []).append(ptx_s / shim_s)
            print(
                f"{name:<20} {kind:<17} {1000 * shim_s:>8.2f} {1000 * ptx_s:>7.2f} {ptx_s / shim_s:>6.2f}", flush=True
            )
    for kind, all_of in found.items():
        mean = math.exp(statistics.fmean(map(math.log, all_of)))
        print(f"{kind:<17} {len(all_of)} launches: the interpreter takes {mean:.2f} times as long as the shim")


def main() -> int:
    """Print what was tried; return 1 where a form is not equal or a mutant is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--cuts", type=int, default=6, help="slicings at places of chance, for each physical block")
    parser.add_argument("--random", type=int, default=4, help="files of kernels made by chance, six in each")
    parser.add_argument("--interpreter", nargs="*", metavar="NAME", help="its speed beside the shim's, of these files")
    asked = parser.parse_args()
    if asked.interpreter is not None:
        ratios(asked.interpreter or [*ptx_corpus.NAMES, *ptx_corpus.BENCHMARK])
        return 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        unequal = table(pool, asked.cuts, asked.random)
        began = time.perf_counter()
        answers = list(pool.map(lambda mutant: kernel_mutants.verdict_of(mutant).answer, kernel_mutants.MUTANTS))
        killed = answers.count("different")
        print(f"{len(answers)} mutants of generated code, {killed} found out, in {time.perf_counter() - began:.1f} s")
    print(f"the tiled product of 256 x 256 matrices takes {1000 * matmul_s():.0f} ms on the shim")
    return 1 if unequal or killed < len(answers) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except EdgetuneError as error:
        sys.exit(f"error: {error.message}\nhint: {error.hint}")

"""Print in how many ways elastic kernels were run and found equal: python tests/benchmarks/elastic_equality.py.

All kernels of tests/elastic/kernels, of the benchmark and of Triton, in all forms made from PTX, in the interpreter:
forms x logical threads in a physical one x shards in orders of chance x physical blocks x orders of threads and
blocks; persistent forms x quotas that change at moments of chance x launches until all is done. Files are checked side
by side, in as many processes as there are CPUs; the seconds of a file are CPU time.
"""

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from edgetune.devices.cpu import usable_cpus
from edgetune.errors import EdgetuneError
from edgetune.stages.elastic.cpu_equivalence import Matrix, Verdict, check

sys.path.insert(0, str(Path(__file__).parents[1] / "elastic"))
import ptx_corpus

LIMIT_S = 60
NAMES = [*ptx_corpus.NAMES, *ptx_corpus.BENCHMARK, *ptx_corpus.TRITON]


def checked(name: str, cuts: int) -> tuple[str, tuple[Verdict, ...], float]:
    """Return a file's name, its verdicts, and the CPU time of the check, s."""
    done, trials = ptx_corpus.transformed(name), ptx_corpus.trials(name)
    began_s = time.process_time()
    found = check(done, trials, name=f"{name}.ptx", matrix=Matrix(cuts=cuts), limit_s=LIMIT_S)
    return name, found, time.process_time() - began_s


def main() -> int:
    """Print a line for each file and the sum; return 1 where a form is not equal."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", default=NAMES, metavar="NAME", help="files; all of them by default")
    parser.add_argument("--cuts", type=int, default=2, help="slicings at places of chance, for each physical block")
    asked = parser.parse_args()
    began_s, sequences, unequal, used_s = time.perf_counter(), 0, 0, 0.0
    print("source                kernels  forms  equal  sequences  CPU s")
    with ProcessPoolExecutor(len(usable_cpus()) or 1) as pool:
        for name, verdicts, taken_s in pool.map(checked, asked.names, [asked.cuts] * len(asked.names)):
            kernels, equal = {each.kernel for each in verdicts}, [each.answer == "equal" for each in verdicts]
            ran, forms = sum(each.sequences for each in verdicts), max((each.forms for each in verdicts), default=0)
            print(f"{name:<22} {len(kernels):>6} {forms:>6} {sum(equal):>6} {ran:>10} {taken_s:>6.1f}", flush=True)
            for each in verdicts:
                if each.reason:
                    print(f"    {each.kernel}: {each.reason}")
            sequences, unequal, used_s = sequences + ran, unequal + equal.count(False), used_s + taken_s
    print(f"{sequences} sequences of launches, {unequal} not equal, in {used_s:.1f} s of CPU time")
    print(f"after {time.perf_counter() - began_s:.1f} s, with the compilation")
    return 1 if unequal else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except EdgetuneError as error:
        sys.exit(f"error: {error.message}\nhint: {error.hint}")

"""Print which kernels of NVIDIA's samples become elastic: python tests/benchmarks/elastic_samples.py FOLDER.

FOLDER is made by ``git clone`` where it is missing; the package ``nvidia-cuda-samples`` of Debian serves as well. Files
are compiled as users would (NVRTC, with host code nvcc), for Orin; those that need other libraries do not compile. With
``--check`` forms are compared with the originals in the interpreter, by launches with arrays of small numbers: where a
kernel needs another launch, that is no verdict of its forms.
"""

import argparse
import subprocess
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from edgetune.devices.cpu import usable_cpus
from edgetune.errors import EdgetuneError
from edgetune.stages.elastic.compiler import CompileOptions
from edgetune.stages.elastic.cpu_equivalence import Matrix, check
from edgetune.stages.elastic.front import transform
from edgetune.stages.elastic.kernel import ElasticKernel, TransformResult
from edgetune.stages.elastic.ptx.interpreter import PtxProgram
from edgetune.stages.elastic.sample_launches import guessed_launch, sample_launches_in

SAMPLES = "https://github.com/NVIDIA/cuda-samples"
LIMIT_S = 3
WAYS = 12
"""Of each form, of some hundreds."""


def kernels(path: Path, *, folder: Path, checks: bool) -> tuple[Path, str, list[tuple[str, str]]]:
    """Return a file, why it does not compile, and of each kernel the levels or the refusal, and the verdict."""
    include = (str(path.parent), str(folder / "Common"), str(path.parent.parent / "inc"))
    text = path.read_text(encoding="utf-8", errors="surrogateescape")
    try:
        done = transform(text, path.name, "sm_87", options=CompileOptions(False, include), persistent=True)
    except EdgetuneError as error:
        return path, error.message, []
    if not checks:
        return path, "", [(found(each), "") for each in done.kernels]
    try:
        program = PtxProgram(done.source, path.name)
    except EdgetuneError:
        return path, "", [(found(each), "not run: too long") for each in done.kernels]
    return path, "", [(found(each), verdict(done, each, program)) for each in done.kernels]


def found(each: ElasticKernel) -> str:
    """Return what was made of a kernel."""
    if not each.variants:
        return f"refused: {each.refusals[0].code}"
    return "grid and block" if any(one.level == "block" for one in each.variants) else "grid"


def verdict(done: TransformResult, each: ElasticKernel, program: PtxProgram) -> str:
    """Return the answer of the check of a kernel by a guess."""
    guess = guessed_launch(each.kernel)
    if not each.variants or guess is None:
        return "no launch"
    try:
        trials = sample_launches_in(f"// launch {guess}", "guess")
        (answer,) = check(done, trials, matrix=Matrix(cuts=1, most=WAYS), limit_s=LIMIT_S, program=program)
    except EdgetuneError as error:
        return "not run: an instruction" if "instruction" in error.message else "not run: another launch"
    return "not run: too long" if "hang" in answer.reason else answer.answer


def main() -> int:
    """Print a line for each file that has a refusal, and the sums; return 1 where a form is not equal."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--check", action="store_true", help="run the forms")
    asked = parser.parse_args()
    if not asked.folder.exists():
        subprocess.run(["git", "clone", "--depth", "1", SAMPLES, str(asked.folder)], check=True)
    made, verdicts, compiled, other = Counter[str](), Counter[str](), 0, list[str]()
    files = sorted(asked.folder.rglob("*.cu"))
    with ProcessPoolExecutor(len(usable_cpus()) or 1) as pool:
        for path, error, rows in pool.map(partial(kernels, folder=asked.folder, checks=asked.check), files):
            compiled += not error
            made.update(what for what, _ in rows)
            verdicts.update(answer for _, answer in rows)
            refused = Counter(what for what, _ in rows if what.startswith("refused"))
            print(f"{path.stem:<40} {len(rows):>4} {error or ', '.join(f'{each} {n}' for each, n in refused.items())}")
            other += [path.stem for _, answer in rows if answer == "different"]
    print(f"{compiled} of {len(files)} files compile, with {made.total()} kernels")
    for counts in (made, verdicts) if asked.check else (made,):
        print(", ".join(f"{each} {number}" for each, number in counts.most_common()))
    print(*(f"not equal: {each}" for each in other), sep="\n", end="")
    return 1 if other else 0


if __name__ == "__main__":
    sys.exit(main())

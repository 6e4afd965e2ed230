"""Print in how many ways elastic kernels were run and found equal: python tests/benchmarks/elastic_equality.py.

All kernels of tests/elastic/kernels, each as the generator makes it, through the CPU shim: forms x logical threads in a
physical one x shards in orders of chance x physical blocks x orders of threads and blocks. The last
line is of the shim's own speed.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from edgetune.elastic.check import Matrix, Verdict, check
from edgetune.elastic.shim.build import build
from edgetune.elastic.shim.launches import ShimLaunch
from edgetune.elastic.source.transform import transform
from edgetune.elastic.trials import trials_in
from edgetune.elastic.work import Pointer, Scalar

KERNELS = Path(__file__).parents[1] / "elastic" / "kernels"
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


def checked(path: Path, cuts: int) -> tuple[str, tuple[Verdict, ...], float]:
    """Return a kernel's name, its verdicts and how long they took, s."""
    began = time.perf_counter()
    text = path.read_text()
    matrix = Matrix(cuts=cuts)
    found = check(transform(text, path.name), trials_in(text, path.name), name=path.name, matrix=matrix)
    return path.stem, found, time.perf_counter() - began


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


def main() -> int:
    """Print a line for each trial and the sums; return 1 where a form is not equal."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--cuts", type=int, default=6, help="slicings at places of chance, for each physical block")
    cuts = parser.parse_args().cuts
    began = time.perf_counter()
    print("kernel                answer     forms  sequences   seconds")
    sequences, unequal = 0, 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for name, verdicts, taken_s in pool.map(lambda path: checked(path, cuts), sorted(KERNELS.glob("*.cu"))):
            for verdict in verdicts:
                print(f"{name:<21} {verdict.answer:<10} {verdict.forms:>5} {verdict.sequences:>10} {taken_s:>9.2f}")
                if verdict.reason:
                    print(f"    {verdict.reason}")
                sequences += verdict.sequences
                unequal += verdict.answer != "equal"
    print(f"{sequences} sequences of launches in {time.perf_counter() - began:.1f} s, {unequal} not equal")
    print(f"the tiled product of 256 x 256 matrices takes {1000 * matmul_s():.0f} ms on the shim")
    return 1 if unequal else 0


if __name__ == "__main__":
    sys.exit(main())

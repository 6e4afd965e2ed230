"""Networks that edgetune did not make: its median time beside a bare ONNX Runtime loop over the same file.

    python tests/benchmarks/foreign_networks.py [--only NAME,NAME] [--turns 3] [--turn-s 0.2]
                                                 [--plain] [--json]

Of every network of tests/corpus, `edgetune profile FILE` (with its child process, and `--dim` where the corpus says
sizes) and a bare loop (its own process, two dozen lines, nothing of edgetune in it) take turns, A B A B, at the shapes
that the corpus says are right and with the same number of threads. Both tell ONNX Runtime the sizes of open axes, from
which it optimises; with ``--plain`` the bare loop does not, as a program that only feeds the file would not. Printed
are the medians over all turns, their ratio, and how edgetune refused where it did. A ratio far from 1 is a network that
was not measured as it is in its file; on a busy machine it may be chance: the bare loop's own spread over its turns
stands beside it, and the ratio of the least times of both, which others disturb less. Nothing is asserted.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "corpus"))

from foreign import NETWORKS, ForeignNetwork

from edgetune.artifacts.io import read_profile
from edgetune.cli.main import run
from edgetune.devices.cpu import usable_cpus

BARE_LOOP = """
import json, sys, time
import numpy, onnxruntime
onnxruntime.set_default_logger_severity(4)
opened = None
for line in sys.stdin:
    path, feeds_file, minibatches, threads, sizes = json.loads(line)
    if path != opened:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        for symbol, size in sizes.items():
            options.add_free_dimension_override_by_name(symbol, size)
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        feeds, opened = dict(numpy.load(feeds_file)), path
    times = []
    for _ in range(minibatches):
        begun = time.perf_counter()
        session.run(None, feeds)
        times.append(time.perf_counter() - begun)
    print(json.dumps(times), flush=True)
"""
FEWEST, MOST = 10, 4000
NEAR = 0.10


@dataclass(frozen=True, slots=True)
class Compared:
    """What came of one network.

    Args:
        name: In the corpus.
        bare_s, edgetune_s: Medians over turns; ``None`` where it did not run.
        spread: Of the bare loop's medians: the largest over the least.
        least: The least time of edgetune over that of the bare loop.
        refusal: What edgetune said instead of measuring.
    """

    name: str
    bare_s: float | None
    edgetune_s: float | None
    spread: float | None
    least: float | None = None
    refusal: str = ""

    @property
    def ratio(self) -> float | None:
        """Time of edgetune over that of the bare loop."""
        return None if self.bare_s is None or self.edgetune_s is None else self.edgetune_s / self.bare_s


class BareLoop:
    """A plain loop in its own process, over whatever file it is told."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", BARE_LOOP], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, path: Path, feeds: Path, minibatches: int, sizes: Mapping[str, int]) -> list[float]:
        """Return the time of each minibatch, s; ``sizes`` of open axes are told to ONNX Runtime."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        told = json.dumps([str(path), str(feeds), minibatches, len(usable_cpus()), dict(sizes)])
        print(told, file=self._process.stdin, flush=True)
        times: list[float] = json.loads(self._process.stdout.readline())
        return times

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def profiled(path: Path, network: ForeignNetwork, minibatches: int) -> list[float] | str:
    """Return edgetune's time of each minibatch, s, or what it said instead."""
    target = path.parent / "profile.parquet"
    dims = [word for name, size in network.dimensions.items() for word in ("--dim", f"{name}={size}")]
    how = ["--task", "infer", "--device", "host", "--fresh", "-q", "-o", str(target), *dims]
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        code = run(("profile", str(path), "--minibatches", str(minibatches), *how))
    if code:
        return said.getvalue().partition("\n")[0].removeprefix("error: ") or f"exit {int(code)}"
    return list(read_profile(str(target)).rows[-1].times_s or ())


def open_axes(network: ForeignNetwork) -> dict[str, int]:
    """Return the size of each named open axis of the inputs."""
    return {
        dim.dim_param: network.shapes[value.name][axis]
        for value in network.build().graph.input
        if value.name in network.shapes
        for axis, dim in enumerate(value.type.tensor_type.shape.dim)
        if dim.dim_param
    }


def compare(network: ForeignNetwork, loop: BareLoop, turns: int, turn_s: float, *, plain: bool) -> Compared:
    """Have both measure one network in turns."""
    sizes = {} if plain else open_axes(network)
    with tempfile.TemporaryDirectory() as folder:
        path, feeds = network.write(Path(folder)), Path(folder) / "feeds.npz"
        if not network.shapes:
            refusal = profiled(path, network, FEWEST)
            return Compared(network.name, None, None, None, refusal=str(refusal))
        np.savez(feeds, allow_pickle=False, **network.feeds())
        warm_s = min(loop.run(path, feeds, FEWEST, sizes))
        minibatches = int(min(max(turn_s / warm_s, FEWEST), MOST))
        bare, ours = [], []
        for _ in range(turns):
            bare.append(loop.run(path, feeds, minibatches, sizes))
            answer = profiled(path, network, minibatches)
            if isinstance(answer, str):
                return Compared(network.name, statistics.median(bare[0]), None, None, refusal=answer)
            ours.append(answer)
    medians, own = [statistics.median(times) for times in bare], [statistics.median(times) for times in ours]
    least = min(map(min, ours)) / min(map(min, bare))
    spread = max(medians) / min(medians)
    return Compared(network.name, statistics.median(medians), statistics.median(own), spread, least)


def line(result: Compared) -> str:
    """Return what is printed of one network."""
    bare = "" if result.bare_s is None else f"{result.bare_s * 1e6:11.1f} us"
    if result.ratio is None or result.edgetune_s is None:
        return f"{result.name:28s}{bare:>15s}   refused: {result.refusal[:100]}"
    mark = "" if abs(result.ratio - 1) <= NEAR else "  <--"
    ours = f"{result.edgetune_s * 1e6:11.1f} us"
    beside = f"spread {result.spread:.2f}   least {result.least:.3f}{mark}"
    return f"{result.name:28s}{bare:>15s}{ours:>15s}{result.ratio:8.3f}   {beside}"


def summary(results: list[Compared]) -> dict[str, Any]:
    """Return how many were measured, how many of these lie near the bare loop, and the worst."""
    ratios = {result.name: result.ratio for result in results if result.ratio is not None}
    near = [name for name, ratio in ratios.items() if abs(ratio - 1) <= NEAR]
    least = [result.least for result in results if result.least is not None]
    worst = max(ratios, key=lambda name: max(ratios[name], 1 / ratios[name]), default="")
    return {
        "networks": len(results),
        "measured": len(ratios),
        "refused": len(results) - len(ratios),
        "within_10_percent": len(near) / len(ratios) if ratios else None,
        "within_10_percent_by_least": sum(abs(one - 1) <= NEAR for one in least) / len(least) if least else None,
        "median_ratio": statistics.median(ratios.values()) if ratios else None,
        "worst": worst,
        "worst_ratio": ratios.get(worst),
    }


def main() -> None:
    """Run the comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="names, separated by commas")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--turn-s", type=float, default=0.2, help="how long a turn is to take, s")
    parser.add_argument(
        "--plain", action="store_true", help="do not tell the bare loop's session the sizes of open axes"
    )
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    names = arguments.only.split(",") if arguments.only else list(NETWORKS)
    results = []
    with contextlib.closing(BareLoop()) as loop:
        for name in names:
            results.append(compare(NETWORKS[name], loop, arguments.turns, arguments.turn_s, plain=arguments.plain))
            if not arguments.json:
                print(line(results[-1]), flush=True)
    total = summary(results)
    if arguments.json:
        print(json.dumps({"networks": [asdict(one) | {"ratio": one.ratio} for one in results], **total}, indent=2))
        return
    print(f"{total['measured']} measured, {total['refused']} refused", end="")
    if total["measured"]:
        print(
            f"; within 10 % of the bare loop: {total['within_10_percent']:.0%} (by least times "
            f"{total['within_10_percent_by_least']:.0%}), median {total['median_ratio']:.3f}, "
            f"worst {total['worst']} at {total['worst_ratio']:.3f}",
            end="",
        )
    print()


if __name__ == "__main__":
    main()

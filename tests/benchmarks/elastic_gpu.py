"""Elastic kernels on a real NVIDIA GPU: are they right, what do they cost, and what do policies make of MDTB.

    python tests/benchmarks/elastic_gpu.py [--device nvidia:0] [--sms 16] [--parts equality,overhead] [--small]
                                           [--networks alexnet,gru] [--workloads A,B] [--turns 5] [--duration 5s]
                                           [-o FOLDER]

numbers     answers of the six networks at their usual sizes against PyTorch's in double precision, on the CPU
equality    every form of every kernel of six networks, whole and in slices, against the originals bit for bit
overhead    a network of forms for one logical thread, each in one slice, relative to its originals, on the GPU alone
shards      what each launch costs, with kernels that do nothing
policies    MDTB A to D by four policies in alternation: critical latency relative to alone, throughput to sequential
blocks      workload A by the elastic policy with block records: FOLDER/blocks.parquet and FOLDER/blocks.svg

``--sms 16`` has a green context of 16 multiprocessors stand for an edge GPU; its bandwidth and caches stay those of the
whole. Figures are printed and, after each part, written to FOLDER/elastic_gpu.json with the GPU, its driver and the
time. Nothing is asserted but equality: the exit code is 1 where something differs.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

from edgetune.errors import EdgetuneError, InputError
from edgetune.stages.elastic.bench import PolicyBenchmark, Ratio, bench, runner
from edgetune.stages.elastic.compiler import CompileOptions
from edgetune.stages.elastic.cuda.blocks import Delay
from edgetune.stages.elastic.cuda.building import Build, build
from edgetune.stages.elastic.cuda.calibrate import calibrate, compiled_for
from edgetune.stages.elastic.cuda.context import Context
from edgetune.stages.elastic.cuda.gpu_equivalence import ORIGINAL, LaunchVariant, launches, ways
from edgetune.stages.elastic.cuda.gpu_session import GpuSession, open_gpu_session
from edgetune.stages.elastic.cuda.program import Program
from edgetune.stages.elastic.loop import ElasticLoop
from edgetune.stages.elastic.mdtb.networks import NETWORKS, network, values
from edgetune.stages.elastic.mdtb.workloads import WORKLOADS, TaskPair, workload
from edgetune.stages.elastic.policies import POLICIES, make_policy
from edgetune.stages.elastic.timeline import timeline_rows
from edgetune.stages.elastic.work import GpuTask, KernelSequence
from edgetune.units import parse_time_s
from edgetune.version import __version__
from edgetune.workflows.kernels.gpu import gpu_index

sys.path.append(str(Path(__file__).parents[1] / "elastic"))
from network_differences import differences, run

PARTS = ("numbers", "equality", "overhead", "shards", "policies", "blocks")
PAIRS = 30
LAUNCH_NS = 20_000
"""More than queueing a launch takes on a slow host: so long, per launch, the GPU is busy while a network is queued."""
SMALL: dict[str, dict[str, int]] = {
    "alexnet": {"side": 63, "narrow": 16},
    "squeezenet": {"side": 41, "narrow": 8},
    "resnet": {"side": 37, "narrow": 16},
    "cifarnet": {"narrow": 2},
    "gru": {"units": 16, "inputs": 8, "steps": 2},
    "lstm": {"units": 16, "inputs": 8, "steps": 2},
}
"""Sizes for a trial of this command, of which no figure means anything."""
Opener = Callable[..., Any]
"""As ``open_gpu_session``."""
Sizes = Mapping[str, Mapping[str, int]]


def same_bits(asked: KernelSequence, context: Context, recorded: bool) -> Build:
    """Build a network such that the compiler contracts nothing, as it decides anew in every form."""
    return build(asked, context, recorded=recorded, options=CompileOptions(fmad=False), persistent=True)


def with_persistent(asked: KernelSequence, context: Context, recorded: bool) -> Build:
    """Build a network for all policies."""
    return build(asked, context, recorded=recorded, persistent=True)


def numbers(opened: Opener, names: Sequence[str], sizes: Sizes) -> dict[str, Any]:
    """Compare the answers of networks with those of PyTorch; needs torch."""
    from mdtb_reference import expected

    found = {}
    for name in names:
        made = network(name, **sizes.get(name, {}))
        with opened() as ready:
            ready.prepare([GpuTask(name, made)])
            run(ready.context, ready.program(name), ORIGINAL, ready.context.stream())
            (output,) = [each.name for each in made.buffers if each.role == "output"]
            answer = ready.program(name).read(output).ravel().astype(np.float64)
        wanted = expected(name, values(made))
        worst = float(np.abs(answer - wanted).max() / np.abs(wanted).max())
        found[name] = {"numbers": len(wanted), "worst": worst}
        print(f"numbers    {name:12} {len(wanted)} numbers, at most {worst:.1e} of the largest off PyTorch's")
    return found


def equality(opened: Opener, names: Sequence[str], sizes: Sizes) -> dict[str, Any]:
    """Compare every form with the originals."""
    found = {}
    for name in names:
        with opened(builder=same_bits) as ready:
            (task,) = ready.fitted([GpuTask(name, network(name, **sizes.get(name, {})))])
            ready.prepare([task])
            tried = list(ways(ready.program(name), ready.gpu.sm_count))
            differs = differences(ready.context, ready.program(name), tried)
        calls = len(task.network.calls)
        found[name] = {"ways": len(tried), "calls": calls, "differences": [asdict(each) for each in differs]}
        print(f"equality   {name:12} {len(tried)} ways x {calls} calls: ", end="")
        print("all bits alike" if not differs else f"{len(differs)} buffers differ, the first {differs[0]}")
    return found


def overhead(opened: Opener, names: Sequence[str], sizes: Sizes) -> dict[str, Any]:
    """Time networks on the GPU, as they are and in their forms for one logical thread, in turns."""
    found = {}
    for name in names:
        with opened() as ready:
            tasks = ready.fitted([GpuTask(name, network(name, **sizes.get(name, {})))])
            ready.prepare(tasks)
            pairs, host_bound = timed_pairs(ready, ready.program(name))
        ratios = [elastic_ms / original_ms for original_ms, elastic_ms in pairs]
        original_ms = statistics.median(original for original, _ in pairs)
        ratio = statistics.median(ratios)
        found[name] = {"original_ms": original_ms, "ratio": ratio, "ratios": ratios, "host_bound": host_bound}
        told = f"original {original_ms:8.3f} ms, elastic {100 * ratio - 100:+.1f} %"
        print(f"overhead   {name:12} {told}" + ("; the host was too slow: raise LAUNCH_NS" if host_bound else ""))
    return found


def timed_pairs(ready: GpuSession, program: Program) -> tuple[list[tuple[float, float]], bool]:
    """Return times of a request as it is and in elastic forms, ms, and whether the host was too slow to tell.

    The first pair, which warms up, is left out.
    """
    context = ready.context
    late: list[bool] = []
    with context.scope():
        delay = Delay(
            context,
            ready.timer_image,
            LAUNCH_NS * max(len(list(launches(program, way))) for way in (ORIGINAL, LaunchVariant(1))),
        )
        stream, start, end = context.stream(), context.event(), context.event()

        def request_ms(way: LaunchVariant) -> float:
            queued = list(launches(program, way))
            delay.launch(stream)
            context.driver.call("cuEventRecord", start, stream)
            for launch in queued:
                program.launch(launch, stream)
            context.driver.call("cuEventRecord", end, stream)
            late.append(context.driver.is_over(start))
            context.await_event(end)
            return float(context.driver.call("cuEventElapsedTime", start, end))

        pairs: list[tuple[float, float]] = []
        for turn in range(PAIRS + 1):
            first, second = (ORIGINAL, LaunchVariant(1)) if turn % 2 else (LaunchVariant(1), ORIGINAL)
            taken = {way: request_ms(way) for way in (first, second)}
            pairs.append((taken[ORIGINAL], taken[LaunchVariant(1)]))
    return pairs[1:], any(late)


def shards(opened: Opener) -> dict[str, Any]:
    """Measure what launches cost."""
    with opened() as ready:
        costs = calibrate(ready.context, compiled_for(ready.context))
    what = f"a launch {1e6 * costs.call_s:.1f} us, over after {1e6 * costs.over_s:.1f} us, each shard more"
    print(f"shards     {what} {1e6 * costs.shard_s:.1f} us; from one to the next by the loop ", end="")
    print(f"{1e6 * costs.reaction_s:.1f} us")
    return asdict(costs)


def policies(
    opened: Opener, letters: Sequence[str], sizes: Sizes, duration_s: float, turns: int
) -> list[dict[str, Any]]:
    """Run workloads by all policies in alternation."""
    found = []
    with opened(builder=with_persistent) as ready:
        for letter in letters:
            asked = fitted(ready, workload(letter, sizes=sizes))
            policies = {name: make_policy(name, (asked.critical, asked.normal), ready.gpu) for name in POLICIES}
            runs = runner(ready.open_backend, policies, ready.gpu, duration_s=duration_s)
            figures = bench(asked, list(POLICIES), runs, turns=turns)
            found.append(asdict(figures))
            print(f"policies   {letter}: {figures.critical} ({figures.arrivals}) beside {figures.normal}; ", end="")
            awake_ms, waking_ms = 1e3 * (figures.alone_p50_s - figures.waking_s), 1e3 * figures.waking_s
            print(f"alone {awake_ms:.3f} ms, waking {waking_ms:.3f} ms, {figures.busy:.0%} of the time")
            for each in figures.policies:
                print("           " + told(each))
    return found


def told(each: PolicyBenchmark) -> str:
    """Return a line about a policy."""
    return (
        f"{each.policy:12} p50 x{spread(each.p50_x)}  p99 x{spread(each.p99_x)}  "
        f"throughput x{spread(each.throughput_x)}  normal {each.normal_per_s:.1f}/s  missed {each.missed:.1%}"
    )


def spread(ratio: Ratio | None) -> str:
    """Return a ratio with its interval."""
    if ratio is None:
        return "-"
    return f"{ratio.value:.3f}" + ("" if ratio.low is None else f" [{ratio.low:.3f}, {ratio.high:.3f}]")


def fitted(ready: GpuSession, asked: TaskPair) -> TaskPair:
    """Return a workload whose kernels ask for what they do when compiled for this GPU, and take what they do on it."""
    critical, normal = ready.measured(ready.fitted([asked.critical, asked.normal]))
    return replace(asked, critical=critical, normal=normal)


def blocks(opened: Opener, sizes: Sizes, folder: Path) -> dict[str, Any]:
    """Draw where blocks of workload A ran."""
    from edgetune.artifacts import io, kernel_timeline
    from edgetune.artifacts.header import Header
    from edgetune.cli.plot import drawing_of, write_drawing
    from edgetune.cli.screen import Screen

    with opened(recorded=True) as ready:
        asked = fitted(ready, workload("A", sizes=sizes))
        tasks = (asked.critical, asked.normal)
        policy = make_policy("elastic", tasks, ready.gpu)
        with ready.open_backend(tasks) as backend:
            begin_ns = backend.now_ns()
            loop = ElasticLoop(policy, backend, tasks, gpu=ready.gpu, duration_s=0.1)
            loop.run()
        rows = timeline_rows([*loop.launches, *loop.requests], ready.residencies, policy="elastic", begin_ns=begin_ns)
        conditions = {"simulated": False, "device": ready.gpu.name, "gpu": {"sm_count": ready.gpu.sm_count}}
        header = Header.new(kernel_timeline.KIND, kernel_timeline.VERSION, conditions=conditions)
    timeline = kernel_timeline.KernelTimeline(header, tuple(rows))
    io.write(timeline, folder / "blocks.parquet")
    sms = sorted({each.sm for each in ready.residencies})
    print(f"blocks     {len(ready.residencies)} stays on {len(sms)} multiprocessors")
    if sms:
        figure = str(folder / "blocks.svg")
        write_drawing(lambda: drawing_of(timeline, figure, "gantt:elastic@40ms-50ms"), figure, Screen())
    return {"stays": len(ready.residencies), "multiprocessors": sms, "unrecorded": ready.unrecorded}


def measured(opened: Opener, asked: argparse.Namespace) -> dict[str, Any]:
    """Run the parts that were asked for; return their figures, which are written after each."""
    parts = asked.parts.split(",")
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        raise InputError(f"there is no part {unknown[0]!r}", f"parts are {', '.join(PARTS)}")
    names, letters, sizes = asked.networks.split(","), asked.workloads.split(","), SMALL if asked.small else {}
    take: dict[str, Callable[[], Any]] = {
        "numbers": lambda: numbers(opened, names, sizes),
        "equality": lambda: equality(opened, names, sizes),
        "overhead": lambda: overhead(opened, names, sizes),
        "shards": lambda: shards(opened),
        "policies": lambda: policies(
            opened, letters, sizes, parse_time_s(asked.duration, what="--duration"), asked.turns
        ),
        "blocks": lambda: blocks(opened, sizes, asked.output),
    }
    with opened() as ready:
        facts = ready.context.facts
        print(f"{facts.gpu.name}, {facts.gpu.sm_count} multiprocessors, CUDA {facts.driver}")
    at = datetime.now(timezone.utc).isoformat(timespec="seconds")
    gpu = {"gpu": facts.gpu.name, "uuid": facts.uuid, "cuda": facts.driver, "sms": facts.gpu.sm_count}
    found = {**gpu, "at": at, "edgetune": __version__}
    for part in parts:
        found[part] = take[part]()
        (asked.output / "elastic_gpu.json").write_text(json.dumps(found, indent=1) + "\n")
    return found


def main(arguments: Sequence[str], opener: Opener = open_gpu_session) -> int:
    """Measure, print and write; return 1 where forms differ from originals."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="nvidia:0")
    parser.add_argument("--sms", type=int)
    parser.add_argument("--small", action="store_true", help="tiny networks, to try the command out")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--networks", default=",".join(NETWORKS))
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--duration", default="5s")
    parser.add_argument("-o", "--output", type=Path, default=Path())
    asked = parser.parse_args(arguments)

    def opened(**options: Any) -> Any:
        return opener(gpu_index(asked.device), sm_count=asked.sms, **options)

    try:
        asked.output.mkdir(parents=True, exist_ok=True)
        found = measured(opened, asked)
    except EdgetuneError as error:
        print(f"error: {error.message}\nhint: {error.hint}", file=sys.stderr)
        return int(error.exit_code)
    return int(any(each["differences"] for each in found.get("equality", {}).values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

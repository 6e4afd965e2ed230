"""Elastic kernels on a real NVIDIA GPU: are they right, what do they cost, and what do policies make of MDTB.

    python tests/benchmarks/elastic_gpu.py [--device nvidia:0] [--sms all,16] [--parts policies,shards] [--small]
                                           [--networks alexnet,gru] [--workloads A,D] [--policies elastic]
                                           [--turns 5] [--duration 5s]

On the whole GPU:
numbers       answers of the six networks at their usual sizes against PyTorch's in double precision, on the CPU
equality      every form of every kernel of six networks, whole and in shards, against the originals bit for bit

On each number of multiprocessors:
overhead      a network of forms for one logical thread, each in one slice, relative to its originals, on the GPU alone
shards        what each launch costs, with kernels that do nothing
policies      workloads by policies in alternation: critical latency relative to alone, throughput to sequential

``--sms 16`` has a green context of 16 multiprocessors stand for an edge GPU; its bandwidth and caches stay those of the
whole. Nothing is asserted but equality: the exit code is 1 where something differs. Kernels are compiled to PTX:
NVRTC is to be no newer than the driver, pip install 'nvidia-cuda-nvrtc==13.0.*' for CUDA 13.0.
"""

import argparse
import math
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from edgetune.errors import EdgetuneError, InputError
from edgetune.stages.elastic.bench import PolicyBenchmark, Ratio, bench, runner
from edgetune.stages.elastic.compiler import CompileOptions
from edgetune.stages.elastic.cuda.blocks import OneBlock, delay
from edgetune.stages.elastic.cuda.building import Build, build, compiled_image
from edgetune.stages.elastic.cuda.context import Context
from edgetune.stages.elastic.cuda.gpu_session import (
    EMPTY_KERNEL,
    EMPTY_SOURCE,
    GpuSession,
    open_gpu_session,
    reaction_s,
)
from edgetune.stages.elastic.cuda.program import Program
from edgetune.stages.elastic.gpu import GpuTask, KernelSequence
from edgetune.stages.elastic.mdtb.networks import NETWORKS, WORKLOADS, TaskPair, network, values, workload
from edgetune.stages.elastic.policies import POLICIES, make_policy
from edgetune.stages.elastic.view import Launch
from edgetune.units import parse_time_s
from edgetune.workflows.kernels.place import gpu_index

sys.path.append(str(Path(__file__).parents[1] / "elastic"))
from network_differences import differences, network_ways, originals, run

WHOLE = ("numbers", "equality")
EACH = ("overhead", "shards", "policies")
PARTS = (*WHOLE, *EACH)
PAIRS = 30
REPEATS, SHARDS = 200, 64
HANG_S = 10.0
"""A kernel of these networks takes milliseconds."""
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


Builder = Callable[[KernelSequence, Context, bool], Build]


def kept(fmad: bool) -> Builder:
    """Return what builds a network for all policies, once for all parts of a GPU.

    Args:
        fmad: As ``CompileOptions``: without, bits of forms are the same.
    """
    made: dict[tuple[str, frozenset[str], bool], Build] = {}

    def builder(asked: KernelSequence, context: Context, recorded: bool) -> Build:
        wanted = asked.source, frozenset(call.kernel for call in asked.calls), recorded
        if wanted not in made:
            options = CompileOptions(fmad=fmad)
            made[wanted] = build(asked, context, recorded=recorded, options=options, persistent=True)
        return made[wanted]

    return builder


class Parts:
    """The parts of the command.

    Args:
        opened: Opens the GPU, or so many of its multiprocessors.
        asked: The options.
    """

    def __init__(self, opened: Opener, asked: argparse.Namespace) -> None:
        self._opened, self._asked = opened, asked
        self.sizes: Sizes = SMALL if asked.small else {}
        self._names = asked.networks.split(",")
        self._reactions_s: dict[int, float] = {}
        self._bits, self._plain = kept(fmad=False), kept(fmad=True)
        self._duration_s = parse_time_s(asked.duration, what="--duration")
        self.equal = True

    def opened(self, builder: Builder | None = None, **options: Any) -> Any:
        """Open the GPU; what launches cost on so many multiprocessors is measured once."""

        def launch_s(context: Context) -> float:
            sms = context.facts.gpu.sm_count
            if sms not in self._reactions_s:
                self._reactions_s[sms] = reaction_s(context)
            return self._reactions_s[sms]

        return self._opened(builder=builder or self._plain, hang_s=HANG_S, launch_s=launch_s, **options)

    def numbers(self) -> Iterator[str]:
        """Compare the answers of networks with those of PyTorch; needs torch."""
        from mdtb_reference import expected

        for name in self._names:
            made = network(name, **self.sizes.get(name, {}))
            with self.opened() as ready:
                ready.prepare([GpuTask(name, made)])
                program = ready.programs[name]
                run(ready.context, program, originals(program), ready.context.stream())
                (output,) = [each.name for each in made.buffers if each.role == "output"]
                answer = program.read(output).ravel().astype(np.float64)
            wanted = expected(name, values(made))
            worst = float(np.abs(answer - wanted).max() / np.abs(wanted).max())
            yield f"numbers    {name:12} {len(wanted)} numbers, at most {worst:.1e} of the largest off PyTorch's"

    def equality(self) -> Iterator[str]:
        """Compare every form with the originals."""
        for name in self._names:
            with self.opened(builder=self._bits) as ready:
                (task,) = ready.fitted([GpuTask(name, network(name, **self.sizes.get(name, {})))])
                ready.prepare([task])
                tried = network_ways(ready.programs[name])
                differs = differences(ready.context, ready.programs[name], tried)
            self.equal = self.equal and not differs
            said = "all bits alike" if not differs else f"{len(differs)} buffers differ, the first {differs[0]}"
            yield f"equality   {name:12} {len(tried)} ways x {len(task.network.calls)} calls: {said}"

    def overhead(self, sm_count: int | None) -> Iterator[str]:
        """Time networks on the GPU, as they are and in their forms for one logical thread, in turns."""
        with self.opened(sm_count=sm_count) as ready:
            for name in self._names:
                ready.prepare(ready.fitted([GpuTask(name, network(name, **self.sizes.get(name, {})))]))
                pairs, host_bound = timed_pairs(ready, ready.programs[name])
                ratio = statistics.median(elastic_ms / original_ms for original_ms, elastic_ms in pairs)
                original_ms = statistics.median(original for original, _ in pairs)
                line = f"overhead   {name:12} original {original_ms:8.3f} ms, elastic {100 * ratio - 100:+.1f} %"
                yield line + ("; the host was too slow: raise LAUNCH_NS" if host_bound else "")

    def shards(self, sm_count: int | None) -> Iterator[str]:
        """Measure what launches cost."""
        with self.opened(sm_count=sm_count) as ready:
            one_s, many_s = (queued_s(ready.context, count) for count in (1, SHARDS))
            each_us, next_us = 1e6 * (many_s - one_s) / (SHARDS - 1), 1e6 * ready.gpu.launch_s
        yield f"shards     each shard more {each_us:.1f} us; from one to the next by the loop {next_us:.1f} us"

    def policies(self, sm_count: int | None) -> Iterator[str]:
        """Run workloads by policies in alternation."""
        names, duration_s = self._asked.policies.split(","), self._duration_s
        with self.opened(sm_count=sm_count) as ready:
            for letter in self._asked.workloads.split(","):
                asked = fitted(ready, workload(letter, sizes=self.sizes))
                tasks = (asked.critical, asked.normal)
                policies = {name: make_policy(name, tasks, ready.gpu) for name in names}
                runs = runner(ready.open_backend, policies, ready.gpu, duration_s=duration_s)
                found = bench(asked, names, runs, turns=self._asked.turns)
                awake_ms, waking_ms = 1e3 * (found.alone_p50_s - found.waking_s), 1e3 * found.waking_s
                arrivals = "" if found.normal_arrivals == "closed" else f" ({found.normal_arrivals})"
                yield (
                    f"policies   {letter}: {found.critical} ({found.arrivals}) beside {found.normal}{arrivals}; "
                    f"alone {awake_ms:.3f} ms, waking {waking_ms:.3f} ms, {found.busy:.0%} of the time; "
                    f"{found.turns} turns of {duration_s:.3g} s"
                )
                yield from (f"           {told(each)}" for each in found.policies)

    def lines(self, parts: Sequence[str], sizes: Sequence[int | None]) -> Iterator[str]:
        """Run parts; yield what they found."""
        if set(parts) & set(WHOLE):
            yield self._heading(None)
        for part in WHOLE:
            if part in parts:
                yield from getattr(self, part)()
        for sm_count in sizes if set(parts) & set(EACH) else ():
            yield self._heading(sm_count)
            for part in EACH:
                if part in parts:
                    yield from getattr(self, part)(sm_count)

    def _heading(self, sm_count: int | None) -> str:
        """Return the line that says what is measured from now on."""
        with self._opened(launch_s=lambda _: math.nan, sm_count=sm_count) as ready:
            facts = ready.context.facts
        return f"{facts.gpu.name}, {facts.gpu.sm_count} multiprocessors, CUDA {facts.driver}"


def fitted(ready: GpuSession, asked: TaskPair) -> TaskPair:
    """Return a workload whose kernels ask for what they do when compiled for this GPU, and take what they do on it."""
    critical, normal = ready.measured(ready.fitted([asked.critical, asked.normal]))
    return replace(asked, critical=critical, normal=normal)


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


def queued_s(context: Context, launches: int) -> float:
    """Return the median time that so many empty launches take until the host sees that they are over, s."""
    with context.scope():
        empty = OneBlock(context, compiled_image(EMPTY_SOURCE, context, "empty"), EMPTY_KERNEL)
        stream, event, taken_ns = context.stream(), context.event(), list[int]()
        for _ in range(REPEATS + 1):
            begin_ns = context.now_ns()
            for _ in range(launches):
                empty.launch(stream)
            context.driver.call("cuEventRecord", event, stream)
            context.await_event(event)
            taken_ns.append(context.now_ns() - begin_ns)
    return statistics.median(taken_ns[1:]) / 1e9  # the first loads the kernel


def timed_pairs(ready: GpuSession, program: Program) -> tuple[list[tuple[float, float]], bool]:
    """Return times of a request as it is and in elastic forms, ms, and whether the host was too slow to tell.

    The first pair, which warms up, is left out.
    """
    context = ready.context
    late: list[bool] = []
    with context.scope():
        own = [
            Launch(0, "", 0, place, call, 0, call.logical.blocks) for place, call in enumerate(program.network.calls)
        ]
        forms = [replace(each, blocks=each.count) if 1 in program.forms(each.call) else each for each in own]
        wait = delay(context, ready.timer_image, LAUNCH_NS * len(own))
        stream, start, end = context.stream(), context.event(), context.event()

        def request_ms(queued: Sequence[Launch]) -> float:
            wait.launch(stream)
            context.driver.call("cuEventRecord", start, stream)
            for launch in queued:
                program.launch(launch, stream)
            context.driver.call("cuEventRecord", end, stream)
            late.append(context.driver.is_over(start))
            context.await_event(end)
            return float(context.driver.call("cuEventElapsedTime", start, end))

        pairs: list[tuple[float, float]] = []
        for turn in range(PAIRS + 1):
            first_ms, second_ms = (request_ms(each) for each in ((own, forms) if turn % 2 else (forms, own)))
            pairs.append((first_ms, second_ms) if turn % 2 else (second_ms, first_ms))
    return pairs[1:], any(late)


def measured(opened: Opener, asked: argparse.Namespace) -> int:
    """Run the parts that were asked for; return the exit code."""
    parts = asked.parts.split(",")
    for known, given, what in ((PARTS, parts, "part"), (POLICIES, asked.policies.split(","), "policy")):
        unknown = [each for each in given if each not in known]
        if unknown:
            raise InputError(f"there is no {what} {unknown[0]!r}", f"known are {', '.join(known)}")
    for each in asked.workloads.split(","):
        workload(each)
    for each in asked.networks.split(","):
        network(each)
    sizes = [None if each == "all" else whole_number(each) for each in asked.sms.split(",")]
    made = Parts(opened, asked)
    for line in made.lines(parts, sizes):
        print(line, flush=True)
    return 0 if made.equal else 1


def whole_number(word: str) -> int:
    """Return a number of multiprocessors."""
    if not word.isdecimal():
        raise InputError(f"--sms has {word!r}", "numbers of multiprocessors, and all, e.g. all,16,8")
    return int(word)


def main(arguments: Sequence[str], opener: Opener = open_gpu_session) -> int:
    """Measure and print; return 1 where forms differ from originals."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="nvidia:0")
    parser.add_argument("--sms", default="all", help="numbers of multiprocessors, e.g. all,16,8")
    parser.add_argument("--small", action="store_true", help="tiny networks, to try the command out")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--networks", default=",".join(NETWORKS))
    parser.add_argument("--workloads", default=",".join((*WORKLOADS, "LGSVL")))
    parser.add_argument("--policies", default=",".join(POLICIES))
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--duration", default="5s", help="of a run of a policy")
    asked = parser.parse_args(arguments)

    def opened(**options: Any) -> Any:
        return opener(gpu_index(asked.device), **options)

    try:
        return measured(opened, asked)
    except EdgetuneError as error:
        print(f"error: {error.message}\nhint: {error.hint}", file=sys.stderr)
        return int(error.exit_code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

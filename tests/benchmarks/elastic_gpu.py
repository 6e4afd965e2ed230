"""Elastic kernels on a real NVIDIA GPU: are they right, what do they cost, and what do policies make of MDTB.

    python tests/benchmarks/elastic_gpu.py [--device nvidia:0] [--sms all,16,8] [--parts policies,shards] [--small]
                                           [--networks alexnet,gru] [--workloads A,LGSVL] [--policies elastic]
                                           [--within 8m] [--turns 5] [--duration 5s] [--smallest 500ms] [-o FOLDER]

On the whole GPU:
numbers       answers of the six networks at their usual sizes against PyTorch's in double precision, on the CPU
equality      every form of every kernel of six networks, whole and in slices, against the originals bit for bit
interference  what kernels of unlike needs cost each other, and for which workload a cap of normal work would gain

On each number of multiprocessors:
overhead      a network of forms for one logical thread, each in one slice, relative to its originals, on the GPU alone
shards        what each launch costs, with kernels that do nothing
policies      workloads by policies in alternation: critical latency relative to alone, throughput to sequential, the
              worst case beside the measured one, mean power and energy of a request where NVML gives them
blocks        workload A by the elastic policy with block records: FOLDER/blocks-SMS.parquet and .svg

``--sms 16`` has a green context of 16 multiprocessors stand for an edge GPU; its bandwidth and caches stay those of the
whole, and power is that of the whole board. With ``--within`` the command fits itself into that time: runs of policies
share what the other parts leave, and it says what it leaves out. Lines go to FOLDER/elastic_gpu.txt too, and figures to
FOLDER/elastic_gpu.json after every run, with the GPU, its driver and the time. Nothing is asserted but equality: the
exit code is 1 where something differs, and 5 where a part failed.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
from elastic_cells import ROWS, Options, PolicyRuns, fitted
from elastic_interference import interference
from elastic_report import Budget, PowerMeter, Report, power_meter

from edgetune.errors import EdgetuneError, ExitCode, InputError
from edgetune.stages.elastic.compiler import CompileOptions
from edgetune.stages.elastic.cuda.backend import WaitTimes
from edgetune.stages.elastic.cuda.blocks import Delay
from edgetune.stages.elastic.cuda.building import Build, build
from edgetune.stages.elastic.cuda.calibrate import LaunchCosts, calibrate, compiled_for
from edgetune.stages.elastic.cuda.context import Context
from edgetune.stages.elastic.cuda.gpu_equivalence import ORIGINAL, LaunchVariant, launches, ways
from edgetune.stages.elastic.cuda.gpu_session import GpuSession, open_gpu_session
from edgetune.stages.elastic.cuda.program import Program
from edgetune.stages.elastic.loop import ElasticLoop
from edgetune.stages.elastic.mdtb.networks import NETWORKS, network, values
from edgetune.stages.elastic.mdtb.workloads import WORKLOADS, workload
from edgetune.stages.elastic.policies import make_policy
from edgetune.stages.elastic.timeline import timeline_rows
from edgetune.stages.elastic.work import GpuTask, KernelSequence
from edgetune.units import parse_time_s
from edgetune.version import __version__
from edgetune.workflows.cache_folder import compiled_folder
from edgetune.workflows.kernels.gpu import gpu_index

sys.path.append(str(Path(__file__).parents[1] / "elastic"))
from network_differences import differences, run

WHOLE = ("numbers", "equality", "interference")
EACH = ("overhead", "shards", "policies", "blocks")
PARTS = (*WHOLE, *EACH)
PAIRS = 30
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
            options = CompileOptions(fmad=fmad, cache=compiled_folder())
            made[wanted] = build(asked, context, recorded=recorded, options=options, persistent=True)
        return made[wanted]

    return builder


class Parts:
    """The parts of the command.

    Args:
        opened: Opens the GPU, or so many of its multiprocessors.
        asked: The options.
        report: Where lines and figures go.
        budget: The time.
        meter: Of power.
    """

    def __init__(
        self,
        opened: Opener,
        asked: argparse.Namespace,
        report: Report,
        budget: Budget,
        meter: PowerMeter,
    ) -> None:
        self._opened, self._asked, self._report, self._budget = opened, asked, report, budget
        self.sizes: Sizes = SMALL if asked.small else {}
        self._names = asked.networks.split(",")
        self._costs: dict[int, LaunchCosts] = {}
        self._bits, self._plain = kept(fmad=False), kept(fmad=True)
        times_s = [parse_time_s(getattr(asked, name), what=f"--{name}") for name in ("duration", "smallest")]
        options = Options(asked.workloads.split(","), asked.policies.split(","), self.sizes, asked.turns, *times_s)
        self._runs = PolicyRuns(options, report, budget, meter)

    def opened(self, builder: Builder | None = None, **options: Any) -> Any:
        """Open the GPU; what launches cost on so many multiprocessors is measured once."""

        def launch_s(context: Context) -> float:
            sms = context.facts.gpu.sm_count
            if sms not in self._costs:
                with context.scope():
                    self._costs[sms] = calibrate(context, compiled_for(context))
            return self._costs[sms].reaction_s

        patience = WaitTimes(hang_s=HANG_S)
        return self._opened(builder=builder or self._plain, patience=patience, launch_s=launch_s, **options)

    def names(self, part: str) -> Iterator[str]:
        """Yield networks while there is time for more: of what runs on the whole GPU alone, in the first part of it."""
        for at, name in enumerate(self._names):
            if not (self._budget.fixed if part in WHOLE else self._budget.left_s > 0):
                used = f"{self._budget.used_s:.0f} s are used, and the policies need the others"
                self._report.leave_out(f"{part} of {', '.join(self._names[at:])}", used)
                return
            yield name

    def numbers(self, found: dict[str, Any]) -> None:
        """Compare the answers of networks with those of PyTorch; needs torch."""
        try:
            from mdtb_reference import expected
        except ImportError as error:
            self._report.leave_out("numbers", str(error))
            return
        for name in self.names("numbers"):
            made = network(name, **self.sizes.get(name, {}))
            with self.opened() as ready:
                ready.prepare([GpuTask(name, made)])
                run(ready.context, ready.program(name), ORIGINAL, ready.context.stream())
                (output,) = [each.name for each in made.buffers if each.role == "output"]
                answer = ready.program(name).read(output).ravel().astype(np.float64)
            wanted = expected(name, values(made))
            worst = float(np.abs(answer - wanted).max() / np.abs(wanted).max())
            found[name] = {"numbers": len(wanted), "worst": worst}
            line = f"{len(wanted)} numbers, at most {worst:.1e} of the largest off PyTorch's"
            self._report.say(f"numbers    {name:12} {line}")
            self._report.write()

    def equality(self, found: dict[str, Any]) -> None:
        """Compare every form with the originals."""
        for name in self.names("equality"):
            with self.opened(builder=self._bits) as ready:
                (task,) = ready.fitted([GpuTask(name, network(name, **self.sizes.get(name, {})))])
                ready.prepare([task])
                tried = list(ways(ready.program(name), ready.gpu.sm_count))
                differs = differences(ready.context, ready.program(name), tried)
            calls = len(task.network.calls)
            found[name] = {"ways": len(tried), "calls": calls, "differences": [asdict(each) for each in differs]}
            said = "all bits alike" if not differs else f"{len(differs)} buffers differ, the first {differs[0]}"
            self._report.say(f"equality   {name:12} {len(tried)} ways x {calls} calls: {said}")
            self._report.write()

    def interference(self, found: dict[str, Any]) -> None:
        """Measure what kernels cost each other, and choose caps."""
        with self.opened() as ready:
            asked = [fitted(ready, workload(letter, sizes=self.sizes)) for letter in self._asked.workloads.split(",")]
            most = {"most": 3} if self._asked.small else {}
            found.update(interference(ready, asked, self.sizes, self._report.say, **most))

    def overhead(self, sm_count: int | None, place: dict[str, Any]) -> None:
        """Time networks on the GPU, as they are and in their forms for one logical thread, in turns."""
        found = place["overhead"] = dict[str, Any]()
        with self.opened(sm_count=sm_count) as ready:
            for name in self.names("overhead"):
                ready.prepare(ready.fitted([GpuTask(name, network(name, **self.sizes.get(name, {})))]))
                pairs, host_bound = timed_pairs(ready, ready.program(name))
                ratios = [elastic_ms / original_ms for original_ms, elastic_ms in pairs]
                original_ms, ratio = statistics.median(original for original, _ in pairs), statistics.median(ratios)
                found[name] = {"original_ms": original_ms, "ratio": ratio, "ratios": ratios, "host_bound": host_bound}
                line = f"original {original_ms:8.3f} ms, elastic {100 * ratio - 100:+.1f} %"
                line += "; the host was too slow: raise LAUNCH_NS" if host_bound else ""
                self._report.say(f"overhead   {name:12} {line}")
                self._report.write()

    def shards(self, sm_count: int | None, place: dict[str, Any]) -> None:
        """Measure what launches cost."""
        with self.opened(sm_count=sm_count) as ready:
            costs = self._costs[ready.gpu.sm_count]
        place["shards"] = asdict(costs)
        what = f"a launch {1e6 * costs.call_s:.1f} us, over after {1e6 * costs.over_s:.1f} us, each shard more"
        next_us = f"{1e6 * costs.shard_s:.1f} us; from one to the next by the loop {1e6 * costs.reaction_s:.1f} us"
        self._report.say(f"shards     {what} {next_us}")

    def policies(self, sm_count: int | None, place: dict[str, Any], later: tuple[int, float]) -> None:
        """Run workloads by policies in alternation, in the time that is left."""
        with self.opened(sm_count=sm_count) as ready:
            self._runs.on(ready, place, later)

    def blocks(self, sm_count: int | None, place: dict[str, Any]) -> None:
        """Draw where blocks of workload A ran."""
        from edgetune.artifacts import io, kernel_timeline
        from edgetune.artifacts.header import Header
        from edgetune.cli.plot import drawing_of, write_drawing
        from edgetune.cli.screen import Screen

        with self.opened(recorded=True, sm_count=sm_count) as ready:
            asked = fitted(ready, workload("A", sizes=self.sizes))
            tasks = (asked.critical, asked.normal)
            policy = make_policy("elastic", tasks, ready.gpu)
            with ready.open_backend(tasks) as backend:
                begin_ns = backend.now_ns()
                loop = ElasticLoop(policy, backend, tasks, gpu=ready.gpu, duration_s=0.1)
                loop.run()
            records = [*loop.launches, *loop.requests]
            rows = timeline_rows(records, ready.residencies, policy="elastic", begin_ns=begin_ns)
            conditions = {"simulated": False, "device": ready.gpu.name, "gpu": {"sm_count": ready.gpu.sm_count}}
            header = Header.new(kernel_timeline.KIND, kernel_timeline.VERSION, conditions=conditions)
        timeline = kernel_timeline.KernelTimeline(header, tuple(rows))
        file = self._report.folder / f"blocks-{ready.gpu.sm_count}.parquet"
        io.write(timeline, file)
        sms = sorted({each.sm for each in ready.residencies})
        place["blocks"] = {"stays": len(ready.residencies), "multiprocessors": sms, "unrecorded": ready.unrecorded}
        self._report.say(f"blocks     {len(ready.residencies)} stays on {len(sms)} multiprocessors")
        if sms:
            figure = str(file.with_suffix(".svg"))
            write_drawing(lambda: drawing_of(timeline, figure, "gantt:elastic@40ms-50ms"), figure, Screen())

    @contextmanager
    def _failing(self, what: str, failed: list[str]) -> Iterator[None]:
        """Go on with the next part where one fails; note why."""
        try:
            yield
        except Exception as error:  # of whatever kind: a GPU is lent, and the other parts may do
            if not isinstance(error, EdgetuneError):
                traceback.print_exc()
            self._report.leave_out(what, error.message if isinstance(error, EdgetuneError) else repr(error))
            failed.append(what)
        self._report.write()

    def run(self, parts: Sequence[str], sizes: Sequence[int | None]) -> list[str]:
        """Run parts; return those that failed."""
        failed: list[str] = []
        for part in WHOLE:
            if part in parts:
                self._report.found[part] = dict[str, Any]()
                with self._failing(part, failed):
                    getattr(self, part)(self._report.found[part])
        each_s = 0.0
        for at, sm_count in enumerate(sizes):
            begin_s = self._budget.now_s()
            found = dict[str, Any]()
            try:
                with self.opened(sm_count=sm_count) as ready:
                    self._report.say(heading(ready))
                    found["sms"] = ready.gpu.sm_count
            except EdgetuneError as error:
                self._report.leave_out(f"{sm_count} multiprocessors", error.message)
                failed.append(f"{sm_count} multiprocessors")
                continue
            self._report.found["sizes"].append(found)
            for part in EACH:
                if part not in parts:
                    continue
                if part == "policies":
                    each_s = max(each_s, self._budget.now_s() - begin_s)
                with self._failing(f"{part} on {found['sms']} multiprocessors", failed):
                    if part == "policies":
                        self.policies(sm_count, found, (len(sizes) - at - 1, each_s))
                    else:
                        getattr(self, part)(sm_count, found)
        return failed


def heading(ready: GpuSession) -> str:
    """Return the line that says what is measured from now on."""
    facts = ready.context.facts
    return f"{facts.gpu.name}, {facts.gpu.sm_count} multiprocessors, CUDA {facts.driver}"


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


def measured(opened: Opener, asked: argparse.Namespace, now_s: Callable[[], float]) -> int:
    """Run the parts that were asked for; return the exit code."""
    parts = asked.parts.split(",")
    for known, given, what in ((PARTS, parts, "part"), (ROWS, asked.policies.split(","), "policy")):
        unknown = [each for each in given if each not in known]
        if unknown:
            raise InputError(f"there is no {what} {unknown[0]!r}", f"known are {', '.join(known)}")
    for each in asked.workloads.split(","):
        workload(each)
    for each in asked.networks.split(","):
        network(each)
    sizes = [None if each == "all" else whole_number(each) for each in asked.sms.split(",")]
    budget = Budget(None if asked.within is None else parse_time_s(asked.within, what="--within"), now_s)
    with opened(launch_s=lambda _: math.nan) as ready:
        facts = ready.context.facts
    report = Report(
        asked.output,
        {
            "gpu": facts.gpu.name, "uuid": facts.uuid, "cuda": facts.driver, "sms": facts.gpu.sm_count,
            "at": datetime.now(timezone.utc).isoformat(timespec="seconds"), "edgetune": __version__,
            "options": {name: str(value) for name, value in vars(asked).items()}, "sizes": [],
        },
    )  # fmt: skip
    if set(parts) & set(WHOLE):
        report.say(heading(ready))
    with ExitStack() as stack:
        meter = PowerMeter("not read: no policies run")
        if "policies" in parts:
            meter = stack.enter_context(power_meter(facts.uuid))
            report.say(f"power      {meter.source}")
        report.found["power"] = meter.source
        failed = Parts(opened, asked, report, budget, meter).run(parts, sizes)
    report.say(f"time       {budget.used_s:.0f} s")
    report.found["took_s"] = budget.used_s
    report.write()
    if any(each["differences"] for each in report.found.get("equality", {}).values()):
        return 1
    return int(ExitCode.PARTIAL) if failed else 0


def whole_number(word: str) -> int:
    """Return a number of multiprocessors."""
    if not word.isdecimal():
        raise InputError(f"--sms has {word!r}", "numbers of multiprocessors, and all, e.g. all,16,8")
    return int(word)


def main(
    arguments: Sequence[str],
    opener: Opener = open_gpu_session,
    *,
    now_s: Callable[[], float] = time.monotonic,
) -> int:
    """Measure, print and write; return 1 where forms differ from originals, and 5 where a part failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="nvidia:0")
    parser.add_argument("--sms", default="all", help="numbers of multiprocessors, e.g. all,16,8")
    parser.add_argument("--small", action="store_true", help="tiny networks, to try the command out")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--networks", default=",".join(NETWORKS))
    parser.add_argument("--workloads", default=",".join((*WORKLOADS, "LGSVL")))
    parser.add_argument("--policies", default=",".join(ROWS))
    parser.add_argument("--within", help="all of the command fits itself into this time, e.g. 8m")
    parser.add_argument("--turns", type=int, default=5, help="at most")
    parser.add_argument("--duration", default="5s", help="of a run of a policy, at most")
    parser.add_argument("--smallest", default="500ms", help="of a run of a policy: rather than shorter ones, fewer")
    parser.add_argument("-o", "--output", type=Path, default=Path())
    asked = parser.parse_args(arguments)

    def opened(**options: Any) -> Any:
        return opener(gpu_index(asked.device), **options)

    try:
        return measured(opened, asked, now_s)
    except EdgetuneError as error:
        print(f"error: {error.message}\nhint: {error.hint}", file=sys.stderr)
        return int(error.exit_code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

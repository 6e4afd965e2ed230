"""The benchmark of critical and best-effort networks that share a GPU, by several policies."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from edgetune.artifacts.files import write_atomically
from edgetune.artifacts.formats import json_document
from edgetune.errors import InputError, blaming
from edgetune.plotting.page import SectionWriter
from edgetune.stages.elastic import bench as benchmark
from edgetune.stages.elastic.bench import PolicyBenchmark, Ratio, RequestLatencies, WorkloadBenchmark, runner
from edgetune.stages.elastic.bound import NOTE, describe_bound, latency_bound
from edgetune.stages.elastic.gpu import GpuTask, find_gpu
from edgetune.stages.elastic.mdtb.networks import SOURCE, WORKLOADS, TaskPair, compiled_for, workload
from edgetune.stages.elastic.policies import make_policy
from edgetune.stages.elastic.policies.elastic import Persistent
from edgetune.stages.elastic.tasks import check_count
from edgetune.units import format_duration, format_si, parse_time_s
from edgetune.version import __version__
from edgetune.workflows.kernels.options import BenchOptions
from edgetune.workflows.kernels.place import Place, model_place, opened
from edgetune.workflows.kernels.plan import policies_of
from edgetune.workflows.kernels.share import progress
from edgetune.workflows.output import Target, check_outputs, choose_target
from edgetune.workflows.reporting import STOPS, Reporter, SimulationLabel, stop_code

_NOTE = (
    "p50, p99: latency of the critical network; x alone: times what it takes alone on the GPU. throughput x: answers "
    "of both, times sequential; normal x: answers of the normal network, likewise. In brackets 95 % intervals over "
    "turns. paper: Miriam (2023), on real GPUs"
)
Fitted = Callable[[Sequence[GpuTask]], Sequence[GpuTask]]
"""Completes tasks by the resources of their kernels and, on a real GPU, their durations."""


@dataclass(frozen=True, slots=True)
class BenchFigures:
    """The result of ``bench``.

    Args:
        found: The figures of each workload.
        document: The same as written.
        target: Where the document went.
        stopped: The exit code of the signal that interrupted the benchmark; 0 where none did.
    """

    found: Sequence[WorkloadBenchmark]
    document: dict[str, Any]
    target: Target
    stopped: int


def bench(opts: BenchOptions, reporter: Reporter) -> BenchFigures:
    """Run workloads by policies and write their figures; if interrupted, those of the completed workloads.

    Raises:
        InputError: an unknown workload, policy or GPU, or an option that cannot be used.
        DeviceError: the GPU, its driver or the compiler is missing.
        KeyboardInterrupt, Stopped: interrupted before the first workload is complete.
    """
    target = choose_target(opts.output, "bench.json", last=True, stdout=reporter.stdout)
    check_outputs({"-o": target.file}, [], {"-o": "benchmark"})
    names = policies_of(opts.policy)
    chosen = [workload(letter) for letter in dict.fromkeys(map(str.upper, opts.workloads or WORKLOADS))]
    duration_s = parse_time_s(opts.duration, what="--duration")
    found, stopped = list[WorkloadBenchmark](), 0
    with _opened(opts, names) as (place, fitted):
        try:
            for each in chosen:
                found.append(
                    _figures(each, opts, names, place, fitted=fitted, duration_s=duration_s, reporter=reporter)
                )
        except STOPS as end:
            left = ", ".join(each.name for each in chosen[len(found) :])
            reporter.info(f"stopped; of {left} there are no figures: name them in another run")
            if not found:
                raise
            stopped = stop_code(end)
        document = {
            "kind": "benchmark", "tool": f"edgetune {__version__}", **place.conditions,
            "duration_s": duration_s, "seed": opts.seed,
            "published_source": SOURCE, "workloads": [asdict(each) for each in found],
        }  # fmt: skip
        SimulationLabel(document["simulated"], reporter).announce()
        if target.path is not None:
            write_atomically(json_document(document), target.path)
            target.report(reporter)
        return BenchFigures(found, document, target, stopped)


@contextmanager
def _opened(opts: BenchOptions, names: Sequence[str]) -> Iterator[tuple[Place, Fitted]]:
    """Yield the model of a GPU, or the requested GPU, with persistent forms of kernels where a policy launches them."""
    if opts.device is None:
        if opts.sms is not None:
            raise InputError("--sms is for a real GPU", "name one with --device, or another model with --gpu")
        gpu = find_gpu(opts.gpu)
        yield model_place(gpu), partial(compiled_for, gpu)
        return
    with opened(opts.device, sms=opts.sms, seed=opts.seed, persistent=Persistent.name in names) as (ready, place):
        yield place, lambda tasks: ready.measured(ready.fitted(tasks))


def _figures(
    each: TaskPair, opts: BenchOptions, names: Sequence[str], place: Place, *, fitted: Fitted, duration_s: float,
    reporter: Reporter,
) -> WorkloadBenchmark:  # fmt: skip
    """Run a workload alone and by all policies."""
    critical, normal = fitted((each.critical, each.normal))
    pair = replace(each, critical=critical, normal=replace(normal, sms=opts.normal_sms))
    tasks = (critical, pair.normal)
    with blaming(f"workload {each.name}"):  # the records of one run are kept
        check_count(tasks, 1, place.gpu if place.conditions["simulated"] else None, duration_s=duration_s)
    policies = {name: make_policy(name, tasks, place.gpu) for name in names}
    run = runner(place.open_backend, policies, place.gpu, duration_s=duration_s, seed=opts.seed)
    once = len(names) + len(benchmark.baselines(pair))
    reporter.info(f"workload {each.name}: {opts.turns} x {once} runs of {format_duration(duration_s)}")
    with progress(reporter, opts.turns * once) as advance:

        def counted(tasks: Sequence[GpuTask], policy: str, turn: int) -> RequestLatencies:
            reporter.detail(f"{each.name}, turn {turn + 1} of {opts.turns}: {policy}")
            answers = run(tasks, policy, turn)
            advance(1)
            return answers

        figures = benchmark.bench(pair, names, counted, turns=opts.turns, seed=opts.seed)

    def bounded(one: PolicyBenchmark) -> PolicyBenchmark:
        found = latency_bound(policies[one.policy], tasks, place.gpu, place.costs, alone_s=figures.alone_max_s)
        return one if found is None else replace(one, bound=found[0])

    return replace(figures, policies=tuple(map(bounded, figures.policies)))


def bench_section(figures: BenchFigures, out: SectionWriter) -> None:
    """Write each workload: latency and throughput, each beside the published figures."""
    gpu = figures.document["gpu"]
    for each in figures.found:
        beside = each.normal if each.normal_arrivals == "closed" else f"{each.normal} ({each.normal_arrivals})"
        beside += "" if each.normal_sms is None else f" (at most {each.normal_sms} multiprocessors)"
        alone = format_duration(each.alone_p50_s - each.waking_s)
        woken = f" (and {format_duration(each.waking_s)} where the host was idle)" if each.waking_s else ""
        out.note(
            f"{each.workload}: {each.critical} ({each.arrivals}) beside {beside} on {gpu['sm_count']} "
            f"multiprocessors of {gpu['name']}; alone {each.critical} takes {alone}{woken}, "
            f"{each.busy:.1%} of the time, and is due after {format_duration(each.deadline_s)}"
        )
        _policies_tables(each, out)
        for policy in each.policies:
            if policy.bound is not None:
                out.note(f"worst case by {policy.policy}: {describe_bound(policy.bound, policy.max_s)}")
        if any(policy.bound for policy in each.policies):
            out.note(f"{NOTE}.")
            out.space()
    simulated = figures.document["simulated"]
    out.note(f"{_NOTE}; {'ours are simulated by a model' if simulated else 'other kernels and sizes than ours'}.")


def _policies_tables(figures: WorkloadBenchmark, out: SectionWriter) -> None:
    """Write a row for each policy: of latency, and of throughput."""

    def published(policy: str, what: str) -> str:
        of = (each for each in figures.published if (each.policy, each.what) == (policy, what))
        return ", ".join(f"{each.device} {each.value:g}" for each in of) or "-"

    columns = ["policy", "p50>", "x alone>", "p99>", "x alone>", "missed>", "paper: x alone"]
    latencies = [
        (
            each.policy, format_si(each.p50_s, "s", zeros=True), _ratio(each.p50_x),
            format_si(each.p99_s, "s", zeros=True), _ratio(each.p99_x), f"{each.missed:.1%}",
            published(each.policy, "critical latency"),
        )
        for each in figures.policies
    ]  # fmt: skip
    out.table(columns, latencies)
    out.space()
    columns = ["policy", "critical/s>", "normal/s>", "throughput x>", "normal x>", "paper: throughput x"]
    answers = [
        (
            each.policy, f"{each.critical_per_s:.1f}", f"{each.normal_per_s:.1f}", _ratio(each.throughput_x),
            _ratio(each.normal_x), published(each.policy, "throughput"),
        )
        for each in figures.policies
    ]  # fmt: skip
    out.table(columns, answers)
    out.space()


def _ratio(ratio: Ratio | None) -> str:
    if ratio is None:
        return "-"
    spread = "" if ratio.low is None or ratio.high is None else f" [{ratio.low:.2f}, {ratio.high:.2f}]"
    return f"{ratio.value:.2f}{spread}"

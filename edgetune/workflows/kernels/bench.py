"""The benchmark of critical and best-effort networks that share a GPU, by several policies."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from edgetune.artifacts.files import write_atomically
from edgetune.artifacts.formats import json_document
from edgetune.errors import InfeasibleError, InputError, blaming
from edgetune.stages.elastic import bench as benchmark
from edgetune.stages.elastic.bench import (
    BackendFactory,
    PolicyBenchmark,
    RequestLatencies,
    WorkloadBenchmark,
    runner,
    simulated,
)
from edgetune.stages.elastic.bound import (
    BOUNDED,
    PreemptionCosts,
    admitted,
    latency_bound,
    measured_costs,
    simulated_costs,
)
from edgetune.stages.elastic.gpu import Gpu, GpuTask, find_gpu
from edgetune.stages.elastic.mdtb.networks import compiled_for
from edgetune.stages.elastic.mdtb.workloads import SOURCE, WORKLOADS, TaskPair, workload
from edgetune.stages.elastic.model import seen_by_policies
from edgetune.stages.elastic.policies import POLICIES, make_policy
from edgetune.stages.elastic.policies.elastic import Persistent
from edgetune.stages.elastic.policies.simple import SOLO
from edgetune.stages.elastic.tasks import check_count
from edgetune.units import format_duration, parse_time_s
from edgetune.version import __version__
from edgetune.workflows.kernels.gpu import gpu_conditions, opened
from edgetune.workflows.kernels.options import BenchOptions
from edgetune.workflows.kernels.plan import assumed, within_of
from edgetune.workflows.kernels.share import progress, simulated_conditions
from edgetune.workflows.output import Target, check_outputs, choose_target
from edgetune.workflows.reporting import STOPS, Reporter, SimulationLabel, stop_code


@dataclass(frozen=True, slots=True)
class BenchTarget:
    """Where the benchmark runs.

    Args:
        gpu: Limits of the GPU.
        backend: Opens backends for tasks.
        fitted: Completes tasks by the resources of their kernels and, on a real GPU, their durations.
        conditions: Conditions of the figures.
        costs: Times of which the worst case is made.
    """

    gpu: Gpu
    backend: BackendFactory
    fitted: Callable[[Sequence[GpuTask]], Sequence[GpuTask]]
    conditions: dict[str, Any]
    costs: PreemptionCosts


@dataclass(frozen=True, slots=True)
class _Asked:
    """The options, the names of the policies, the duration of arrivals, s, and the share to admit within."""

    opts: BenchOptions
    names: Sequence[str]
    duration_s: float
    within: float | None


@dataclass(frozen=True, slots=True)
class BenchFigures:
    """The result of ``bench``.

    Args:
        found: The figures of each workload.
        document: The same as written.
        gpu: Where they were measured or simulated.
        target: Where the document went.
        stopped: The exit code of the signal that interrupted the benchmark; 0 where none did.
    """

    found: Sequence[WorkloadBenchmark]
    document: dict[str, Any]
    gpu: Gpu
    target: Target
    stopped: int


def bench(opts: BenchOptions, reporter: Reporter) -> BenchFigures:
    """Run workloads by policies and write their figures; if interrupted, those of the completed workloads.

    Raises:
        InputError: an unknown workload, policy or GPU, or an option that cannot be used.
        InfeasibleError: no workload's best-effort network is admitted.
        DeviceError: the GPU, its driver or the compiler is missing.
        KeyboardInterrupt, Stopped: interrupted before the first workload is complete.
    """
    target = choose_target(opts.output, "bench.json", last=True, stdout=reporter.stdout)
    check_outputs({"-o": target.file}, [], {"-o": "benchmark"})
    names = list(dict.fromkeys(name.strip() for name in opts.policy.split(",")))
    for name in names:
        POLICIES.find(name)
    chosen = [workload(letter) for letter in dict.fromkeys(map(str.upper, opts.workloads or WORKLOADS))]
    duration_s = parse_time_s(opts.duration, what="--duration")
    asked = _Asked(opts, names, duration_s, within_of(opts.admit_within, names))
    found, stopped, infeasible = list[WorkloadBenchmark](), 0, list[InfeasibleError]()
    with _place(opts, names) as place:
        try:
            for each in chosen:
                try:
                    found.append(_figures(each, asked, place, reporter))
                except InfeasibleError as error:
                    infeasible.append(InfeasibleError(f"workload {each.name}: {error.message}", error.hint))
        except STOPS as end:
            left = ", ".join(each.name for each in chosen[len(found) + len(infeasible) :])
            reporter.info(f"stopped; of {left} there are no figures: name them in another run")
            if not found:
                raise
            stopped = stop_code(end)
        if not found:
            raise infeasible[0]
        for refusal in infeasible:
            reporter.info(f"{refusal.message}; {refusal.hint}")
        document = {
            "kind": "benchmark", "tool": f"edgetune {__version__}", **place.conditions,
            "duration_s": duration_s, "seed": opts.seed, "published_source": SOURCE,
            "workloads": [asdict(each) for each in found],
        }  # fmt: skip
        SimulationLabel(document["simulated"], reporter).announce()
        if target.path is not None:
            write_atomically(json_document(document), target.path)
            target.report(reporter)
        return BenchFigures(found, document, place.gpu, target, stopped)


@contextmanager
def _place(opts: BenchOptions, names: Sequence[str]) -> Iterator[BenchTarget]:
    """Yield the model of a GPU, or the requested GPU, with persistent forms of kernels where a policy launches them."""
    if opts.device is not None:
        if opts.assume:
            raise InputError("--assume is for the model of a GPU, and --device names a real one", "leave one out")
        with opened(opts.device, sms=opts.sms, seed=opts.seed, persistent=Persistent.name in names) as ready:
            conditions = gpu_conditions(ready, part=opts.sms is not None, records=False)
            yield BenchTarget(
                ready.gpu,
                ready.open_backend,
                lambda tasks: ready.measured(ready.fitted(tasks)),
                conditions,
                measured_costs(ready.gpu),
            )
        return
    if opts.sms is not None:
        raise InputError("--sms is for a real GPU", "name one with --device, or another model with --gpu")
    gpu, model = assumed(opts.assume, find_gpu(opts.gpu))
    conditions = simulated_conditions(gpu, model)
    yield BenchTarget(
        seen_by_policies(gpu, model),
        simulated(gpu, model),
        partial(compiled_for, gpu),
        conditions,
        simulated_costs(gpu, model),
    )


def _figures(each: TaskPair, asked: _Asked, place: BenchTarget, reporter: Reporter) -> WorkloadBenchmark:
    """Run a workload alone and by all policies."""
    opts, names, duration_s = asked.opts, asked.names, asked.duration_s
    critical, normal = place.fitted((each.critical, each.normal))
    fitted = replace(each, critical=critical, normal=replace(normal, sms=opts.normal_sms))
    tasks = (critical, fitted.normal)
    known = place.gpu if place.conditions["simulated"] else None
    with blaming(f"workload {each.name}"):  # the records of one run are kept
        check_count(tasks, names[:1], known, duration_s=duration_s)
    policies = {name: make_policy(name, tasks, place.gpu) for name in names}
    run = runner(place.backend, policies, place.gpu, duration_s=duration_s, seed=opts.seed)
    once = len(names) + len(benchmark.baselines(fitted))
    runs = opts.turns * once
    reporter.info(f"workload {each.name}: {opts.turns} x {once} runs of {format_duration(duration_s)}")
    if asked.within is not None:
        alone = benchmark.with_answers(run((critical,), SOLO, 0), fitted, SOLO)
        alone_s = max(alone.latencies_s[critical.name])
        decisive = next(policies[name] for name in BOUNDED if name in policies)
        admitted(decisive, tasks, place.gpu, place.costs, alone_s=alone_s, within=asked.within)
    with progress(reporter, runs) as advance:

        def counted(tasks: Sequence[GpuTask], policy: str, turn: int) -> RequestLatencies:
            answers = run(tasks, policy, turn)
            advance(1)
            return answers

        figures = benchmark.bench(fitted, names, counted, turns=opts.turns, seed=opts.seed, on_run=reporter.detail)

    def bounded(one: PolicyBenchmark) -> PolicyBenchmark:
        found = latency_bound(policies[one.policy], tasks, place.gpu, place.costs, alone_s=figures.alone_max_s)
        return one if found is None else replace(one, bound=found[0])

    return replace(figures, policies=tuple(map(bounded, figures.policies)))

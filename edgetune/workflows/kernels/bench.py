"""From the options of ``edgetune schedule kernels bench`` to its figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import typer

from edgetune.cli.screen import Screen, answer, print_folded, print_lines, table
from edgetune.errors import InputError, blaming
from edgetune.version import __version__
from edgetune.workflows.reporting import SimulationLabel
from edgetune.workflows.stopping import STOPS, stop_code

if TYPE_CHECKING:
    from edgetune.elastic.bench import PolicyBenchmark, Ratio, RequestLatencies, Runner, StageFactory, WorkloadBenchmark
    from edgetune.elastic.gpu import Gpu
    from edgetune.elastic.mdtb.workloads import TaskPair
    from edgetune.elastic.view import ElasticPolicy
    from edgetune.elastic.work import GpuTask


_NOTE = (
    "p50, p99: latency of the critical network; x alone: times what it takes alone on the GPU. throughput x: answers "
    "of both, times sequential; normal x: answers of the normal network, likewise. In brackets 95 % intervals over "
    "turns. paper: Miriam (2023), on real GPUs"
)


@dataclass(frozen=True, slots=True)
class KernelBenchOptions:
    """What was asked for, as written on the command line."""

    workloads: Sequence[str]
    policy: str
    gpu: str
    device: str | None
    sms: int | None
    turns: int
    duration: str
    load: str | None
    deadline: float
    output: str | None
    seed: int
    json: bool = False


@dataclass(frozen=True, slots=True)
class BenchTarget:
    """Where to run.

    Args:
        gpu: Limits.
        backend: Gives stages.
        fitted: Has tasks say what their kernels need there, and what they take on a real GPU.
        conditions: What figures depend on.
    """

    gpu: Gpu
    backend: StageFactory
    fitted: Callable[[Sequence[GpuTask]], Sequence[GpuTask]]
    conditions: dict[str, Any]

    @property
    def known(self) -> Gpu | None:
        """The GPU, where how fast it is at best is known: where it is a model."""
        return self.gpu if self.conditions["simulated"] else None


def run_kernel_bench(opts: KernelBenchOptions, screen: Screen) -> None:
    """Run workloads by policies, write and print their figures; if interrupted, those of the completed workloads.

    Raises:
        InputError, DeviceError: see the command's help.
        KeyboardInterrupt, Stopped: interrupted before the first was over.
        typer.Exit: interrupted after it.
    """
    from edgetune.artifacts.files import write_atomically
    from edgetune.artifacts.json_format import json_document
    from edgetune.elastic.mdtb.workloads import SOURCE, WORKLOADS, workload
    from edgetune.elastic.policies import find_policy
    from edgetune.units import parse_time_s
    from edgetune.workflows.output import check_outputs, choose_target

    target = choose_target(opts.output, "bench.json", last=True, json=opts.json)
    check_outputs({"-o": target.file}, [], {"-o": "benchmark"})
    names = list(dict.fromkeys(name.strip() for name in opts.policy.split(",")))
    for name in names:
        find_policy(name)
    chosen = [workload(letter) for letter in dict.fromkeys(map(str.upper, opts.workloads or WORKLOADS))]
    duration_s, share = parse_time_s(opts.duration, what="--duration"), _share(opts.load)
    if share is not None and all(each.critical.arrivals == "closed" for each in chosen):
        which = " and ".join(each.name for each in chosen)
        message = f"--load is of critical requests that come at a rate, and those of {which} follow one another at once"
        raise InputError(message, "leave it out, or choose other workloads")
    found: list[WorkloadBenchmark] = []
    stopped = 0
    with _place(opts) as place:
        try:
            for each in chosen:
                found.append(_figures(each, opts, place, names, duration_s, share, screen))
        except STOPS as end:
            left = ", ".join(each.name for each in chosen[len(found) :])
            screen.info(f"stopped; of {left} there are no figures: name them in another run")
            if not found:
                raise
            stopped = stop_code(end)
        document = {
            "kind": "benchmark", "tool": f"edgetune {__version__}", **place.conditions,
            "duration_s": duration_s, "seed": opts.seed, "published_source": SOURCE,
            "workloads": [asdict(each) for each in found],
        }  # fmt: skip
    SimulationLabel(document["simulated"], screen).announce()
    if target.path is not None:
        write_atomically(json_document(document), target.path)
        target.report(screen)
    if opts.json or target.path is None:
        answer(document)
    else:
        _show(found, place)
    if stopped:
        raise typer.Exit(stopped)


def _figures(  # noqa: PLR0917 (what was asked for, read)
    each: TaskPair,
    opts: KernelBenchOptions,
    place: BenchTarget,
    names: Sequence[str],
    duration_s: float,
    share: float | None,
    screen: Screen,
) -> WorkloadBenchmark:
    """Run a workload alone and by all policies."""
    from edgetune.elastic.bench import bench, runner
    from edgetune.elastic.tasks import check_count
    from edgetune.units import format_duration
    from edgetune.workflows.kernels.share import bar

    critical, normal = place.fitted((each.critical, each.normal))
    fitted = replace(each, critical=critical, normal=normal)
    with blaming(f"workload {each.name}"):  # records of a run are kept until it is over
        check_count((critical, normal), names[:1], place.known, duration_s=duration_s)
    policies = _policies(names, (critical, normal), place.gpu)
    run = runner(place.backend, policies, place.gpu, duration_s=duration_s, seed=opts.seed)
    screen.info(f"workload {each.name}: {opts.turns} x {len(names) + 1} runs of {format_duration(duration_s)}")
    with bar(screen, opts.turns * (len(names) + 1)) as advance:
        return bench(
            _loaded(fitted, share, run), names, _counted(run, advance), turns=opts.turns,
            deadline=opts.deadline, seed=opts.seed, on_run=screen.detail,
        )  # fmt: skip


def _share(words: str | None) -> float | None:
    from edgetune.units import parse_share

    share = None if words is None else parse_share(words, what="--load")
    if share is not None and not 0 < share < 1:
        raise InputError(f"--load is {words}", "a share above 0 and below 100 %, e.g. 30%")
    return share


@contextmanager
def _place(opts: KernelBenchOptions) -> Iterator[BenchTarget]:
    """Give the model of a GPU, or the GPU that was asked for."""
    if opts.device is not None:
        from edgetune.workflows.kernels.gpu import KernelDeviceOptions, conditions, opened

        where = KernelDeviceOptions(opts.device, opts.sms, records=False)
        with opened(where, seed=opts.seed) as ready:

            def measured(tasks: Sequence[GpuTask]) -> Sequence[GpuTask]:
                return ready.measured(ready.fitted(tasks))

            yield BenchTarget(ready.gpu, ready.stage, measured, conditions(ready, where))
        return
    if opts.sms is not None:
        raise InputError("--sms is of a real GPU", "name one with --device, or another model with --gpu")
    from edgetune.elastic.bench import simulated
    from edgetune.elastic.gpu import find_gpu
    from edgetune.workflows.kernels.share import simulated_on

    gpu = find_gpu(opts.gpu)
    yield BenchTarget(gpu, simulated(gpu), tuple, simulated_on(gpu))


def _policies(names: Sequence[str], tasks: Sequence[GpuTask], gpu: Gpu) -> dict[str, ElasticPolicy]:
    """Return policies by name; what the elastic one looks up is worked out now, and not while the GPU waits."""
    from edgetune.elastic.policies import make_policy

    return {name: make_policy(name, tasks, gpu) for name in names}


def _counted(run: Runner, advance: Callable[[float], None]) -> Runner:
    """Return what runs tasks and tells that one run more is done."""

    def counted(tasks: Sequence[GpuTask], policy: str, turn: int) -> RequestLatencies:
        answers = run(tasks, policy, turn)
        advance(1)
        return answers

    return counted


def _loaded(workload: TaskPair, share: float | None, run: Runner) -> TaskPair:
    """Return a workload whose critical requests take a share of the time, where one was asked for."""
    from edgetune.elastic.bench import with_load
    from edgetune.elastic.policies.multistream import SOLO
    from edgetune.stats import median

    task = workload.critical
    if share is None:
        return workload
    return with_load(workload, share, median(run((task,), SOLO, 0).latencies_s[task.name]))


def _show(found: Sequence[WorkloadBenchmark], place: BenchTarget) -> None:
    """Print each workload: latency and throughput, each beside what was published of it."""
    from edgetune.units import format_duration

    for figures in found:
        print_folded(f"{figures.workload}: {figures.critical} ({figures.arrivals}) beside {figures.normal} on "
            f"{place.gpu.sm_count} multiprocessors of {place.gpu.name}; alone {figures.critical} takes "
            f"{format_duration(figures.alone_p50_s)}, {figures.busy:.1%} of the time, and is due after "
            f"{format_duration(figures.deadline_s)}")  # fmt: skip
        table(
            ["policy", "p50>", "x alone>", "p99>", "x alone>", "missed>", "paper: x alone"],
            [_latency(policy, figures) for policy in figures.policies],
        )
        print_lines()
        table(
            ["policy", "critical/s>", "normal/s>", "throughput x>", "normal x>", "paper: throughput x"],
            [_throughput(policy, figures) for policy in figures.policies],
        )
        print_lines()
    ours = "ours are simulated by a model" if place.conditions["simulated"] else "other kernels and sizes than ours"
    print_folded(f"{_NOTE}; {ours}.")


def _latency(policy: PolicyBenchmark, figures: WorkloadBenchmark) -> list[str]:
    from edgetune.units import format_si

    return [
        policy.policy,
        format_si(policy.p50_s, "s", zeros=True),
        _ratio(policy.p50_x),
        format_si(policy.p99_s, "s", zeros=True),
        _ratio(policy.p99_x),
        f"{policy.missed:.1%}",
        _published(policy.policy, "critical latency", figures),
    ]


def _throughput(policy: PolicyBenchmark, figures: WorkloadBenchmark) -> list[str]:
    return [
        policy.policy,
        f"{policy.critical_per_s:.1f}",
        f"{policy.normal_per_s:.1f}",
        _ratio(policy.throughput_x),
        _ratio(policy.normal_x),
        _published(policy.policy, "throughput", figures),
    ]


def _published(policy: str, what: str, figures: WorkloadBenchmark) -> str:
    """Return what the paper has of a policy, device by device."""
    of = (each for each in figures.published if (each.policy, each.what) == (policy, what))
    return ", ".join(f"{each.device} {each.value:g}" for each in of) or "-"


def _ratio(ratio: Ratio | None) -> str:
    if ratio is None:
        return "-"
    spread = "" if ratio.low is None or ratio.high is None else f" [{ratio.low:.2f}, {ratio.high:.2f}]"
    return f"{ratio.value:.2f}{spread}"

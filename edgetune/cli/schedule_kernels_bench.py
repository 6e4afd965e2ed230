"""``edgetune schedule kernels bench``: Miriam's benchmark by several policies."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgetune.cli import options
from edgetune.errors import InputError

if TYPE_CHECKING:
    from edgetune.elastic.bench import PolicyFigures, Ratio, Runner, WorkloadFigures
    from edgetune.elastic.gpu import Gpu
    from edgetune.elastic.mdtb.workloads import Workload

app = typer.Typer(rich_markup_mode=None, add_completion=False)

_POLICIES = "sequential,multistream,barrier,elastic"


@app.command()
def bench(
    workloads: Annotated[
        list[str] | None, typer.Argument(metavar="[A B C D]", help="Which workloads. Default: all four.")
    ] = None,
    *,
    policy: Annotated[
        str, typer.Option("--policy", "-p", metavar="LIST", help="Policies, in the order of the first turn.")
    ] = _POLICIES,
    gpu: Annotated[str, typer.Option(metavar="NAME", help="Which GPU to simulate, e.g. orin-nano.")] = "orin-agx",
    turns: Annotated[int, typer.Option(min=1, max=1000, metavar="N", help="How often each policy runs.")] = 5,
    duration: Annotated[str, typer.Option(metavar="TIME", help="How long requests come, in each run.")] = "2s",
    load: Annotated[
        str | None,
        typer.Option(metavar="SHARE", help="Critical requests so often that alone they take this share of the time."),
    ] = None,
    deadline: Annotated[
        float, typer.Option(min=1, metavar="FACTOR", help="Of critical requests: times their median alone.")
    ] = 2.0,
    output: Annotated[
        str | None, typer.Option("-o", "--output", metavar="FILE", help="Write the figures to a JSON file too.")
    ] = None,
    seed: options.Seed = 0,
    json: options.Json = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Run Miriam's benchmark: a critical network and a normal one, by several policies in alternation.

    A alexnet closed loop and cifarnet, B squeezenet 10/s and alexnet, C gru 10/s (Poisson) and resnet, D lstm 10/s and
    squeezenet. Kernels and sizes are ours; what was published is printed beside. Latency is relative to the critical
    network alone, throughput to the sequential policy.

    \b
      edgetune schedule kernels bench
      edgetune schedule kernels bench A B --gpu xavier --policy multistream,elastic
      edgetune schedule kernels bench D --load 30% --json
    """
    from dataclasses import asdict

    from edgetune.cli.output import Target
    from edgetune.cli.screen import Label, Screen, answer
    from edgetune.elastic import bench as benchmark
    from edgetune.elastic.bench_runs import runner, simulated
    from edgetune.elastic.gpus import find_gpu
    from edgetune.elastic.mdtb.workloads import SOURCE, WORKLOADS, workload
    from edgetune.elastic.policies import find_policy
    from edgetune.units import parse_share, parse_time_s

    screen, target = Screen(quiet, verbose), Target(None if output is None else Path(output))
    names = list(dict.fromkeys(name.strip() for name in policy.split(",")))
    chosen = [workload(letter) for letter in dict.fromkeys(map(str.upper, workloads or WORKLOADS))]
    device, duration_s = find_gpu(gpu), parse_time_s(duration, what="--duration")
    share = None if load is None else parse_share(load, what="--load")
    if share is not None and not 0 < share < 1:
        raise InputError(f"--load is {load}", "a share above 0 and below 100 %, e.g. 30%")
    run = runner(
        simulated(device), {name: find_policy(name)() for name in names}, device, duration_s=duration_s, seed=seed
    )
    target.check()
    Label(True).say()
    found = []
    for each in chosen:
        asked = each if share is None else _loaded(each, share, run)
        found.append(
            benchmark.bench(asked, names, run, turns=turns, deadline=deadline, seed=seed, note=screen.detail)
        )
    document = {
        "simulated": True, "gpu": device.name, "sms": device.sm_count, "duration_s": duration_s, "seed": seed,
        "published_source": SOURCE, "workloads": [asdict(each) for each in found],
    }  # fmt: skip
    if target.path is not None:
        _write(target.path, document)
    if json:
        answer(document)
        return
    _show(found, device)


def _loaded(workload: Workload, share: float, run: Runner) -> Workload:
    """Return a workload whose critical requests take a share of the time."""
    from edgetune.elastic.bench import with_load
    from edgetune.elastic.solo import SOLO
    from edgetune.stats import median

    task = workload.critical
    return with_load(workload, share, median(run((task,), SOLO, 0).latencies_s[task.name]))


def _write(path: Path, document: dict[str, Any]) -> None:
    import json

    path.write_text(json.dumps(document, indent=2, allow_nan=False) + "\n", encoding="utf-8")


def _show(found: Sequence[WorkloadFigures], gpu: Gpu) -> None:
    """Print each workload, what was published beside what came out."""
    from edgetune.cli.screen import table
    from edgetune.units import format_duration

    for figures in found:
        print(
            f"{figures.workload}: {figures.critical} ({figures.arrivals}) beside {figures.normal} on {gpu.sm_count} "
            f"multiprocessors of {gpu.name}; {figures.critical} alone takes {format_duration(figures.alone_p50_s)}, "
            f"{figures.busy:.1%} of the time, and is due after {format_duration(figures.deadline_s)}"
        )
        table(
            ["policy", "critical p50>", "x solo>", "p99>", "x solo>", "missed>", "critical/s>", "normal/s>",
             "throughput x>", "paper latency x", "paper throughput x"],
            [_row(policy, figures) for policy in figures.policies],
        )  # fmt: skip
        print()
    print("x solo: times the critical network alone. Throughput x: answers of both, times sequential. In brackets, 95 %")
    print("intervals over turns. paper: Miriam (2023), measured on real GPUs with other kernels; ours is a simulation.")


def _row(policy: PolicyFigures, figures: WorkloadFigures) -> list[str]:
    from edgetune.units import format_duration

    def published(what: str) -> str:
        found = [each for each in figures.published if each.policy == policy.policy and each.what == what]
        return ", ".join(f"{each.value:g} {each.device}" for each in found) or "-"

    return [
        policy.policy,
        format_duration(policy.p50_s),
        _ratio(policy.p50_x),
        format_duration(policy.p99_s),
        _ratio(policy.p99_x),
        f"{policy.missed:.1%}",
        f"{policy.critical_per_s:.1f}",
        f"{policy.normal_per_s:.1f}",
        _ratio(policy.throughput_x),
        published("critical latency"),
        published("throughput"),
    ]


def _ratio(ratio: Ratio | None) -> str:
    if ratio is None:
        return "-"
    spread = "" if ratio.low is None or ratio.high is None else f" [{ratio.low:.2f}, {ratio.high:.2f}]"
    return f"{ratio.value:.2f}{spread}"

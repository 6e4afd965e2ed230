"""Prints the results of ``edgetune schedule kernels transform``, ``bench`` and ``calibrate``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict

from edgetune.cli.command import Terminal
from edgetune.cli.screen import answer, print_document, print_folded, print_lines, table
from edgetune.processes.streams import write_bytes
from edgetune.stages.elastic.bench import PolicyBenchmark, Ratio, WorkloadBenchmark
from edgetune.stages.elastic.bound import NOTE, describe_bound
from edgetune.stages.elastic.source.explain import explained, reasons
from edgetune.units import format_duration, format_si
from edgetune.workflows.kernels.bench import BenchFigures
from edgetune.workflows.kernels.gpu import Calibrated
from edgetune.workflows.kernels.options import TransformOptions
from edgetune.workflows.kernels.transform import Transformed, check_row, document, guess_of

_NOTE = (
    "p50, p99: latency of the critical network; x alone: times what it takes alone on the GPU. throughput x: answers "
    "of both, times sequential; normal x: answers of the normal network, likewise. In brackets 95 % intervals over "
    "turns. paper: Miriam (2023), on real GPUs"
)


def show_reasons(found: Transformed, opts: TransformOptions, terminal: Terminal) -> None:
    """Print the transformation of each kernel with ``--explain``, otherwise the reason of each refusal."""
    done = found.done
    if opts.explain and not terminal.json:
        print_lines(*explained(done))
    elif not terminal.json:
        for line in reasons(done)[not found.made :]:  # where nothing is made, the first one is the error
            terminal.screen.info(line)


def report_transformed(found: Transformed, opts: TransformOptions, terminal: Terminal) -> None:
    """Print the outcome of a check, and the source unless it goes elsewhere.

    Raises:
        InputError: no kernel could be made elastic.
    """
    if terminal.json:
        answer(document(found))
    elif opts.checks and found.made:
        rows = [(one.where, check_row(each, one)) for each in found.made for one in found.tried]
        columns = ["kernel", "forms>", "sequences>", "answer", "launch", "why"]
        if all(one.gpu is None for one in found.tried):
            table(columns, [tuple(row.values()) for _, row in rows])
        else:
            table(["where", *columns], [(where, *row.values()) for where, row in rows])
        if opts.explain:
            guesses = dict.fromkeys(guess_of(each, one) for each in found.made for one in found.tried)
            print_lines(*(f"guessed launch: {guess}" for guess in guesses if guess))
    found.require_elastic()
    to_file = opts.output not in (None, "-")
    if opts.output == "-" or not (to_file or terminal.json or opts.explain or opts.checks):
        source = found.done.source.encode("utf-8", "surrogateescape")
        print_document(source.decode(errors="surrogateescape")) if sys.stdout.isatty() else write_bytes(source)


def report_figures(figures: BenchFigures, terminal: Terminal) -> None:
    """Print each workload: latency and throughput, each beside the published figures."""
    if terminal.json or figures.target.path is None:
        answer(figures.document)
        return
    for each in figures.found:
        beside = each.normal if each.normal_arrivals == "closed" else f"{each.normal} ({each.normal_arrivals})"
        beside = beside if each.in_flight == 1 else f"{each.in_flight} x {beside}"
        beside += "" if each.normal_sms is None else f" (at most {each.normal_sms} multiprocessors)"
        alone = format_duration(each.alone_p50_s - each.waking_s)
        woken = f" (and {format_duration(each.waking_s)} where the host was idle)" if each.waking_s else ""
        print_folded(
            f"{each.workload}: {each.critical} ({each.arrivals}) beside {beside} on {figures.gpu.sm_count} "
            f"multiprocessors of {figures.gpu.name}; alone {each.critical} takes {alone}{woken}, "
            f"{each.busy:.1%} of the time, and is due after {format_duration(each.deadline_s)}"
        )
        columns = ["policy", "p50>", "x alone>", "p99>", "x alone>", "missed>", "paper: x alone"]
        table(columns, [_latency(policy, each) for policy in each.policies])
        print_lines()
        columns = ["policy", "critical/s>", "normal/s>", "throughput x>", "normal x>", "paper: throughput x"]
        table(columns, [_throughput(policy, each) for policy in each.policies])
        print_lines()
        for policy in each.policies:
            if policy.bound is not None:
                print_folded(f"worst case by {policy.policy}: {describe_bound(policy.bound, policy.max_s)}")
        if any(policy.bound for policy in each.policies):
            print_folded(f"{NOTE}.")
            print_lines()
    simulated = figures.document["simulated"]
    print_folded(f"{_NOTE}; {'ours are simulated by a model' if simulated else 'other kernels and sizes than ours'}.")


def _latency(policy: PolicyBenchmark, figures: WorkloadBenchmark) -> Sequence[str]:
    p50, p99 = (format_si(value_s, "s", zeros=True) for value_s in (policy.p50_s, policy.p99_s))
    published = _published(policy.policy, "critical latency", figures)
    return [policy.policy, p50, _ratio(policy.p50_x), p99, _ratio(policy.p99_x), f"{policy.missed:.1%}", published]


def _throughput(policy: PolicyBenchmark, figures: WorkloadBenchmark) -> Sequence[str]:
    rates = (f"{rate_per_s:.1f}" for rate_per_s in (policy.critical_per_s, policy.normal_per_s))
    published = _published(policy.policy, "throughput", figures)
    return [policy.policy, *rates, _ratio(policy.throughput_x), _ratio(policy.normal_x), published]


def _published(policy: str, what: str, figures: WorkloadBenchmark) -> str:
    """Return the published figures of a policy, device by device."""
    of = (each for each in figures.published if (each.policy, each.what) == (policy, what))
    return ", ".join(f"{each.device} {each.value:g}" for each in of) or "-"


def _ratio(ratio: Ratio | None) -> str:
    if ratio is None:
        return "-"
    spread = "" if ratio.low is None or ratio.high is None else f" [{ratio.low:.2f}, {ratio.high:.2f}]"
    return f"{ratio.value:.2f}{spread}"


def report_costs(found: Calibrated, terminal: Terminal) -> None:
    """Print the cost of launches on a GPU, and whether part of its multiprocessors can be used."""
    costs, refused = found.costs, found.refused
    if terminal.json:
        answer({**asdict(costs), "parts": {"offered": refused is None, "why_not": refused}})
        return
    print_lines(
        f"{costs.gpu}, {costs.sm_count} multiprocessors, CUDA {costs.cuda}: medians, with kernels that do nothing"
    )
    rows = [
        ("call of a launch", costs.call_s, ""),
        ("record of an event", costs.record_s, ""),
        ("question whether an event is over", costs.query_s, ""),
        ("launch until the kernel is over", costs.over_s, f"or {format_si(costs.over_uncertain_s, 's')} off"),
        ("end of a kernel until that of the next", costs.reaction_s, ""),
        *((f"{count} launches until all are seen to be over", each_s, "") for count, each_s in costs.shards_s.items()),
        ("each shard more", costs.shard_s, ""),
    ]
    if costs.turn_s is not None:
        rows.append(("each logical block more of a physical one", costs.turn_s, f"mean of {max(costs.turns_s)}"))
    table(("what", "takes>", "note"), [(what, format_si(taken_s, "s"), note) for what, taken_s, note in rows])
    print_lines(f"--sms, a part of the multiprocessors: {'yes' if refused is None else f'no: {refused}'}")

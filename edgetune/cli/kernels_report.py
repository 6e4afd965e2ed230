"""Prints the results of ``edgetune schedule kernels transform``, ``shrink`` and ``bench``."""

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from edgetune.cli.command import Terminal
from edgetune.cli.screen import answer, print_document, print_folded, print_lines, table
from edgetune.processes.streams import write_bytes
from edgetune.stages.elastic.bench import PolicyBenchmark, Ratio, WorkloadBenchmark
from edgetune.stages.elastic.bound import NOTE, describe_bound
from edgetune.stages.elastic.forms import Form, Forms
from edgetune.stages.elastic.kernel import explained, reasons
from edgetune.stages.elastic.shrink import LAUNCHES, Shrunk
from edgetune.units import format_bytes, format_duration, format_si
from edgetune.workflows.kernels.bench import BenchFigures
from edgetune.workflows.kernels.options import TransformOptions
from edgetune.workflows.kernels.shrink import KeptPieces
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


def report_pieces(kept: KeptPieces, terminal: Terminal) -> None:
    """Print the resources of each form, and the pieces to launch beside no critical block; with --verbose all."""
    shrunk, forms = kept.shrunk, _form_rows(kept.forms, kept.shrunk)
    dropped = {design: reason for design in shrunk.designs if (reason := shrunk.reason(design)) is not None}
    if terminal.json:
        rows = [
            *(
                {**_form_row(kept.forms, place.shape.per_thread, place.threads), **asdict(place.shape),
                 "status": "kept", "critical_blocks": place.critical_blocks,
                 "critical_threads": place.critical_threads, "rank": place.rank, "score": place.score}
                for place in shrunk.places
            ),
            *(
                {**_form_row(kept.forms, design.per_thread, design.threads), "count": design.count,
                 "status": "dropped", "reason": reason}
                for design, reason in dropped.items()
            ),
        ]  # fmt: skip
        answer({
            "kernel": shrunk.kernel, "gpu": shrunk.gpu.name, "arch": kept.arch, "designs": len(shrunk.designs),
            "pruned_share": shrunk.pruned_share, "rules": {"launch_s": shrunk.gpu.launch_s, "most_overhead_s": LAUNCHES * shrunk.gpu.launch_s}, "forms": forms, "rows": rows,
        })  # fmt: skip
        return
    table(
        ("form", "threads>", "registers>", "of a block>", "shared>", "stack>", "spills>", "verdict"),
        [
            (
                row["form"], row["threads"], row["registers_per_thread"], row["registers_per_block"],
                *(format_bytes(row[f"{what}_bytes"]) for what in ("static_shared", "stack", "spill")), row["verdict"],
            )
            for row in forms
        ],
    )  # fmt: skip
    reasons = ", ".join(f"{count}: {reason}" for reason, count in Counter(dropped.values()).items())
    beside = len(shrunk.leftovers) * shrunk.gpu.sm_count
    terminal.screen.info(
        f"{len(shrunk.designs)} pieces, each beside {beside} kinds of critical kernel: {len(shrunk.places)} of "
        f"{len(shrunk.designs) * beside} combinations are kept, {shrunk.pruned_share:.1%} of the space pruned"
        f"{f'; pieces that are kept beside none: {reasons}' if reasons else ''}"
    )
    grid, block = ("x".join(map(str, sizes)) for sizes in (shrunk.logical.grid, shrunk.logical.block))
    print_folded(f"{shrunk.kernel}, {grid} blocks of {block} threads; beside: critical blocks, modulo multiprocessors")
    cells: list[tuple[object, ...]] = [
        (
            place.critical_blocks, f"to {place.critical_threads}", place.rank, place.shape.count, place.shape.blocks,
            place.threads, place.shape.per_thread, f"{place.score:.3f}", "",
        )
        for place in shrunk.places
        if terminal.verbose or (place.rank == 0 and place.critical_blocks == 0)
    ]  # fmt: skip
    if terminal.verbose:
        cells += [(None, None, None, each.count, None, each.threads, each.per_thread, None, dropped[each])
                  for each in dropped]  # fmt: skip
    columns = ("beside>", "of threads>", "rank>", "piece>", "blocks>", "of threads>", "per thread>", "score>")
    table((*columns, "dropped"), cells)


def _form_rows(forms: Forms, shrunk: Shrunk) -> list[dict[str, Any]]:
    """Return the compiler's figures of the original and of each form that the launch can have."""
    flaws = {design.per_thread: (design.threads, design.flaw) for design in shrunk.designs}
    said: list[tuple[int | None, Form, int, str]] = [
        (None, forms.original, shrunk.logical.threads, "original"),
        *(
            (count, forms.elastic[count], size, "kept" if flaw is None else f"dropped: {flaw}")
            for count, (size, flaw) in flaws.items()
        ),
    ]
    return [
        {
            "form": form.symbol, "symbol": form.symbol, "per_thread": count, "threads": threads,
            "registers_per_thread": form.resources.registers_per_thread,
            "registers_per_block": form.resources.registers_per_thread * threads,
            "static_shared_bytes": form.resources.static_shared_bytes, "stack_bytes": form.resources.stack_bytes,
            "spill_bytes": form.resources.spill_bytes, "verdict": verdict,
        }
        for count, form, threads, verdict in said
    ]  # fmt: skip


def _form_row(forms: Forms, per_thread: int, threads: int) -> dict[str, Any]:
    form = forms.elastic[per_thread]
    of_form = {"symbol": form.symbol, "registers_per_thread": form.resources.registers_per_thread}
    return {**of_form, "per_thread": per_thread, "threads": threads}

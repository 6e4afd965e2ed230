"""Prints the results of ``edgetune schedule``: plans, timelines by policy and by job, graphs, robustness."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TextIO

from edgetune.cli.cells import cell, rows_of, si_cell
from edgetune.cli.screen import answer, print_folded, print_lines, table
from edgetune.units import NS, format_bytes, format_duration

if TYPE_CHECKING:
    from edgetune.artifacts.jobs import Jobs
    from edgetune.artifacts.timeline import Timeline
    from edgetune.cli.command import Terminal
    from edgetune.cli.screen import Screen
    from edgetune.stages.schedule.dependencies import DependencyGraph, LinearExtensions, Mode
    from edgetune.stages.schedule.network import LayeredNetwork
    from edgetune.stages.schedule.summary import PolicySummary, Responses
    from edgetune.workflows.schedule.graph import ModeGraph
    from edgetune.workflows.schedule.options import GenerationOptions, GraphOptions
    from edgetune.workflows.schedule.plan import SchedulePlan
    from edgetune.workflows.schedule.prepare import PlannedFolder
    from edgetune.workflows.schedule.robustness import RobustnessReport
    from edgetune.workloads.prepared import Prepared

_Figures = dict[str, Callable[["PolicySummary"], str | None]]


def report_plan(plan: SchedulePlan, screen: Screen) -> None:
    """Print the costs of every network, the requests and policies, and the memory of the process itself.

    Raises:
        InputError, InfeasibleError, DeviceError: the run would be refused.
    """
    from edgetune.stages.schedule.network import least_budget_bytes
    from edgetune.workflows.schedule.run import rehearse

    opts, requests, limit = plan.opts, plan.requests(0), format_bytes(plan.limit_bytes)
    for each in plan.known:
        network, least = each.network, least_budget_bytes(each.network)
        alone = f", {format_duration(network.service_s)} alone" if each.timed else ""
        screen.info(
            f"{network.name}: {len(network.layers)} layers, {format_bytes(network.weight_bytes)} of weights{alone}; "
            f"runs in {format_bytes(least)}, layer by layer"
        )
    last_s = max((request.arrival_ns for request in requests), default=0) / NS
    screen.info(f"{len(requests)} requests, the last after {format_duration(last_s)}; {limit}")
    turns = f", {opts.turns} turns each" if opts.turns > 1 else ""
    names = ", ".join(policy.words for policy in plan.policies)
    screen.info(f"{names}{turns}, {'simulated' if opts.simulate else 'for real'}")
    for policy, taken_bytes in rehearse(plan):
        if taken_bytes:
            layers = policy.form == "layers"
            what = "ONNX Runtime and the sessions of all layers take" if layers else "ONNX Runtime takes"
            screen.info(f"{policy.words}: {what} {format_bytes(taken_bytes)} of {limit} before anything is loaded")


def show_timeline(timeline: Timeline, *, stream: TextIO | None = None) -> None:
    """Print a row per policy, how each compares with the first, and a row per job and network."""
    from edgetune.stages.schedule.summary import summarise

    out = stream or sys.stdout
    summaries = summarise(timeline)
    if not summaries:
        print_lines("nothing happened: no request came", stream=out)
        return
    table(*_policies(summaries), stream=out)
    print_lines(stream=out)
    for line in [*compared(timeline, summaries), *_remarks(timeline, summaries)]:
        print_folded(line, stream=out)
    print_lines(stream=out)
    table(
        ("policy", "job", "network", "done>", "mean>", "median>", "p95>", "longest>", "missed>", "note"),
        [(of.policy, *_job(each)) for of in summaries for each in of.by_job],
        stream=out,
    )


def report_answer(timeline: Timeline) -> dict[str, Any]:
    """Return the figures for machines: the header, and a summary per policy and per turn."""
    from edgetune.artifacts.plain import plain
    from edgetune.stages.schedule.summary import summarise

    figures = {"policies": summarise(timeline), "turns": summarise(timeline, by_turn=True)}
    return {"header": plain(timeline.header), **plain(figures)}


def _policies(summaries: Sequence[PolicySummary]) -> tuple[list[str], list[list[object]]]:
    """Return the table of policies without empty columns."""
    figures: _Figures = {
        "policy": lambda of: of.policy,
        "done>": lambda of: _done(of.responses),
        "mean>": lambda of: si_cell(of.responses.mean_s, "s"),
        "p95>": lambda of: si_cell(of.responses.p95_s, "s"),
        "missed>": lambda of: _missed(of.responses),
        "held>": lambda of: cell(of.memory.held_peak_bytes, format_bytes),
        "budget>": lambda of: cell(of.memory.budget_bytes, format_bytes),
        "peak>": lambda of: cell(of.memory.peak_bytes, format_bytes),
        "limit>": lambda of: None if of.memory.peak_bytes is None else cell(of.memory.limit_bytes, format_bytes),
        "swap>": lambda of: cell(of.memory.swap_peak_bytes, format_bytes),
        "faults>": lambda of: cell(of.memory.major_faults),
        "reclaims>": lambda of: cell(of.memory.limit_hits),
        "loaded>": lambda of: cell(of.loads.bytes, format_bytes),
        "avoided>": lambda of: cell(of.loads.avoided_share, ".1%"),
        "busy>": lambda of: cell(_busy(of), ".1%"),
        "took>": lambda of: format_duration(of.makespan_s),
    }
    return rows_of(figures, summaries)


def compared(timeline: Timeline, summaries: Sequence[PolicySummary]) -> list[str]:
    """Return a line for every policy but the first: its figures as multiples of the first one's, turn by turn."""
    from edgetune.stages.schedule.summary import summarise

    if len(summaries) < 2:
        return []
    first = summaries[0]
    by_turn = {(of.policy, of.turns[0]): of for of in summarise(timeline, by_turn=True)}
    lines = []
    for of in summaries[1:]:
        pairs = [(by_turn[of.policy, turn], by_turn[first.policy, turn]) for turn in of.turns if turn in first.turns]
        told = [
            _ratio("mean response", pairs, lambda each: each.responses.mean_s),
            _ratio("p95", pairs, lambda each: each.responses.p95_s),
            _ratio("peak", pairs, _peak_bytes),
            _ratio("bytes loaded", pairs, lambda each: each.loads.bytes),
        ]
        found = ", ".join(filter(None, told)) or "nothing to compare"
        turns = f" ({len(pairs)} turns: median, least to most)" if len(pairs) > 1 else ""
        lines.append(f"{of.policy} beside {first.policy}: {found}{turns}")
    return lines


def _ratio(
    what: str, pairs: Sequence[tuple[PolicySummary, PolicySummary]], figure: Callable[[PolicySummary], float | None]
) -> str | None:
    """Return a figure as a multiple of another policy's: the median over turns, and its range where there are more."""
    from edgetune.stats import median

    ratios = [mine / other for of, base in pairs if (mine := figure(of)) is not None and (other := figure(base))]
    if not ratios:
        return None
    low, middle, high = (f"{ratio:.3g}" for ratio in (min(ratios), median(ratios), max(ratios)))
    return f"{what} x{middle}" + ("" if low == high else f" ({low} to {high})")


def _peak_bytes(of: PolicySummary) -> int | None:
    """Return the peak of measured memory, else the peak of held memory."""
    peak_bytes = of.memory.peak_bytes
    return of.memory.held_peak_bytes if peak_bytes is None else peak_bytes


def _remarks(timeline: Timeline, summaries: Sequence[PolicySummary]) -> list[str]:
    """Return the reasons of failed requests and, for a live run, the mechanism that enforced the budget."""
    failed: dict[tuple[str, str], list[str]] = {}
    for of in summaries:
        for each in of.by_job:
            if each.reason is not None and each.network is not None:
                failed.setdefault((of.policy, each.reason), []).append(each.network)
    lines = [
        f"{policy}: {', '.join(dict.fromkeys(networks))} failed: {reason}"
        for (policy, reason), networks in failed.items()
    ]
    for of in summaries:
        held, budget = of.memory.held_peak_bytes, of.memory.budget_bytes
        if held is not None and budget is not None and held > budget:
            message = (
                f"{of.policy} held {format_bytes(held)} of {format_bytes(budget)}: more was needed to go on at all"
            )
            lines.append(message)
    for policy, turns in timeline.header.conditions.get("policies", {}).items():
        lines += [f"{policy}: {_bound(turn['plan'])}" for turn in turns if "plan" in turn]
        unverified = dict.fromkeys(name for turn in turns for name in turn.get("unverified", ()))
        lines += [f"{policy}: {_unverified(unverified)}"] if unverified else []
    enforced_by = timeline.header.conditions.get("enforced_by")
    if enforced_by == "accounted":
        lines.append("the budget was kept by the accounts of the runtime; no cgroup enforced it")
    elif enforced_by is not None and not timeline.header.simulated:
        lines.append(f"the budget was enforced by {enforced_by}")
    return list(dict.fromkeys(lines))


def _unverified(networks: Iterable[str]) -> str:
    why = "it answers by chance, or gave no answer, or the run ended before"
    return f"answers of {', '.join(networks)} were not compared with the whole network's: {why}"


def _bound(plan: Mapping[str, Any]) -> str:
    what = "the mean response" if plan["objective"] == "response" else "the time until all is answered"
    best, bound = format_duration(plan["value_s"]), format_duration(plan["bound_s"])
    looked = f"in {format_duration(plan['took_s'])} of looking"
    return f"{what} is planned to be {best}; " + (
        f"none is less, found {looked}" if plan["proved"] else f"none is below {bound}, as far as is known {looked}"
    )


def _job(of: Responses) -> tuple[object, ...]:
    notes = [f"{of.failed} failed"] if of.failed else []
    notes += [f"{of.abandoned} abandoned"] if of.abandoned else []
    times = (si_cell(of.mean_s, "s"), si_cell(of.median_s, "s"), si_cell(of.p95_s, "s"), si_cell(of.longest_s, "s"))
    return of.job, of.network, _done(of), *times, _missed(of), ", ".join(notes)


def _done(of: Responses) -> str:
    return f"{of.answered}/{of.requests}"


def _missed(of: Responses) -> str | None:
    return f"{of.misses} ({of.misses / of.due:.0%})" if of.due else None


def _busy(of: PolicySummary) -> float | None:
    if of.loading_share is None or of.executing_share is None:
        return None
    return of.loading_share + of.executing_share


def report_planned_folders(planned: Sequence[PlannedFolder], terminal: Terminal) -> None:
    """Print the folders that would be written."""
    if terminal.json:
        answer([{**asdict(each), "folder": str(each.folder), "disk_bytes": each.disk_bytes} for each in planned])
        return
    rows = [(p.network, p.folder, format_bytes(p.weight_bytes), format_bytes(p.disk_bytes)) for p in planned]
    table(("network", "folder", "weights>", "on disk about>"), rows)


def report_prepared(prepared: Sequence[Prepared], terminal: Terminal) -> None:
    """Print the sizes of each prepared network."""
    found = [_figures(each) for each in prepared]
    if terminal.json:
        answer(found)
        return
    sizes = ("weight_bytes", "largest_layer_bytes", "least_budget_bytes")
    rows = [
        (
            row["network"], row["layers"], *(format_bytes(row[key]) for key in sizes),
            cell(row["difference"], ".1e"),
        )
        for row in found
    ]  # fmt: skip
    table(("network", "layers>", "weights>", "largest layer>", "least budget>", "differs by at most>"), rows)


def _figures(prepared: Prepared) -> dict[str, Any]:
    from edgetune.stages.schedule.costs import network_of
    from edgetune.stages.schedule.network import least_budget_bytes

    return {
        "network": prepared.network,
        "folder": str(prepared.folder),
        "layers": len(prepared.layers),
        "weight_bytes": prepared.weight_bytes,
        "largest_layer_bytes": max(layer.weight_bytes for layer in prepared.layers),
        "least_budget_bytes": least_budget_bytes(network_of(prepared)),
        "difference": prepared.difference,
    }


def report_graphs(network: LayeredNetwork, graphs: Sequence[ModeGraph], opts: GraphOptions, terminal: Terminal) -> None:
    """Draw the graphs if a figure is requested, and print a row for each."""
    from edgetune.cli.plot import write_drawing
    from edgetune.stages.schedule.figures.dependencies import dependencies_figure

    if opts.output is not None:
        write_drawing(lambda: dependencies_figure(network, graphs), opts.output, terminal.screen)
    rows = [_row(*each) for each in graphs]
    if terminal.json:
        answer({"network": network.name, "layers": len(network.layers), "modes": rows})
        return
    print_lines(f"{network.name}: {len(network.layers)} layers")
    columns = ("mode", "tasks", "arrows", "orders")
    table(["mode", "tasks>", "arrows>", "orders"], [[row[column] for column in columns] for row in rows])


def _row(mode: Mode, graph: DependencyGraph, orders: LinearExtensions) -> dict[str, object]:
    """Return the figures of a mode; numbers of orders are text, because they have more digits than numbers may."""
    from edgetune.stages.schedule.figures.dependencies import orders_text

    return {
        "mode": mode, "tasks": len(graph.nodes), "arrows": sum(map(len, graph.before)), "orders": orders_text(orders),
        "exact": orders.least == orders.most, "method": orders.method,
    }  # fmt: skip


def report_generated(made: Sequence[LayeredNetwork], jobs: Jobs, opts: GenerationOptions, terminal: Terminal) -> None:
    """Print the networks that were made."""
    if terminal.json:
        keys = ("network", "layers", "weight_bytes", "service_s")
        networks = [
            dict(zip(keys, (each.name, len(each.layers), each.weight_bytes, each.service_s), strict=True))
            for each in made
        ]
        answer({"costs": opts.output, "jobs": opts.jobs, "memory_bytes": jobs.memory_bytes, "networks": networks})
        return
    rows = [(n.name, len(n.layers), format_bytes(n.weight_bytes), format_duration(n.service_s)) for n in made]
    table(["network", "layers>", "weights>", "alone>"], rows)


def report_robustness(report: RobustnessReport, terminal: Terminal) -> None:
    """Print the measured order of policies, and its changes under noise.

    Raises:
        BaseException: the signal that stopped the runs.
    """
    if terminal.json:
        noise = [asdict(each) for each in report.found]
        answer({"simulated": True, "measured_s": report.measured, "noise": noise})
    else:
        _show_robustness(report)
    if report.stopped is not None:
        raise report.stopped


def _show_robustness(report: RobustnessReport) -> None:
    measured, found = report.measured, report.found
    order = sorted(measured, key=measured.__getitem__)
    print_lines(
        f"mean responses as measured: {', '.join(f'{name} {format_duration(measured[name])}' for name in order)}"
    )
    print_lines(f"{order[0]} is best; over {found[0].runs} runs for each amount of noise:")
    print_lines()
    table(
        ["noise>", "tau: mean>", "least>", "best stays>", "lost at most>", *(f"{name}>" for name in order)],
        [
            (
                f"{each.noise:.0%}",
                f"{sum(each.tau) / len(each.tau):.3f}",
                f"{min(each.tau):.3f}",
                f"{each.best_stays}/{each.runs}",
                f"{each.regret:.1%}",
                *(format_duration(each.mean_s[name]) for name in order),
            )
            for each in found
        ],
    )

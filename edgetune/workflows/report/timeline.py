"""A timeline of several networks in a report: responses, memory and loads by policy, and each policy over time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from edgetune.plotting.gantt import names_of
from edgetune.plotting.page import SectionWriter
from edgetune.units import format_bytes, format_duration
from edgetune.workflows.figures import draw_view
from edgetune.workflows.report.sections import cell, rows_of, si_cell

if TYPE_CHECKING:
    from edgetune.artifacts.timeline import Timeline
    from edgetune.stages.schedule.timeline import PolicySummary, Responses

_Figures: TypeAlias = Mapping[str, Callable[["PolicySummary"], str | None]]


def timeline_section(timeline: Timeline, out: SectionWriter) -> None:
    """Write a row per policy, how each compares with the first, and a row per job and network."""
    from edgetune.stages.schedule.timeline import summarise

    summaries = summarise(timeline)
    if not summaries:
        out.note("nothing happened: no request came")
        return
    for figures, explained in _TABLES:
        columns, rows = rows_of({"policy": lambda of: of.policy, **figures}, summaries)
        if len(columns) > 1:
            out.table(columns, rows)
            out.note("; ".join(each for name, each in explained.items() if f"{name}>" in columns))
            out.space()
    for line in [*compared(timeline, summaries), *_remarks(timeline, summaries)]:
        out.note(line)
    out.space()
    out.table(
        ("policy", "job", "network", "done>", "mean>", "median>", "p95>", "longest>", "missed>", "note"),
        [(of.policy, *_job(each)) for of in summaries for each in of.by_job],
    )
    for policy in names_of(timeline.rows, "policy"):
        out.figure(partial(draw_view, "timeline.gantt", timeline, policy=policy), f"{policy} over time")


def answer(timeline: Timeline) -> dict[str, Any]:
    """Return the figures for machines: the header, and a summary per policy and per turn."""
    from edgetune.artifacts.yaml_document import plain
    from edgetune.stages.schedule.timeline import summarise

    figures = {"policies": summarise(timeline), "turns": summarise(timeline, by_turn=True)}
    return {"header": plain(timeline.header), **plain(figures)}


def compared(timeline: Timeline, summaries: Sequence[PolicySummary]) -> list[str]:
    """Return a line for every policy but the first: its figures as multiples of the first one's, turn by turn."""
    from edgetune.stages.schedule.timeline import summarise

    if len(summaries) < 2:
        return []
    first = summaries[0]
    by_turn = {(of.policy, of.turns[0]): of for of in summarise(timeline, by_turn=True)}
    lines = []
    for of in summaries[1:]:
        pairs = [(by_turn[of.policy, turn], by_turn[first.policy, turn]) for turn in of.turns if turn in first.turns]
        answered = [sum(each.responses.answered for each in side) for side in zip(*pairs, strict=True)] or [0, 0]
        told = [
            None if answered[0] == answered[1] else f"{answered[0]} answered instead of {answered[1]}",
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
            exceeded = f"its {format_bytes(budget)} ({format_bytes(held)})"
            lines.append(f"{of.policy} exceeded {exceeded}: no waiting task fitted")
        resident = of.memory.resident_peak_bytes
        if held is not None and resident is not None and resident < held:
            lines.append(
                f"{of.policy} counts every copy of weights: of the {format_bytes(held)} that it held, "
                f"{format_bytes(resident)} are resident at the most, since copies are pages of the same file"
            )
    for policy, turns in timeline.header.conditions.get("policies", {}).items():
        lines += [f"{policy}: {_bound(turn['plan'])}" for turn in turns if "plan" in turn]
    lines += _idle(timeline)
    enforced_by = timeline.header.conditions.get("enforced_by")
    if enforced_by == "accounted":
        lines.append("the budget was kept by the accounts of the runtime; no cgroup enforced it")
    elif enforced_by is not None and not timeline.header.simulated:
        lines.append(f"the budget was enforced by {enforced_by}")
    return list(dict.fromkeys(lines))


def _idle(timeline: Timeline) -> list[str]:
    """Return a line for the memory of the process that runs networks, before it loads anything."""
    turns = [turn for each in timeline.header.conditions.get("policies", {}).values() for turn in each]
    base = max((turn["base_bytes"] for turn in turns if "base_bytes" in turn), default=None)
    own = max((turn["base_anonymous_bytes"] for turn in turns if "base_anonymous_bytes" in turn), default=None)
    if base is None:
        return []
    told = "" if own is None else f", of which {format_bytes(own)} are no pages of libraries"
    return [f"before anything is loaded, ONNX Runtime and the sessions of all layers take {format_bytes(base)}{told}"]


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
    return of.job, of.network, _done(of), *times, missed_cell(of), ", ".join(notes)


def _done(of: Responses) -> str:
    return f"{of.answered}/{of.requests}"


def missed_cell(of: Responses) -> str | None:
    """Return the missed deadlines and their share; a few read neither as none nor as all."""
    if not of.due:
        return None
    share = f"{of.misses / of.due:.0%}"
    exact = share if share not in ("0%", "100%") or of.misses in (0, of.due) else f"{of.misses / of.due:.1%}"
    return f"{of.misses} ({exact})"


_TABLES: Sequence[tuple[_Figures, Mapping[str, str]]] = (
    (
        {
            "done>": lambda of: _done(of.responses),
            "mean>": lambda of: si_cell(of.responses.mean_s, "s"),
            "p95>": lambda of: si_cell(of.responses.p95_s, "s"),
            "missed>": lambda of: missed_cell(of.responses),
            "busy>": lambda of: (
                None if of.loading_share is None else cell(of.loading_share + (of.executing_share or 0.0), ".1%")
            ),
            "took>": lambda of: format_duration(of.makespan_s),
        },
        {
            "mean": "mean, p95: response times",
            "missed": "missed: deadlines",
            "busy": "busy: of the workers' time",
            "took": "took: until the last event",
        },
    ),
    (
        {
            "held>": lambda of: cell(of.memory.held_peak_bytes, format_bytes),
            "budget>": lambda of: cell(of.memory.budget_bytes, format_bytes),
            "loaded>": lambda of: cell(of.loads.bytes, format_bytes),
            "avoided>": lambda of: cell(of.loads.avoided_share, ".1%"),
        },
        {
            "held": "held: most bytes of tasks at once, by the accounts",
            "budget": "budget: what tasks may hold",
            "loaded": "loaded: from storage",
            "avoided": "avoided: share of loads saved by weights that were there",
        },
    ),
    (
        {
            "peak>": lambda of: cell(of.memory.peak_bytes, format_bytes),
            "limit>": lambda of: None if of.memory.peak_bytes is None else cell(of.memory.limit_bytes, format_bytes),
            "swap>": lambda of: cell(of.memory.swap_peak_bytes, format_bytes),
            "faults>": lambda of: cell(of.memory.major_faults),
            "reclaims>": lambda of: cell(of.memory.limit_hits),
        },
        {
            "peak": "peak: most memory of the process, as the system counts it",
            "limit": "limit: what it may be",
            "swap": "swap: most that was swapped out",
            "faults": "faults: pages read back from storage",
            "reclaims": "reclaims: times that the system took pages for the limit",
        },
    ),
)
"""Tables of policies: their columns, empty ones left out, and what these mean."""

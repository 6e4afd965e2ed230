"""A run in a report: answers in time, training meanwhile, power, and every engine over time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from edgetune.plotting.gantt import names_of
from edgetune.plotting.page import SectionWriter, Table
from edgetune.units import format_duration, format_si
from edgetune.workflows.figures import draw_view
from edgetune.workflows.report.sections import cell, rows_of, si_cell

if TYPE_CHECKING:
    from edgetune.artifacts.run import Run
    from edgetune.stages.interleave.summary import EngineSummary, InferenceSummary, TrainingSummary

_COLUMNS = ("engine", "workload", "done>", "violations>", "median>", "p99>", "peak>", "samples/s>", "note")


def run_section(run: Run, out: SectionWriter) -> None:
    """Write a row per engine and workload, where time and power went, how engines compare, and figures of each."""
    from edgetune.stages.interleave.summary import summarise

    summaries = summarise(run)
    if not summaries:
        out.note("nothing happened: no request came and no training minibatch ran")
        return
    rows = [
        (of.engine, *figures)
        for of in summaries
        for figures in (*map(_answered, of.answered), *map(_trained, of.trained))
    ]
    if rows:
        out.table(_COLUMNS, rows)
        out.space()
    out.table(*_device(summaries))
    out.space()
    for line in [*compared(summaries), *_remarks(summaries), *slower_than_planned(run, summaries)]:
        out.note(line)
    out.figure(partial(draw_view, "run.latency", run), "latency by engine")
    for engine in names_of(run.rows, "engine"):
        out.figure(partial(draw_view, "run.timeline", run, engine=engine), f"{engine} over time")


def answer(run: Run) -> dict[str, Any]:
    """Return the figures for machines: the header, and a summary per engine and per turn."""
    from edgetune.artifacts.yaml_document import plain
    from edgetune.stages.interleave.summary import summarise

    figures = {"engines": summarise(run), "turns": summarise(run, by_turn=True)}
    return {"header": plain(run.header), **plain(figures)}


def compared(summaries: Sequence[EngineSummary]) -> list[str]:
    """Compare every engine with native sharing, else with the first engine; return a line each."""
    if len(summaries) < 2:
        return []
    base = next((each for each in summaries if each.engine == "native"), summaries[0])
    return [
        f"{each.engine} beside {base.engine}: {', '.join(_differences(each, base))}"
        for each in summaries
        if each is not base
    ]


def _differences(each: EngineSummary, base: EngineSummary) -> list[str]:
    late, late_base = (sum(of.violations for of in summary.answered) for summary in (each, base))
    found = [f"{late} violation{'s' * (late != 1)} instead of {late_base}"] if each.answered and base.answered else []
    worst, worst_base = _worst_p99(each), _worst_p99(base)
    if worst is not None and worst_base is not None:
        found.append(f"p99 {worst:.0%} of the budget instead of {worst_base:.0%}")
    before = {of.tenant: of.samples_per_s for of in base.trained}
    ratios = [of.samples_per_s / before[of.tenant] for of in each.trained if before.get(of.tenant)]
    if ratios:
        low, high = f"{min(ratios):.2f}", f"{max(ratios):.2f}"
        verb = "trains" if all(of.trains for of in each.trained) else "background"
        found.append(f"{verb} {low if low == high else f'{low} to {high}'} times as fast")
    return found or ["nothing to compare"]


def _worst_p99(summary: EngineSummary) -> float | None:
    """Return the largest 99th percentile as a share of its tenant's latency budget."""
    shares = [
        of.latency_p99_s / of.latency_budget_s for of in summary.answered if of.latency_p99_s and of.latency_budget_s
    ]
    return max(shares, default=None)


def _answered(of: InferenceSummary) -> tuple[object, ...]:
    notes = [f"{of.failed} failed"] if of.failed else []
    notes += [f"{of.abandoned} abandoned"] if of.abandoned else []
    notes += [] if of.latency_budget_s is None else [f"due in {format_si(of.latency_budget_s, 's')}"]
    notes += [] if of.energy_per_request_j is None else [f"{format_si(of.energy_per_request_j, 'J')} per request"]
    late = cell(of.violation_share, lambda share: f"{of.violations} ({_share(share)})")
    times = [si_cell(value_s, "s") for value_s in (of.latency_median_s, of.latency_p99_s, of.latency_peak_s)]
    return of.tenant, f"{of.answered}/{of.requests}", late, *times, None, ", ".join(notes)


def _trained(of: TrainingSummary) -> tuple[object, ...]:
    notes = [f"{of.failed} minibatch{'es' * (of.failed > 1)} failed"] if of.failed else []
    if of.diverged:
        notes.append("DIVERGED: a loss was not a finite number")
    elif of.first_loss is not None and of.last_loss is not None:
        notes.append(f"loss {of.first_loss:.3g} -> {of.last_loss:.3g}")
    notes += [] if of.energy_per_sample_j is None else [f"{format_si(of.energy_per_sample_j, 'J')} per sample"]
    return of.tenant, of.minibatches, None, None, None, None, f"{of.samples_per_s:.4g}", ", ".join(notes)


def _device(summaries: Sequence[EngineSummary]) -> Table:
    """Return the table of time and power without empty columns."""
    trains = all(each.trains for of in summaries for each in of.trained)
    figures: dict[str, Callable[[EngineSummary], str | None]] = {
        "engine": lambda of: of.engine,
        "answers>": lambda of: _part(of, of.device.answering_s),
        "trains>" if trains else "background>": lambda of: _part(of, of.device.training_s),
        "both>": lambda of: _part(of, of.device.both_s),
        "idle>": lambda of: _part(of, of.device.idle_s),
        "power>": lambda of: si_cell(of.power.mean_w, "W"),
        "peak>": lambda of: si_cell(of.power.peak_w, "W"),
        "budget>": lambda of: si_cell(of.power.budget_w, "W"),
        "over>": lambda of: cell(of.power.over_s, lambda over_s: f"{over_s:.3g} s"),
    }
    return rows_of(figures, summaries)


def _remarks(summaries: Sequence[EngineSummary]) -> list[str]:
    """Return remarks on the duration, changes during the run, failures, and the meaning of energy figures."""
    lines = []
    for of in summaries:
        turns = f" in {len(of.turns)} turns" if len(of.turns) > 1 else ""
        plans = f", {of.plan_steps} plan{'s' * (of.plan_steps > 1)}" if of.plan_steps else ""
        lines.append(f"{of.engine}: {format_duration(of.device.duration_s)}{turns}{plans}")
    for of in summaries:
        reasons = {each.tenant: each.reason for each in of.answered} | {each.tenant: each.reason for each in of.trained}
        lines += [f"{of.engine}: {tenant} failed: {why}" for tenant, why in reasons.items() if why is not None]
    if any(of.power.energy_j is not None for of in summaries):
        lines.append("energy: the total, idle included, shared out by busy time")
    unknown = dict.fromkeys(of.power.reason for of in summaries if of.power.reason is not None)
    return [*lines, *(f"no energy: {reason}" for reason in unknown)]


_SLOWER = 1.25
"""A plan is cautious: from this ratio to the planned time on, the median minibatch is slower than was measured."""


def slower_than_planned(run: Run, summaries: Sequence[EngineSummary]) -> list[str]:
    """Return a line for each workload of `managed` whose minibatches took longer than its plan, where that stayed."""
    from edgetune.stages.interleave.power import minibatches
    from edgetune.stats import median

    if not any(of.engine == "managed" and not of.plan_steps for of in summaries):
        return []
    done = minibatches(row for row in run.rows if row.engine == "managed" and row.status == "ok")
    lines = []
    for tenant in run.header.inputs.get("tenants", ()):
        times_s = [each.end_s - each.start_s for each in done if each.tenant == tenant["name"]]
        planned_s = tenant.get("minibatch_s")
        if times_s and planned_s and median(times_s) > _SLOWER * planned_s:
            took, planned = format_si(median(times_s), "s"), format_si(planned_s, "s")
            lines.append(f"managed: {tenant['name']} took {took} per minibatch, planned {planned}: measure it again")
    return lines


def _part(of: EngineSummary, part_s: float) -> str:
    return "-" if of.device.duration_s <= 0 else _share(part_s / of.device.duration_s)


def _share(share: float) -> str:
    """Format a share so that a small one does not read as zero."""
    return "<0.1%" if 0 < share < 0.0005 else f"{share:.1%}"

"""Summarises a run: answers, lateness and training by engine and tenant, and the device's time and power.

    rows -> per engine, its turns end to end -> requests and training of each tenant, time, power

Everything can be computed again from the file. A request that failed or was abandoned was not answered by its
deadline, so it counts as a violation; an unknown figure is ``None``, with the reason beside it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from edgetune.artifacts.run import Run, RunRow
from edgetune.serving.requests import count_outcomes, first_failure, group_turns, latencies_s, percentiles_s
from edgetune.stages.interleave.power import Occupancy, PowerUse, minibatches, occupancy, power_use, together


@dataclass(frozen=True, slots=True)
class InferenceSummary:
    """The figures of an inference tenant. Latencies run from arrival to answer, of answered requests.

    Args:
        tenant: Its name.
        requests: All that came.
        answered, failed, abandoned: Requests by outcome.
        violations: Those not answered by their deadline.
        violation_share: Of all requests; ``None`` where none came.
        latency_budget_s: The shortest time that a request had, s; ``None`` where none had a deadline.
        latency_median_s, latency_p95_s, latency_p99_s, latency_peak_s: s; ``None`` where none was answered.
        minibatches: How many answered them.
        energy_per_request_j: Its share of the energy (``device_use``) per answered request, J; ``None`` without power.
        reason: Why the first failed; ``None`` where none did, or the reason is unknown.
    """

    tenant: str
    requests: int
    answered: int
    failed: int
    abandoned: int
    violations: int
    violation_share: float | None
    latency_budget_s: float | None
    latency_median_s: float | None
    latency_p95_s: float | None
    latency_p99_s: float | None
    latency_peak_s: float | None
    minibatches: int
    energy_per_request_j: float | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class TrainingSummary:
    """The figures of a training tenant.

    Args:
        tenant: Its name.
        minibatches: How many succeeded.
        failed: How many did not.
        samples: Trained on.
        samples_per_s: Over the whole time of the engine.
        first_loss, last_loss: Of its first and last minibatch; ``None`` where it returns none, or none that
            is finite.
        diverged: Whether a loss was no finite number.
        energy_per_sample_j: Its share of the energy per sample, J; ``None`` without power.
        reason: As of ``InferenceSummary``.
        trains: Whether it trains; otherwise it infers without a deadline.
    """

    tenant: str
    minibatches: int
    failed: int
    samples: int
    samples_per_s: float
    first_loss: float | None
    last_loss: float | None
    diverged: bool
    energy_per_sample_j: float | None
    reason: str | None
    trains: bool = True


@dataclass(frozen=True, slots=True)
class EngineSummary:
    """One engine, all its turns or one.

    Args:
        engine: How the device was shared.
        turns: Which turns these figures are of.
        answered, trained: Per tenant, in the order of their names.
        device: Where the time went. A turn ends with the last thing that happened in it.
        power: Power and energy.
        plan_steps: How often batch sizes or modes were planned anew.
    """

    engine: str
    turns: tuple[int, ...]
    answered: tuple[InferenceSummary, ...]
    trained: tuple[TrainingSummary, ...]
    device: Occupancy
    power: PowerUse
    plan_steps: int


def summarise(run: Run, *, by_turn: bool = False) -> tuple[EngineSummary, ...]:
    """Return a summary per engine, or per engine and turn, in the order of their first rows."""
    tasks = _tasks(run)
    infers = {str(tenant["name"]) for tenant in run.header.inputs.get("tenants", ()) if tenant.get("task") == "infer"}
    grouped = group_turns(run.rows, attrgetter("engine"), by_turn=by_turn)
    found = [_summary(engine, turns, tasks) for engine, turns in grouped]
    return tuple(
        replace(each, trained=tuple(replace(of, trains=of.tenant not in infers) for of in each.trained))
        for each in found
    )


def _tasks(run: Run) -> dict[str, str]:
    """Return the event of each tenant's rows; the file's header names the tenants without rows."""
    told = {str(tenant["name"]): tenant.get("task") for tenant in run.header.inputs.get("tenants", ())}
    tasks = {name: "train" if task == "train" else "request" for name, task in told.items()}
    return tasks | {row.tenant or "": row.event for row in run.rows if row.event in ("request", "train")}


def _summary(engine: str, turns: Mapping[int, Sequence[RunRow]], tasks: Mapping[str, str]) -> EngineSummary:
    durations_s = [max(row.finished_s for row in rows) for rows in turns.values()]
    power = together([power_use(rows, s) for rows, s in zip(turns.values(), durations_s, strict=True)], durations_s)
    rows = _end_to_end(list(turns.values()), durations_s)
    device = occupancy(minibatches(rows), sum(durations_s))
    busy_s = sum(device.tenants_s.values())
    energies_j = {
        tenant: power.energy_j * time_s / busy_s
        for tenant, time_s in device.tenants_s.items()
        if power.energy_j is not None and busy_s > 0
    }
    by_tenant: dict[str, list[RunRow]] = {tenant: [] for tenant in sorted(tasks)}
    for row in rows:
        if row.event in ("request", "train"):
            by_tenant[row.tenant or ""].append(row)
    return EngineSummary(
        engine,
        tuple(turns),
        tuple(_answered(t, of, energies_j.get(t)) for t, of in by_tenant.items() if tasks[t] == "request"),
        tuple(
            _trained(t, of, device.duration_s, energies_j.get(t)) for t, of in by_tenant.items() if tasks[t] == "train"
        ),
        device,
        power,
        sum(row.event in ("plan", "mode") and row.started_s is None for row in rows),
    )


def _end_to_end(turns: Sequence[Sequence[RunRow]], durations_s: Sequence[float]) -> list[RunRow]:
    """Return the rows of all turns as if each had begun when the one before was over."""
    rows: list[RunRow] = []
    begun_s = 0.0
    for turn, duration_s in zip(turns, durations_s, strict=True):
        rows += turn if begun_s == 0 else [_later(row, begun_s) for row in turn]
        begun_s += duration_s
    return rows


def _later(row: RunRow, by_s: float) -> RunRow:
    times = ("arrived_s", "started_s", "finished_s", "deadline_s")
    return replace(row, **{name: at_s + by_s for name in times if (at_s := getattr(row, name)) is not None})


def _answered(tenant: str, rows: Sequence[RunRow], energy_j: float | None) -> InferenceSummary:
    counts = count_outcomes(rows)
    median_s, p95_s, p99_s, peak_s = percentiles_s(latencies_s(rows), 50, 95, 99, 100)
    budgets_s = [budget_s for row in rows if (budget_s := latency_budget_s(row)) is not None]
    violations = sum(violated(row) for row in rows)
    return InferenceSummary(
        tenant,
        *counts,
        violations,
        violations / len(rows) if rows else None,
        min(budgets_s, default=None),
        median_s,
        p95_s,
        p99_s,
        peak_s,
        len(minibatches(rows)),
        energy_j / counts.answered if counts.answered and energy_j is not None else None,
        first_failure(rows),
    )


def latency_budget_s(row: RunRow) -> float | None:
    """Return how long a request had, s, to the nanosecond in which clocks count; ``None`` without a deadline."""
    if row.deadline_s is None or row.arrived_s is None:
        return None
    return round(row.deadline_s - row.arrived_s, 9)


def violated(row: RunRow) -> bool:
    """Return whether a request was not answered by its deadline."""
    return row.status != "ok" or row.met is False


def _trained(tenant: str, rows: Sequence[RunRow], duration_s: float, energy_j: float | None) -> TrainingSummary:
    good = [row for row in rows if row.status == "ok"]
    samples = sum(row.samples or 0 for row in good)
    losses = [row.loss for row in sorted(good, key=lambda row: row.finished_s) if row.loss is not None]
    return TrainingSummary(
        tenant,
        len(good),
        len(rows) - len(good),
        samples,
        samples / duration_s if duration_s > 0 else 0.0,
        _finite(losses[0]) if losses else None,
        _finite(losses[-1]) if losses else None,
        any(row.loss is not None and not math.isfinite(row.loss) for row in rows),
        energy_j / samples if samples and energy_j is not None else None,
        first_failure(rows),
    )


def _finite(loss: float) -> float | None:
    return loss if math.isfinite(loss) else None

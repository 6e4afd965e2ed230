"""The plan of a tuned mode, which other commands read.

A plan's problem has no word for "at most 5 % slower than that mode", so it says what is optimised (energy), and the
plan's conditions say ``tune``: the slowdown allowed, the reference and what was measured in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgetune.artifacts.header import DataWarning, Header
from edgetune.artifacts.plan import KIND, VERSION, Configuration, Plan, PlanFigures, SearchSummary
from edgetune.artifacts.problem import Problem
from edgetune.artifacts.row_figures import energy_per_minibatch_j, late_minibatch_s, mean_minibatch_s
from edgetune.stages.roofline.tune import TriedMode, Tuned

STRATEGY = "roofline-tune"


def tuned_plan(
    tuned: Tuned, *, inputs: Mapping[str, Any] | None = None, conditions: Mapping[str, Any] | None = None,
    warnings: tuple[DataWarning, ...] = (), seed: int = 0,
) -> Plan:  # fmt: skip
    """Return the plan of the chosen mode, which was measured.

    Args:
        tuned: The answer.
        inputs, conditions, warnings: What the header says besides, e.g. the network, the device and its peaks.
        seed: Of a simulated device's noise.
    """
    row, reference = tuned.row, tuned.reference
    told = {
        "slowdown_share": tuned.allowed_share,
        "model_error_share": tuned.model_error_share,
        "reference": reference.mode.knobs(),
        "reference_minibatch_s": mean_minibatch_s(reference),
        "reference_energy_j": energy_per_minibatch_j(reference),
        "measured_slowdown_share": tuned.slowdown_share,
        "measured_saving_share": tuned.saving_share,
    }
    seconds, late_s = float(mean_minibatch_s(row) or 0.0), late_minibatch_s(row)
    return Plan(
        header=Header.new(
            KIND,
            VERSION,
            inputs=inputs,
            conditions={**(conditions or {}), "tune": told},
            warnings=(*warnings, *_data_warnings(tuned)),
        ),
        problem=Problem(row.task, objective="energy"),
        configuration=Configuration(row.mode, batch_size=row.batch_size),
        measured=PlanFigures(
            minibatch_s=seconds,
            power_w=row.power_w,
            latency_s=late_s if row.task == "infer" else None,
            throughput_per_s=row.batch_size / seconds,
            energy_j=energy_per_minibatch_j(row),
            minibatch_p95_s=None if late_s == seconds else late_s,
        ),
        search=SearchSummary(STRATEGY, tuned.measurements, seed),
        predicted=None if tuned.best is None else _predicted(tuned.best),
    )


def _predicted(best: TriedMode) -> PlanFigures:
    """Return the predicted figures of the chosen mode."""
    foreseen = best.candidate
    return PlanFigures(foreseen.seconds, foreseen.energy_j / foreseen.seconds, energy_j=foreseen.energy_j)


def _data_warnings(tuned: Tuned) -> tuple[DataWarning, ...]:
    """Return warnings about modes that could not be measured, and about a search that saves nothing."""
    found = []
    if failed := [one for one in tuned.tried if one.verdict == "no measurement"]:
        first = failed[0].row
        why = first.reason or (first.status if first.status != "ok" else "no power was measured")
        advice = f"modes could not be measured and were passed over, the first being {first.mode}: {why}"
        found.append(DataWarning("tune-points-failed", advice, {"points": float(len(failed))}))
    if tuned.best is None:
        advice = "no measured mode saves energy beyond noise within that slowdown; the reference stands"
        found.append(DataWarning("tune-saves-nothing", advice, {"slowdown_share": tuned.allowed_share}))
    return tuple(found)

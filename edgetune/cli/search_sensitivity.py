"""``edgetune search sensitivity``: how much time (or energy) to accuracy is lost by choosing with a wrong proxy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgetune.cli import options
from edgetune.cli.screen import Screen, answer, print_lines, table
from edgetune.workflows.reporting import SimulationLabel
from edgetune.workflows.search.sensitivity import epochs_of_tables, training_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgetune.cli.screen import Screen
    from edgetune.search.accuracy import Sensitivity


def sensitivity(
    profile: Annotated[str, typer.Argument(metavar="PROFILE", help="Training rows by batch size and mode.")],
    tables: Annotated[
        list[str] | None, typer.Argument(metavar="TABLE", help="More convergence tables.", show_default=False)
    ] = None,
    *,
    convergence: Annotated[
        list[str] | None, typer.Option(metavar="TABLE", help="A convergence table. Repeatable.", show_default=False)
    ] = None,
    power_budget: options.PowerBudget = None,
    margin: options.Margin = None,
    objective: Annotated[str, typer.Option(metavar="NAME", help="time, energy or energy-delay.")] = "time",
    workload: Annotated[
        str | None, typer.Option(metavar="NAME", help="Which network, when the profile has several.")
    ] = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Say what a wrong proxy costs: choose by the epochs of one task, pay by those of another.

    Each TABLE is what edgetune profile --convergence writes. Rows are the true task, columns the proxy.

    \b
      edgetune search sensitivity train.parquet --power-budget 30W \\
        --convergence shapes.parquet gratings.parquet
    """
    from edgetune.artifacts.io import read_profile
    from edgetune.choices import choose
    from edgetune.search import accuracy as study
    from edgetune.units import parse_power_w, parse_share

    choose(objective, ("time", "energy", "energy-delay"), what="objective")
    table, screen = read_profile(profile), Screen(quiet)
    rows = training_rows(table.rows, workload, name=profile)
    epochs = epochs_of_tables([*(convergence or ()), *(tables or ())], rows, screen)
    found = study.sensitivity(
        rows,
        epochs,
        power_budget_w=power_budget and parse_power_w(power_budget, what="--power-budget"),  # type: ignore[arg-type]
        objective=objective,  # type: ignore[arg-type]
        margin=parse_share(margin, what="--margin") if margin else 0.0,
    )
    SimulationLabel(table.header.simulated, screen).announce()
    report_json(found) if json else report(found, objective)


def report(found: Sensitivity, objective: str) -> None:
    """Print the matrix, what each proxy loses, and what choosing jointly gains."""

    names = list(found.chosen)
    print_lines(f"{objective} to accuracy lost by a wrong proxy (rows: the true task; columns: the proxy)")
    table(
        ("", *(f"{name}>" for name in names)),
        [(target, *(_share(found.lost[target, proxy]) for proxy in names)) for target in names]
        + [("mean of others", *(_share(_mean(found.of_proxy(proxy))) for proxy in names))],
    )
    print_lines()
    table(
        (
            "task",
            "best choice",
            "faster than largest>",
            "than best batch>",
            "less energy than largest>",
            "than best batch>",
        ),
        [(name, *_gains(found, name)) for name in names],
    )
    reasons = {comparison.why for comparison in found.truth.values() if comparison.why}
    for why in sorted(reasons):
        print_lines(f"note: no baselines: {why}")


def report_json(found: Sensitivity) -> None:
    """Answer for machines."""

    names = list(found.chosen)
    answer(
        {
            "chosen": {name: _plain(choice) for name, choice in found.chosen.items()},
            "lost": {target: {proxy: found.lost[target, proxy] for proxy in names} for target in names},
            "baselines": {
                name: {
                    "worst_case": None if truth.worst_case is None else truth.worst_case.settings(),
                    **{
                        what: None if choice is None else {
                            **_plain(choice),
                            "times_faster": truth.times_faster(choice),
                            "times_less_energy": truth.times_less_energy(choice),
                        }
                        for what, choice in (("largest_batch", truth.largest_batch), ("best_batch", truth.best_batch))
                    },
                }
                for name, truth in found.truth.items()
            },
        }
    )  # fmt: skip


def _plain(choice: Any) -> dict[str, Any]:
    row = choice.row
    return {
        "batch_size": row.batch_size,
        "mode": row.mode.settings(),
        "time_s_per_sample": choice.time_s,
        "energy_j_per_sample": choice.energy_j,
    }


def _gains(found: Sensitivity, name: str) -> tuple[object, ...]:
    truth = found.truth[name]
    row = truth.answer.row
    choice = f"batch {row.batch_size} [{row.mode}]"
    pairs = [truth.largest_batch, truth.best_batch]
    faster = [None if base is None else f"{truth.times_faster(base):.2f}x" for base in pairs]
    less = [None if base is None else truth.times_less_energy(base) for base in pairs]
    return choice, *faster, *(None if ratio is None else f"{ratio:.2f}x" for ratio in less)


def _share(value: float | None) -> str:
    return "never" if value is None else f"{value:.1%}"


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None

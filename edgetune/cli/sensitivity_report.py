"""Prints the result of ``edgetune search sensitivity``: the matrix of losses, and the gain of a joint choice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from edgetune.cli.screen import answer, print_lines, table
from edgetune.stages.search.accuracy import BASELINES
from edgetune.workflows.cells import cell

if TYPE_CHECKING:
    from edgetune.cli.command import Terminal
    from edgetune.stages.search.accuracy import Sensitivity


def report(found: Sensitivity, objective: str, terminal: Terminal) -> None:
    """Print the loss by each proxy as a matrix, and the gain of choosing batch size and mode jointly."""
    if terminal.json:
        answer(_document(found))
        return
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
            "than fewest epochs>",
            "than best batch>",
            "less energy than largest>",
            "than fewest epochs>",
            "than best batch>",
        ),
        [(name, *_gains(found, name)) for name in names],
    )
    reasons = {comparison.why for comparison in found.truth.values() if comparison.why}
    for why in sorted(reasons):
        print_lines(f"note: no baselines: {why}")


def _document(found: Sensitivity) -> dict[str, Any]:
    """Return the answer for machines."""
    names = list(found.chosen)
    return (
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
                        for what in BASELINES
                        for choice in [getattr(truth, what)]
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
    pairs = [getattr(truth, what) for what in BASELINES]
    faster = [cell(base, lambda each: f"{truth.times_faster(each):.2f}x") for base in pairs]
    less = [None if base is None else truth.times_less_energy(base) for base in pairs]
    return choice, *faster, *(cell(ratio, lambda times: f"{times:.2f}x") for ratio in less)


def _share(value: float | None) -> str:
    return "never" if value is None else f"{value:.1%}"


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None

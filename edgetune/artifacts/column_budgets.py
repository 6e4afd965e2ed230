"""Budgets on columns of a profile: what a measured value must not exceed. A further budget is one row of the table,
its field of ``Problem``, and its option in ``workflows.search.options``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from edgetune.artifacts.profile import ProfileRow
from edgetune.units import format_bytes, format_si, parse_bytes, parse_power_w, parse_time_s


@dataclass(frozen=True, slots=True)
class ColumnBudget:
    """A budget on a column.

    Args:
        name: Its name as a constraint, and in its option: ``power_peak`` is ``--power-peak-budget``.
        field: Its field of ``Problem``; unit as that of the column.
        columns: The columns of a profile that it limits: of a row the first that has a value.
        words: What a point does, ``{}`` for the value.
        parse: Reads the option.
        show: Writes a value for people.
        written_in: Unit in which a hint gives the option, and its factor.
    """

    name: str
    field: str
    columns: tuple[str, ...]
    words: str
    parse: Callable[..., float]
    show: Callable[[float], str]
    written_in: tuple[str, float]

    @property
    def option(self) -> str:
        """The option of the terminal."""
        return f"--{self.name.replace('_', '-')}-budget"

    def limit(self, problem: Any) -> float | None:
        """Return the budget of a problem less its margin; ``None`` without one."""
        budget = getattr(problem, self.field)
        return None if budget is None else budget * (1 - problem.margin)

    def value(self, row: ProfileRow) -> float | None:
        """Return the value of a row; ``None`` if it was not measured."""
        return next((value for column in self.columns if (value := getattr(row, column)) is not None), None)


def _seconds(value: float) -> str:
    return format_si(value, "s")


def _watts(value: float) -> str:
    return format_si(value, "W")


_TABLE = (
    ColumnBudget(
        "ttft", "ttft_budget_s", ("ttft_p95_s", "ttft_s"), "sends the first token within {}",
        parse_time_s, _seconds, ("ms", 1e3),
    ),
    ColumnBudget(
        "token", "token_budget_s", ("token_p95_s", "token_s"), "sends a further token within {}",
        parse_time_s, _seconds, ("ms", 1e3),
    ),
    ColumnBudget(
        "memory", "memory_budget_bytes", ("memory_peak_bytes",), "stays within {} of memory",
        parse_bytes, format_bytes, ("MiB", 2**-20),
    ),
    ColumnBudget(
        "power_peak", "power_peak_budget_w", ("power_peak_w",), "stays within {} at its peak",
        parse_power_w, _watts, ("W", 1.0),
    ),
)  # fmt: skip

COLUMN_BUDGETS: Mapping[str, ColumnBudget] = {budget.name: budget for budget in _TABLE}
"""The budgets by name."""


def asked_budgets(problem: Any) -> list[ColumnBudget]:
    """Return the budgets on columns that a problem states."""
    return [budget for budget in _TABLE if getattr(problem, budget.field) is not None]

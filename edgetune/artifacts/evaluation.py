"""The evaluation: results of strategies on problems with a known best answer, one row per problem and run.

A run is one strategy with one number of points and one seed on one case. A file may have a million rows, so in memory
a run keeps its columns as arrays; ``EvaluationRow`` describes a row of the file.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from edgetune.artifacts.artifact import Table
from edgetune.artifacts.columns import arrow_schema, columns_of
from edgetune.artifacts.header import Header
from edgetune.artifacts.table_checks import typed_table

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Numbers = npt.NDArray[np.float64]
    Counts = npt.NDArray[np.intp]
    Flags = npt.NDArray[np.bool_]

KIND = "evaluation"
VERSION = 1


@dataclass(frozen=True, slots=True)
class EvaluationRow:
    """The result of one strategy on one problem.

    Args:
        family: Of the problem: ``train``, ``infer``, ``train+infer``, ``infer+infer``, ``accuracy`` or ``dynamic``.
        table: File of the measurements.
        workload: The network; of two networks the one that answers requests.
        background: The other of two networks.
        strategy: Its name; ``nn-predicted`` answers from predictions.
        max_points: Limit on measured points; ``None`` for the strategy's own number.
        seed: Of its random choices and of the noise.
        problem: Number of the problem in its grid; for ``dynamic`` the number of the window.
        power_budget_w, latency_budget_s, arrival_rate_per_s: The constraints of the problem.
        solvable: Whether some point of the table keeps every budget.
        solved: Whether the answer keeps every budget, by the table's own figures.
        violated: Whether there is an answer that exceeds a budget.
        excess: Time or latency of the answer over that of the best, less one; of two workloads the lost share of
            background throughput; ``None`` unless solved.
        points: Points measured for this problem; by strategies that measure once, for all problems together.
        strategy_s: Computation for this problem, s; of strategies that measure once, this problem's share of it.
        measurement_s: Measuring time for this problem, s; ``None`` if not accounted.
        points_to_3_percent, points_to_1_percent: Points measured until one of them kept every budget and was within 3 %
            and 1 % of the best, by the table's own figures; ``None`` for never, and if not accounted.
    """

    family: str
    table: str
    workload: str
    background: str | None
    strategy: str
    max_points: int | None
    seed: int
    problem: int
    power_budget_w: float | None
    latency_budget_s: float | None
    arrival_rate_per_s: float | None
    solvable: bool
    solved: bool
    violated: bool
    excess: float | None
    points: int
    strategy_s: float
    measurement_s: float | None = None
    points_to_3_percent: int | None = None
    points_to_1_percent: int | None = None


RUN_COLUMNS = tuple(field.name for field in fields(EvaluationRow))[:7]
"""Columns that are the same in all rows of a run."""
PROBLEM_COLUMNS = tuple(field.name for field in fields(EvaluationRow))[7:]


@dataclass(frozen=True, slots=True, eq=False)
class EvaluationRun:
    """The rows of one run: the shared values, then one value per problem, NaN for ``None``."""

    family: str
    table: str
    workload: str
    background: str | None
    strategy: str
    max_points: int | None
    seed: int
    problem: Counts
    power_budget_w: Numbers
    latency_budget_s: Numbers
    arrival_rate_per_s: Numbers
    solvable: Flags
    solved: Flags
    violated: Flags
    excess: Numbers
    points: Counts
    strategy_s: Numbers
    measurement_s: Numbers
    points_to_3_percent: Numbers
    points_to_1_percent: Numbers

    @property
    def label(self) -> str:
        """The workload; of two workloads, the background one first."""
        return self.workload if self.background is None else f"{self.background}+{self.workload}"

    @property
    def contender(self) -> str:
        """The strategy and its number of points as one text."""
        return self.strategy if self.max_points is None else f"{self.strategy}:{self.max_points}"


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation(Table):
    """All runs and their header."""

    header: Header
    runs: tuple[EvaluationRun, ...]

    ROW = EvaluationRow

    @classmethod
    def from_table(cls, header: Header, table: Any, *, name: str) -> Evaluation:
        """See ``Table.from_table``."""
        import numpy as np

        table = typed_table(table, EvaluationRow, name=name)
        keys = np.zeros(table.num_rows, dtype=np.int64)
        shared = [table.column(name).combine_chunks().dictionary_encode("encode") for name in RUN_COLUMNS]
        for column in shared:
            if len(column.dictionary) > 1:
                keys = keys * len(column.dictionary) + column.indices.to_numpy(zero_copy_only=False)
                keys = np.unique(keys, return_inverse=True)[1]  # small again, before they could overflow
        columns = {name: np.full(table.num_rows, np.nan) for name in PROBLEM_COLUMNS}
        columns |= {name: _numpy(table.column(name).combine_chunks()) for name in columns if name in table.column_names}
        first = np.unique(keys, return_index=True)[1]
        runs = []
        for start in sorted(map(int, first)):
            rows = np.flatnonzero(keys == keys[start])
            same: dict[str, Any] = {
                name: column[start].as_py() for name, column in zip(RUN_COLUMNS, shared, strict=True)
            }
            own: dict[str, Any] = {name: values[rows] for name, values in columns.items()}
            runs.append(EvaluationRun(**same, **own))
        return cls(header, tuple(runs))

    def to_arrow(self) -> Any:
        """See ``Table.to_arrow``."""
        import pyarrow as pa

        schema = arrow_schema(columns_of(EvaluationRow))
        tables = [_arrow(run, schema) for run in self.runs]
        return pa.concat_tables(tables) if tables else schema.empty_table()


def _arrow(run: EvaluationRun, schema: Any) -> Any:
    import pyarrow as pa

    count = len(run.problem)
    arrays = [pa.repeat(pa.scalar(getattr(run, name), schema.field(name).type), count) for name in RUN_COLUMNS]
    for name in PROBLEM_COLUMNS:
        arrays.append(pa.array(getattr(run, name), type=schema.field(name).type, from_pandas=True))
    return pa.Table.from_arrays(arrays, schema=schema)


def _numpy(array: Any) -> Any:
    import pyarrow as pa

    if pa.types.is_floating(array.type) or array.null_count:
        return array.to_numpy(zero_copy_only=False)  # what is absent becomes not a number
    return array.to_numpy(zero_copy_only=False).astype(bool if pa.types.is_boolean(array.type) else "intp")

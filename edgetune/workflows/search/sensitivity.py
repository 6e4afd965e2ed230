"""The cost of a wrong proxy: from the options of ``search sensitivity`` to the matrix of losses."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

from edgetune.artifacts.convergence import Convergence
from edgetune.artifacts.io import read, read_profile
from edgetune.artifacts.problem import Objective
from edgetune.artifacts.profile import ProfileRow
from edgetune.artifacts.repeats import one_per_point
from edgetune.choices import choose
from edgetune.errors import InputError
from edgetune.stages.search import accuracy
from edgetune.units import parse_power_w, parse_share
from edgetune.workflows.profile.convergence import trained_epochs
from edgetune.workflows.reporting import Reporter, SimulationLabel
from edgetune.workflows.search.options import SensitivityOptions


def sensitivity(opts: SensitivityOptions, reporter: Reporter) -> accuracy.Sensitivity:
    """Return the loss of each task if its configuration is chosen by another task's epochs.

    Raises:
        InputError: an option or a table is invalid.
        InfeasibleError: no row meets the power budget.
    """
    choose(opts.objective, ("time", "energy", "energy-delay"), what="objective")
    table = read_profile(opts.profile)
    rows, others = _training_rows(table.rows, opts.workload, name=opts.profile)
    epochs = _epochs_of([*opts.convergence, *opts.tables], rows, reporter)
    found = accuracy.sensitivity(
        rows,
        epochs,
        others=others,
        power_budget_w=_power_w(opts.power_budget, "--power-budget"),
        power_peak_budget_w=_power_w(opts.power_peak_budget, "--power-peak-budget"),
        objective=cast("Objective", opts.objective),
        margin=0.0 if opts.margin is None else parse_share(opts.margin, what="--margin"),
    )
    SimulationLabel(table.header.simulated, reporter).announce()
    return found


def _power_w(words: str | float | None, option: str) -> float | None:
    return None if words is None else parse_power_w(words, what=option)


def _training_rows(
    rows: Sequence[ProfileRow], workload: str | None, *, name: str
) -> tuple[list[ProfileRow], list[ProfileRow]]:
    """Return the training rows of one network, one per point, and those of the other networks.

    Raises:
        InputError: there are no such rows, or rows of several networks.
    """

    names = sorted({row.workload for row in rows if row.task == "train"})
    if not names:
        raise InputError(f"{name} has no training rows", "measure some: edgetune profile MODEL --task train")
    if workload is None and len(names) > 1:
        raise InputError(f"{name} has several networks: {', '.join(names)}", f"--workload {names[0]}")
    chosen = names[0] if workload is None else choose(workload, names, what="workload")
    trained = [row for row in one_per_point(rows).rows if row.task == "train"]
    return [row for row in trained if row.workload == chosen], [row for row in trained if row.workload != chosen]


def _epochs_of(paths: Sequence[str], rows: Sequence[ProfileRow], reporter: Reporter) -> dict[str, dict[int, float]]:
    """Return the epochs of each table by a unique name.

    Raises:
        InputError: there are fewer than two tables, one is given twice, or one lacks a batch size of the profile.
    """

    if len(paths) < 2:
        raise InputError(
            f"a proxy is compared with another task, and {len(paths) or 'no'} convergence table was given",
            "give at least two: --convergence A.parquet B.parquet, as edgetune profile --convergence writes",
        )
    if len(set(paths)) < len(paths):
        raise InputError("the same convergence table is given twice", "give each once")
    tables = {path: read(Convergence, path) for path in paths}
    sizes = {row.batch_size for row in rows if row.status == "ok"}
    return {
        name: trained_epochs(tables[path], sizes, name=path, reporter=reporter)
        for path, name in zip(paths, _names_of(tables), strict=True)
    }


def _names_of(tables: dict[str, Convergence]) -> list[str]:
    """Return a short name for each table: its data set, or its file if data sets are equal or unnamed."""

    datasets = [table.rows[0].dataset for table in tables.values()]
    if None not in datasets and len(set(datasets)) == len(datasets):
        return [str(dataset) for dataset in datasets]
    stems = [Path(path).stem for path in tables]
    return stems if len(set(stems)) == len(stems) else list(tables)

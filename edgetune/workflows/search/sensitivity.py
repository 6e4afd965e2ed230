"""TODO"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgetune.cli.screen import Screen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgetune.artifacts.convergence import Convergence
    from edgetune.artifacts.profile import ProfileRow


def training_rows(rows: Sequence[ProfileRow], workload: str | None, *, name: str) -> list[ProfileRow]:
    """Return the training rows of one network, one per point.

    Raises:
        InputError: there are none, or of several networks.
    """
    from edgetune.artifacts.repeats import one_per_point
    from edgetune.choices import choose
    from edgetune.errors import InputError

    names = sorted({row.workload for row in rows if row.task == "train"})
    if not names:
        raise InputError(f"{name} has no training rows", "measure some: edgetune profile MODEL --task train")
    if workload is None and len(names) > 1:
        raise InputError(f"{name} has several networks: {', '.join(names)}", f"--workload {names[0]}")
    chosen = names[0] if workload is None else choose(workload, names, what="workload")
    return [row for row in one_per_point(rows).rows if row.task == "train" and row.workload == chosen]


def epochs_of_tables(paths: Sequence[str], rows: Sequence[ProfileRow], screen: Screen) -> dict[str, dict[int, float]]:
    """Return the epochs of each table, by a name that tells it from the others.

    Raises:
        InputError: fewer than two tables, the same one twice, or one that lacks a batch size of the profile.
    """
    from edgetune.artifacts.io import read_convergence
    from edgetune.errors import InputError
    from edgetune.workflows.convergence import trained_epochs

    if len(paths) < 2:
        raise InputError(
            f"a proxy is held against another task, and {len(paths) or 'no'} convergence table was given",
            "give at least two: --convergence A.parquet B.parquet, as edgetune profile --convergence writes",
        )
    if len(set(paths)) < len(paths):
        raise InputError("the same convergence table is given twice", "give each once")
    tables = {path: read_convergence(path) for path in paths}
    sizes = {row.batch_size for row in rows if row.status == "ok"}
    return {
        name: trained_epochs(tables[path], sizes, name=path, reporter=screen)
        for path, name in zip(paths, names_of(tables), strict=True)
    }


def names_of(tables: dict[str, Convergence]) -> list[str]:
    """Return a short name for each table: its data set, or its file where data sets are alike or unnamed."""
    from pathlib import Path

    datasets = [table.rows[0].dataset for table in tables.values()]
    if None not in datasets and len(set(datasets)) == len(datasets):
        return [str(dataset) for dataset in datasets]
    stems = [Path(path).stem for path in tables]
    return stems if len(set(stems)) == len(stems) else list(tables)

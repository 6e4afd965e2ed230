"""From training runs that are asked for to a table on disk or in the pipe."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from edgetune.cli.output import Target, forced
from edgetune.cli.screen import Screen, SimulationLabel
from edgetune.cli.stopping import reporting_saved
from edgetune.errors import InputError

if TYPE_CHECKING:
    from edgetune.artifacts.convergence import Convergence
    from edgetune.profiling.convergence.proxy import Proxy, Task
    from edgetune.profiling.convergence.runs import RunProgress


def train_missing(
    proxy: Proxy, tasks: list[Task], target: Target, *, jobs: int, fresh: bool, screen: Screen
) -> Convergence:
    """Train what neither the journal nor the table has yet, write the table, and only then discard the journal."""
    from edgetune.cli.progress import watch
    from edgetune.profiling.convergence.runs import train_all
    from edgetune.profiling.identity import default_journal_path, identity_sha256
    from edgetune.profiling.journal import discard_journal
    from edgetune.profiling.sweep import SweepProgress

    regular = target.path if target.path is None or not target.path.exists() or target.path.is_file() else None
    journal = default_journal_path(regular, proxy.identity, tasks)
    known = None
    if target.path is not None and target.path.is_file() and not fresh:
        known = _earlier(target.path, identity_sha256(proxy.identity))
        if known is not None and {(row.batch_size, row.seed) for row in known.rows if row.status != "failed"} >= set(
            tasks
        ):
            screen.info(f"{target.path} has these runs already; --fresh trains them again")
            return known
    kept = "finished runs are kept, and the same command resumes"
    with (
        reporting_saved(screen, lambda: kept if journal.exists() else "no run was finished yet"),
        watch(screen, SimulationLabel(False)) as on_progress,
    ):

        def tell(progress: RunProgress) -> None:
            resumed = progress.resumed if progress.row is None else 0
            on_progress(SweepProgress(progress.done, progress.total, resumed, progress.eta_s))
            if progress.row is not None:
                _report_run(progress, screen)

        table = train_all(proxy, tasks, journal, jobs=jobs, known=known, on_progress=tell, fresh=fresh)
    target.write(table)
    discard_journal(journal)
    target.report(screen)
    return table


def _report_run(progress: RunProgress, screen: Screen) -> None:
    row = progress.row
    assert row is not None
    what = f"batch {row.batch_size} seed {row.seed}"
    if row.reached:
        screen.detail(f"{progress.done} of {progress.total}: {what}: {row.epochs:.3g} epochs")
    else:
        screen.info(f"{row.status}: {what}: {row.reason}")


def _earlier(path: Path, request_sha256: str) -> Convergence | None:
    """Return the table in an existing file when its runs are of this very request; batch sizes and seeds may differ.

    Raises:
        InputError: it is something else, which is not overwritten unasked.
    """
    from edgetune.artifacts.io import read_convergence

    hint = "name another file with -o, or --fresh to replace it"
    try:
        table = read_convergence(str(path))
    except InputError:
        if forced():
            return None
        raise InputError(f"{path} exists and is not a convergence table", "name another file, or add --force") from None
    asked = table.header.inputs.get("request", {})
    if path.suffix.lower() == ".csv" and not asked:
        raise InputError(f"{path} exists, and CSV does not keep what was asked for when it was trained", hint)
    if asked.get("sha256") != request_sha256:
        raise InputError(f"{path} exists and holds runs of another proxy, target or rate", hint)
    return table

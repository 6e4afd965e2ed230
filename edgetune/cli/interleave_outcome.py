"""What becomes of a run: written whatever ended it, told, drawn, and answered for by an exit code."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

from edgetune.cli.plot import draw_kept
from edgetune.cli.tenant_options import plain_tenant
from edgetune.errors import EdgetuneError, ExitCode
from edgetune.units import parse_time_s
from edgetune.workflows.kept_rows import write_run

if TYPE_CHECKING:
    from edgetune.artifacts.rows_file import RowsFile
    from edgetune.artifacts.run import Run
    from edgetune.cli.interleave_options import InterleaveJob, InterleaveSetup
    from edgetune.cli.interleave_turns import InterleaveResult
    from edgetune.workflows.output import Target


def finish(
    setting: InterleaveSetup, planned: InterleaveJob, outcome: InterleaveResult, target: Target, rows: RowsFile | None
) -> None:
    """Write the run, draw it and say what came of it.

    Raises:
        BaseException: what ended the run before its time, now that the rows so far are written.
    """
    opts, device, screen = setting.asked, setting.device, setting.screen
    from edgetune.cli.interleave_report import report_answer, show_run
    from edgetune.cli.screen import answer
    from edgetune.workflows.device_option import recovered

    for sentence in recovered(device):
        screen.info(f"note: {sentence}")
    if outcome.failure is not None and not outcome.rows:
        if rows is not None:
            rows.discard()
        raise outcome.failure
    run = run_of(setting, planned, outcome)
    try:
        write_run(target, run, rows, screen)
    except (EdgetuneError, OSError) as error:  # a full disk: the figures at least are told
        outcome.failure = error
    for note in outcome.notes:
        screen.info(note)
    if opts.json:
        answer(report_answer(run))
    elif not screen.quiet:
        show_run(run, stream=sys.stderr if target.path is None else None)
    draw_kept(run, opts.plot, screen, view=opts.view, file=target.file)
    if outcome.failure is not None:
        raise outcome.failure
    if outcome.stopped_by is not None:
        raise typer.Exit(128 + outcome.stopped_by)
    if outcome.lost:
        raise typer.Exit(ExitCode.PARTIAL)


def run_of(setting: InterleaveSetup, planned: InterleaveJob, outcome: InterleaveResult) -> Run:
    """Return what came of all turns, with what ran under which conditions."""
    from edgetune.artifacts import run as runs
    from edgetune.artifacts.header import DataWarning, Header

    opts, device, tenants = setting.asked, setting.device, []
    ran = {row.engine for row in outcome.rows}
    for known, tenant in zip(planned.known, planned.tenants, strict=True):
        path = known.workload.path
        described = {**plain_tenant(known.asked), "sha256": known.workload.sha256}
        described |= {} if path is None else {"path": str(path.resolve())}
        tenants.append({**described, "batch_size": tenant.batch_size, "minibatch_s": tenant.minibatch_s})
    conditions = {
        **device.conditions,
        "device": device.name,
        "simulated": setting.simulated or ran == {"simulated"},
        "duration_s": parse_time_s(opts.duration, what="--duration"),
        "mode": dict(planned.mode.settings()),
        "seed": opts.seed,
        "overhead": outcome.overhead,
        "turns": opts.turns,
        "options": [name for name in ("adapt", "govern", "best_effort") if getattr(opts, name)],
    }
    lost = DataWarning("tenant-lost", f"{', '.join(sorted(outcome.lost))} could not go on; see the reason in its rows")
    header = Header.new(
        runs.KIND,
        runs.VERSION,
        inputs={"tenants": tenants},
        conditions=conditions,
        warnings=(lost,) if outcome.lost else (),
    )
    return runs.Run(header, tuple(outcome.rows))

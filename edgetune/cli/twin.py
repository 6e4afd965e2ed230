"""``edgetune device twin:... --check`` and ``--calibrate``: the twin beside what was published."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from edgetune.cli.screen import answer, print_folded, print_lines, table
from edgetune.errors import ExitCode, InputError

if TYPE_CHECKING:
    from edgetune.artifacts.ops import OpsTable
    from edgetune.artifacts.profile import Task
    from edgetune.cli.screen import Screen
    from edgetune.devices.twin.calibration import CheckRow


def tables(network: str, task: Task, batch_size: int) -> OpsTable:
    """Return the operator table of a network of the zoo, which is what a twin computes from."""
    from edgetune.workloads.costs import operator_table
    from edgetune.workloads.resolve import resolve

    return operator_table(resolve(f"zoo:{network}"), task, batch_size)


def run_check(name: str, *, leave_out: bool, json: bool, screen: Screen) -> None:
    """Print every published figure beside the twin's.

    Raises:
        typer.Exit: with 1 when a figure is further off than its tolerance.
    """
    from edgetune.artifacts.plain import plain
    from edgetune.devices import twin
    from edgetune.devices.twin.device import load_twin

    _require_twin(name)
    rows = twin.check(tables, name)
    fit = load_twin(name)[0].fit
    left_out = twin.leave_one_out(tables, name) if leave_out else fit.leave_one_out
    claim = {"time_pct": fit.claim_time_pct, "power_pct": fit.claim_power_pct, "note": fit.claim_note}
    if json:
        answer({"figures": plain(rows), "leave_one_out": plain(left_out), "claim": claim})
    else:
        columns = ("figure", "published>", "twin>", "unit", "off by>", "allowed>", "ok", "note")
        table(columns, [_cells(row) for row in rows])
        if left_out:
            print_lines("", "calibrated without the network: mean absolute deviations")
            table(
                ("network", "time %>", "power %>", "note"),
                [(o.network, f"{o.time_pct:.1f}", f"{o.power_pct:.1f}", o.note) for o in left_out],
            )
        if fit.claim_time_pct is not None:
            claim_text = f"claimed: time within {fit.claim_time_pct:g} %, power within {fit.claim_power_pct:g} %,"
            print_folded("", f"{claim_text} {fit.claim_note}")
    promised = [row for row in rows if row.within is not None]
    held = sum(bool(row.within) for row in promised)
    screen.info(f"{held} of {len(promised)} figures within what is allowed; {len(rows) - len(promised)} compared only")
    if held < len(promised):
        raise typer.Exit(ExitCode.UNEXPECTED)


def run_calibration(name: str, output: str, screen: Screen) -> None:
    """Fit the twin's constants to this version's operator tables and write them to ``output``."""
    from pathlib import Path

    from edgetune.artifacts.files import write_atomically
    from edgetune.devices import twin
    from edgetune.workflows.output import Target

    _require_twin(name)
    Target(Path(output)).check("set of constants", "--calibrate")
    written = write_atomically(twin.dump(twin.calibrate(tables, name)).encode(), output)
    screen.info(f"wrote {written}; use it as {name}?constants={written}")


def _require_twin(name: str) -> None:
    if not name.startswith("twin:"):
        raise InputError(f"{name} is not a twin", "e.g. edgetune device twin:orin-agx --check")


def _cells(row: CheckRow) -> tuple[object, ...]:
    measure = "pt" if row.unit == "ratio" else "%"  # hundredths of a ratio are points, not per cent of it
    allowed = None if row.tolerance_pct is None else f"{row.tolerance_pct:g} {measure}"
    verdict = {True: "yes", False: "NO", None: None}[row.within]
    off_by = f"{row.deviation_pct:+.1f} {measure}"
    return row.name, f"{row.published:.4g}", f"{row.twin:.4g}", row.unit, off_by, allowed, verdict, row.note

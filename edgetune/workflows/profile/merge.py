"""Merges tables of one network, device and conditions."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgetune.artifacts.merging import first_difference, merged, rows_difference
from edgetune.artifacts.profile import Profile
from edgetune.errors import InputError
from edgetune.stages.profiling.boards import COMMON, on_common_board, with_boards
from edgetune.units import parse_share
from edgetune.workflows.output import Target, check_outputs, choose_target, forced
from edgetune.workflows.parse_options import parse_columns
from edgetune.workflows.profile.options import MergeOptions
from edgetune.workflows.reporting import Reporter, SimulationLabel
from edgetune.workflows.search.candidates import read_table


def merge(opts: MergeOptions, reporter: Reporter) -> tuple[Profile, Target, list[int]]:
    """Merge tables and write the result; return it, its target, and the number of rows of each table.

    Raises:
        InputError: The tables do not fit together, or the output holds something else.
    """
    columns = parse_columns(opts.column)
    profiles, origins = zip(*(read_table(table, columns) for table in opts.tables), strict=True)
    for other, name in zip(profiles[1:], opts.tables[1:], strict=True):
        _refuse_difference(profiles[0], other, opts.tables[0], name)
    whole, boards = with_boards(_whole(profiles, origins), parse_share(opts.board_tolerance, what="--board-tolerance"))
    if opts.common:
        if not boards:
            raise InputError("--common: the tables are not of several boards", "edgetune profile --shard 1/2")
        whole = on_common_board(whole)
    target = choose_target(opts.output, "merged.parquet", stdout=reporter.stdout)
    _check(opts.output, opts.tables)
    target.check("profile")
    SimulationLabel(whole.header.simulated, reporter).announce()
    target.write(whole)
    for sentence in boards:
        reporter.info(sentence)
    return whole, target, [len(profile.rows) for profile in profiles]


def _refuse_difference(first: Profile, other: Profile, name: str, other_name: str) -> None:
    """Refuse a table that does not match the first one.

    Raises:
        InputError: the tables differ in device, network, options or software, or one has the common board's figures.
    """
    if COMMON in first.header.conditions or COMMON in other.header.conditions:
        raise InputError("a table of merge --common has no measured figures", "merge the tables that it was made of")
    differs = first_difference(first.header, other.header) or rows_difference(first.rows, other.rows)
    if differs is not None:
        message = f"{name} and {other_name} do not fit together: {differs.what} {differs.ours} and {differs.theirs}"
        raise InputError(
            message, "keep them apart: edgetune compare compares them, edgetune search takes several of one device"
        )


def _whole(profiles: Sequence[Profile], origins: Sequence[dict[str, str]]) -> Profile:
    """Return the merged table; ``edgetune profile`` can extend it if all tables have the same request."""
    requests = [profile.header.inputs.get("request", {}) for profile in profiles]
    inputs: dict[str, Any] = {"tables": list(origins)}
    if len({request.get("sha256") for request in requests}) == 1 and requests[0].get("sha256"):
        partial = [point for request in requests for point in request.get("partial", ())]
        inputs["request"] = {"sha256": requests[0]["sha256"], **({"partial": partial} if partial else {})}
    return merged(profiles, inputs=inputs)


def _check(output: str | None, tables: Sequence[str]) -> None:
    """Refuse an output with other content; it may be one of the tables, whose rows all are in the new one."""
    same = output is not None and Path(output).resolve() in {Path(table).resolve() for table in tables if table != "-"}
    if not same:
        check_outputs({"-o": output}, tables, {"-o": "profile"})
        if output is not None and not forced() and Path(output).is_file() and Path(output).stat().st_size:
            hint = "name another file, or give it as a table too"
            raise InputError(f"-o: {output} exists, and would be lost", hint)

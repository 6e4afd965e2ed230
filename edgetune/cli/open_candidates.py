"""Opens the candidates of a search: a measured table, or a device to measure on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from edgetune.cli.candidates import Candidates
from edgetune.errors import InputError

if TYPE_CHECKING:
    from edgetune.cli.live_candidates import MeasurementOptions


@contextmanager
def open_candidates(
    sources: Sequence[str], live: MeasurementOptions, *, workload: str | None, seed: int, columns: Sequence[str] = ()
) -> Iterator[Candidates]:
    """Offer the points of tables, or with ``--device`` (or a reference that names a network) those of a network.

    ``columns`` are the words of ``--column``.

    Raises:
        InputError: options that do not go with what is given, or nothing to choose from.
    """
    first = sources[0]
    if live.device is not None or first.startswith("zoo:") or Path(first).suffix in (".onnx", ".py"):
        from edgetune.cli.live_candidates import network_candidates

        if columns:
            raise InputError("--column: only for a table", "leave it out")
        if len(sources) > 1:
            raise InputError(f"one network is searched for, not {len(sources)}", "--background MODEL names the second")
        with network_candidates(first, live, seed) as candidates:
            yield candidates
    elif live.given():
        raise InputError(f"{' and '.join(live.given())}: only for a network", "leave them out, or name a device")
    else:
        from edgetune.cli.table_candidates import TableSelection, candidates_of_tables
        from edgetune.workflows.parse_options import parse_batch_sizes, parse_columns
        from edgetune.workloads.foreign_files import refuse_foreign

        refuse_foreign(Path(first), first)
        sizes = None if live.batch_sizes is None else parse_batch_sizes(live.batch_sizes)
        yield candidates_of_tables(
            sources, TableSelection(live.kind, workload, live.background, sizes), parse_columns(columns)
        )

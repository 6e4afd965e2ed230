"""What a search may choose from: the points of tables, or those of a network on a device."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgetune.errors import EdgetuneError, InputError

if TYPE_CHECKING:
    from edgetune.artifacts.header import DataWarning
    from edgetune.artifacts.profile import Point, ProfileRow
    from edgetune.cli.live_candidates import MeasurementOptions
    from edgetune.cli.screen import Screen
    from edgetune.profiling.estimate import SweepEstimate
    from edgetune.search.strategies.strategy import OperatorTotals


@dataclass(frozen=True, slots=True)
class Candidates:
    """Points to choose from and how to measure one, ``free`` when that is a look-up.

    ``kind`` is the problem they are for. ``expect`` says what measuring all of them would take; ``inputs``,
    ``conditions`` and ``warnings`` go into headers. ``no_power`` is why the device cannot measure power, where it
    cannot; ``defect`` what every measurement failed of; ``background`` the name of the second network of a live search;
    ``rows`` what a table holds; ``recovered`` what of an earlier run was put back on the device, a sentence each;
    ``operators`` what the network costs at each batch size, where its graph is known; ``warn_of_load`` tells a screen
    what else uses the machine that measures.
    """

    points: Sequence[Point]
    measure: Callable[[Point], ProfileRow]
    kind: str
    described: str
    simulated: bool
    free: bool
    inputs: Mapping[str, Any]
    conditions: Mapping[str, Any]
    warnings: tuple[DataWarning, ...] = ()
    expect: Callable[[], SweepEstimate] | None = None
    no_power: str | None = None
    defect: Callable[[], EdgetuneError | None] = lambda: None
    background: str | None = None
    recovered: Callable[[], Sequence[str]] = tuple
    operators: Callable[[], tuple[OperatorTotals, ...]] = tuple
    rows: Sequence[ProfileRow] = ()
    warn_of_load: Callable[[Screen], None] = lambda _: None


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
        from edgetune.cli.parse_options import parse_batch_sizes, parse_columns
        from edgetune.cli.table_candidates import TableSelection, candidates_of_tables
        from edgetune.workloads.foreign_files import refuse_foreign

        refuse_foreign(Path(first), first)
        sizes = None if live.batch_sizes is None else parse_batch_sizes(live.batch_sizes)
        yield candidates_of_tables(
            sources, TableSelection(live.kind, workload, live.background, sizes), parse_columns(columns)
        )

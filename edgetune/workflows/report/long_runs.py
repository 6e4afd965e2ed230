"""Runs and timelines of very many events on a page: figures of all requests, and the events of the beginning.

A page of a million requests takes seconds and a small part of the memory that an object for each of them would.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from edgetune.artifacts.artifact import Artifact
from edgetune.artifacts.io import read_any
from edgetune.plotting.page import SectionWriter
from edgetune.workflows.cells import si_cell

MOST_EVENTS = 10_000
"""Events that are drawn and summarised one by one."""
_KEYS = {"run": ("engine", "tenant"), "timeline": ("policy", "job"), "kernel_timeline": ("policy", "task")}
"""How requests are grouped, by kind."""
_PERCENTS = (50, 95, 99, 100)


@dataclass(slots=True)
class LongRun:
    """The requests of a file with very many events.

    Args:
        events: All events of the file.
        shown: Events that the artifact has.
        columns, rows: A table of all requests: by engine or policy, and by workload.
    """

    events: int = 0
    shown: int = 0
    columns: list[str] = field(default_factory=list)
    rows: list[list[object]] = field(default_factory=list)

    def write(self, out: SectionWriter) -> None:
        """Write the figures of all requests; nothing of a file that is drawn whole."""
        if not self.rows:
            return
        out.heading("all requests")
        out.table(self.columns, self.rows)
        out.note(f"What follows is of the first {self.shown:,} of {self.events:,} events; the file has all.")


def read_for_page(file: str, columns: Any = None) -> tuple[Artifact, LongRun]:
    """Return the artifact in a file, with its first events only if there are very many, and figures of all of them.

    Raises:
        InputError: see ``io.read_any``; of the events, only the first ones are checked.
    """
    whole = LongRun()

    def thin(kind: str, table: Any) -> Any:
        if kind not in _KEYS or table.num_rows <= MOST_EVENTS:
            return table
        whole.events, whole.shown = table.num_rows, MOST_EVENTS
        whole.columns, whole.rows = _summary(table, *_KEYS[kind])
        return _first(table, _KEYS[kind][0])

    return read_any(file, columns, thin=thin), whole


def _first(table: Any, group: str) -> Any:
    """Return the first events of each engine or policy, ``MOST_EVENTS`` in all."""
    import pyarrow as pa
    import pyarrow.compute as pc

    names = table.column(group).unique().to_pylist()
    each = max(MOST_EVENTS // max(len(names), 1), 1)
    places = [pc.indices_nonzero(pc.equal(table.column(group), name)).slice(0, each) for name in names]
    return table.take(pa.concat_arrays(places))


def _summary(table: Any, group: str, workload: str) -> tuple[list[str], list[list[object]]]:
    """Return columns and rows: requests, answers, violations and percentiles of latency, by group and workload."""
    import numpy as np
    import pyarrow.compute as pc

    needed = table.select([group, workload, "event", "status", "met", "arrived_s", "finished_s"])
    requests = _where(needed, pc.equal(needed.column("event"), "request"))
    pairs = requests.group_by([group, workload], use_threads=False).aggregate([])
    rows: list[list[object]] = []
    for name, of in zip(pairs.column(group).to_pylist(), pairs.column(workload).to_pylist(), strict=True):
        is_of = pc.is_null(requests.column(workload)) if of is None else pc.equal(requests.column(workload), of)
        found = _where(requests, pc.and_(pc.equal(requests.column(group), name), is_of))
        good = _where(found, pc.equal(found.column("status"), "ok"))
        late = pc.sum(pc.equal(good.column("met"), False)).as_py() or 0
        latencies_s = pc.subtract(good.column("finished_s"), good.column("arrived_s")).drop_null().to_numpy()
        times = np.percentile(latencies_s, _PERCENTS) if len(latencies_s) else [None] * len(_PERCENTS)
        missed = late + found.num_rows - good.num_rows
        cells = [si_cell(None if time_s is None else float(time_s), "s") for time_s in times]
        rows.append([name, of, f"{good.num_rows:,}/{found.num_rows:,}", f"{missed:,}", *cells])
    return [group, workload, "done>", "violations>", "median>", "p95>", "p99>", "longest>"], rows


def _where(table: Any, mask: Any) -> Any:
    """Return the rows where a mask holds; the table itself, and no copy, where it holds for all."""
    import pyarrow.compute as pc

    return table if pc.all(mask).as_py() else table.filter(mask)

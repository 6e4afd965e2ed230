"""All training runs of a table, several at a time; each finished run is in a journal before the next is reported.

    batch sizes x seeds --> queue --> [process 1] [process 2] ... --> journal --> table

A run that the journal or an earlier table has is not trained again; one that failed (of too little memory, say) is
tried again. Killed at any moment, only the runs that were under way are lost.
"""

import select
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import asdict
from importlib import metadata
from pathlib import Path

from edgetune.artifacts import convergence
from edgetune.artifacts.convergence import Convergence, ConvergenceRow
from edgetune.artifacts.header import DataWarning, Header, utc_now
from edgetune.errors import EdgetuneError, InputError
from edgetune.processes.child import Child
from edgetune.stages.profiling.convergence.proxy import OPTIMIZER, REFERENCE_BATCH, Proxy, Task, check_sizes
from edgetune.stages.profiling.journal import Journal, discard_journal, open_journal
from edgetune.stages.profiling.sweep_journal import identity_sha256

_WORKER = "edgetune.stages.profiling.convergence.worker:train_one"


def _ended(
    proxy: Proxy, tasks: Sequence[Task], jobs: int
) -> Generator[tuple[ConvergenceRow, EdgetuneError | None], None, None]:
    """Train in child processes, each of which runs one task after the other; yield runs and why they failed, if so."""
    waiting = deque(tasks)
    running: dict[Child, tuple[Task, str, float]] = {}
    """The task of each child, and when it began: in UTC, and in s."""

    def begin(child: Child) -> None:
        """Start the next run in a child, or in a new one where it has ended; end the child where no run is left."""
        if not waiting or not child.alive:
            child.close()
        if waiting:
            child = child if child.alive else Child(_WORKER)
            task = waiting.popleft()
            running[child] = (task, utc_now(), time.monotonic())
            with suppress(EdgetuneError):  # it has just ended, which ``received`` reports
                child.send(proxy.command(*task))

    try:
        for _ in range(min(jobs, len(tasks))):
            begin(Child(_WORKER))
        while running:
            child, failed = select.select([*running], [], [])[0][0], None
            try:
                reply = next(child.received(), None)
            except EdgetuneError as error:
                reply, failed = {"status": "failed", "reason": error.message}, error
            if reply is None:  # a part of a line has come
                continue
            (size, seed), started, begun_s = running.pop(child)
            row = ConvergenceRow(
                workload=proxy.workload.name, batch_size=size, epochs=reply.get("epochs"), dataset=proxy.dataset.name,
                seed=seed, target_accuracy=proxy.options.target_accuracy, optimizer=OPTIMIZER,
                learning_rate=proxy.options.learning_rate_at(size), samples=reply.get("samples"),
                accuracy=reply.get("accuracy"), status=reply["status"], reason=reply.get("reason"),
                duration_s=round(time.monotonic() - begun_s, 3), started=started, device=reply.get("device"),
            )  # fmt: skip
            begin(child)
            yield row, failed
    finally:
        for child in running:
            child.close()


_HOPELESS = 2
"""Runs that may fail before the first success until the rest is not tried."""


OnRun = Callable[[int, int, ConvergenceRow | None], None]
"""Takes the numbers of finished runs and of those among them that were known, before the first run and after each."""


def train_all(
    proxy: Proxy, tasks: Sequence[Task], journal_path: Path, *, jobs: int, known: Convergence | None = None,
    on_run: OnRun = lambda *_: None, fresh: bool = False,
) -> Convergence:  # fmt: skip
    """Train every task that is not known yet, and return all runs as a table, by batch size and seed.

    The journal stays: call ``journal.discard_journal`` once the table is written.

    Args:
        proxy: What to train.
        tasks: Batch sizes and seeds; repeated ones are trained once.
        journal_path: See ``identity.default_journal_path``.
        jobs: Processes at a time.
        known: An earlier table of the same proxy: its runs are taken over, and stay in the table.
        on_run: See ``OnRun``.
        fresh: Discard the journal of an earlier run.

    Raises:
        InputError: nothing to train, a batch larger than the data set, or the journal cannot be used.
        EdgetuneError: every run failed; the error is that of the last one.
    """
    tasks = list(dict.fromkeys(tasks))
    if not tasks:
        raise InputError("there is nothing to train", "give at least one batch size and one seed")
    check_sizes([size for size, _ in tasks], proxy.dataset, proxy.options)
    rows = {} if known is None else {_task(row): row for row in known.rows}
    with open_journal(ConvergenceRow, journal_path, proxy.identity, fresh=fresh) as journal:
        rows |= {_task(row): row for row in journal.entries}
        left = [task for task in tasks if task not in rows or rows[task].failed]
        resumed = len(tasks) - len(left)
        on_run(resumed, resumed, None)
        try:
            for done, row in enumerate(_finished(proxy, left, journal, jobs), start=1):
                rows[_task(row)] = row
                on_run(resumed + done, resumed, row)
        finally:
            if all(row.failed for row in journal.entries):
                discard_journal(journal_path)
        ordered = tuple(rows[task] for task in sorted(rows))
        return Convergence(_header(proxy, ordered, resumed), ordered)


def _task(row: ConvergenceRow) -> Task:
    return row.batch_size, row.seed or 0


def _finished(
    proxy: Proxy, tasks: Sequence[Task], journal: Journal[ConvergenceRow], jobs: int
) -> Iterator[ConvergenceRow]:
    """Yield runs as they end, each journalled.

    Failures before the first success are held back: when nothing works, the error that ends it all says it alone.
    """
    failures: list[EdgetuneError] = []
    held: list[ConvergenceRow] = []
    succeeded = any(not row.failed for row in journal.entries)
    with closing(_ended(proxy, tasks, jobs)) as ended:
        for row, error in ended:
            journal.append(row)
            succeeded = succeeded or error is None
            failures += [] if error is None else [error]
            if not succeeded and len(failures) >= min(_HOPELESS, len(tasks)):
                raise failures[-1]
            held.append(row)
            if succeeded:
                yield from held
                held = []


def _header(proxy: Proxy, rows: Sequence[ConvergenceRow], resumed: int) -> Header:
    """Return the header: the origin of the runs, and warnings about runs that missed the target or failed."""
    workload, dataset = proxy.workload, proxy.dataset
    inputs = {
        "workload": {"name": workload.name, "reference": workload.reference, "sha256": workload.sha256},
        "dataset": {"name": dataset.name, "reference": proxy.dataset_reference, "sha256": dataset.sha256},
        "request": {"sha256": identity_sha256(proxy.identity)},
    }
    conditions = {
        "device": ", ".join(sorted({row.device for row in rows if row.device is not None})),
        "torch": metadata.version("torch"),
        "options": {**asdict(proxy.options), "optimizer": OPTIMIZER, "learning_rate_at_batch": REFERENCE_BATCH},
        "samples_per_epoch": dataset.samples,
        "samples_held_out": dataset.held_out,
        "runs_resumed": resumed,
    }
    data_warnings = []
    for status, advice in (("missed", "train for longer, or for a lower target"), ("failed", "run it again")):
        count = sum(row.status == status for row in rows)
        if count:
            data_warnings.append(DataWarning(f"runs-{status}", f"see the reason column; {advice}", {"runs": count}))
    return Header.new(
        convergence.KIND, convergence.VERSION, inputs=inputs, conditions=conditions, warnings=tuple(data_warnings)
    )

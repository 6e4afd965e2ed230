"""All training runs of a table, several at a time, each finished one in a journal before the next is told of.

    batch sizes x seeds --> queue --> [process 1] [process 2] ... --> journal --> table

A run that the journal or an earlier table has is not trained again; one that failed (of too little memory, say) is
tried again. Killed at any moment, only the runs that were under way are lost.
"""

from __future__ import annotations

import math
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from edgetune.artifacts import convergence
from edgetune.artifacts.convergence import Convergence, ConvergenceRow
from edgetune.artifacts.header import Caution, Header
from edgetune.errors import EdgetuneError, InputError
from edgetune.profiling.child import Child
from edgetune.profiling.convergence.datasets import Dataset
from edgetune.profiling.convergence.options import REFERENCE_BATCH, TrainingOptions, check_sizes, identify_runs
from edgetune.profiling.identity import identity_sha256
from edgetune.profiling.journal import Journal, discard_journal, open_journal_of
from edgetune.profiling.journal_lines import Form
from edgetune.workloads.workload import Workload

_WORKER = "edgetune.profiling.convergence.worker"
_NAMES = frozenset(field.name for field in fields(ConvergenceRow))
_HOPELESS = 2
"""Runs that may fail before the first success until the rest is not tried."""

Task = tuple[int, int]
"""Batch size and seed of a run."""


@dataclass(frozen=True, slots=True)
class Proxy:
    """What is trained, and how.

    Args:
        workload: See ``proxies.resolve_proxy``.
        dataset: Loaded, for its size and hash.
        dataset_reference: As the user wrote it: what the child loads.
        options: How.
        device: ``auto``, ``cpu`` or ``cuda:0``.
    """

    workload: Workload
    dataset: Dataset
    dataset_reference: str
    options: TrainingOptions
    device: str = "auto"

    @property
    def identity(self) -> dict[str, Any]:
        """What must be equal for runs to be taken over."""
        return identify_runs(self.workload, self.dataset, self.options, self.device)


@dataclass(frozen=True, slots=True)
class RunProgress:
    """Where the runs are, told once before the first and after each: see ``sweep.Progress``."""

    done: int
    total: int
    resumed: int
    eta_s: float | None = None
    row: ConvergenceRow | None = None


def run_form() -> Form[ConvergenceRow]:
    """Return how the journal holds a run: its row, without what is not known."""

    def write(row: ConvergenceRow) -> dict[str, Any]:
        return {"run_row": {name: value for name, value in asdict(row).items() if value is not None}}

    def read(value: Mapping[str, Any]) -> ConvergenceRow:
        known = {name: cell for name, cell in value["run_row"].items() if name in _NAMES}
        return ConvergenceRow(**{"epochs": None, **known})

    return Form("run_row", write, read, lambda row: row.status == "failed")


def train_all(
    proxy: Proxy,
    tasks: Sequence[Task],
    journal_path: Path,
    *,
    jobs: int,
    known: Convergence | None = None,
    on_progress: Callable[[RunProgress], None] = lambda _: None,
    fresh: bool = False,
) -> Convergence:
    """Train every task that is not known yet, and return all runs as a table, by batch size and seed.

    The journal stays: call ``journal.discard_journal`` once the table is written.

    Args:
        proxy: What to train.
        tasks: Batch sizes and seeds; repeated ones are trained once.
        journal_path: See ``identity.default_journal_path``.
        jobs: Processes at a time.
        known: An earlier table of the same proxy: its runs are taken over, and stay in the table.
        on_progress: Told after every run.
        fresh: Discard the journal of an earlier run.

    Raises:
        InputError: nothing to train, a batch larger than the data set, or the journal cannot be used.
        EdgetuneError: every run failed: how the last one did.
    """
    tasks = list(dict.fromkeys(tasks))
    if not tasks:
        raise InputError("there is nothing to train", "give at least one batch size and one seed")
    check_sizes([size for size, _ in tasks], proxy.dataset, proxy.options)
    rows = {} if known is None else {_task(row): row for row in known.rows}
    with open_journal_of(run_form(), journal_path, proxy.identity, fresh=fresh) as journal:
        rows |= {_task(row): row for row in journal.entries}
        left = [task for task in tasks if task not in rows or rows[task].status == "failed"]
        resumed = len(tasks) - len(left)
        on_progress(RunProgress(resumed, len(tasks), resumed))
        used: dict[str, Any] = {} if known is None else dict(known.header.conditions)
        try:
            for done, (row, said) in enumerate(_finished(proxy, left, journal, jobs), start=1):
                rows[_task(row)] = row
                used |= said
                pace_s = row.duration_s or 0.0
                eta_s = pace_s * math.ceil((len(left) - done) / jobs)
                on_progress(RunProgress(resumed + done, len(tasks), resumed, eta_s, row))
        finally:
            if all(row.status == "failed" for row in journal.entries):
                discard_journal(journal_path)
        ordered = tuple(rows[task] for task in sorted(rows))
        return Convergence(_header(proxy, ordered, resumed, used), ordered)


def _task(row: ConvergenceRow) -> Task:
    return row.batch_size, row.seed or 0


def _finished(
    proxy: Proxy, tasks: Sequence[Task], journal: Journal[ConvergenceRow], jobs: int
) -> Iterator[tuple[ConvergenceRow, dict[str, Any]]]:
    """Yield runs as they end, each journalled, and what the child said of device and library.

    Failures before the first success are held back: when nothing works, the error that ends it all says it alone.
    """
    failures: list[EdgetuneError] = []
    held: list[tuple[ConvergenceRow, dict[str, Any]]] = []
    succeeded = any(row.status != "failed" for row in journal.entries)
    crew = _Crew(proxy, tasks, jobs)
    try:
        for _ in tasks:
            row, said, error = crew.next()
            journal.append(row)
            succeeded = succeeded or error is None
            failures += [] if error is None else [error]
            if not succeeded and len(failures) >= min(_HOPELESS, len(tasks)):
                raise failures[-1]
            held.append((row, said))
            if succeeded:
                yield from held
                held = []
    finally:
        crew.stop()


class _Crew:
    """Threads that each own a child process and hand it one run after the other."""

    def __init__(self, proxy: Proxy, tasks: Sequence[Task], jobs: int) -> None:
        self._proxy = proxy
        self._tasks: queue.SimpleQueue[Task] = queue.SimpleQueue()
        for task in tasks:
            self._tasks.put(task)
        self._ended: queue.SimpleQueue[tuple[ConvergenceRow, dict[str, Any], EdgetuneError | None] | BaseException] = (
            queue.SimpleQueue()
        )
        self._stopping = False
        self._children: list[Child] = []
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(min(jobs, len(tasks)))]
        for thread in self._threads:
            thread.start()

    def next(self) -> tuple[ConvergenceRow, dict[str, Any], EdgetuneError | None]:
        """Wait for the next run to end."""
        ended = self._ended.get()
        if isinstance(ended, BaseException):
            raise ended
        return ended

    def stop(self) -> None:
        """End every child and wait for the threads."""
        self._stopping = True
        for child in list(self._children):
            child.kill()
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        child: Child | None = None
        try:
            while not self._stopping:
                try:
                    size, seed = self._tasks.get_nowait()
                except queue.Empty:
                    break
                if child is None or not child.alive:
                    child = self._replace(child)
                self._ended.put(self._train(child, size, seed))
        except BaseException as error:  # the main thread is waiting: it must hear of it
            self._ended.put(error)
        finally:
            if child is not None:
                self._children.remove(child)
                child.close()

    def _replace(self, child: Child | None) -> Child:
        if child is not None:
            self._children.remove(child)
            child.close()
        child = Child(_WORKER)
        self._children.append(child)
        if self._stopping:
            child.kill()
        return child

    def _train(self, child: Child, size: int, seed: int) -> tuple[ConvergenceRow, dict[str, Any], EdgetuneError | None]:
        proxy = self._proxy
        described = asdict(proxy.workload)
        described["path"] = None if proxy.workload.path is None else str(proxy.workload.path)
        command = {
            "workload": described,
            "dataset": proxy.dataset_reference,
            "options": asdict(proxy.options),
            "batch_size": size,
            "seed": seed,
            "device": proxy.device,
        }
        started = datetime.now(timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z")
        begun_s, failed = time.monotonic(), None
        try:
            reply = child.ask(command, deadline_s=math.inf)
        except EdgetuneError as error:
            reply, failed = {"status": "failed", "reason": error.message}, error
        row = ConvergenceRow(
            workload=proxy.workload.name,
            batch_size=size,
            epochs=reply.get("epochs"),
            dataset=proxy.dataset.name,
            seed=seed,
            target_accuracy=proxy.options.target_accuracy,
            optimizer=proxy.options.optimizer,
            learning_rate=proxy.options.learning_rate_at(size),
            samples=reply.get("samples"),
            accuracy=reply.get("accuracy"),
            status=reply["status"],
            reason=reply.get("reason"),
            duration_s=round(time.monotonic() - begun_s, 3),
            started=started,
        )
        return row, {name: reply[name] for name in ("device", "torch") if name in reply}, failed


def _header(proxy: Proxy, rows: Sequence[ConvergenceRow], resumed: int, used: Mapping[str, Any]) -> Header:
    """Say where the runs come from, and which batch sizes a reader should not count on."""
    workload, dataset = proxy.workload, proxy.dataset
    inputs = {
        "workload": {"name": workload.name, "reference": workload.reference, "sha256": workload.sha256},
        "dataset": {"name": dataset.name, "reference": proxy.dataset_reference, "sha256": dataset.sha256},
        "request": {"sha256": identity_sha256(proxy.identity)},
    }
    conditions = {
        **{name: used[name] for name in ("device", "torch") if name in used},
        "options": {**asdict(proxy.options), "learning_rate_at_batch": REFERENCE_BATCH},
        "samples_per_epoch": len(dataset.x),
        "samples_held_out": len(dataset.x_held_out),
        "runs_resumed": resumed,
    }
    cautions = []
    for status, advice in (("missed", "train for longer, or for a lower target"), ("failed", "run it again")):
        count = sum(row.status == status for row in rows)
        if count:
            cautions.append(Caution(f"runs-{status}", f"see the reason column; {advice}", {"runs": count}))
    return Header.new(
        convergence.KIND, convergence.VERSION, inputs=inputs, conditions=conditions, warnings=tuple(cautions)
    )

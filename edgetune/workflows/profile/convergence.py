"""Trains a small task at several batch sizes: from the options of ``--convergence`` to a table of epochs."""

import os
import time
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from edgetune.artifacts.convergence import Convergence, ConvergenceRow
from edgetune.artifacts.io import read
from edgetune.devices.cpu import usable_cpus
from edgetune.errors import InputError
from edgetune.processes.child import Child
from edgetune.stages.profiling.convergence.datasets import DRAWN, DatasetFacts, load_dataset
from edgetune.stages.profiling.convergence.proxy import (
    Proxy,
    Task,
    TrainingOptions,
    check_sizes,
    resolve_proxy,
    takes_tokens,
)
from edgetune.stages.profiling.convergence.runs import train_all
from edgetune.stages.profiling.journal import discard_journal
from edgetune.stages.profiling.sweep import SweepProgress
from edgetune.stages.profiling.sweep_journal import default_journal_path, identity_sha256
from edgetune.units import parse_share
from edgetune.workflows.output import Target, choose_target
from edgetune.workflows.parse_options import parse_batch_sizes
from edgetune.workflows.profile.options import ConvergenceOptions, ProfileCommandOptions, given
from edgetune.workflows.reporting import Reporter, SimulationLabel, reporting_saved

_DEFAULT_SIZES = "16,32,64,128,256"
_DEFAULT_DATASET, _DEFAULT_TEXT = "shapes", "words"
_DEFAULT_SEEDS = 3
_DEFAULT_EPOCHS = 40
_READER = "edgetune.stages.profiling.convergence.worker:describe"
_LONGEST_READ_S = 600.0
_GPU_JOBS = 4
"""Runs at a time on a GPU by default: each takes some hundred MB of its memory before it begins."""


@dataclass(frozen=True, slots=True)
class TrainingRequest:
    """The requested training runs.

    Args:
        proxy: The task to train.
        tasks: Batch size and seed of each run.
        jobs: Number of parallel runs.
        file_name: Name of the table where no output is named.
    """

    proxy: Proxy
    tasks: list[Task]
    jobs: int
    file_name: str


def refuse_training(opts: ConvergenceOptions) -> None:
    """Refuse options of training without ``--convergence``.

    Raises:
        InputError: such an option is given.
    """
    for option in given(opts, ConvergenceOptions):
        raise InputError(f"{option} is for --convergence, which is not given", f"add --convergence, or drop {option}")


def convergence(opts: ProfileCommandOptions, reporter: Reporter) -> tuple[Convergence, Target]:
    """Train every run that is missing in the file and write the table; return the table and its target.

    Raises:
        InputError: an option does not apply here or is invalid.
    """
    request = training_request(opts)
    target = choose_target(opts.output, request.file_name, resumes=True, stdout=reporter.stdout)
    target.check("convergence")
    return train_missing(request, target, fresh=opts.fresh, reporter=reporter), target


def training_request(opts: ProfileCommandOptions) -> TrainingRequest:
    """Return the runs to train, without training any."""
    _refuse_measuring(opts)
    proxy = _proxy(opts)
    sizes = parse_batch_sizes(opts.batch_sizes or _DEFAULT_SIZES)
    seeds = range(opts.seed, opts.seed + (opts.seeds or _DEFAULT_SEEDS))
    tasks = [(size, seed) for seed in seeds for size in sizes]
    most = _GPU_JOBS if proxy.device.startswith("cuda") else len(tasks)
    jobs = min(opts.jobs or min(len(usable_cpus()) or os.cpu_count() or 1, most), len(tasks))
    name = f"{proxy.workload.name.replace(':', '-')}-{proxy.dataset.name}-convergence.parquet"
    return TrainingRequest(proxy, tasks, jobs, name)


def _refuse_measuring(opts: ProfileCommandOptions) -> None:
    if opts.task == "infer":
        raise InputError("--convergence trains, and --task is infer", "leave --task out")
    measuring = {
        "--modes": opts.modes, "--ops": opts.ops, "--inputs": opts.inputs, "--minibatches": opts.minibatches,
        "--dim": opts.dim, "--batch-axis": opts.batch_axis, "--cool-to": opts.cool_to, "--fan": opts.fan,
        "--interleave-repeats": opts.interleave_repeats,
    }  # fmt: skip
    for option, value in measuring.items():
        if value:
            message = f"{option} is for measuring: how many epochs a training takes depends on no device"
            raise InputError(message, f"leave {option} out, or --convergence")


def _proxy(opts: ProfileCommandOptions) -> Proxy:
    """Return the task to train, checked and with the facts of its data set.

    Raises:
        InputError: an option or the data set is invalid.
    """
    workload, device = resolve_proxy(opts.model), _torch_device(opts.device)
    sizes = parse_batch_sizes(opts.batch_sizes or _DEFAULT_SIZES)
    reference = opts.dataset or (_DEFAULT_TEXT if takes_tokens(workload) else _DEFAULT_DATASET)
    dataset = _facts(reference, tokens=takes_tokens(workload))
    options = TrainingOptions(
        target_accuracy=_target_accuracy(opts.target_accuracy, reference),
        max_epochs=opts.max_epochs or _DEFAULT_EPOCHS,
        learning_rate=1e-3 if opts.learning_rate is None else opts.learning_rate,
    )
    check_sizes(sizes, dataset, options)
    absolute = reference if dataset.sha256 is None else str(Path(reference).resolve())
    return Proxy(workload, dataset, absolute, options, device)


def _facts(reference: str, *, tokens: bool) -> DatasetFacts:
    """Return the facts of a data set; files of others are read in a process of their own."""
    if reference in DRAWN:
        return load_dataset(reference, tokens=tokens).facts
    with closing(Child(_READER)) as child:
        command = {"dataset": reference, "tokens": tokens}
        try:
            reply = child.ask(command, deadline_s=time.monotonic() + _LONGEST_READ_S)
            return DatasetFacts(**reply["facts"])
        except TimeoutError:
            message = f"{reference} was not read within {_LONGEST_READ_S / 60:.0f} minutes"
            raise InputError(message, "take fewer files, or save the arrays: numpy.savez(FILE, x=x, y=y)") from None


def _target_accuracy(text: str | float | None, reference: str) -> float:
    if text is not None:
        return parse_share(text, what="--target-accuracy")
    if reference not in DRAWN:
        raise InputError(f"no target accuracy is given for {reference}", "e.g. --target-accuracy 90%")
    return DRAWN[reference].target_accuracy


def _torch_device(name: str) -> str:
    """Return the PyTorch device of an edgetune device's name.

    Raises:
        InputError: the device is simulated or recorded, and cannot train.
    """
    kind, _, number = name.partition(":")
    if name in ("auto", "host", "cpu"):
        return "auto" if name == "auto" else "cpu"
    if kind in ("nvidia", "cuda") and (number.isdigit() or not number):
        return f"cuda:{number or 0}"
    raise InputError(f"--convergence really trains, which {name} cannot", "--device auto, host or nvidia:0")


def train_missing(request: TrainingRequest, target: Target, *, fresh: bool, reporter: Reporter) -> Convergence:
    """Train the runs that neither the journal nor the table has, write the table, then discard the journal."""
    proxy, tasks = request.proxy, request.tasks
    journal = default_journal_path(target.regular, proxy.identity, tasks)
    known = None if fresh else _earlier(target, identity_sha256(proxy.identity))
    done = set() if known is None else {(row.batch_size, row.seed) for row in known.rows if row.status != "failed"}
    if known is not None and done >= set(tasks):
        reporter.info(f"{target.path} has these runs already; --fresh trains them again")
        return known
    kept = "finished runs are kept, and the same command resumes"
    with (
        reporting_saved(reporter, lambda: kept if journal.exists() else "no run was finished yet"),
        reporter.sweep(SimulationLabel(False, reporter)) as on_progress,
    ):

        def report(done: int, resumed: int, row: ConvergenceRow | None) -> None:
            on_progress(SweepProgress(done, len(tasks), 0 if row else resumed))
            if row is None:
                return
            what = f"batch {row.batch_size} seed {row.seed}"
            if row.reached:
                reporter.detail(f"{done} of {len(tasks)}: {what}: {row.epochs:.3g} epochs")
            else:
                reporter.info(f"{row.status}: {what}: {row.reason}")

        table = train_all(proxy, tasks, journal, jobs=request.jobs, known=known, on_run=report, fresh=fresh)
    target.write(table)
    discard_journal(journal)
    target.report(reporter)
    return table


def _earlier(target: Target, request_sha256: str) -> Convergence | None:
    """Return the table in an existing file if its runs match the request; batch sizes and seeds may differ.

    Raises:
        InputError: the file holds other runs or is of another kind.
    """
    hint = "it is kept; name another file with -o"
    table, path = target.earlier(partial(read, Convergence), "convergence table"), target.path
    if table is None or path is None:
        return None
    asked = table.header.inputs.get("request", {})
    if path.suffix.lower() == ".csv" and not asked:
        raise InputError(f"{path} exists, and CSV does not keep the options of its training runs", hint)
    if asked.get("sha256") != request_sha256:
        raise InputError(f"{path} exists and holds runs of another proxy, target or rate", hint)
    return table

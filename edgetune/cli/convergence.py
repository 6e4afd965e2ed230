"""``edgetune profile --convergence``: a small task trained at several batch sizes becomes a table of epochs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from edgetune.cli.output import choose_target
from edgetune.cli.parse_options import parse_batch_sizes
from edgetune.cli.screen import Screen
from edgetune.errors import InputError
from edgetune.units import parse_share

if TYPE_CHECKING:
    from edgetune.cli.run_profile import ProfileCommandOptions
    from edgetune.profiling.convergence.datasets import Dataset
    from edgetune.profiling.convergence.proxy import Proxy

_DEFAULT_SIZES = "16,32,64,128,256"
_DEFAULT_DATASET = "shapes"
_DEFAULT_SEEDS = 3
_DEFAULT_EPOCHS = 40
_GPU_JOBS = 4
"""Runs at a time on a GPU unless told: each takes some hundred MB of its memory before it begins."""


@dataclass(frozen=True, slots=True)
class ConvergenceOptions:
    """The options of ``--convergence`` as written; what was not given is ``None``."""

    dataset: str | None
    target_accuracy: str | None
    max_epochs: int | None
    seeds: int | None
    jobs: int | None
    optimizer: str | None
    learning_rate: float | None


def refuse_training(training: ConvergenceOptions) -> None:
    """Refuse options of training where nothing is trained.

    Raises:
        InputError: one is given.
    """
    for field in fields(training):
        if getattr(training, field.name) is not None:
            option = f"--{field.name.replace('_', '-')}"
            raise InputError(
                f"{option} is for --convergence, which is not given", f"add --convergence, or drop {option}"
            )


def train(
    asked: ProfileCommandOptions,
    training: ConvergenceOptions,
    given: Mapping[str, object],
    *,
    first_seed: int,
    screen: Screen,
) -> None:
    """Train every run and write the table.

    Args:
        asked: What ``edgetune profile`` was asked for.
        training: The options of training.
        given: Options of measuring by name, which training has no use for.
        first_seed: The seeds count from it.
        screen: For notes and progress.

    Raises:
        InputError: an option that has no use here or cannot be used.
        PartialError: after writing, a target that nothing reached.
        typer.Exit: with 5 when some runs failed.
    """
    from edgetune.cli.convergence_report import report, report_plan
    from edgetune.cli.run_convergence import train_missing

    _refuse_measuring(asked, given)
    proxy = _proxy(asked, training)
    sizes = parse_batch_sizes(asked.subject.batch_sizes or _DEFAULT_SIZES)
    seeds = range(first_seed, first_seed + (training.seeds or _DEFAULT_SEEDS))
    tasks = [(size, seed) for seed in seeds for size in sizes]
    jobs = min(training.jobs or _default_jobs(proxy.device), len(tasks))
    if asked.dry_run:
        report_plan(proxy, tasks, jobs, json=asked.json)
        return
    name = f"{proxy.workload.name.replace(':', '-')}-{proxy.dataset.name}-convergence.parquet"
    target = choose_target(asked.output, name, resumes=True, json=asked.json)
    target.check("convergence")
    table = train_missing(proxy, tasks, target, jobs=jobs, fresh=asked.fresh, screen=screen)
    report(table, target, screen, json=asked.json)


def _refuse_measuring(asked: ProfileCommandOptions, given: Mapping[str, object]) -> None:
    if asked.subject.task == "infer":
        raise InputError("--convergence trains, and --task is infer", "leave --task out")
    others = {"--modes": asked.subject.modes, "--ops": asked.subject.ops, **given}
    for option, value in others.items():
        if value:
            message = f"{option} is for measuring: how many epochs a training takes depends on no device"
            raise InputError(message, f"leave {option} out, or --convergence")


def _proxy(asked: ProfileCommandOptions, training: ConvergenceOptions) -> Proxy:
    """Return what is to be trained, its data set loaded and everything checked.

    Raises:
        InputError: something cannot be used as asked.
    """
    from edgetune.profiling.convergence.datasets import load_dataset
    from edgetune.profiling.convergence.options import TrainingOptions, check_sizes
    from edgetune.profiling.convergence.proxies import resolve_proxy
    from edgetune.profiling.convergence.proxy import Proxy

    workload, device = resolve_proxy(asked.subject.model), _torch_device(asked.device)
    sizes = parse_batch_sizes(asked.subject.batch_sizes or _DEFAULT_SIZES)
    reference = training.dataset or _DEFAULT_DATASET
    dataset = load_dataset(reference)
    options = TrainingOptions(
        target_accuracy=_target_accuracy(training.target_accuracy, reference),
        max_epochs=training.max_epochs or _DEFAULT_EPOCHS,
        optimizer=training.optimizer or "adam",
        learning_rate=1e-3 if training.learning_rate is None else training.learning_rate,
    )
    check_sizes(sizes, dataset, options)
    return Proxy(workload, dataset, _absolute(reference, dataset), options, device)


def _absolute(reference: str, dataset: Dataset) -> str:
    return reference if dataset.sha256 is None else str(Path(reference).resolve())


def _target_accuracy(text: str | None, reference: str) -> float:
    from edgetune.profiling.convergence.datasets import DRAWN

    if text is not None:
        return parse_share(text, what="--target-accuracy")
    if reference not in DRAWN:
        raise InputError(f"which accuracy is good enough on {reference} is not said", "e.g. --target-accuracy 90%")
    return DRAWN[reference].target_accuracy


def _torch_device(name: str) -> str:
    """Return the PyTorch device that a device's name stands for.

    Raises:
        InputError: a simulated or recorded device, on which nothing can be trained.
    """
    kind, _, number = name.partition(":")
    if name in ("auto", "host", "cpu"):
        return "auto" if name == "auto" else "cpu"
    if kind in ("nvidia", "cuda") and (number.isdigit() or not number):
        return f"cuda:{number or 0}"
    raise InputError(f"--convergence really trains, which {name} cannot", "--device auto, host or nvidia:0")


def _default_jobs(device: str) -> int:
    from edgetune.devices.cpu import usable_cpus

    cores = len(usable_cpus()) or os.cpu_count() or 1
    return min(cores, _GPU_JOBS) if device.startswith("cuda") else cores

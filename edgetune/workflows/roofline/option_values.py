"""Choices derived from the options of ``edgetune roofline``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from edgetune.artifacts.ops import OpsTable
from edgetune.artifacts.profile import Task
from edgetune.devices.device import Device, LiveSource, TableSource
from edgetune.devices.sysfs import Sysfs
from edgetune.errors import InputError
from edgetune.stages.roofline.kernel_plan import memory_of
from edgetune.workflows.parse_options import parse_batch_axes, parse_batch_sizes, parse_dimensions, parse_task
from edgetune.workflows.reporting import Reporter
from edgetune.workflows.roofline.answers import contexts_of, rows_of_server
from edgetune.workflows.roofline.options import NetworkOptions, RooflineOptions
from edgetune.workflows.roofline.phases import operating_points
from edgetune.workloads.llm import PREFIX
from edgetune.workloads.resolve import resolve
from edgetune.workloads.workload import Workload


def task_of(opts: NetworkOptions) -> Task:
    """Return the task of ``--task`` and ``--train``; without either, ``infer``.

    Raises:
        InputError: They contradict each other, or there is no such task.
    """
    if opts.train and opts.task not in (None, "train"):
        raise InputError(f"--train and --task {opts.task} contradict each other", "give one of them")
    return parse_task("train" if opts.train else opts.task or "infer")


def workload_of(opts: RooflineOptions) -> Workload:
    """Return the network that the options name."""
    assert opts.model is not None
    return resolve(opts.model, parse_batch_axes(opts.batch_axis))


def sizes_of(opts: RooflineOptions) -> tuple[int, ...]:
    """Return the batch sizes; 1 where the options give none."""
    return parse_batch_sizes(opts.batch_sizes or "1")


def dimensions_asked(opts: RooflineOptions) -> tuple[dict[str, int], ...]:
    """Return the dimensions of every requested operating point; only a language model has several.

    Raises:
        InputError: a phase or context is invalid or the network is no language model, or there are several operating
            points while the measurements or the plan have one.
    """
    if opts.model is None:
        if opts.phase is not None or opts.context is not None:
            raise InputError(
                "--phase and --context are for a language model, and none is named", "e.g. llm:config.json"
            )
        return ({},)
    dimensions = parse_dimensions(opts.dim)
    answers = () if opts.profile is None or not opts.model.startswith(PREFIX) else rows_of_server(opts.profile)
    points = operating_points(workload_of(opts), dimensions, opts.phase, opts.context or contexts_of(answers))
    single = {"--tune": opts.tune, "--profile": opts.profile}
    option = next((name for name, value in single.items() if value is not None), None)
    if len(points) > 1 and option is not None and not answers:
        raise InputError(
            f"{option} is for one operating point of a language model, and {len(points)} are asked",
            "choose one, e.g. --phase decode --context 2048",
        )
    return points


def dimension_words(table: OpsTable, opts: RooflineOptions) -> tuple[str, ...]:
    """Return the dimensions of the operating point that a table costs, as --dim writes them."""
    found = table.header.conditions.get("dimensions")
    return tuple(f"{name}={size}" for name, size in found.items()) if isinstance(found, dict) else tuple(opts.dim)


def what_can_run(opts: RooflineOptions, device: Device, reporter: Reporter) -> RooflineOptions:
    """Return the options, with measuring disabled and a note for a configuration without weights on a real device."""
    configured = opts.model is not None and opts.model.startswith(PREFIX)
    if not configured or not isinstance(device.source, LiveSource) or opts.no_measure or opts.profile is not None:
        return opts
    reporter.info(
        f"note: {opts.model} has no weights to run, so that no time is measured; an ONNX export of it would be"
    )
    return replace(opts, no_measure=True)


def memory_known(device: Device, opts: RooflineOptions) -> int | None:
    """Return the memory of the device, bytes; ``None`` where it is unknown."""
    return memory_of(device, None if opts.root is None else Sysfs(Path(opts.root)))


def is_table(device: Device) -> bool:
    """Return whether the device is a table, whose look-ups repeat exactly and include power."""
    return isinstance(device.source, TableSource)

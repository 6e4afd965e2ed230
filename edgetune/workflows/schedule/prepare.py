"""Splits networks into layers: ``edgetune schedule prepare``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from edgetune.choices import choose
from edgetune.errors import InputError
from edgetune.units import parse_bytes
from edgetune.workflows.parse_options import choose_batch_sizes, parse_batch_axes, parse_dimensions, parse_inputs
from edgetune.workflows.reporting import Reporter
from edgetune.workflows.schedule.options import PreparationOptions
from edgetune.workflows.stopping import reporting_saved
from edgetune.workloads.partition import prepare as partition
from edgetune.workloads.partition.check import PrepareOptions, planned_weight_bytes
from edgetune.workloads.partition.optimised import LEVELS
from edgetune.workloads.prepared import Prepared
from edgetune.workloads.resolve import resolve
from edgetune.workloads.workload import Workload

COPIES = 3
"""The weights are stored by layer and in two forms of the whole network."""


@dataclass(frozen=True, slots=True)
class PlannedFolder:
    """A network to prepare.

    Args:
        network: Its name.
        folder: Its folder.
        weight_bytes: Size of all its weights.
    """

    network: str
    folder: Path
    weight_bytes: int

    @property
    def disk_bytes(self) -> int:
        """Approximate size of the folder."""
        return COPIES * self.weight_bytes


def prepare(opts: PreparationOptions, reporter: Reporter) -> list[Prepared]:
    """Split every network that is not prepared yet, and return all.

    Raises:
        InputError: an option is invalid, or a network cannot be split.
        DeviceError: ONNX Runtime is missing.
    """
    chosen = _chosen(opts, reporter)
    kept = f"networks prepared by now are in {opts.output}, and the same command goes on"
    with reporting_saved(reporter, lambda: kept):
        return [_prepared(workload, rules, opts, reporter) for workload, rules in chosen]


def plan_preparation(opts: PreparationOptions, reporter: Reporter) -> list[PlannedFolder]:
    """Return the folders to write."""
    return [
        PlannedFolder(
            each.name,
            Path(opts.output) / each.name,
            planned_weight_bytes(each, batch_size=rules.batch_size, dimensions=rules.dimensions),
        )
        for each, rules in _chosen(opts, reporter)
    ]


def _chosen(opts: PreparationOptions, reporter: Reporter) -> list[tuple[Workload, PrepareOptions]]:
    """Return each network with its options: the requested batch size, else that of its file."""
    common = _options(opts)
    workloads = _workloads(opts)
    if not opts.output.strip():
        raise InputError("-o names no folder", "e.g. -o prepared")
    if Path(opts.output).is_file():
        raise InputError(f"-o: {opts.output} is a file, not a folder", "name a folder, e.g. -o prepared")
    found = []
    for workload in workloads:
        sizes = [opts.batch_size] if opts.batch_size else []
        (size,), batch = choose_batch_sizes(
            workload, sizes, dimensions=common.dimensions, inputs=common.inputs, use="prepared"
        )
        if batch is not None:
            reporter.info(batch)
        found.append((workload, replace(common, batch_size=size, batch_axes=workload.batch_axes)))
    return found


def _options(opts: PreparationOptions) -> PrepareOptions:
    level: Any = choose(opts.optimise, LEVELS, what="level of --optimise")
    split_bytes = None if opts.split is None else parse_bytes(opts.split, what="the size of --split")
    if split_bytes is not None and opts.whole:
        raise InputError("--whole does not split, and --split does", "leave one of them out")
    inputs = parse_inputs(opts.inputs)
    if inputs is not None and len(opts.models) > 1:
        raise InputError("--inputs is of one network", "prepare the networks one by one")
    return PrepareOptions(1, parse_dimensions(opts.dim), level, split_bytes, opts.whole, inputs=inputs)


def _workloads(opts: PreparationOptions) -> Sequence[Workload]:
    """Return the models as workloads, and refuse two with the same folder."""
    batch_axes = parse_batch_axes(opts.batch_axis)
    found: dict[str, Workload] = {}
    for model in opts.models:
        workload = resolve(model, batch_axes)
        if workload.name in found:
            raise InputError(
                f"{found[workload.name].reference} and {model} are both named {workload.name!r}",
                "prepare them into two folders with -o, or rename a file",
            )
        found[workload.name] = workload
    return list(found.values())


def _prepared(workload: Workload, rules: PrepareOptions, opts: PreparationOptions, reporter: Reporter) -> Prepared:
    target = Path(opts.output) / workload.name
    found = None if opts.fresh else partition.kept(workload, rules, target)
    if found is not None:
        reporter.info(f"kept {target}")
        return found
    reporter.info(f"splitting {workload.reference}")
    with reporter.bar(f"splitting {workload.name}", None):
        made = partition.prepare(workload, rules, target)
    reporter.info(f"wrote {target}")
    return made

"""``edgetune schedule prepare``: networks split into layers, once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgetune.cli import options

if TYPE_CHECKING:
    from edgetune.cli.screen import Screen
    from edgetune.workloads.batch import Axes
    from edgetune.workloads.partition.check import PrepareOptions
    from edgetune.workloads.prepared import Prepared
    from edgetune.workloads.workload import Workload

COPIES = 3
"""The weights are stored by layer and in two forms of the whole network."""

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def prepare(
    models: Annotated[list[str], typer.Argument(metavar="MODEL...", help="ONNX files, or zoo:NAME.")],
    *,
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="DIR", help="Each network goes into a folder of its name there.")
    ] = "prepared",
    batch_size: Annotated[
        int | None,
        typer.Option(
            "--batch-size", "-b", min=1, metavar="N", help="Samples per request. Default: as exported, else 1."
        ),
    ] = None,
    batch_axis: options.BatchAxis = None,
    dim: options.Dim = None,
    split: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Split fully connected layers and tables larger than this, e.g. 32MiB."),
    ] = None,
    optimise: Annotated[
        str,
        typer.Option(
            metavar="LEVEL",
            help="all: for this kind of processor; extended: for any; basic: standard operators only, slower.",
        ),
    ] = "all",
    whole: Annotated[bool, typer.Option("--whole", help="Do not split: one layer for the whole network.")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Replace what was prepared before.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be written, and write nothing.")] = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Split networks into layers once: a graph and a file of weights for each, and a manifest.

    A layer is an operator with weights and those without that follow it. Its weights are loaded when it is scheduled,
    and given back. Networks that are there already, from the same model with the same options, are kept. The layers
    are checked against the whole network on random inputs before they are put in place.
    """
    from edgetune.cli.screen import Screen
    from edgetune.errors import InputError
    from edgetune.workflows.batch_choice import parse_batch_axes
    from edgetune.workflows.stopping import reporting_saved

    screen = Screen(quiet)
    common = _options(dim, split, optimise, whole=whole)
    workloads = _workloads(models, parse_batch_axes(batch_axis or ()))
    if not output.strip():
        raise InputError("-o names no folder", "e.g. -o prepared")
    if dry_run:
        _report_plan(workloads, _each(workloads, common, batch_size, screen), Path(output), json=json)
        return
    each = zip(workloads, _each(workloads, common, batch_size, screen), strict=True)
    with reporting_saved(screen, lambda: f"networks prepared by now are in {output}, and the same command goes on"):
        found = [
            _prepared(workload, asked, Path(output) / workload.name, screen, fresh=fresh) for workload, asked in each
        ]
    show(found, json=json)


def _each(
    workloads: Sequence[Workload], common: PrepareOptions, batch_size: int | None, screen: Screen
) -> list[PrepareOptions]:
    """Return the options of each network: the batch size asked for, else that of its file."""
    from edgetune.workflows.batch_choice import choose_batch_sizes

    found = []
    for workload in workloads:
        (size,), batch = choose_batch_sizes(
            workload, [batch_size] if batch_size else [], task="infer", dimensions=common.dimensions, use="prepared"
        )
        if batch is not None:
            screen.info(batch)
        found.append(replace(common, batch_size=size, batch_axes=workload.batch_axes))
    return found


def _options(dim: Sequence[str] | None, split: str | None, optimise: str, *, whole: bool) -> PrepareOptions:
    from edgetune.choices import choose
    from edgetune.errors import InputError
    from edgetune.units import parse_bytes
    from edgetune.workflows.parse_options import parse_dimensions
    from edgetune.workloads.partition.check import PrepareOptions
    from edgetune.workloads.partition.optimised import LEVELS

    level: Any = choose(optimise, LEVELS, what="level of --optimise")
    split_bytes = None if split is None else parse_bytes(split, what="the size of --split")
    if split_bytes is not None and whole:
        raise InputError("--whole does not split, and --split does", "leave one of them out")
    return PrepareOptions(1, parse_dimensions(dim or ()), level, split_bytes, whole)


def _workloads(models: Sequence[str], batch_axes: Axes | None) -> list[Workload]:
    """Return what the models are; no two may share a folder."""
    from edgetune.errors import InputError
    from edgetune.workloads.resolve import resolve

    found: dict[str, Workload] = {}
    for model in models:
        workload = resolve(model, batch_axes)
        if workload.name in found:
            raise InputError(
                f"{found[workload.name].reference} and {model} are both named {workload.name!r}",
                "prepare them into two folders with -o, or rename a file",
            )
        found[workload.name] = workload
    return list(found.values())


def _prepared(workload: Workload, asked: PrepareOptions, target: Path, screen: Screen, *, fresh: bool) -> Prepared:
    from edgetune.workloads.partition.prepare import kept, prepare

    found = None if fresh else kept(workload, asked, target)
    if found is not None:
        screen.info(f"kept {target}")
        return found
    screen.info(f"splitting {workload.reference}")
    made = prepare(workload, asked, target)
    screen.info(f"wrote {target}")
    return made


def _report_plan(workloads: Sequence[Workload], options: Sequence[PrepareOptions], folder: Path, *, json: bool) -> None:
    from edgetune.cli.screen import answer, table
    from edgetune.units import format_bytes
    from edgetune.workloads.partition.check import planned_weight_bytes

    sizes = [
        planned_weight_bytes(each, batch_size=asked.batch_size, dimensions=asked.dimensions)
        for each, asked in zip(workloads, options, strict=True)
    ]
    if json:
        answer(
            [
                {"network": w.name, "folder": str(folder / w.name), "weight_bytes": size, "disk_bytes": COPIES * size}
                for w, size in zip(workloads, sizes, strict=True)
            ]
        )
        return
    rows = [
        (w.name, folder / w.name, format_bytes(size), format_bytes(COPIES * size))
        for w, size in zip(workloads, sizes, strict=True)
    ]
    table(("network", "folder", "weights>", "on disk about>"), rows)


def show(found: Sequence[Prepared], *, json: bool) -> None:
    """Print what each network takes, as layers."""
    from edgetune.cli.screen import answer, table
    from edgetune.units import format_bytes

    rows = [_figures(each) for each in found]
    if json:
        answer(rows)
        return
    table(
        ("network", "layers>", "weights>", "largest layer>", "least budget>", "differs by at most>"),
        [
            (
                row["network"],
                row["layers"],
                *(format_bytes(row[key]) for key in ("weight_bytes", "largest_layer_bytes", "least_budget_bytes")),
                None if row["difference"] is None else f"{row['difference']:.1e}",
            )
            for row in rows
        ],
    )


def _figures(prepared: Prepared) -> dict[str, Any]:
    from edgetune.schedule.costs import network_of
    from edgetune.schedule.network import least_budget_bytes

    return {
        "network": prepared.network,
        "folder": str(prepared.folder),
        "layers": len(prepared.layers),
        "weight_bytes": prepared.weight_bytes,
        "largest_layer_bytes": max(layer.weight_bytes for layer in prepared.layers),
        "least_budget_bytes": least_budget_bytes(network_of(prepared)),
        "difference": prepared.difference,
    }

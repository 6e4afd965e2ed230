"""From the options of ``edgetune schedule profile`` to a table of layer costs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from edgetune.cli.layer_costs_report import brief, show_networks
from edgetune.cli.progress import simple_bar
from edgetune.cli.screen import Screen, answer, print_lines
from edgetune.errors import ExitCode, InputError
from edgetune.units import format_duration, format_si, parse_share, parse_time_s
from edgetune.workflows.load_warning import warn_of_host_load
from edgetune.workflows.output import check_outputs, choose_target
from edgetune.workflows.stopping import reporting_saved

if TYPE_CHECKING:
    from edgetune.artifacts.layer_costs import LayerCostRow, LayerCosts
    from edgetune.schedule.measure import LayerOptions
    from edgetune.workloads.prepared import Prepared

_DEFAULT_NAME = "costs.parquet"
_MOST_SAMPLES = 50
"""Of a figure whose interval stays wide: a busy machine, on which more would not help."""


def layer_options(
    target_ci: str, repeats: int | None, layer_timeout: str, *, cold: bool, whole: bool, seed: int
) -> LayerOptions:
    """Return how layers are to be measured.

    Raises:
        InputError: no share, or no time.
    """
    from edgetune.schedule.measure import LayerOptions
    from edgetune.stats import StoppingRule

    target = parse_share(target_ci, what="--target-ci")
    timeout_s = parse_time_s(layer_timeout, what="--layer-timeout")
    if not 0 < target < 1:
        raise InputError(f"--target-ci is {target_ci}", "a share above 0 and below 100 %, e.g. 5%")
    if timeout_s <= 0:
        raise InputError(f"--layer-timeout is {layer_timeout}", "e.g. 5m")
    return LayerOptions(
        StoppingRule(target=target, maximum=_MOST_SAMPLES, fixed=repeats), timeout_s=timeout_s, cold=cold, whole=whole,
        seed=seed,
    )  # fmt: skip


def run_layer_profile(
    models: Sequence[str],
    asked: LayerOptions,
    output: str | None,
    folder: str | None,
    *,
    dry_run: bool,
    json: bool,
    screen: Screen,
) -> None:
    """Measure every layer of every network and write the table.

    Raises:
        typer.Exit: with 5 when some layers failed.
    """
    if dry_run:
        _report_plan(_opened(models, folder, screen), asked, json=json)
        return
    target = choose_target(output, _DEFAULT_NAME, json=json)
    check_outputs({"-o": target.file}, models, {"-o": "layer_costs"})
    with reporting_saved(screen, lambda: "nothing is kept: the table is written when all layers are measured"):
        networks = _opened(models, folder, screen)
        warn_of_host_load(screen)
        costs = _measure(networks, asked, screen)
    target.write(costs)
    target.report(screen)
    if json:
        answer({"file": str(target.path or "-"), "rows": [brief(row) for row in costs.rows]})
    if not screen.quiet:
        show_networks(costs, stream=sys.stderr)
    failed = [row for row in costs.rows if row.status != "ok"]
    if failed:
        first = failed[0]
        screen.info(f"{len(failed)} of {len(costs.rows)} layers failed; {first.network}/{first.layer}: {first.reason}")
        raise typer.Exit(ExitCode.PARTIAL)


def _opened(models: Sequence[str], folder: str | None, screen: Screen) -> list[Prepared]:
    """Return the prepared networks that were named, each once; a model is prepared where it is not yet.

    Raises:
        InputError: a folder without any, two networks of one name, or layers that were made for another ONNX Runtime or
            processor.
    """
    from edgetune.cli.schedule_networks import open_reference
    from edgetune.workflows.cache_folder import prepared_folder
    from edgetune.workloads.kernel_steps import processor_kind
    from edgetune.workloads.partition.optimised import runtime_version
    from edgetune.workloads.prepared import check_runtime, is_prepared, open_prepared
    from edgetune.workloads.resolve import names_path

    where = Path(folder) if folder is not None else prepared_folder()
    found: dict[str, Prepared] = {}
    for model in models:
        path = Path(model)
        if names_path(model) and path.is_dir() and not is_prepared(path):
            inside = [open_prepared(each) for each in sorted(path.iterdir()) if is_prepared(each)]
            if not inside:
                raise InputError(
                    f"{path} holds no prepared network", "edgetune schedule prepare MODEL -o DIR makes one"
                )
        else:
            one = open_reference(model, where, screen, make=True)
            inside = [one] if one is not None else []
        for each in inside:
            other = found.setdefault(each.network, each)
            if other.folder.resolve() != each.folder.resolve():
                message = f"{other.folder} and {each.folder} both hold a network {each.network!r}"
                raise InputError(message, "measure them into two tables")
            check_runtime(each, runtime_version(), processor_kind())
    return list(found.values())


def _report_plan(networks: Sequence[Prepared], asked: LayerOptions, *, json: bool) -> None:
    """Print what would be measured and for how long at the most."""
    layers = sum(len(network.layers) for network in networks)
    loads = 2 if asked.cold else 1
    figures = sum(1 + loads * bool(each.weights) for network in networks for each in network.layers)
    figures += loads * sum(len(network.whole) for network in networks) * asked.whole
    longest_s = figures * asked.longest_s
    if json:
        named = [{"network": each.network, "layers": len(each.layers)} for each in networks]
        answer({"networks": named, "layers": layers, "figures": figures, "longest_s": longest_s})
        return
    for each in networks:
        print_lines(f"{each.network}: {len(each.layers)} layers")
    long = "as long as the samples take" if asked.rule.fixed else f"{format_duration(longest_s)} or less"
    print_lines(f"{figures} figures of {layers} layers; time {long}")


def _measure(networks: Sequence[Prepared], asked: LayerOptions, screen: Screen) -> LayerCosts:
    from edgetune.artifacts.header import Header
    from edgetune.artifacts.layer_costs import KIND, VERSION, LayerCosts
    from edgetune.schedule.measure import measure_machine, measure_network
    from edgetune.workflows.device_option import open_named

    rows: list[LayerCostRow] = []
    total = sum(len(network.layers) + len(network.whole) * asked.whole for network in networks)
    with _watched(total, screen) as on_layer:
        for network in networks:
            rows += measure_network(network, asked, on_layer)
    conditions = {
        **open_named("host").conditions,
        "device": "host",
        "simulated": False,
        "threads": 1,
        "runtime": networks[0].runtime,
        "options": asdict(asked),
        "machine": measure_machine(networks, asked),
    }
    inputs = [
        {"name": n.network, "reference": n.reference, "sha256": n.source_sha256, "batch_size": n.batch_size}
        for n in networks
    ]
    header = Header.new(KIND, VERSION, inputs={"networks": inputs}, conditions=conditions)
    return LayerCosts(header, tuple(rows))


@contextmanager
def _watched(total: int, screen: Screen) -> Iterator[Callable[[LayerCostRow], None]]:
    """Return what to tell each layer to: a bar on a terminal, a line with --verbose."""
    done = 0

    def tell(row: LayerCostRow) -> None:
        nonlocal done
        done += 1
        said = row.reason if row.execute_s is None else f"executes in {format_si(row.execute_s, 's')}"
        screen.detail(f"{done} of {total}: {row.network}/{row.layer}: {said}")

    with simple_bar(screen, "measuring", total) as advance:

        def show(row: LayerCostRow) -> None:
            if advance is not None:
                advance(1, f"{row.network}/{row.layer}")
            tell(row)

        yield show

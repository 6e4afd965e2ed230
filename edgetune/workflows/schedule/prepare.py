"""Splits networks into layers: ``edgetune schedule prepare``.

Measures the layers of prepared networks: ``edgetune schedule profile``.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from edgetune.artifacts.header import Header
from edgetune.artifacts.layer_costs import KIND, VERSION, LayerCostRow, LayerCosts
from edgetune.choices import choose
from edgetune.errors import InputError
from edgetune.processes.user_folders import prepared_folder
from edgetune.stages.schedule.costs import LayerOptions, measure_machine, measure_network, network_of
from edgetune.stages.schedule.network import least_budget_bytes
from edgetune.stats import StoppingRule
from edgetune.units import format_duration, format_si, parse_bytes
from edgetune.workflows.device_option import open_named, warn_of_host_load
from edgetune.workflows.output import Target, check_outputs, choose_target
from edgetune.workflows.parse_options import choose_batch_sizes, parse_batch_axes, parse_dimensions, parse_inputs
from edgetune.workflows.reporting import Reporter, reporting_saved
from edgetune.workflows.schedule.networks import open_reference
from edgetune.workflows.schedule.options import LayerProfileOptions, PreparationOptions
from edgetune.workloads.partition import prepare as partition
from edgetune.workloads.partition.check import PrepareOptions, planned_weight_bytes
from edgetune.workloads.partition.optimised import LEVELS, runtime_version
from edgetune.workloads.prepared import Prepared, check_runtime, is_prepared, open_prepared, processor_kind
from edgetune.workloads.resolve import names_path, resolve
from edgetune.workloads.workload import Workload

COPIES = 3
"""The weights are stored by layer and in two forms of the whole network."""


def prepare(opts: PreparationOptions, reporter: Reporter) -> list[dict[str, Any]]:
    """Split every network that is not prepared yet, and return the figures of all.

    Raises:
        InputError: an option is invalid, or a network cannot be split.
        DeviceError: ONNX Runtime is missing.
    """
    chosen = _chosen(opts, reporter)
    kept = f"networks prepared by now are in {opts.output}, and the same command goes on"
    with reporting_saved(reporter, lambda: kept):
        found = [_prepared(workload, rules, opts, reporter) for workload, rules in chosen]
    return [
        {
            "network": each.network, "folder": str(each.folder), "layers": len(each.layers),
            "weight_bytes": each.weight_bytes,
            "largest_layer_bytes": max(layer.weight_bytes for layer in each.layers),
            "least_budget_bytes": least_budget_bytes(network_of(each)), "difference": each.difference,
            "check_peak_bytes": each.check_peak_bytes,
        }
        for each in found
    ]  # fmt: skip


def plan_preparation(opts: PreparationOptions, reporter: Reporter) -> list[dict[str, Any]]:
    """Return the folders to write, with the size of their weights, which are stored ``COPIES`` times."""
    found = []
    for each, rules in _chosen(opts, reporter):
        size_bytes = planned_weight_bytes(each, batch_size=rules.batch_size, dimensions=rules.dimensions)
        sizes = {"weight_bytes": size_bytes, "disk_bytes": COPIES * size_bytes}
        found.append({"network": each.name, "folder": str(Path(opts.output) / each.name), **sizes})
    return found


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


_DEFAULT_NAME = "costs.parquet"
_TARGET_CI = 0.05
"""Sampling stops when the median is known this well (95 % interval), or after a second."""
_MOST_SAMPLES = 50
"""Of a figure whose interval stays wide: a busy machine, on which more would not help."""


def profile_layers(opts: LayerProfileOptions, reporter: Reporter) -> tuple[LayerCosts, Target]:
    """Measure every layer of every network and write the table; return the table and its target.

    Raises:
        InputError: an option is invalid, or a model cannot be split.
        DeviceError: ONNX Runtime is missing.
    """
    rules = _layer_options(opts)
    target = choose_target(opts.output, _DEFAULT_NAME, stdout=reporter.stdout)
    check_outputs({"-o": target.file}, opts.models, {"-o": "layer_costs"})
    with reporting_saved(reporter, lambda: "nothing is kept: the table is written when all layers are measured"):
        networks = _opened(opts, reporter)
        warn_of_host_load(reporter)
        costs = _measure(networks, rules, reporter)
    target.write(costs)
    target.report(reporter)
    return costs, target


def plan_layer_profile(opts: LayerProfileOptions, reporter: Reporter) -> tuple[dict[str, Any], list[str]]:
    """Return the networks to measure, the number of figures and the most time this takes; and the same in words."""
    rules = _layer_options(opts)
    networks = _opened(opts, reporter)
    loads = 2 if rules.cold else 1
    figures = sum(1 + loads * bool(each.weights) for network in networks for each in network.layers)
    named = [{"network": each.network, "layers": len(each.layers)} for each in networks]
    layers, longest_s = sum(len(each.layers) for each in networks), figures * rules.longest_s
    long = "as long as the samples take" if rules.rule.fixed else f"{format_duration(longest_s)} or less"
    words = [*(f"{each['network']}: {each['layers']} layers" for each in named),
             f"{figures} figures of {layers} layers; time {long}"]  # fmt: skip
    return {"networks": named, "layers": layers, "figures": figures, "longest_s": longest_s}, words


def _layer_options(opts: LayerProfileOptions) -> LayerOptions:
    rule = StoppingRule(target=_TARGET_CI, maximum=_MOST_SAMPLES, fixed=opts.repeats)
    return LayerOptions(rule, cold=opts.cold, seed=opts.seed)


def _opened(opts: LayerProfileOptions, reporter: Reporter) -> list[Prepared]:
    """Return the named networks, each once, prepared if necessary.

    Raises:
        InputError: a folder has no network, two networks have one name, or layers were made for another ONNX Runtime
            or processor.
    """
    where = Path(opts.prepared) if opts.prepared is not None else prepared_folder()
    found: dict[str, Prepared] = {}
    for model in opts.models:
        path = Path(model)
        if names_path(model) and path.is_dir() and not is_prepared(path):
            inside = [open_prepared(each) for each in sorted(path.iterdir()) if is_prepared(each)]
            if not inside:
                raise InputError(
                    f"{path} holds no prepared network", "edgetune schedule prepare MODEL -o DIR makes one"
                )
        else:
            one = open_reference(model, where, reporter, make=True)
            inside = [one] if one is not None else []
        for each in inside:
            other = found.setdefault(each.network, each)
            if other.folder.resolve() != each.folder.resolve():
                message = f"{other.folder} and {each.folder} both hold a network {each.network!r}"
                raise InputError(message, "measure them into two tables")
            check_runtime(each, runtime_version(), processor_kind())
    return list(found.values())


def _measure(networks: Sequence[Prepared], rules: LayerOptions, reporter: Reporter) -> LayerCosts:
    rows: list[LayerCostRow] = []
    total = sum(len(network.layers) for network in networks)
    with _watched(total, reporter) as on_layer:
        for network in networks:
            rows += measure_network(network, rules, on_layer)
    conditions = {
        **open_named("host").conditions, "device": "host", "simulated": False, "threads": 1,
        "runtime": networks[0].runtime, "options": asdict(rules), "machine": measure_machine(networks, rules),
    }  # fmt: skip
    inputs = [
        {"name": n.network, "reference": n.reference, "sha256": n.source_sha256, "batch_size": n.batch_size}
        for n in networks
    ]
    header = Header.new(KIND, VERSION, inputs={"networks": inputs}, conditions=conditions)
    return LayerCosts(header, tuple(rows))


@contextmanager
def _watched(total: int, reporter: Reporter) -> Iterator[Callable[[LayerCostRow], None]]:
    """Return a function that reports each measured layer as a detail and, if there is one, on a bar."""
    done = 0
    with reporter.bar("measuring", total) as advance:

        def show(row: LayerCostRow) -> None:
            nonlocal done
            done += 1
            if advance is not None:
                advance(1, f"{row.network}/{row.layer}")
            said = row.reason if row.execute_s is None else f"executes in {format_si(row.execute_s, 's')}"
            reporter.detail(f"{done} of {total}: {row.network}/{row.layer}: {said}")

        yield show

"""Checks the options of ``edgetune roofline`` against each other and the device, before anything is measured.

Estimates the measurements of ``edgetune roofline`` and their maximum duration.

Computes the cost of each operator of a network.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.ops import OpsTable, ledger
from edgetune.choices import choose
from edgetune.devices.capabilities import Absent
from edgetune.devices.device import Device
from edgetune.errors import InputError
from edgetune.plotting.page import require_drawing
from edgetune.stages.roofline.clocks import HOST_KNOBS
from edgetune.stages.roofline.measure import LONGEST_RUN_S, REPETITIONS, buffer_limits_on, longest_idle_s, plan_kernels
from edgetune.stages.roofline.placement import beneath, operating_point, require_work
from edgetune.workflows.device_option import open_named
from edgetune.workflows.output import Target, check_outputs, choose_target
from edgetune.workflows.parse_options import (
    choose_batch_sizes,
    choose_modes,
    parse_batch_axes,
    parse_dimensions,
    parse_inputs,
    parse_precision,
)
from edgetune.workflows.reporting import Reporter
from edgetune.workflows.roofline.option_values import (
    dimension_words,
    dimensions_asked,
    sizes_of,
    task_of,
    with_phase,
    workload_of,
)
from edgetune.workflows.roofline.options import OpsOptions, RooflineOptions
from edgetune.workflows.roofline.peaks import kernel_precision
from edgetune.workloads.costs import operator_table
from edgetune.workloads.observed import Feed
from edgetune.workloads.resolve import resolve

PRECISIONS = ("fp32", "tf32", "fp16", "bf16", "fp8", "int8")


@dataclass(frozen=True, slots=True)
class Request:
    """The measurements of ``edgetune roofline``, with options checked against the device.

    Args:
        opts: The options, with the task and the batch sizes settled.
        device: The device that runs kernels and the network.
        tables: Operator tables of the network by the precision of their roof.
        target: The output of the roofline; ``None`` for none.
        modes: The modes to measure peaks in, the highest first; none for ``--tune``, which chooses its own.
    """

    opts: RooflineOptions
    device: Device
    tables: Mapping[str, tuple[OpsTable, ...]]
    target: Target | None
    modes: tuple[Mode, ...]

    @property
    def kernel_precisions(self) -> list[str]:
        """The precisions to measure peaks in: those of the roofs and those of operators."""
        found = dict.fromkeys(self.tables)
        covered = {beneath(each) for each in found}
        for table in (table for of_network in self.tables.values() for table in of_network):
            for each in map(beneath, table.precisions[1:]):
                if each not in covered:
                    covered.add(each)
                    found[kernel_precision(self.device, each)] = None
        return list(found)

    @property
    def tuned(self) -> tuple[str, OpsTable]:
        """The precision of the roof and the operator table of the network to tune.

        Raises:
            InputError: There is no network.
        """
        precision, tables = next(iter(self.tables.items()))
        if not tables:
            raise InputError("--tune needs a network", "e.g. edgetune roofline zoo:resnet18 --tune 5%")
        return precision, tables[0]


def request_of(opts: RooflineOptions, reporter: Reporter) -> Request:
    """Check the options, open the device and compute the network's cost, without measuring.

    Raises:
        InputError: The network, the modes, the precisions or the figure are invalid.
        DeviceError: The device is absent.
    """
    words = () if opts.precision is None else opts.precision.split(",")
    precisions = tuple(dict.fromkeys(choose(word.strip(), PRECISIONS, what="precision") for word in words))
    opts = _settled(opts, reporter)
    target = _check_words(opts, precisions)
    device = open_named(opts.device or "auto", opts.root, seed=opts.seed)
    tables = _tables_by_roof(opts, device, precisions)
    modes = () if opts.tune is not None else highest_first(choose_modes(device, opts.modes).modes)
    request = Request(opts, device, tables, target, modes)
    if opts.tune is None:
        return request
    return replace(request, opts=replace(opts, dim=dimension_words(request.tuned[1], opts)))


def _settled(opts: RooflineOptions, reporter: Reporter) -> RooflineOptions:
    """Return the options completed by the task and by valid batch sizes, by default that of the file."""
    task = task_of(opts)
    if opts.model is None:
        return replace(opts, task=task)
    sizes, batch = choose_batch_sizes(
        workload_of(opts), () if opts.batch_sizes is None else sizes_of(opts),
        dimensions=dimensions_asked(opts)[0], inputs=parse_inputs(opts.inputs),
    )  # fmt: skip
    if batch is not None:
        reporter.info(batch)
    return replace(opts, task=task, batch_sizes=sizes)


def _tables_by_roof(
    opts: RooflineOptions, device: Device, precisions: Sequence[str]
) -> dict[str, tuple[OpsTable, ...]]:
    """Return the operator tables of the network in each requested precision, by the precision of their roof.

    Without a precision, the network keeps its own types; without a network, there are none.
    """
    eager = device.conditions.get("runtime") == "eager-pytorch"
    if precisions:
        return {
            kernel_precision(device, each, precisions): network_tables(opts, beneath(each), eager=eager)
            for each in precisions
        }
    tables = network_tables(opts, None, eager=eager)
    return {kernel_precision(device, beneath(tables[0].precision) if tables else "fp32"): tables}


def highest_first(modes: Sequence[Mode]) -> tuple[Mode, ...]:
    """Return modes from the highest to the lowest: by the sum of their knobs, each as a share of its highest value.

    A mode with no knob below another's never comes after it. Knobs of the host only break ties, because they do not
    affect peaks of an accelerator; an unset knob counts as its highest value.
    """
    tops: dict[str, float] = {}
    for mode in modes:
        tops |= {knob: max(value, tops.get(knob, value)) for knob, value in mode.knobs().items()}

    def height(mode: Mode) -> tuple[float, float]:
        shares = {knob: mode.knobs().get(knob, top) / top for knob, top in tops.items()}
        of_host = sum(share for knob, share in shares.items() if knob in HOST_KNOBS)
        return sum(shares.values()) - of_host, of_host

    return tuple(sorted(modes, key=height, reverse=True))


def _check_words(opts: RooflineOptions, precisions: Sequence[str]) -> Target | None:
    """Refuse options that are invalid on every device, and return the roofline's target."""
    kinds = {"-o": "roofline" if opts.tune is None else "plan"}
    check_outputs({"-o": opts.output, "--plot": opts.plot}, (opts.model, opts.peaks, opts.profile), kinds)
    if opts.plot is not None:
        require_drawing(opts.plot)
    if opts.tune is not None:
        _check_tune(opts)
    if len(precisions) > 1:
        several = ", ".join(precisions)
        if opts.tune is not None:
            raise InputError(f"--tune is for one precision, and {several} are asked", "tune for each in turn")
        if opts.profile is not None:
            raise InputError(
                f"--profile has times of one precision, and {several} are asked", "place each precision in turn"
            )
    return None if opts.output is None else Target(None if opts.output == "-" else Path(opts.output))


def _check_tune(opts: RooflineOptions) -> None:
    """Refuse options that contradict --tune, which measures one network at one batch size and returns a plan.

    Raises:
        InputError: such an option is given.
    """
    options = {"--plot": opts.plot, "--profile": opts.profile, "--layers": opts.layers}
    beside = [option for option, value in {**options, "--no-measure": opts.no_measure}.items() if value]
    if beside:
        hint = "draw and place the network in a run of its own"
        raise InputError(f"--tune plans from its own measurements, and does not use {beside[0]}", hint)
    if len(sizes_of(opts)) > 1:
        raise InputError(f"--tune is for one batch size, and {len(sizes_of(opts))} are asked", "tune for each in turn")


def network_tables(opts: RooflineOptions, precision: str | None, *, eager: bool = False) -> tuple[OpsTable, ...]:
    """Return the operator table of the network at each batch size, and for a language model in each pass.

    Args:
        opts: What was asked for.
        precision: See ``operator_table``.
        eager: Whether an eager framework runs the network. Its parts of GELU, attention and the like are kernels then;
            those of training are not known, and the bounds of a language model are of any runtime.
    """
    points = dimensions_asked(opts)
    if opts.model is None:
        return ()

    workload, task, feed = workload_of(opts), task_of(opts), Feed(opts.inputs, opts.seed)

    def costed(size: int, dimensions: Mapping[str, int], *, apart: bool) -> OpsTable:
        return operator_table(
            workload, task, size, precision=precision, dimensions=dimensions, fused=opts.fused, eager=apart, feed=feed
        )

    tables = tuple(costed(size, dimensions, apart=False) for size in sizes_of(opts) for dimensions in points)
    if eager and task == "infer" and not opts.fused and all(operating_point(table) is None for table in tables):
        tables = tuple(costed(size, dimensions, apart=True) for size in sizes_of(opts) for dimensions in points)
    for table in tables:
        require_work(table)
    return tables


@dataclass(frozen=True, slots=True)
class RooflineEstimate:
    """The planned measurements.

    Args:
        device: Name of the device.
        precisions: Precisions of the kernels.
        kernels: References of the kernels; empty if peaks are read from a file.
        modes: Number of modes in which peaks are measured.
        kernels_at_most_s: Maximum duration of the kernels, s.
        tuned_modes: Number of modes that ``--tune`` chooses from; ``None`` without it.
        network_modes: Number of modes in which the network is placed; ``None`` if it does not run.
    """

    device: str
    precisions: tuple[str, ...]
    kernels: tuple[str, ...]
    modes: int
    kernels_at_most_s: float
    tuned_modes: int | None = None
    network_modes: int | None = None


def estimate(
    opts: RooflineOptions, device: Device, modes: Sequence[Mode], precisions: Sequence[str], *,
    tuned_modes: int | None = None, network_modes: int | None = None,
) -> RooflineEstimate:  # fmt: skip
    """Return the planned measurements; arguments as in ``RooflineEstimate``, ``modes`` those of the peaks."""
    limits = buffer_limits_on(device)
    kernels = [] if opts.peaks else plan_kernels(
        limits.memory_bytes, precisions, cache_bytes=limits.cache_bytes, quick=opts.quick
    )  # fmt: skip
    families = len({(kernel.precision, kernel.label) for kernel in kernels})
    points = len(kernels) + families * (len(modes) - 1)
    at_rest_s = 0.0 if isinstance(device.power, Absent) else longest_idle_s(device.power)
    at_most_s = points * REPETITIONS * LONGEST_RUN_S + at_rest_s * len(modes) if kernels else 0.0
    names = tuple(kernel.reference for kernel in kernels)
    return RooflineEstimate(device.name, tuple(precisions), names, len(modes), at_most_s, tuned_modes, network_modes)


def ops(opts: OpsOptions, reporter: Reporter) -> OpsTable:
    """Return the operator table of a network, and write it to the file of ``--output``.

    Raises:
        InputError: An option cannot be used; or, with ``strict``, an operator has no known cost.
    """
    task, width = task_of(opts), None if opts.precision is None else parse_precision(opts.precision)
    dimensions, inputs = parse_dimensions(opts.dim), parse_inputs(opts.inputs)
    target = Target(None) if opts.output is None else choose_target(opts.output, opts.output, stdout=reporter.stdout)
    check_outputs({"-o": target.file}, [opts.model], {"-o": "ops"})
    workload = resolve(opts.model, parse_batch_axes(opts.batch_axis))
    dimensions = with_phase(workload, dimensions, opts.phase, opts.context)
    (size,), batch = choose_batch_sizes(
        workload, [opts.batch_size] if opts.batch_size else [], dimensions=dimensions, inputs=inputs,
        use="costed",
    )  # fmt: skip
    table = operator_table(
        workload, task, size, precision=width, dimensions=dimensions, fused=opts.fused, eager=opts.eager,
        feed=Feed(inputs),
    )  # fmt: skip
    unmodelled = next(entry for entry in ledger(table) if entry.ledger == "unmodelled")
    if opts.strict and unmodelled.nodes:
        raise InputError(
            f"{table.workload} has {unmodelled.nodes} nodes without a known cost: {', '.join(unmodelled.ops)}",
            "leave out --strict to see the costs of the others",
        )
    if batch is not None:
        reporter.info(batch)
    if opts.output is not None:
        target.write(table)
        target.report(reporter)
    return table

"""Computes the cost of each operator of a network."""

from __future__ import annotations

from edgetune.artifacts.ops import OpsTable, ledger
from edgetune.errors import InputError
from edgetune.workflows.output import Target, check_outputs, choose_target
from edgetune.workflows.parse_options import (
    choose_batch_sizes,
    parse_batch_axes,
    parse_dimensions,
    parse_inputs,
    parse_precision,
)
from edgetune.workflows.reporting import Reporter
from edgetune.workflows.roofline.option_values import task_of
from edgetune.workflows.roofline.options import OpsOptions
from edgetune.workflows.roofline.phases import with_phase
from edgetune.workloads.costs import operator_table
from edgetune.workloads.observed import Feed
from edgetune.workloads.resolve import resolve


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
    if opts.strict:
        _require_known(table)
    if batch is not None:
        reporter.info(batch)
    if opts.output is not None:
        target.write(table)
        target.report(reporter)
    return table


def _require_known(table: OpsTable) -> None:
    unmodelled = next(entry for entry in ledger(table) if entry.ledger == "unmodelled")
    if unmodelled.nodes:
        raise InputError(
            f"{table.workload} has {unmodelled.nodes} nodes without a known cost: {', '.join(unmodelled.ops)}",
            "leave out --strict to see the costs of the others",
        )

"""Generates random networks and jobs for simulation: ``edgetune schedule generate``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import cast

from edgetune.artifacts import io
from edgetune.artifacts import jobs as jobs_file
from edgetune.artifacts import layer_costs as costs_file
from edgetune.artifacts.header import Header
from edgetune.artifacts.jobs import Job, Jobs, NetworkSource
from edgetune.artifacts.layer_costs import LayerCostRow, LayerCosts
from edgetune.choices import choose
from edgetune.errors import InputError
from edgetune.stages.schedule.generate import FORMS, Form, NetworkDesign, parse_distribution
from edgetune.stages.schedule.generate import generate as make
from edgetune.stages.schedule.jobs import arrivals_of
from edgetune.stages.schedule.network import LayeredNetwork, least_budget_bytes
from edgetune.units import parse_bytes
from edgetune.workflows.output import check_outputs
from edgetune.workflows.reporting import Reporter
from edgetune.workflows.schedule.options import GenerationOptions

_ROOM = 1.5
"""Memory of the jobs, in what the hungriest network needs at the least: above the safety that a runtime adds to that,
and little enough that weights have to leave."""
_KIB = 1024


def generate(opts: GenerationOptions, reporter: Reporter) -> tuple[tuple[LayeredNetwork, ...], Jobs]:
    """Write a table of layer costs and jobs that name it; return the networks and the jobs.

    Raises:
        InputError: an option or a file is invalid.
    """
    design = _design(opts)
    check_outputs({"-o": opts.output, "--jobs": opts.jobs}, [], {"-o": "layer_costs", "--jobs": "jobs"})
    made = make(design, opts.networks, seed=opts.seed)
    document = _jobs(made, opts)
    io.write(_costs(made, opts), opts.output)
    io.write(document, opts.jobs)
    reporter.info(f"wrote {opts.output} and {opts.jobs}")
    return made, document


def _design(opts: GenerationOptions) -> NetworkDesign:
    choose(opts.shape, FORMS, what="shape")
    weights, outputs, scratch = (
        parse_distribution(getattr(opts, name), what=f"--{name}", of="bytes")
        for name in ("weights", "outputs", "scratch")
    )
    execute, rate = parse_distribution(opts.execute, what="--execute", of="time"), opts.load.removesuffix("/s")
    is_rate = rate != opts.load
    return NetworkDesign(
        cast("Form", opts.shape), _range(opts.layers), opts.width, weights, outputs, scratch, execute,
        load_s=None if is_rate else parse_distribution(opts.load, what="--load", of="time"),
        load_bytes_per_s=float(parse_bytes(rate, what="--load")) if is_rate else None,
    )  # fmt: skip


def _range(words: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d{1,4})(?::(\d{1,4}))?", words)
    low, high = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
    if not 1 <= low <= high:
        raise InputError(f"--layers is {words}", "e.g. 8, or 5:10")
    return low, high


def _costs(networks: Sequence[LayeredNetwork], opts: GenerationOptions) -> LayerCosts:
    named = ("shape", "layers", "width", "weights", "outputs", "scratch", "load", "execute", "seed")
    conditions = {"simulated": True, "generated": {name: getattr(opts, name) for name in named}}
    rows = tuple(
        LayerCostRow(
            network.name, layer.name, layer.kind, layer.weight_bytes, layer.output_bytes, layer.load_s,
            layer.execute_s, index, layer.after, layer.scratch_bytes, network.input_bytes,
        )
        for network in networks
        for index, layer in enumerate(network.layers)
    )  # fmt: skip
    return LayerCosts(Header.new(costs_file.KIND, costs_file.VERSION, conditions=conditions), rows)


def _jobs(networks: Sequence[LayeredNetwork], opts: GenerationOptions) -> Jobs:
    """Return jobs that request all networks together."""
    names = tuple(network.name for network in networks)
    intensity = None if opts.arrivals == "batch" or ":" in opts.arrivals else 1.0
    job = Job("made", names, opts.arrivals, intensity=intensity, count=opts.count)
    arrivals_of(job)
    least = max(map(least_budget_bytes, networks))
    room_bytes = -(-round(_ROOM * least) // _KIB) * _KIB
    memory_bytes = room_bytes if opts.memory is None else parse_bytes(opts.memory, what="--memory")
    sources = tuple(NetworkSource(name, costs=opts.output, costs_name=name) for name in names)
    header = Header.new(jobs_file.KIND, jobs_file.VERSION)
    return Jobs(header, sources, (job,), memory_bytes, opts.workers, seed=opts.seed)

"""Task graphs of a network and the number of their orders: ``schedule graph``."""

from __future__ import annotations

from pathlib import Path

from edgetune.artifacts.io import read
from edgetune.artifacts.kinds import ENDINGS
from edgetune.artifacts.layer_costs import LayerCosts
from edgetune.choices import choose
from edgetune.errors import InputError
from edgetune.stages.schedule.costs import network_of, networks_of
from edgetune.stages.schedule.dependencies import (
    MODES,
    DependencyGraph,
    LinearExtensions,
    Mode,
    count_linear_extensions,
    dependency_graph,
)
from edgetune.stages.schedule.network import LayeredNetwork
from edgetune.workflows.cache_folder import prepared_folder
from edgetune.workflows.output import check_outputs
from edgetune.workflows.reporting import Reporter
from edgetune.workflows.schedule.networks import open_reference
from edgetune.workflows.schedule.options import GraphOptions

ModeGraph = tuple[Mode, DependencyGraph, LinearExtensions]


def graph(opts: GraphOptions, reporter: Reporter) -> tuple[LayeredNetwork, list[ModeGraph]]:
    """Return a network, split into layers if necessary, and its task graph in each mode.

    Raises:
        InputError: the mode or network is unknown, or the model cannot be split.
    """
    modes = _modes(opts.mode)
    if opts.output is not None:
        check_outputs({"-o": opts.output}, [opts.model], {})
    found = _network(opts, reporter)
    graphs = []
    for mode in modes:
        drawn = dependency_graph(found, mode)
        graphs.append((mode, drawn, count_linear_extensions(drawn.before)))
    return found, graphs


def _modes(words: str) -> list[Mode]:
    if words == "all":
        return list(MODES)
    named = [choose(word.strip(), [*MODES, "all"], what="mode") for word in words.split(",")]
    return [mode for mode in MODES if mode in named]


def _network(opts: GraphOptions, reporter: Reporter) -> LayeredNetwork:
    if Path(opts.model).suffix.lower() in ENDINGS["layer_costs"] or opts.model == "-":
        return _costed(opts.model, opts.network)
    if opts.network is not None:
        raise InputError(f"--network is for tables of layer costs, and {opts.model} is none", "leave it out")
    folder = Path(opts.prepared) if opts.prepared else prepared_folder()
    prepared = open_reference(opts.model, folder, reporter, make=True)
    assert prepared is not None  # it is made where it is not there
    return network_of(prepared)


def _costed(file: str, name: str | None) -> LayeredNetwork:
    networks = networks_of(read(LayerCosts, file))
    if name is None and len(networks) == 1:
        return next(iter(networks.values()))
    if name not in networks:
        wrong = f"{file} has several networks" if name is None else f"{file} has no network {name!r}"
        raise InputError(wrong, f"choose one: --network {' or '.join(networks)}")
    return networks[name]

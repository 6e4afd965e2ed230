"""The networks that jobs name: their layers, costs and prepared folders."""

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from edgetune.artifacts.files import STDIN, as_found
from edgetune.artifacts.io import read
from edgetune.artifacts.jobs import Jobs, NetworkSource
from edgetune.artifacts.layer_costs import LayerCosts
from edgetune.errors import InputError
from edgetune.processes.user_folders import prepared_folder
from edgetune.stages.schedule.costs import Host, host_of, is_timed, network_of, networks_of
from edgetune.stages.schedule.network import LayeredNetwork
from edgetune.units import format_bytes
from edgetune.workflows.reporting import Reporter
from edgetune.workloads.foreign_files import model_name
from edgetune.workloads.partition.check import CHECK_SHARE, PrepareOptions
from edgetune.workloads.partition.optimised import runtime_version
from edgetune.workloads.partition.prepare import prepare
from edgetune.workloads.prepared import Prepared, check_runtime, is_prepared, open_prepared, processor_kind
from edgetune.workloads.resolve import names_path, resolve
from edgetune.workloads.workload import Workload


@dataclass(frozen=True, slots=True)
class JobNetwork:
    """A network of the jobs.

    Args:
        network: Its layers; unmeasured times are zero.
        timed: Whether the times were measured.
        prepared: Its prepared folder; ``None`` if only its costs are known.
        origin: The model it was made from, for the header of the timeline.
        inputs: File of samples; ``None`` for random ones.
        costed_as: Its name in a table of layer costs; ``None`` without one.
    """

    network: LayeredNetwork
    timed: bool
    prepared: Prepared | None
    origin: Mapping[str, Any]
    inputs: Path | None = None
    costed_as: str | None = None


@dataclass(frozen=True, slots=True)
class Scenario:
    """The networks of a file of jobs.

    Args:
        known: The networks by name.
        device: The device that measured their layers; ``None`` if unknown.
        cores: Number of its cores; of several tables, the fewest.
        host: Figures of the machine in the only table of costs; ``None`` without a table or with several.
    """

    known: Sequence[JobNetwork]
    device: str | None
    cores: int | None
    host: Host | None = None


def read_located_jobs(file: str) -> Jobs:
    """Return the jobs of a file; a network's file that is not in the present folder is looked for beside that file.

    Raises:
        InputError: the file has no jobs.
    """
    jobs = read(Jobs, file)
    if file == STDIN:
        return jobs

    def located(name: str | None) -> str | None:
        if name is None or not names_path(name) or os.path.lexists(as_found(name)):
            return name
        beside = str(Path(file).parent / name)
        return beside if os.path.lexists(as_found(beside)) else name

    networks = (
        replace(each, model=located(each.model), costs=located(each.costs), inputs=located(each.inputs))
        for each in jobs.networks
    )
    return replace(jobs, networks=tuple(networks))


def known_networks(
    jobs: Jobs, costs_file: str | None, folder: Path, *, simulate: bool, limit_bytes: int, reporter: Reporter
) -> Scenario:
    """Return the networks of the jobs, prepared if necessary.

    Args:
        jobs: The jobs to run.
        costs_file: A table of layer costs, which takes precedence over costs measured during preparation.
        folder: The folder of prepared networks.
        simulate: Whether only bytes and times are needed, and no files.
        limit_bytes: Memory of the run.
        reporter: Receives progress.

    Raises:
        InputError: the costs of a network are unknown, or a live run has a network with costs but no model.
    """
    files = dict.fromkeys(filter(None, (costs_file, *(source.costs for source in jobs.networks))))
    tables = {file: read(LayerCosts, file) for file in files}
    wide = tables.get(costs_file or "")
    models = shlex.join(dict.fromkeys(source.model or "" for source in jobs.networks if source.costs is None))
    known = [
        _simulated_only(source, source.costs, tables, simulate=simulate)
        if source.costs is not None
        else _modelled(
            source,
            wide,
            open_reference(source.model or "", folder, reporter, make=not simulate, within_bytes=limit_bytes),
            simulate,
            models,
        )
        for source in jobs.networks
    ]
    told = [table.header.conditions for table in tables.values()]
    devices = sorted({each["device"] for each in told if each.get("device") is not None})
    cores = min((each["usable_cores"] for each in told if each.get("usable_cores") is not None), default=None)
    host = host_of(next(iter(tables.values()))) if len(tables) == 1 else None
    if host is not None:  # of its networks only those of the jobs, as the jobs name them
        names = {each.network.name: each.costed_as or "" for each in known}
        sessions = {name: host.sessions_bytes[of] for name, of in names.items() if of in host.sessions_bytes}
        host = replace(host, sessions_bytes=sessions)
    return Scenario(known, ", ".join(devices) or None, cores, host)


def _simulated_only(
    source: NetworkSource, costs: str, tables: Mapping[str, LayerCosts], *, simulate: bool
) -> JobNetwork:
    """Return a network from its costs alone."""
    if not simulate:
        message = f"network {source.name} is known by the costs of its layers alone: there is nothing to run"
        raise InputError(message, "name a model for it, or simulate it: edgetune schedule run --simulate")
    name, networks = source.network or source.name, networks_of(tables[costs])
    if name not in networks:
        raise InputError(f"{costs} has no network {name!r}", f"it has {', '.join(networks)}")
    network = replace(networks[name], name=source.name)
    return JobNetwork(network, True, None, {"costs": costs, "network": name}, costed_as=name)


def _modelled(
    source: NetworkSource, wide: LayerCosts | None, prepared: Prepared | None, simulate: bool, models: str
) -> JobNetwork:
    """Return a network with a model; its costs are looked up by its name or by that of the model.

    Args:
        source: The network in the jobs.
        wide: The table of costs for all networks.
        prepared: Its folder.
        simulate: Whether only bytes and times are needed, and no files.
        models: All models of the jobs, as words of a command: one table is to have the costs of each.
    """
    reference = source.model or ""
    names = [source.name, reference.rpartition(":")[2], model_name(Path(reference))]
    names += [prepared.network] if prepared else []
    networks = {} if wide is None else networks_of(wide)
    name = next((name for name in names if name in networks), None)
    costed = None if name is None else networks[name]
    listed = () if wide is None else wide.header.inputs.get("networks", ())
    measured = next((each["sha256"] for each in listed if each["name"] == name and each.get("sha256")), None)
    if prepared is not None and measured not in (None, prepared.source_sha256):
        message = f"the costs of {source.name} are of another model than the one in {prepared.folder}"
        raise InputError(message, "measure it again with edgetune schedule profile")
    known = _choose(source, prepared, costed, simulate=simulate, models=models)
    inputs = None if source.inputs is None else Path(as_found(source.inputs))
    if inputs is not None and not inputs.is_file():
        raise InputError(f"{source.inputs} does not exist", "inputs are a .npz file with one array per input")
    return replace(known, inputs=inputs, costed_as=name)


def _choose(
    source: NetworkSource, prepared: Prepared | None, costed: LayeredNetwork | None, *, simulate: bool, models: str
) -> JobNetwork:
    """Return a network with its costs: those of a separate table take precedence over those of its folder."""
    origin: dict[str, Any] = {"reference": source.model}
    if prepared is not None:
        origin["sha256"] = prepared.source_sha256
    if prepared is not None and prepared.check_peak_bytes is not None:
        origin["check_peak_bytes"] = prepared.check_peak_bytes
    if costed is not None:
        if prepared is not None:
            _check_same_layers(source.name, costed, prepared)
        return JobNetwork(replace(costed, name=source.name), True, prepared, origin)
    timed = prepared is not None and is_timed(prepared)
    if prepared is None or (simulate and not timed):
        message = f"nobody knows what the layers of {source.name} take"
        measure = f"edgetune schedule profile {models} -o costs.parquet"
        raise InputError(message, f"measure them: {measure}; then add --costs costs.parquet")
    return JobNetwork(network_of(prepared, source.name), timed, prepared, origin)


def _check_same_layers(name: str, costed: LayeredNetwork, prepared: Prepared) -> None:
    """Check that costs belong to the layers in a folder; another batch size or split gives other bytes.

    Raises:
        InputError: the layers have other names or bytes.
    """
    hint = f"measure it again with edgetune schedule profile {prepared.folder}, or prepare it as it was then"
    if [layer.name for layer in costed.layers] != [each.name for each in prepared.layers]:
        raise InputError(f"the costs of {name} are of other layers than those in {prepared.folder}", hint)
    for layer, each in zip(costed.layers, prepared.layers, strict=True):
        for what, told, found in (
            ("weights", layer.weight_bytes, each.weight_bytes),
            ("outputs", layer.output_bytes, each.output_bytes),
        ):
            if told != found:
                message = f"the costs of {name} are of a layer {layer.name} with {told} bytes of {what}; the one in "
                batch = f"(batch size {prepared.batch_size})"
                raise InputError(f"{message}{prepared.folder} {batch} has {found}", hint)


def open_reference(
    reference: str, folder: Path, reporter: Reporter, *, make: bool, within_bytes: int | None = None
) -> Prepared | None:
    """Return a prepared network: the reference if it is a prepared folder, else one in ``folder``, made with ``make``.

    A cached network that this machine cannot run is made again. It is compared with the whole network unless that takes
    more memory than ``within_bytes``.

    Raises:
        InputError: the model cannot be split, or the folder has other content.
        DeviceError: ONNX Runtime is missing.
    """
    if names_path(reference) and is_prepared(Path(reference)):
        return open_prepared(Path(reference))
    workload = resolve(reference)
    target = _place_of(workload, folder)
    found = open_prepared(target) if is_prepared(target) else None
    if not make:
        return found
    unfit = None
    if found is not None and folder == prepared_folder():
        try:
            check_runtime(found, runtime_version(), processor_kind())
        except InputError as error:
            unfit = error.message
    if found is None or unfit is not None:
        reporter.info(f"preparing {reference} in {target}{'' if unfit is None else f' again: {unfit}'}")
        found = prepare(workload, PrepareOptions(), target, "--prepared", check_within_bytes=within_bytes)
    if not found.compared:
        needed, command = format_bytes(round(CHECK_SHARE * found.weight_bytes)), "edgetune schedule prepare"
        words = shlex.join((reference, "--batch-size", str(found.batch_size), "-o", str(target.parent)))
        reporter.info(f"the layers of {reference} are not compared with it, which takes {needed}: {command} {words}")
    return found


def _place_of(workload: Workload, folder: Path) -> Path:
    """Return the prepared folder of a model: named after it, unless that folder is another model's."""
    plain = folder / workload.name
    if not plain.exists() or (is_prepared(plain) and open_prepared(plain).source_sha256 == workload.sha256):
        return plain
    return folder / f"{workload.name}-{(workload.sha256 or 'unknown')[:8]}"

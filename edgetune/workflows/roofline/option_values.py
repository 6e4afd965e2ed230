"""Choices derived from the options of ``edgetune roofline``.

A language model's operating points from the words of the command line: ``--phase decode --context 512,2048``.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from edgetune.artifacts.ops import OpsTable
from edgetune.artifacts.profile import Task
from edgetune.choices import choose
from edgetune.devices.device import Device, LiveSource, TableSource
from edgetune.devices.sysfs import Sysfs
from edgetune.errors import InputError
from edgetune.stages.roofline.measure import memory_of
from edgetune.workflows.parse_options import parse_batch_axes, parse_batch_sizes, parse_dimensions, parse_task
from edgetune.workflows.reporting import Reporter
from edgetune.workflows.roofline.options import NetworkOptions, RooflineOptions
from edgetune.workloads.costs.generation import Lengths, open_lengths
from edgetune.workloads.llm import PREFIX, read_decoder
from edgetune.workloads.onnx_file import load_model
from edgetune.workloads.resolve import resolve
from edgetune.workloads.workload import Workload

PHASES = ("prefill", "decode")
_CONTEXT = 2048
"""Tokens where --context is not said: the sequence length that Llama's first models were trained with."""
_MOST_CONTEXT = 1_000_000_000


def with_phase(
    workload: Workload, dimensions: Mapping[str, int], phase: str | None, context: int | None
) -> dict[str, int]:
    """Return the dimensions completed by those of ``--phase`` and ``--context``.

    Raises:
        InputError: the phase is unknown, the network is no language model, or --dim sets the same length.
    """
    if phase is None and context is None and (workload.kind != "llm" or dimensions):
        return dict(dimensions)
    lengths = _needed(workload)
    if phase is None:
        raise InputError("no phase is given", "--phase prefill (all tokens at once), or --phase decode (the next)")
    return _sized(lengths, dimensions, choose(phase, PHASES, what="phase"), context or _default_context(workload))


def operating_points(
    workload: Workload, dimensions: Mapping[str, int], phase: str | None, contexts: str | None
) -> tuple[dict[str, int], ...]:
    """Return the dimensions of each operating point: for a language model both phases at each context, else one point.

    An ONNX decoder with open lengths counts as a language model. ``--dim`` of a length gives one point.

    Args:
        workload: The network.
        dimensions: The values of --dim.
        phase: ``prefill`` or ``decode``; ``None`` for both.
        contexts: Tokens, e.g. ``512,2048``.

    Raises:
        InputError: an unknown phase, an invalid context, no language model, or --dim of the same length.
    """
    said = phase is not None or contexts is not None
    phases = PHASES if phase is None else (choose(phase, PHASES, what="phase"),)
    tokens = None if contexts is None else parse_contexts(contexts)
    lengths = _needed(workload) if said else _lengths(workload)
    if lengths is None or (not said and lengths.names & set(dimensions)):
        return (dict(dimensions),)
    tokens = tokens or (_default_context(workload),)
    return tuple(_sized(lengths, dimensions, each, context) for each in phases for context in tokens)


def parse_contexts(text: str) -> tuple[int, ...]:
    """Return the numbers of tokens in ``512,2048``, in that order, each once.

    Raises:
        InputError: a number is not a whole number above zero.
    """
    found = []
    for word in map(str.strip, text.split(",")):
        digits = word.isascii() and word.isdigit() and len(word) <= len(str(_MOST_CONTEXT))
        if not digits or not 1 <= int(word) <= _MOST_CONTEXT:
            raise InputError(
                f"--context: {word[:40]!r} is not a whole number from 1 to {_MOST_CONTEXT}", "e.g. --context 512,2048"
            )
        found.append(int(word))
    return tuple(dict.fromkeys(found))


def _sized(lengths: Lengths, dimensions: Mapping[str, int], phase: str, context: int) -> dict[str, int]:
    if lengths.names & set(dimensions):
        raise InputError("--phase and --context set the dimensions that --dim sets", "give one or the other")
    return {**dimensions, **(lengths.sizes(context, 0) if phase == "prefill" else lengths.sizes(1, context))}


def _lengths(workload: Workload) -> Lengths | None:
    """Return the lengths of a language model; ``None`` for another network."""
    if workload.kind == "llm":
        return Lengths("tokens", "past")
    return open_lengths(load_model(workload, weights=False)) if workload.kind == "onnx" else None


def _needed(workload: Workload) -> Lengths:
    found = _lengths(workload)
    if found is None:
        raise InputError(
            f"--phase and --context are for language models, and {workload.reference} has no open lengths",
            "llm:CONFIG is one, or an ONNX file with inputs called past_key_values; --dim fixes any open dimension",
        )
    return found


def _default_context(workload: Workload) -> int:
    """Return the default context, in tokens: limited by the positions of the model less one for the next token."""
    positions = read_decoder(workload.path).positions if workload.kind == "llm" and workload.path is not None else 0
    return min(_CONTEXT, positions - 1) if positions > 1 else _CONTEXT


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
    points = operating_points(workload_of(opts), dimensions, opts.phase, opts.context)
    single = {"--tune": opts.tune, "--profile": None if opts.model.startswith(PREFIX) else opts.profile}
    option = next((name for name, value in single.items() if value is not None), None)
    if len(points) > 1 and option is not None:
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

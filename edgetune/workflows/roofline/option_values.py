"""Choices derived from the options of ``edgetune roofline``.

A language model's operating points from the words of the command line: ``--phase decode --context 512,2048``.

Measures a network beneath a roof on the device, or looks it up in a table.

The result of one precision: the rooflines of a device, and a network beneath one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from edgetune.artifacts.io import read_profile
from edgetune.artifacts.layers import Layers
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.ops import OpsTable
from edgetune.artifacts.profile import Point, ProfileRow, Task
from edgetune.artifacts.repeats import energy_per_minibatch_j, one_per_point, point_key
from edgetune.artifacts.roofline import Roof, Roofline
from edgetune.choices import choose
from edgetune.devices.device import Device, LiveSource, TableSource
from edgetune.devices.sysfs import Sysfs
from edgetune.errors import InputError
from edgetune.stages.profiling.options import ProfileOptions
from edgetune.stages.profiling.profiler import Profiler
from edgetune.stages.roofline.measure import memory_of
from edgetune.stages.roofline.placement import Placement
from edgetune.workflows.parse_options import (
    parse_batch_axes,
    parse_batch_sizes,
    parse_dimensions,
    parse_task,
    profile_options,
)
from edgetune.workflows.profile.options import PointOptions
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


@dataclass(frozen=True, slots=True)
class Placed:
    """The result of one precision: the device's rooflines, and a network beneath one of them.

    Args:
        roofline: The roofline of the device.
        roof: The roof that the network is placed beneath.
        tables, placements, rows: One per batch size, and per pass of a language model; empty without a network.
        layers: The layers of the first table, if timed.
        memory_bytes: Total memory of the device, if known.
        elsewhere: The same network in the other requested modes, if these are few.
    """

    roofline: Roofline
    roof: Roof
    tables: tuple[OpsTable, ...]
    placements: tuple[Placement, ...]
    rows: tuple[ProfileRow | None, ...]
    layers: Layers | None = None
    memory_bytes: int | None = None
    elsewhere: tuple[Placed, ...] = ()

    @property
    def measured_j(self) -> tuple[float | None, ...]:
        """Measured energy of one minibatch, J, one per placement."""
        return tuple(None if row is None else energy_per_minibatch_j(row) for row in self.rows)

    @property
    def everywhere(self) -> tuple[Placed, ...]:
        """This result and those of other modes."""
        return (self, *self.elsewhere)

    @property
    def alike(self) -> list[Roof]:
        """The roofs of the device in this precision."""
        return [roof for roof in self.roofline.roofs if roof.precision == self.roof.precision]


def precision_to_run(asked: RooflineOptions, table: OpsTable) -> str | None:
    """Return the requested precision of a measurement; ``None`` runs the network in its own types."""
    return None if asked.precision is None else table.precision


def measuring(asked: RooflineOptions, table: OpsTable) -> ProfileOptions:
    """Return the measuring options of a table's network.

    Raises:
        InputError: see ``profile_options``.
    """
    dim, precision = dimension_words(table, asked), precision_to_run(asked, table)
    return profile_options(PointOptions(inputs=asked.inputs, dim=dim, precision=precision, seed=asked.seed))


@contextmanager
def measuring_in(
    device: Device, asked: RooflineOptions, table: OpsTable, reporter: Reporter
) -> Iterator[Callable[[Mode], ProfileRow]]:
    """Yield a function that measures a table's network in a mode; restore the device at the end."""
    options, on_state = measuring(asked, table), reporter.points
    with Profiler(device, workload_of(asked), table.task, options, on_state) as profiler:
        yield lambda mode: profiler.measure(Point(table.workload, table.task, table.batch_size, mode))


def measured(device: Device, asked: RooflineOptions, table: OpsTable, point: Point, reporter: Reporter) -> ProfileRow:
    """Measure the network in the roof's mode, and restore the device."""
    bar = reporter.bar(f"measuring {table.workload}", None)
    with bar, measuring_in(device, asked, table, reporter) as measure:
        return measure(point.mode)


def tabled(source: str, point: Point) -> ProfileRow | None:
    """Return the row of a point in a table of measurements; ``None`` without one."""
    rows = one_per_point(read_profile(source).rows).rows
    return next((row for row in rows if point_key(row.point) == point_key(point)), None)

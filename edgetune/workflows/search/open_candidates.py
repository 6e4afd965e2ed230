"""Opens the candidates of a search: a measured table, or a device to measure on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgetune.errors import InputError
from edgetune.workflows.options import COOL_TIMEOUT, POINT_TIMEOUT
from edgetune.workflows.search.candidates import Candidates

if TYPE_CHECKING:
    from edgetune.artifacts.profile import Point, ProfileRow
    from edgetune.devices.device import Device
    from edgetune.profiling.options import ProfileOptions
    from edgetune.profiling.profiler import Profiler
    from edgetune.search.strategy import OperatorTotals
    from edgetune.workflows.subject import WorkloadSelection


@contextmanager
def open_candidates(
    sources: Sequence[str], live: MeasurementOptions, *, workload: str | None, seed: int, columns: Sequence[str] = ()
) -> Iterator[Candidates]:
    """Offer the points of tables, or with ``--device`` (or a reference that names a network) those of a network.

    ``columns`` are the words of ``--column``.

    Raises:
        InputError: options that do not go with what is given, or nothing to choose from.
    """
    first = sources[0]
    if live.device is not None or first.startswith("zoo:") or Path(first).suffix in (".onnx", ".py"):
        if columns:
            raise InputError("--column: only for a table", "leave it out")
        if len(sources) > 1:
            raise InputError(f"one network is searched for, not {len(sources)}", "--background MODEL names the second")
        with network_candidates(first, live, seed) as candidates:
            yield candidates
    elif live.given():
        raise InputError(f"{' and '.join(live.given())}: only for a network", "leave them out, or name a device")
    else:
        from edgetune.workflows.parse_options import parse_batch_sizes, parse_columns
        from edgetune.workflows.search.candidates import TableSelection, candidates_of_tables
        from edgetune.workloads.foreign_files import refuse_foreign

        refuse_foreign(Path(first), first)
        sizes = None if live.batch_sizes is None else parse_batch_sizes(live.batch_sizes)
        yield candidates_of_tables(
            sources, TableSelection(live.kind, workload, live.background, sizes), parse_columns(columns)
        )


_TASKS = {"accuracy": "train", "train+infer": "infer", "infer+infer": "infer"}
"""What the network does in a kind of problem that is not named after it."""


@dataclass(frozen=True, slots=True)
class MeasurementOptions:
    """How to measure a network, as written on the command line.

    ``run_code`` is whether a Python file may be run to tell how long it takes: not by a dry run.
    """

    device: str | None
    modes: str | None
    batch_sizes: str | None
    kind: str | None
    dimensions: tuple[str, ...] = ()
    precision: str | None = None
    ops: str | None = None
    inputs: str | None = None
    point_timeout: str = POINT_TIMEOUT
    background: str | None = None
    background_batch: int | None = None
    root: str | None = None
    cool_to: str | None = None
    cool_timeout: str = COOL_TIMEOUT
    batch_axis: tuple[str, ...] = ()
    run_code: bool = True

    def given(self) -> list[str]:
        """Return the options that only make sense with a network."""
        named = {
            "--device": self.device,
            "--root": self.root,
            "--cool-to": self.cool_to,
            "--modes": self.modes,
            "--dim": self.dimensions or None,
            "--batch-axis": self.batch_axis or None,
            "--precision": self.precision,
            "--ops": self.ops,
            "--inputs": self.inputs,
            "--point-timeout": None if self.point_timeout == POINT_TIMEOUT else self.point_timeout,
        }
        return [name for name, value in named.items() if value is not None]


@contextmanager
def network_candidates(source: str, live: MeasurementOptions, seed: int) -> Iterator[Candidates]:
    """Offer the points of a network on a device, and those of the background network where there is one."""
    from edgetune.devices.device import Absent, TableSource
    from edgetune.profiling.estimate import SweepEstimate, estimate
    from edgetune.profiling.profiler import open_profiler
    from edgetune.search.problem import PAIRS
    from edgetune.workflows.device_option import open_named, recovered
    from edgetune.workflows.load_warning import warn_of_load
    from edgetune.workflows.parse_options import profile_options
    from edgetune.workflows.search.candidates import Candidates
    from edgetune.workflows.subject import WorkloadOptions, check, choose_subject

    if live.device is None:
        raise InputError(f"{source} is a network, not a table, and no device is named", "e.g. --device twin:orin-agx")
    task = _TASKS.get(live.kind or "", live.kind)
    words = WorkloadOptions(source, task, live.batch_sizes, live.modes, live.ops, live.batch_axis)
    check(words)
    options = profile_options(
        dimensions=live.dimensions,
        precision=live.precision,
        inputs=live.inputs,
        point_timeout=live.point_timeout,
        cool_to=live.cool_to,
        cool_timeout=live.cool_timeout,
        seed=seed,
    )
    device = open_named(live.device, live.root, seed=seed)
    subjects, each_options = [choose_subject(device, words, options, default_size=None)], [options]
    if live.kind in PAIRS:
        each_options.append(replace(options, inputs=None))
        subjects.append(_background(device, live, each_options[1]))
    inputs = _inputs(subjects, each_options)
    free = isinstance(device.source, TableSource)

    def expect() -> SweepEstimate:
        pairs = zip(subjects, each_options, strict=True)
        parts = [
            estimate(device, subject.workload, subject.points, how, run_code=live.run_code) for subject, how in pairs
        ]
        times, energies = [part.duration_s for part in parts], [part.energy_j for part in parts]
        return SweepEstimate(
            sum(part.points for part in parts),
            None if None in times else sum(time for time in times if time is not None),
            None if None in energies else sum(energy for energy in energies if energy is not None),
            next((part for part in parts if part.duration_s is None), parts[0]).basis,
        )

    with ExitStack() as stack:
        profilers: list[Profiler] = [
            stack.enter_context(open_profiler(device, subject.workload, subject.task, how))
            for subject, how in zip(subjects, each_options, strict=True)
        ]

        def measure(point: Point) -> ProfileRow:
            for subject, profiler in zip(subjects, profilers, strict=True):
                if (subject.workload.name, subject.task) == (point.workload, point.task):
                    return profiler.measure(point)
            raise RuntimeError(f"{point} is of none of the networks here")  # pragma: no cover

        data_warnings = [
            w for s, p in zip(subjects, profilers, strict=True) for w in p.data_warnings(s.points[0].batch_size)
        ]
        first = subjects[0]
        yield Candidates(
            points=[point for subject in subjects for point in subject.points],
            measure=measure,
            kind=live.kind or first.task,
            described=" with ".join(map(_described, subjects)) + f" on {device.name}",
            simulated=device.simulated,
            free=free,
            inputs=inputs,
            conditions={"device": device.name, "simulated": device.simulated, **device.conditions},
            warnings=(*first.notes, *(w for i, w in enumerate(data_warnings) if w not in data_warnings[:i])),
            expect=expect,
            defect=lambda: next((p.defect for p in profilers if p.defect is not None), None),
            no_power=device.power.reason if isinstance(device.power, Absent) and not free else None,
            recovered=lambda: recovered(device),
            warn_of_load=lambda screen: warn_of_load(device, screen),
            operators=lambda: _operators(first, options),
            background=subjects[1].workload.name if len(subjects) > 1 else None,
            rows=device.source.rows if isinstance(device.source, TableSource) else (),
        )


def _described(subject: WorkloadSelection) -> str:
    words = f"{subject.workload.name} {subject.task}"
    return words if subject.batch is None else f"{words} ({subject.batch.partition(': ')[2]})"


def _operators(subject: WorkloadSelection, options: ProfileOptions) -> tuple[OperatorTotals, ...]:
    """Return what the network costs at each batch size; nothing where its graph does not tell."""
    from edgetune.search.strategy import OperatorTotals
    from edgetune.workloads.costs import operator_table

    found = []
    try:
        for size in sorted({point.batch_size for point in subject.points}):
            table = operator_table(
                subject.workload, subject.task, size, precision=options.precision, dimensions=options.dimensions
            )
            weights = sum(row.weight_bytes for row in table.rows)
            found.append(OperatorTotals(size, max(table.flops, 1), table.bytes_moved, weights))
    except InputError:
        return ()
    return tuple(found)


def _background(device: Device, live: MeasurementOptions, options: ProfileOptions) -> WorkloadSelection:
    """Return the network without a deadline, at its one batch size."""
    from edgetune.search.problem import background_task
    from edgetune.workflows.subject import WorkloadOptions, choose_subject

    if live.background is None:
        raise InputError(
            f"a problem of kind {live.kind} has two networks, and one is named", "e.g. --background zoo:resnet18"
        )
    size = live.background_batch
    if size is None:
        raise InputError("no batch size for the background network", "e.g. --background-batch 16")
    words = WorkloadOptions(live.background, background_task(str(live.kind)), str(size), live.modes, None)
    return choose_subject(device, words, options, default_size=None)


def _inputs(subjects: Sequence[WorkloadSelection], options: Sequence[ProfileOptions]) -> dict[str, Any]:
    from edgetune.profiling.origin import origin_of

    inputs: dict[str, Any] = {}
    for role, subject, how in zip(("workload", "background"), subjects, options, strict=False):
        workload = subject.workload
        inputs[role] = origin_of(workload, how)
        if workload.ops is not None:
            inputs["ops"] = {"name": workload.ops.name, "sha256": workload.ops.sha256}
    return inputs

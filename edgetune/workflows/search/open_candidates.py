"""Opens the candidates of a search: measured tables, or one or two networks to measure on a device."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.devices.capabilities import Absent
from edgetune.devices.device import Device, TableSource
from edgetune.errors import InputError
from edgetune.stages.profiling.disturbances import check_possible
from edgetune.stages.profiling.estimate import SweepEstimate, estimate
from edgetune.stages.profiling.options import OnState, ProfileOptions
from edgetune.stages.profiling.profiler import Profiler
from edgetune.stages.profiling.sweep_journal import origin_of
from edgetune.stages.search.problem import PAIRS, background_task
from edgetune.workflows.device_option import is_fleet, open_named, recovered, warn_of_load
from edgetune.workflows.parse_options import parse_batch_sizes, profile_options
from edgetune.workflows.profile.engines import check_modelled, in_python
from edgetune.workflows.profile.subject import WorkloadOptions, WorkloadSelection, check, choose_subject
from edgetune.workflows.search.candidates import Candidates, candidates_of_tables
from edgetune.workflows.search.options import SearchOptions
from edgetune.workloads.endpoint import with_requests
from edgetune.workloads.foreign_files import TABLE, foreign_kind, refuse_foreign
from edgetune.workloads.resolve import recognised

_TASKS = {"accuracy": "train", "train+infer": "infer", "infer+infer": "infer"}
"""What the network does in a kind of problem that is not named after it."""


def open_candidates(
    opts: SearchOptions, *, run_code: bool, on_state: OnState | None = None,
    note: Callable[[str], None] = lambda _: None,
) -> AbstractContextManager[Candidates]:  # fmt: skip
    """Open the points of tables, or with ``--device`` (or a reference that names a network) those of a network.

    Args:
        opts: The options of the search.
        run_code: Whether to run a Python file to estimate its duration; a dry run does not.
        on_state: Called with the state of the point that is measured.
        note: Reports a sentence.

    Raises:
        InputError: options contradict the inputs, or there are no candidates.
    """
    first = opts.sources[0]
    path = Path(first)
    if opts.device is not None and path.is_file() and foreign_kind(path, by_name=True) is TABLE:
        refuse_foreign(path, first, by_name=True)
    if opts.device is not None or recognised(first) is not None:
        if opts.column:
            raise InputError("--column: only for a table", "leave it out")
        if len(opts.sources) > 1:
            raise InputError(
                f"one network is searched for, not {len(opts.sources)}", "--background MODEL names the second"
            )
        if is_fleet(opts.device) and run_code:
            from edgetune.workflows.fleet.profile import fleet_candidates

            return fleet_candidates(opts, _TASKS.get(opts.kind or "", opts.kind), note)
        return _network_candidates(opts, run_code=run_code, on_state=on_state)
    if given := opts.for_network():
        raise InputError(f"{' and '.join(given)}: only for a network", "leave them out, or name a device")
    if foreign_kind(path, by_name=False) is not TABLE:
        refuse_foreign(path, first)
    if opts.batch_sizes is not None:
        parse_batch_sizes(opts.batch_sizes)  # refused before a table is read
    return nullcontext(candidates_of_tables(opts))


@contextmanager
def _network_candidates(opts: SearchOptions, *, run_code: bool, on_state: OnState | None) -> Iterator[Candidates]:
    """Open a device with the points of a network and, if given, of the background network."""
    source = with_requests(
        opts.sources[0],
        opts.served_model,
        opts.prompt_tokens,
        opts.output_tokens,
        prompts=opts.prompts,
        arrivals=opts.arrivals,
    )
    if opts.device is None:
        raise InputError(f"{source} is a network, not a table, and no device is named", "e.g. --device twin:orin-agx")
    task = _TASKS.get(opts.kind or "", opts.kind)
    words = WorkloadOptions(source, task, opts.batch_sizes, opts.modes, opts.ops, tuple(opts.batch_axis))
    check(words)
    options = profile_options(opts)
    device = in_python(open_named(opts.device, opts.root, seed=opts.seed), options.python)
    check_modelled(device, opts.engine)
    check_possible(device, options)
    subjects, each_options = [choose_subject(device, words, options, default_size=None)], [options]
    if opts.kind in PAIRS:
        each_options.append(replace(options, inputs=None))
        subjects.append(_background(device, opts, each_options[1]))
    if len(names := subjects[0].workload.names) > 1:
        raise InputError(f"a search is for one length of prompts and answers, not {len(names)}", "give one of each")
    inputs = _inputs(subjects, each_options)
    free = isinstance(device.source, TableSource)

    def expect() -> SweepEstimate:
        pairs = zip(subjects, each_options, strict=True)
        parts = [estimate(device, subject.workload, subject.points, how, run_code=run_code) for subject, how in pairs]
        times, energies = [part.duration_s for part in parts], [part.energy_j for part in parts]
        return SweepEstimate(
            sum(part.points for part in parts),
            None if None in times else sum(time for time in times if time is not None),
            None if None in energies else sum(energy for energy in energies if energy is not None),
            next((part for part in parts if part.duration_s is None), parts[0]).basis,
        )

    with ExitStack() as stack:
        profilers: list[Profiler] = [
            stack.enter_context(Profiler(device, subject.workload, subject.task, how, on_state))
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
            kind=opts.kind or first.task,
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
            warn_of_load=lambda reporter: warn_of_load(device, reporter),
            background=subjects[1].workload.name if len(subjects) > 1 else None,
            rows=device.source.rows if isinstance(device.source, TableSource) else (),
        )


def _described(subject: WorkloadSelection) -> str:
    words = f"{subject.workload.name} {subject.task}"
    return words if subject.batch is None else f"{words} ({subject.batch.partition(': ')[2]})"


def _background(device: Device, opts: SearchOptions, options: ProfileOptions) -> WorkloadSelection:
    """Return the network without a deadline, at its one batch size."""

    if opts.background is None:
        raise InputError(
            f"a problem of kind {opts.kind} has two networks, and one is named", "e.g. --background zoo:resnet18"
        )
    size = opts.background_batch
    if size is None:
        raise InputError("no batch size for the background network", "e.g. --background-batch 16")
    words = WorkloadOptions(opts.background, background_task(str(opts.kind)), str(size), opts.modes, None)
    return choose_subject(device, words, options, default_size=None)


def _inputs(subjects: Sequence[WorkloadSelection], options: Sequence[ProfileOptions]) -> dict[str, Any]:

    inputs: dict[str, Any] = {}
    for role, subject, how in zip(("workload", "background"), subjects, options, strict=False):
        workload = subject.workload
        inputs[role] = origin_of(workload, how)
        if workload.ops is not None:
            inputs["ops"] = {"name": workload.ops.name, "sha256": workload.ops.sha256}
    return inputs

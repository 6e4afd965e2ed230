"""The plan of ``simulate`` and ``run``: tasks, policies, a GPU, and the file of the timeline."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from edgetune.artifacts.files import name_of
from edgetune.artifacts.io import read
from edgetune.artifacts.kernel_tasks import KernelTasks
from edgetune.choices import nearest
from edgetune.errors import DeviceError, InputError, blaming
from edgetune.stages.elastic.bound import BOUNDED
from edgetune.stages.elastic.compiler import CompileOptions
from edgetune.stages.elastic.front import transform
from edgetune.stages.elastic.gpu import Gpu, GpuTask, KernelSequence, find_gpu
from edgetune.stages.elastic.kernel import NO_ROWS, PER_THREAD
from edgetune.stages.elastic.loop import check_tasks
from edgetune.stages.elastic.mdtb.networks import ARCHITECTURE, compiled_for
from edgetune.stages.elastic.model import check_duration, check_fits
from edgetune.stages.elastic.policies import POLICIES
from edgetune.stages.elastic.policies.simple import SOLO
from edgetune.stages.elastic.tasks import check_count, tasks_of
from edgetune.units import format_duration, parse_share, parse_time_s
from edgetune.workflows.figures import check_plot, choose_view
from edgetune.workflows.kernels.options import ShareOptions, SimulateOptions
from edgetune.workflows.output import Target, check_outputs, choose_target
from edgetune.workflows.reporting import Reporter

_DEFAULT_NAME = "kernels.parquet"
_MOST_WITHIN = 1e4
"""A share of a latency that excludes nothing: a kernel of ten thousand times as long."""


@dataclass(frozen=True, slots=True)
class KernelRun:
    """A requested run.

    Args:
        document: The file of tasks.
        tasks: Its tasks.
        policies: Their names, in the order in which they are compared.
        gpu: The GPU.
        duration_s: How long requests come, s.
        seed: Of random arrivals.
        target: Where the timeline goes.
        within: Share of its latency alone that best-effort work may add to that of a critical request; ``None``: any.
    """

    document: KernelTasks
    tasks: Sequence[GpuTask]
    policies: Sequence[str]
    gpu: Gpu
    duration_s: float
    seed: int
    target: Target
    within: float | None = None

    @property
    def runs(self) -> list[str]:
        """The runs in order, in words: critical tasks alone, then policies."""
        return [*(f"{task.name} alone" for task in self.tasks if task.critical), *self.policies]


def plan_of(opts: ShareOptions, reporter: Reporter) -> KernelRun:
    """Return the run; a GPU that is not simulated, and what its kernels need, are known once it is open.

    Raises:
        InputError: an unknown policy, GPU, network or duration; more requests than can be kept; or a simulated kernel
            that does not fit the GPU, or whose duration is unknown.
        DeviceError: a figure is asked for, and matplotlib is missing.
    """
    document, file = read(KernelTasks, opts.tasks), name_of(opts.tasks)
    check_plot(opts.plot, opts.view, "kernel_timeline")
    with blaming(file if opts.policy is None else "--policy"):
        names = policies_of(document.policy if opts.policy is None else opts.policy)
    simulated = opts if isinstance(opts, SimulateOptions) else None
    chosen = None if simulated is None else simulated.gpu
    with blaming(file if chosen is None else "--gpu"):
        gpu = find_gpu(document.gpu if chosen is None else chosen)
    duration_s = document.duration_s if opts.duration is None else parse_time_s(opts.duration, what="--duration")
    with blaming(file):
        tasks = tasks_of(document, folder=Path(opts.tasks).parent)
        check_tasks(tasks)
        if simulated is not None:
            tasks = with_forms(compiled_for(gpu, tasks), include_folders(document, opts.tasks), reporter)
            check_kernels(tasks, gpu)
        check_count(tasks, len(names), None if simulated is None else gpu, duration_s=duration_s)
    seed = document.seed if opts.seed is None else opts.seed
    target = choose_target(opts.output, _DEFAULT_NAME, last=True, stdout=reporter.stdout)
    sources = [str(Path(opts.tasks).parent / source) for source in document.sources]
    check_outputs({"-o": target.file, "--plot": opts.plot}, [opts.tasks, *sources], {"-o": "kernel_timeline"})
    _check_view(opts.view or "gantt", names, tasks, duration_s)
    within, critical = within_of(opts.admit_within, names), sum(task.critical for task in tasks)
    if within is not None and critical != 1:
        message = f"--admit-within is for one critical task, and {file} has {critical or 'none'}"
        raise InputError(message, "critical tasks that wait for each other have no bound: leave it out")
    return KernelRun(document, tasks, names, gpu, duration_s, seed, target, within)


def within_of(words: str | float | None, policies: Sequence[str]) -> float | None:
    """Return the share of ``--admit-within``.

    Raises:
        InputError: it is none, or no policy has a bound.
    """
    within = None if words is None else parse_share(words, what="--admit-within", most=_MOST_WITHIN)
    if within is not None and not set(policies) & set(BOUNDED):
        raise InputError(
            f"--admit-within needs a policy with a bound, and {', '.join(policies)} has none",
            f"add one: --policy {','.join([*policies, BOUNDED[0]])}",
        )
    return within


def include_folders(document: KernelTasks, tasks: str) -> list[str]:
    """Return the folders of the sources of a file of tasks, where their headers are looked for."""
    return [*dict.fromkeys(str((Path(tasks).parent / source).parent) for source in document.sources)]


def policies_of(words: str) -> list[str]:
    """Return the policies that are named, each once.

    Raises:
        InputError: there is no such policy; the hint names the nearest.
    """
    names = list(dict.fromkeys(word.strip() for word in words.split(",")))
    for name in names:
        POLICIES.find(name)
    return names


def check_kernels(tasks: Sequence[GpuTask], gpu: Gpu) -> None:
    """Check that blocks of all simulated kernels fit on a GPU, and that their durations are known and possible.

    Raises:
        InputError: a block does not fit, or a duration is impossible or unknown.
    """
    for task in tasks:
        with blaming(f"task {task.name}, network {task.network.name}"):
            for call in task.network.calls:
                check_fits(call, gpu)
                check_duration(call, gpu)


def with_forms(tasks: Sequence[GpuTask], include: Sequence[str], reporter: Reporter) -> tuple[GpuTask, ...]:
    """Return simulated tasks, of whose kernels those are elastic that can be made so from their source, as on a GPU.

    Kernels of the benchmark can; their forms are among what is stored of them.

    Raises:
        InputError: a source does not compile, or lacks a kernel.
    """
    found, refused = [], dict[str, dict[str, str]]()
    for task in tasks:
        network = task.network
        if network.name not in refused:
            with blaming(f"task {task.name}, network {network.name}"):
                refused[network.name] = _refused(network, include, reporter)
        why_not = refused[network.name]
        for kernel, why in () if task.critical else why_not.items():
            reporter.info(f"task {task.name}: {kernel} is launched whole, as it cannot be elastic: {why}")
        calls = [
            replace(call, elastic=False, persistent=False) if call.kernel in why_not else call for call in network.calls
        ]
        found.append(replace(task, network=replace(network, calls=calls)))
    return tuple(found)


def _refused(network: KernelSequence, include: Sequence[str], reporter: Reporter) -> dict[str, str]:
    """Return the kernels of a network that cannot be elastic, and why."""
    if not network.source or all(set(call.resources) == set(PER_THREAD) for call in network.calls):
        return {}
    try:
        options = CompileOptions(include=tuple(include))
        done = transform(network.source, f"{network.name}.cu", ARCHITECTURE, options=options)
    except DeviceError as error:
        reporter.info(f"all kernels of {network.name} are taken to be elastic: {error}; {error.hint}")
        return {}
    made = {each.kernel.name: each for each in done.kernels}
    found = {}
    for kernel in dict.fromkeys(call.kernel for call in network.calls):
        if kernel not in made:
            raise InputError(f"its source has no kernel {kernel!r}", nearest(kernel, made))
        blocks = [call.logical.block for call in network.calls if call.kernel == kernel]
        if not made[kernel].variants:
            found[kernel] = made[kernel].refusals[0].reason
        elif not all(map(made[kernel].kernel.suits, blocks)):
            found[kernel] = NO_ROWS
    return found


def _check_view(view: str, policies: Sequence[str], tasks: Sequence[GpuTask], duration_s: float) -> None:
    """Refuse a view of a part that the run does not have.

    Raises:
        InputError: the view is unknown, its policy does not run, or it begins after the last request.
    """
    part = choose_view("kernel_timeline", view).keywords
    policy, from_s = part.get("policy"), part.get("from_s")
    drawn = [*policies, *([SOLO] if any(task.critical for task in tasks) else [])]
    if policy is not None and policy not in drawn:
        raise InputError(f"--view: policy {policy!r} does not run", f"there will be: {', '.join(drawn)}")
    if from_s is not None and from_s >= duration_s:
        message = f"--view begins at {format_duration(from_s)}, and requests come for {format_duration(duration_s)}"
        raise InputError(message, "choose an earlier part, or run longer with --duration")

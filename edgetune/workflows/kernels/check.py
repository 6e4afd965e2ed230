"""Tries elastic kernels with sample launches, in an interpreter on the CPU and on a GPU."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from edgetune.choices import nearest
from edgetune.devices.cpu import usable_cpus
from edgetune.errors import EdgetuneError, InputError
from edgetune.processes.worker_pool import worker_pool
from edgetune.stages.elastic import cpu_equivalence
from edgetune.stages.elastic.cpu_equivalence import Verdict
from edgetune.stages.elastic.cuda import context as cuda_context
from edgetune.stages.elastic.cuda import gpu_equivalence
from edgetune.stages.elastic.cuda.building import load_forms
from edgetune.stages.elastic.kernel import TransformResult
from edgetune.stages.elastic.ptx import interpreter
from edgetune.stages.elastic.ptx.decode import UnknownInstructionError
from edgetune.stages.elastic.ptx.interpreter import PtxProgram
from edgetune.stages.elastic.sample_launches import GUESS, HINT, SampleLaunch, guessed_launch, sample_launches_in
from edgetune.workflows.kernels.place import gpu_index
from edgetune.workflows.reporting import Reporter
from edgetune.workloads.cuda_driver import load_driver

CPU = "CPU"
CHECK_WITHOUT = "without --device the check runs on the CPU"
_NO_END = InputError(
    "it does not run to its end on the CPU, and on a GPU nothing could stop it", "see its report from the CPU"
)


Launches = tuple[Sequence[SampleLaunch], Mapping[str, EdgetuneError]]
"""Launches to try kernels with, of the file, the command line and guesses; and why a kernel has none, by its name."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The outcome of a check in one place.

    Args:
        where: ``CPU``, or the GPU as it was asked for.
        verdicts: Of each launch, and its words if it was guessed.
        untried: Why a kernel, or one of its launches, could not be run, and the remedy, by its name.
        gpu: The GPU's own name; ``None`` of the CPU.
    """

    where: str = CPU
    verdicts: tuple[tuple[Verdict, str | None], ...] = ()
    untried: Mapping[str, EdgetuneError] = field(default_factory=dict)
    gpu: str | None = None


def launches_of(done: TransformResult, name: str, text: str, asked: Sequence[str]) -> Launches:
    """Return the launches in a file and on the command line, and guesses for kernels without any.

    Args:
        done: The transformed file.
        name: Of the file, for messages.
        text: The file before the transformation.
        asked: Launches on the command line.

    Raises:
        InputError: a launch cannot be read, or is of a kernel that the file does not have.
    """
    for each in asked:
        if "grid=" not in each:  # which would be a sentence in a comment
            raise InputError(f"--launch {each!r} is no launch: it needs a kernel, grid= and block=", HINT)
    comments = "\n".join(f"// launch {each}" for each in asked)
    given = [*sample_launches_in(text, name), *sample_launches_in(comments, "--launch")]
    kernels = {one.kernel.name for one in done.kernels}
    for launch in given:
        if launch.call.kernel not in kernels:
            hint = nearest(launch.call.kernel, sorted(kernels), listed=f"it has {', '.join(sorted(kernels))}")
            raise InputError(f"{launch.place}: {name} has no kernel {launch.call.kernel}", hint)
    known = {launch.call.kernel for launch in given}
    missing = dict[str, EdgetuneError]()
    for kernel in (each.kernel for each in done.kernels if each.variants and each.kernel.name not in known):
        if (guess := guessed_launch(kernel)) is None:
            listed = ", ".join(each.type for each in kernel.parameters)
            words = " ".join(f"p{place}=..." for place in range(len(kernel.parameters)))
            missing[kernel.name] = InputError(
                f"it has no launch, and none can be guessed for its parameters ({listed})",
                "write TYPE[SIZE] for memory, TYPE:NUMBER for a value: "
                f"--launch '{kernel.name} grid=4 block=64 {words}'",
            )
        else:
            given += sample_launches_in(f"// launch {guess}", GUESS)
    return given, missing


def tried_on_cpu(done: TransformResult, name: str, launches: Launches, reporter: Reporter) -> CheckResult:
    """Try kernels on the CPU; one with an instruction that the interpreter does not know is not tried.

    Raises:
        InputError: a given launch does not suit its kernel.
    """
    trials, missing = launches
    untried, found = dict(missing), list[tuple[Verdict, str | None]]()
    pool = worker_pool(len(usable_cpus()) or 1, interpreter.begin, done.source, name)
    with reporter.bar("checking on the CPU", None), pool as workers:
        program = PtxProgram(done.source, name, workers)
        for trial in trials:
            try:
                checked = cpu_equivalence.check(done, [trial], name=name, program=program)
                found += [(each, trial.guess) for each in checked]
            except InputError as error:
                if trial.guess is None and not isinstance(error, UnknownInstructionError):
                    raise
                untried[trial.call.kernel] = error
    return CheckResult(CPU, tuple(found), untried)


def tried_on_gpu(
    done: TransformResult, name: str, launches: Launches, device: str, reporter: Reporter
) -> tuple[CheckResult, ...]:
    """Try kernels on the CPU, whose orders show races that a GPU may hide, and on a GPU.

    Raises:
        InputError: the device is no NVIDIA GPU.
        DeviceError: cuda-bindings, the driver or the GPU is missing.
    """
    with cuda_context.open_context(load_driver(without=CHECK_WITHOUT), gpu_index(device)) as context:
        on_gpu = CheckResult(device, gpu=context.facts.gpu.name)
        elastic = [each.kernel.name for each in done.kernels if each.variants]
        reporter.info(f"checking on {device}, {on_gpu.gpu}")
        try:
            on_cpu = tried_on_cpu(done, name, launches, reporter)
        except InputError as error:
            on_cpu = CheckResult(CPU, (), dict.fromkeys(elastic, error))
        try:
            built = load_forms(done, context, name)
        except InputError as error:
            return on_cpu, replace(on_gpu, untried=dict.fromkeys(elastic, error))
        endless = {each.kernel for each, _ in on_cpu.verdicts if each.answer == "fails"}
        trials = [each for each in launches[0] if each.call.kernel not in endless]
        with reporter.bar(f"checking on {device}", None):
            checked, not_run = gpu_equivalence.check(context, built, done, trials)
        guesses = {trial.call.kernel: trial.guess for trial in trials}
        verdicts = tuple((each, guesses[each.kernel]) for each in checked)
        untried = {**launches[1], **dict.fromkeys(endless, _NO_END), **not_run}
        return on_cpu, replace(on_gpu, verdicts=verdicts, untried=untried)

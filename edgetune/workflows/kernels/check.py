"""Tries elastic kernels with sample launches, on the CPU and on a GPU."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from edgetune.errors import DeviceError, EdgetuneError, InputError
from edgetune.stages.elastic import cpu_equivalence
from edgetune.stages.elastic.compiler import CompileOptions
from edgetune.stages.elastic.cpu_equivalence import Verdict
from edgetune.stages.elastic.cuda import context as cuda_context
from edgetune.stages.elastic.cuda import driver, gpu_equivalence
from edgetune.stages.elastic.cuda.context import Context
from edgetune.stages.elastic.kernel import TransformResult
from edgetune.stages.elastic.ptx.decode import UnknownInstructionError
from edgetune.stages.elastic.sample_launches import HINT, SampleLaunch, guessed_launch, sample_launches_in
from edgetune.workflows.cache_folder import compiled_folder
from edgetune.workflows.kernels.gpu import gpu_index
from edgetune.workflows.reporting import Reporter

CPU = "CPU"
CHECK_WITHOUT = "without --device the check runs on the CPU"
_LAUNCH = "write the launch as a comment beside the kernel, or as --launch 'KERNEL grid=... block=... ARGUMENT=...'"
_NO_END = InputError(
    "it does not run to its end on the CPU, and on a GPU nothing could stop it", "see its report from the CPU"
)


@dataclass(frozen=True, slots=True)
class KernelSource:
    """A source to check.

    Args:
        done: The source with its forms.
        name: Of the file, for messages.
        folders: Of headers.
    """

    done: TransformResult
    name: str
    folders: Sequence[Path]

    @property
    def elastic(self) -> list[str]:
        """Names of the kernels that have forms."""
        return [each.kernel.name for each in self.done.kernels if each.variants]


@dataclass(frozen=True, slots=True)
class Launches:
    """Launches to try kernels with.

    Args:
        given: By the file and the command line.
        guessed: One for each kernel without a given launch.
        missing: Why a kernel has neither, by its name.
    """

    given: Sequence[SampleLaunch]
    guessed: Sequence[SampleLaunch]
    missing: Mapping[str, EdgetuneError]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The outcome of a check in one place.

    Args:
        where: ``CPU``, or the GPU as it was asked for.
        verdicts: Of each launch, and whether that was guessed.
        untried: Why a kernel, or one of its launches, could not be run, and the remedy, by its name.
        gpu: The GPU's own name; ``None`` of the CPU.
    """

    where: str = CPU
    verdicts: tuple[tuple[Verdict, bool], ...] = ()
    untried: Mapping[str, EdgetuneError] = field(default_factory=dict)
    gpu: str | None = None


def launches_of(source: KernelSource, text: str, words: Sequence[str]) -> Launches:
    """Return the launches in a source and on the command line, and guesses for kernels without any.

    Args:
        source: The source to check.
        text: The file before the transformation.
        words: Launches on the command line.

    Raises:
        InputError: a launch cannot be read, or is of a kernel that the file does not have.
    """
    for each in words:
        if "grid=" not in each:  # which would be a sentence in a comment
            raise InputError(f"--launch {each!r} is no launch: it needs a kernel, grid= and block=", HINT)
    of_headers = {each.kernel.name for each in source.done.kernels if each.kernel.file is not None}
    beside = sample_launches_in(source.done.source, source.name) if of_headers else ()
    given = [
        *(each for each in sample_launches_in(text, source.name) if each.call.kernel not in of_headers),
        *(each for each in beside if each.call.kernel in of_headers),
        *sample_launches_in("\n".join(f"// launch {each}" for each in words), "--launch"),
    ]
    kernels = {one.kernel.name for one in source.done.kernels}
    for named in (each.split()[0] for each in words):
        if named not in kernels:
            names = ", ".join(sorted(source.elastic))
            raise InputError(f"--launch: {source.name} has no kernel {named}", f"one of {names}")
    known = {trial.call.kernel for trial in given}
    guessed, missing = list[SampleLaunch](), dict[str, EdgetuneError]()
    for kernel in (each.kernel for each in source.done.kernels if each.variants and each.kernel.name not in known):
        guess = guessed_launch(kernel)
        if guess is None:
            why = InputError("it has no launch, and none can be guessed for its parameters", _LAUNCH)
            missing[kernel.name] = why
        else:
            guessed += sample_launches_in(f"// launch {guess}", "a guess")
    return Launches(given, guessed, missing)


def tried_on_cpu(source: KernelSource, launches: Launches, reporter: Reporter) -> CheckResult:
    """Try kernels on the CPU.

    Raises:
        InputError: a given launch does not suit its kernel, or g++ refuses the source.
        DeviceError: there is no g++, which PTX does not need.
    """

    def verdicts(trials: Sequence[SampleLaunch]) -> tuple[Verdict, ...]:
        return cpu_equivalence.check(source.done, trials, name=source.name, include=source.folders)

    untried = dict(launches.missing)
    with reporter.bar("checking on the CPU", None):
        found = list[tuple[Verdict, bool]]()
        compiled = source.done.language == "cuda"
        for trials in [launches.given] if compiled else [[each] for each in launches.given]:
            try:
                found += [(each, False) for each in verdicts(trials)]
            except UnknownInstructionError as error:
                untried[trials[0].call.kernel] = error
        for trial in launches.guessed:
            try:
                found += [(each, True) for each in verdicts([trial])]
            except InputError as error:  # it cannot be built, e.g. because it stands under an #if that does not hold
                untried[trial.call.kernel] = error
    return CheckResult(CPU, tuple(found), untried)


def tried_on_gpu(source: KernelSource, launches: Launches, device: str, reporter: Reporter) -> tuple[CheckResult, ...]:
    """Try kernels on a GPU, and before on the CPU where that is possible: its orders show races that a GPU may hide.

    Raises:
        InputError: the device is no NVIDIA GPU.
        DeviceError: cuda-bindings, NVRTC, the driver or the GPU is missing.
    """
    with _opened(device) as context:
        on_gpu = CheckResult(device, gpu=context.facts.gpu.name)
        reporter.info(f"checking on {device}, {on_gpu.gpu}")
        try:
            options = CompileOptions(include=tuple(map(str, source.folders)), cache=compiled_folder())
            built = gpu_equivalence.build(source.done, context, name=source.name, options=options)
        except InputError as error:
            on_gpu = replace(on_gpu, untried=dict.fromkeys(source.elastic, error))
            return (*_on_cpu_too(source, launches, reporter), on_gpu)
        on_cpu = _on_cpu_too(source, launches, reporter)
        endless = {each.kernel for one in on_cpu for each, _ in one.verdicts if each.answer == "fails"}
        trials = [each for each in (*launches.given, *launches.guessed) if each.call.kernel not in endless]
        with reporter.bar(f"checking on {device}", None):
            checked = gpu_equivalence.check(context, built, source.done, trials)
        guesses = {each.call.kernel for each in launches.guessed}
        verdicts = tuple((each, each.kernel in guesses) for each in checked.verdicts)
        untried = {**launches.missing, **dict.fromkeys(endless, _NO_END), **checked.untried}
        return (*on_cpu, replace(on_gpu, verdicts=verdicts, untried=untried))


@contextmanager
def _opened(device: str) -> Iterator[Context]:
    """Open a GPU; where there is none, the hint says how to check without one."""
    with ExitStack() as stack:
        try:
            context = stack.enter_context(cuda_context.open_context(driver.load_driver(), gpu_index(device)))
        except DeviceError as error:
            raise DeviceError(error.message, CHECK_WITHOUT if error.hint == driver.WITHOUT else error.hint) from None
        yield context


def _on_cpu_too(source: KernelSource, launches: Launches, reporter: Reporter) -> tuple[CheckResult, ...]:
    """Try kernels on the CPU where that is possible; where a GPU was asked for, it is no error if it is not."""
    if source.done.language == "cuda" and shutil.which("g++") is None:
        reporter.info("not checked on the CPU too, where other orders show races that a GPU may hide: that needs g++")
        return ()
    try:
        return (tried_on_cpu(source, launches, reporter),)
    except InputError as error:
        return (CheckResult(CPU, (), dict.fromkeys(source.elastic, error)),)

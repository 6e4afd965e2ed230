"""Tries elastic kernels with sample launches, on the CPU and on a GPU."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from edgetune.choices import nearest
from edgetune.devices.cpu import usable_cpus
from edgetune.errors import DeviceError, EdgetuneError, InputError
from edgetune.processes.user_folders import compiled_folder
from edgetune.processes.worker_pool import worker_pool
from edgetune.stages.elastic import cpu_equivalence
from edgetune.stages.elastic.compiler import CompileOptions
from edgetune.stages.elastic.cpu_equivalence import Verdict
from edgetune.stages.elastic.cuda import context as cuda_context
from edgetune.stages.elastic.cuda import driver, gpu_equivalence
from edgetune.stages.elastic.cuda.context import Context
from edgetune.stages.elastic.guessed_launches import check_guesses, guessed_launches, read_guess, unguessable
from edgetune.stages.elastic.kernel import CudaKernel, TransformResult
from edgetune.stages.elastic.ptx import interpreter
from edgetune.stages.elastic.ptx.decode import UnknownInstructionError
from edgetune.stages.elastic.ptx.interpreter import PtxProgram
from edgetune.stages.elastic.sample_launches import HINT, SampleLaunch, sample_launches_in
from edgetune.stages.elastic.shim.build import NotCompiledError
from edgetune.workflows.kernels.gpu import gpu_index
from edgetune.workflows.reporting import Reporter

CPU = "CPU"
CHECK_WITHOUT = "without --device the check runs on the CPU"
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
        guessed: For each kernel without a given launch some to choose from, as words, by its name.
        missing: Why a kernel has neither, by its name.
    """

    given: Sequence[SampleLaunch]
    guessed: Mapping[str, Sequence[str]]
    missing: Mapping[str, EdgetuneError]


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
    for launch in given:
        if launch.call.kernel not in kernels:
            hint = nearest(launch.call.kernel, sorted(kernels), listed=f"it has {', '.join(sorted(kernels))}")
            raise InputError(f"{launch.place}: {source.name} has no kernel {launch.call.kernel}", hint)
    known = {launch.call.kernel for launch in given}
    guessed, missing = dict[str, Sequence[str]](), dict[str, EdgetuneError]()
    for kernel in (each.kernel for each in source.done.kernels if each.variants and each.kernel.name not in known):
        guessed[kernel.name] = guessed_launches(kernel)
        if (why := _not_guessed(kernel, guessed[kernel.name][0])) is not None:
            missing[kernel.name] = why
            del guessed[kernel.name]
    return Launches(given, guessed, missing)


def _not_guessed(kernel: CudaKernel, words: str) -> InputError | None:
    """Return the error for a kernel with a parameter that cannot be guessed.

    Args:
        kernel: The kernel.
        words: A launch in which such parameters are left open.
    """
    parameter = next((each for each in kernel.parameters if each.inner_pointers), unguessable(kernel))
    if parameter is None:
        return None
    if parameter.inner_pointers:
        message = f"no launch can give parameter {parameter.name} of type {parameter.type}: it holds pointers"
        return InputError(message, "check a kernel beside it that takes the pointers as parameters of its own")
    message = f"it has no launch, and none can be guessed for parameter {parameter.name} of type {parameter.type}"
    return InputError(message, f"write TYPE[SIZE] for memory, TYPE:NUMBER for a value: --launch '{words}'")


def tried_on_cpu(source: KernelSource, launches: Launches, reporter: Reporter) -> CheckResult:
    """Try kernels on the CPU.

    Raises:
        InputError: a given launch does not suit its kernel.
        DeviceError: there is no g++, which PTX does not need.
    """

    untried = dict(launches.missing)
    compiled, text = source.done.language == "cuda", source.done.source
    pool = worker_pool(len(usable_cpus()) or 1, interpreter.begin, text, source.name)
    with reporter.bar("checking on the CPU", None), nullcontext() if compiled else pool as workers:
        runner = None if workers is None else PtxProgram.of(text, source.name, workers)
        how: Any = {"name": source.name, "include": source.folders, "runner": runner}
        found = list[tuple[Verdict, str | None]]()
        batches = [list(launches.given)] if compiled else [[each] for each in launches.given]
        for trials in batches:
            kernels = list(dict.fromkeys(each.call.kernel for each in trials))
            try:
                found += [(each, None) for each in cpu_equivalence.check(source.done, trials, **how)]
            except (NotCompiledError, UnknownInstructionError) as error:
                if len(kernels) == 1:
                    untried[kernels[0]] = error
                else:  # one of them is at fault, and the others can be checked
                    batches += [[each for each in trials if each.call.kernel == kernel] for kernel in kernels]
        for kernel, guesses in launches.guessed.items():
            try:
                best, verdict = check_guesses(source.done, guesses, **how)
                found.append((verdict, best.words))
            except InputError as error:  # it cannot be built, e.g. because it stands under an #if that does not hold
                untried[kernel] = error
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
        suited = {each.kernel: words for one in on_cpu for each, words in one.verdicts if words is not None}
        guesses = {kernel: suited.get(kernel, words[0]) for kernel, words in launches.guessed.items()}
        trials = [*launches.given, *map(read_guess, guesses.values())]
        trials = [each for each in trials if each.call.kernel not in endless]
        with reporter.bar(f"checking on {device}", None):
            checked = gpu_equivalence.check(context, built, source.done, trials)
        verdicts = tuple((each, guesses.get(each.kernel)) for each in checked.verdicts)
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

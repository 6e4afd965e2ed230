"""Elastic kernels tried with the launches that they are given, on the CPU and on a GPU."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from edgetune.cli.screen import Screen
from edgetune.errors import DeviceError, EdgetuneError, InputError

if TYPE_CHECKING:
    from edgetune.elastic.cpu_equivalence import Verdict
    from edgetune.elastic.cuda.context import Context
    from edgetune.elastic.cuda.program import Build
    from edgetune.elastic.kernel import TransformResult
    from edgetune.elastic.sample_launches import SampleLaunch

CPU = "CPU"
CHECK_WITHOUT = "without --device the check runs on the CPU"
_LAUNCH = "write the launch as a comment beside the kernel, or as --launch 'KERNEL grid=... block=... ARGUMENT=...'"
_NO_END = InputError(
    "it does not run to its end on the CPU, and on a GPU nothing could stop it", "see what is said of it on the CPU"
)


@dataclass(frozen=True, slots=True)
class KernelSource:
    """What is tried.

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
        guessed: One for each kernel that is given none.
        missing: Why a kernel has neither, by its name.
    """

    given: Sequence[SampleLaunch]
    guessed: Sequence[SampleLaunch]
    missing: Mapping[str, EdgetuneError]

    def is_guess(self, kernel: str) -> bool:
        """Return whether the launch of a kernel is guessed."""
        return any(each.call.kernel == kernel for each in self.guessed)


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What came of trying elastic kernels in one place.

    Args:
        where: ``CPU``, or the GPU as it was asked for.
        verdicts: Of each launch, and whether that was guessed.
        untried: Why a kernel, or one of its launches, could not be run, and what to do about it, by its name.
        gpu: What the GPU calls itself; ``None`` of the CPU.
    """

    where: str = CPU
    verdicts: tuple[tuple[Verdict, bool], ...] = ()
    untried: Mapping[str, EdgetuneError] = field(default_factory=dict)
    gpu: str | None = None


def launches_of(source: KernelSource, text: str, words: Sequence[str]) -> Launches:
    """Return the launches in a source and on the command line, and guesses for kernels that have none there.

    Args:
        source: What is tried.
        text: The file as it was.
        words: Launches on the command line.

    Raises:
        InputError: one cannot be read, or is of a kernel that the file does not have.
    """
    from edgetune.elastic.sample_launches import HINT, guessed_launch, sample_launches_in

    for each in words:
        if "grid=" not in each:  # which would be a sentence in a comment
            raise InputError(f"--launch {each!r} is no launch: it needs a kernel, grid= and block=", HINT)
    given = [
        *sample_launches_in(text, source.name),
        *sample_launches_in("\n".join(f"// launch {each}" for each in words), "--launch"),
    ]
    kernels = {one.kernel.name for one in source.done.kernels}
    for each in words:
        named = each.split()[0]
        if named not in kernels:
            names = ", ".join(sorted(source.elastic))
            raise InputError(f"--launch: {source.name} has no kernel {named}", f"one of {names}")
    known = {trial.call.kernel for trial in given}
    guessed: list[SampleLaunch] = []
    missing: dict[str, EdgetuneError] = {}
    for elastic in source.done.kernels:
        kernel = elastic.kernel
        if elastic.variants and kernel.name not in known:
            guess = guessed_launch(kernel)
            if guess is None:
                why = InputError("it has no launch, and none can be guessed for its parameters", _LAUNCH)
                missing[kernel.name] = why
            else:
                guessed += sample_launches_in(f"// launch {guess}", "a guess")
    return Launches(given, guessed, missing)


def tried_on_cpu(source: KernelSource, launches: Launches) -> CheckResult:
    """Try kernels on the CPU.

    Raises:
        InputError: a launch that was given is none that its kernel takes, or g++ refuses the source.
        DeviceError: there is no g++.
    """
    from edgetune.elastic.cpu_equivalence import check

    def verdicts(trials: Sequence[SampleLaunch]) -> tuple[Verdict, ...]:
        return check(source.done, trials, name=source.name, include=source.folders)

    found = [(each, False) for each in verdicts(launches.given)]
    untried = dict(launches.missing)
    for trial in launches.guessed:
        try:
            found += [(each, True) for each in verdicts([trial])]
        except InputError as error:  # it cannot be built, e.g. because it stands under an #if that does not hold
            untried[trial.call.kernel] = error
    return CheckResult(CPU, tuple(found), untried)


def tried_on_gpu(source: KernelSource, launches: Launches, device: str, screen: Screen) -> tuple[CheckResult, ...]:
    """Try kernels on a GPU, and on the CPU before where that is possible: its orders show races that a GPU may hide.

    Raises:
        InputError: it is no NVIDIA GPU.
        DeviceError: cuda-bindings, NVRTC, the driver or the GPU is missing.
    """
    from edgetune.elastic.cuda.gpu_equivalence import build
    from edgetune.workflows.cache_folder import compiled_folder

    with _opened(device) as context:
        on_gpu = CheckResult(device, gpu=context.facts.gpu.name)
        screen.info(f"checking on {device}, {on_gpu.gpu}")
        try:
            built = build(source.done, context, name=source.name, include=source.folders, cache=compiled_folder())
        except InputError as error:
            on_gpu = replace(on_gpu, untried=dict.fromkeys(source.elastic, error))
            return (*_beside(source, launches, screen), on_gpu)
        on_cpu = _beside(source, launches, screen)
        verdicts, untried = _on_gpu(context, built, source, launches, on_cpu)
        return (*on_cpu, replace(on_gpu, verdicts=verdicts, untried=untried))


@contextmanager
def _opened(device: str) -> Iterator[Context]:
    """Open a GPU; whoever has none is told how to check without one."""
    from edgetune.elastic.cuda.context import open_context
    from edgetune.elastic.cuda.driver import WITHOUT, load_driver
    from edgetune.workflows.kernels.gpu import gpu_index

    with ExitStack() as stack:
        try:
            context = stack.enter_context(open_context(load_driver(), gpu_index(device)))
        except DeviceError as error:
            raise DeviceError(error.message, CHECK_WITHOUT if error.hint == WITHOUT else error.hint) from None
        yield context


def _beside(source: KernelSource, launches: Launches, screen: Screen) -> tuple[CheckResult, ...]:
    """Try kernels on the CPU where that is possible; what is not is no error where a GPU was asked for."""
    if shutil.which("g++") is None:
        screen.info("not checked on the CPU too, where other orders show races that a GPU may hide: that needs g++")
        return ()
    try:
        return (tried_on_cpu(source, launches),)
    except InputError as error:
        return (CheckResult(CPU, (), dict.fromkeys(source.elastic, error)),)


def _on_gpu(
    context: Context, built: Build, source: KernelSource, launches: Launches, before: Sequence[CheckResult]
) -> tuple[tuple[tuple[Verdict, bool], ...], dict[str, EdgetuneError]]:
    """Return verdicts and what was not tried of a GPU, as ``CheckResult`` has them."""
    from edgetune.elastic.cuda.gpu_equivalence import check

    ends_not = {each.kernel for one in before for each, _ in one.verdicts if each.answer == "fails"}
    trials = [each for each in (*launches.given, *launches.guessed) if each.call.kernel not in ends_not]
    checked = check(context, built, source.done, trials)
    verdicts = tuple((each, launches.is_guess(each.kernel)) for each in checked.verdicts)
    return verdicts, {**launches.missing, **dict.fromkeys(ends_not, _NO_END), **checked.untried}

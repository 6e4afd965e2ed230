"""From the options of ``edgetune schedule kernels transform`` to source, and to what is told of it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgetune.cli.screen import Screen, answer, print_document, print_lines, table
from edgetune.errors import InputError, PartialError
from edgetune.processes.streams import write_bytes
from edgetune.workflows.kernels.check import (
    CHECK_WITHOUT,
    CheckResult,
    KernelSource,
    launches_of,
    tried_on_cpu,
    tried_on_gpu,
)

if TYPE_CHECKING:
    from edgetune.elastic.cpu_equivalence import Verdict
    from edgetune.elastic.kernel import ElasticKernel, TransformResult

_STDIN_FILE = "stdin.cu"
_RACE = (
    "a race: two threads touch one place and one of them writes; put a barrier between, or use an atomic operation, "
    "or give a launch in which each thread has its own place"
)
_FAILURES = {
    "hang": "an endless loop: see what its condition waits for, and whether the sizes of the launch let it end",
    "deadlock": "some threads wait for others that never come: let all threads of the block come to each barrier",
    "mismatched-barrier": "let all threads of a block come to the same barriers in the same order",
    "crash": "is the memory of the launch as large as the kernel takes it to be?",
}
"""What to do about an original that does not end well, by how it ended (see ``shim.launches.ShimResult``)."""
_BY_THE_ORIGINAL = ("racy", "fails")
"""What the original does by itself: with a guessed launch that may be the guess, e.g. a row of threads for a tile."""


@dataclass(frozen=True, slots=True)
class TransformOptions:
    """What was asked."""

    file: str
    output: str | None
    include: tuple[str, ...]
    launches: tuple[str, ...]
    explain: bool
    check: bool
    json: bool
    device: str | None = None

    @property
    def folders(self) -> list[Path]:
        """Where headers are looked for."""
        beside = [] if self.file == "-" else [Path(self.file).parent]
        return [*beside, *map(Path, self.include)]


def run_kernel_transform(request: TransformOptions, screen: Screen) -> None:
    """Transform a file, write it, and tell what was asked for.

    Raises:
        InputError: the file cannot be read, none of its kernels can be made elastic, or the device is no NVIDIA GPU.
        DeviceError: tree-sitter is missing, or what is needed to check: g++, or for a GPU CUDA.
        PartialError: a form does something else than its original, or that could not be found out.
    """
    from edgetune.artifacts.files import read_source, write_atomically
    from edgetune.elastic.source.transform import transform
    from edgetune.workflows.output import check_outputs

    if request.device is not None:
        from edgetune.workflows.kernels.gpu import gpu_index

        gpu_index(request.device, CHECK_WITHOUT)  # which raises where it is no NVIDIA GPU
    check_outputs({"-o": request.output}, [request.file], {"-o": "CUDA source"})
    _check_folders(request.include)
    text = read_source(request.file).decode("utf-8", "surrogateescape")
    name = _STDIN_FILE if request.file == "-" else request.file
    done = transform(text, name, request.folders)
    made = [each for each in done.kernels if each.variants]
    source = done.source.encode("utf-8", "surrogateescape")
    to_file = request.output not in (None, "-")
    if made and to_file:  # before the check, which may not be possible here
        assert request.output is not None
        written = write_atomically(source, request.output)
        screen.info(f"wrote {written}: {len(made)} of {len(done.kernels)} kernels are elastic")
    if not request.json:
        _report_result(request, done, screen)
    tried = _tried(request, KernelSource(done, name, request.folders), text, screen) if request.check else ()
    if request.json:
        answer(_report(done, tried))
    elif request.check and made:
        _show(made, tried)
    if not made:
        first = next((each for one in done.kernels for each in one.refusals), None) or done.refusals[0]
        raise InputError(f"{name}:{first.line}: no kernel can be made elastic: {first.reason}", first.remedy)
    told = request.json or request.explain or request.check
    if request.output == "-" or not (to_file or told):
        print_document(source.decode(errors="surrogateescape")) if sys.stdout.isatty() else write_bytes(source)
    _judge(tried, len(made))


def _check_folders(folders: Sequence[str]) -> None:
    for folder in folders:
        if not Path(folder).is_dir():
            raise InputError(f"--include {folder} is no folder", "name a folder that holds headers")


def _tried(request: TransformOptions, source: KernelSource, text: str, screen: Screen) -> tuple[CheckResult, ...]:
    """Try each elastic kernel with the launches that were given, else with a guessed one; the CPU comes first."""
    launches = launches_of(source, text, request.launches)
    if not source.elastic:
        return ()
    if request.device is None:
        return (tried_on_cpu(source, launches),)
    return tried_on_gpu(source, launches, request.device, screen)


def _report_result(request: TransformOptions, done: TransformResult, screen: Screen) -> None:
    from edgetune.elastic.source.explain import cost, describe, explained

    if request.explain:
        print_lines(*explained(done))
    else:
        for each in done.kernels:
            for refused in each.refusals:
                screen.info(f"line {refused.line}: {each.kernel.name}: {cost(each, refused)}: {describe(refused)}")
        for refused in done.refusals:
            screen.info(f"line {refused.line}: {describe(refused)}")


def _show(made: Sequence[ElasticKernel], tried: Sequence[CheckResult]) -> None:
    """Print what came of trying kernels, and where they were tried if not on the CPU alone."""
    rows = [(one.where, _row(each, one)) for each in made for one in tried]
    columns = ["kernel", "forms>", "sequences>", "answer", "launch", "why"]
    if all(one.gpu is None for one in tried):
        table(columns, [tuple(row.values()) for _, row in rows])
    else:
        table(["where", *columns], [(where, *row.values()) for where, row in rows])


def _row(each: ElasticKernel, tried: CheckResult) -> dict[str, object]:
    mine = [(verdict, guessed) for verdict, guessed in tried.verdicts if verdict.kernel == each.kernel.name]
    worst = next((one for one in mine if one[0].answer != "equal"), None)
    why = tried.untried.get(each.kernel.name)
    sequences = sum(one.sequences for one, _ in mine)
    if worst is None and why is not None:
        return {"kernel": each.kernel.name, "forms": len(each.variants), "sequences": sequences, "answer": "not tried",
                "launch": "given" if mine else "none", "why": why.message}  # fmt: skip
    verdict, guessed = worst or mine[0]
    return {
        "kernel": verdict.kernel,
        "forms": verdict.forms,
        "sequences": sequences,
        "answer": "unclear" if guessed and verdict.answer in _BY_THE_ORIGINAL else verdict.answer,
        "launch": "guessed" if guessed else "given",
        "why": verdict.reason,
    }


def _report(done: TransformResult, tried: Sequence[CheckResult]) -> dict[str, Any]:
    """Return the answer for machines; what came of trying them stands at the kernels that are elastic."""
    kernels = []
    for each in done.kernels:
        one: dict[str, Any] = {
            **asdict(each.kernel),
            "variants": [asdict(variant) for variant in each.variants],
            "refusals": [asdict(refused) for refused in each.refusals],
            "steps": list(each.steps),
        }
        for place in tried if each.variants else ():
            if place.gpu is None:
                one["check"] = _row(each, place)
            else:
                one["check_on_gpu"] = {"device": place.where, "gpu": place.gpu, **_row(each, place)}
        kernels.append(one)
    return {"kernels": kernels, "refusals": [asdict(refused) for refused in done.refusals]}


def _judge(tried: Sequence[CheckResult], elastic: int) -> None:
    """Raise the worst that came out, if anything did; what was to run on a GPU need not have run on the CPU too."""
    asked = [one for one in tried if one.gpu is not None] or tried
    verdicts = [(_on(one, asked), *each) for one in tried for each in one.verdicts]
    for on, verdict, _ in verdicts:
        if verdict.answer == "different":
            raise PartialError(
                f"{verdict.kernel}{on}: a form does something else than the original: {verdict.reason}",
                "do not use it, and report the kernel; --explain shows what was done to it",
            )
    unknown = sorted((each for each in verdicts if each[1].answer != "equal"), key=lambda each: each[2])
    if unknown:
        on, verdict, guessed = unknown[0]
        raise _unclear(verdict, guessed, on)
    for one in asked:
        if one.untried:
            name, why = next(iter(one.untried.items()))
            count = f"{len(one.untried)} of {elastic} elastic kernels not checked{_on(one, asked)}"
            raise PartialError(f"{count}; {name}: {why.message}", why.hint)


def _on(one: CheckResult, asked: Sequence[CheckResult]) -> str:
    """Return where that was, if it could have been elsewhere."""
    where = "the CPU" if one.gpu is None else one.where
    return "" if asked[0].gpu is None else f" on {where}"


def _unclear(verdict: Verdict, guessed: bool, on: str = "") -> PartialError:
    """Return the error for an original that is no yardstick, or that the guess does not suit."""
    if guessed:
        return PartialError(
            f"{verdict.kernel} cannot be checked{on} by a guessed launch: {verdict.reason}",
            f"give the launch that it is written for: --launch '{verdict.kernel} grid=... block=... ARGUMENT=...'",
        )
    if verdict.answer == "racy":
        return PartialError(f"{verdict.kernel} is racy by itself{on}: {verdict.reason}", _RACE)
    hint = _FAILURES.get(verdict.reason.partition(":")[0], "correct the kernel, or the launch that it is given")
    if "dynamic shared memory" in verdict.reason:
        hint = "say in the launch how much of it a block is given, in bytes, e.g. shared=1024"
    return PartialError(f"{verdict.kernel} does not run to its end{on}: {verdict.reason}", hint)

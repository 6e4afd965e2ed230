"""From the options of ``edgetune schedule kernels transform`` to source, and to what is told of it."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgetune.cli.screen import Screen, answer, table
from edgetune.errors import InputError, PartialError

if TYPE_CHECKING:
    from edgetune.elastic.check import Verdict
    from edgetune.elastic.kernel import Elastic, Transformed

_STDIN_FILE = "stdin.cu"
_LAUNCH = "write the launch as a comment beside the kernel, or as --launch 'KERNEL grid=... block=... ARGUMENT=...'"
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
"""What to do about an original that does not end well, by how it ended (see ``shim.launches.Outcome``)."""
_BY_THE_ORIGINAL = ("racy", "fails")
"""What the original does by itself: with a guessed launch that may be the guess, e.g. a row of threads for a tile."""


@dataclass(frozen=True, slots=True)
class Tried:
    """What came of trying elastic kernels.

    Args:
        verdicts: Of each launch, and whether that was guessed.
        untried: Why a kernel could not be run, and what to do about it, by its name.
    """

    verdicts: tuple[tuple[Verdict, bool], ...] = ()
    untried: Mapping[str, InputError] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked."""

    file: str
    output: str | None
    include: tuple[str, ...]
    launches: tuple[str, ...]
    explain: bool
    check: bool
    json: bool

    @property
    def folders(self) -> list[Path]:
        """Where headers are looked for."""
        beside = [] if self.file == "-" else [Path(self.file).parent]
        return [*beside, *map(Path, self.include)]


def carry_out(request: Request, screen: Screen) -> None:
    """Transform a file, write it, and tell what was asked for.

    Raises:
        InputError: the file cannot be read, or none of its kernels can be made elastic.
        DeviceError: tree-sitter is missing, or g++ to check with.
        PartialError: a form does something else than its original, or that could not be found out.
    """
    from edgetune.artifacts.files import read_source, write_atomically
    from edgetune.cli.kept_files import check_outputs
    from edgetune.elastic.source.transform import transform

    check_outputs({"-o": request.output}, [request.file], {})
    _check_folders(request.include)
    text = read_source(request.file).decode("utf-8", "surrogateescape")
    name = _STDIN_FILE if request.file == "-" else request.file
    done = transform(text, name, request.folders)
    made = [each for each in done.kernels if each.variants]
    source = done.source.encode("utf-8", "surrogateescape")
    to_file = request.output not in (None, "-")
    if made and to_file:  # before the check, which may not be possible here
        assert request.output is not None
        write_atomically(source, request.output)
        screen.say(f"wrote {request.output}: {len(made)} of {len(done.kernels)} kernels are elastic")
    if not request.json:
        _tell(request, done, screen)
    tried = _tried(request, done, text, name) if request.check else Tried()
    if request.json:
        answer(_report(done, tried if request.check else None))
    elif request.check and made:
        rows = [_row(each, tried) for each in made]
        table(["kernel", "forms>", "sequences>", "answer", "launch", "why"], [tuple(row.values()) for row in rows])
    if not made:
        first = next((each for one in done.kernels for each in one.refusals), None) or done.refusals[0]
        raise InputError(f"{name}:{first.line}: no kernel can be made elastic: {first.reason}", first.remedy)
    told = request.json or request.explain or request.check
    if request.output == "-" or not (to_file or told):
        sys.stdout.buffer.write(source)
        sys.stdout.buffer.flush()
    _judge(tried, len(made))


def _check_folders(folders: Sequence[str]) -> None:
    for folder in folders:
        if not Path(folder).is_dir():
            raise InputError(f"--include {folder} is no folder", "name a folder that holds headers")


def _tried(request: Request, done: Transformed, text: str, name: str) -> Tried:
    """Try each elastic kernel with the launches that were given, else with a guessed one."""
    from edgetune.elastic.check import check
    from edgetune.elastic.source.guess import guessed_launch
    from edgetune.elastic.trials import trials_in

    elastic = [each.kernel for each in done.kernels if each.variants]
    given = "\n".join(f"// launch {words}" for words in request.launches)
    trials = [*trials_in(text, name), *trials_in(given, "--launch")]
    known = {trial.call.kernel for trial in trials}
    for words in request.launches:
        if words.split()[:1] and words.split()[0] not in {each.kernel.name for each in done.kernels}:
            names = ", ".join(sorted(each.name for each in elastic))
            raise InputError(f"--launch: {name} has no kernel {words.split()[0]}", f"one of {names}")
    found = [(each, False) for each in check(done, trials, name=name, include=request.folders)]
    untried: dict[str, InputError] = {}
    for kernel in (each for each in elastic if each.name not in known):
        guess = guessed_launch(kernel)
        if guess is None:
            untried[kernel.name] = InputError("it has no launch, and none can be guessed for its parameters", _LAUNCH)
            continue
        try:
            trial = trials_in(f"// launch {guess}", "a guess")
            found += [(each, True) for each in check(done, trial, name=name, include=request.folders)]
        except InputError as error:  # it cannot be built, e.g. because it stands under an #if that does not hold
            untried[kernel.name] = error
    return Tried(tuple(found), untried)


def _tell(request: Request, done: Transformed, screen: Screen) -> None:
    from edgetune.elastic.source.explain import cost, explained, told

    if request.explain:
        print("\n".join(explained(done)))
    else:
        for each in done.kernels:
            for refused in each.refusals:
                screen.say(f"line {refused.line}: {each.kernel.name}: {cost(each, refused)}: {told(refused)}")
        for refused in done.refusals:
            screen.say(f"line {refused.line}: {told(refused)}")


def _row(each: Elastic, tried: Tried) -> dict[str, object]:
    mine = [(verdict, guessed) for verdict, guessed in tried.verdicts if verdict.kernel == each.kernel.name]
    worst = next((one for one in mine if one[0].answer != "equal"), mine[0] if mine else None)
    if worst is None:
        why = tried.untried[each.kernel.name]
        return {"kernel": each.kernel.name, "forms": len(each.variants), "sequences": 0, "answer": "not tried",
                "launch": "none", "why": why.message}  # fmt: skip
    verdict, guessed = worst
    return {
        "kernel": verdict.kernel,
        "forms": verdict.forms,
        "sequences": sum(one.sequences for one, _ in mine),
        "answer": "unclear" if guessed and verdict.answer in _BY_THE_ORIGINAL else verdict.answer,
        "launch": "guessed" if guessed else "given",
        "why": verdict.reason,
    }


def _report(done: Transformed, tried: Tried | None) -> dict[str, Any]:
    """Return the answer for machines; what came of trying them stands at the kernels that are elastic."""
    kernels = []
    for each in done.kernels:
        one: dict[str, Any] = {
            **asdict(each.kernel),
            "variants": [asdict(variant) for variant in each.variants],
            "refusals": [asdict(refused) for refused in each.refusals],
            "steps": list(each.steps),
        }
        if tried is not None and each.variants:
            one["check"] = _row(each, tried)
        kernels.append(one)
    return {"kernels": kernels, "refusals": [asdict(refused) for refused in done.refusals]}


def _judge(tried: Tried, elastic: int) -> None:
    """Raise the worst that came out, if anything did."""
    wrong = [each for each, _ in tried.verdicts if each.answer == "different"]
    if wrong:
        raise PartialError(
            f"{wrong[0].kernel}: a form does something else than the original: {wrong[0].reason}",
            "do not use it, and report the kernel; --explain shows what was done to it",
        )
    unknown = sorted((each for each in tried.verdicts if each[0].answer != "equal"), key=lambda each: each[1])
    if unknown:
        raise _unclear(*unknown[0])
    if tried.untried:
        name, why = next(iter(tried.untried.items()))
        count = len(tried.untried)
        raise PartialError(f"{count} of {elastic} elastic kernels not checked; {name}: {why.message}", why.hint)


def _unclear(verdict: Verdict, guessed: bool) -> PartialError:
    """Return the error for an original that is no yardstick, or that the guess does not suit."""
    if guessed:
        return PartialError(
            f"{verdict.kernel} cannot be checked by a guessed launch: {verdict.reason}",
            f"give the launch that it is written for: --launch '{verdict.kernel} grid=... block=... ARGUMENT=...'",
        )
    if verdict.answer == "racy":
        return PartialError(f"{verdict.kernel} is racy by itself: {verdict.reason}", _RACE)
    hint = _FAILURES.get(verdict.reason.partition(":")[0], "correct the kernel, or the launch that it is given")
    return PartialError(f"{verdict.kernel} does not run to its end: {verdict.reason}", hint)

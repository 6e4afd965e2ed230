"""From the options of ``edgetune schedule kernels transform`` to source, and to what is told of it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgetune.cli.screen import Screen, answer, table
from edgetune.errors import InputError, PartialError

if TYPE_CHECKING:
    from edgetune.elastic.check import Verdict
    from edgetune.elastic.kernel import Elastic, Transformed

_STDIN_FILE = "stdin.cu"
_BY_THE_ORIGINAL = ("racy", "fails")
"""What the original does by itself: with a guessed launch that may be the guess, e.g. a row of threads for a tile."""


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
    verdicts = _verdicts(request, done, text, name) if request.check else []
    if request.json:
        answer(_report(done, verdicts))
    elif request.check:
        rows = [_row(each, verdicts) for each in done.kernels if each.variants]
        table(["kernel", "forms>", "sequences>", "answer", "launch", "why"], [tuple(row.values()) for row in rows])
    if not made:
        first = next((each for one in done.kernels for each in one.refusals), None) or done.refusals[0]
        raise InputError(f"{name}:{first.line}: no kernel can be made elastic: {first.reason}", first.remedy)
    told = request.json or request.explain or request.check
    if request.output == "-" or not (to_file or told):
        sys.stdout.buffer.write(source)
        sys.stdout.buffer.flush()
    _judge(verdicts)


def _check_folders(folders: Sequence[str]) -> None:
    for folder in folders:
        if not Path(folder).is_dir():
            raise InputError(f"--include {folder} is no folder", "name a folder that holds headers")


def _verdicts(request: Request, done: Transformed, text: str, name: str) -> list[tuple[Verdict, bool]]:
    """Return what came of trying each elastic kernel, and whether the launch was guessed."""
    from edgetune.elastic.check import check
    from edgetune.elastic.source.guess import guessed_launch
    from edgetune.elastic.trials import trials_in

    elastic = [each.kernel for each in done.kernels if each.variants]
    names = {each.name for each in elastic}
    given = "\n".join(f"// launch {words}" for words in request.launches)
    trials = [*trials_in(text, name), *trials_in(given, "--launch")]
    known = {trial.call.kernel for trial in trials}
    for words in request.launches:
        if words.split()[:1] and words.split()[0] not in {each.kernel.name for each in done.kernels}:
            raise InputError(f"--launch: {name} has no kernel {words.split()[0]}", f"one of {', '.join(sorted(names))}")
    found = [(each, False) for each in check(done, trials, name=name, include=request.folders)]
    guesses = [guessed_launch(each) for each in elastic if each.name not in known]
    for guess in (f"// launch {words}" for words in guesses if words is not None):
        try:
            tried = check(done, trials_in(guess, "a guess"), name=name, include=request.folders)
        except InputError:  # it cannot be built, e.g. because it stands under an #if that does not hold
            continue
        found += [(each, True) for each in tried]
    return found


def _tell(request: Request, done: Transformed, screen: Screen) -> None:
    from edgetune.elastic.source.explain import explained, told

    if request.explain:
        print("\n".join(explained(done)))
    else:
        for each in done.kernels:
            for refused in each.refusals:
                kept = "left as it is" if refused.level == "grid" else "the grid alone is elastic"
                screen.say(f"line {refused.line}: {each.kernel.name}: {kept}: {told(refused)}")
        for refused in done.refusals:
            screen.say(f"line {refused.line}: {told(refused)}")


def _row(each: Elastic, verdicts: Sequence[tuple[Verdict, bool]]) -> dict[str, object]:
    mine = [(verdict, guessed) for verdict, guessed in verdicts if verdict.kernel == each.kernel.name]
    worst = next((one for one in mine if one[0].answer != "equal"), mine[0] if mine else None)
    if worst is None:
        why = f"write one: --launch '{each.kernel.name} grid=... block=...'"
        return {"kernel": each.kernel.name, "forms": len(each.variants), "sequences": 0, "answer": "not tried",
                "launch": "none", "why": why}  # fmt: skip
    verdict, guessed = worst
    return {
        "kernel": verdict.kernel,
        "forms": verdict.forms,
        "sequences": sum(one.sequences for one, _ in mine),
        "answer": "unclear" if guessed and verdict.answer in _BY_THE_ORIGINAL else verdict.answer,
        "launch": "guessed" if guessed else "given",
        "why": verdict.reason,
    }


def _report(done: Transformed, verdicts: Sequence[tuple[Verdict, bool]]) -> dict[str, Any]:
    kernels = []
    for each in done.kernels:
        one: dict[str, Any] = {
            **asdict(each.kernel),
            "variants": [asdict(variant) for variant in each.variants],
            "refusals": [asdict(refused) for refused in each.refusals],
            "steps": list(each.steps),
        }
        if verdicts:
            one["check"] = _row(each, verdicts)
        kernels.append(one)
    return {"kernels": kernels, "refusals": [asdict(refused) for refused in done.refusals]}


def _judge(verdicts: Sequence[tuple[Verdict, bool]]) -> None:
    wrong = [each for each, _ in verdicts if each.answer == "different"]
    if wrong:
        raise PartialError(
            f"{wrong[0].kernel}: a form does something else than the original: {wrong[0].reason}",
            "do not use it, and report the kernel; --explain shows what was done to it",
        )
    unknown = sorted((each for each in verdicts if each[0].answer != "equal"), key=lambda each: each[1])
    if not unknown:
        return
    verdict, guessed = unknown[0]
    if guessed:
        raise PartialError(
            f"{verdict.kernel} cannot be checked by a guessed launch: {verdict.reason}",
            f"give the launch that it is written for: --launch '{verdict.kernel} grid=... block=... ARGUMENT=...'",
        )
    what = "is racy by itself" if verdict.answer == "racy" else "does not run to its end"
    raise PartialError(
        f"{verdict.kernel} {what}: {verdict.reason}", "correct the kernel, or the launch that it is given"
    )

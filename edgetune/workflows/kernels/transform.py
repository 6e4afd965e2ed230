"""Makes the kernels of a CUDA C or PTX file elastic, and checks them on request."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from edgetune.artifacts.files import read_source, write_atomically
from edgetune.errors import InputError, PartialError
from edgetune.plotting.page import SectionWriter
from edgetune.stages.elastic.compiler import CompileOptions
from edgetune.stages.elastic.cpu_equivalence import Verdict
from edgetune.stages.elastic.front import transform as elastic_forms
from edgetune.stages.elastic.kernel import ElasticKernel, TransformResult
from edgetune.stages.elastic.mdtb.networks import ARCHITECTURE
from edgetune.stages.elastic.ptx.parse import is_ptx
from edgetune.workflows.kernels.check import CHECK_WITHOUT, CheckResult, launches_of, tried_on_cpu, tried_on_gpu
from edgetune.workflows.kernels.options import TransformOptions, header_folders
from edgetune.workflows.kernels.place import gpu_index
from edgetune.workflows.output import check_outputs
from edgetune.workflows.reporting import Reporter

_STDIN_FILE = "stdin.cu"
_RACE = (
    "a race, or shared memory that is read before it is written: in a block put a barrier between writing and reading; "
    "across blocks give each thread its own place, or use atomicAdd, atomicMin, atomicMax and the like, whose order "
    "does not matter (what atomicExch and atomicCAS leave, and what every atomic operation returns, depends on it)"
)
_FAILURES = {
    "failed its assertion": "give a launch for whose numbers the assertion holds, or correct the kernel",
    "dynamic shared memory": "say in the launch how much of it a block is given, in bytes, e.g. shared=1024",
    "hang": "an endless loop: see what its condition waits for, and whether the sizes of the launch let it end",
    "deadlock": "some threads wait for others that never come: let all threads of the block come to each barrier",
    "mismatched-barrier": "let all threads of a block come to the same barriers in the same order",
    "crash": "is the memory of the launch as large as the kernel takes it to be?",
}
"""Remedies for an original that does not end well, by words of how it ended (see ``CpuResult``)."""
_BY_THE_ORIGINAL = ("racy", "fails", "no output")
"""Answers about the original: with a guessed launch the guess is at fault, e.g. a row of threads for a tile."""


@dataclass(frozen=True, slots=True)
class Transformed:
    """A transformed file.

    Args:
        name: Of the file, for messages.
        done: The source with its forms.
        tried: The outcome of the check, the CPU first; empty where none was asked for.
    """

    name: str
    done: TransformResult
    tried: tuple[CheckResult, ...] = ()

    @property
    def made(self) -> list[ElasticKernel]:
        """The kernels that have forms."""
        return [each for each in self.done.kernels if each.variants]

    def require_elastic(self) -> None:
        """Check that a kernel could be made elastic.

        Raises:
            InputError: no kernel could; the message names the first reason.
        """
        if not self.made:
            first = next(each for one in self.done.kernels for each in one.refusals)
            place = f"{first.file or self.name}:{first.line}"
            message = f"{place}: no kernel can be made elastic: {first.kernel}: {first.code}: {first.reason}"
            raise InputError(message, first.remedy)


def transform(
    opts: TransformOptions, reporter: Reporter, on_transformed: Callable[[Transformed], None] = lambda _: None
) -> Transformed:
    """Transform a file, write it to a named file, and check each elastic kernel on request, first on the CPU.

    Args:
        opts: The options.
        reporter: For notes.
        on_transformed: Called with the result before the check, which may not be possible here.

    Raises:
        InputError: the file cannot be read or compiled, or the device is no NVIDIA GPU.
        DeviceError: NVRTC is missing, or CUDA for a check on a GPU.
    """
    text, name = _read(opts)
    done = elastic_forms(
        text, name, opts.arch or ARCHITECTURE, options=CompileOptions(False, header_folders(opts.file, opts.include)),
        instances=opts.instantiate, persistent=opts.persistent,
    )  # fmt: skip
    found = Transformed(name, done)
    if found.made and opts.output not in (None, "-"):
        written = write_atomically(done.source.encode("utf-8", "surrogateescape"), str(opts.output))
        reporter.info(f"wrote {written}: {len(found.made)} of {len(done.kernels)} kernels are elastic")
    on_transformed(found)
    if not opts.checks:
        return found
    launches = launches_of(done, name, text, opts.launch)
    if not found.made:
        return found
    if opts.device is None:
        return Transformed(name, done, (tried_on_cpu(done, name, launches, reporter),))
    return Transformed(name, done, tried_on_gpu(done, name, launches, opts.device, reporter))


def _read(opts: TransformOptions) -> tuple[str, str]:
    """Check the options; return the text of the file, and its name for messages.

    Raises:
        InputError: an option cannot be used, or the file cannot be read.
    """
    if opts.device is not None:
        if not opts.checks:
            raise InputError("--device chooses where to check, and --check is not given", "add --check")
        gpu_index(opts.device, CHECK_WITHOUT)  # which raises where it is no NVIDIA GPU
    text = read_source(opts.file).decode("utf-8", "surrogateescape")
    name = _STDIN_FILE if opts.file == "-" else opts.file
    check_outputs({"-o": opts.output}, [opts.file], {"-o": "PTX"})
    for folder in opts.include:
        if not Path(folder).is_dir():
            raise InputError(f"--include {folder} is no folder", "name a folder that holds headers")
    of_source = {"--instantiate": opts.instantiate, "--include": opts.include, "--arch": opts.arch}
    for option, given in of_source.items() if is_ptx(name, text) else ():
        if given:
            message = f"{option} is for CUDA C, and {opts.file} is PTX, which is compiled already"
            raise InputError(message, f"leave {option} out, or give the source")
    return text, name


def check_section(found: Transformed, out: SectionWriter, *, explain: bool) -> None:
    """Write the outcome of a check of each kernel, and the guessed launches where an explanation is asked for."""
    rows = [(one.where, _row(each, one)) for each in found.made for one in found.tried]
    where = ["where"] if any(one.gpu is not None for one in found.tried) else []
    columns = [*where, "kernel", "forms>", "sequences>", "answer", "launch", "why"]
    out.table(columns, [(*([place] if where else []), *list(row.values())[:-1]) for place, row in rows])
    for guess in dict.fromkeys(row["guess"] for _, row in rows if explain and row["guess"]):
        out.note(f"guessed launch: {guess}")


def _row(each: ElasticKernel, tried: CheckResult) -> dict[str, object]:
    """Return the outcome of a check of one kernel, and the launch that was guessed for it, if one was."""
    mine = [(verdict, guessed) for verdict, guessed in tried.verdicts if verdict.kernel == each.kernel.name]
    worst = next((one for one in mine if one[0].answer != "equal"), None)
    why = tried.untried.get(each.kernel.name)
    row: dict[str, object] = {
        "kernel": each.kernel.name, "forms": len(each.variants), "sequences": sum(one.sequences for one, _ in mine)
    }  # fmt: skip
    if worst is None and why is not None:
        row |= {"answer": "not tried", "launch": "given" if mine else "none", "why": why.message}
    else:
        verdict, guess = worst or mine[0]
        answer = "unclear" if guess and verdict.answer in _BY_THE_ORIGINAL else verdict.answer
        row |= {"answer": answer, "launch": "guessed" if guess else "given", "why": verdict.reason}
    return row | {"guess": mine[0][1] if mine else None}


def document(found: Transformed) -> dict[str, Any]:
    """Return the JSON answer; elastic kernels have the outcome of the check."""
    kernels = []
    for each in found.done.kernels:
        one: dict[str, Any] = {
            **asdict(each.kernel),
            "variants": [asdict(variant) for variant in each.variants],
            "refusals": [asdict(refused) for refused in each.refusals],
            "steps": list(each.steps),
        }
        for place in found.tried if each.variants else ():
            row = _row(each, place)
            if place.gpu is None:
                one["check"] = row
            else:
                one["check_on_gpu"] = {"device": place.where, "gpu": place.gpu, **row}
        kernels.append(one)
    return {"kernels": kernels}


def judge(found: Transformed) -> None:
    """Raise the worst outcome of a check; with a requested GPU, a kernel need not have run on the CPU.

    Raises:
        PartialError: a form differs from its original, or the comparison was not possible.
    """
    asked = [one for one in found.tried if one.gpu is not None] or found.tried
    on = {one.where: f" on {'the CPU' if one.gpu is None else one.where}" * (asked[0].gpu is not None)
          for one in found.tried}  # fmt: skip
    verdicts = [(on[one.where], *each) for one in found.tried for each in one.verdicts]
    for where, verdict, _ in verdicts:
        if verdict.answer == "different":
            hint = "do not use it, and report the kernel; --explain shows how it was transformed"
            message = f"{verdict.kernel}{where}: a form gives other results than the original: {verdict.reason}"
            raise PartialError(message, hint)
    unknown = sorted((each for each in verdicts if each[1].answer != "equal"), key=lambda each: each[2] or "")
    if unknown:
        raise unclear(unknown[0][1], unknown[0][2], unknown[0][0])
    for one in asked:
        if one.untried:
            name, why = next(iter(one.untried.items()))
            count = f"{len(one.untried)} of {len(found.made)} elastic kernels not checked{on[one.where]}"
            raise PartialError(f"{count}; {name}: {why.message}", why.hint)


def unclear(verdict: Verdict, guess: str | None, on: str = "") -> PartialError:
    """Return the error for an original that is racy or fails, or for an unsuitable guess."""
    message, hint = f"{verdict.kernel} cannot be checked{on}: {verdict.reason}", _RACE
    if guess:
        message = f"{verdict.kernel} cannot be checked{on} by a guessed launch: {verdict.reason}"
        hint = f"correct the guess to the launch that it is written for: --launch '{guess}'"
        hint += "; if that is right, the kernel has a race of its own" * (verdict.answer == "racy")
    elif verdict.answer == "no output":
        hint = "give a launch in which it changes memory: other sizes, or memory filled otherwise"
    elif verdict.answer == "racy":
        message = f"{verdict.kernel} is racy by itself{on}: {verdict.reason}"
    else:
        message = f"{verdict.kernel} does not run to its end{on}: {verdict.reason}"
        default = "correct the kernel, or the launch that it is given"
        hint = next((each for word, each in _FAILURES.items() if word in verdict.reason), default)
    return PartialError(message, hint)

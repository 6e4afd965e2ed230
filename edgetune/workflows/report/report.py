"""One page for a browser of several artifacts: ``edgetune report FILES -o report.html``.

The page has a section for each artifact, in the order of ``sections.SECTIONS``, then where all figures come from.

Where the figures of a report come from: files, programs, devices, conditions and warnings.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any

from edgetune.artifacts.artifact import Artifact
from edgetune.artifacts.files import write_atomically
from edgetune.artifacts.io import read_any
from edgetune.artifacts.kinds import DOCUMENT, TABLE
from edgetune.artifacts.yaml_document import dump_value, plain
from edgetune.errors import EdgetuneError, InputError
from edgetune.plotting.page import Page, Section, SectionWriter, is_page
from edgetune.plotting.style import styled
from edgetune.visible import cut_in_middle, visible
from edgetune.workflows.output import Target
from edgetune.workflows.report.options import ReportOptions
from edgetune.workflows.report.sections import SECTIONS, page_order, write_sections
from edgetune.workflows.reporting import Reporter

_LONGEST = 400
"""Most characters of a condition."""


def provenance_section(artifacts: Sequence[tuple[str, Artifact]], out: SectionWriter) -> None:
    """Write the warnings, inputs and conditions of every artifact by the name of its file."""
    for name, artifact in artifacts:
        header = artifact.header
        out.heading(f"{name}: {header.kind.replace('_', ' ')} version {header.version}, {header.made}")
        if header.command:
            out.command(header.command)
        for warning in header.warnings:
            numbers = "".join(f", {key} {value:g}" for key, value in warning.numbers.items())
            out.note(f"warning: {warning.code}{numbers}: {warning.advice}")
        facts = [
            (kind, key, cut_in_middle(dump_value(value), _LONGEST))
            for kind, found in (("input", plain(header.inputs)), ("condition", plain(header.conditions)))
            for key, value in found.items()
        ]
        if facts:
            out.table(("of", "name", "value"), facts, title="inputs and conditions", opened=False)


_ENDINGS = tuple(dict.fromkeys((*TABLE, *DOCUMENT)))


@dataclass(frozen=True, slots=True)
class Found:
    """An artifact on a page.

    Args:
        name: Name of its file.
        artifact: It.
    """

    name: str
    artifact: Artifact


@dataclass(frozen=True, slots=True)
class Report:
    """A written report.

    Args:
        path: The page.
        broken: The files that could not be read, and why.
    """

    path: Path
    broken: tuple[tuple[str, EdgetuneError], ...] = ()


def report(opts: ReportOptions, reporter: Reporter) -> Report:
    """Read files and folders, and write the page of all that can be read.

    Raises:
        InputError: no file can be read, or the page cannot be written.
        DeviceError: a library for figures or pages is missing.
    """
    from edgetune.workflows.parse_options import parse_columns

    target = _checked(opts.output)
    columns = parse_columns(opts.column)
    names = [name for file in opts.files for name in _files(file)]
    found: list[Found] = []
    broken: list[tuple[str, EdgetuneError]] = []
    with reporter.bar("reading", len(names) + 1) as advance:
        for name in names:
            if advance is not None:
                advance(1, f"reading {name}")
            try:
                artifact = read_any(name, columns)
            except EdgetuneError as why:
                broken.append((name, why))
            else:
                found.append(Found(name, artifact))
        if not found:
            raise broken[0][1]
        for _, error in broken:
            reporter.info(f"left out: {error.message} ({error.hint})")
        page = page_of(found)
        page.notes += [f"Left out: {visible(name)}: {error.message}" for name, error in broken]
        return Report(write_atomically(page.data(), target), tuple(broken))


def write_page(artifacts: Sequence[Artifact], path: str | Path) -> Path:
    """Write the page of artifacts and return its path.

    Raises:
        InputError: there is no artifact, the name has another ending, or the file cannot be written.
        DeviceError: a library for figures or pages is missing.
    """
    if not artifacts:
        raise InputError("a report needs an artifact", "e.g. edgetune.report([table, plan], 'report.html')")
    target = _checked(str(path))
    return write_atomically(page_of([Found(each.header.kind, each) for each in artifacts]).data(), target)


def page_of(found: Sequence[Found], beside: Sequence[Artifact] = ()) -> Page:
    """Return the page of artifacts.

    Args:
        found: The artifacts.
        beside: Artifacts without a section that sections may use, e.g. the table of a plan.

    Raises:
        DeviceError: matplotlib is missing.
    """
    with styled():  # which needs matplotlib
        pass
    ordered = sorted(found, key=lambda each: page_order(each.artifact.header.kind))
    artifacts = [each.artifact for each in ordered]
    page = Page(_title(artifacts))
    page.notes += _mixtures(artifacts)
    for each in ordered:
        section = page.section(_section_title(each), simulated=each.artifact.header.simulated)
        _write(each, section, [*(other for other in artifacts if other is not each.artifact), *beside])
    section = page.section("Where these figures come from")
    provenance_section([(each.name, each.artifact) for each in ordered], section)
    return page


def _write(found: Found, section: Section, others: Sequence[Artifact]) -> None:
    """Write the sections of an artifact; one that cannot be made is replaced by the reason."""
    kind = found.artifact.header.kind
    own = next((key for key in SECTIONS if key.partition(".")[0] == kind), None)
    if own is None:
        section.note(f"a file of kind {kind} has no section")
        return
    known: dict[str, Any] = {"others": others, "file": found.name}
    taken = signature(SECTIONS[own]).parameters
    try:
        write_sections(found.artifact, section, **{key: value for key, value in known.items() if key in taken})
    except InputError as error:
        section.note(f"not shown: {error.message} ({error.hint})")


def _checked(output: str) -> Path:
    """Return the path of a page that can be written."""
    if not is_page(output):
        raise InputError(f"{output}: a report is a page", "name a .html file")
    Target(Path(output)).check("figure", "-o")
    return Path(output)


def _files(name: str) -> list[str]:
    """Return a file, or the files of edgetune's endings in a folder, by name."""
    path = Path(name)
    if not path.is_dir():
        return [name]
    found = sorted(str(each) for each in path.iterdir() if each.is_file() and each.suffix.lower() in _ENDINGS)
    if not found:
        raise InputError(f"{name} has no file of edgetune", f"files end in {', '.join(_ENDINGS)}")
    return found


def _title(artifacts: Sequence[Artifact]) -> str:
    """Return the title of a page: what was run, and where."""
    devices = list(dict.fromkeys(str(found) for each in artifacts if (found := each.header.conditions.get("device"))))
    kinds = list(dict.fromkeys(each.header.kind.replace("_", " ") for each in artifacts))
    what = kinds[0].capitalize() if len(kinds) == 1 else "Report"
    return f"{what}{f' of {workload}' if (workload := _workload(artifacts)) else ''}" + (
        f" on {', '.join(devices[:3])}" if devices else ""
    )


def _workload(artifacts: Sequence[Artifact]) -> str | None:
    """Return the name of the one network that artifacts are of."""
    names = {str(name) for each in artifacts if (name := each.header.inputs.get("workload", {}).get("name"))}
    return names.pop() if len(names) == 1 else None


def _section_title(found: Found) -> str:
    name, kind = found.name, found.artifact.header.kind
    words = "file of jobs" if kind == "jobs" else kind.replace("_", " ")
    return words.capitalize() if name == kind else f"{words.capitalize()}: {Path(name).name}"


def _mixtures(artifacts: Sequence[Artifact]) -> list[str]:
    """Return what to know of a page whose artifacts are not all alike."""
    devices = {str(each.header.conditions.get("device")) for each in artifacts if "device" in each.header.conditions}
    simulated = {each.header.simulated for each in artifacts if each.header.kind not in ("jobs", "kernel_tasks")}
    notes = [f"Files of several devices: {', '.join(sorted(devices))}."] if len(devices) > 1 else []
    return notes + (
        ["Some figures are simulated, others are measured: each section says which."] * (len(simulated) > 1)
    )

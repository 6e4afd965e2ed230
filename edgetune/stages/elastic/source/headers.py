"""Finds the headers of a source file, and writes those of the user in the places of their ``#include``.

    x.cu: #include "k.cuh"      k.cuh: #include <cuda_fp16.h>      x.cu is read as: the text of k.cuh, kernels included,
          int main() { ... }           __global__ void k() {}                       int main() { ... }

This is what a preprocessor does, so kernels, helpers and macros of headers mean what they mean in this file. A header
stays out where that is not certain: one that is read twice without a guard, that stands within a definition, or that a
header which stays out includes; its definitions are read from a tree of its own. Headers of CUDA, C and C++ are not
read. In the file that is written, headers without forms are an ``#include`` again.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from edgetune.stages.elastic.source.builtins import HEADERS
from edgetune.stages.elastic.source.directives import code_only, directives, without_decided, without_guard
from edgetune.stages.elastic.source.macros import readable_tree
from edgetune.stages.elastic.source.parser_text import for_parser
from edgetune.stages.elastic.source.syntax import CONTAINERS, Edit, Node, above, find, line_mark, text_of

MOST_HEADERS = 200
"""Headers that are read for one file: enough for a library of kernels. Headers may include each other."""
_LONGEST = 4_000_000
"""Bytes of a file with its headers that are read as one text."""
_OF_TOOLKITS = (
    "cuda_runtime_api.h", "crt/host_defines.h", "curand_kernel.h", "nvrtc.h", "thrust/version.h", "cub/version.cuh",
    "cuda/std/version",
)  # fmt: skip
"""Files by which a folder of the CUDA toolkit is known."""


def of_toolkit(folder: Path) -> bool:
    """Return whether a folder is one with the headers of the CUDA toolkit, which are not the user's code."""
    return any(_readable(folder / each) for each in _OF_TOOLKITS)


def found_header(wanted: str, folders: Sequence[Path]) -> Path | None:
    """Return the user's file that an ``#include`` means; ``None`` for CUDA's own, and where there is none."""
    folder = next((each for each in folders if _readable(each / wanted)), None)
    return None if folder is None or of_toolkit(folder) else folder / wanted


def is_missing(wanted: str, folders: Sequence[Path]) -> bool:
    """Return whether a header lies nowhere and is not one of CUDA, C or C++."""
    return not HEADERS.fullmatch(wanted) and not any(_readable(each / wanted) for each in folders)


def included(node: Node) -> str:
    """Return the header that an ``#include`` names, without brackets or quotes; empty where it names none."""
    return text_of(node.child_by_field_name("path")).strip('<>" \t')


def _readable(path: Path) -> bool:
    try:
        return path.is_file() and os.access(path, os.R_OK)
    except (OSError, ValueError):  # too long a name, or one with a NUL character
        return False


@dataclass(frozen=True, slots=True)
class _Stretch:
    """A header in the place of its ``#include``.

    Args:
        header: Its path.
        start: Its first byte in the whole text.
        end: The byte behind its last.
        directive: The ``#include``.
    """

    header: str
    start: int
    end: int
    directive: str


@dataclass(frozen=True, slots=True)
class WholeText:
    """A source with its headers in it.

    Args:
        text: The source.
        stretches: The headers, outer ones first.
        runs: The lines from which on the text is of another file: line, file (``None``: the source itself), its line.
    """

    text: str
    stretches: tuple[_Stretch, ...] = ()
    runs: tuple[tuple[int, str | None, int], ...] = ((1, None, 1),)

    def place(self, line: int) -> tuple[str | None, int]:
        """Return the header, ``None`` of the source itself, and its line, for a line of the whole text."""
        first, file, number = self.runs[bisect_right(self.runs, line, key=lambda each: each[0]) - 1]
        return file, number + line - first

    def restored(self, changed: Collection[int]) -> Iterator[Edit]:
        """Yield the edits that make headers an ``#include`` again, other than those with one of these places."""
        kept = {each.header for each in self.stretches if any(each.start < at < each.end for at in changed)}
        done = -1
        for each in self.stretches:
            if each.start >= done and each.header not in kept:
                yield Edit(each.start, each.end, each.directive)
                done = each.end


@dataclass(frozen=True, slots=True)
class _Include:
    """An ``#include`` of a header of the user.

    Args:
        header: The path of the header.
        wanted: As it is written.
        start: The first byte of the directive.
        end: The end of its line.
        plain: Whether it stands between definitions, on a line of its own.
        conditional: Whether it stands under an ``#if`` that is no guard.
    """

    header: str
    wanted: str
    start: int
    end: int
    plain: bool
    conditional: bool


@dataclass(slots=True)
class _File:
    """A file that was read.

    Args:
        text: Without its guard.
        guard: The macro of its guard.
        once: Whether it is read once however often it is included.
        whole: Whether it can be parsed, or has kernels and so has to be.
        includes: Its headers.
    """

    text: bytes
    guard: bytes | None = None
    once: bool = False
    whole: bool = True
    includes: list[_Include] = field(default_factory=list)


def with_headers(text: str, name: str, folders: Sequence[Path]) -> WholeText:
    """Return a source with the user's headers in the places of their ``#include``.

    Args:
        text: CUDA C.
        name: Of the file, for the marks of lines.
        folders: Folders of headers, in the order of the search.

    Raises:
        DeviceError: tree-sitter is not installed.
    """
    files = {"": _File(text.encode("utf-8", "surrogateescape"))}
    first: dict[str, bool] = {}
    _read(files, "", folders, first)
    inline = _inline(files, first)
    if not inline or sum(len(each.text) for each in files.values()) > _LONGEST:
        return WholeText(text)
    writer = _Writer(files, inline, name)
    writer.copy("", None)
    whole = b"".join(writer.out).decode("utf-8", "surrogateescape")
    ordered = sorted(writer.stretches, key=lambda each: (each.start, -each.end))
    return WholeText(whole, tuple(ordered), tuple(writer.runs))


def _read(files: dict[str, _File], path: str, folders: Sequence[Path], first: dict[str, bool]) -> None:
    """Read the headers that a file includes and those that they include, in the order of a preprocessor.

    ``first`` gets, for each header, whether its first ``#include`` stands under a condition.
    """
    file = files[path]
    root = readable_tree(for_parser(without_decided(file.text))).root_node
    file.whole = not root.has_error or b"__global__" in code_only(file.text)
    conditions = {each.start: each.conditional for each in directives(file.text) if each.word == b"include"}
    for node in find(root, "preproc_include"):
        wanted = included(node)
        found = found_header(wanted, folders) if wanted else None
        if found is None:
            continue
        header = os.path.realpath(found)
        end = file.text.find(b"\n", node.start_byte)
        end = len(file.text) if end < 0 else end - (file.text[end - 1 : end] == b"\r")
        begin = file.text.rfind(b"\n", 0, node.start_byte) + 1
        conditional = conditions.get(begin, True) or first.get(path, False)
        plain = all(each.type in CONTAINERS for each in above(node)) and begin in conditions
        plain = plain and not file.text[begin : node.start_byte].strip() and b"/*" not in file.text[begin:end]
        file.includes.append(_Include(header, wanted, begin, end, plain, conditional))
        first.setdefault(header, conditional)
        if header not in files and len(files) <= MOST_HEADERS:
            bare = found.read_bytes().removeprefix(b"\xef\xbb\xbf")
            text, guard = without_guard(bare) or (bare, None)
            files[header] = _File(text, guard, text != bare)
            _read(files, header, [found.parent, *folders], first)


def _inline(files: dict[str, _File], first: dict[str, bool]) -> set[str]:
    """Return the headers that can stand in the places of their ``#include``."""
    users: dict[str, list[tuple[str, _Include]]] = {}
    for path, file in files.items():
        for each in file.includes:
            users.setdefault(each.header, []).append((path, each))
    defined = [
        each.rest.split(b"(")[0].split()[0]
        for file in files.values()
        for each in directives(file.text)
        if each.word == b"define" and each.rest.strip()
    ]
    inline = {
        header
        for header, some in users.items()
        if header in files
        and files[header].whole
        and not files[header].text.rstrip().endswith(b"\\")
        and all(each.plain for _, each in some)
        and (len(some) == 1 or (files[header].once and not first[header]))
        and (files[header].guard is None or defined.count(files[header].guard or b"") == 1)
    }
    out = set[str]()
    while out != inline:
        out, inline = inline, {each for each in inline if all(not path or path in inline for path, _ in users[each])}
    return inline


@dataclass(slots=True)
class _Writer:
    """Writes a source with its headers in it."""

    files: dict[str, _File]
    inline: set[str]
    name: str
    out: list[bytes] = field(default_factory=list)
    stretches: list[_Stretch] = field(default_factory=list)
    runs: list[tuple[int, str | None, int]] = field(default_factory=list)
    written: set[str] = field(default_factory=set)
    _at: int = 0
    _line: int = 1

    def copy(self, path: str, shown: str | None) -> None:
        """Write a file, ``shown`` in messages, with the headers that it includes."""
        file = self.files[path]
        self.runs.append((self._line, shown, 1))
        at = 0
        for each in file.includes:
            self._write(file.text[at : each.start])
            directive = file.text[each.start : each.end]
            inner = os.path.join(os.path.dirname(shown or ""), each.wanted)
            if inner != each.wanted and (each.header in self.inline or b'"' in directive):
                directive = directive.replace(each.wanted.encode("utf-8", "surrogateescape"), inner.encode())
            if each.header in self.inline:
                start = self._at
                if each.header not in self.written:
                    self.written.add(each.header)
                    self._header(each.header, inner, (shown, file.text.count(b"\n", 0, each.start) + 1))
                written = directive.decode("utf-8", "surrogateescape")
                self.stretches.append(_Stretch(each.header, start, self._at, written))
            else:
                self._write(directive)
            at = each.end
        self._write(file.text[at:])

    def _header(self, header: str, shown: str, behind: tuple[str | None, int]) -> None:
        """Write a header between marks of lines; ``behind`` is the place of its ``#include``."""
        self._mark("\n")
        self.copy(header, shown)
        if not self.out[-1].endswith(b"\n"):
            self._write(b"\n")
        self.runs.append((self._line, *behind))
        self._mark("")

    def _mark(self, end: str) -> None:
        self._write(line_mark(self._line + 1, self.name).replace("\n", end).encode("utf-8", "surrogateescape"))

    def _write(self, text: bytes) -> None:
        self.out.append(text)
        self._at += len(text)
        self._line += text.count(b"\n")

"""Puts the lines of the files that people wrote in place of lines of the text that was read.

That text has headers in it, and copies of template kernels at its end.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from edgetune.stages.elastic.kernel import Refusal, TransformResult
from edgetune.stages.elastic.source.syntax import line_mark

Place = Callable[[int], tuple[str | None, int]]
"""Returns the header, ``None`` of the file itself, and its line, for a line of the text that was read."""


def placed(found: TransformResult, name: str, place: Place) -> TransformResult:
    """Return the result with the places in people's files.

    Args:
        found: With lines of the text that was read.
        name: Of the file.
        place: Of a line.
    """

    def moved(refused: Refusal) -> Refusal:
        if refused.file is not None:
            return refused
        file, line = place(refused.line)
        return replace(refused, file=file, line=line)

    def step(text: str) -> str:
        return re.sub(r"^line (\d+)(?=:)", lambda each: shown_place(*place(int(each[1]))), text)

    def marked(text: str) -> str:
        def written(each: re.Match[str]) -> str:
            file, line = place(int(each[1]))
            return line_mark(line, file or name)[:-1]

        return mark.sub(written, text)

    kernels = []
    for one in found.kernels:
        file, line = place(one.kernel.line)
        kernel = replace(one.kernel, file=file, line=line)
        refusals = tuple(dict.fromkeys(map(moved, one.refusals)))  # a template and its copy have the same places
        steps = tuple(map(step, one.steps))
        kernels.append(replace(one, kernel=kernel, refusals=refusals, steps=steps))
    mark = re.compile(rf"^[ \t]*#line (\d+) {re.escape(line_mark(1, name).split(' ', 2)[2][:-1])}$", re.MULTILINE)
    return replace(
        found,
        source=marked(found.source),
        device=marked(found.device),
        kernels=tuple(kernels),
        refusals=tuple(map(moved, found.refusals)),
    )


def shown_place(file: str | None, line: int) -> str:
    """Return a place as a message shows it: ``line 3``, or ``loops.h:3`` of a header."""
    return f"line {line}" if file is None else f"{file}:{line}"

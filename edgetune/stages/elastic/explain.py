"""Explains what was done to a kernel and why that is safe, and why something was not done.

vadd (line 3): 4 parameters
  grid: vadd__grid
    %ctaid and %nctaid are those of the logical launch ...
  the grid alone is elastic: line 7: shared-wait: ... -> wait by a barrier
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from edgetune.stages.elastic.abi import Level
from edgetune.stages.elastic.kernel import CudaKernel, ElasticKernel, Refusal, TransformResult

_MOST_NAMED = 3
"""Kernels that one line names, and places besides the first."""


def explained(done: TransformResult) -> Iterator[str]:
    """Yield the explanation of a file, line by line."""
    for each in done.kernels:
        yield f"{each.kernel.name} (line {each.kernel.line}): {used(each.kernel)}"
        for level in get_args(Level):
            symbols = [variant.symbol for variant in each.variants if variant.level == level]
            if symbols:
                yield f"  {level}: {', '.join(symbols)}"
        yield from (f"    {step}" for step in each.steps)
        yield from (f"  {cost(each, refused)}: {located(refused)}" for refused in each.refusals)


def cost(each: ElasticKernel, refused: Refusal) -> str:
    """Return what a refusal costs a kernel."""
    if each.variants:
        return "the grid alone is elastic"
    return "left as it is" if refused.level == "grid" else "nor could its blocks be elastic"


def reasons(done: TransformResult) -> list[str]:
    """Return the refusals of a file, a line each; one of several kernels, as of instances, or places is given once."""
    found: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for each in done.kernels:
        places: dict[str, list[str]] = {}
        for refused in each.refusals:
            text = f"{cost(each, refused)}: {describe(refused)}"
            places.setdefault(text, []).append(_place(refused.file, refused.line))
        for text, some in places.items():
            found.setdefault((text, tuple(some)), []).append(each.kernel.name)
    lines = []
    for (text, places_of), names in found.items():
        first, *others = dict.fromkeys(places_of)
        others = [*others[:_MOST_NAMED], *["..."] * (len(others) > _MOST_NAMED)]
        more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        also = f" (also {', '.join(others)})" if others else ""
        lines.append(f"{first}: {', '.join(names[:_MOST_NAMED])}{more}: {text}{also}")
    return lines


def located(refused: Refusal) -> str:
    """Return a refusal as one line with its place."""
    return f"{_place(refused.file, refused.line)}: {describe(refused)}"


def describe(refused: Refusal) -> str:
    """Return a refusal as one line."""
    return f"{refused.code}: {refused.reason} -> {refused.remedy}"


def used(kernel: CudaKernel) -> str:
    """Return what a kernel uses, as words."""
    words = [_counted(len(kernel.parameters), "parameter")]
    words += [_counted(kernel.barriers, "barrier")] * bool(kernel.barriers)
    words += ["static shared memory"] * kernel.static_shared + ["dynamic shared memory"] * kernel.dynamic_shared
    words += ["warp primitives"] * kernel.warp + ["floating-point atomics"] * kernel.float_atomics
    return ", ".join(words)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _place(file: str | None, line: int) -> str:
    """Return a place as a message shows it: ``line 3``, or ``loops.h:3`` of a header."""
    return f"line {line}" if file is None else f"{file}:{line}"

"""Tells people what was done to a kernel and why that is safe, and why something was not done.

vadd (line 3)
  grid: vadd__grid
    the body is a function of its own, ...
  block: not made: line 7: goto ... -> write it with if and loops
"""

from __future__ import annotations

from collections.abc import Iterator

from edgetune.elastic.kernel import CudaKernel, ElasticKernel, Refusal, TransformResult
from edgetune.elastic.source.builtins import BLOCK_INDICES
from edgetune.elastic.source.index_parameters import readers
from edgetune.elastic.source.nodes import text_of, words
from edgetune.elastic.source.translation_unit import ParsedFile, ParsedKernel


def macro_steps(translation_unit: ParsedFile, kernel: ParsedKernel) -> tuple[str, ...]:
    """Return which macros of a kernel are written out in its forms."""
    place, node = translation_unit.expanded.original, kernel.function.outer
    before = translation_unit.text[place(node.start_byte) : place(node.end_byte)].decode("utf-8", "replace")
    after = set(words(text_of(node)))
    names = [word for word in dict.fromkeys(words(before)) if word in translation_unit.macros and word not in after]
    if not names:
        return ()
    return (f"written out in its forms, as they hide loops, indices, barriers or returns: {', '.join(names)}",)


def grid_steps(kernel: ParsedKernel) -> tuple[str, ...]:
    """Return what the grid level does to a kernel and why that is safe."""
    name = kernel.kernel.name
    steps = [
        f"{name}__grid: the body is a function of its own, which is given the logical block's index and the logical "
        "grid: physical blocks go through any part of the logical ones, in any order, because blocks do not wait for "
        "each other",
        "threads keep their places: the physical block has the shape of the logical one",
    ]
    copied = sorted(readers(kernel, BLOCK_INDICES))
    if copied:
        steps.append(f"functions that read the launch are copied and given the logical one: {', '.join(copied)}")
    if kernel.kernel.parameters:
        steps.append("parameters are by value: what a logical block writes to its own, the next one does not see")
    if kernel.kernel.static_shared or kernel.kernel.dynamic_shared:
        steps.append("it uses shared memory: a barrier behind each logical block keeps it from the next one")
    elif kernel.kernel.warp:
        steps.append("it uses warp primitives: the warp comes together behind each logical block")
    if kernel.kernel.float_atomics:
        steps.append("it adds floating-point numbers atomically: the order, and so the last bits, were never fixed")
    return tuple(steps)


def explained(done: TransformResult) -> Iterator[str]:
    """Yield what is told of a file, line by line."""
    for each in done.kernels:
        yield from _kernel(each)
    for refused in done.refusals:
        yield f"line {refused.line}: {describe(refused)}"


def cost(each: ElasticKernel, refused: Refusal) -> str:
    """Return what a refusal costs a kernel."""
    if each.variants:
        return "the grid alone is elastic"
    return "left as it is" if refused.level == "grid" else "nor could its blocks be elastic"


def describe(refused: Refusal) -> str:
    """Return a refusal as one line."""
    return f"{refused.code}: {refused.reason} -> {refused.remedy}"


def _kernel(each: ElasticKernel) -> Iterator[str]:
    yield f"{each.kernel.name} (line {each.kernel.line}): {used(each.kernel)}"
    for level in ("grid", "block"):
        symbols = [variant.symbol for variant in each.variants if variant.level == level]
        if symbols:
            yield f"  {level}: {', '.join(symbols)}"
    for step in each.steps:
        yield f"    {step}"
    for refused in each.refusals:
        yield f"  {cost(each, refused)}: line {refused.line}: {describe(refused)}"


def used(kernel: CudaKernel) -> str:
    """Return what a kernel uses, as words."""
    count = len(kernel.parameters)
    words = [f"{count} parameter{'' if count == 1 else 's'}"]
    if kernel.barriers:
        words.append(f"{kernel.barriers} barrier{'' if kernel.barriers == 1 else 's'}")
    words += ["static shared memory"] * kernel.static_shared + ["dynamic shared memory"] * kernel.dynamic_shared
    words += ["warp primitives"] * kernel.warp + ["floating-point atomics"] * kernel.float_atomics
    return ", ".join(words)

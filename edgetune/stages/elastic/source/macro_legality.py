"""Reasons to refuse a kernel for its macros: what they hide, and where they mean something else than in the forms."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from edgetune.stages.elastic.kernel import Refusal
from edgetune.stages.elastic.source.builtins import BARRIERS, BLOCK_INDICES, INDICES, THREAD_INDICES
from edgetune.stages.elastic.source.diagnostics import Line
from edgetune.stages.elastic.source.index_parameters import readers
from edgetune.stages.elastic.source.syntax import CONDITIONS, Node, closure, find, text_of, walk, words
from edgetune.stages.elastic.source.translation_unit import Definition, ParsedKernel
from edgetune.stages.elastic.source.variants import anchor


def line_in(piece: Definition, kernel: ParsedKernel, word: str | None = None) -> Line:
    """Return the line of a word in a definition, else that of the definition."""
    for node in walk(piece.node):
        if not node.children and text_of(node) == word:
            return kernel.line(node, piece)
    return piece.line if piece.file == kernel.function.file else (piece.file, piece.line)


def hidden_in_macros(kernel: ParsedKernel) -> Iterator[Refusal]:
    """Yield the macros that hide an index, a barrier or a return, or that change between their use and the forms."""
    source, end = kernel.source, anchor(kernel).end_byte
    copied = [kernel.reach[0], *readers(kernel, INDICES).values()]
    nodes = [each.node for each in copied if each.node is not None]
    used = [
        (int(each.node.start_byte) if each.file == source.name else 0, _with_macros(words(text_of(each.node)), kernel))
        for each in copied
        if each.node is not None
    ]

    def changes(word: str) -> bool:
        """Return whether a macro is defined or undefined between something that uses it and the forms."""
        starts = [start for start, words_of in used if word in words_of]
        return any(min(starts, default=end) < each < end for each in source.changes.get(word, ()))

    for piece in kernel.reach:
        if piece.kind != "macro":
            continue
        tokens, at = set(piece.tokens), line_in(piece, kernel)
        for index in sorted(tokens & BLOCK_INDICES):
            yield kernel.refusal("macro-index", at, name=piece.name, index=index)
        for index in sorted(tokens & THREAD_INDICES):
            yield kernel.refusal("macro-thread-index", at, name=piece.name, index=index)
        if any("##" in macro.body for macro in source.macros.get(piece.name, ())):
            yield kernel.refusal("macro-paste", at, name=piece.name)
        if changes(piece.name):
            yield kernel.refusal("macro-changed", at, name=piece.name)
        if tokens & BARRIERS:
            yield kernel.refusal("macro-barrier", at, name=piece.name)
        if "return" in tokens:
            yield kernel.refusal("macro-return", at, name=piece.name)
    for word in (word for node in nodes for word in _asked_in(node, kernel) if changes(word)):
        yield kernel.refusal("macro-changed", name=word)


def _asked_in(node: Node, kernel: ParsedKernel) -> set[str]:
    """Return the names that conditions of the preprocessor within a function depend on, through macros too."""
    conditions = (
        each
        for directive in find(node, *CONDITIONS)
        for part in ("condition", "name")
        for each in directive.children_by_field_name(part)
    )
    return _with_macros((word for each in conditions for word in words(text_of(each))), kernel)


def _with_macros(names: Iterable[str], kernel: ParsedKernel) -> set[str]:
    """Return names, and those in the bodies of the macros among them."""
    macros = kernel.source.macros
    return closure(names, lambda word: (each for macro in macros.get(word, ()) for each in words(macro.body)))

"""Looks for every reason to refuse a kernel that shows in its text and in what it reaches.

kernel -> shape (template? void? readable?) -> words (grid sync, clusters ...) -> statements (goto, asm, static)
       -> indices that are out of reach -> names that nobody knows -> loops that wait -> what the block level minds
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from edgetune.elastic.kernel import Refusal
from edgetune.elastic.source.block_legality import lanes_apart, left_behind
from edgetune.elastic.source.builtins import (
    BARRIERS,
    BLOCK_INDICES,
    INDICES,
    KEYWORDS,
    THREAD_INDICES,
    VOTE_BARRIERS,
    danger,
    known,
    of_warps,
    wrong_with,
)
from edgetune.elastic.source.diagnostics import refusal
from edgetune.elastic.source.index_parameters import readers, why_not
from edgetune.elastic.source.kernel_scan import parameter_nodes
from edgetune.elastic.source.spin_wait import waiting_loop, waiting_macro
from edgetune.elastic.source.syntax import (
    around,
    declared_name,
    deeper_than,
    find,
    line_of,
    mentions,
    text_of,
    walk,
    words,
)
from edgetune.elastic.source.translation_unit import Definition, declares, device_words, leading_words
from edgetune.elastic.source.variants import anchor

if TYPE_CHECKING:
    from tree_sitter import Node

    from edgetune.elastic.source.translation_unit import ParsedFile, ParsedKernel

_CLASSES = ("class_specifier", "struct_specifier", "union_specifier")
_CONDITIONS = ("preproc_if", "preproc_ifdef", "preproc_else", "preproc_elif", "preproc_elifdef")


_DEEPEST = 150
"""Levels of the tree that are looked through: Python allows a thousand calls in each other, several for each level."""


def illegalities(translation_unit: ParsedFile, kernel: ParsedKernel) -> tuple[Refusal, ...]:
    """Return why a kernel, or its block level, is left alone: empty where nothing speaks against either.

    Args:
        translation_unit: The file.
        kernel: One of its kernels.
    """
    shape = list(_shape(translation_unit, kernel))
    if any(each.code == "too-deep" for each in shape):
        return tuple(shape)
    if any(each.code in ("unparsable", "overloaded") for each in shape):
        return _in_order([*shape, *_names(translation_unit, kernel), *_hidden_in_macros(translation_unit, kernel)])
    found = [
        *shape,
        *_names(translation_unit, kernel),
        *_words(kernel),
        *_statements(kernel),
        *_hidden_in_macros(translation_unit, kernel),
        *_out_of_reach(translation_unit, kernel),
        *_pointers(kernel),
        *_unknown(translation_unit, kernel),
        *_waiting(kernel),
        *_for_blocks(kernel),
        *left_behind(translation_unit, kernel),
        *lanes_apart(translation_unit, kernel),
    ]
    return _in_order(found)


def _in_order(found: list[Refusal]) -> tuple[Refusal, ...]:
    """Return refusals by line, each code once per line, and those of the grid first where there are any."""
    unlike = {(each.code, each.line, each.reason): each for each in found}.values()
    return tuple(sorted(unlike, key=lambda each: (each.level != "grid", each.line)))


def _line(piece: Definition, kernel: ParsedKernel, word: str | None = None) -> int:
    """Return the line of a word in a definition of the file itself; for those of headers the line of the kernel."""
    if piece.file != kernel.function.file:
        return kernel.kernel.line
    for node in () if piece.node is None or word is None else walk(piece.node):
        if not node.children and text_of(node) == word:
            return line_of(node)
    return piece.line


def _shape(translation_unit: ParsedFile, kernel: ParsedKernel) -> Iterator[Refusal]:
    name, line = kernel.kernel.name, kernel.kernel.line
    deep = next((piece for piece in kernel.reach if piece.node is not None and deeper_than(piece.node, _DEEPEST)), None)
    if deep is not None:
        yield refusal("too-deep", _line(deep, kernel), name, name=deep.name)
        return
    broken = next(((piece, node) for piece in kernel.reach for node in _unreadable(piece)), None)
    if broken is not None:
        piece, node = broken
        yield refusal(
            "unparsable", line_of(node) if piece.file == translation_unit.name else line, name, name=_shown(node)
        )
        return
    if kernel.function.template:
        yield refusal("template", line, name)
    if kernel.function.member:
        yield refusal("qualified", line, name)
    if sum(each.kernel.name == name for each in translation_unit.kernels) > 1:
        yield refusal("overloaded", line, name, name=name)
    if "void" not in leading_words(kernel.node):
        yield refusal("not-void", line, name, name=" ".join(sorted(leading_words(kernel.node))))
    for number, (node, parameter) in enumerate(
        zip(parameter_nodes(kernel.node), kernel.kernel.parameters, strict=True), start=1
    ):
        plain = node.type in ("parameter_declaration", "optional_parameter_declaration")
        if not plain or not parameter.name:
            yield refusal("unnamed-parameter", line_of(node), name, name=parameter.name or str(number))
    behind = anchor(kernel)
    if translation_unit.expanded.amid(behind.end_byte):
        yield refusal("macro-behind", line, name)
    if behind != kernel.function.outer and around(kernel.node, *_CONDITIONS, within=behind) is not None:
        yield refusal("conditional", line, name, name="under an #if")
    elif _named_within(kernel.function.outer, behind):
        yield refusal("conditional", line, name, name="with a named one in it")


def _named_within(node: Node | None, behind: Node) -> bool:
    """Return whether there is a namespace with a name around ``node`` and inside of ``behind``."""
    while node is not None and node != behind:
        if node.type == "namespace_definition" and node.child_by_field_name("name") is not None:
            return True
        node = node.parent
    return False


def _unreadable(piece: Definition) -> Iterator[Node]:
    """Yield what the parser did not understand, and functions in functions, which are macros that it mistook."""
    if piece.node is None:
        return
    if piece.node.has_error:
        yield from (each for each in walk(piece.node) if each.type == "ERROR" or each.is_missing)
    for each in find(piece.node, "function_definition", "preproc_include"):
        nearest = around(each, "compound_statement", *_CLASSES, within=piece.node)
        if nearest is not None and nearest.type == "compound_statement":
            yield each


def _shown(node: Node) -> str:
    text = " ".join(text_of(node).split())
    return f"{text[:40]} ..." if len(text) > 40 else text or f"{node.type} is missing"


def _names(translation_unit: ParsedFile, kernel: ParsedKernel) -> Iterator[Refusal]:
    """Yield names that elastic forms need for themselves, and those of CUDA that mean something else here."""
    name = kernel.kernel.name
    own = {f"{name}__grid", f"{name}__block", *(f"{name}__block{count}" for count in (1, 2, 4, 8))}
    taken = [word for word in translation_unit.definitions if word in own or word.startswith("edgetune_")]
    for word in taken[:1]:
        yield refusal("reserved-name", _line(translation_unit.definitions[word][0], kernel), name, name=word)
    for piece in kernel.reach:
        for word in sorted(piece.declared):
            if word.startswith("edgetune_"):
                yield refusal("reserved-name", _line(piece, kernel, word), name, name=word)
            if word in BLOCK_INDICES | THREAD_INDICES | BARRIERS and _as_variable(piece, word):
                yield refusal("redefined-builtin", _line(piece, kernel, word), name, name=word)
    for word, macros in translation_unit.macros.items():
        if word in KEYWORDS | BLOCK_INDICES | THREAD_INDICES | BARRIERS and not _same(word, macros[0].body):
            yield refusal(
                "redefined-builtin",
                macros[0].line if macros[0].file == translation_unit.name else kernel.kernel.line,
                name,
                name=word,
            )
    if name in translation_unit.macros:
        yield refusal("redefined-builtin", kernel.kernel.line, name, name=name)


def _as_variable(piece: Definition, word: str) -> bool:
    """Return whether a name is given to a variable or function; to a field it may be."""
    nodes = () if piece.node is None else walk(piece.node)
    return any(each.type == "identifier" and text_of(each) == word for node in nodes for each in declares(node))


def _same(word: str, body: str) -> bool:
    """Return whether a macro gives a spelling of a word for the word, e.g. ``__restrict__`` for ``restrict``."""
    return body.strip().strip("_") == word.strip("_")


def _words(kernel: ParsedKernel) -> Iterator[Refusal]:
    for piece in kernel.reach:
        for word in dict.fromkeys(piece.tokens):
            code = danger(word)
            if code is not None and not (code == "dynamic-parallelism" and word in piece.declared):
                yield refusal(code, _line(piece, kernel, word), kernel.kernel.name, name=word)
        for node in () if piece.node is None else find(piece.node, "kernel_call_syntax"):
            at = line_of(node) if piece.file == kernel.function.file else kernel.kernel.line
            yield refusal("dynamic-parallelism", at, kernel.kernel.name, name="<<< >>>")
        if piece.kind == "macro" and {"asm", "__asm__", "__asm"} & set(piece.tokens):
            where = f"in the macro {piece.name}"
            yield refusal("inline-assembly", _line(piece, kernel), kernel.kernel.name, name=where)


def _statements(kernel: ParsedKernel) -> Iterator[Refusal]:
    name = kernel.kernel.name
    shared = kernel.kernel.static_shared or kernel.kernel.dynamic_shared
    for piece in kernel.reach:
        if shared and "volatile" in piece.tokens:
            yield refusal("volatile-shared", _line(piece, kernel, "volatile"), name)
        for node in () if piece.node is None else find(piece.node, "goto_statement", "gnu_asm_expression"):
            at = line_of(node) if piece.file == kernel.function.file else kernel.kernel.line
            if node.type == "goto_statement":
                yield refusal("goto", at, name, name=" ".join(text_of(each) for each in node.named_children))
            elif (wrong := wrong_with(node)) is not None:
                yield refusal("inline-assembly", at, name, name=wrong)
            elif of_warps(node):
                yield refusal("tensor-core", at, name, name="what its inline assembly works on")
        if piece.kind == "macro" and "goto" in piece.tokens:
            yield refusal("goto", _line(piece, kernel), name, name=f"in the macro {piece.name}")
        if piece.kind == "function" and piece.node is not None:
            yield from _static_locals(piece, kernel)


def _static_locals(piece: Definition, kernel: ParsedKernel) -> Iterator[Refusal]:
    body = None if piece.node is None else next(find(piece.node, "compound_statement"), None)
    for node in () if body is None else find(body, "declaration"):
        before = {text_of(each) for each in node.children}
        if "static" in before and not {"constexpr", "__shared__"} & before:
            at = line_of(node) if piece.file == kernel.function.file else kernel.kernel.line
            yield refusal("static-local", at, kernel.kernel.name, name=_shown(node))


def _hidden_in_macros(translation_unit: ParsedFile, kernel: ParsedKernel) -> Iterator[Refusal]:
    name, end = kernel.kernel.name, anchor(kernel).end_byte
    copied = list(readers(kernel, INDICES).values())
    start = min(0 if each.file != translation_unit.name else _start(each) for each in (kernel.reach[0], *copied))
    for piece in kernel.reach:
        if piece.kind != "macro":
            continue
        tokens, at = set(piece.tokens), _line(piece, kernel)
        for index in sorted(tokens & BLOCK_INDICES):
            yield refusal("macro-index", at, name, name=piece.name, index=index)
        for index in sorted(tokens & THREAD_INDICES):
            yield refusal("macro-thread-index", at, name, name=piece.name, index=index)
        if any("##" in macro.body for macro in translation_unit.macros.get(piece.name, ())):
            yield refusal("macro-paste", at, name, name=piece.name)
        if any(start < each < end for each in translation_unit.changes.get(piece.name, ())):
            yield refusal("macro-changed", at, name, name=piece.name)
        if tokens & BARRIERS:
            yield refusal("macro-barrier", at, name, name=piece.name)
        if "return" in tokens:
            yield refusal("macro-return", at, name, name=piece.name)
    for node in (each.node for each in (kernel.reach[0], *copied) if each.node is not None):
        for word in _asked_in(node, translation_unit):
            if any(start < each < end for each in translation_unit.changes.get(word, ())):
                yield refusal("macro-changed", kernel.kernel.line, name, name=word)


def _asked_in(node: Node, translation_unit: ParsedFile) -> set[str]:
    """Return the names that conditions of the preprocessor within a function depend on, through macros too."""
    conditions = (
        each
        for directive in find(node, *_CONDITIONS)
        for field in ("condition", "name")
        for each in directive.children_by_field_name(field)
    )
    waiting, found = [word for each in conditions for word in words(text_of(each))], set[str]()
    while waiting:
        word = waiting.pop()
        if word not in found:
            found.add(word)
            waiting += [each for macro in translation_unit.macros.get(word, ()) for each in words(macro.body)]
    return found


def _start(piece: Definition) -> int:
    assert piece.node is not None  # it is a function
    return int(piece.node.start_byte)


def _out_of_reach(translation_unit: ParsedFile, kernel: ParsedKernel) -> Iterator[Refusal]:
    """Yield what reads the block's index and cannot be told the logical one."""
    name = kernel.kernel.name
    for piece in kernel.reach[1:]:
        if piece.kind in ("type", "variable"):
            for index in sorted(BLOCK_INDICES & set(piece.tokens)):
                yield refusal("hidden-index", _line(piece, kernel, index), name, name=piece.name or "a class")
    copied = readers(kernel, BLOCK_INDICES)
    for each, piece in copied.items():
        why = why_not(translation_unit, kernel, each, copied)
        if why is not None:
            yield refusal("helper-index", _line(piece, kernel), name, name=each, why=why)
    for piece in (kernel.reach[0], *copied.values()):
        for node in () if piece.node is None else mentions(piece.node, {*BLOCK_INDICES, *copied}):
            yield from _captured(node, piece, kernel)


def _captured(node: Node, piece: Definition, kernel: ParsedKernel) -> Iterator[Refusal]:
    """Yield the refusal of an index in a class or in a lambda that names what it captures."""
    assert piece.node is not None  # it has a mention
    scope = around(node, "lambda_expression", *_CLASSES, within=piece.node)
    if scope is None:
        return
    captures = scope.child_by_field_name("captures")
    everything = captures is not None and text_of(captures).replace(" ", "")[1:2] in ("=", "&")
    if not everything or around(scope, *_CLASSES, within=piece.node) is not None:
        what = "a lambda" if scope.type == "lambda_expression" else "a class in the kernel"
        at = line_of(node) if piece.file == kernel.function.file else kernel.kernel.line
        yield refusal("hidden-index", at, kernel.kernel.name, name=what)


def _pointers(kernel: ParsedKernel) -> Iterator[Refusal]:
    """Yield what is called without being named: through pointers to functions, and virtual functions."""
    for piece in kernel.reach:
        if piece.node is None:
            continue
        at_piece = _line(piece, kernel)
        if "virtual" in piece.tokens:
            yield refusal("indirect-call", at_piece, kernel.kernel.name, name=f"a virtual function of {piece.name}")
        for node in find(piece.node, "function_declarator", "abstract_function_declarator"):
            inner = node.child_by_field_name("declarator")
            pointer = inner is not None and "parenthesized" in inner.type and set(text_of(inner)) & {"*", "&"}
            typed = around(node, "type_definition", within=piece.node.parent or piece.node) is not None
            if pointer or typed or node.type == "abstract_function_declarator":
                at = line_of(node) if piece.file == kernel.function.file else kernel.kernel.line
                yield refusal("indirect-call", at, kernel.kernel.name, name=_shown(node))


def _unknown(translation_unit: ParsedFile, kernel: ParsedKernel) -> Iterator[Refusal]:
    """Yield the names that mean nothing here: they may be macros or functions of headers that were not found."""
    declared = {name for piece in kernel.reach for name in piece.declared} | {kernel.kernel.name}
    declared |= (
        frozenset() if translation_unit.missing else translation_unit.asked
    )  # or a header might make anything of it
    on_device = device_words(translation_unit.macros)
    found: dict[str, Definition] = {}
    for piece in kernel.reach:
        for word in sorted(piece.names):
            if (
                word not in declared
                and word not in translation_unit.definitions
                and not known(word)
                and danger(word) is None
            ):
                found.setdefault(word, piece)
        found.update((word, piece) for word in _bodiless(piece, translation_unit, on_device))
    missing = ", ".join(translation_unit.missing)
    where = f" ({missing} {'were' if len(translation_unit.missing) > 1 else 'was'} not found)" if missing else ""
    for word, piece in list(found.items())[:_MOST_UNKNOWN]:
        yield refusal("unknown-name", _line(piece, kernel, word), kernel.kernel.name, name=word, where=where)


def _bodiless(piece: Definition, translation_unit: ParsedFile, on_device: frozenset[str]) -> Iterator[str]:
    """Yield the functions of the GPU that a definition declares and nobody defines: what they do is not seen."""
    if piece.node is None or piece.kind not in ("type", "variable") or "friend" in piece.tokens:
        return
    for node in find(piece.node, "declaration", "field_declaration"):
        if leading_words(node) & on_device:
            for declarator in find(node, "function_declarator"):
                name = declared_name(declarator)
                if name is not None and text_of(name) not in translation_unit.functions:
                    yield text_of(name)


_MOST_UNKNOWN = 5
"""Names that are told of a kernel: with a header missing there are many, and one is enough."""


def _waiting(kernel: ParsedKernel) -> Iterator[Refusal]:
    name = kernel.kernel.name
    loop = waiting_loop(kernel.reach)
    if loop is not None:
        node, reason, piece = loop
        at = line_of(node) if piece.file == kernel.function.file else kernel.kernel.line
        yield refusal("spin-wait", at, name, name=reason)
    macro = waiting_macro(kernel.reach)
    if macro is not None:
        yield refusal("spin-wait", _line(macro, kernel), name, name=f"in the macro {macro.name}")


def _for_blocks(kernel: ParsedKernel) -> Iterator[Refusal]:
    for piece in kernel.reach:
        for word in sorted(VOTE_BARRIERS & set(piece.tokens)):
            yield refusal("vote-barrier", _line(piece, kernel, word), kernel.kernel.name, name=word)

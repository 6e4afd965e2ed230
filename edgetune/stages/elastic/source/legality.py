"""Every reason to refuse a kernel that shows in its text and in what it reaches.

kernel -> shape (template? void? readable?) -> words (grid sync, clusters ...) -> statements (goto, asm, static)
       -> indices out of reach -> unknown names -> loops that wait -> reasons against the block level
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from edgetune.stages.elastic.kernel import Refusal
from edgetune.stages.elastic.source.async_copies import copies_of_threads, unread_copies
from edgetune.stages.elastic.source.block_legality import lanes_apart, returns_before_warp
from edgetune.stages.elastic.source.builtins import (
    BARRIERS,
    BLOCK_INDICES,
    GRID_SYNC,
    GROUPS,
    INDICES,
    KEYWORDS,
    READ_GROUPS,
    THREAD_COPIES,
    VOTE_BARRIERS,
    danger,
    known,
    of_warps,
    wrong_with,
)
from edgetune.stages.elastic.source.group_words import with_library_words
from edgetune.stages.elastic.source.index_parameters import unreachable_indices
from edgetune.stages.elastic.source.kernel_scan import parameter_nodes
from edgetune.stages.elastic.source.macro_legality import hidden_in_macros, line_in
from edgetune.stages.elastic.source.polled_names import polled_names
from edgetune.stages.elastic.source.recursion import waiting_call
from edgetune.stages.elastic.source.spin_wait import waiting_loops, waiting_macro
from edgetune.stages.elastic.source.syntax import (
    CLASSES,
    CONDITIONS,
    Node,
    above,
    around,
    deeper_than,
    find,
    line_of,
    listed,
    one_line,
    text_of,
    texts,
    walk,
)
from edgetune.stages.elastic.source.translation_unit import (
    Definition,
    ParsedKernel,
    declares,
    leading_words,
)
from edgetune.stages.elastic.source.undefined_functions import undefined_functions
from edgetune.stages.elastic.source.variants import anchor

_DEEPEST = 150
"""Levels of the tree that are examined: Python allows a thousand nested calls, and each level takes several."""
_FIRST = ("grid-sync", "cluster", "dynamic-parallelism")
"""Codes of what no rewriting of a few lines removes."""
_LAST = "unknown-name"
"""Names may be unknown as a consequence of every other reason."""
_MOST_UNKNOWN = 5
"""Unknown names that are reported of a kernel: with a header missing there are many."""


def illegalities(kernel: ParsedKernel) -> tuple[Refusal, ...]:
    """Return the reasons against a kernel or its block level; those of the grid level first, then by line."""
    shape = list(_shape(kernel))
    if any(each.code == "too-deep" for each in shape):
        return tuple(shape)
    if any(each.code in ("unparsable", "overloaded") for each in shape):
        found = [*shape, *_names(kernel), *hidden_in_macros(kernel)]
    else:
        words = list(_words(kernel))
        found = [
            *shape, *_names(kernel), *words, *_copies(kernel),
            *_groups(kernel, words), *_statements(kernel), *hidden_in_macros(kernel),
            *_out_of_reach(kernel), *_pointers(kernel), *_unknown(kernel), *_waiting(kernel), *_votes(kernel),
            *returns_before_warp(kernel), *lanes_apart(kernel),
        ]  # fmt: skip
    unlike = {(each.code, each.file, each.line, each.reason): each for each in found}.values()
    return tuple(
        sorted(unlike, key=lambda one: (one.level != "grid", one.code not in _FIRST, one.code == _LAST, one.line))
    )


def _shape(kernel: ParsedKernel) -> Iterator[Refusal]:
    """Yield what is wrong with the definition of a kernel as a whole."""
    deep = next((piece for piece in kernel.reach if piece.node is not None and deeper_than(piece.node, _DEEPEST)), None)
    if deep is not None:
        yield kernel.refusal("too-deep", line_in(deep, kernel), name=deep.name)
        return
    broken = next(((piece, node) for piece in kernel.reach for node in _unreadable(piece)), None)
    if broken is not None:
        piece, node = broken
        yield kernel.refusal("unparsable", kernel.line(node, piece), name=_shown(node))
        return
    if kernel.function.template:
        yield kernel.refusal("template", instance=_instance(kernel))
    if kernel.function.member:
        yield kernel.refusal("qualified")
    if sum(each.name == kernel.name for each in kernel.source.kernels) > 1:
        yield kernel.refusal("overloaded", name=kernel.name)
    if "void" not in leading_words(kernel.node):
        yield kernel.refusal("not-void", name=" ".join(sorted(leading_words(kernel.node))))
    nodes = parameter_nodes(kernel.node)
    for number, (node, parameter) in enumerate(zip(nodes, kernel.kernel.parameters, strict=True), start=1):
        plain = node.type in ("parameter_declaration", "optional_parameter_declaration")
        if not plain or not parameter.name:
            yield kernel.refusal("unnamed-parameter", line_of(node), name=parameter.name or str(number))
    behind = anchor(kernel)
    if kernel.source.expanded.amid(behind.end_byte):
        yield kernel.refusal("macro-behind")
    if behind != kernel.function.outer and around(kernel.node, *CONDITIONS, within=behind) is not None:
        yield kernel.refusal("conditional", name="under an #if")
    elif behind != kernel.function.outer and _named_within(kernel.function.outer, behind):
        yield kernel.refusal("conditional", name="with a named one in it")


def _instance(kernel: ParsedKernel) -> str:
    """Return an instance of a template kernel, as an example: ``kernel<float, 16>``."""
    parameters = listed(kernel.function.outer.child_by_field_name("parameters"))
    kinds = ("float" if "type_parameter" in each.type else text_of(each).split()[0] for each in parameters)
    return f"{kernel.name}<{', '.join({'float': 'float', 'bool': 'true'}.get(each, '16') for each in kinds)}>"


def _named_within(node: Node, behind: Node) -> bool:
    """Return whether ``node`` or a node around it, inside of ``behind``, is a namespace with a name."""
    spaces = (each for each in (node, *above(node, behind)) if each.type == "namespace_definition")
    return any(each.child_by_field_name("name") is not None for each in spaces)


def _unreadable(piece: Definition) -> Iterator[Node]:
    """Yield what the parser did not understand, and functions in functions, which are macros that it mistook."""
    if piece.node is None:
        return
    if piece.node.has_error:
        yield from (each for each in walk(piece.node) if each.type == "ERROR" or each.is_missing)
    for each in find(piece.node, "function_definition", "preproc_include"):
        nearest = around(each, "compound_statement", *CLASSES, within=piece.node)
        if nearest is not None and nearest.type == "compound_statement":
            yield each


def _shown(node: Node) -> str:
    text = one_line(node)
    if text.startswith("#"):  # of a directive where none can be read, the parser gives a part
        return f"{_wholeline_in(node)} within a statement or a list"
    return f"{text[:40]} ..." if len(text) > 40 else text or f"{node.type} is missing"


def _wholeline_in(node: Node) -> str:
    """Return the line of the source on which a node begins."""
    root = node
    while root.parent is not None:
        root = root.parent
    source, at = bytes(root.text or b""), int(node.start_byte) - int(root.start_byte)
    line = source[source.rfind(b"\n", 0, at) + 1 :].split(b"\n", 1)[0]
    return line.decode("utf-8", "surrogateescape").strip()


def _names(kernel: ParsedKernel) -> Iterator[Refusal]:
    """Yield names that the elastic forms need for themselves, and names of CUDA that mean something else here."""
    name, source, taken = kernel.name, kernel.source, INDICES | BARRIERS
    own = {f"{name}__grid", f"{name}__block", *(f"{name}__block{count}" for count in (1, 2, 4, 8))}
    reserved = (word for word in source.definitions if word in own or word.startswith("edgetune_"))
    for word in list(reserved)[:1]:
        yield kernel.refusal("reserved-name", line_in(source.definitions[word][0], kernel), name=word)
    for piece in kernel.reach:
        for word in sorted(piece.declared):
            if word.startswith("edgetune_"):
                yield kernel.refusal("reserved-name", line_in(piece, kernel, word), name=word)
            if word in taken and _as_variable(piece, word):
                yield kernel.refusal("redefined-builtin", line_in(piece, kernel, word), name=word)
    for word, macros in source.macros.items():
        if word in KEYWORDS | taken and not _same(word, macros[0].body):
            line = macros[0].line if macros[0].file == source.name else (macros[0].file, macros[0].line)
            yield kernel.refusal("redefined-builtin", line, name=word)
    if name in source.macros:
        yield kernel.refusal("redefined-builtin", name=name)


def _as_variable(piece: Definition, word: str) -> bool:
    """Return whether a definition gives a name to a variable or function; fields may have it."""
    return word in texts(each for node in walk(piece.node) for each in declares(node) if each.type == "identifier")


def _same(word: str, body: str) -> bool:
    """Return whether a macro is another spelling of its name, e.g. ``__restrict__`` for ``restrict``."""
    return body.strip().strip("_") == word.strip("_")


def _words(kernel: ParsedKernel) -> Iterator[Refusal]:
    """Yield the names and launches for which a kernel is refused wherever they stand."""
    for piece in kernel.reach:
        for word in dict.fromkeys(piece.tokens):
            code = danger(word)
            if word in READ_GROUPS or word in THREAD_COPIES:
                continue
            if code is not None and not (code == "dynamic-parallelism" and word in piece.declared):
                yield kernel.refusal(code, line_in(piece, kernel, word), name=word)
        for node in piece.find("kernel_call_syntax"):
            yield kernel.refusal("dynamic-parallelism", kernel.line(node, piece), name="<<< >>>")
        if piece.kind == "macro" and any("<<<" in each.body for each in kernel.source.macros[piece.name]):
            yield kernel.refusal("dynamic-parallelism", line_in(piece, kernel), name=f"the macro {piece.name}")
        if piece.kind == "macro" and {"asm", "__asm__", "__asm"} & set(piece.tokens):
            yield kernel.refusal("inline-assembly", line_in(piece, kernel), name=f"in the macro {piece.name}")


def _copies(kernel: ParsedKernel) -> Iterator[Refusal]:
    """Yield the asynchronous copies for which a kernel, or its block level, is refused."""
    unread = list(unread_copies(kernel))
    for piece, use in unread:
        word = use if isinstance(use, str) else text_of(use)
        at = line_in(piece, kernel, use) if isinstance(use, str) else kernel.line(use, piece)
        yield kernel.refusal("async-barrier", at, name=word)
    for word in () if unread else copies_of_threads(kernel)[:1]:
        yield kernel.refusal("async-copy", name=with_library_words(word))


def _groups(kernel: ParsedKernel, others: Collection[Refusal]) -> Iterator[Refusal]:
    """Yield the uses of cooperative groups that are not read; none beside groups that are never read."""
    found = [piece for piece in kernel.reach if READ_GROUPS & set(piece.tokens) and not _naming(piece)]
    if not found or {each.code for each in others} & {"grid-sync", "cluster", "cooperative-groups"}:
        return
    unread = [(piece, use) for piece in found for use in kernel.source.expanded.unread.get(piece.name, ())]
    for piece, (line, text) in unread:
        at = line if piece.file == kernel.function.file else kernel.kernel.line
        yield kernel.refusal("cooperative-groups", at, name=text)
    if not unread:
        word = next(each for each in found[0].tokens if each in READ_GROUPS)
        yield kernel.refusal("cooperative-groups", line_in(found[0], kernel, word), name=word)


def _naming(piece: Definition) -> bool:
    return piece.node is not None and piece.node.type == "namespace_alias_definition"


def _statements(kernel: ParsedKernel) -> Iterator[Refusal]:
    volatile = (piece for piece in kernel.reach if kernel.shared and _volatile_perhaps_shared(piece, kernel))
    for piece in list(volatile)[:1]:
        yield kernel.refusal("volatile-shared", line_in(piece, kernel, "volatile"))
    for piece in kernel.reach:
        for node in piece.find("goto_statement", "gnu_asm_expression"):
            at = kernel.line(node, piece)
            if node.type == "goto_statement":
                yield kernel.refusal("goto", at, name=" ".join(text_of(each) for each in node.named_children))
            elif (wrong := wrong_with(node)) is not None:
                yield kernel.refusal("inline-assembly", at, name=wrong)
            elif of_warps(node):
                yield kernel.refusal("tensor-core", at, name="what its inline assembly works on")
        if piece.kind == "macro" and "goto" in piece.tokens:
            yield kernel.refusal("goto", line_in(piece, kernel), name=f"in the macro {piece.name}")
        if piece.kind == "function":
            yield from _static_locals(piece, kernel)


def _volatile_perhaps_shared(piece: Definition, kernel: ParsedKernel) -> bool:
    """Return whether a definition has volatile memory that may be shared: parameters of kernels point to global."""
    tokens = set(piece.tokens)
    if "volatile" not in tokens or (piece.kind == "variable" and {"__device__", "__managed__"} & tokens):
        return False
    if piece != kernel.reach[0]:
        return True
    changed = texts(each.child_by_field_name("left") for each in find(kernel.body, "assignment_expression"))
    given = zip(parameter_nodes(kernel.node), kernel.kernel.parameters, strict=True)
    fixed = {of.id for node, each in given if each.name not in changed for of in find(node, "type_qualifier")}
    return any(text_of(each) == "volatile" and each.id not in fixed for each in piece.find("type_qualifier"))


def _static_locals(piece: Definition, kernel: ParsedKernel) -> Iterator[Refusal]:
    for node in find(next(piece.find("compound_statement"), None), "declaration"):
        before = texts(node.children)
        if "static" in before and not {"constexpr", "__shared__"} & before:
            yield kernel.refusal("static-local", kernel.line(node, piece), name=_shown(node))


def _out_of_reach(kernel: ParsedKernel) -> Iterator[Refusal]:
    """Yield what reads the block's index and cannot take the logical one."""
    for kind, piece, at, why in unreachable_indices(kernel, BLOCK_INDICES, BLOCK_INDICES):
        line = line_in(piece, kernel, at) if at is None or isinstance(at, str) else kernel.line(at, piece)
        yield kernel.refusal(f"{kind}-index", line, **why)


def _pointers(kernel: ParsedKernel) -> Iterator[Refusal]:
    """Yield calls of unknown functions: through pointers to functions, and of virtual functions."""
    for piece in kernel.reach:
        if piece.node is None:
            continue
        if "virtual" in piece.tokens:
            yield kernel.refusal("indirect-call", line_in(piece, kernel), name=f"a virtual function of {piece.name}")
        for node in piece.find("function_declarator", "abstract_function_declarator"):
            inner = node.child_by_field_name("declarator")
            pointer = inner is not None and "parenthesized" in inner.type and set(text_of(inner)) & {"*", "&"}
            typed = around(node, "type_definition", within=piece.node.parent or piece.node) is not None
            if pointer or typed or (node.type == "abstract_function_declarator" and not _of_conversion(node)):
                yield kernel.refusal("indirect-call", kernel.line(node, piece), name=_shown(node))


def _of_conversion(declarator: Node) -> bool:
    """Return whether a declarator without a name is that of a conversion: ``operator T *()``."""
    around_it = next((each for each in above(declarator) if each.type != "abstract_pointer_declarator"), None)
    inner = declarator.child_by_field_name("declarator")
    return inner is None and around_it is not None and around_it.type == "operator_cast"


def _unknown(kernel: ParsedKernel) -> Iterator[Refusal]:
    missing = ", ".join(kernel.source.missing)
    where = f" ({missing} {'were' if len(kernel.source.missing) > 1 else 'was'} not found)" if missing else ""
    for word, piece in list(unknown_names(kernel).items())[:_MOST_UNKNOWN]:
        yield kernel.refusal("unknown-name", line_in(piece, kernel, word), name=word, where=where)
    undefined = {name: kernel.line(node, piece) for name, node, piece in undefined_functions(kernel)}
    for name, line in list(undefined.items())[:_MOST_UNKNOWN]:
        yield kernel.refusal("undefined-function", line, name=name)


def unknown_names(kernel: ParsedKernel) -> dict[str, Definition]:
    """Return the names that mean nothing here, with what uses them.

    They may be macros or functions of headers that were not found.
    """
    source = kernel.source
    declared = {name for piece in kernel.reach for name in piece.declared} | {kernel.name, *source.definitions}
    if not source.missing:  # else a header might define what is tested with #ifdef
        declared |= source.asked
    found: dict[str, Definition] = {}
    for piece in kernel.reach:
        if (GROUPS | GRID_SYNC) & set(piece.tokens):  # refused by itself, and its names may be the library's
            continue
        for word in sorted(piece.names - declared):
            if not known(word) and danger(word) is None:
                found.setdefault(word, piece)
    return found


def _waiting(kernel: ParsedKernel) -> Iterator[Refusal]:
    watched, told = polled_names(kernel.reach), set[str]()
    for code, node, ends, piece in waiting_loops(kernel.reach, watched):
        if code not in told:
            yield kernel.refusal(code, kernel.line(node, piece), name=ends)
        told.add(code)
    call = waiting_call(kernel.reach, watched, kernel.source.macros)
    if call is not None:
        node, reason, piece = call
        yield kernel.refusal("recursion", kernel.line(node, piece), name=reason)
    macro = waiting_macro(kernel.reach)
    if macro is not None:
        yield kernel.refusal("spin-wait", line_in(macro, kernel), name=f"in the macro {macro.name}")


def _votes(kernel: ParsedKernel) -> Iterator[Refusal]:
    for piece in kernel.reach:
        for word in sorted(VOTE_BARRIERS & set(piece.tokens)):
            yield kernel.refusal("vote-barrier", line_in(piece, kernel, word), name=word)

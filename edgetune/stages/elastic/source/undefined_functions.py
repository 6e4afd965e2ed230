"""Functions of the GPU that a kernel may call and that no file defines.

template <class T> struct Shared { __device__ T *get() { extern __device__ void error(); error(); return 0; } };
template <> struct Shared<float> { __device__ float *get() { extern __shared__ float floats[]; return floats; } };
Shared<float> s;                    calls no error(): the compiler makes nothing of the first template
Shared<int> s;                      calls error(), which may be defined in another file and do anything
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from edgetune.stages.elastic.source.layouts import NUMBERS
from edgetune.stages.elastic.source.syntax import (
    CLASSES,
    CONDITIONS,
    Node,
    around,
    called_name,
    child,
    declared_name,
    find,
    listed,
    squeezed,
    text_of,
    walk,
    words,
)
from edgetune.stages.elastic.source.translation_unit import (
    Definition,
    ParsedKernel,
    device_words,
    function_declarator,
    leading_words,
    name_parts,
)

_OF_TEMPLATES = ("template_type", "template_function", "template_method")


def undefined_functions(kernel: ParsedKernel) -> Iterator[tuple[str, Node, Definition]]:
    """Yield the functions that a kernel reaches and no file defines: name, call or declaration, holder."""
    on_device = device_words(kernel.source.macros)
    for piece in kernel.reach:
        if piece.node is None or "friend" in piece.tokens or _never_made(piece, kernel):
            continue
        # constexpr int n(m); in a function is a variable
        wanted = on_device - {"constexpr"} if piece.kind == "function" else on_device
        for node in (each for each in piece.find("declaration", "field_declaration") if leading_words(each) & wanted):
            if "virtual" in words(text_of(node)):  # refused by itself
                continue
            for declarator in find(node, "function_declarator"):
                name = text_of(declared_name(declarator))
                if name and not _defined(name, declarator, kernel):
                    yield name, *_first_call(name, kernel, (node, piece))


def _defined(name: str, declarator: Node, kernel: ParsedKernel) -> bool:
    """Return whether a file defines a function: of that class, with as many parameters, and of no other plain types.

    An overload that is declared and never called counts as used: types of arguments are not looked at.
    """
    owner, given, special = _owner(declarator), _parameters(declarator), _specialises(declarator)
    for each in kernel.source.functions.get(name, ()):
        inner, scopes, own = _owner(each.node), name_parts(each.node)[:-1], function_declarator(each.node)
        if owner is None:
            fits = inner is None and not (scopes and kernel.source.types(scopes[-1]))
        else:
            fits = inner == owner or (inner is None and scopes[-1:] == words(owner.split("<")[0])[-1:])
        kinds = None if own is None else _parameters(own)
        fits = fits and kinds is not None and len(kinds) == len(given) and special == _specialises(each.node)
        pairs = zip(kinds or (), given, strict=False)
        if fits and all(one == other or not {one, other} <= NUMBERS.keys() for one, other in pairs):
            return True
    return False


def _owner(node: Node) -> str | None:
    """Return the class that a function is declared in; ``None`` of one that is no member."""
    owner = around(node, *CLASSES, "compound_statement")
    name = None if owner is None or owner.type == "compound_statement" else owner.child_by_field_name("name")
    return None if name is None else squeezed(name)


def _parameters(declarator: Node) -> list[str]:
    """Return the parameters of a function: the type of a plain number, else the whole text."""
    found = list[str]()
    for each in listed(declarator.child_by_field_name("parameters")):
        kind, inner = each.child_by_field_name("type"), each.child_by_field_name("declarator")
        if text_of(each) != "void":
            found.append(text_of(kind if kind is not None and (inner is None or inner.type == "identifier") else each))
    return found


def _specialises(node: Node) -> bool:
    """Return whether a function is declared behind ``template <>``."""
    given = child(around(node, "template_declaration"), "parameters")
    return given is not None and not given.named_children


def _first_call(name: str, kernel: ParsedKernel, otherwise: tuple[Node, Definition]) -> tuple[Node, Definition]:
    for piece in kernel.reach:
        for call in piece.find("call_expression"):
            if text_of(called_name(call)) == name:
                return call, piece
    return otherwise


def _never_made(piece: Definition, kernel: ParsedKernel) -> bool:
    """Return whether a template is used only with arguments for which there are specialisations."""
    name, given = _template(piece)
    if name is None or given is not None:
        return False
    definitions = kernel.source.definitions.get(name, ())
    special = [each for each in definitions if _template(each)[1] is not None and _beside(each, piece)]
    if not special or len(special) + 1 < len(definitions):
        return False
    arguments = {_template(each)[1] for each in special}
    others = (each for each in kernel.reach if each is not piece)
    return all(_special(node, each, arguments) for each in others for node in _mentions(name, each))


def _beside(one: Definition, other: Definition) -> bool:
    """Return whether two definitions are in one file under the same condition of the preprocessor."""
    if one.node is None or other.node is None or one.file != other.file:
        return False
    return around(one.node, *CONDITIONS) == around(other.node, *CONDITIONS)


def _template(piece: Definition) -> tuple[str | None, str | None]:
    """Return the name of a template and the arguments of a specialisation; ``None`` for what it has not."""
    node = piece.node
    if node is None or node.type != "template_declaration":
        return None, None
    inner = node.named_children[-1]
    named = inner.child_by_field_name("name") if inner.type in CLASSES else None
    if inner.type == "function_definition":
        named = child(function_declarator(inner), "declarator")
    if named is not None and named.type in ("identifier", "type_identifier"):
        return text_of(named), None
    if named is None or named.type not in _OF_TEMPLATES or listed(node.child_by_field_name("parameters")):
        return None, None
    return text_of(named.child_by_field_name("name")), squeezed(named.child_by_field_name("arguments"))


def _mentions(name: str, piece: Definition) -> Iterator[Node | None]:
    """Yield the places where a definition names a template; ``None`` in a macro."""
    if piece.node is None:
        yield from [None] * (name in piece.tokens)
        return
    own = _template(piece)[1] is not None  # Shared in Shared<float> means itself
    for node in walk(piece.node):
        if not node.children and text_of(node) == name:
            given = node.parent is not None and node.parent.type in _OF_TEMPLATES
            if given or not own:
                yield node


def _special(mention: Node | None, piece: Definition, special: Collection[str | None]) -> bool:
    """Return whether a mention of a template has arguments for which there is a specialisation."""
    whole = None if mention is None else mention.parent
    given = whole.child_by_field_name("arguments") if whole is not None and whole.type in _OF_TEMPLATES else None
    return given is not None and squeezed(given) in special and not set(words(text_of(given))) & piece.declared

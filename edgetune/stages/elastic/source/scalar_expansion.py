"""Variables that live across a barrier: an array with an element for each logical thread of a physical one.

    float sum = 0, *p = x;                       float edgetune_many_sum[n], *edgetune_many_p[n];
    __syncthreads();                             for each i:  auto &sum = edgetune_many_sum[i];  sum = 0; ...
    sum += *p;                 ->                __syncthreads();
                                                 for each i:  auto &sum = ..., &p = ...;  sum += *p;

The original statements stay as they are: in each region a reference of the variable's own name means the element.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from edgetune.stages.elastic.source.builtins import TENSOR_CORE
from edgetune.stages.elastic.source.fission import CannotSplit, Fission
from edgetune.stages.elastic.source.name_resolution import NameTable, Variable, VariableUse
from edgetune.stages.elastic.source.region_tree import Piece, RegionPart, regions
from edgetune.stages.elastic.source.syntax import (
    Node,
    callee,
    declared_name,
    find,
    has,
    names,
    plain,
    squeezed,
    takes_address,
    text_of,
    texts,
    tree_of,
    words,
)
from edgetune.stages.elastic.source.translation_unit import ParsedFile
from edgetune.stages.elastic.source.write_analysis import is_array_type, is_fixed_type

MANY = "edgetune_many_"
"""Prefix of the names of these arrays."""

_NOT_KEPT = ("const", "constexpr", "register", "__restrict__", "__restrict", "restrict")
_NO_ARRAY = ("structured_binding_declarator", "function_declarator")
_FRAGMENTS = TENSOR_CORE | {"fragment"}


def nodes_of(part: RegionPart) -> list[Node]:
    """Return the source of a part of a region, with the initialiser of what it declares."""
    values = [each.value for each in part.variables[:1] if each.value is not None]
    return [part.node, *values]


def expand_scalars(fission: Fission) -> tuple[list[Piece], set[Variable]]:
    """Return the pieces of a kernel, and the variables that become arrays.

    A variable that lives across a barrier and is the same for all threads becomes a single variable instead.

    Raises:
        CannotSplit: the kernel cannot be split.
    """
    fission.single_out()
    while True:
        pieces = fission.pieces()
        many = _many(fission, pieces)
        single = {each for each in many if each.kind == "local" and _constant(fission, each)}
        single |= {
            size for each in many - single for size in _sizes(fission.uniform.names, each)
        } & fission.uniform.variables
        if single <= fission.single:
            break
        fission.single_out(single)
    for each in sorted(many, key=lambda each: each.declaration.start_byte):
        _check(fission, each)
    _check_shadows(fission, many)
    return pieces, many


def array(variable: Variable) -> str:
    """Return the declaration of the array that takes the place of a variable."""
    pointers = [each for each in find(variable.declarator, "pointer_declarator")]
    innermost = [each for each in pointers[-1:] for each in each.children if text_of(each) in _NOT_KEPT]
    fixed = not pointers
    name = declared_name(variable.declarator)
    assert name is not None  # or it would not be a variable
    declarator = plain(variable.declarator, innermost, (name, f"{MANY}{variable.name}[edgetune_n]"))
    return f"{specifiers(variable.declaration, fixed=fixed)} {declarator};"


def specifiers(declaration: Node, *, fixed: bool = False) -> str:
    """Return the words before the first name of a declaration; without ``const`` and the like where ``fixed``."""
    found = []
    for place, child in enumerate(declaration.children):
        if declaration.field_name_for_child(place) == "declarator":
            break
        word = plain(child)
        if word and not (word in _NOT_KEPT and (fixed or word == "register")) and word != "__grid_constant__":
            found.append(word)
    return " ".join(found)


def first_value(variable: Variable, value: str) -> list[str]:
    """Return the lines that give a variable, which is a reference now, the value of its declaration.

    Args:
        variable: The variable.
        value: Its initialiser as it is written in the region.
    """
    assert variable.value is not None
    array_dimensions = variable.dimensions
    direct = variable.value.type not in ("argument_list", "initializer_list")
    if direct and not array_dimensions:
        return [f"{variable.name} = {value};"]
    name = declared_name(variable.declarator)
    assert name is not None
    declarator = plain(variable.declarator, (), (name, "edgetune_first"))
    given = f" = {value}" if variable.value.type != "argument_list" else value
    lines = ["{", f"    {specifiers(variable.declaration)} {declarator}{given};"]
    at = "".join(f"[edgetune_{each}]" for each in range(array_dimensions))
    for each in range(array_dimensions):
        inner = "edgetune_first" + "[0]" * each
        lines.append("    #pragma unroll")
        lines.append(
            f"    for (unsigned int edgetune_{each} = 0; edgetune_{each} < sizeof({inner}) / sizeof({inner}[0]); "
            f"++edgetune_{each})"
        )
    return [*lines, f"    {variable.name}{at} = edgetune_first{at};", "}"]


def _many(fission: Fission, pieces: list[Piece]) -> set[Variable]:
    """Return the variables of which each logical thread has its own, and that more than one region uses."""
    used: dict[Variable, set[int]] = {}
    declared: set[Variable] = set()
    for region in regions(pieces):
        for part in region.parts:
            declared |= set(part.variables)
            found = [each for node in nodes_of(part) for each in fission.uniform.names.used_in(node)]
            for each in (*found, *part.variables):
                used.setdefault(each, set()).add(region.number)
    parameters = {
        each for each in fission.uniform.names.variables if each.kind == "parameter" and fission.uniform.writes[each]
    }
    many = {each for each in declared if len(used[each]) > 1} | (parameters - fission.single)
    uses = (each for each in fission.uniform.names.uses if each.variable in declared)
    many |= {each.variable for each in uses if _stored(each, fission.uniform.source)}
    if any(_may_point(each) for each in many):
        many |= {each for each in declared if _may_be_pointed_to(fission.uniform.names, each)}
    return many - fission.single


def _constant(fission: Fission, variable: Variable) -> bool:
    """Whether a variable keeps one value, the same for all threads, from its declaration on."""
    if variable.value is None or fission.uniform.writes[variable] or variable not in fission.uniform.variables:
        return False
    return not has(variable.value, "assignment_expression", "update_expression")


def _sizes(names: NameTable, variable: Variable) -> list[Variable]:
    """Return the variables in the type of a variable, e.g. the sizes of an array."""
    types = variable.declaration.children_by_field_name("type")
    return [each for node in (variable.declarator, *types) for each in names.used_in(node) if each != variable]


def _may_point(variable: Variable) -> bool:
    """Whether a variable may hold the address of another one."""
    return variable.has("pointer_declarator") or not variable.of_number


def _may_be_pointed_to(names: NameTable, variable: Variable) -> bool:
    """Whether another variable may keep the address of a variable: the address is taken, or it is made of others."""
    if variable.has("reference_declarator", *_NO_ARRAY):
        return False
    if variable.dimensions > 0:
        return True
    if not variable.of_number and not variable.has("pointer_declarator") and not _left_open(variable):
        return True
    return any(_taken(each) for each in names.uses if each.variable == variable)


def _taken(use: VariableUse) -> bool:
    """Whether a use takes an address or makes a reference; one hidden in a macro may."""
    around = use.node.parent
    while around is not None and around.type in ("parenthesized_expression", "field_expression", "comma_expression"):
        around = around.parent
    if around is None or use.hidden:
        return True
    if around.type == "init_declarator":
        return has(around.children[0], "reference_declarator")
    return takes_address(around)


def _stored(use: VariableUse, source: ParsedFile) -> bool:
    """Whether a use may put the address of a variable into memory, where it outlives the region."""
    here, taken = use.node, use.variable.dimensions > 0
    while (around := here.parent) is not None and around.type.endswith("_expression"):
        if around.type == "assignment_expression":
            left = around.child_by_field_name("left")
            return taken and here != left and left is not None and left.type != "identifier"
        if around.type == "subscript_expression":
            return False
        if (
            around.type == "cast_expression"
            and taken
            and "*" not in text_of(around.child_by_field_name("type") or around)
        ):
            return True  # an address as a number, which any variable may hold
        taken |= takes_address(around)
        here = around
    if around is None or around.type != "argument_list" or around.parent is None or not taken:
        return False
    return _kept_by(around.parent, source)


def _kept_by(call: Node, source: ParsedFile) -> bool:
    """Whether a call may keep an address that it is given: as a number, in another pointer, or in an object."""
    name, function = callee(call), call.child_by_field_name("function")
    if name.endswith("_cast") and function is not None:
        return "*" not in text_of(function)
    parameters = (each for one in source.functions.get(name, ()) for each in find(one.node, "parameter_declaration"))
    for each in parameters:
        text = squeezed(each)
        objects = any(piece.kind == "type" for word in words(text) for piece in source.definitions.get(word, ()))
        if "**" in text or "*&" in text or (objects and ("*" in text or "&" in text)):
            return True
    return False


def _left_open(variable: Variable) -> bool:
    """Whether the compiler deduces the type of a variable."""
    kind = variable.declaration.child_by_field_name("type")
    return kind is None or not {"auto", "decltype"}.isdisjoint(texts((kind, *kind.children)))


def _check(fission: Fission, variable: Variable) -> None:
    """Raise where a variable cannot become an array."""
    at = variable.declarator
    if variable.has("reference_declarator"):
        raise CannotSplit("reference", at, name=variable.name)
    if _left_open(variable) or variable.has("structured_binding_declarator"):
        raise CannotSplit("auto", at, name=variable.name)
    kind = variable.declaration.child_by_field_name("type")
    if kind is not None and texts(names(kind)) & _FRAGMENTS:
        raise CannotSplit("tensor-core", at, name=variable.name)
    before = texts(variable.declaration.children)
    own_type = "extern" in before or (kind is not None and kind.child_by_field_name("body") is not None)
    unsized = any(each.child_by_field_name("size") is None for each in find(at, "array_declarator"))
    named_array = kind is not None and variable.value is not None and is_array_type(kind, fission.uniform.source)
    sized_parameter = variable.kind == "parameter" and variable.dimensions > 0
    if is_fixed_type(specifiers(variable.declaration, fixed=True), at, fission.uniform.source):
        raise CannotSplit("type-across", at, name=variable.name)
    if own_type or unsized or sized_parameter or named_array or variable.has("function_declarator"):
        raise CannotSplit("type-across", at, name=variable.name)
    if any(each not in fission.single and each.kind != "shared" for each in _sizes(fission.uniform.names, variable)):
        raise CannotSplit("type-across", at, name=variable.name)


def _check_shadows(fission: Fission, many: Collection[Variable]) -> None:
    """Raise where a variable that is declared elsewhere now would be taken for another one of its name."""
    for statement in find(fission.uniform.body, "expression_statement", "for_statement"):
        for hidden in _declared_by(statement, fission.uniform.source, _MACROS_DEEP):
            raise CannotSplit("shadowed", statement, name=hidden)
    level = [
        each for each in fission.uniform.names.variables if each.kind == "parameter" or each.scope.id in fission.marks
    ]
    for each in level:
        if each not in many and each not in fission.single and each.kind != "shared":
            continue
        others = [other for other in level if other is not each and other.name == each.name]
        free = [other for other in fission.uniform.names.free if text_of(other) == each.name]
        meet = any(_overlap(each.scope, other.scope) and not _apart(each, other) for other in others)
        if meet or any(_overlap(each.scope, other) for other in free):
            raise CannotSplit("shadowed", each.declarator, name=each.name)


_MACROS_DEEP = 8
"""Depth of macros that are searched for declarations."""


def _declared_by(statement: Node, source: ParsedFile, deep: int) -> Iterator[str]:
    """Yield the names that a macro declares where it is a statement; each is the name of something else as well.

    If it were not, the name would be unknown and the kernel refused.
    """
    first = statement.child_by_field_name("initializer") if statement.type == "for_statement" else None
    used = first if first is not None else next(iter(statement.named_children), None)
    name = callee(used) if used is not None and used.type == "call_expression" else text_of(used)
    for macro in source.macros.get(name, ()) if deep else ():
        body = tree_of(f"void f() {{ {macro.body}\n; }}".encode("utf-8", "surrogateescape")).root_node
        block = next(find(body, "compound_statement"), body)
        for inner in block.named_children:
            if inner.type == "expression_statement":
                yield from _declared_by(inner, source, deep - 1)
            declarators = inner.children_by_field_name("declarator") if inner.type == "declaration" else []
            yield from texts(map(declared_name, declarators))


def _apart(one: Variable, other: Variable) -> bool:
    """Whether one variable is declared behind the scope of the other: splitting keeps the order."""
    first, second = sorted((one, other), key=lambda each: int(each.declaration.start_byte))
    return bool(first.scope.end_byte <= second.declaration.start_byte)


def _overlap(one: Node, other: Node) -> bool:
    return one.start_byte < other.end_byte and other.start_byte < one.end_byte

"""What the parameters of a kernel are made of: numbers, vectors, typedefs and structs of plain numbers.

    typedef struct { float4 at; int id; } Vertex;
    k(Vertex *v, float2 s)      v: memory of float32 x 4, int32, uint8 x 12 (padding)      s: float32 x 2

Sizes are those of CUDA on 64-bit Linux. Source: CUDA C++ Programming Guide, "Built-in Vector Types"; the rules of
padding are those of the C++ ABI.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from edgetune.stages.elastic.kernel import VECTORS
from edgetune.stages.elastic.source.syntax import Node, closure, find, has, text_of, words
from edgetune.stages.elastic.source.translation_unit import Definition

NUMBERS = {
    "float": "float32", "double": "float64", "int": "int32", "signed": "int32", "unsigned": "uint32",
    "unsigned int": "uint32", "long long": "int64", "unsigned long long": "uint64", "long": "int64",
    "unsigned long": "uint64", "char": "int8", "signed char": "int8", "unsigned char": "uint8", "short": "int16",
    "unsigned short": "uint16", "bool": "uint8", "size_t": "uint64", "int64_t": "int64", "uint64_t": "uint64",
    "int32_t": "int32", "uint32_t": "uint32", "int16_t": "int16", "uint16_t": "uint16", "int8_t": "int8",
    "uint8_t": "uint8", "uint": "uint32", "uchar": "uint8", "ushort": "uint16", "ulong": "uint64", "clock_t": "int64",
    "half": "float16", "__half": "float16", "nv_bfloat16": "float16", "__nv_bfloat16": "float16",
}  # fmt: skip
"""numpy's names of plain types; it has none for the upper half of a float, but every number of 16 bits is one."""
_NAMED = {
    "cuComplex": "float2", "cuFloatComplex": "float2", "cuDoubleComplex": "double2", "cufftComplex": "float2",
    "cufftDoubleComplex": "double2", "cufftReal": "float", "cufftDoubleReal": "double",
    "cudaExtent": "ulonglong3", "cudaPos": "ulonglong3",
}  # fmt: skip
"""Types of CUDA's libraries by another name."""
_OF_CURAND = re.compile(
    r"curandState(_t|(XORWOW|Philox4_32_10|MRG32k3a|(Scrambled)?Sobol32)(_t)?)?|(?P<directions>curandDirectionVectors32_t)"
)
"""States of random numbers: how large they are depends on the version of cuRAND, 140 bytes at most."""
_LEFT_OUT = re.compile(
    r"\b(const|volatile|__restrict__|__restrict|restrict|__grid_constant__|struct|typename|std|cuda)\b|::"
)
_ALIGNED = re.compile(r"(?:alignas|__align__|aligned)\s*\(+\s*(\d+)")
_MOST_LEVELS = 8
"""Typedefs of typedefs, structs in structs."""
_MOST_MEANINGS = 4
"""Definitions of one name, under several ``#if``."""
_MOST_MEMBERS = 256


@dataclass(frozen=True, slots=True)
class Layout:
    """A type as a row of numbers.

    Args:
        members: numpy's names of its numbers, in order; padding is ``uint8``.
        align_bytes: Its alignment.
    """

    members: tuple[str, ...]
    align_bytes: int

    @property
    def bytes(self) -> int:
        """Its size."""
        return sum(map(bytes_of, self.members))


def bytes_of(number: str) -> int:
    """Return the size of a type by numpy's name, bytes: 4 of ``float32``."""
    return int(re.sub(r"\D", "", number)) // 8


def parameter_layout(declared: str, known: Mapping[str, tuple[Definition, ...]]) -> tuple[tuple[str, ...], bool]:
    """Return the numbers of a parameter, and whether it points to such; no numbers where its type is not plain.

    Args:
        declared: Its type as written, e.g. ``const float *``.
        known: The definitions of its file, by name.
    """
    bare = " ".join(_LEFT_OUT.sub(" ", declared).split())
    stars = bare.count("*") + bare.count("[")
    if stars == 1 and re.fullmatch(r"void ?\*", bare):
        return ("int32",), True  # what it is made of is not known; whole words are read most often
    state = _OF_CURAND.fullmatch(bare.removesuffix("*").rstrip())
    if stars == 1 and state and state[0] not in known:
        return ("uint32",) * 32 if state["directions"] else ("uint64",), True
    layout = _layout(re.sub(r"\[[^]]*\]|\*", " ", bare), known) if stars <= 1 and "&" not in bare else None
    return ((), stars > 0) if layout is None else (layout.members, stars > 0)


def element_layout(name: str, known: Mapping[str, tuple[Definition, ...]]) -> tuple[str, ...]:
    """Return the numbers of a variable, or of an element of an array; none where its type is not plain.

    Args:
        name: Of a variable of the file.
        known: The definitions of its file, by name.
    """
    nodes = [each.node for each in known.get(name, ()) if each.kind == "variable"]
    node = nodes[0] if len(nodes) == 1 else None
    kind = None if node is None else next(iter(node.children_by_field_name("type")), None)
    if node is None or kind is None or has(node, "pointer_declarator", "function_declarator"):
        return ()
    one = _struct(kind, known, _MOST_LEVELS) if _body(kind) else _layout(_LEFT_OUT.sub(" ", text_of(kind)), known)
    return () if one is None else one.members


def _layout(written: str, known: Mapping[str, tuple[Definition, ...]], levels: int = _MOST_LEVELS) -> Layout | None:
    """Return the layout of a type by its name; ``None`` where it is none of numbers, or not clear."""
    name = " ".join(written.split()).removesuffix(" int") if written.strip() != "int" else "int"
    name = _NAMED.get(name, name) if name not in known else name
    if name in NUMBERS:
        return Layout((NUMBERS[name],), bytes_of(NUMBERS[name]))
    pieces = known.get(name, ())
    if not pieces and name in VECTORS:
        number, count = VECTORS[name]
        size = bytes_of(number)
        return Layout((number,) * count, size if count == 3 else min(16, size * count))
    found = (
        [_defined(piece, name, known, levels - 1) for piece in pieces]
        if levels and len(pieces) <= _MOST_MEANINGS
        else []
    )
    same = len({each and each.members for each in found}) == 1  # else it has several meanings, under an #if
    return found[0] if same else None


def _defined(piece: Definition, name: str, known: Mapping[str, tuple[Definition, ...]], levels: int) -> Layout | None:
    if piece.kind == "macro":
        return _layout(" ".join(piece.tokens), known, levels) if len(piece.tokens) <= 3 else None
    if piece.kind != "type" or piece.node is None:
        return None
    node = piece.node
    kind = next(iter(node.children_by_field_name("type")), None)
    if node.type == "alias_declaration":
        return None if kind is None else _layout(text_of(kind), known, levels)
    if node.type == "type_definition":
        plain = any(each.type == "type_identifier" and text_of(each) == name for each in node.named_children[1:])
        if kind is None or not plain:
            return None  # of a pointer, an array or a function
        return _struct(kind, known, levels) if _body(kind) is not None else _layout(text_of(kind), known, levels)
    return _struct(node, known, levels)


def _body(node: Node) -> Node | None:
    return node.child_by_field_name("body") if node.type in ("struct_specifier", "class_specifier") else None


def _struct(node: Node, known: Mapping[str, tuple[Definition, ...]], levels: int) -> Layout | None:
    """Return the members of a struct one after another, with padding; ``None`` where one is no number."""
    body = _body(node)
    if body is None or has(node, "base_class_clause"):
        return None
    members, size = list[str](), 0
    head = text_of(node)[: body.start_byte - node.start_byte]
    align = max([1, *(int(each) for each in _ALIGNED.findall(head))])
    for each in body.named_children:
        if each.type in ("comment", "function_definition", "declaration", "access_specifier", "template_declaration"):
            if "virtual" in text_of(each).split():
                return None
            continue
        one = _member(each, known, levels)
        if one is None or len(members) + len(one.members) > _MOST_MEMBERS:
            return None
        padding = -size % one.align_bytes
        members += ["uint8"] * padding + list(one.members)
        size, align = size + padding + one.bytes, max(align, one.align_bytes)
    if not members:
        return None
    return Layout((*members, *["uint8"] * (-size % align)), align)


def _member(node: Node, known: Mapping[str, tuple[Definition, ...]], levels: int) -> Layout | None:
    """Return the layout of a declaration in a struct: ``float a, b[3];``; of a method one without members."""
    if node.type != "field_declaration" or {"static", "virtual"} & set(text_of(node).split()):
        return None
    kind = node.child_by_field_name("type")
    one = None if kind is None else _layout(_LEFT_OUT.sub(" ", text_of(kind)), known, levels)
    counts = [_count(each) for each in node.children_by_field_name("declarator")]
    if counts == [0]:
        return Layout((), 1)
    if one is None or not all(counts) or any(each.type == "bitfield_clause" for each in node.named_children):
        return None
    align = max([one.align_bytes, *(int(each) for each in _ALIGNED.findall(text_of(node)))])
    return Layout(one.members * min(sum(filter(None, counts)), _MOST_MEMBERS + 1), align)


def _count(declarator: Node) -> int | None:
    """Return how many of its type a member declares; 0 of a method, ``None`` where it is not clear."""
    if declarator.type in ("field_identifier", "function_declarator"):
        return int(declarator.type == "field_identifier")
    size = declarator.child_by_field_name("size") if declarator.type == "array_declarator" else None
    inner = declarator.child_by_field_name("declarator")
    if size is None or inner is None or inner.type != "field_identifier" or not text_of(size).isdigit():
        return None
    return int(text_of(size))


def holds_pointers(declared: str, known: Mapping[str, tuple[Definition, ...]]) -> bool:
    """Return whether a parameter is a struct with a pointer in it, or memory of such: no launch can give it.

    Args:
        declared: Its type as written.
        known: The definitions of its file, by name.
    """

    def fields(name: str) -> list[str]:
        nodes = [piece.node for piece in known.get(name, ()) if piece.kind == "type" and piece.node is not None]
        found = [each for node in nodes for each in find(node, "field_declaration")]
        return [text_of(each) for each in found if not has(each, "function_declarator")]

    inner = closure(words(declared), lambda name: words(" ".join(fields(name))))
    return declared.count("*") > 1 or any("*" in each for name in inner for each in fields(name))

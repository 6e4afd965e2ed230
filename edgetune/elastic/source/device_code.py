"""What of a file is for the GPU: its elastic kernels and what they reach. All else is left out, line by line.

    #include <cublas_v2.h>                       (an empty line)
    __device__ float f(float x) { ... }          __device__ float f(float x) { ... }
    __global__ void k(float *x) { ... f ... }    __global__ void k(float *x) { ... f ... }
    int main() { k<<<4, 64>>>(x); ... }          (as many empty lines)

NVRTC and the CPU shim compile kernels without the host API; what a kernel reaches by names is more than what it uses,
never less, so that they miss nothing.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from edgetune.elastic.source.edits import Edit
from edgetune.elastic.source.nodes import find, text_of, words
from edgetune.elastic.source.translation_unit import ParsedFile, ParsedKernel

if TYPE_CHECKING:
    from tree_sitter import Node

_CONTAINERS = (
    "translation_unit", "declaration_list", "linkage_specification", "namespace_definition", "preproc_if",
    "preproc_ifdef", "preproc_else", "preproc_elif", "preproc_elifdef",
)  # fmt: skip
_ITEMS = (
    "function_definition", "declaration", "type_definition", "alias_declaration", "namespace_alias_definition",
    "template_declaration", "template_instantiation", "enum_specifier", "concept_definition", "using_declaration",
    "class_specifier", "struct_specifier", "union_specifier",
)  # fmt: skip
_OF_THE_HOST = re.compile(
    r"cu(blas|dnn|fft|rand|sparse|solver)(?!_kernel)\w*\.h|cooperative_groups(/\w+)?\.h|cuda_(pipeline|awbarrier)\w*\.h"
    r"|nvToolsExt\.h|nccl\.h|nvml\.h|nvrtc\.h|mpi\.h|omp\.h|windows\.h|cuda_profiler_api\.h|cuda_gl_interop\.h|cudaGL\.h"
    r"|(sys/\w+|unistd|getopt|pthread|sched|signal|errno|locale)\.h"
)
"""Headers of libraries and systems that programs launch kernels beside; nothing in an elastic kernel is from them."""
_OF_STD = re.compile(r"(?!c(math|stdint|float|limits)$)[a-z_]+")
"""Headers of C++, which kernels need where they say ``std``."""
_USABLE = frozenset(
    ("const", "constexpr", "__device__", "__constant__", "__shared__", "__managed__", "texture", "surface")
)
"""What stands in front of variables that code for the GPU can use."""


def without_host_code(translation_unit: ParsedFile, kernels: Collection[ParsedKernel]) -> list[Edit]:
    """Return the edits that leave nothing in a file but kernels, what they reach, and directives.

    Args:
        translation_unit: The file.
        kernels: Those that stay.
    """
    kept = {(each.function.outer.start_byte, each.function.outer.end_byte) for each in kernels}
    known: set[str] = set()
    for kernel in kernels:
        for piece in kernel.reach:
            known |= set(piece.tokens)
            if piece.node is not None and piece.file == translation_unit.name:
                kept.add((piece.node.start_byte, piece.node.end_byte))
    left_out = [
        each
        for each in _items(translation_unit.tree.root_node)
        if _variable_of_the_host(each, translation_unit) or not _stays(each, kept, known)
    ]
    spans = [(each.start_byte, each.end_byte) for each in left_out]
    alone = [
        each
        for each in _includes(translation_unit, known)
        if not any(start <= each.start_byte < end for start, end in spans)
    ]
    amid = translation_unit.expanded.amid  # what a macro made in part cannot be told from the rest of it
    return [_blank(each) for each in [*left_out, *alone] if not amid(each.start_byte) and not amid(each.end_byte)]


def _items(node: Node) -> Iterator[Node]:
    """Yield what stands at the level of files and namespaces, with the linkage that is given to it alone."""
    for child in node.named_children:
        alone = child.type == "linkage_specification" and not any(
            each.type == "declaration_list" for each in child.named_children
        )
        if child.type in _ITEMS or alone:
            yield child
        elif child.type in _CONTAINERS:
            yield from _items(child)


def _stays(item: Node, kept: Collection[tuple[int, int]], known: Collection[str]) -> bool:
    """Return whether a definition is reached, holds one that is, or cannot be taken out in one piece."""
    if any(item.start_byte <= start and end <= item.end_byte for start, end in kept):
        return True
    text = text_of(item)
    if item.type == "using_declaration":
        return set(words(text)) - {"using", "namespace", "std"} <= set(known)
    return len(re.findall(r"^[ \t]*#[ \t]*if", text, re.M)) != len(re.findall(r"^[ \t]*#[ \t]*endif", text, re.M))


def _variable_of_the_host(item: Node, translation_unit: ParsedFile) -> bool:
    """Return whether a declaration makes variables that no code for the GPU can use: a name that a kernel gives to
    one of its own reaches them too."""
    if item.type != "declaration" or next(find(item, "function_declarator"), None) is not None:
        return False
    before = {word for child in item.children if "declarator" not in child.type for word in words(text_of(child))}
    return not before & (_USABLE | set(translation_unit.macros))


def _includes(translation_unit: ParsedFile, known: Collection[str]) -> Iterator[Node]:
    """Yield where headers are included that are not there, or are for the host alone, as far as is known."""
    for node in find(translation_unit.tree.root_node, "preproc_include"):
        path = node.child_by_field_name("path")
        wanted = "" if path is None else text_of(path).strip('<>" \t')
        needless = _OF_STD.fullmatch(wanted) and "std" not in known
        if wanted in translation_unit.missing or _OF_THE_HOST.fullmatch(wanted) or needless:
            yield node


def _blank(node: Node) -> Edit:
    return Edit(node.start_byte, node.end_byte, "\n" * text_of(node).count("\n"))

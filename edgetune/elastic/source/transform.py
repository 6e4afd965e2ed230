"""Makes the kernels of a file elastic.

text -> parse -> grounds -> refused: left as it is
                         -> grid form, block forms behind the original
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from edgetune import limits
from edgetune.elastic.abi import STRUCT, STRUCT_NAME, grid_symbol
from edgetune.elastic.kernel import ElasticKernel, TransformResult, Variant
from edgetune.elastic.source.block_legality import returns_before_barriers, threads_apart
from edgetune.elastic.source.diagnostics import refusal
from edgetune.elastic.source.explain import grid_steps, macro_steps
from edgetune.elastic.source.legality import illegalities
from edgetune.elastic.source.macros import for_compiler
from edgetune.elastic.source.parse import parse
from edgetune.elastic.source.syntax import Edit, find, line_mark, spliced, text_of, words
from edgetune.elastic.source.translation_unit import ParsedFile, ParsedKernel
from edgetune.elastic.source.variants import BlockForms, anchor, block_variants, generated_name, grid_form, inserted
from edgetune.errors import InputError

if TYPE_CHECKING:
    from tree_sitter import Node


_BOM = "\ufeff"


def transform(text: str, name: str, folders: Sequence[Path] = (), launched: Collection[str] = ()) -> TransformResult:
    """Make the kernels of a source file elastic.

    Args:
        text: CUDA C.
        name: Of the file, for messages and for the lines that compilers show.
        folders: Where headers that it includes are looked for, the first first.
        launched: Kernels that stay in what is for the GPU even where they have no forms.

    Raises:
        InputError: there is no kernel in it, it is transformed already, or it takes longer than the limit allows.
        DeviceError: tree-sitter is not installed.
    """
    if f"struct {STRUCT_NAME} {{" in text:
        raise InputError(
            f"{name} is transformed already: it holds elastic forms", "transform the file that it was made from"
        )
    with limits.bounded_cpu_time("source_seconds", f"reading {name}"):
        return _transformed(parse(text.removeprefix(_BOM), name, folders), launched)


def _transformed(translation_unit: ParsedFile, launched: Collection[str]) -> TransformResult:
    elastic, edits, kept = [], [], []
    for kernel in translation_unit.kernels:
        made, forms = _made(translation_unit, kernel)
        elastic.append(made)
        if forms or kernel.kernel.name in launched:
            kept.append(kernel)
        if forms:
            head = f"\n// Elastic forms of {made.kernel.name}, made by edgetune.\n"
            marked = f"{head}{line_mark(1, generated_name(translation_unit, kernel))}{_with_templates(kernel, forms)}"
            edits.append(inserted(anchor(kernel), translation_unit, for_compiler(marked)))
    missing = tuple(refusal("header-missing", line, None, name=each) for each, line in translation_unit.missing.items())
    edits = _merged(edits)
    device = _source(translation_unit, [*edits, *without_host_code(translation_unit, kept)]) if kept else ""
    return TransformResult(
        _source(translation_unit, edits), tuple(elastic), (*translation_unit.notes, *missing), device
    )


def _made(translation_unit: ParsedFile, kernel: ParsedKernel) -> tuple[ElasticKernel, str]:
    """Return what becomes of a kernel, and the text of its forms."""
    against = illegalities(translation_unit, kernel)
    if any(each.level == "grid" for each in against):
        return ElasticKernel(kernel.kernel, refusals=against), ""
    forms = BlockForms(refusals=against) if against else block_variants(translation_unit, kernel)
    stuck = (
        ()
        if forms.grid
        else (*returns_before_barriers(translation_unit, kernel), *threads_apart(translation_unit, kernel))
    )
    if stuck:
        return ElasticKernel(kernel.kernel, refusals=(*stuck, *forms.refusals)), ""
    variants = (Variant(grid_symbol(kernel.kernel.name), "grid"), *forms.variants)
    text = forms.text if forms.grid else grid_form(translation_unit, kernel) + forms.text
    return ElasticKernel(
        kernel.kernel,
        variants,
        forms.refusals,
        (*macro_steps(translation_unit, kernel), *grid_steps(kernel), *forms.steps),
    ), text


def _with_templates(kernel: ParsedKernel, forms: str) -> str:
    """Return forms such that there may be templates in them inside ``extern "C" { }`` too."""
    here = anchor(kernel).parent
    while here is not None and here.type != "linkage_specification":
        here = here.parent
    return forms if here is None else f'extern "C++" {{\n{forms}}}\n'


def _source(translation_unit: ParsedFile, edits: Sequence[Edit]) -> str:
    """Return the original with the forms in it; byte for byte the original where there are none."""
    if not edits:
        return translation_unit.text.decode("utf-8", "surrogateescape")
    start = f"{STRUCT}\n{line_mark(1, translation_unit.name)}"
    place = translation_unit.expanded.original
    return start + spliced(
        translation_unit.text, (Edit(place(each.start), place(each.end), each.text) for each in edits)
    )


def _merged(edits: Sequence[Edit]) -> list[Edit]:
    """Return edits of which no two are at one place: kernels of one unnamed namespace have their forms behind it."""
    found: dict[int, Edit] = {}
    for edit in edits:
        before = found.get(edit.start)
        text = edit.text if before is None else before.text.rstrip("\n") + edit.text
        found[edit.start] = Edit(edit.start, edit.end, text)
    return list(found.values())


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

"""Makes the kernels of a file elastic.

text -> parse -> illegalities -> refused: the kernel stays as it is
                              -> grid form and block forms behind the original

What is compiled is the same source without the host's code: the elastic kernels and what they reach, all else as empty
lines. NVRTC and the CPU shim compile kernels without the host API; a kernel never uses more than it reaches by names.

    #include <cublas_v2.h>                       (an empty line)
    __device__ float f(float x) { ... }          __device__ float f(float x) { ... }
    __global__ void k(float *x) { ... f ... }    __global__ void k(float *x) { ... f ... }
    int main() { k<<<4, 64>>>(x); ... }          (as many empty lines)
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

from edgetune import limits
from edgetune.errors import InputError
from edgetune.stages.elastic.abi import CONTROL_STRUCT, STRUCT, STRUCT_NAME, grid_symbol, persistent_symbol
from edgetune.stages.elastic.kernel import ElasticKernel, Refusal, TransformResult, Variant
from edgetune.stages.elastic.source.block_legality import returns_before_barriers, threads_apart
from edgetune.stages.elastic.source.block_loops import FormOptions
from edgetune.stages.elastic.source.builtins import THREAD_COPIES, complex_number
from edgetune.stages.elastic.source.diagnostics import refusal
from edgetune.stages.elastic.source.explain import grid_steps, macro_steps
from edgetune.stages.elastic.source.group_words import HEADERS, LIBRARY, with_library_words
from edgetune.stages.elastic.source.headers import WholeText, included, with_headers
from edgetune.stages.elastic.source.legality import illegalities, unknown_names
from edgetune.stages.elastic.source.parse import parse
from edgetune.stages.elastic.source.parser_text import for_compiler
from edgetune.stages.elastic.source.syntax import (
    CONTAINERS,
    Edit,
    Node,
    above,
    around,
    find,
    has,
    line_mark,
    spliced,
    text_of,
    walk,
    words,
)
from edgetune.stages.elastic.source.templates import Instances, instantiated
from edgetune.stages.elastic.source.translation_unit import ITEMS, ParsedFile, ParsedKernel
from edgetune.stages.elastic.source.undefined_functions import undefined_functions
from edgetune.stages.elastic.source.variants import (
    BlockForms,
    anchor,
    block_variants,
    generated_name,
    grid_form,
    inserted,
)

_BOM = "\ufeff"
_ITEMS = (*ITEMS, "template_instantiation", "using_declaration")
_OF_THE_HOST = re.compile(
    r"cu(blas|dnn|fft|rand|sparse|solver)(?!_kernel)\w*\.h|cooperative_groups(/\w+)?\.h|cuda_(pipeline|awbarrier)\w*\.h"
    r"|nvToolsExt\.h|nccl\.h|nvml\.h|nvrtc\.h|mpi\.h|omp\.h|windows\.h|cuda_profiler_api\.h|cuda_gl_interop\.h|cudaGL\.h"
    r"|(sys/\w+|unistd|getopt|pthread|sched|signal|errno|locale)\.h"
)
"""Headers of libraries and systems that host code uses; no elastic kernel uses anything of them."""
_OF_FFT = ("cufft.h", "cufftXt.h")
"""Headers with complex numbers, which kernels need only if they use these."""
_OF_COPIES = re.compile(r"cuda_pipeline\w*\.h")
_OF_STD = re.compile(r"(?!c(math|stdint|float|limits)$)[a-z_]+")
"""Headers of C++, which kernels need only if they say ``std``."""
_NAMING = ("namespace_alias_definition", "using_declaration")
_SPACE = "namespace_definition"
_MOST_WORDS = 5
"""Unknown names that a header's absence is explained with."""
_USABLE = frozenset(
    ("const", "constexpr", "__device__", "__constant__", "__shared__", "__managed__", "texture", "surface")
)
"""Words before variables that code for the GPU can use."""


def transform(
    text: str,
    name: str,
    folders: Sequence[Path] = (),
    launched: Collection[str] = (),
    asked: Sequence[str] = (),
    *,
    persistent: bool = False,
    only: str | None = None,
) -> TransformResult:
    """Make the kernels of a source file elastic.

    Args:
        text: CUDA C.
        name: Of the file, for messages and for the lines that compilers show.
        folders: Folders of headers, in the order of the search.
        launched: Kernels that the device source keeps even where they have no forms.
        asked: Instances of template kernels besides those that the file uses: ``kernel<float, 16>``.
        persistent: Whether each kernel gets a persistent form too, whose blocks take logical blocks from a counter.
        only: The one kernel whose forms are written; ``None``: those of all.

    Raises:
        InputError: the file has no kernel, is transformed already, or takes longer than the limit allows; or an
            instance is asked for that it does not have.
        DeviceError: tree-sitter is not installed.
    """
    if f"struct {STRUCT_NAME} {{" in text:
        raise InputError(
            f"{name} is transformed already: it holds elastic forms", "transform the file that it was made from"
        )

    def alone(kernel: str) -> str:
        return transform(text, name, folders, (), asked, persistent=persistent, only=kernel).device

    with limits.bounded_cpu_time("source_seconds", f"reading {name}"):
        whole = with_headers(text.removeprefix(_BOM), name, folders)
        instances = instantiated(whole.text, name, asked)
        options = FormOptions(persistent, only)

        def made(copies: Instances) -> TransformResult:
            found = _transformed(parse(copies.text, name, folders), whole, launched, options)
            return copies.placed(found, name, whole.place)

        found = made(instances)
        useless = [each.kernel.name for each in found.kernels if not each.variants and each.kernel.name not in launched]
        fewer = instances.without(useless)
        if fewer is None:
            return replace(found, alone=alone)
        return replace(made(fewer), kernels=found.kernels, alone=alone)


def _transformed(
    source: ParsedFile, whole: WholeText, launched: Collection[str], options: FormOptions
) -> TransformResult:
    elastic, edits, kept = list[ElasticKernel](), list[Edit](), list[ParsedKernel]()
    for kernel in source.kernels:
        made, forms = _made(kernel, options)
        elastic.append(made)
        forms = forms if options.only in (None, kernel.name) else ""
        if forms or kernel.name in launched:
            kept.append(kernel)
        if forms:
            head = f"\n// Elastic forms of {kernel.name}, made by edgetune.\n{line_mark(1, generated_name(kernel))}"
            linkage = around(anchor(kernel), "linkage_specification")  # in which there are no templates
            forms = forms if linkage is None else f'extern "C++" {{\n{forms}}}\n'
            edits.append(inserted(kernel, for_compiler(with_library_words(head + forms))))
    edits = _merged(edits)
    device = _text(source, [*edits, *_without_host_code(source, kept)], options) if kept else ""
    written = _text(source, edits, options, whole)
    return TransformResult(written, tuple(elastic), (*source.notes, *_missing(source, elastic)), device)


def _missing(source: ParsedFile, elastic: Sequence[ElasticKernel]) -> Iterator[Refusal]:
    """Yield the headers that were not found, if a kernel is refused for a name or text that they might explain."""
    codes = {each.code for one in elastic for each in one.refusals} | {each.code for each in source.notes}
    names = ((*unknown_names(each), *(name for name, *_ in undefined_functions(each))) for each in source.kernels)
    words = dict.fromkeys(chain.from_iterable(names))
    if source.missing and codes & {"unknown-name", "undefined-function", "unparsable"}:
        shown = [*list(words)[:_MOST_WORDS], *["..."] * (len(words) > _MOST_WORDS)]
        for name, line in source.missing.items():
            yield refusal("header-missing", line, None, name=name, words=", ".join(shown) or "what cannot be read")


def _made(kernel: ParsedKernel, options: FormOptions) -> tuple[ElasticKernel, str]:
    """Return the elastic kernel, and the text of its forms."""
    against = illegalities(kernel)
    if any(each.level == "grid" for each in against):
        return ElasticKernel(kernel.kernel, refusals=against), ""
    forms = BlockForms(refusals=against) if against else block_variants(kernel, options)
    if not forms.grid:
        stuck = (*returns_before_barriers(kernel), *threads_apart(kernel))
        if stuck:
            return ElasticKernel(kernel.kernel, refusals=(*stuck, *forms.refusals)), ""
    variants = (Variant(grid_symbol(kernel.name), "grid"), *forms.variants)
    if options.persistent:
        variants = (*variants, Variant(persistent_symbol(kernel.name), "persistent"))
    steps = (*macro_steps(kernel), *grid_steps(kernel, options), *forms.steps)
    text = forms.text if forms.grid else grid_form(kernel, options) + forms.text
    return ElasticKernel(kernel.kernel, variants, forms.refusals, steps), text


def _text(source: ParsedFile, edits: Sequence[Edit], options: FormOptions, whole: WholeText | None = None) -> str:
    """Return the original with the forms in it; byte for byte the original where there are none.

    With ``whole``, headers without forms are included again.
    """
    place = source.expanded.original
    moved = [Edit(place(each.start), place(each.end), each.text) for each in edits]
    included_again = [] if whole is None else whole.restored([each.start for each in moved])
    text = spliced(source.text, [*moved, *included_again])
    if not edits:
        return text
    structs = f"{STRUCT}\n{CONTROL_STRUCT}" if options.persistent else STRUCT
    return f"{structs}\n{line_mark(1, source.name)}{text}"


def _merged(edits: Sequence[Edit]) -> list[Edit]:
    """Return edits of which no two are at one place: kernels of one unnamed namespace have their forms behind it."""
    found: dict[int, Edit] = {}
    for edit in edits:
        before = found.get(edit.start)
        text = edit.text if before is None else before.text.rstrip("\n") + edit.text
        found[edit.start] = Edit(edit.start, edit.end, text)
    return list(found.values())


def _without_host_code(source: ParsedFile, kernels: Collection[ParsedKernel]) -> list[Edit]:
    """Return the edits that leave nothing in a file but kernels, what they reach, and directives."""
    kept = {(each.function.outer.start_byte, each.function.outer.end_byte) for each in kernels}
    known: set[str] = set()
    for piece in (piece for kernel in kernels for piece in kernel.reach):
        known |= set(piece.tokens)
        spaces = [] if piece.node is None else [each for each in above(piece.node) if each.type == _SPACE]
        known |= {word for each in spaces for word in words(text_of(each).partition("{")[0])}
        if piece.node is not None and piece.file == source.name:
            kept.add((piece.node.start_byte, piece.node.end_byte))
    left_out = [
        each
        for each in _items(source.tree.root_node)
        if _host_variable(each, source) or not _stays(each, source, kept, known)
    ]
    if source.expanded.grouped:  # the originals name the library
        left_out = [each for each in left_out if each.type not in _NAMING or LIBRARY not in text_of(each)]
    spans = [(each.start_byte, each.end_byte) for each in left_out]
    for each in find(source.tree.root_node, "preproc_include"):
        wanted = included(each)
        unused = _OF_THE_HOST.fullmatch(wanted) or (_OF_STD.fullmatch(wanted) and "std" not in known)
        unused = unused or (wanted.startswith("cuda/") and "cuda" not in known)
        unused = unused and not (source.expanded.grouped and wanted in HEADERS)
        unused = unused and not (wanted in _OF_FFT and any(map(complex_number, known)))
        unused = unused and not (_OF_COPIES.fullmatch(wanted) and known & THREAD_COPIES)
        if (unused or wanted in source.missing) and not any(start <= each.start_byte < end for start, end in spans):
            left_out.append(each)
    amid = source.expanded.amid  # a node that a macro made in part has no place of its own in the original
    return [
        Edit(each.start_byte, each.end_byte, "\n" * text_of(each).count("\n"))
        for each in left_out
        if not amid(each.start_byte) and not amid(each.end_byte)
    ]


def _items(node: Node) -> Iterator[Node]:
    """Yield the definitions at the level of files and namespaces; a linkage of one definition is one with it."""

    def whole(here: Node) -> bool:
        listed = any(each.type == "declaration_list" for each in here.named_children)
        return here.type in _ITEMS or (here.type == "linkage_specification" and not listed)

    return filter(whole, walk(node, lambda here: here.type in CONTAINERS and not whole(here)))


def _stays(item: Node, source: ParsedFile, kept: Collection[tuple[int, int]], known: Collection[str]) -> bool:
    """Return whether a definition is reached, holds one that is, or cannot be taken out in one piece."""
    if any(item.start_byte <= start and end <= item.end_byte for start, end in kept):
        return True
    if item.type == "using_declaration":
        of_language = {"using", "namespace", "std", *(["nvcuda"] if "wmma" in known else [])}
        return set(words(text_of(item))) - of_language <= set(known)
    place = source.expanded.original
    text = source.text[place(item.start_byte) : place(item.end_byte)].decode("utf-8", "replace")
    return len(re.findall(r"^[ \t]*#[ \t]*if", text, re.M)) != len(re.findall(r"^[ \t]*#[ \t]*endif", text, re.M))


def _host_variable(item: Node, source: ParsedFile) -> bool:
    """Return whether a declaration makes variables that no code for the GPU can use.

    A kernel that gives the name of such a variable to one of its own reaches it all the same.
    """
    if item.type != "declaration" or has(item, "function_declarator"):
        return False
    before = {word for child in item.children if "declarator" not in child.type for word in words(text_of(child))}
    return not before & (_USABLE | set(source.macros))

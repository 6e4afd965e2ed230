"""Makes the kernels of a file elastic.

text -> parse -> grounds -> refused: left as it is
                         -> grid form, block forms behind the original
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from edgetune import limits
from edgetune.elastic.abi import STRUCT, STRUCT_NAME, grid_symbol
from edgetune.elastic.kernel import ElasticKernel, TransformResult, Variant
from edgetune.elastic.source.align_attribute import for_compiler
from edgetune.elastic.source.block_legality import returns_before_barriers
from edgetune.elastic.source.block_level import BlockForms, block_variants
from edgetune.elastic.source.device_code import without_host_code
from edgetune.elastic.source.diagnostics import refusal
from edgetune.elastic.source.edits import Edit, line_mark, spliced
from edgetune.elastic.source.explain import grid_steps, macro_steps
from edgetune.elastic.source.grid_level import anchor, generated_name, grid_form, inserted
from edgetune.elastic.source.legality import illegalities
from edgetune.elastic.source.parse import parse
from edgetune.elastic.source.translation_unit import ParsedFile, ParsedKernel
from edgetune.elastic.source.warp_divergence import threads_apart
from edgetune.errors import InputError

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

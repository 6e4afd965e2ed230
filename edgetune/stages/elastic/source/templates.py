"""Instantiates template kernels: writes a copy of each with its arguments in place of its parameters.

    template <typename T, int N> __global__ void scale(T *x) { if (threadIdx.x < N) x[threadIdx.x] *= T(2); }
    scale<float, 16><<<1, 64>>>(x);

    __global__ void scale_float_16(float *x) { if (threadIdx.x < 16) x[threadIdx.x] *= float(2); }     at the end

The arguments come from launches in the file, also from those in template functions whose own arguments are known, from
explicit instantiations, and from the user. A copy is an ordinary kernel: what is read, transformed and checked is the
copy. It stands at the end of the file, where everything that its template can use is known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from edgetune.choices import nearest
from edgetune.errors import InputError
from edgetune.stages.elastic.kernel import TransformResult
from edgetune.stages.elastic.sample_launches import instance_symbol
from edgetune.stages.elastic.source.directives import directives, without_guard
from edgetune.stages.elastic.source.parser_text import for_parser
from edgetune.stages.elastic.source.places import Place, placed
from edgetune.stages.elastic.source.syntax import (
    CLASSES,
    CONDITIONS,
    Node,
    above,
    around,
    between_commas,
    child,
    find,
    line_mark,
    line_of,
    listed,
    replaced,
    spliced,
    text_of,
    tree_of,
    walk,
    words,
)
from edgetune.stages.elastic.source.template_arguments import edits_for, meant
from edgetune.stages.elastic.source.translation_unit import function_declarator, leading_words, name_parts

_MOST = 64
"""Instances that are made of one file."""
_HEAD_LINES = 3
_ASKED = re.compile(r"\s*([A-Za-z_][\w:]*)\s*<(.*)>\s*", re.DOTALL)
_NO_CHANGE = re.compile(r"#\s*(line\b|pragma\b(?!.*_macro))")
"""Directives that change no macro."""

Use = tuple[str, tuple[str, ...]]
"""A template's name and its arguments."""


@dataclass(frozen=True, slots=True)
class _Template:
    """A function template; also a class template, or a member of one that is defined outside of it.

    Args:
        outer: Its ``template_declaration``.
        function: Its ``function_definition``, or the class.
        parameters: Names of its parameters, each with its default argument.
    """

    outer: Node
    function: Node
    parameters: Mapping[str, str | None]

    @property
    def kernel(self) -> bool:
        """Whether it is launched."""
        return "__global__" in leading_words(self.function)


@dataclass(frozen=True, slots=True)
class _Instance:
    """A copy of a template kernel.

    Args:
        symbol: Its name.
        template: That of the template.
        line: Of the template.
        text: The copy, behind ``_HEAD_LINES`` lines of comment and directive.
    """

    symbol: str
    template: str
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Instances:
    """A source text and the copies that are to stand at its end.

    Args:
        source: CUDA C.
        made: The copies.
        tail: The end of the source that stays behind them: the ``#endif`` of its include guard.
    """

    source: str
    made: Sequence[_Instance] = ()
    tail: str = ""

    @property
    def text(self) -> str:
        """The source with the copies."""
        before = self.source.removesuffix(self.tail)
        return "".join([before, *(each.text for each in self.made), self.tail])

    def without(self, symbols: Sequence[str]) -> Instances | None:
        """Return the source without these copies; ``None`` if there are none of them."""
        left = [each for each in self.made if each.symbol not in symbols]
        return replace(self, made=left) if len(left) < len(self.made) else None

    def placed(self, found: TransformResult, name: str, place: Place) -> TransformResult:
        """Return the result with lines of templates instead of those of their copies, and without copied templates.

        Args:
            found: Of the text with the copies.
            name: Of the file.
            place: Of a line of the source.
        """
        templates = {each.template for each in self.made}
        kernels = [
            one
            for one in found.kernels
            if one.kernel.name not in templates or all(each.code != "template" for each in one.refusals)
        ]
        return placed(replace(found, kernels=tuple(kernels)), name, lambda line: place(self._line(line)))

    def _line(self, line: int) -> int:
        """Return the line of the template for a line of a copy; that of the source as it is."""
        first = begin = self.source.removesuffix(self.tail).count("\n") + 1
        for each in self.made:
            lines = each.text.count("\n")
            if begin < line <= begin + lines:
                return each.line + line - begin - _HEAD_LINES
            begin += lines
        return line if line <= first else line - (begin - first)


def instantiated(text: str, name: str, asked: Sequence[str] = ()) -> Instances:
    """Return a source text with copies of its template kernels.

    Args:
        text: CUDA C.
        name: Of the file, for compilers and messages.
        asked: Instances besides those that the file itself uses: ``kernel<float, 16>``.

    Raises:
        InputError: an asked instance names no template kernel of the file, or has too few or too many arguments.
    """
    if "template" not in text and not asked:
        return Instances(text)
    source = text.encode("utf-8", "surrogateescape")
    bare, tail = _without_guard(source)
    root = tree_of(for_parser(bare)).root_node
    templates = _templates(root)
    uses = [*_uses(root, templates, {}), *_uses_in_classes(root, templates)]
    uses += [_asked(words, templates, name) for words in asked]
    taken, found = set(words(text)), list[_Instance]()
    movable = cache(lambda name: _movable(templates[name], root))
    for place, use in enumerate(uses):  # which grows meanwhile
        if use in uses[:place] or place >= _MOST:
            continue
        template = templates[use[0]]
        bound = _bound(template, use[1])
        if bound is None or not template.kernel:
            uses += [] if bound is None else _uses(template.function, templates, bound)
        elif movable(use[0]):
            symbol = instance_symbol(" ".join([use[0], *use[1]]))
            if symbol in taken:
                continue
            taken.add(symbol)
            line = line_of(template.function)
            copy = _copy(template, bound, symbol, source)
            written = ", ".join(use[1])
            head = f"\n// {use[0]}<{' '.join(written.split())}>, instantiated by edgetune.\n{line_mark(line, name)}"
            found.append(_Instance(symbol, use[0], line, f"{head}{copy}\n"))
    return Instances(text, found, tail)


def _without_guard(source: bytes) -> tuple[bytes, str]:
    """Return a source without its include guard, positions unchanged, and its end from the guard's ``#endif`` on."""
    found = without_guard(source)
    if found is None or found[1] is None:
        return source, ""
    end = max(each.start for each in directives(source) if each.word == b"endif")
    return found[0], source[end:].decode("utf-8", "surrogateescape")


def _templates(root: Node) -> dict[str, _Template]:
    """Return the function templates of a file by name; those of several of one name are left out."""
    found: dict[str, list[_Template]] = {}
    for outer in find(root, "template_declaration"):
        function = next((each for each in outer.named_children if each.type == "function_definition"), None)
        given = outer.child_by_field_name("parameters")
        if function is None or given is None or function_declarator(function) is None:
            continue
        parts, parameters = name_parts(function), _parameters(given)
        if len(parts) == 1 and parameters is not None:
            found.setdefault(parts[0], []).append(_Template(outer, function, parameters))
        elif parts:
            found.setdefault(parts[-1], []).extend([_Template(outer, function, {})] * 2)
    return {name: some[0] for name, some in found.items() if len(some) == 1}


def _parameters(given: Node) -> dict[str, str | None] | None:
    """Return the parameters of a template with their defaults; ``None`` for packs and templates of templates."""
    found: dict[str, str | None] = {}
    for each in listed(given):
        if "variadic" in each.type or "template" in each.type:
            return None
        default = each.child_by_field_name("default_type") or each.child_by_field_name("default_value")
        names = [
            name for name in find(each, "identifier", "type_identifier") if default is None or _before(name, default)
        ]
        if not names:
            return None
        found[text_of(names[-1])] = None if default is None else text_of(default)
    return found


def _before(one: Node, other: Node) -> bool:
    return bool(one.end_byte <= other.start_byte)


def _uses(node: Node, templates: Mapping[str, _Template], bound: Mapping[str, str]) -> Iterator[Use]:
    """Yield the templates that code names with arguments; in a template, with those that ``bound`` has for its own."""
    inside = node.type in ("function_definition", *CLASSES)
    for each in walk(node, lambda here: inside or here.type != "template_declaration"):
        if each.type != "template_function" or not {"call_expression", "function_declarator"} & {
            of.type for of in above(each, node)
        }:
            continue
        name, given = each.child_by_field_name("name"), each.child_by_field_name("arguments")
        if name is None or given is None or text_of(name) not in templates:
            continue
        arguments = [meant(argument, bound) for argument in listed(given)]
        if None not in arguments:
            yield text_of(name), tuple(filter(None, arguments))


def _uses_in_classes(root: Node, templates: Mapping[str, _Template]) -> Iterator[Use]:
    """Yield the templates that class templates and their members name, for the arguments that the file has for these.

    ``template class Pricing<float>;`` and ``Pricing<float> pricing;`` give the arguments.
    """
    classes: dict[str, list[_Template]] = {}
    for outer in find(root, "template_declaration"):
        given, inner = outer.child_by_field_name("parameters"), outer.named_children[-1]
        parameters = None if given is None else _parameters(given)
        declarator = function_declarator(inner) if inner.type == "function_definition" else None
        member = child(declarator, "declarator")
        named = child(inner, "name") if member is None else child(member, "scope", "name")
        if parameters and named is not None and inner.child_by_field_name("body") is not None:
            classes.setdefault(text_of(named), []).append(_Template(outer, inner, parameters))
    for each in walk(root, lambda here: here.type != "template_declaration"):
        name, given = each.child_by_field_name("name"), each.child_by_field_name("arguments")
        if each.type not in ("template_type", "template_function") or name is None or given is None:
            continue
        for part in classes.get(text_of(name), ()):
            arguments = [meant(argument, {}) for argument in listed(given)]
            bound = None if None in arguments else _bound(part, list(filter(None, arguments)))
            yield from () if bound is None else _uses(part.function, templates, bound)


def _asked(text: str, templates: Mapping[str, _Template], name: str) -> Use:
    kernels = [each for each, template in templates.items() if template.kernel]
    wanted = _ASKED.fullmatch(text)
    if wanted is None:
        raise InputError(f"--instantiate {text!r} is no instance", "write it as in C++: 'kernel<float, 16>'")
    if wanted[1] not in kernels:
        raise InputError(f"--instantiate: {name} has no template kernel {wanted[1]!r}", nearest(wanted[1], kernels))
    use = wanted[1], tuple(filter(None, (each.strip() for each in between_commas(wanted[2], "<([", ">)]"))))
    if _bound(templates[wanted[1]], use[1]) is None:
        parameters = ", ".join(templates[wanted[1]].parameters)
        raise InputError(f"--instantiate: {text} does not fit {wanted[1]}<{parameters}>", "give an argument for each")
    return use


def _bound(template: _Template, arguments: Sequence[str]) -> dict[str, str] | None:
    """Return the argument of each parameter, defaults included; ``None`` if one has none, or there are too many."""
    if len(arguments) > len(template.parameters):
        return None
    bound: dict[str, str] = {}
    for place, (name, default) in enumerate(template.parameters.items()):
        argument = arguments[place] if place < len(arguments) else default
        if argument is None:
            return None
        bound[name] = argument
    return bound


def _movable(template: _Template, root: Node) -> bool:
    """Return whether a copy at the end of the file means the same: under no ``#if``, and with the same macros."""
    if around(template.outer, *CONDITIONS, *CLASSES) is not None:
        return False
    used = set(words(text_of(template.outer)))
    later = find(root, "preproc_def", "preproc_function_def", "preproc_call")
    changed = {
        word
        for each in later
        if each.start_byte >= template.outer.end_byte and not _NO_CHANGE.match(text_of(each))
        for word in words(text_of(each))[:3]
    }
    hidden = {
        word
        for each in find(root, "preproc_def", "preproc_function_def")
        for name in each.children_by_field_name("name")
        if text_of(name) in used
        for value in each.children_by_field_name("value")
        for word in words(text_of(value))
    }
    return not used & changed and not hidden & template.parameters.keys()


def _copy(template: _Template, bound: Mapping[str, str], symbol: str, source: bytes) -> str:
    """Return the kernel with arguments for parameters, in the namespaces of its template, on as many lines."""
    function = template.function
    declarator = function_declarator(function)
    assert declarator is not None
    name = declarator.child_by_field_name("declarator")
    assert name is not None
    start, end = int(function.start_byte), int(function.end_byte)
    copy = spliced(source[start:end], [*edits_for(function, bound), replaced(name, symbol)], start)
    for space in above(template.outer):
        if space.type == "namespace_definition":
            copy = f"namespace {''.join(map(text_of, space.children_by_field_name('name')))} {{ {copy} }}"
    return copy

"""Artifacts as YAML documents, whose dataclass declares every key, type and limit."""

from __future__ import annotations

import dataclasses
import json
import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from edgetune.artifacts.artifact import Artifact, Raw
from edgetune.artifacts.formats import checked_values, json_document
from edgetune.artifacts.header import Header
from edgetune.artifacts.kinds import Format
from edgetune.artifacts.yaml_document import BlockMapping, dump_value, dump_yaml, plain
from edgetune.choices import nearest
from edgetune.errors import InputError

if TYPE_CHECKING:
    from pydantic import ValidationError

Noun = TypeVar("Noun")
STRICT: Mapping[str, Any] = {"extra": "forbid", "allow_inf_nan": False}
"""The ``__pydantic_config__`` of documents: a key that is not known is an error."""


def without_unit(field: str) -> str:
    """Return the key of a quantity, which is written with its unit: ``deadline`` for ``deadline_s``."""
    return re.sub("_(s|bytes)$", "", field)


WITH_UNITS: Mapping[str, Any] = {**STRICT, "alias_generator": without_unit}
"""The same of documents whose quantities are written with units."""


class Document(Artifact):
    """An artifact of keys and values."""

    __slots__ = ()

    __pydantic_config__: ClassVar[Mapping[str, Any]] = STRICT
    EXAMPLE: ClassVar[str]
    """Where a right one can be seen, for hints."""

    @classmethod
    def read(cls: type[Noun], raw: Raw, *, name: str) -> Noun:
        """Return the validated document.

        Raises:
            InputError: a key is unknown or missing, a value has the wrong type, or a number is impossible.
        """
        example: str = cls.EXAMPLE  # type: ignore[attr-defined]
        header = dataclasses.asdict(Header.of(stated(raw.head), name=name))
        return validated({"header": header, **raw.body}, cls, name=name, example=example)

    def document(self) -> dict[str, Any]:
        """Return the keys and values in the order of the file."""
        raise NotImplementedError

    def keys(self, *fields: str) -> dict[str, Any]:
        """Return the head and the keys of a document that people write: ``fields``, in them no defaults."""
        head = {key: value for key, value in head_of(self.header).items() if value}
        dumped = partial(_adapter(type(self)).dump_python, self, mode="json", by_alias=True)
        body = {**dumped(include=set(fields)), **dumped(exclude_defaults=True)}
        keys = map(without_unit, fields)
        return {**head, **{key: body[key] for key in keys if body[key] is not None}}

    def __str__(self) -> str:
        """Return the file's text, for ``print``."""
        return self.to_bytes().decode()

    def to_bytes(self, form: Format | None = None) -> bytes:
        """Return the file's bytes, by default YAML."""
        return json_document(self.document()) if form == "json" else dump_yaml(self.document()).encode()

    def to_arrow(self) -> Any:
        """Return a ``pyarrow.Table`` of two columns: each key with the keys above it, and its value as YAML."""
        import pyarrow as pa

        found = dict(_flat(plain(self.document()), ()))
        return pa.table({"key": list(found), "value": [dump_value(value) for value in found.values()]})


def _flat(value: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _flat(item, (*path, key))
    else:
        yield ".".join(path), value


def stated(head: Mapping[str, Any]) -> dict[str, Any]:
    """Return the head of a document, which may be incomplete in a file written by hand."""
    return {"created": "unknown", "tool": "unknown", **head}


def head_of(header: Header) -> dict[str, Any]:
    """Return the head of a document to write, its mappings one key per line."""
    written = {key: value for key, value in plain(header).items() if key != "command" or value}
    return {key: BlockMapping(value) if isinstance(value, dict) else value for key, value in written.items()}


def present(value: Any) -> Any:
    """Return a mapping without its empty keys, at any depth."""
    if not isinstance(value, dict):
        return value
    return {key: present(item) for key, item in value.items() if item is not None}


def validated(document: Mapping[str, Any], kind: type[Noun], *, name: str, example: str) -> Noun:
    """Return the dataclass that a document describes.

    Args:
        document: Keys and values.
        kind: The dataclass, with ``__pydantic_config__``.
        name: What messages call the document.
        example: A source of valid documents, for the hint of a missing key.

    Raises:
        InputError: a key is unknown or missing, a value has the wrong type, or a number is impossible.
    """
    from pydantic import ValidationError

    checked_values(document, name=name)
    try:
        # through JSON: in its strict mode a mapping is a dataclass and a list is a tuple, yet "16" is no number
        noun: Noun = _adapter(kind).validate_json(json.dumps(document), strict=True)
    except ValidationError as error:
        raise _why_invalid(error, document, kind, name=name, example=example) from None
    except (TypeError, ValueError) as error:
        what = f"{name} is not a {kind.__name__.lower()}: {error}"
        raise InputError(what, "use texts, numbers, lists and mappings only") from None
    return noun


def _made(kind: Any) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


_adapter: Callable[[Any], Any] = cache(_made)


def named(entries: Any, short: str, *, name: str, key: str) -> list[dict[str, Any]]:
    """Return the entries of a mapping as a list in which each has its key as its name.

    Args:
        entries: The mapping; a value that is no mapping is that of the key ``short``.
        short: See ``entries``.
        name: What messages call the document.
        key: The key of the mapping.

    Raises:
        InputError: it is no mapping.
    """
    if not isinstance(entries, Mapping):
        raise InputError(f"{name}: {key} is {entries!r}", f"{key} is a mapping: write a name and what it stands for")
    found = []
    for each, said in entries.items():
        said = said if isinstance(said, Mapping) else {short: said}  # noqa: PLW2901
        if "name" in said:
            raise InputError(f"{name}: unknown key '{key}.{each}.name'", "its key is its name: leave it out")
        found.append({"name": each, **said})
    return found


def _why_invalid(
    error: ValidationError, document: Mapping[str, Any], kind: type, *, name: str, example: str
) -> InputError:
    """Return the error that names an invalid key; ``example`` names a source of valid documents.

    Unknown keys go first, since a key that is missing may be misspelled. For a value of a union type, the member whose
    validation got furthest determines the error.
    """
    errors = error.errors(include_url=False)
    errors.sort(key=lambda each: each["type"] not in _UNKNOWN)
    paths = [_path_there(each["loc"], document) for each in errors]
    within = [place for place, path in enumerate(paths) if path[: len(paths[0])] == paths[0]]
    chosen = max(within, key=lambda place: len(paths[place]))
    found, path = errors[chosen], paths[chosen]
    key = _dotted(path, document)
    if found["type"] in _UNKNOWN:
        alias = kind.__pydantic_config__.get("alias_generator", str)  # type: ignore[attr-defined]
        known = _keys(kind, path[:-1], alias)
        hint = nearest(str(path[-1]), known, listed=f"known here: {', '.join(known)}")
        return InputError(f"{name}: unknown key {key!r}", hint)
    if found["type"] == "missing":
        return InputError(f"{name} has no {_dotted((*path, found['loc'][-1]), document)}", example)
    if found["type"] == "quantity":
        return InputError(f"{name}: {key} {found['msg']}", found["ctx"]["hint"])
    hint = re.sub("^(Input should be|Value error,)", f"{key} must be", found["msg"])
    if found["type"] == "string_type" and isinstance(found["input"], bool | int | float | None):
        hint = f"{key} is a text: quote a name such as 'no' or '2024', and write a quantity with its unit, e.g. 80ms"
    return InputError(f"{name}: {key} is {found['input']!r}", hint)


_UNKNOWN = ("unexpected_keyword_argument", "extra_forbidden")


def _path_there(loc: tuple[str | int, ...], document: Any) -> tuple[str | int, ...]:
    """Return the keys and indices in an error's location, without the names of union members."""
    path: list[str | int] = []
    for part in loc:
        try:
            document = document[part]
        except (KeyError, IndexError, TypeError):
            continue
        path.append(part)
    return tuple(path)


def _keys(hint: Any, path: Sequence[str | int], alias: Callable[[str], str]) -> list[str]:
    """Return the known keys of a mapping in a document; ``alias`` returns the key of a field."""
    arguments = [each for each in typing.get_args(hint) if each not in (str, type(None))]
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        return next(keys for each in arguments if (keys := _keys(each, path, alias)))
    if dataclasses.is_dataclass(hint):
        hints = {alias(key): each for key, each in typing.get_type_hints(hint, include_extras=True).items()}
        fields = [alias(field.name) for field in dataclasses.fields(hint) if field.name != "header"]
        return _keys(hints[str(path[0])], path[1:], alias) if path else fields
    return _keys(arguments[-1 if typing.get_origin(hint) is not tuple else 0], path[1:], alias) if arguments else []


def _dotted(path: Sequence[str | int], document: Any) -> str:
    """Return a path in words: an entry of a list by its name, where it has one."""
    words: list[str] = []
    for part in path:
        try:
            document = document[part]
        except (KeyError, IndexError, TypeError):
            document = None
        named = isinstance(part, int) and isinstance(document, Mapping) and isinstance(document.get("name"), str)
        words.append(document["name"] if named else str(part))
    return ".".join(word for word in words if word != "header")

"""Artifacts as YAML documents, whose dataclass declares every key, type and limit."""

from __future__ import annotations

import dataclasses
import json
import math
import types
import typing
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar

from edgetune.artifacts.artifact import Artifact, Raw
from edgetune.artifacts.columns import Limit
from edgetune.artifacts.header import Header
from edgetune.artifacts.json_format import checked_values, json_document
from edgetune.artifacts.kinds import Format
from edgetune.artifacts.plain import plain
from edgetune.artifacts.yaml_document import BlockMapping, dump_value, dump_yaml
from edgetune.choices import nearest
from edgetune.errors import InputError

if TYPE_CHECKING:
    from pydantic import ValidationError

Noun = TypeVar("Noun")


class Document(Artifact):
    """An artifact of keys and values."""

    __slots__ = ()

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
        kind: The dataclass.
        name: What messages call the document.
        example: A source of valid documents, for the hint of a missing key.

    Raises:
        InputError: a key is unknown or missing, a value has the wrong type, or a number is impossible.
    """
    from pydantic import TypeAdapter, ValidationError

    check(document, kind, (), name=name)
    checked_values(document, name=name)
    try:
        # through JSON: in its strict mode a mapping is a dataclass and a list is a tuple, yet "16" is no number
        return TypeAdapter(kind).validate_json(json.dumps(document), strict=True)
    except ValidationError as error:
        raise _why_invalid(error, document, name=name, example=example) from None
    except (TypeError, ValueError) as error:
        what = f"{name} is not a {kind.__name__.lower()}: {error}"
        raise InputError(what, "use texts, numbers, lists and mappings only") from None


def _why_invalid(error: ValidationError, document: Mapping[str, Any], *, name: str, example: str) -> InputError:
    """Return the error that names the first invalid key; ``example`` names a source of valid documents.

    For a value of a union type, the member whose validation got furthest determines the error.
    """
    errors = error.errors(include_url=False)
    paths = [_path_there(each["loc"], document) for each in errors]
    within = [place for place, path in enumerate(paths) if path[: len(paths[0])] == paths[0]]
    chosen = max(within, key=lambda place: len(paths[place]))
    found, path = errors[chosen], paths[chosen]
    if found["type"] == "missing":
        return InputError(f"{name} has no {_dotted((*path, found['loc'][-1]))}", example)
    key = _dotted(path)
    hint = found["msg"].replace("Input should be", f"{key} must be")
    if found["type"] == "string_type" and isinstance(found["input"], bool | int | float | None):
        hint = f"{key} is a text: quote a name such as 'no' or '2024', and write a quantity with its unit, e.g. 80ms"
    return InputError(f"{name}: {key} is {found['input']!r}", hint)


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


def check(value: Any, hint: Any, path: tuple[str | int, ...], *, name: str) -> None:
    """Refuse unknown keys and numbers beyond the limits of their fields, at any depth.

    A mapping of free keys (``Mapping[str, Any]``) is not checked; a mapping may replace a list of pairs.
    """
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        for kind in typing.get_args(hint):
            check(value, kind, path, name=name)
    elif typing.get_origin(hint) is Annotated:
        _check_limit(value, hint.__metadata__[0], path, name=name)
    elif isinstance(value, Mapping) and dataclasses.is_dataclass(hint):
        hints = typing.get_type_hints(hint, include_extras=True)
        known = [field.name for field in dataclasses.fields(hint)]
        for key, item in value.items():
            if key not in known:
                raise unknown_key(str(key), [each for each in known if each != "header"], path, name=name)
            check(item, hints[key], (*path, key), name=name)
    elif isinstance(value, Mapping) and len(pair := _pair_of(hint)) == 2:
        for key, item in value.items():
            check(item, pair[1], (*path, str(key)), name=name)
    elif isinstance(value, list) and typing.get_origin(hint) is tuple:
        for number, item in enumerate(value):
            called = item.get("name", number) if isinstance(item, Mapping) else number
            check(item, typing.get_args(hint)[0], (*path, called), name=name)


def _pair_of(hint: Any) -> tuple[Any, ...]:
    """Return the types of key and value of a mapping or of a list of pairs."""
    arguments = typing.get_args(hint)
    return typing.get_args(arguments[0]) if typing.get_origin(hint) is tuple else arguments


def _check_limit(value: Any, limit: Limit, path: tuple[str | int, ...], *, name: str) -> None:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return
    if not math.isfinite(value) or not limit.allows(value):
        hint = f"it must be a finite number {limit.rule}; leave it out where there is none"
        raise InputError(f"{name}: {_dotted(path)} is {value}", hint)


def unknown_key(key: str, known: list[str], path: tuple[str | int, ...], *, name: str) -> InputError:
    """Return the error for an unknown key; the hint names the nearest known one."""
    hint = nearest(key, known, listed=f"known here: {', '.join(known)}")
    return InputError(f"{name}: unknown key {_dotted((*path, key))!r}", hint)


def _dotted(path: tuple[str | int, ...]) -> str:
    return ".".join(str(part) for part in path if part != "header")
